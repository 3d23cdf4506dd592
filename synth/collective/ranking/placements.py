"""The best programs over all placements of a question, before they are replayed and proved."""

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
"""To price so many takes a second and more."""


@dataclass(frozen=True)
class PlacedCandidate:
    """An answer found, and the position of its placement among all of the question."""

    position: int
    distinct: DistinctAnswer[CandidatePrograms]

    @property
    def found(self) -> CandidatePrograms:
        """The program that is shown."""
        return self.distinct.what

    @property
    def key(self) -> tuple[int, int, tuple[str, ...], int]:
        """Ranks it among all: its price, number of steps, spellings, the order of placements."""
        return (*self.found.key, self.position)


@dataclass(frozen=True)
class BestPlacements:
    """The best programs of the placements looked at, in order, and how much was looked at."""

    best: tuple[PlacedCandidate, ...]
    looked: SearchCoverage


@dataclass(frozen=True)
class _PlacementClass:
    """Placements on which a reduction costs the same, with their positions; its bound in ticks.

    Where all are searched anyway, that is 0.
    """

    least: int
    reductions: Sequence[tuple[int, Reduction]]

    @property
    def first(self) -> Reduction:
        """The reduction on the first of them."""
        return self.reductions[0][1]

    @property
    def depth(self) -> int:
        """Over how many levels the groups are."""
        return len(self.first.tree.digits)

    def placed(
        self, found: Iterable[DistinctAnswer[CandidatePrograms]]
    ) -> Iterator[PlacedCandidate]:
        """What was found for the first, on each of them."""
        for one in found:
            for position, reduction in self.reductions:
                yield PlacedCandidate(
                    position, replace(one, what=replace(one.what, reduction=reduction))
                )


def _reorder_by_depth(every: Sequence[_PlacementClass]) -> Sequence[_PlacementClass]:
    """In another order: those of one level less than the deepest first, then as they were."""
    deepest = max(one.depth for one in every)
    return sorted(every, key=lambda one: one.depth != deepest - 1)


def _keep_best(every: Iterable[PlacedCandidate], request: Request) -> tuple[PlacedCandidate, ...]:
    if request.per_placement:
        return tuple(sorted(every, key=lambda one: (one.position, one.key)))
    return tuple(sorted(every, key=lambda one: one.key)[: request.k])


def placements_in_question(system: System, request: Request) -> int:
    """How many placements a question has. Raises InputError for axes that do not fit."""
    check_axes(system.hierarchy, request.axes)
    if request.placement is not None:
        return 1
    return count_placements(system.hierarchy, request.axes)


class PlacementSearch:
    """Prices the programs of one placement after the other and keeps the best. One use.

    Those on which the reduction costs the same share a search. Where the watcher has several
    processes, so many are searched at once. Raises InputError for axes or placements that do not
    fit the system.
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
        """The best programs of all placements. The first that is looked at always is.

        Each placement is looked at in the order of its bound where only the best of all are asked
        for: once k answers are known, those whose bound is above the last of them need no search.
        Else those whose groups span most levels come first, which take longest: no process is left
        with such a one while others have nothing to do. Where others work from the first, those of
        one level less come before: they search these while this one learns the deepest's programs.
        """
        every = self._by_bound()
        at_once = self._all and is_parallel(self._noting) and self._many(every)
        every = _reorder_by_depth(every) if at_once else every
        done, programs, default = 0, 0, 0.0
        searched = map_in_forks(
            self._searched,
            self._to_search(every),
            self._noting,
            guessed=not self._all,
            known=self._library.known,
            at_once=at_once,
        )
        for kind in every:
            fresh = next(searched, None)
            if fresh is not None:
                self._best = _keep_best([*self._best, *kind.placed(fresh)], self._request)
                self._watcher.ranked(partial(self._so_far, self._best))
            elif not self._noting.go_on():
                break
            seconds = self._default_seconds(kind.first)
            default = seconds if not done else min(default, seconds)
            many = len(kind.reductions)
            programs += many * self._library.count(kind.depth)
            done += many
            self._watcher.placed(done, self._of)
        complete = self._library.complete and not self._noting.stopped
        return BestPlacements(
            self._best, SearchCoverage(default, done, self._of, programs, complete)
        )

    @property
    def _all(self) -> bool:
        """Whether all placements must be searched."""
        return self._request.per_placement

    def _many(self, every: Sequence[_PlacementClass]) -> bool:
        """Whether there are so many programs that to search them will take long."""
        depths = sorted(kind.depth for kind in every)
        sums = accumulate(map(self._library.count, depths))
        return any(programs > _MANY_PROGRAMS for programs in sums)

    def _to_search(
        self, every: Sequence[_PlacementClass]
    ) -> Iterator[tuple[Reduction, int | None]]:
        """What needs a search, each with the price that matters no more when it begins."""
        for kind in every:
            limit = self._limit
            if limit is not None and kind.least > limit:
                return
            self._library.paths(kind.depth)
            yield kind.first, limit

    def _searched(
        self, one: tuple[Reduction, int | None]
    ) -> Sequence[DistinctAnswer[CandidatePrograms]]:
        """The best answers for a reduction."""
        reduction, limit = one
        if self._request.exact:
            best = self._search.best(reduction, self._request.k, limit)
            return [DistinctAnswer(one, PriceEstimate(one.ticks), 0, one.ticks) for one in best]
        return self._search.distinct(reduction, self._request.k, limit)

    @property
    def _limit(self) -> int | None:
        """The price that another answer may not exceed; None where there is no such."""
        if self._all or len(self._best) < self._request.k:
            return None
        return self._best[-1].found.ticks

    def _by_bound(self) -> Sequence[_PlacementClass]:
        """All placements in the order in which they are looked at."""
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
        return [provisional_of(rank, one.what) for rank, one in rank_answers(best, self._request)]


def rank_answers(
    best: Sequence[PlacedCandidate], request: Request
) -> list[tuple[int, DistinctAnswer[CandidatePrograms]]]:
    """Answers in their order with their ranks, which begin anew on each placement if asked so."""
    found, rank, last = [], 0, -1
    for one in best:
        rank = 1 if request.per_placement and one.position != last else rank + 1
        last = one.position
        found.append((rank, one.distinct))
    return found


def provisional_of(rank: int, found: CandidatePrograms) -> ProvisionalResult:
    """A program found, in a few words, before it is proved."""
    placement, texts = found.reduction.placement, iter(found.key[2])
    programs = ("; ".join(islice(texts, len(part.steps))) for part in found.parts)
    seconds = found.ticks / TICKS_PER_SECOND
    return ProvisionalResult(
        rank, placement.axes, placement.matrix, programs_text(programs), seconds
    )
