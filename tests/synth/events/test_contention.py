"""Tasks that share what is scarce: against exact shares at every moment, and the laws."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.events.contention import time_with_contention
from synth.events.longest_path import arrange_tasks, time_tasks

NEAR = 1e-9
Case = tuple[list[list[int]], list[list[int]], list[Fraction], list[dict[int, Fraction]]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Up to seven tasks on two streams or none; their seconds, and parts of two things."""
    count = draw(st.integers(1, 7))
    quarters = st.integers(0, 12).map(lambda n: Fraction(n, 4))
    before = [
        sorted(draw(st.sets(st.integers(0, task - 1), max_size=2))) if task else []
        for task in range(count)
    ]
    streams = [draw(st.integers(0, 2)) for _ in range(count)]
    queues = [[task for task in range(count) if streams[task] == place] for place in range(2)]
    seconds = [draw(quarters) for _ in range(count)]
    parts = st.dictionaries(
        st.integers(0, 1), st.integers(1, 4).map(lambda n: Fraction(n, 4)), max_size=2
    )
    return before, queues, seconds, [draw(parts) for _ in range(count)]


def exactly(case: Case) -> list[Fraction]:
    """When each task ends: all looked at at every moment, shares filled from 0, exactly."""
    before, queues, seconds, parts = case
    needed = [set(some) for some in before]
    for queue in queues:
        for place, task in enumerate(queue):
            needed[task] |= set(queue[:place])
    left = list(seconds)
    ends: dict[int, Fraction] = {}
    now = Fraction(0)
    while len(ends) < len(seconds):
        going = [t for t in range(len(seconds)) if t not in ends and needed[t] <= set(ends)]
        speed = shares({task: parts[task] for task in going if left[task]})
        step = min(left[task] / speed.get(task, Fraction(1)) for task in going)
        now += step
        for task in going:
            left[task] -= step * speed.get(task, Fraction(1))
            if not left[task]:
                ends[task] = now
    return [ends[task] for task in range(len(seconds))]


def shares(parts: dict[int, dict[int, Fraction]]) -> dict[int, Fraction]:
    """All speeds are raised alike, each until it is 1 or one of its things is full."""
    speed: dict[int, Fraction] = {}
    while len(speed) < len(parts):
        rising = [task for task in parts if task not in speed]
        stops = {None: Fraction(1)}
        for thing in {thing for task in rising for thing in parts[task]}:
            taken = sum(speed[task] * parts[task].get(thing, 0) for task in speed)
            slope = sum(parts[task].get(thing, Fraction(0)) for task in rising)
            stops[thing] = (1 - taken) / slope
        level = min(stops.values())
        full = {thing for thing, stop in stops.items() if stop == level}
        speed |= {task: level for task in rising if None in full or full & set(parts[task])}
    return speed


def run(case: Case) -> tuple[list[float], list[float]]:
    before, queues, seconds, parts = case
    uses = [[(thing, float(part)) for thing, part in one.items()] for one in parts]
    return time_with_contention(arrange_tasks(before, queues), list(map(float, seconds)), uses)


@given(cases())
def test_shares_are_those_of_every_moment(case: Case) -> None:
    begins, ends = run(case)
    assert ends == pytest.approx([float(one) for one in exactly(case)], rel=NEAR, abs=NEAR)
    alone = map(float, case[2])
    assert all(e - b >= s - NEAR for b, e, s in zip(begins, ends, alone, strict=True))


@given(cases())
def test_nothing_is_sooner_than_where_nothing_is_shared(case: Case) -> None:
    before, queues, seconds, parts = case
    free = time_tasks(arrange_tasks(before, queues), list(map(float, seconds)))[1]
    assert all(end >= one - NEAR for end, one in zip(run(case)[1], free, strict=True))
    little = [{thing: Fraction(1, 8) for thing in one} for one in parts]
    assert run((*case[:3], little))[1] == pytest.approx(free, rel=NEAR, abs=NEAR)


def test_communication_that_needs_a_tenth_of_the_cores_slows_both() -> None:
    """1 s of a product beside a collective of 10 s: at 10/11 of their speeds, then the rest."""
    tasks = arrange_tasks([(), ()], [[0], [1]])
    cores, link = 0, 1
    _, ends = time_with_contention(
        tasks, [1.0, 10.0], [[(cores, 1.0)], [(cores, 0.1), (link, 1.0)]]
    )
    assert ends == pytest.approx([1.1, 10.1])
