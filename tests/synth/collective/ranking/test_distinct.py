"""What prices cannot tell apart is one answer: the grouping beside one that tries all pairs."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from exhaustive import examples
from grouped_members import distinct
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.protocols import Protocol
from synth.collective.price.resolution import PriceErrorSource, PriceEstimate
from synth.collective.ranking.distinct import AnswerGrouping, DistinctAnswer, Member

SOURCES = {
    PriceErrorSource(Algorithm.RING, Protocol.SIMPLE, "node"): (0.7, 1.4),
    PriceErrorSource(Algorithm.TREE, Protocol.SIMPLE, "node"): (0.9, 1.1),
    PriceErrorSource(Algorithm.RING, Protocol.SIMPLE, "gpu"): (0.95, 1.2),
}
Told = Member[tuple[str, int]]


@st.composite
def members(draw: st.DrawFn, calibrated: bool) -> list[Told]:
    """A few programs in a few numbers of segments, some prices near others."""
    found = []
    for name in "abcdefg"[: draw(st.integers(1, 7))]:
        steps = draw(st.integers(1, 4))
        for segments in draw(st.sets(st.integers(1, 3), min_size=1)):
            if calibrated:
                parts = [draw(st.integers(0, 300)) for _ in SOURCES]
                parts[0] += 1000
                owed = {
                    one: (low * part, high * part)
                    for part, (one, (low, high)) in zip(parts, SOURCES.items(), strict=True)
                }
                estimate = PriceEstimate(sum(parts), owed)
            else:
                estimate = PriceEstimate(draw(st.integers(1000, 1100)))
            what = (name, segments)
            found.append(Member(estimate, (1, segments, steps, (name,)), name, what))
    return found


def by_hand(found: list[Told], count: int) -> list[Told]:
    """The same said as plainly as can be: of what is left, the simplest of what nothing beats."""
    left, shown = list(found), []
    while left and len(shown) < count:
        unbeaten = [
            one for one in left if not any(b.estimate.surely_below(one.estimate) for b in left)
        ]
        leader = min(left, key=lambda one: (one.ticks, one.simplicity))
        best = min(
            (one for one in unbeaten if not leader.estimate.told_from(one.estimate)),
            key=lambda one: one.simplicity,
        )
        shown.append(best)
        gone = {one.program for one in left if not best.estimate.surely_below(one.estimate)}
        left = [one for one in left if one.program not in gone | {best.program, leader.program}]
    return shown


def check(found: list[Told], told: list[DistinctAnswer[tuple[str, int]]], count: int) -> None:
    of = {one.what: one for one in found}
    shown = [of[one.what] for one in told]
    assert shown == by_hand(found, count)
    for faster, slower in combinations(shown, 2):
        assert faster.estimate.surely_below(slower.estimate)
        assert faster.program != slower.program
    if len(told) < count:
        assert sum(1 + one.others for one in told) == len({one.program for one in found})
    for one in told:
        assert one.least_ticks <= of[one.what].ticks


@given(members(calibrated=False), st.integers(1, 4))
@examples(80, 1000)
def test_answers_are_the_simplest_of_what_prices_cannot_tell_apart(
    found: list[Told], count: int
) -> None:
    check(found, distinct(found, count), count)


@given(members(calibrated=True), st.integers(1, 4))
@examples(80, 1000)
def test_so_they_are_where_errors_are_shared(found: list[Told], count: int) -> None:
    check(found, distinct(found, count), count)


@given(members(calibrated=False), st.integers(1, 4))
@examples(40, 500)
def test_nothing_that_comes_later_changes_what_is_settled(found: list[Told], count: int) -> None:
    """Members in the order of their prices, each settled as soon as the bound allows it."""
    grouping: AnswerGrouping[tuple[str, int]] = AnswerGrouping()
    for one in sorted(found, key=lambda one: one.ticks):
        while len(grouping) < count and grouping.settle(one.ticks):
            pass
        grouping.add(one)
    while len(grouping) < count and grouping.settle(float("inf")):
        pass
    assert [one.what for one in grouping.answers()] == [one.what for one in distinct(found, count)]
