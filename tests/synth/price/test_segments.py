"""The cheapest overlapped programs against simulating every one of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhaustive import examples
from overlap_oracle import least_seconds, works
from synth.events.overlap import Work
from synth.price.segments import Overlapped, Phases, _bounds, _rows, cheapest, price_ticks

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
) -> set[Overlapped]:
    found = []
    for number, path in enumerate(paths):
        prices = {
            m: price_ticks([phase for label in path for phase in moves[m][label]], m)
            for m in COUNTS
        }
        least = min(COUNTS, key=lambda m: (prices[m], m))
        found.append(Overlapped(number, prices[least], least))
    found.sort(key=lambda one: one.ticks)
    worst = found[min(count, len(found)) - 1].ticks
    worst = worst if limit is None else min(worst, limit)
    return {one for one in found if one.ticks <= worst}


@given(markets(), st.integers(1, 14), st.none() | st.integers(0, 30 * 10**12))
@examples(30, 100)
def test_the_cheapest_are_those_of_simulating_all(
    market: tuple[list[tuple[int, ...]], dict[int, list[Phases]]], count: int, limit: int | None
) -> None:
    paths, moves = market
    found = cheapest(paths, moves, count, limit)
    assert len(found) == len(set(found))
    wanted = brute(paths, moves, count, limit)
    assert set(found) == wanted


@given(markets())
@examples(30, 100)
def test_bounds_of_rows_are_those_of_their_phases(
    market: tuple[list[tuple[int, ...]], dict[int, list[Phases]]],
) -> None:
    paths, moves = market
    for segments, labelled in moves.items():
        bounds = _bounds(_rows(paths, len(labelled)), labelled, segments)
        for path, bound in zip(paths, bounds, strict=True):
            phases = [phase for label in path for phase in labelled[label]]
            assert bound == pytest.approx(least_seconds(phases, segments), rel=1e-12)


def test_an_overlapped_program_beats_what_barriers_prefer() -> None:
    """Two resources used in turn beat one that is a little faster, once segments overlap."""
    one = (Work(0.0, {"node": 3.0}),)
    turns = (Work(0.0, {"gpu": 2.0}), Work(0.0, {"node": 2.0}))
    moves = {
        m: [
            tuple(Work(0.0, {n: s / m for n, s in p.busy.items()}) for p in phases)
            for phases in (one, turns)
        ]
        for m in (1, 8)
    }
    assert cheapest([(0,), (1,)], {1: moves[1]}, 1) == [Overlapped(0, 3 * 10**12, 1)]
    assert cheapest([(0,), (1,)], moves, 1) == [Overlapped(1, 225 * 10**10, 8)]


def test_nothing_to_choose_from() -> None:
    assert cheapest([], {1: []}, 3) == []
    assert cheapest([()], {1: []}, 3) == [Overlapped(0, 0, 1)]
