"""A variable of one collective changes the others of a job: priced as NCCL would run them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

import pytest

from grammar import Collective, Goal
from hierarchies import Axis, System, load
from hierarchies.fabric import roles_of
from hierarchies.units import format_duration
from plain_text import printed
from synth.ask.answers.parts import AdvicePart
from synth.ask.answers.planning import PlanReply
from synth.ask.taking import job_gains
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.protocols import Protocol
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import price_of_line
from synth.collective.ranking.how_to_get import AdviceKind, seconds_as_advised
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Answer, DefaultComparison, Request
from synth.collective.ranking.settings import Way
from synth.collective.semantics.programs import Language
from synth.collective.workload.files import read_job
from synth.collective.workload.planner import JobPlan, plan_job
from synth.collective.workload.side_effects import SideEffect, seconds_under, ways_set
from synth.show.terminal.rankings import render_plan
from synth.show.terminal.verdict import verdict

SIZE = 2**26
TREE_LL: Mapping[str, Way] = {"all-reduce": ("tree", Protocol.LL)}
NVLS: Mapping[str, Way] = {"all-reduce": ("nvls_tree", Protocol.SIMPLE)}
OLD, NEW = "2.23.4", "2.24.3"


def machine(version: str, name: str = "dgx-a100:2") -> System:
    return replace(load(name), nccl=version)


def plain(system: System, goal: Goal) -> Answer:
    """The plain collective over the whole machine, as NCCL runs it by itself."""
    axis = Axis("data", system.devices)
    language = Language(1, goal=goal)
    asked = Request((axis,), ("data",), SIZE, 1, language, stripes=False)
    return answers(system, asked).answers[0]


def priced(system: System, answer: Answer, algorithm: Algorithm, protocol: Protocol) -> float:
    """The whole call by one algorithm and protocol, from the simulator's own lines."""
    reduction = answer.candidate.reduction
    roles = roles_of(reduction, tuple(range(len(reduction.tree.digits))), ())
    lines = Simulator(system).by(Collective(answer.goal.value), algorithm, roles)
    [line] = [line for line in lines if line.protocol is protocol]
    return price_of_line(answer.goal.value, line, SIZE).ticks / 1e12


@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_call_of_the_same_collective_takes_the_way_that_is_set(version: str) -> None:
    system = machine(version)
    answer = plain(system, Goal.ALL_REDUCE)
    if answer.gains:
        answer = replace(answer, runtime_estimate=answer.baseline_estimate)
    found = seconds_under(Simulator(system), answer, TREE_LL)
    assert found == pytest.approx(priced(system, answer, Algorithm.TREE, Protocol.LL), rel=1e-9)
    assert found != pytest.approx(answer.baseline_seconds, rel=1e-3) or (
        answer.defaults.chosen == "tree"
    )


def test_a_call_of_another_collective_changes_before_2_24_alone() -> None:
    """There it cannot go by a tree, so it goes by a ring, with the protocol that is set."""
    for version in (OLD, NEW):
        system = machine(version)
        answer = plain(system, Goal.ALL_GATHER)
        answer = replace(answer, runtime_estimate=answer.baseline_estimate)
        own = seconds_under(Simulator(system), answer, {})
        found = seconds_under(Simulator(system), answer, TREE_LL)
        assert own == pytest.approx(answer.baseline_seconds, rel=1e-9)
        ring = priced(system, answer, Algorithm.RING, Protocol.LL)
        assert found == pytest.approx(ring if version == OLD else own, rel=1e-9)
        assert ring != pytest.approx(own, rel=1e-3)


def test_a_call_that_nccl_cannot_make_so_is_refused_and_before_2_24_is_a_ring() -> None:
    """A machine without switches that reduce has no NVLS."""
    for version in (OLD, NEW):
        system = machine(version)
        answer = plain(system, Goal.ALL_REDUCE)
        answer = replace(answer, runtime_estimate=answer.baseline_estimate)
        found = seconds_under(Simulator(system), answer, NVLS)
        if version == NEW:
            assert found is None
        else:
            ring = priced(system, answer, Algorithm.RING, Protocol.SIMPLE)
            assert found == pytest.approx(ring, rel=1e-9)


@pytest.mark.parametrize("version", [OLD, NEW])
def test_no_variable_concerns_an_all_to_all(version: str) -> None:
    system = machine(version)
    answer = plain(system, Goal.ALL_TO_ALL)
    found = seconds_under(Simulator(system), answer, TREE_LL)
    assert found == pytest.approx(answer.baseline_seconds, rel=1e-9)


@pytest.mark.parametrize("name", ["dgx-h100:4", "dgx-a100:2", "p2-a100:4"])
def test_without_a_variable_an_answer_takes_the_seconds_that_it_states(name: str) -> None:
    """As run: a program whose ways no setting selects goes by NCCL's own choices, at any gain."""
    system = load(name)
    asked = Request((Axis("data", system.devices),), ("data",), SIZE, 4, Language(3))
    other: Mapping[str, Way] = {"broadcast": ("ring", Protocol.LL)}
    found = answers(system, asked).answers
    for answer in found:
        if any(price.what == "broadcast" for price in answer.prices):
            continue
        seconds = seconds_under(Simulator(system), answer, other)
        assert seconds == pytest.approx(seconds_as_advised(answer), rel=1e-9)


def test_an_answer_that_keeps_the_default_sets_nothing() -> None:
    answer = plain(machine(NEW), Goal.ALL_GATHER)
    assert not ways_set(replace(answer, runtime_estimate=answer.baseline_estimate))


LINE = "NCCL_ALGO=allreduce:Tree NCCL_PROTO=allreduce:LL"
JOB = """
name = "sums"
[axes]
data = 16
[[collective]]
name = "gradients"
request = "all-reduce"
over = ["data"]
bytes = "64MiB"
times = 4
[[collective]]
name = "norms"
request = "all-reduce"
over = ["data"]
bytes = "8KiB"
times = 100
hidden = 0.5
"""


@pytest.fixture(scope="module")
def plan() -> JobPlan:
    return plan_job(machine(NEW), read_job(JOB))


def reply(plan: JobPlan, after: float | None, gain: float) -> PlanReply:
    """The plan if gradients gain, by a setting that changes norms from 1 ms to ``after``."""
    effects = ((SideEffect(1, 1e-3, after),), ())
    found = PlanReply.of(replace(plan, side_effects=effects))
    first, second = found.entries
    answer = first.answer.model_copy(
        update={
            "against_default": DefaultComparison.FASTER,
            "proof": "proved",
            "advice": AdvicePart(by=AdviceKind.ENVIRONMENT, text=LINE),
            "runtime_seconds": first.answer.seconds,
            "worth_measuring": None,
        }
    )
    update = {"answer": answer, "default_exposed_seconds": first.exposed_seconds + gain}
    first = first.model_copy(update=update)
    still = {"worth_measuring": None}
    second = second.model_copy(update={"answer": second.answer.model_copy(update=still)})
    total = first.default_exposed_seconds + second.default_exposed_seconds
    return found.model_copy(update={"entries": [first, second], "default_exposed_seconds": total})


def test_the_cost_is_that_of_all_calls_of_a_step_that_compute_does_not_hide(plan: JobPlan) -> None:
    first, second = reply(plan, 3e-3, 1.0).entries
    [effect] = first.side_effects
    assert (effect.entry, effect.seconds, effect.seconds_with) == ("norms", 1e-3, 3e-3)
    assert effect.exposed_seconds == pytest.approx(100 * 0.5 * 2e-3)
    assert first.side_effect_seconds == pytest.approx(0.1)
    assert not second.side_effects
    assert "side_effects" not in second.model_dump(exclude_unset=True)


@pytest.mark.parametrize(
    ("after", "gain", "worth", "said"),
    [
        (3e-3, 1.0, True, "it gains 1 s a step, the others lose 100 ms"),
        (3e-3, 0.05, False, "it gains 50 ms a step, the others lose 100 ms: keep the default"),
        (999e-6, 0.05, True, "it gains 50 ms a step, the others gain 50 us"),
        (None, 1.0, False, "NCCL refuses calls that it has no such algorithm for"),
    ],
)
def test_a_setting_that_costs_the_others_more_than_it_gains_is_not_advised(
    plan: JobPlan, after: float | None, gain: float, worth: bool, said: str
) -> None:
    given = reply(plan, after, gain)
    first, second = given.entries
    assert first.is_worth_setting == worth
    assert job_gains(given) == worth
    cost = first.side_effect_seconds
    assert (cost == inf) == (after is None)
    if worth:
        expected = first.runtime_exposed_seconds + cost + second.runtime_exposed_seconds
    else:
        expected = first.default_exposed_seconds + second.runtime_exposed_seconds
    assert given.runtime_exposed_seconds == pytest.approx(expected)
    found = verdict(given)
    assert found
    assert bool(found.to_do) == worth
    assert any(said in line for line in found.lines)
    shown = " ".join(printed(render_plan(given)).split())
    assert said in shown
    changed = "refused" if after is None else format_duration(after)
    assert f"norms 1 ms -> {changed}" in shown
    assert "emit --target nccl (NCCL 2.31.2 or later)" in shown
    assert ("gradients: not " in shown) != worth
