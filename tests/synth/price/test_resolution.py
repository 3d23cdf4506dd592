"""Which prices are told apart: beside all corners of what the errors may be."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from exhaustive import examples
from synth.collectives.algorithms import Algorithm
from synth.collectives.protocols import Protocol
from synth.price.resolution import FINEST, WORTH, Estimate, Source, beyond, near

RINGS = Source(Algorithm.RING, Protocol.SIMPLE, "node", 0.7, 1.4)
SWITCH = Source(Algorithm.IN_NETWORK, Protocol.SIMPLE, "gpu", 0.7, 1.4)
INSIDE = Source(Algorithm.RING, Protocol.SIMPLE, "gpu", 0.9, 1.2)
SOURCES = (RINGS, SWITCH, INSIDE)
owed = st.fixed_dictionaries({one: st.integers(0, 1000).map(float) for one in SOURCES})


def of(parts: dict[Source, float]) -> Estimate:
    return Estimate(round(sum(parts.values())), parts)


@given(owed, owed)
@examples(80, 2000)
def test_surely_below_is_below_whatever_the_errors_are(
    first: dict[Source, float], other: dict[Source, float]
) -> None:
    corners = product(*((one.low, one.high) for one in SOURCES))
    differences = [
        sum((other[one] - first[one]) * factor for one, factor in zip(SOURCES, corner, strict=True))
        for corner in corners
    ]
    assume(min(abs(one) for one in differences) > 1e-6)
    less, more = of(first), of(other)
    enough = more.ticks > less.ticks * (1 + FINEST)
    assert less.surely_below(more) == (enough and min(differences) > 0)


@given(owed, owed)
@examples(80, 2000)
def test_intervals_that_do_not_overlap_are_told_apart(
    first: dict[Source, float], other: dict[Source, float]
) -> None:
    high = sum(part * one.high for one, part in first.items())
    assume(high < of(other).lowest)
    assume(beyond(of(first).ticks, of(other).ticks))
    assert of(first).surely_below(of(other))


@given(owed, owed, owed)
@examples(80, 2000)
def test_it_is_a_strict_partial_order(
    a: dict[Source, float], b: dict[Source, float], c: dict[Source, float]
) -> None:
    one, two, three = of(a), of(b), of(c)
    assert not one.surely_below(one)
    assert not (one.surely_below(two) and two.surely_below(one))
    if one.surely_below(two) and two.surely_below(three):
        assert one.surely_below(three)


@given(st.integers(0, 10**18), st.integers(0, 10**18))
def test_near_is_the_last_that_is_not_beyond(ticks: int, other: int) -> None:
    assert not beyond(ticks, near(ticks))
    assert beyond(ticks, near(ticks) + 1)
    assert beyond(ticks, other) == (other > near(ticks))
    assert Estimate(ticks).surely_below(Estimate(other)) == beyond(ticks, other)


@pytest.mark.parametrize(
    ("other", "told"),
    [({RINGS: 1300.0}, True), ({SWITCH: 1300.0}, False), ({SWITCH: 2100.0}, True)],
)
def test_what_two_programs_share_cancels(other: dict[Source, float], told: bool) -> None:
    """Each may be off by 40%: by the same rings a third more bytes are more, by switches not."""
    assert of({RINGS: 1000.0}).surely_below(of(other)) is told


def corners_of(first: Estimate, other: Estimate) -> list[float]:
    """Other / first at all corners of what the errors may be."""
    return [
        sum(other.owed[one] * factor for one, factor in zip(SOURCES, corner, strict=True))
        / sum(first.owed[one] * factor for one, factor in zip(SOURCES, corner, strict=True))
        for corner in product(*((one.low, one.high) for one in SOURCES))
    ]


@given(owed, owed)
@examples(80, 2000)
def test_a_speed_up_lies_between_those_of_all_corners(
    first: dict[Source, float], other: dict[Source, float]
) -> None:
    less, more = of(first), of(other)
    assume(less.ticks and more.ticks)
    every = corners_of(less, more)
    assert less.speedup_over(more) == pytest.approx((min(every), max(every)))


@given(owed, owed)
@examples(80, 2000)
def test_worth_measuring_is_expected_to_gain_enough_and_may_not(
    first: dict[Source, float], other: dict[Source, float]
) -> None:
    """So of any two prices one verdict holds: told, worth measuring, or the same."""
    less, more = of(first), of(other)
    assume(less.ticks and more.ticks)
    every = corners_of(less, more)
    assume(abs(min(every) - 1) > 1e-9)
    expected = more.ticks > (1 + WORTH) * less.ticks
    assert less.perhaps_below(more) == (expected and min(every) < 1)
    assert not (less.perhaps_below(more) and less.surely_below(more))


def test_without_a_calibration_all_that_is_worth_it_is_told() -> None:
    assert Estimate(1000).speedup_over(Estimate(1500)) == (1.5, 1.5)
    assert not Estimate(1000).perhaps_below(Estimate(1500))
