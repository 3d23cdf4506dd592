"""Steps on the clock by what a profile measured: what is taken, what is left, what is refused."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hierarchies import InputError
from hierarchies.devices import device_named
from synth.ask.answers.training.simulated import SimulateReply
from synth.ask.identity.canonical import canonical_text
from synth.ask.planning import PlanQuestion, plan
from synth.ask.questions.question import parse_question
from synth.ask.table import judge
from synth.ask.training.profiles import ProfileQuestion, ProfileReply, profile
from synth.ask.training.simulated import SimulateQuestion, simulate_step
from synth.collective.ranking.request import Watcher
from synth.show.terminal.training.simulated import measured_share
from synth.step.profiles import (
    MeasuredEvent,
    Profile,
    ProfileEvent,
    list_events,
    profile_text,
    read_profile,
    trial,
)
from synth.step.profiles.profile import FORMAT, ProfileConditions
from synth.step.simulation import Sources
from synth.step.simulation.groups import GroupedOperations, find_scores, weight
from synth.step.simulation.predicting import group_operations, predict_step
from synth.step.simulation.sources import Rooflines

STEP = Path(__file__).parents[3] / "steps" / "mlp-tiny.step"
MLP = {"name": "mlp.step", "text": STEP.read_text()}
MEGATRON = "batch over data; weights over tensor as Megatron"
PLANS = (
    (MLP, "data=8; batch over data"),
    (MLP, "data=8; batch over data; zero=1"),
    ("gpt2-tiny", "data=4 tensor=2; batch over data; weights over tensor as Megatron"),
    (
        "gpt2-tiny",
        "data=2 tensor=4; batch over data; weights over tensor as Megatron; remat layers",
    ),
    ("gpt2-tiny", "data=4 pipe=2; batch over data; schedule 1f1b, 2 microbatches"),
)
ALIKE = len(PLANS) - 1
"""Plans whose equal events are in equal groups, so that rates say the same of them: but for the
last, whose stages update their own parameters."""
HERE = ProfileConditions("EPYC", 8, "NVIDIA H100 80GB HBM3", "torch", {"torch": "2.9.0"}, 1, 1)


@dataclass(frozen=True)
class Priced:
    """A step, its unprofiled answer, and its events with their seconds by rates."""

    question: Mapping[str, Any]
    answer: SimulateReply
    seconds: Mapping[str, float]
    events: Mapping[str, ProfileEvent]

    def profile(self, scale: float = 1.0, keep: Callable[[int], bool] = lambda at: True) -> Profile:
        rows = [
            MeasuredEvent(
                key, one.name, one.operations, one.flops, one.moved_bytes, scale * took, 0, 9
            )
            for at, (key, took) in enumerate(self.seconds.items())
            if keep(at)
            for one in [self.events[key]]
        ]
        return Profile(FORMAT, "m", "p", "f32", "2026-11-29", HERE, 1e-3, 0.01, tuple(rows))

    def by(self, found: Profile, **more: Any) -> SimulateReply:
        return run({**self.question, **more, "profile": text_of(found)})


def text_of(found: Profile) -> dict[str, str]:
    return {"name": "my.profile", "text": profile_text(found)}


def run(question: Mapping[str, Any]) -> SimulateReply:
    found: SimulateReply = judge("simulate").validate_python(
        simulate_step(parse_question(SimulateQuestion, dict(question)), Watcher()).body
    )
    return found


@cache
def priced(at: int) -> Priced:
    """What rates say of each event: operations have parts of their groups, by bytes."""
    model, plan = PLANS[at]
    if isinstance(model, str):
        pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
    given = {"model": model, "system": "dgx-h100:1", "plan": plan, "dtype": "float32"}
    question = parse_question(SimulateQuestion, given)
    found = question.planned(question.step())
    grouping = group_operations(found.plan, found.program, question.runtime)
    scores = find_scores(found.program, found.plan.parts)
    rooflines = Rooflines(device_named("H100 SXM5 80 GB"), scores)
    sources = Sources(lambda one: rooflines(one).seconds, lambda *_: 0.0, lambda *_: 0.0)
    told = (found.step, found.plan, found.program, sources, question.runtime)
    timed = predict_step(*told, grouping).run
    assert timed
    items = [item for same in grouping.known.values() for _, some in same for item, _ in some]
    items += [item for body in grouping.bodies.values() for item in body.items]
    seconds: dict[int, float] = {}
    for group in items:
        if isinstance(group, GroupedOperations):
            shares = [*map(weight, group.section.operations)]
            took = rooflines(group.section).seconds
            for one, share in zip(group.done, shares, strict=True):
                seconds[id(one)] = took * share / sum(shares)
    known: dict[str, list[float]] = defaultdict(list)
    kinds = {}
    for block, event in list_events("torch", found.step, found.program, found.plan.parts):
        if block.of:
            known[event.key].append(sum(seconds.get(id(one), 0.0) for one in block.of))
            kinds[event.key] = event
    if at < ALIKE:
        assert all(one == pytest.approx(some[0]) for some in known.values() for one in some)
    return Priced(
        given,
        run(given),
        {key: some[0] for key, some in known.items()},
        kinds,
    )


EVERY = pytest.mark.parametrize("at", range(len(PLANS)))


@pytest.mark.parametrize("at", range(ALIKE))
def test_a_profile_equal_to_the_rates_gives_the_answer_of_the_rates(at: int) -> None:
    one = priced(at)
    found = one.by(one.profile())
    assert found.compute_source == "measured"
    assert found.measured
    assert found.measured.share == pytest.approx(1.0)
    assert found.measured.kinds == found.measured.measured_kinds == len(one.seconds)
    same = {"compute_source", "measured", "interval", "files"}
    assert pytest.approx(_flat(found, same), rel=1e-9) == _flat(one.answer, same)


def _flat(answer: SimulateReply, but: set[str]) -> dict[str, Any]:
    """All numbers of an answer by their place."""
    found: dict[str, Any] = {}

    def walk(place: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{place}.{key}", inner)
        elif isinstance(value, list):
            for number, inner in enumerate(value):
                walk(f"{place}.{number}", inner)
        elif isinstance(value, int | float):
            found[place] = value

    walk("", answer.model_dump(mode="json", exclude=but))
    return found


@EVERY
def test_with_all_seconds_doubled_ranks_compute_twice_as_long(at: int) -> None:
    one = priced(at)
    before, found = one.by(one.profile()), one.by(one.profile(2.0))
    for mine, rank in zip(found.ranks, before.ranks, strict=True):
        assert mine.compute_seconds == pytest.approx(2 * rank.compute_seconds)


@EVERY
@pytest.mark.parametrize("every", [2, 3])
def test_measured_shares_are_shown_by_seconds_and_kinds(at: int, every: int) -> None:
    """They are three times as long, and all else as before: so the clock says how long they are."""
    one = priced(at)
    usual, answer = (
        one.by(one.profile(scale, lambda number: number % every == 0)) for scale in (1.0, 3.0)
    )
    before, after = (sum(rank.compute_seconds for rank in found.ranks) for found in (usual, answer))
    found, count = answer.measured, len(one.seconds)
    assert found
    assert (found.measured_kinds, found.kinds) == (-(-count // every), count)
    assert 0 < found.share < 1
    assert found.share == pytest.approx(1.5 * (after - before) / after)
    assert answer.compute_source == "roofline"
    assert measured_share(found) == (
        f"{found.share:.0%} of the local seconds are measured ({-(-count // every)} of {count}"
        " kinds of operations, my.profile); the rest is by the roofline"
    )


def test_one_rank_s_update_is_measured_on_every_rank() -> None:
    """What all stages do is computed by each of them."""
    one = priced(len(PLANS) - 1)
    found = one.by(one.profile()).measured
    assert found
    assert found.share == pytest.approx(1.0)


REFUSED = (
    ({"device": "NVIDIA A100-SXM4-80GB"}, r"where\.device: measured on NVIDIA A100-SXM4-80GB"),
    ({"device": "cpu"}, r"where\.processor: measured on EPYC, and the machine has H100"),
    ({"processes": 9}, r"where\.processes: 9 processes measured at once, on 8 devices"),
    ({"versions": {"torch": "1.13.1"}}, r"where\.versions\.torch: measured with torch 1\.13"),
)


@pytest.mark.parametrize(("where", "said"), REFUSED, ids=str)
def test_a_profile_of_another_machine_is_refused_before_anything_is_traced(
    where: dict[str, Any], said: str
) -> None:
    one = priced(0)
    other = replace(one.profile(), where=replace(HERE, **where))
    with pytest.raises(InputError, match=rf"my\.profile, {said}"):
        one.by(other)
    question = parse_question(SimulateQuestion, {**one.question, "profile": text_of(other)})
    with pytest.raises(InputError, match=rf"my\.profile, {said}"):
        question.check_early()


def test_a_profile_of_another_type_is_refused() -> None:
    one = priced(0)
    with pytest.raises(InputError, match=r"my\.profile, dtype: measured in bf16, and .* in f32"):
        one.by(replace(one.profile(), dtype="bf16"))


def test_the_text_of_a_profile_is_part_of_what_is_asked() -> None:
    one = priced(0)
    texts = {
        canonical_text(
            "simulate", parse_question(SimulateQuestion, {**one.question, "profile": text_of(some)})
        )
        for some in (one.profile(), one.profile(2.0))
    }
    assert len(texts) == 2


def test_plans_take_measured_seconds_where_they_are_simulated() -> None:
    """A plan of the answer is as simulate has it with the same profile; composed seconds stay."""
    pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
    one = priced(2)
    given = {"model": "gpt2-tiny", "system": "dgx-h100:1", "dtype": "float32", "k": 2}
    given |= {"batch": parse_question(SimulateQuestion, one.question).batch}
    given |= {"pin": "data=4 tensor=2 zero=0 microbatches=1 sequence=no bucket=no remat=no"}
    usual, found = (
        judge("plan").validate_python(
            plan(parse_question(PlanQuestion, given | more), Watcher()).body
        )
        for more in ({}, {"profile": text_of(one.profile(4.0))})
    )
    assert all(plan.measured is None for plan in usual.plans)
    first = found.plans[0]
    assert first.measured
    assert first.measured.share > 0.9  # where its vocabulary lies is another
    again = run(
        {
            **{key: given[key] for key in ("model", "system", "dtype")},
            "batch": given["batch"],
            "plan": first.plan,
            "placement": first.placement,
            "overlap": "all",
            "profile": text_of(one.profile(4.0)),
        }
    )
    assert again.measured == first.measured
    assert again.seconds == pytest.approx(first.seconds)
    composed = {plan.plan: plan.composed_seconds for plan in usual.plans}
    assert first.composed_seconds == composed[first.plan]


HOST = """
name = "host"
[device]
name = "{name}"
memory_GB_per_s = 10
source = "measured here"
[[level]]
name = "core"
count = 2
domain = "bus"
bandwidth_GB_per_s = 2
latency_us = 30
source = "measured here"
"""
CORE = """
name = "{name}"
memory_GB = 8
memory_GB_per_s = 10
multiprocessors = 1
tile = [16, 16]
launch_us = 5
[matrix_TFLOP_per_s]
f32 = 0.1
[source]
memory_GB = "measured here"
memory_GB_per_s = "measured here"
multiprocessors = "measured here"
tile = "measured here"
launch_us = "measured here"
matrix_TFLOP_per_s = "measured here"
"""


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["torch", "jax"])
def test_profiles_measure_the_local_work_of_a_step(
    runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the verb that measures to the one that simulates; drift of a busy machine aside."""
    for extra in ("jax", runtime):
        pytest.importorskip(extra, reason=f"needs {extra}, of the extra '{extra}'")
    monkeypatch.setattr(trial, "check_drift", lambda *_: None)
    given = {"model": "mlp-tiny", "unrolled": True, "dtype": "float32"}
    given |= {"plan": "data=2; batch over data; zero=1"}
    asked_for = parse_question(ProfileQuestion, {**given, "runtime": runtime, "samples": 5})
    reply = profile(asked_for, Watcher())
    measured: ProfileReply = judge("profile").validate_python(reply.body)
    [file] = measured.files
    steady = read_profile(re.sub(r'"drift": .*,', '"drift": 0.0,', file.text))
    name = steady.where.processor
    machine = {
        "system": {"name": "host.toml", "text": HOST.format(name=name)},
        "device": {"name": "core.toml", "text": CORE.format(name=name)},
    }
    found = run({**given, **machine, "profile": text_of(steady)})
    assert found.compute_source == "measured"
    assert found.measured
    assert found.measured.kinds == found.measured.measured_kinds == len(measured.events)
    assert found.measured.share == 1.0
    took = sum(row.times * (row.seconds or 0.0) for row in measured.events)
    assert found.ranks[0].compute_seconds == pytest.approx(took)
