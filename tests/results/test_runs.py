"""Whole steps run here: what is done with what was measured, and where it cannot be."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import chain
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from hierarchies import InputError
from results import record
from results.runs import __main__ as runs
from results.runs import cases, every, judged, predicted, ranks, replay, standins, worker
from results.runs.cases import DP, PIPELINES, RATES, Case, Model
from results.runs.orders import orders
from results.runs.predicted import FREE, Taken
from results.testbed.hosts.crew import TroubleError
from results.testbed.systems import built
from synth.step.sharding import parse_recipe

TINY = Model("mlp-tiny", (("layers", 4),), 8)
TINY_DECODER = Model("gpt2-tiny", (("layers", 4),), 8)


def priced(case: Case, a_byte: float, taken: Taken = FREE) -> Any:
    """On a network whose collectives take so long for each byte, an event a millisecond."""
    rate = case.megabits * 1e6 / 8
    kinds = ("all_reduce", "reduce_scatter", "all_gather", "send_receive")
    rows = [
        {
            "collective": kind,
            "members": 2,
            "size_bytes": size,
            "microseconds": [1e6 * (1e-5 + a_byte * size / rate)],
        }
        for kind in kinds
        for size in (2**at for at in range(8, 24))
    ]
    events = dict.fromkeys(case.planned.events, 1e-3)
    systems = predicted.calibrated(case.megabits, rows)
    return predicted.predicted(case, systems, events, taken)


def test_a_step_in_turn_is_its_compute_and_all_that_is_sent() -> None:
    for plan in (DP, f"{DP}; zero=2"):
        case = Case(TINY, plan, 100.0)
        found = priced(case, 1.0)
        assert found.busy_seconds == pytest.approx(1e-3 * len(case.planned.pairs))
        sent = sum(
            one.path.least(case.planned.plan.sizes) > 0 for one in case.planned.program.moved()
        )
        assert found.step_seconds > found.busy_seconds + 1e-5 * sent


def test_a_program_that_was_not_measured_is_refused() -> None:
    case = Case(TINY, DP, 100.0)
    with pytest.raises(InputError, match=r"nobody measured \d+ of \d+ events of mlp-tiny"):
        predicted.predicted(case, {}, {}, FREE)


def test_overlapped_communication_is_hidden_and_slows_compute() -> None:
    plain, early = (Case(TINY, DP, 0.2, overlap) for overlap in (False, True))
    assert priced(early, 1.0).step_seconds < priced(plain, 1.0).step_seconds
    slowed = priced(early, 1.0, Taken(0.4, 0.2))
    assert slowed.busy_seconds > priced(early, 1.0).busy_seconds
    assert priced(plain, 1.0, Taken(0.4, 0.2)) == priced(plain, 1.0)


@pytest.mark.parametrize(("schedule", "count"), PIPELINES)
def test_a_pipeline_takes_its_rounds(schedule: str, count: int) -> None:
    """With transfers for nothing: (m + S - 1) rounds of both passes, and what is done once."""
    model = Model("mlp-tiny", (("layers", 6),), 16)
    case = Case(model, f"pipe=2; schedule {schedule}, {count} microbatches", 800.0)
    found = priced(case, 1e-6)
    alone: dict[str, float] = {}
    for block, _ in case.planned.pairs:
        if block.of:
            alone[str(block.phase)] = alone.get(str(block.phase), 0.0) + 1e-3
    passes = [alone[f"{stage}{letter}"] for stage in (0, 1) for letter in "FB"]
    assert found.step_seconds >= (count + 1) * (min(passes[0::2]) + min(passes[1::2]))
    assert found.step_seconds <= (count + 3) * sum(passes) + sum(alone.values())
    assert found.busy_seconds < found.step_seconds


@pytest.mark.parametrize("schedule", ["1f1b", "interleaved-1f1b, 2 chunks"])
def test_a_rank_does_what_all_its_stages_do(schedule: str) -> None:
    """Passes once for each microbatch, sums of them once less, and all else once."""
    model, count = Model("mlp-tiny", (("layers", 6),), 16), 4
    case = Case(model, f"pipe=2; schedule {schedule}, {count} microbatches", 800.0)
    times = 0
    for block, _ in case.planned.pairs:
        if " " in str(block.phase):
            times += 2 if "every" in str(block.phase) else 1
        else:
            times += count if block.of else count - 1
    assert priced(case, 1e-6).busy_seconds == pytest.approx(times * 1e-3 / 2)


def test_cases_are_of_every_kind_and_at_least_thirty() -> None:
    known = cases.cases()
    assert len({case.name for case in known}) == len(known) >= 30
    assert {case.megabits for case in known} == set(RATES)
    for word in ("zero=1", "zero=2", "zero=3", "Megatron", "gpipe", "1f1b", "batch over data"):
        assert any(word in case.plan for case in known)
    assert {case.overlap for case in known} == {False, True}


def test_what_a_core_gives_is_what_the_reference_had_not() -> None:
    found = Taken.of({"beside": [0.25, 0.25, 9.0]})
    assert found.by_collective == pytest.approx(0.2)
    assert Taken.of({"beside": [-0.1]}).by_collective == 0


@pytest.mark.parametrize("early", [False, True])
def test_a_stand_in_sleeps_every_event_and_sends_every_gradient(early: bool) -> None:
    case = Case(TINY, DP, 100.0, early)
    told: list[tuple[str, Any]] = []

    class Held:
        def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
            self.elements = prod(shape)

        def contiguous(self) -> Held:
            return self

    def all_reduce(x: Held, axes: tuple[str, ...], kind: str, later: bool = False) -> Any:
        told.append(("begin" if later else "send", x.elements))
        return lambda: told.append(("wait", 0))

    space: dict[str, Any] = {
        "held": Held,
        "all_reduce": all_reduce,
        "slept": lambda event: told.append(("sleep", event)),
        "torch": SimpleNamespace(float32=None),
    }
    exec(standins.functions(case), space)
    space["device_step"]()
    slept = [what for kind, what in told if kind == "sleep"]
    assert slept == [event.key for _, event in case.planned.pairs]
    held = zip(case.planned.step.roles, case.planned.step.graph.inputs, strict=True)
    sent = sum(what for kind, what in told if kind in ("send", "begin"))
    loss = 1
    assert sent == loss + sum(one.type.elements for role, one in held if role == "parameter")
    kinds = [kind for kind, _ in told]
    assert ("begin" in kinds) == early
    assert kinds.count("begin") == kinds.count("wait")
    waits = [at for at, kind in enumerate(kinds) if kind in ("wait", "send")]
    if early:
        assert kinds.index("begin") + 1 < waits[0]


def test_stand_ins_exist_for_every_function_of_every_replayed_plan() -> None:
    """They are Python, named as what they stand for, and ask for events that are measured."""
    for case in chain.from_iterable(replay.families(8)):
        text = standins.functions(case)
        written = re.findall(r"^def ((?:stage|every_stage)_\w+|device_step)", case.text, re.M)
        assert {*written} <= {*re.findall(r"^def (\w+)", text, re.M)}
        assert set(re.findall(r'slept\("(\w+)"\)', text)) == set(case.planned.events)
        compile(text, "<stand-in>", "exec")


MOST_KINDS = (
    "data=2 tensor=2; batch over data; tokens over tensor; weights over tensor as Megatron; zero=3"
)
"""A plan of which a gradient goes from blocks of one dimension to blocks of another."""

PERMUTED = (
    "data=4 tensor=2; batch over data; weights over tensor as Megatron; vocabulary over tensor; "
    "zero=2"
)
"""A plan of which devices pass a gradient on as a whole."""


def test_measurements_of_a_family_cover_all_its_communication() -> None:
    plans = {4: [MOST_KINDS], 8: [PERMUTED], 16: []}
    others = {
        world: [Case(TINY_DECODER, plan, replay.WORLDS[world]) for plan in some]
        for world, some in plans.items()
    }
    kinds = {one.kind for several in others.values() for one in replay.asked(several)}
    assert {"all_to_all", "permute"} <= kinds
    for world, more in others.items():
        for family in [*replay.families(world), *filter(None, [more])]:
            assert {case.megabits for case in family} == {replay.WORLDS[world]}
            wanted = replay.asked(family)
            assert {one.kind for one in wanted} <= {*worker.ASKED, replay.TRANSFER}
            assert all(1 < one.members <= world for one in wanted)
            rows = [
                {
                    "collective": one.kind,
                    "members": one.members,
                    "size_bytes": size,
                    "microseconds": [1e3 + size / 10],
                }
                for one in wanted
                for size in (2**at for at in range(8, 24, 2))
            ]
            systems = predicted.calibrated(replay.WORLDS[world], rows, world)
            events = dict.fromkeys(family[0].planned.events, 1e-3)
            found = predicted.predicted(family[0], systems, events, FREE)
            assert 0 < found.busy_seconds < found.step_seconds


@pytest.mark.slow
@pytest.mark.parametrize(
    "plans",
    [[DP, f"{DP}; zero=2"], ["pipe=2; schedule 1f1b, 4 microbatches"]],
    ids=["data", "pipe"],
)
def test_a_tiny_program_is_replayed_on_two_hosts(
    monkeypatch: pytest.MonkeyPatch, plans: tuple[str, ...]
) -> None:
    """It is there from the profile to the error; how long it takes is not judged here."""
    pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")
    if reason := runs.missing():
        pytest.skip(reason)
    monkeypatch.setattr(replay, "ROUNDS", 3)
    monkeypatch.setattr(replay, "REPEATS", 2)
    monkeypatch.setattr(replay, "LONGEST_SECONDS", 0.02)
    model = Model("mlp-tiny", (("layers", 6),), 16)
    some = [Case(model, plan, 400.0) for plan in plans]
    with replay.network(built((2,), (400.0,))) as wiring:
        found = replay._family(wiring, some, 400.0)
    rows = found["collectives"]["rows"]
    wanted = {(one.kind, one.members) for one in replay.asked(some)}
    assert {(row["collective"], row["members"]) for row in rows} == wanted
    systems = predicted.calibrated(400.0, rows)
    for case, row in zip(some, found["cases"], strict=True):
        assert set(row["events"]) == set(case.planned.events)
        assert row["step_seconds"] > row["busy_seconds"] > 0
        said = predicted.predicted(case, systems, row["events"], FREE)
        assert predicted.beside(case, row, said)["plan"] == case.plan


def of_steps(name: str, step: float, error: float, **more: Any) -> dict[str, Any]:
    """A row of a report."""
    row = {"model": "m", "plan": name, "megabits": 100.0, "step_seconds": step, "step_spread": 0.0}
    return {**row, "step_error": error, "drift": 0.0, **more}


def test_plans_of_one_model_on_one_network_are_put_in_order() -> None:
    """Simulated 2.2, 2.1 and 3 seconds: the measured best is second, as only what drifted says."""
    rows = [of_steps("a", 2.0, 0.1), of_steps("b", 2.1, 0.0), of_steps("c", 3.0, 0.0)]
    others = [of_steps("d", 1.0, 0.0, drift=0.2), of_steps("e", 1.0, 0.0, model="other")]
    [found] = orders([*rows, *others, *(of_steps("f", 1.0, 0.0, world=4) for _ in range(2))])
    assert (found["ranks"], found["plans"], found["first"], found["fastest"]) == (2, 3, "b", "a")
    assert (found["best"], found["regret"], found["spearman"]) == (2, 0.05, 0.5)
    assert (found["apart"], found["right"]) == (3, 2)
    near = [{**row, "step_spread": 0.03} for row in rows]
    assert orders(near)[0]["apart"] == 2


def test_every_plan_that_the_planner_would_try_is_run_or_refused() -> None:
    for world in (2, 4):
        known = every.every(world, 400.0, TINY_DECODER)
        assert len({case.plan for case in known}) == len(known)
        sizes = [dict(parse_recipe(case.plan).axes) for case in known]
        assert {prod(one.values()) for one in sizes} == {world}
        assert {name for one in sizes for name in one} == {"data", "pipe", "tensor"}
        alike = list(every.families(known))
        assert [case for some in alike for case in some] == known
        assert all(len({case.plan.partition(";")[0] for case in some}) == 1 for some in alike)
    bad = Case(TINY_DECODER, "pipe=3; schedule 1f1b, 4 microbatches", 400.0)
    found, refused = every.written([known[0], bad])
    assert found == known[:1]
    assert refused.total() == 1


@pytest.mark.slow
def test_plans_of_a_tiny_model_are_run_and_put_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """On four hosts, of every way to cut it one plan; how fast they are is not judged here."""
    pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")
    if reason := runs.missing():
        pytest.skip(reason)
    monkeypatch.setattr(replay, "ROUNDS", 3)
    monkeypatch.setattr(replay, "REPEATS", 2)
    monkeypatch.setattr(replay, "LONGEST_SECONDS", 0.02)
    known = every.every(4, every.WORLDS[4], TINY_DECODER)
    some = [next(iter(alike)) for alike in every.families(known)]
    some[2:2] = [
        Case(TINY_DECODER, MOST_KINDS, every.WORLDS[4]),
        Case(TINY_DECODER, PERMUTED.replace("data=4", "data=2"), every.WORLDS[4]),
    ]
    monkeypatch.setattr(every, "every", lambda *_: some)
    told = every.run(4, TINY_DECODER)
    assert [row["plan"] for row in told["rows"]] == [case.plan for case in some]
    assert told["tried"] == len(some)
    assert not told["refused"]
    rows = [{**row, "drift": 0.0} for row in told["rows"]]
    [found] = orders(rows)
    assert found["plans"] == len(some)
    none = {**told, "stuck": [some[0].name], "rows": told["rows"][1:]}
    once_more = every.again(none, 4, TINY_DECODER)
    assert not once_more["stuck"]
    assert [row["plan"] for row in once_more["rows"]] == [one.plan for one in (*some[1:], some[0])]
    assert once_more["again"][0]["plans"] == 1
    assert every.anew(told, 4, TINY_DECODER)["rows"] == told["rows"]


def test_without_root_it_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runs, "missing", lambda: "needs root")
    monkeypatch.setattr("sys.argv", ["runs", "run"])
    assert runs.main() == 0
    assert capsys.readouterr().out == "skipped: needs root\n"


class Dying:
    """In the place of ranks: processes of which one dies when it is told to."""

    def __init__(self, rank: int, *_: Any) -> None:
        self.rank = rank

    def hello(self) -> int:
        return self.rank

    def die(self) -> None:
        if self.rank:
            os.write(2, b"\nout of memory at last\n")
            os._exit(1)

    def fail(self) -> None:
        raise ValueError("no such thing")

    def silent(self) -> None:
        if self.rank:
            __import__("time").sleep(60)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ranks.Ranks]:
    pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")
    monkeypatch.setattr(ranks, "Worker", Dying)
    monkeypatch.setattr(ranks, "enter", lambda *_: None)
    monkeypatch.setattr(ranks, "PATIENCE_SECONDS", 1.0)
    found = ranks.Ranks(ranks.Wiring(built((2,), (100.0,))), tmp_path, ranks.Worker)
    yield found
    found.end()


def test_the_last_output_of_a_dead_rank_is_reported(two: ranks.Ranks) -> None:
    with pytest.raises(TroubleError, match=r"rank 1 has gone; it said: out of memory at last"):
        two.all("die")


def test_a_failing_rank_is_reported_with_its_reason_and_a_silent_one_by_name(
    two: ranks.Ranks,
) -> None:
    with pytest.raises(TroubleError, match=r"rank [01]: ValueError: no such thing"):
        two.all("fail")


def test_nobody_waits_for_ever(two: ranks.Ranks) -> None:
    with pytest.raises(TroubleError, match=r"ranks \[1\] do not answer"):
        two.all("silent")


def test_the_page_matches_the_data() -> None:
    if not runs.REPORT.exists():
        pytest.skip("nothing is measured yet")
    data = record.read(runs.REPORT)
    assert runs.page(data).is_current
    assert data["real"] == judged.judged(data["rows"])
    assert data["replay"] == judged.judged(data["replayed"])
