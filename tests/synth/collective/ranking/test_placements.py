"""All placements of a request: which are looked at, what is kept of them, in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from hierarchies import Axis, Domain, Hierarchy, Level, Link, Reduction, System, load, placements
from results.speedup.perfect import Several, perfectly
from synth.collective.price.step_prices import Simulator
from synth.collective.ranking import library
from synth.collective.ranking import placements as surveys
from synth.collective.ranking.candidates import CandidateSearch
from synth.collective.ranking.library import Library
from synth.collective.ranking.placements import (
    BestPlacements,
    PlacedCandidate,
    PlacementSearch,
    rank_answers,
)
from synth.collective.ranking.request import Request, Watcher
from synth.collective.semantics.programs import Language

SYSTEM = load("dgx-h100:2")
REQUEST = Request(
    (Axis("data", 4), Axis("model", 4)), ("data",), 2**20, 3, language=Language(2), stripes=False
)


def surveyed(request: Request, watcher: Watcher | None = None) -> BestPlacements:
    return PlacementSearch(
        Simulator(SYSTEM, request.choice), request, watcher or Watcher(), Library(request.language)
    ).run()


def test_ranks_begin_anew_on_each_placement() -> None:
    request = replace(REQUEST, per_placement=True)
    best = surveyed(request).best
    ranks = [rank for rank, _ in rank_answers(best, request)]
    counts = [sum(one.position == place for one in best) for place in range(3)]
    assert ranks == [rank for count in counts for rank in range(1, count + 1)]
    assert [one.position for one in best] == sorted(one.position for one in best)
    assert [rank for rank, _ in rank_answers(best, REQUEST)] == list(range(1, len(best) + 1))


def test_programs_at_their_bound_are_found_on_every_placement() -> None:
    """A byte takes one message: bounds, prices and so the limit are all the same."""
    one = replace(REQUEST, payload_bytes=1, k=1)
    [best] = surveyed(one).best
    assert best.position == min(
        place.position
        for place in surveyed(replace(one, k=99)).best
        if place.found.key == best.found.key
    )


@pytest.mark.parametrize("payload_bytes", [1, 2**20, 2**30])
def test_the_best_of_all_are_the_best_of_each(payload_bytes: int) -> None:
    """Whatever is left out by its bound is not among them, however many are asked for."""
    system = load("dgx-h100:8")
    axes = (Axis("data", 8), Axis("model", 8))
    request = replace(REQUEST, axes=axes, payload_bytes=payload_bytes)

    def best(k: int, per_placement: bool = False) -> list[PlacedCandidate]:
        asked = replace(request, k=k, per_placement=per_placement)
        found = PlacementSearch(
            Simulator(system, asked.choice), asked, Watcher(), Library(asked.language)
        ).run()
        return sorted(found.best, key=lambda one: one.key)

    each = best(9, per_placement=True)
    for k in range(1, 10):
        assert best(k) == each[:k]


def test_a_stop_is_remembered() -> None:
    """Whoever says stop once and then go on has still been stopped."""

    class Hesitant(Watcher):
        def __init__(self) -> None:
            self.asked = 0

        def go_on(self) -> bool:
            self.asked += 1
            return self.asked != 2

    assert not surveyed(REQUEST, watcher=Hesitant()).looked.complete


def test_the_default_is_that_of_the_best_placement() -> None:
    """By itself on each: the first looked at says nothing of the others."""
    every = [one.matrix for one in placements(SYSTEM.hierarchy, REQUEST.axes)]
    alone = [surveyed(replace(REQUEST, placement=matrix)) for matrix in every]
    seconds = [one.looked.best_default_seconds for one in alone]
    assert surveyed(REQUEST).looked.best_default_seconds == min(seconds)
    assert min(seconds) > 0


def test_the_first_of_like_placements_is_told() -> None:
    """Of nodes of one GPU each level is like the other: all programs tie, place by place."""
    levels = (Level("node", 4), Level("gpu", 4))
    links = (Link(Domain.SWITCH, 1e18, 0.0), Link(Domain.SWITCH, 1e18, 0.0))
    system = System("alike", "", Hierarchy(levels), links, 1e18)
    request = replace(REQUEST, payload_bytes=1, k=3)
    found = PlacementSearch(
        Simulator(system, request.choice), request, Watcher(), Library(request.language)
    ).run()
    keys = [(one.found.key, one.position) for one in found.best]
    assert keys == sorted(keys)


@pytest.mark.parametrize(("per_placement", "first"), [(True, 0), (False, 1)])
def test_whoever_is_stopped_has_looked_at_the_first_or_the_most_promising(
    per_placement: bool, first: int
) -> None:
    """Over the second axis the first placement spans nodes, the second does not."""

    class Stopped(Watcher):
        def placed(self, done: int, of: int) -> None:
            self.done = done

        def go_on(self) -> bool:
            return not hasattr(self, "done")

    request = replace(REQUEST, over=("model",), per_placement=per_placement)
    found = surveyed(request, watcher=Stopped())
    assert {one.position for one in found.best} == {first}
    assert (found.looked.placements, found.looked.complete) == (1, False)


def test_the_deepest_programs_are_learnt_while_others_search() -> None:
    """Programs of two levels take ten to learn, a search of one level takes twenty, of two none."""
    spent = 0
    explored, distinct = library.explore_moves, CandidateSearch.distinct

    def exploring(depth: int, *given: Any) -> Any:
        nonlocal spent
        spent += 10 * (depth - 1)
        return explored(depth, *given)

    def searching(search: CandidateSearch, reduction: Reduction, *given: Any) -> Any:
        nonlocal spent
        spent += 20 * (2 - len(reduction.tree.digits))
        return distinct(search, reduction, *given)

    request = replace(REQUEST, per_placement=True)
    with (
        patch.object(library, "explore_moves", exploring),
        patch.object(CandidateSearch, "distinct", searching),
        patch.object(surveys, "_MANY_PROGRAMS", 1),
        perfectly(lambda: spent, 10) as clock,
    ):
        alone = surveyed(request)
        assert clock.now() == spent == 30
        assert surveyed(request, Several(8)).best == alone.best
        assert (clock.now(), spent) == (30 + 20, 30 + 30)
