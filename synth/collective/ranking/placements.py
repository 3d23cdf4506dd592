"""The best programs over all placements of a request, not yet replayed and proved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, islice

from hierarchies import Placement, Reduction, System, check_axes, count_placements, placements
from hierarchies.fabric import price_class
from synth.collective.price.defaults import defaults
from synth.collective.price.resolution import PriceEstimate
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import TICKS_PER_SECOND, total_seconds
from synth.collective.ranking.candidates import CandidatePrograms, CandidateSearch
from synth.collective.ranking.distinct import DistinctAnswer
from synth.collective.ranking.library import Library
from synth.collective.ranking.request import (
    ProvisionalResult,
    Request,
    SearchCoverage,
    StopFlag,
    Watcher,
    programs_text,
)
from synth.search.forks import is_parallel, map_in_forks

_MANY_PROGRAMS = 10_000
"""Pricing this many programs takes a second or more."""


@dataclass(frozen=True)
class PlacedCandidate:
    """An answer, and the position of its placement among all of the request."""

    position: int
    distinct: DistinctAnswer[CandidatePrograms]

    @property
    def found(self) -> CandidatePrograms:
        """The program that is shown."""
        return self.distinct.what

    @property
    def key(self) -> tuple[int, int, tuple[str, ...], int]:
        """Sort key: price, number of steps, spellings, position of the placement."""
        return (*self.found.key, self.position)


@dataclass(frozen=True)
class BestPlacements:
    """The best programs of the placements searched, in order, and the search's coverage."""

    best: tuple[PlacedCandidate, ...]
    looked: SearchCoverage


@dataclass(frozen=True)
class _PlacementClass:
    """Placements on which a reduction costs the same, with their positions and bound in ticks.

    The bound is 0 where all are searched anyway.
    """

    least: int
    reductions: Sequence[tuple[int, Reduction]]

    @property
    def first(self) -> Reduction:
        """The reduction on the first placement."""
        return self.reductions[0][1]

    @property
    def depth(self) -> int:
        """How many levels the groups span."""
        return len(self.first.tree.digits)

    def placed(
        self, found: Iterable[DistinctAnswer[CandidatePrograms]]
    ) -> Iterator[PlacedCandidate]:
        """Yields the first placement's results on each placement of the class."""
        for answer in found:
            for position, reduction in self.reductions:
                yield PlacedCandidate(
                    position, replace(answer, what=replace(answer.what, reduction=reduction))
                )


def _reorder_by_depth(kinds: Sequence[_PlacementClass]) -> Sequence[_PlacementClass]:
    """Moves classes with one level less than the deepest to the front."""
    deepest = max(kind.depth for kind in kinds)
    return sorted(kinds, key=lambda kind: kind.depth != deepest - 1)


def _keep_best(
    candidates: Iterable[PlacedCandidate], request: Request
) -> tuple[PlacedCandidate, ...]:
    if request.per_placement:
        return tuple(sorted(candidates, key=lambda c: (c.position, c.key)))
    return tuple(sorted(candidates, key=lambda c: c.key)[: request.k])


def placements_in_question(system: System, request: Request) -> int:
    """Returns how many placements a request has. Raises InputError for axes that do not fit."""
    check_axes(system.hierarchy, request.axes)
    if request.placement is not None:
        return 1
    return count_placements(system.hierarchy, request.axes)


class PlacementSearch:
    """Prices the programs of one placement after another and keeps the best. One use.

    Placements on which the reduction costs the same share a search. Where the watcher has
    several processes, several are searched at once. Raises InputError for axes or placements
    that do not fit the system.
    """

    def __init__(
        self, simulator: Simulator, request: Request, watcher: Watcher, library: Library
    ) -> None:
        self._of = placements_in_question(simulator.system, request)
        self._system = simulator.system
        self._request = request
        self._watcher = watcher
        self._noting = StopFlag(watcher)
        self._library = library
        self._simulator = simulator
        self._search = CandidateSearch(
            library,
            self._simulator,
            request.payload_bytes,
            request.segments,
            stripes=request.stripes,
            go_on=self._noting.go_on,
        )
        self._best: tuple[PlacedCandidate, ...] = ()

    def run(self) -> BestPlacements:
        """Returns the best programs of all placements. At least the first is searched.

        Where only the best of all placements are requested, placements are searched in the order of
        their bounds: once k answers are known, placements with a bound above the last need no
        search. Otherwise the placements whose groups span most levels come first, because they take
        longest and a late start would leave other processes idle. Where forks work from the start,
        placements with one level less come first: forks search these while this process lists the
        deepest programs.
        """
        kinds = self._by_bound()
        at_once = self._all and is_parallel(self._noting) and self._many(kinds)
        kinds = _reorder_by_depth(kinds) if at_once else kinds
        done, programs, default = 0, 0, 0.0
        searched = map_in_forks(
            self._searched,
            self._to_search(kinds),
            self._noting,
            guessed=not self._all,
            known=self._library.known,
            at_once=at_once,
        )
        for kind in kinds:
            fresh = next(searched, None)
            if fresh is not None:
                self._best = _keep_best([*self._best, *kind.placed(fresh)], self._request)
                self._watcher.ranked(partial(self._so_far, self._best))
            elif not self._noting.go_on():
                break
            seconds = self._default_seconds(kind.first)
            default = seconds if not done else min(default, seconds)
            members = len(kind.reductions)
            programs += members * self._library.count(kind.depth)
            done += members
            self._watcher.placed(done, self._of)
        complete = self._library.complete and not self._noting.stopped
        return BestPlacements(
            self._best, SearchCoverage(default, done, self._of, programs, complete)
        )

    @property
    def _all(self) -> bool:
        """Whether all placements must be searched."""
        return self._request.per_placement

    def _many(self, kinds: Sequence[_PlacementClass]) -> bool:
        """Whether there are enough programs for a long search."""
        depths = sorted(kind.depth for kind in kinds)
        sums = accumulate(map(self._library.count, depths))
        return any(programs > _MANY_PROGRAMS for programs in sums)

    def _to_search(
        self, kinds: Sequence[_PlacementClass]
    ) -> Iterator[tuple[Reduction, int | None]]:
        """Yields each reduction to search, with the price limit when its search begins."""
        for kind in kinds:
            limit = self._limit
            if limit is not None and kind.least > limit:
                return
            # Listed in this process, so that the forks inherit the programs.
            self._library.paths(kind.depth)
            yield kind.first, limit

    def _searched(
        self, task: tuple[Reduction, int | None]
    ) -> Sequence[DistinctAnswer[CandidatePrograms]]:
        """Returns the best answers for a reduction."""
        reduction, limit = task
        if self._request.exact:
            best = self._search.best(reduction, self._request.k, limit)
            return [DistinctAnswer(each, PriceEstimate(each.ticks), 0, each.ticks) for each in best]
        return self._search.distinct(reduction, self._request.k, limit)

    @property
    def _limit(self) -> int | None:
        """The price that another answer may not exceed, or None."""
        if self._all or len(self._best) < self._request.k:
            return None
        return self._best[-1].found.ticks

    def _by_bound(self) -> Sequence[_PlacementClass]:
        """Returns all placements in search order."""
        request = self._request
        kinds: dict[object, list[tuple[int, Reduction]]] = {}
        for position, placement in enumerate(self._placements()):
            reduction = Reduction(placement, request.over, request.collapse)
            kinds.setdefault(price_class(self._system, reduction), []).append((position, reduction))
        if self._all or len(kinds) == 1:
            deepest = sorted(kinds.values(), key=lambda some: -len(some[0][1].tree.digits))
            return [_PlacementClass(0, some) for some in deepest]
        found = [
            _PlacementClass(self._search.bound_ticks(some[0][1]), some) for some in kinds.values()
        ]
        return sorted(found, key=lambda one: one.least)

    def _placements(self) -> Iterable[Placement]:
        request, hierarchy = self._request, self._system.hierarchy
        if request.placement is not None:
            return [Placement(hierarchy, request.axes, request.placement)]
        return placements(hierarchy, request.axes)

    def _default_seconds(self, reduction: Reduction) -> float:
        request = self._request
        plain = defaults(self._simulator, reduction, request.payload_bytes, request.goal)
        return total_seconds(plain.baseline)

    def _so_far(self, best: tuple[PlacedCandidate, ...]) -> list[ProvisionalResult]:
        return [
            provisional_of(rank, answer.what) for rank, answer in rank_answers(best, self._request)
        ]


def rank_answers(
    best: Sequence[PlacedCandidate], request: Request
) -> list[tuple[int, DistinctAnswer[CandidatePrograms]]]:
    """Returns answers in order with ranks, which restart on each placement if requested."""
    found, rank, last = [], 0, -1
    for candidate in best:
        rank = 1 if request.per_placement and candidate.position != last else rank + 1
        last = candidate.position
        found.append((rank, candidate.distinct))
    return found


def provisional_of(rank: int, found: CandidatePrograms) -> ProvisionalResult:
    """Returns the summary of a program that is not proved yet."""
    placement, texts = found.reduction.placement, iter(found.key[2])
    programs = ("; ".join(islice(texts, len(part.steps))) for part in found.parts)
    seconds = found.ticks / TICKS_PER_SECOND
    return ProvisionalResult(
        rank, placement.axes, placement.matrix, programs_text(programs), seconds
    )
