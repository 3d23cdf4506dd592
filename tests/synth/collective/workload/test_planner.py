"""Whole jobs: the placement found is the best of all, by asking for every entry on every one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from grammar import Goal
from hierarchies import (
    Domain,
    Hierarchy,
    InputError,
    Level,
    Link,
    Placement,
    System,
    load,
    placements,
    row_major_placement,
)
from plain_text import printed
from strategies import systems
from synth.ask.answers.planning import PlanReply
from synth.collective.price.steps import TICKS_PER_SECOND
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Request, Watcher
from synth.collective.semantics.programs import Language
from synth.collective.verify.symbolic import Proved
from synth.collective.workload.assignments import SettledEntry, assignments, settle_job
from synth.collective.workload.files import load_job, read_job, shipped_jobs
from synth.collective.workload.planner import JobPlan, SearchSettings, plan_job
from synth.measure.calibration.typical import apply_typical
from synth.show.terminal.rankings import LESS_IS_NO_BETTER
from synth.show.terminal.table import TABLES

TWO_BY_TWO = System(
    name="two by two",
    title="",
    hierarchy=Hierarchy((Level("node", 2), Level("gpu", 2))),
    links=(Link(Domain.SWITCH, 1e9, 0.0), Link(Domain.RING, 1e9, 0.0, wraps=False)),
    memory_bytes_per_second=1e10,
)
"""Its fastest placement is a tick faster than that of frameworks, which is a tie."""

QUICK = SearchSettings(k=3, language=Language(3), segments=(1, 4))


def job_of(entries: list[tuple[Goal, str, int, int, float]], open_axes: bool) -> str:
    sizes = '"any"' if open_axes else "2"
    text = f'name = "j"\ntitle = "t"\n[axes]\na = "any"\nb = {sizes}\n'
    for number, (goal, over, payload, times, hidden) in enumerate(entries):
        text += (
            f'[[collective]]\nname = "c{number}"\nrequest = "{goal.value}"\nover = {list(over)}\n'
            f'bytes = "{payload} B"\ntimes = {times}\nhidden = {hidden}\n'
        )
    return text


ENTRIES = st.lists(
    st.tuples(
        st.sampled_from(Goal),
        st.sampled_from(["a", "b", "ab"]),
        st.integers(1, 10**8),
        st.integers(1, 100),
        st.sampled_from([0, 0.25, 0.5, 1]),
    ),
    min_size=1,
    max_size=3,
)


def alone(system: System, entry: SettledEntry, placement: Placement, how: SearchSettings) -> int:
    """Ticks of an entry's best program on a placement, as the planner of one request says."""
    request = Request(
        placement.axes,
        entry.over,
        entry.payload_bytes,
        1,
        replace(how.language, goal=entry.goal),
        placement=placement.matrix,
        segments=how.segments,
    )
    return answers(system, request).answers[0].candidate.ticks


def brute_force(system: System, text: str, how: SearchSettings) -> list[tuple[Fraction, int]]:
    """Weighted ticks of every choice with its number, the least first."""
    job = read_job(text)
    totals: list[Fraction] = []
    for sizes in assignments(job, system.devices):
        one = settle_job(job, sizes)
        for placement in placements(system.hierarchy, one.axes):
            parts = (e.weight * alone(system, e, placement, how) for e in one.entries)
            totals.append(sum(parts, Fraction(0)))
    return sorted((total, number) for number, total in enumerate(totals))


@given(systems(8), ENTRIES, st.booleans())
@example(TWO_BY_TWO, [(Goal.ALL_REDUCE, "a", 1, 1, 0)], False)
@settings(max_examples=15, deadline=None)
def test_the_best_placements_are_those_of_brute_force(
    system: System, entries: list[tuple[Goal, str, int, int, float]], open_axes: bool
) -> None:
    assume(system.devices % 2 == 0 and len(system.hierarchy.levels) <= 3)
    text = job_of(entries, open_axes)
    plan = plan_job(system, read_job(text), QUICK)
    expected = brute_force(system, text, QUICK)
    assert plan.complete
    assert plan.of_placements == plan.placements == len(expected)
    found = [option.exposed_seconds for option in plan.ranking]
    seconds = [float(total) / TICKS_PER_SECOND for total, _ in expected]
    first = plan.ranking[0]
    if first.placement == row_major_placement(system.hierarchy, first.axes):
        # The placement of frameworks leads where no other is surely faster.
        assert not any(other.estimate.surely_below(first.estimate) for other in plan.ranking)
        seconds.remove(found[0])
        seconds.insert(0, found[0])
    assert found == seconds[:3]
    check(system, plan)


def check(system: System, plan: JobPlan) -> None:
    chosen = plan.ranking[0]
    assert sum(one.exposed_seconds for one in plan.entries) == pytest.approx(chosen.exposed_seconds)
    for one in plan.entries:
        answer = one.answer
        assert answer.candidate.reduction.placement == chosen.placement
        assert answer.goal is one.entry.goal
        assert answer.payload_bytes == one.entry.payload_bytes
        assert isinstance(answer.verdict, Proved)
        assert answer.candidate.ticks == alone(system, one.entry, chosen.placement, QUICK)
        everywhere = placements(system.hierarchy, chosen.placement.axes)
        least = min(alone(system, one.entry, placement, QUICK) for placement in everywhere)
        assert one.alone_seconds == least / TICKS_PER_SECOND
        assert alone(system, one.entry, one.alone_placement, QUICK) == least


@pytest.mark.parametrize("name", shipped_jobs())
def test_the_shipped_jobs_have_a_plan(name: str) -> None:
    plan = plan_job(load("dgx-h100:8"), load_job(name), SearchSettings(k=1, language=Language(3)))
    assert plan.complete
    assert plan.entries
    assert all(isinstance(one.answer.verdict, Proved) for one in plan.entries)


def test_a_plan_that_is_stopped_reports_it_and_has_a_placement() -> None:
    class Impatient(Watcher):
        def placed(self, done: int, of: int) -> None:
            self.done = done

        def go_on(self) -> bool:
            return getattr(self, "done", 0) < 2

    job = load_job("gpt3-175b-3d")
    plan = plan_job(load("dgx-h100:8"), job, SearchSettings(language=Language(3)), Impatient())
    assert not plan.complete
    assert plan.placements < plan.of_placements
    assert plan.ranking
    assert plan.entries


def test_no_placement_asked_for_is_the_callers_mistake() -> None:
    with pytest.raises(InputError, match="k is 0"):
        SearchSettings(k=0)


HSDP = """name = "h"
title = "t"
[axes]
replica = 4
shard = 8
[[collective]]
name = "gathers"
request = "all-gather"
over = ["shard"]
bytes = "256 MiB"
times = 80
hidden = 0.9
[[collective]]
name = "sums"
request = "all-reduce"
over = ["replica"]
bytes = "32 MiB"
times = 40
hidden = 0.9
"""


@pytest.mark.slow
def test_default_placements_of_frameworks_win_ties() -> None:
    """Another placement has a price that is lower by less than such prices tell."""
    how = SearchSettings(k=2, language=Language(3), stripes=False)
    near = plan_job(apply_typical(load("dgx-h100:4")), read_job(HSDP), how)
    first, second = near.ranking
    assert first.placement.matrix == ((4, 1), (1, 8))
    assert second.exposed_seconds < first.exposed_seconds
    text = printed(TABLES["plan"](PlanReply.of(near)))
    assert LESS_IS_NO_BETTER in " ".join(text.split())
