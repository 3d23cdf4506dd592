"""Segments that overlap: laws of the price, and an exact engine written apart."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.overlap import Work, fair_speeds, makespan_seconds, overlapped

RESOURCES = ("node", "gpu", "memory")
SECONDS = st.integers(0, 20).map(lambda n: n / 8)


@st.composite
def works(draw: st.DrawFn) -> Work:
    busy = draw(st.dictionaries(st.sampled_from(RESOURCES), SECONDS, max_size=3))
    return Work(draw(SECONDS), {name: seconds for name, seconds in busy.items() if seconds})


PHASES = st.lists(works(), max_size=5)
COUNTS = st.integers(1, 6)


def least_seconds(phases: list[Work], segments: int) -> float:
    """What ``makespan_seconds`` cannot be below, from a formula.

    The longest phase follows itself in every segment; and a resource is busy for the sum of what
    all segments ask, not before the first phase that uses it has begun to, nor in the last
    segment's phases after the last that does.
    """
    alone = [phase.alone_seconds for phase in phases]
    least = sum(alone) + (segments - 1) * max(alone, default=0.0)
    for resource in {name for phase in phases for name in phase.busy}:
        users = [i for i, phase in enumerate(phases) if phase.busy.get(resource)]
        if users:
            work = segments * sum(phases[i].busy[resource] for i in users)
            head = sum(alone[: users[0]]) + phases[users[0]].latency_seconds
            least = max(least, head + work + sum(alone[users[-1] + 1 :]))
    return least


def exact_end(phases: list[Work], segments: int) -> Fraction:
    """The same definition in exact numbers, with a list of tasks instead of a pipeline."""
    tasks = [(s, j) for s in range(segments) for j in range(len(phases))]
    wait = {(s, j): Fraction(phases[j].latency_seconds) for s, j in tasks}
    left = {(s, j): Fraction(bool(phases[j].busy)) for s, j in tasks}
    busy = [{name: Fraction(value) for name, value in phase.busy.items()} for phase in phases]
    alone = [max(load.values(), default=Fraction(1)) for load in busy]
    done: set[tuple[int, int]] = set()
    now = Fraction(0)
    while len(done) < len(tasks):
        going = [
            (s, j)
            for s, j in tasks
            if (s, j) not in done
            and (j == 0 or (s, j - 1) in done)
            and (s == 0 or (s - 1, j) in done)
        ]
        moving = [task for task in going if not wait[task] and left[task]]
        speed: dict[tuple[int, int], Fraction] = {}
        while len(speed) < len(moving):
            free = [task for task in moving if task not in speed]
            rooms = []
            for name in RESOURCES:
                taken = sum(x * busy[t[1]].get(name, 0) / alone[t[1]] for t, x in speed.items())
                slope = sum(busy[t[1]].get(name, Fraction(0)) / alone[t[1]] for t in free)
                if slope:
                    rooms.append(((1 - taken) / slope, name))
            least = min(rooms)[0]
            tight = {name for room, name in rooms if room == least}
            speed |= {task: least for task in free if tight & set(busy[task[1]])}
        moments = [wait[task] for task in going if wait[task]]
        moments += [left[task] * alone[task[1]] / speed[task] for task in moving]
        step = min(moments, default=Fraction(0))
        now += step
        for task in going:
            if task in speed:
                left[task] -= step * speed[task] / alone[task[1]]
            elif wait[task]:
                wait[task] -= step
            if not wait[task] and not left[task]:
                done.add(task)
    return now


@given(PHASES, COUNTS)
def test_the_price_is_that_of_the_exact_engine(phases: list[Work], segments: int) -> None:
    found = makespan_seconds(phases, segments)
    assert found == pytest.approx(float(exact_end(phases, segments)), rel=1e-9)


@given(PHASES)
def test_one_segment_is_the_barrier_price(phases: list[Work]) -> None:
    total = sum(phase.alone_seconds for phase in phases)
    assert makespan_seconds(phases, 1) == pytest.approx(total, rel=1e-12)


@given(PHASES, COUNTS)
def test_no_price_is_below_the_formula(phases: list[Work], segments: int) -> None:
    assert makespan_seconds(phases, segments) >= least_seconds(phases, segments) * (1 - 1e-12)


@given(PHASES, COUNTS)
def test_no_price_is_below_what_a_resource_carries(phases: list[Work], segments: int) -> None:
    for name in RESOURCES:
        work = segments * sum(phase.busy.get(name, 0.0) for phase in phases)
        assert makespan_seconds(phases, segments) >= work * (1 - 1e-12)


@given(PHASES, COUNTS, st.sampled_from([0.25, 2.0, 8.0]))
def test_all_times_scaled_scale_the_price(phases: list[Work], segments: int, factor: float) -> None:
    scaled = [
        Work(p.latency_seconds * factor, {n: s * factor for n, s in p.busy.items()}) for p in phases
    ]
    wanted = makespan_seconds(phases, segments) * factor
    assert makespan_seconds(scaled, segments) == pytest.approx(wanted, rel=1e-9)


@given(PHASES, COUNTS)
def test_segments_keep_their_order(phases: list[Work], segments: int) -> None:
    spans = {(span.segment, span.phase): span for span in overlapped(phases, segments)}
    assert len(spans) == segments * len(phases)
    for (segment, phase), span in spans.items():
        work = phases[phase]
        least = span.begin_seconds + work.alone_seconds
        assert span.end_seconds >= least * (1 - 1e-9)
        for earlier in ((segment - 1, phase), (segment, phase - 1)):
            if earlier in spans:
                assert spans[earlier].end_seconds <= span.begin_seconds


@given(st.lists(works().filter(lambda work: work.busy), min_size=1, max_size=5))
def test_speeds_are_fair(phases: list[Work]) -> None:
    """No resource is overfull; nobody can go faster but at the cost of someone no faster."""
    speeds = fair_speeds(dict(enumerate(phases)))
    shares = {
        name: {
            i: speeds[i] * work.busy.get(name, 0.0) / work.transfer_seconds
            for i, work in enumerate(phases)
        }
        for name in RESOURCES
    }
    full = {name for name, share in shares.items() if sum(share.values()) > 1 - 1e-9}
    assert all(sum(share.values()) < 1 + 1e-9 for share in shares.values())
    for i, work in enumerate(phases):
        tight = [
            name
            for name in full & set(work.busy)
            if all(speeds[j] <= speeds[i] * (1 + 1e-9) for j in shares[name] if shares[name][j])
        ]
        assert tight


def test_two_levels_overlap() -> None:
    """Inside, across, inside: the inner link is never idle but while the first segment starts."""
    phases = [Work(0.0, {"gpu": 1.0}), Work(0.0, {"node": 2.0}), Work(0.0, {"gpu": 1.0})]
    assert [makespan_seconds(phases, m) * 1.0 / m for m in (1, 2)] == [4.0, 3.0]
    prices = [makespan_seconds(phases, m) / m for m in (1, 2, 4, 8, 16, 64)]
    assert all(later < earlier for earlier, later in pairwise(prices))
    assert prices[-1] == pytest.approx(2.0, rel=0.02)


def test_no_segment_is_no_schedule() -> None:
    with pytest.raises(ValueError, match="0 segments"):
        overlapped([], 0)
