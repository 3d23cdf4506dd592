"""A timeline in few spans: nothing is left out, and what is joined would not be seen apart."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from synth.step.sharding import apply, parse_recipe, plan_of, prepare_step
from synth.step.simulation import Sources, predict_step
from synth.step.simulation.predicting import StepPrediction
from synth.step.simulation.simulation import Activity, StepTimelineRow
from synth.step.simulation.spans import coarsen_lines, list_spans, split_communication
from traced_steps import step

PLANS = (
    "data=4; batch over data; zero=1",
    "data=2; batch over data; 4 microbatches",
    "pipe=2 data=2; batch over data; zero=2; schedule 1f1b, 4 microbatches",
)
KINDS = st.sampled_from([Activity.FORWARD, Activity.BACKWARD, Activity.ONCE])
LINES = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), KINDS), max_size=40), max_size=4
)
"""Of each row the time before it, its own, and its kind."""


def rows(line: list[tuple[int, int, Activity]]) -> list[StepTimelineRow]:
    found, now = [], 0.0
    for before, took, kind in line:
        found.append(StepTimelineRow("passes", kind.value, now + before, now + before + took, kind))
        now += before + took
    return found


@given(LINES, st.integers(1, 60))
def test_every_row_is_in_a_span_and_no_more_than_seen_gaps_are_filled(
    several: list[list[tuple[int, int, Activity]]], most: int
) -> None:
    lines = [rows(line) for line in several]
    whole = max((row.end_seconds for line in lines for row in line), default=0.0)
    found = coarsen_lines(lines, most, whole)
    assert sum(map(len, found)) <= max(most, sum(map(bool, lines)))
    for line, drawn in zip(lines, found, strict=True):
        for one, other in pairwise(drawn):
            assert one.end_seconds <= other.begin_seconds
        for span in drawn:
            inside = [row for row in line if row.begin_seconds < span.end_seconds
                      and row.end_seconds > span.begin_seconds]  # fmt: skip
            assert inside[0].begin_seconds == span.begin_seconds
            assert inside[-1].end_seconds == span.end_seconds
            took = span.end_seconds - span.begin_seconds
            for kind, part in span.parts or ((span.kind, 1.0),):
                of_kind = [row for row in inside if row.kind is kind]
                lasted = sum(row.end_seconds - row.begin_seconds for row in of_kind)
                assert lasted == pytest.approx(part * took)
            assert bool(span.parts) == (len(inside) > 1)
            assert {span.kind} == {row.kind for row in inside} or span.kind is Activity.SEVERAL
        assert sum(map(len, lines)) > most or drawn == line


TASKS = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.integers(1, 6),
        st.sampled_from([("compute", Activity.COMPUTING), ("data", Activity.COMMUNICATION)]),
    ),
    max_size=12,
)


@given(TASKS)
def test_communication_is_exposed_in_just_the_moments_in_which_nothing_is_computed(
    several: list[tuple[int, int, tuple[str, Activity]]],
) -> None:
    """Moment by moment, and what is sent is cut but neither longer nor shorter."""
    tasks = [
        StepTimelineRow(stream, f"{at}", float(begin), float(begin + took), kind)
        for at, (begin, took, (stream, kind)) in enumerate(several)
    ]
    found = list(split_communication(tasks))
    for moment in (at + 0.5 for at in range(20)):
        going = [row for row in tasks if row.begin_seconds < moment < row.end_seconds]
        computed = any(row.kind is Activity.COMPUTING for row in going)
        seen = {row.name: row.kind for row in found if row.begin_seconds < moment < row.end_seconds}
        sent = Activity.COMMUNICATION if computed else Activity.EXPOSED
        assert seen == {
            row.name: sent if row.kind is Activity.COMMUNICATION else row.kind for row in going
        }
    assert all(row.begin_seconds < row.end_seconds for row in found)


@pytest.mark.parametrize("text", PLANS[:2])
def test_drawn_exposed_time_is_the_waiting_of_the_step(text: str) -> None:
    found = found_of(text)
    [line] = list_spans(found, 10**6)
    ends = sorted({end for row in line for end in (row.begin_seconds, row.end_seconds)})
    waited = sum(
        later - begin
        for begin, later in pairwise(ends)
        if any(
            row.kind is Activity.EXPOSED and row.begin_seconds <= begin < row.end_seconds
            for row in line
        )
    )
    assert waited > 0
    assert waited == pytest.approx(found.ranks[0].exposed_seconds)


def found_of(text: str) -> StepPrediction:
    one = step("gpt2-tiny", (("layers", 4),), batch=8)
    plan = plan_of(one, parse_recipe(text))
    sources = Sources(lambda section: 1.0, lambda *how: 0.5, lambda *how: 0.25)
    return predict_step(prepare_step(one, plan), plan, apply(one, plan), sources)


def lasting(lines: list[list[StepTimelineRow]]) -> dict[tuple[str, Activity], float]:
    """Seconds of each kind on each stream."""
    found: defaultdict[tuple[str, Activity], float] = defaultdict(float)
    for row in chain(*lines):
        for kind, part in row.parts or ((row.kind, 1.0),):
            found[row.stream, kind] += part * (row.end_seconds - row.begin_seconds)
    return dict(found)


@pytest.mark.parametrize("text", PLANS)
def test_a_step_has_its_passes_and_the_streams_of_its_busiest_rank(text: str) -> None:
    found = found_of(text)
    every, few = list_spans(found, 10**6), list_spans(found, 40)
    assert len(every) == len(few) == len(found.ranks)
    for rank, line in enumerate(every):
        passes = list(found.passes(rank))
        assert line[: len(passes)] == passes
        rest = list(split_communication(row for row in found.rows(rank) if row.stream != "passes"))
        assert lasting([line[len(passes) :]]) == pytest.approx(
            lasting([rest]) if rank == found.busiest else {}
        )
    assert sum(map(len, few)) <= 40
    assert lasting(few) == pytest.approx(lasting(every))
    assert {row.stream for line in few for row in line} == {
        row.stream for line in every for row in line
    }
