"""Differences of plans are told in nine of ten cases: on truths that are made up."""

from __future__ import annotations

import numpy as np

from synth.step.search.resolution import UncertainSeconds, UncertaintySource, compare_seconds

DRAWS = 4_000
NINE_OF_TEN = 1.6448536269514722
"""Of a normal distribution the part of a deviation within which nine of ten draws are."""

PRODUCTS, BETWEEN, LINKS, OTHERS = (
    UncertaintySource(name) for name in ("products", "between", "links", "o")
)
ONE = UncertainSeconds(
    10.0, {PRODUCTS: (-1.0, 1.0), BETWEEN: (-0.3, 0.3), LINKS: (-0.5, 0.5)}, own=0.02
)
OTHER = UncertainSeconds(
    10.5, {PRODUCTS: (-0.4, 0.4), BETWEEN: (-0.6, 0.6), OTHERS: (-0.7, 0.7)}, own=0.03
)
ALIKE = UncertainSeconds(
    10.2, {PRODUCTS: (-1.0, 1.0), BETWEEN: (-0.3, 0.3), LINKS: (-0.5, 0.5)}, own=0.02
)


def covered(one: UncertainSeconds, other: UncertainSeconds) -> float:
    """How often the interval of a difference has the true one.

    In truth each source has one factor, the same for both plans, and effects outside the model is
    of the pair.
    """
    draw = np.random.default_rng(7)
    found = compare_seconds(one, other)
    truth = np.full(DRAWS, other.seconds - one.seconds)
    for source in {*one.ends, *other.ends}:
        high = other.ends.get(source, (0.0, 0.0))[1] - one.ends.get(source, (0.0, 0.0))[1]
        truth += draw.standard_normal(DRAWS) / NINE_OF_TEN * high
    own = max(one.own, other.own) * min(one.seconds, other.seconds)
    truth += draw.standard_normal(DRAWS) / NINE_OF_TEN * own
    return float(np.mean((found.low_seconds <= truth) & (truth <= found.high_seconds)))


def test_nine_of_ten_differences_are_within_their_interval() -> None:
    """Neither fewer nor more: an interval that always holds tells nothing apart."""
    for one, other in ((ONE, OTHER), (ONE, ALIKE), (OTHER, ALIKE)):
        assert 0.88 <= covered(one, other) <= 0.92


def test_a_plan_claimed_faster_is_faster_in_nineteen_of_twenty_cases() -> None:
    """Of plans at the edge of being told apart, one end of the interval is beyond zero."""
    edge = compare_seconds(ONE, OTHER)
    width = edge.seconds - edge.low_seconds
    later = UncertainSeconds(ONE.seconds + width * 1.0001, OTHER.ends, OTHER.own)
    found = compare_seconds(ONE, later)
    assert found.is_clear
    assert not compare_seconds(
        ONE, UncertainSeconds(ONE.seconds + width * 0.99, OTHER.ends, OTHER.own)
    ).is_clear
    draw = np.random.default_rng(3)
    deviation = (found.high_seconds - found.seconds) / NINE_OF_TEN
    truth = found.seconds + deviation * draw.standard_normal(DRAWS)
    assert 0.93 <= float(np.mean(truth > 0)) <= 0.97
