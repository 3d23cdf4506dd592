"""The cheapest overlapped programs against simulating every one of them."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhaustive import examples
from overlap_oracle import least_seconds, works
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.price import segments as in_segments
from synth.collective.price.choices import select_undominated
from synth.collective.price.segments import (
    Choices,
    PathRanking,
    Phases,
    SegmentedPath,
    _rows,
    best_choice,
    bounds_of_rows,
    cheapest_paths,
    price_ticks,
    price_up_to,
)
from synth.collective.price.ways import PriceLine, pick_fastest
from synth.events.overlap import PhaseWork

COUNTS = (1, 2, 5)


@st.composite
def markets(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], dict[int, list[Phases]]]:
    """Some labels with phases for each number of segments, and paths over them."""
    labels = draw(st.integers(1, 5))
    phases = st.lists(works(), max_size=3).map(tuple)
    moves = {m: draw(st.lists(phases, min_size=labels, max_size=labels)) for m in COUNTS}
    path = st.lists(st.integers(0, labels - 1), max_size=4).map(tuple)
    return draw(st.lists(path, min_size=1, max_size=12, unique=True)), moves


def brute(
    paths: list[tuple[int, ...]], moves: dict[int, list[Phases]], count: int, limit: int | None
) -> set[SegmentedPath]:
    found = []
    for number, path in enumerate(paths):
        prices = {
            m: price_ticks([phase for label in path for phase in moves[m][label]], m)
            for m in COUNTS
        }
        least = min(COUNTS, key=lambda m: (prices[m], m))
        found.append(SegmentedPath(number, prices[least], least))
    found.sort(key=lambda one: one.ticks)
    worst = found[min(count, len(found)) - 1].ticks
    worst = worst if limit is None else min(worst, limit)
    return {one for one in found if one.ticks <= worst}


@given(markets(), st.integers(1, 14), st.none() | st.integers(0, 30 * 10**12))
@examples(15, 100)
def test_the_cheapest_are_those_of_simulating_all(
    market: tuple[list[tuple[int, ...]], dict[int, list[Phases]]], count: int, limit: int | None
) -> None:
    paths, moves = market
    found = cheapest_paths(PathRanking(paths, single(moves)), count, limit)
    assert len(found) == len(set(found))
    wanted = brute(paths, moves, count, limit)
    assert set(found) == wanted


@given(markets())
@examples(15, 100)
def test_bounds_of_rows_are_those_of_their_phases(
    market: tuple[list[tuple[int, ...]], dict[int, list[Phases]]],
) -> None:
    paths, moves = market
    for segments, labelled in moves.items():
        bounds = bounds_of_rows(_rows(paths, len(labelled)), [(x,) for x in labelled], segments)
        for path, bound in zip(paths, bounds, strict=True):
            phases = [phase for label in path for phase in labelled[label]]
            assert bound == pytest.approx(least_seconds(phases, segments), rel=1e-12)


def test_an_overlapped_program_beats_what_barriers_prefer() -> None:
    """Two resources used in turn beat one that is a little faster, once segments overlap."""
    one = (PhaseWork(0.0, {"node": 3.0}),)
    turns = (PhaseWork(0.0, {"gpu": 2.0}), PhaseWork(0.0, {"node": 2.0}))
    moves = {
        m: [
            tuple(PhaseWork(0.0, {n: s / m for n, s in p.busy.items()}) for p in phases)
            for phases in (one, turns)
        ]
        for m in (1, 8)
    }
    alone = single({1: moves[1]})
    assert cheapest_paths(PathRanking([(0,), (1,)], alone), 1) == [SegmentedPath(0, 3 * 10**12, 1)]
    assert cheapest_paths(PathRanking([(0,), (1,)], single(moves)), 1) == [
        SegmentedPath(1, 225 * 10**10, 8)
    ]


def test_nothing_to_choose_from() -> None:
    assert cheapest_paths(PathRanking([], {1: []}), 3) == []
    assert cheapest_paths(PathRanking([()], {1: []}), 3) == [SegmentedPath(0, 0, 1)]


# Where steps have a choice of algorithms.


@st.composite
def open_markets(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], dict[int, list[Choices]]]:
    """As ``markets``, each label with up to three ways to do it."""
    labels = draw(st.integers(1, 4))
    phases = st.lists(works(), max_size=2).map(tuple)
    some = st.lists(phases, min_size=1, max_size=3)
    moves = {m: draw(st.lists(some, min_size=labels, max_size=labels)) for m in COUNTS}
    path = st.lists(st.integers(0, labels - 1), max_size=3).map(tuple)
    return draw(st.lists(path, min_size=1, max_size=6, unique=True)), moves


def every_way(path: tuple[int, ...], every: list[Choices], segments: int) -> list[int]:
    """The price of a path by each choice for its labels."""
    return [
        price_ticks([phase for phases in ways for phase in phases], segments)
        for ways in product(*(every[label] for label in path))
    ]


@given(open_markets(), st.integers(1, 6), st.none() | st.integers(0, 30 * 10**12))
@examples(15, 100)
def test_the_cheapest_are_those_of_all_choices(
    market: tuple[list[tuple[int, ...]], dict[int, list[Choices]]], count: int, limit: int | None
) -> None:
    paths, moves = market
    found = []
    for number, path in enumerate(paths):
        prices = {m: min(every_way(path, moves[m], m)) for m in COUNTS}
        least = min(COUNTS, key=lambda m: (prices[m], m))
        found.append(SegmentedPath(number, prices[least], least))
    found.sort(key=lambda one: one.ticks)
    worst = found[min(count, len(found)) - 1].ticks
    worst = worst if limit is None else min(worst, limit)
    got = cheapest_paths(PathRanking(paths, moves), count, limit)
    assert len(got) == len(set(got))
    assert set(got) == {one for one in found if one.ticks <= worst}


@given(open_markets(), st.integers(0, 6), st.integers(0, 4))
@examples(15, 100)
def test_what_is_enough_changes_neither_prices_nor_what_is_looked_at(
    market: tuple[list[tuple[int, ...]], dict[int, list[Choices]]], enough: int, many: int
) -> None:
    """However few are enough, all can be asked for, and each comes after as many choices."""

    def found(enough: int | None) -> list[tuple[SegmentedPath, int]]:
        followed = PathRanking(*market, enough)
        return [(one, followed.looked) for one in followed]

    with patch.object(in_segments, "_MANY", many):
        assert found(enough) == found(None)


def test_what_is_surely_dearer_is_not_followed_to_its_end() -> None:
    """Steps share a link, and how far they hide each other's messages no bound sees."""

    def step(wait: float, segments: int) -> list[Phases]:
        """Quick to begin or lean, in so many segments."""
        lines = ((wait, 1.1), (2 * wait, 1.05), (4 * wait, 1.0))
        return [(PhaseWork(first, {"a": busy / segments}),) for first, busy in lines]

    waits = (0.01, 0.02, 0.03, 0.04, 0.05)
    moves = {m: [step(wait, m) for wait in waits] for m in (4, 8, 16, 32)}
    paths = [*combinations(range(5), 3)]

    def ended(enough: int | None) -> tuple[list[SegmentedPath], int]:
        priced = []

        def noting(*given: Any) -> int | None:
            priced.append(price_up_to(*given))
            return priced[-1]

        with (
            patch.object(in_segments, "price_up_to", noting),
            patch.object(in_segments, "_MANY", 1),
        ):
            found = cheapest_paths(PathRanking(paths, moves, enough), 1)
        return found, sum(one is not None for one in priced)

    (least, few), (same, many) = ended(1), ended(None)
    assert least == same
    assert few < many


@given(open_markets())
@examples(15, 100)
def test_one_program_takes_the_best_of_all_choices(
    market: tuple[list[tuple[int, ...]], dict[int, list[Choices]]],
) -> None:
    paths, moves = market
    for segments, every in moves.items():
        for path in paths:
            some = [every[label] for label in path]
            _, best = best_choice(some, segments)
            phases = [p for ways, n in zip(some, best, strict=True) for p in ways[n]]
            assert price_ticks(phases, segments) == min(every_way(path, every, segments))


def test_what_is_slower_alone_may_be_better_beside_others() -> None:
    """Two steps on one link: latency is hidden by the other step, and what the link does is not."""
    quick, lean = (PhaseWork(0.0, {"node": 4.0}),), (PhaseWork(2.0, {"node": 3.0}),)
    assert best_choice([[quick, lean]] * 2, 1)[1] == (0, 0)
    assert 1 in best_choice([[quick, lean]] * 2, 8)[1]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)), min_size=1))
def test_a_line_is_left_out_only_for_one_that_asks_for_no_more(
    asks: list[tuple[int, int, int]],
) -> None:
    lines = [
        PriceLine(Algorithm.RING, float(wait), (("node", float(node)), ("gpu", float(gpu))), ())
        for wait, node, gpu in asks
    ]
    kept = select_undominated(lines, 1.0)
    assert kept[0] == pick_fastest(lines, 1.0)
    assert len(set(map(repr, kept))) == len(kept)
    rows = [(line.latency_seconds, *(s for _, s in line.loads)) for line in kept]
    for ask in asks:
        assert any(all(a <= b for a, b in zip(row, ask, strict=True)) for row in rows)


def single(moves: dict[int, list[Phases]]) -> dict[int, list[Choices]]:
    """Labels that have no choice."""
    return {segments: [(phases,) for phases in every] for segments, every in moves.items()}
