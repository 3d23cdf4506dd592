"""Splits of a payload: shares against the dual of the linear program, prices against the engine."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from math import inf

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exhaustive import examples
from synth.collective.price.segments import Phases, SegmentedPath, price_ticks
from synth.collective.price.steps import TICKS_PER_SECOND
from synth.collective.ranking.stripes import (
    MOST_STRIPES,
    PathStripe,
    StripeSplit,
    mix,
    price_of,
    round_to_bytes,
    split,
)
from synth.events.overlap import Lane, PhaseWork, simulate_lanes

NAMES = ("node", "gpu", "memory")
PAYLOAD = 2**20
COUNTS = (1, 2, 4)
FEW = settings(max_examples=20)
BUSY = st.integers(0, 40).map(lambda n: n / 8)


@st.composite
def loads(draw: st.DrawFn) -> npt.NDArray[np.float64]:
    programs, resources = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    rows = st.lists(BUSY, min_size=resources, max_size=resources)
    return np.array(draw(st.lists(rows, min_size=programs, max_size=programs)))


@st.composite
def programs(draw: st.DrawFn) -> list[Phases]:
    """Some programs; the seconds of their phases are those of the whole payload."""
    work = st.builds(
        PhaseWork,
        st.integers(0, 3).map(lambda n: n / 16),
        st.dictionaries(st.sampled_from(NAMES), BUSY.filter(bool), min_size=1, max_size=3),
    )
    return draw(st.lists(st.lists(work, min_size=1, max_size=4).map(tuple), min_size=1, max_size=6))


class Market:
    """Programs whose phases take as long as they have bytes, beside a fixed latency."""

    def __init__(self, programs: list[Phases]) -> None:
        self.programs = programs

    def phases(self, path: int, size: float) -> Phases:
        part = size / PAYLOAD
        return tuple(
            PhaseWork(work.latency_seconds, {name: part * busy for name, busy in work.busy.items()})
            for work in self.programs[path]
        )

    def singles(self) -> list[SegmentedPath]:
        found = [self._single(path) for path in range(len(self.programs))]
        return sorted(found, key=lambda one: (one.ticks, one.path))

    def _single(self, path: int) -> SegmentedPath:
        prices = ((price_ticks(self.phases(path, PAYLOAD / c), c), c) for c in COUNTS)
        ticks, count = min(prices)
        return SegmentedPath(path, ticks, count)

    def split(self, seeds: int | None = None) -> StripeSplit | None:
        singles = self.singles()[:seeds]
        return split(self.phases, len(self.programs), singles, PAYLOAD, COUNTS)


@given(loads(), st.sampled_from([1e-12, 1e-6, 1.0, 1e6]))
def test_shares_are_the_best_by_their_dual(loads: npt.NDArray[np.float64], unit: float) -> None:
    """Whatever the shares: the busiest resource works no less than all do at what they are worth.

    The least of that over all programs is the time found, so no shares are better.
    """
    found, most = mix(loads * unit), 40 * unit
    assert found.shares.min() >= 0
    assert found.shares.sum() == pytest.approx(1, abs=1e-12)
    assert (found.shares @ loads).max() * unit == pytest.approx(found.seconds, abs=1e-12 * most)
    assert found.worth.min() >= -1e-9
    assert found.worth.sum() <= 1 + 1e-9
    assert not found.seconds or found.worth.sum() == pytest.approx(1, abs=1e-9)
    assert (loads @ found.worth).min() * unit == pytest.approx(found.seconds, abs=1e-7 * most)


def test_shares_of_two_programs_are_those_by_hand() -> None:
    found = mix(np.array([[4.0, 1.0], [1.0, 3.0]]))
    assert found.shares == pytest.approx([2 / 5, 3 / 5])
    assert found.seconds == pytest.approx(2.2)
    dear = mix(np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([5.0, 0.0]))
    assert dear.shares == pytest.approx([0, 1])


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=6), st.integers(1, 2**45))
def test_whole_bytes_sum_to_the_payload(parts: list[int], payload: int) -> None:
    found = round_to_bytes([part / 7 for part in parts], payload)
    assert sum(found) == payload
    for part, size in zip(parts, found, strict=True):
        assert abs(size - Fraction(part, sum(parts)) * payload) <= 1 + payload * 1e-12


@given(programs(), st.data())
@examples(15, 100)
def test_the_price_of_stripes_is_that_of_lanes(programs: list[Phases], data: st.DataObject) -> None:
    market = Market(programs)
    chosen = data.draw(st.lists(st.sampled_from(range(len(programs))), min_size=1, max_size=3))
    stripes = [
        PathStripe(path, size, data.draw(st.sampled_from(COUNTS)))
        for path, size in zip(chosen, round_to_bytes([1.0] * len(chosen), PAYLOAD), strict=True)
    ]
    ticks = price_of(stripes, market.phases)
    assert ticks is not None
    lanes = [Lane(market.phases(s.path, s.size_bytes / s.segments), s.segments) for s in stripes]
    end = max((span.end_seconds for span in simulate_lanes(lanes)), default=0.0)
    assert ticks == pytest.approx(end * TICKS_PER_SECOND, rel=1e-9, abs=len(programs[0]) + 1)
    assert price_of(stripes, market.phases, ticks) == ticks
    assert price_of(stripes, market.phases, ticks - 1) is None


@FEW
@given(programs())
@examples(15, 100)
def test_a_split_is_a_whole_payload_and_better_than_one_program(programs: list[Phases]) -> None:
    market = Market(programs)
    found = market.split()
    if found is None:
        return
    assert 2 <= len(found.stripes) <= MOST_STRIPES
    assert sum(stripe.size_bytes for stripe in found.stripes) == PAYLOAD
    assert all(stripe.size_bytes > 0 for stripe in found.stripes)
    assert all(stripe.segments in COUNTS for stripe in found.stripes)
    assert price_of(found.stripes, market.phases) == found.ticks
    single = market.singles()[0].ticks
    assert found.ticks <= single - single // 200
    assert found == market.split()


@FEW
@given(programs())
@examples(15, 100)
def test_no_split_is_below_the_linear_program(programs: list[Phases]) -> None:
    market = Market(programs)
    found = market.split()
    rows = [
        [sum(work.busy.get(name, 0.0) for work in phases) for name in NAMES] for phases in programs
    ]
    if found:
        assert found.ticks >= mix(np.array(rows)).seconds * TICKS_PER_SECOND * (1 - 1e-6)


def test_inside_first_runs_beside_across_first() -> None:
    """Two links, and two programs that use them in turn: together both are busy all the time."""
    inside = (PhaseWork(0.0, {"gpu": 4.0}), PhaseWork(0.0, {"node": 1.0}))
    across = (PhaseWork(0.0, {"node": 4.0}), PhaseWork(0.0, {"gpu": 1.0}))
    market = Market([inside, across])
    found = market.split()
    assert found is not None
    assert {stripe.path for stripe in found.stripes} == {0, 1}
    assert found.ticks < 2.6 * TICKS_PER_SECOND  # 2.5 s is what each link is busy for
    assert market.singles()[0].ticks >= 4 * TICKS_PER_SECOND


@pytest.mark.parametrize("unit", [1e-12, 1e-9, 1e-3, 1e3])
def test_small_and_large_times_are_split_alike(unit: float) -> None:
    """Down to picoseconds, where half a percent is no whole tick."""
    inside = (PhaseWork(0.0, {"gpu": 4 * unit}), PhaseWork(0.0, {"node": 1 * unit}))
    across = (PhaseWork(0.0, {"node": 4 * unit}), PhaseWork(0.0, {"gpu": 1 * unit}))
    market = Market([inside, across])
    found = market.split()
    assert found is not None
    assert found.ticks <= 2.6 * unit * TICKS_PER_SECOND + 1 < market.singles()[0].ticks


def test_three_dimensions_are_taken_in_three_orders() -> None:
    """On a torus the first dimension of a program does most: each gets its turn."""
    names = ("z", "y", "x")
    turns = [
        tuple(PhaseWork(0.0, {names[(first + i) % 3]: 4.0 / 4**i}) for i in range(3))
        for first in range(3)
    ]
    found = Market(turns).split()
    assert found is not None
    assert {stripe.path for stripe in found.stripes} == {0, 1, 2}
    assert found.ticks < 1.05 * 7 / 4 * TICKS_PER_SECOND


def test_twins_of_one_program_hide_its_latency() -> None:
    market = Market([(PhaseWork(1.0, {"node": 2.0}), PhaseWork(1.0, {"node": 2.0}))])
    found = market.split()
    assert found is not None
    assert {stripe.path for stripe in found.stripes} == {0}
    assert market.singles()[0].ticks == 6 * TICKS_PER_SECOND
    assert found.ticks <= 5.1 * TICKS_PER_SECOND  # the first message and what the link carries


def test_twins_need_not_be_of_the_best_program_alone() -> None:
    """Alone the second program waits 0.1 s in each of its segments; its twins hide most of that.

    The first one keeps the link busy for 2.6 s, so no share of it helps much.
    """
    ring = (PhaseWork(0.1, {"node": 2.6}),)
    pipeline = (PhaseWork(0.1, {"node": 2.0}), PhaseWork(0.1, {"gpu": 2.0}))
    market = Market([ring, pipeline])
    counts = (1, 2, 4, 6, 8, 12)
    singles = [
        min(
            (
                SegmentedPath(path, price_ticks(market.phases(path, PAYLOAD / count), count), count)
                for count in counts
            ),
            key=lambda single: single.ticks,
        )
        for path in (0, 1)
    ]
    assert singles[0].ticks < singles[1].ticks
    found = split(market.phases, 2, singles, PAYLOAD, counts)
    assert found is not None
    assert found.ticks <= 2.6 * TICKS_PER_SECOND


def test_what_needs_no_stripes_gets_none() -> None:
    always_busy = [(PhaseWork(0.0, {"node": 4.0}),)]
    assert Market(always_busy).split() is None
    assert split(Market(always_busy).phases, 1, [], PAYLOAD, COUNTS) is None
    assert split(lambda path, size: (), 1, [SegmentedPath(0, 0, 1)], PAYLOAD, COUNTS) is None
    twins = Market([(PhaseWork(1.0, {"node": 2.0}), PhaseWork(1.0, {"node": 2.0}))])
    singles = twins.singles()
    assert split(twins.phases, 1, singles, 255, COUNTS) is None
    assert split(twins.phases, 1, singles, PAYLOAD, COUNTS, go_on=lambda: False) is None


def test_every_number_of_segments_can_be_the_only_one() -> None:
    phases = (PhaseWork(0.5, {"node": 4.0}), PhaseWork(0.5, {"gpu": 4.0}))
    market = Market([phases, phases[::-1]])
    for count in COUNTS:
        ticks = price_ticks(market.phases(0, PAYLOAD / count), count)
        found = split(market.phases, 2, [SegmentedPath(0, ticks, count)], PAYLOAD, (count,))
        assert found is None or {stripe.segments for stripe in found.stripes} == {count}


def phases_of(*works: tuple[float, float, float, float]) -> Phases:
    """Phases by their latency and what they keep busy of NAMES."""
    return tuple(
        PhaseWork(latency, {name: busy for name, busy in zip(NAMES, parts, strict=True) if busy})
        for latency, *parts in works
    )


def brute_force(market: Market, many: int, parts: int) -> float:
    """The least seconds of so many programs with equal or unequal parts, in all numbers of
    segments, each followed event by event; nothing but the engine is asked.
    """
    least = inf
    shares = [cut for cut in product(range(1, parts), repeat=many) if sum(cut) == parts]
    for paths in combinations_with_replacement(range(len(market.programs)), many):
        for cut, counts in product(shares, product(COUNTS, repeat=many)):
            lanes = [
                Lane(market.phases(path, PAYLOAD * part / parts / count), count)
                for path, part, count in zip(paths, cut, counts, strict=True)
            ]
            least = min(least, max(span.end_seconds for span in simulate_lanes(lanes)))
    return least


PAIRED = [
    phases_of((1 / 4, 0, 4, 2), (1 / 16, 0, 8, 2)),
    phases_of((0, 6, 3, 6)),
    phases_of((1 / 16, 8, 0, 1), (0, 8, 4, 0)),
    phases_of((0, 8, 0, 1)),
]
"""Neither the best alone nor the linear program's choice is in the best pair."""
TWINS = [phases_of((0, 3, 0, 0), (0, 0, 0, 3))]
"""Three are better than two: while one waits for the first link, the others use the second."""
MIXED = [
    phases_of((1 / 4, 3, 0, 0), (1, 3, 0, 0), (0, 8, 6, 2)),
    phases_of((1 / 16, 6, 0, 0), (0, 0, 3, 0), (0, 0, 1, 0)),
    phases_of((1, 3, 0, 2), (1 / 4, 0, 2, 4)),
]
"""The stripes are best in unlike numbers of segments."""
WAITING = [
    phases_of((2, 3, 0, 0)),
    phases_of((0, 0, 4, 1), (1 / 4, 3, 2, 0), (1 / 2, 0, 0, 2)),
    phases_of((0, 0, 0, 4), (1 / 2, 0, 8, 0), (1 / 2, 0, 3, 1)),
]
"""What keeps the links busy for the shortest time waits too long for its messages."""


@pytest.mark.parametrize(
    ("programs", "seeds", "many", "parts"),
    [(PAIRED, 4, 2, 16), (TWINS, 1, 3, 6), (MIXED, 3, 2, 16), (WAITING, 1, 2, 8)],
)
def test_what_wins_by_brute_force_is_found(
    programs: list[Phases], seeds: int, many: int, parts: int
) -> None:
    """As good as any of a grid of shares, where fewer or other stripes would be worse by 2%."""
    market = Market(programs)
    found = market.split(seeds)
    assert found is not None
    least = brute_force(market, many, parts) * TICKS_PER_SECOND
    assert found.ticks <= 1.002 * least
    assert least < 0.98 * market.singles()[0].ticks


def test_orders_of_the_same_loads_are_tried() -> None:
    """Programs that load everything alike in other orders differ only in who waits for whom.

    Whatever the shares, the second link is busy for 8 s: in four orders it never stands idle.
    """
    first, second, third = (1.0, 0, 4, 0), (0.0, 0, 4, 0), (2.0, 0, 0, 4)
    orders = [(first, second, third), (second, first, third), (first, third, second)]
    market = Market([phases_of(*order) for order in [*orders, (third, second, first)]])
    found = market.split()
    assert found is not None
    assert market.singles()[0].ticks == 13 * TICKS_PER_SECOND
    assert found.ticks <= 8.01 * TICKS_PER_SECOND


def test_the_next_best_alone_is_tried_beside_the_best() -> None:
    steps = [(0.0, 1, 2, 0), (2.0, 0, 4, 0), (0.0, 4, 0, 0)]
    market = Market([phases_of(*order) for order in permutations(steps)])
    found = market.split()
    assert found is not None
    assert found.ticks <= 1.002 * brute_force(market, 2, 4) * TICKS_PER_SECOND


@pytest.mark.parametrize(("latency", "worth_it"), [(0.012, False), (0.1, True)])
def test_more_stripes_must_gain_half_a_percent(latency: float, worth_it: bool) -> None:
    """Two twins save one latency of two: too little of 4 s by itself, and enough."""
    market = Market([(PhaseWork(latency, {"node": 2.0}), PhaseWork(latency, {"node": 2.0}))])
    ticks = price_ticks(market.phases(0, PAYLOAD), 1)
    found = split(market.phases, 1, [SegmentedPath(0, ticks, 1)], PAYLOAD, (1,))
    assert (found is not None) == worth_it


def test_no_split_is_looked_for_where_none_can_be_below_the_limit() -> None:
    market = Market(PAIRED)
    found = market.split()
    assert found is not None
    ask = (market.phases, len(PAIRED), market.singles(), PAYLOAD, COUNTS)
    assert split(*ask, limit=found.ticks) == found
    rows = [[sum(w.busy.get(name, 0.0) for w in phases) for name in NAMES] for phases in PAIRED]
    assert split(*ask, limit=int(0.99 * mix(np.array(rows)).seconds * TICKS_PER_SECOND)) is None


@pytest.mark.slow
@FEW
@given(programs())
def test_a_split_is_as_good_as_any_of_a_coarse_grid(programs: list[Phases]) -> None:
    """Not promised, but told: how far pairs of a grid are below what was found."""
    market = Market(programs)
    found = market.split()
    ticks = found.ticks if found else market.singles()[0].ticks
    pairs = product(range(len(programs)), range(len(programs)), COUNTS, (1, 2, 4))
    for one, other, count, part in pairs:
        sizes = round_to_bytes([1.0, float(part)], PAYLOAD)
        stripes = [PathStripe(one, sizes[0], count), PathStripe(other, sizes[1], count)]
        price = price_of(stripes, market.phases)
        assert price is not None
        assert price >= 0.85 * ticks
