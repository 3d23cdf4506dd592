"""Which prices are told apart: beside all corners of what the errors may be."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from exhaustive import examples
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.protocols import Protocol
from synth.collective.price.resolution import (
    FINEST,
    WORTH,
    Ends,
    PriceErrorSource,
    PriceEstimate,
    is_beyond,
    largest_near,
    sum_estimates,
)

RINGS = PriceErrorSource(Algorithm.RING, Protocol.SIMPLE, "node")
SWITCH = PriceErrorSource(Algorithm.IN_NETWORK, Protocol.SIMPLE, "gpu")
INSIDE = PriceErrorSource(Algorithm.RING, Protocol.SIMPLE, "gpu")
SOURCES = (RINGS, SWITCH, INSIDE)
OFF = {RINGS: (0.7, 1.4), SWITCH: (0.7, 1.4), INSIDE: (0.9, 1.2)}
Parts = dict[PriceErrorSource, tuple[float, float, float]]
"""What is owed to each source as priced, and the ratios to it at both ends."""
ratios = st.tuples(
    st.integers(0, 1000).map(float),
    st.integers(30, 100).map(lambda one: one / 100),
    st.integers(100, 400).map(lambda one: one / 100),
)
owed: st.SearchStrategy[Parts] = st.fixed_dictionaries(dict.fromkeys(SOURCES, ratios))


def of(parts: Parts) -> PriceEstimate:
    ends = {one: (part * low, part * high) for one, (part, low, high) in parts.items() if part}
    return PriceEstimate(round(sum(part for part, _, _ in parts.values())), ends)


def off(parts: dict[PriceErrorSource, float]) -> PriceEstimate:
    """Sources that are all as uncertain as is usual for them."""
    return of({one: (part, *OFF[one]) for one, part in parts.items()})


def corners(first: PriceEstimate, other: PriceEstimate) -> list[Ends]:
    """Both prices at all corners of what the unknowns may be: each 0, its lowest, or 1.

    Between corners nothing is farther: in one unknown the quotient of two prices, all others
    held, is (p + q z) / (r + s z), which rises or falls everywhere.
    """
    nothing = (0.0, 0.0)
    return [
        (
            sum(first.owed.get(one, nothing)[end] for one, end in zip(SOURCES, at, strict=True)),
            sum(other.owed.get(one, nothing)[end] for one, end in zip(SOURCES, at, strict=True)),
        )
        for at in product((0, 1), repeat=len(SOURCES))
    ]


@given(owed, owed)
@examples(80, 2000)
def test_a_speed_up_lies_between_those_of_all_corners(first: Parts, other: Parts) -> None:
    less, more = of(first), of(other)
    assume(less.ticks and more.ticks)
    expected = more.ticks / less.ticks
    every = [above / below for below, above in corners(less, more)]
    every += [expected / (1 + FINEST), expected * (1 + FINEST)]
    assert less.speedup_over(more) == pytest.approx((min(every), max(every)))


@given(owed, owed, st.lists(st.floats(0, 1), min_size=3, max_size=3))
@examples(80, 2000)
def test_no_unknown_between_its_ends_leads_out_of_the_interval(
    first: Parts, other: Parts, at: list[float]
) -> None:
    less, more = of(first), of(other)
    assume(less.ticks and more.ticks)
    below, above = (
        sum(
            low + z * (high - low)
            for one, z in zip(SOURCES, at, strict=True)
            for low, high in [price.owed.get(one, (0.0, 0.0))]
        )
        for price in (less, more)
    )
    least, most = less.speedup_over(more)
    assert least * (1 - 1e-9) <= above / below <= most * (1 + 1e-9)


@given(owed, owed)
@examples(80, 2000)
def test_surely_below_is_where_the_whole_interval_is_above_1(first: Parts, other: Parts) -> None:
    less, more = of(first), of(other)
    assume(less.ticks and more.ticks)
    differences = [above - below for below, above in corners(less, more)]
    assume(min(abs(one) for one in differences) > 1e-6)
    enough = 100 * more.ticks > 102 * less.ticks
    assert less.surely_below(more) == (enough and min(differences) > 0)
    if more.ticks * 100 != 102 * less.ticks:
        assert less.surely_below(more) == (less.speedup_over(more)[0] > 1)


@given(owed, owed)
@examples(80, 2000)
def test_the_interval_is_none_wider_than_that_of_independent_errors(
    first: Parts, other: Parts
) -> None:
    """The intervals of both prices, as they are shown beside them, and what is never told."""
    less, more = of(first), of(other)
    assume(less.ticks and more.ticks)
    least, most = less.speedup_over(more)
    finest, expected = 1 + FINEST, more.ticks / less.ticks
    assert least >= min(more.lowest / less.highest, expected / finest) * (1 - 1e-9)
    assert most <= max(more.highest / less.lowest, expected * finest) * (1 + 1e-9)


@given(owed, owed)
@examples(80, 2000)
def test_prices_with_disjoint_intervals_are_ordered(first: Parts, other: Parts) -> None:
    assume(of(first).ticks and of(other).ticks)
    times = 1.1 * of(first).highest / of(other).lowest
    above = {one: (times * part, low, high) for one, (part, low, high) in other.items()}
    assume(is_beyond(of(first).ticks, of(above).ticks))
    assert of(first).surely_below(of(above))


@given(owed, owed, owed)
@examples(80, 2000)
def test_it_is_a_strict_partial_order(a: Parts, b: Parts, c: Parts) -> None:
    one, two, three = of(a), of(b), of(c)
    assert not one.surely_below(one)
    assert not (one.surely_below(two) and two.surely_below(one))
    if one.surely_below(two) and two.surely_below(three):
        assert one.surely_below(three)


@given(st.integers(0, 10**18), st.integers(0, 10**18))
def test_near_is_the_last_that_is_not_beyond(ticks: int, other: int) -> None:
    assert not is_beyond(ticks, largest_near(ticks))
    assert is_beyond(ticks, largest_near(ticks) + 1)
    assert is_beyond(ticks, other) == (other > largest_near(ticks))
    assert PriceEstimate(ticks).surely_below(PriceEstimate(other)) == is_beyond(ticks, other)


@pytest.mark.parametrize(
    ("other", "told"),
    [({RINGS: 1300.0}, True), ({SWITCH: 1300.0}, False), ({SWITCH: 2100.0}, True)],
)
def test_what_two_programs_share_cancels(other: dict[PriceErrorSource, float], told: bool) -> None:
    """Each may be off by 40%: by the same rings a third more bytes are more, by switches not."""
    assert off({RINGS: 1000.0}).surely_below(off(other)) is told


def test_what_errs_together_cancels_whatever_it_is_a_part_of() -> None:
    """Half of each price is by the same rings: only the other halves are independent."""
    ours, default = off({RINGS: 500.0, INSIDE: 400.0}), off({RINGS: 500.0, SWITCH: 900.0})
    low, high = ours.speedup_over(default)
    assert (low, high) == pytest.approx(((700 + 630) / (700 + 480), (350 + 1260) / (350 + 360)))
    assert default.lowest / ours.highest < low < high < default.highest / ours.lowest


@given(owed, owed, st.integers(1, 5))
@examples(50, 500)
def test_prices_add_up_to_what_each_source_is_owed(first: Parts, other: Parts, times: int) -> None:
    whole = sum_estimates([(times, of(first)), (1, of(other))])
    assert whole.lowest == pytest.approx(times * of(first).lowest + of(other).lowest)
    assert whole.highest == pytest.approx(times * of(first).highest + of(other).highest)


@given(owed, owed)
@examples(80, 2000)
def test_worth_measuring_is_expected_to_gain_enough_and_may_not(first: Parts, other: Parts) -> None:
    """So of any two prices one verdict holds: told, worth measuring, or the same."""
    less, more = of(first), of(other)
    assume(less.ticks and more.ticks)
    least, _ = less.speedup_over(more)
    assume(abs(least - 1) > 1e-9)
    expected = more.ticks > (1 + WORTH) * less.ticks
    assert less.perhaps_below(more) == (expected and least < 1)
    assert not (less.perhaps_below(more) and less.surely_below(more))


def test_without_a_calibration_all_that_is_worth_it_is_told() -> None:
    low, high = PriceEstimate(1000).speedup_over(PriceEstimate(1500))
    assert (low, high) == pytest.approx((1.5 / (1 + FINEST), 1.5 * (1 + FINEST)))
    assert not PriceEstimate(1000).perhaps_below(PriceEstimate(1500))
