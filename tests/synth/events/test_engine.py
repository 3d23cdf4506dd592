"""The event engine on toys: queues, tasks in order, fair shares; against oracles written apart."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.events import Course, Engine

SECONDS = st.integers(0, 12).map(lambda n: n / 4)


@dataclass
class Stations:
    """Every track uses one station: all at once, each with its part, or one after the other."""

    at: list[int]
    queue: bool = False
    here: list[int] = field(default_factory=list)

    def change(
        self, leaving: Collection[int], arriving: Collection[int], now: float
    ) -> Iterator[tuple[int, float]]:
        self.here = [track for track in self.here if track not in leaving] + [*arriving]
        for track in self.here:
            others = [other for other in self.here if self.at[other] == self.at[track]]
            first = float(others[0] == track)
            yield track, first if self.queue else 1 / len(others)


@st.composite
def courses(draw: st.DrawFn) -> Course:
    """Up to six tracks, each after some of those before it, none with more items than these."""
    items: list[int] = []
    before: list[tuple[int, ...]] = []
    for track in range(draw(st.integers(0, 6))):
        some = draw(st.sets(st.integers(0, track - 1), max_size=3)) if track else set()
        before.append(tuple(sorted(some)))
        items.append(draw(st.integers(0, min([3, *(items[other] for other in some)]))))
    each = {"min_size": len(items), "max_size": len(items)}
    waits, moved = draw(st.lists(SECONDS, **each)), draw(st.lists(st.booleans(), **each))
    return Course(items, waits, moved, before)


def run(course: Course, shares: Stations) -> tuple[float, Engine]:
    engine = Engine(course, shares)
    moments = [now for now, _ in engine.moments()]
    assert moments == sorted(moments)
    assert engine.done == list(course.items)
    return (moments or [0.0])[-1], engine


def exactly(course: Course, at: list[int], queue: bool) -> dict[tuple[int, int], Fraction]:
    """When each item ends: all of them looked at at every moment, in exact numbers."""
    items = [(track, item) for track, count in enumerate(course.items) for item in range(count)]
    wait = {one: Fraction(course.waits[one[0]]) for one in items}
    left = {one: Fraction(course.moved[one[0]]) for one in items}
    ends: dict[tuple[int, int], Fraction] = {}
    line: list[tuple[int, int]] = []
    now = Fraction(0)
    while len(ends) < len(items):
        going = [
            (track, item)
            for track, item in items
            if (track, item) not in ends
            and (item == 0 or (track, item - 1) in ends)
            and all((other, item) in ends for other in course.before[track])
        ]
        line = [one for one in line if one not in ends]
        line += [one for one in going if not wait[one] and left[one] and one not in line]
        pace = {}
        for one in line:
            others = [other for other in line if at[other[0]] == at[one[0]]]
            pace[one] = Fraction(others[0] == one) if queue else Fraction(1, len(others))
        steps = [wait[one] for one in going if one not in pace]
        step = min(steps + [left[one] / each for one, each in pace.items() if each])
        now += step
        for one in going:
            if one in pace:
                left[one] -= step * pace[one]
            else:
                wait[one] -= step
            if not wait[one] and not left[one]:
                ends[one] = now
    return ends


@given(courses(), st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_fair_shares_end_at_the_times_of_the_exact_engine(course: Course, at: list[int]) -> None:
    _, engine = run(course, Stations(at))
    for (track, item), end in exactly(course, at, queue=False).items():
        assert engine.ends[track][item] == pytest.approx(float(end), rel=1e-12, abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=8))
def test_a_queue_serves_one_after_the_other(jobs: list[tuple[int, int]]) -> None:
    """Lindley's recurrence: one is served when it has come and whoever came before has left."""

    class Served(Stations):
        def change(self, *args: object) -> Iterator[tuple[int, float]]:
            for track, pace in super().change(*args):  # type: ignore[arg-type]
                yield track, pace / jobs[track][1]

    count = len(jobs)
    course = Course([1] * count, [float(come) for come, _ in jobs], [True] * count, [()] * count)
    _, engine = run(course, Served([0] * count, queue=True))
    free = 0.0
    for track in sorted(range(count), key=lambda job: (jobs[job][0], job)):
        free = max(free, jobs[track][0]) + jobs[track][1]
        assert engine.ends[track] == [pytest.approx(free)]


@given(courses())
def test_tasks_of_known_length_end_on_the_longest_path(course: Course) -> None:
    """With nothing shared there is no clock but who waits for whom, and no rounding but sums."""
    course = replace(course, moved=[False] * len(course.items))
    end, engine = run(course, Stations([]))
    ends: dict[tuple[int, int], float] = {}
    for track, count in enumerate(course.items):
        for item in range(count):
            ready = [ends[other, item] for other in course.before[track]]
            begin = max([*ready, ends.get((track, item - 1), 0.0)], default=0.0)
            ends[track, item] = begin + course.waits[track]
            assert engine.begins[track][item] == begin
            assert engine.ends[track][item] == ends[track, item]
    assert end == max(ends.values(), default=0.0)


@given(courses(), st.data())
def test_a_longer_task_makes_nothing_end_sooner(course: Course, data: st.DataObject) -> None:
    course = replace(course, moved=[False] * len(course.items))
    longer = [wait + data.draw(SECONDS) for wait in course.waits]
    soon, late = (run(replace(course, waits=w), Stations([]))[1] for w in (course.waits, longer))
    for early, after in zip(soon.ends, late.ends, strict=True):
        assert all(a <= b for a, b in zip(early, after, strict=True))


@given(courses(), st.lists(st.integers(0, 2), min_size=6, max_size=6), st.booleans())
def test_the_same_question_gives_the_same_answer(
    course: Course, at: list[int], queue: bool
) -> None:
    one, two = (list(Engine(course, Stations(at, queue)).moments()) for _ in range(2))
    assert one == two


@given(courses(), st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_items_wait_for_those_before_and_no_station_does_more_than_it_can(
    course: Course, at: list[int]
) -> None:
    end, engine = run(course, Stations(at, queue=True))
    for track, begins in enumerate(engine.begins):
        for item, begin in enumerate(begins):
            ready = [engine.ends[other][item] for other in course.before[track]]
            ready += engine.ends[track][item - 1 : item] if item else []
            assert begin == max(ready, default=0.0)
            least = course.waits[track] + course.moved[track]
            assert engine.ends[track][item] >= (begin + least) * (1 - 1e-12)
    for station in set(at):
        work = sum(
            count
            for track, count in enumerate(course.items)
            if course.moved[track] and at[track] == station
        )
        assert end >= work * (1 - 1e-12)


def test_a_task_that_waits_for_itself_never_ends() -> None:
    loop = Course([1, 1], [0.0, 1.0], [False, False], [(1,), (0,)])
    with pytest.raises(ValueError, match="can never end"):
        list(Engine(loop, Stations([])).moments())


def test_a_paused_task_resumes_where_it_stopped() -> None:
    """The second is begun, held at pace 0 while the third passes, and then ended."""

    class Held(Stations):
        def change(self, *args: object) -> Iterator[tuple[int, float]]:
            some = dict(super().change(*args))  # type: ignore[arg-type]
            yield from ((track, float(track == max(some))) for track in some)

    course = Course([1, 1], [0.0, 0.25], [True, True], [(), ()])
    engine = Engine(course, Held([0, 0]))
    assert list(engine.moments()) == [(1.25, [1]), (2.0, [0])]
    assert engine.begins == [[0.0], [0.0]]
