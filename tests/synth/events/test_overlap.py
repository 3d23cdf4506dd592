"""Segments that overlap: laws of the price, and an exact engine written apart."""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlap_oracle import RESOURCES, least_seconds, works
from synth.events.overlap import (
    Lane,
    PhasePaces,
    PhaseWork,
    makespan_seconds,
    makespan_within,
    simulate_lanes,
)

PHASES = st.lists(works(), max_size=5)
COUNTS = st.integers(1, 6)
LANES = st.lists(
    st.builds(Lane, st.lists(works(), max_size=3).map(tuple), st.integers(1, 4)), max_size=3
)


Task = tuple[int, int, int]


def exact_end(lanes: list[Lane]) -> Fraction:
    """The same definition in exact numbers, with a list of tasks instead of pipelines."""
    tasks = [
        (i, s, j)
        for i, lane in enumerate(lanes)
        for s in range(lane.segments)
        for j in range(len(lane.phases))
    ]
    works = {(i, s, j): lanes[i].phases[j] for i, s, j in tasks}
    wait = {task: Fraction(works[task].latency_seconds) for task in tasks}
    left = {task: Fraction(bool(works[task].busy)) for task in tasks}
    busy = {t: {name: Fraction(value) for name, value in works[t].busy.items()} for t in tasks}
    alone = {task: max(busy[task].values(), default=Fraction(1)) for task in tasks}
    done: set[Task] = set()
    now = Fraction(0)
    while len(done) < len(tasks):
        going = [
            (i, s, j)
            for i, s, j in tasks
            if (i, s, j) not in done
            and (j == 0 or (i, s, j - 1) in done)
            and (s == 0 or (i, s - 1, j) in done)
        ]
        moving = [task for task in going if not wait[task] and left[task]]
        speed = exact_speeds({task: busy[task] for task in moving})
        moments = [wait[task] for task in going if wait[task] or not left[task]]
        moments += [left[task] * alone[task] / speed[task] for task in moving]
        step = min(moments, default=Fraction(0))
        now += step
        for task in going:
            if task in speed:
                left[task] -= step * speed[task] / alone[task]
            elif wait[task]:
                wait[task] -= step
            if not wait[task] and not left[task]:
                done.add(task)
    return now


def exact_speeds(busy: dict[Task, dict[str, Fraction]]) -> dict[Task, Fraction]:
    """Max-min fair: all rise alike until a resource is full; its users stay as they are."""
    slope = {task: {n: s / max(b.values()) for n, s in b.items()} for task, b in busy.items()}
    speed: dict[Task, Fraction] = {}
    while len(speed) < len(busy):
        free = [task for task in busy if task not in speed]
        rooms = []
        for name in RESOURCES:
            taken = sum(x * slope[task].get(name, 0) for task, x in speed.items())
            rising = sum(slope[task].get(name, Fraction(0)) for task in free)
            if rising:
                rooms.append(((1 - taken) / rising, name))
        least = min(rooms)[0]
        tight = {name for room, name in rooms if room == least}
        speed |= {task: least for task in free if tight & set(slope[task])}
    return speed


@given(PHASES, COUNTS)
def test_the_price_is_that_of_the_exact_engine(phases: list[PhaseWork], segments: int) -> None:
    found = makespan_seconds(phases, segments)
    assert found == pytest.approx(float(exact_end([Lane(tuple(phases), segments)])), rel=1e-9)


@given(LANES)
def test_the_price_of_lanes_is_that_of_the_exact_engine(lanes: list[Lane]) -> None:
    assert makespan_within(lanes) == pytest.approx(float(exact_end(lanes)), rel=1e-9)


@given(LANES)
def test_lanes_wait_for_nothing_but_their_resources(lanes: list[Lane]) -> None:
    """Each keeps its own order; where nothing is shared each is as fast as alone."""
    spans = simulate_lanes(lanes)
    for number, lane in enumerate(lanes):
        own = [span for span in spans if span.lane == number]
        assert len(own) == lane.segments * len(lane.phases)
        ends = {(span.segment, span.phase): span.end_seconds for span in own}
        for span in own:
            before = [(span.segment - 1, span.phase), (span.segment, span.phase - 1)]
            assert all(ends.get(one, 0.0) <= span.begin_seconds for one in before)
    apart = [
        Lane(
            tuple(
                PhaseWork(p.latency_seconds, {f"{i}{n}": s for n, s in p.busy.items()})
                for p in lane.phases
            ),
            lane.segments,
        )
        for i, lane in enumerate(lanes)
    ]
    alone = max((makespan_within([lane]) for lane in lanes), default=0.0)
    assert makespan_within(apart) == pytest.approx(alone, rel=1e-9)


@given(LANES)
def test_the_end_is_to_the_bit_that_of_the_last_span(lanes: list[Lane]) -> None:
    """Spans come from the engine of events, the end alone from a shorter loop."""
    last = max((span.end_seconds for span in simulate_lanes(lanes)), default=0.0)
    assert makespan_within(lanes) == last


@given(LANES)
def test_no_price_of_lanes_is_below_what_a_resource_carries(lanes: list[Lane]) -> None:
    end = makespan_within(lanes)
    for name in RESOURCES:
        works = ((p.busy.get(name, 0.0) * lane.segments) for lane in lanes for p in lane.phases)
        assert end >= sum(works) * (1 - 1e-12)


@given(LANES, st.permutations(range(3)))
def test_the_order_of_lanes_means_nothing(lanes: list[Lane], order: list[int]) -> None:
    turned = [lanes[i] for i in order if i < len(lanes)]
    assert makespan_within(turned) == pytest.approx(makespan_within(lanes), rel=1e-9)


@given(LANES, st.sampled_from([0.0, 0.5, 0.9, 0.999999, 1.0, 2.0]))
def test_a_limit_stops_only_what_is_above_it(lanes: list[Lane], part: float) -> None:
    end = makespan_within(lanes)
    assert makespan_within(lanes, part * end) in ((end, inf) if part < 1 else (end,))


def test_a_limit_is_noticed_long_before_the_end() -> None:
    """A resource that stood idle for half of the time it has is late, whatever follows."""
    late = Lane((PhaseWork(1.0, {"node": 1.0}), PhaseWork(0.0, {"gpu": 0.1})), 1000)
    assert makespan_within([late]) > 1000
    assert makespan_within([late], 1001.0) == inf


def test_twins_of_unlike_sizes_hide_the_latency_of_each_other() -> None:
    """In lockstep both wait at once; out of step one sends while the other waits."""
    phases = (PhaseWork(1.0, {"node": 1.0}),)
    assert makespan_seconds(phases, 4) == 8.0
    assert makespan_within([Lane((PhaseWork(1.0, {"node": 0.5}),), 4)] * 2) == 8.0
    first = Lane((PhaseWork(1.0, {"node": 1.0}),), 2)
    second = Lane((PhaseWork(1.0, {"node": 0.5}),), 4)
    assert makespan_within([first, second]) < 7.0


@given(PHASES)
def test_one_segment_is_the_barrier_price(phases: list[PhaseWork]) -> None:
    total = sum(phase.alone_seconds for phase in phases)
    assert makespan_seconds(phases, 1) == pytest.approx(total, rel=1e-12)


@given(PHASES, COUNTS)
def test_no_price_is_below_the_formula(phases: list[PhaseWork], segments: int) -> None:
    assert makespan_seconds(phases, segments) >= least_seconds(phases, segments) * (1 - 1e-12)


@given(PHASES, COUNTS)
def test_no_price_is_below_what_a_resource_carries(phases: list[PhaseWork], segments: int) -> None:
    for name in RESOURCES:
        work = segments * sum(phase.busy.get(name, 0.0) for phase in phases)
        assert makespan_seconds(phases, segments) >= work * (1 - 1e-12)


@given(PHASES, COUNTS, st.sampled_from([0.25, 2.0, 8.0]))
def test_all_times_scaled_scale_the_price(
    phases: list[PhaseWork], segments: int, factor: float
) -> None:
    scaled = [
        PhaseWork(p.latency_seconds * factor, {n: s * factor for n, s in p.busy.items()})
        for p in phases
    ]
    wanted = makespan_seconds(phases, segments) * factor
    assert makespan_seconds(scaled, segments) == pytest.approx(wanted, rel=1e-9)


@given(PHASES, COUNTS)
def test_segments_keep_their_order(phases: list[PhaseWork], segments: int) -> None:
    spans = {
        (span.segment, span.phase): span for span in simulate_lanes([Lane(tuple(phases), segments)])
    }
    assert len(spans) == segments * len(phases)
    for (segment, phase), span in spans.items():
        work = phases[phase]
        least = span.begin_seconds + work.alone_seconds
        assert span.end_seconds >= least * (1 - 1e-9)
        for earlier in ((segment - 1, phase), (segment, phase - 1)):
            if earlier in spans:
                assert spans[earlier].end_seconds <= span.begin_seconds


@given(st.lists(works().filter(lambda work: work.busy), min_size=1, max_size=5))
def test_speeds_are_fair(phases: list[PhaseWork]) -> None:
    """No resource is overfull; nobody can go faster but at the cost of someone no faster."""
    paces = dict(PhasePaces([Lane((work,)) for work in phases]).change([], range(len(phases)), 0.0))
    speeds = {i: paces[i] * work.transfer_seconds for i, work in enumerate(phases)}
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
    phases = [
        PhaseWork(0.0, {"gpu": 1.0}),
        PhaseWork(0.0, {"node": 2.0}),
        PhaseWork(0.0, {"gpu": 1.0}),
    ]
    assert [makespan_seconds(phases, m) * 1.0 / m for m in (1, 2)] == [4.0, 3.0]
    prices = [makespan_seconds(phases, m) / m for m in (1, 2, 4, 8, 16, 64)]
    assert all(later < earlier for earlier, later in pairwise(prices))
    assert prices[-1] == pytest.approx(2.0, rel=0.02)


def test_no_segment_is_no_schedule() -> None:
    with pytest.raises(ValueError, match="0 segments"):
        simulate_lanes([Lane((), 0)])


# Laws: what is monotone, and what is not.


def slower(
    phases: list[PhaseWork], names: Collection[str], factor: float, late: float
) -> list[PhaseWork]:
    """Some resources slower by a factor, all messages later."""
    return [
        PhaseWork(
            phase.latency_seconds + late,
            {name: busy * (factor if name in names else 1) for name, busy in phase.busy.items()},
        )
        for phase in phases
    ]


@given(works(), st.integers(1, 6), st.floats(1, 8), st.floats(0, 8), st.data())
def test_one_phase_is_monotone_in_everything(
    phase: PhaseWork, segments: int, factor: float, late: float, data: st.DataObject
) -> None:
    """Bytes, bandwidth of each resource and latency; and one more segment takes its own time."""
    name = data.draw(st.sampled_from(["", *phase.busy]))
    usual = makespan_seconds([phase], segments)
    assert makespan_seconds(slower([phase], [name], factor, late), segments) >= usual * (1 - 1e-9)
    more = makespan_seconds([phase], segments + 1)
    assert more == pytest.approx(usual + phase.alone_seconds)


@given(
    st.lists(works(), min_size=1, max_size=4),
    st.integers(1, 6),
    st.floats(1, 8),
    st.floats(0, 8),
    st.data(),
)
def test_slower_links_and_later_messages_are_never_below_what_the_faster_ones_carry(
    phases: list[PhaseWork], segments: int, factor: float, late: float, data: st.DataObject
) -> None:
    """One segment is monotone in all; several lie between bounds that are.

    With more bytes, too, as every link is then slower by as much."""
    names = sorted({name for phase in phases for name in phase.busy})
    some = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    worse = slower(phases, some, factor, late)
    once = makespan_seconds(phases, 1)
    assert makespan_seconds(worse, 1) >= once * (1 - 1e-9)
    taken = makespan_seconds(worse, segments)
    longest = max(phase.alone_seconds for phase in phases)
    assert taken >= (once + (segments - 1) * longest) * (1 - 1e-9)
    for name in names:
        asked = segments * sum(phase.busy.get(name, 0.0) for phase in phases)
        assert taken >= asked * (1 - 1e-9)
    in_turn = segments * sum(phase.alone_seconds for phase in worse)
    assert taken <= in_turn * (1 + 1e-9)


def test_a_slower_link_and_more_bytes_may_end_sooner() -> None:
    """Why no law says otherwise of several segments: whoever is held up lets others through.

    (R. L. Graham, Bounds on multiprocessing timing anomalies, 1969, has it of jobs in lists.)
    """
    phases = [
        PhaseWork(2.0, {"node": 4.0}),
        PhaseWork(2.0, {"gpu": 2.0}),
        PhaseWork(0.0, {"node": 2.0, "gpu": 1.0}),
    ]
    usual = makespan_seconds(phases, 3)
    assert makespan_seconds(slower(phases, ["gpu"], 2.0, 0.0), 3) < 0.93 * usual
    phases = [
        PhaseWork(0.25, {"gpu": 1.0}),
        PhaseWork(2.0, {"gpu": 0.25}),
        PhaseWork(0.0, {"gpu": 0.5}),
    ]
    usual = makespan_seconds(phases, 5)
    assert makespan_seconds(slower(phases, ["gpu"], 1.05, 0.0), 5) < 0.996 * usual
