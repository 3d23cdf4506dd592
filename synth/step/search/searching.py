"""Searches all recipes on all placements, and yields the cheapest plans first.

Memory does not depend on links, so plans that do not fit are removed first. Each other plan has
four figures, each tighter and more expensive to compute than the last: a rough bound with free
links, shared by all placements of a recipe; a bound with links that no program can beat; a bound
with the machine's links; and its seconds, timed in the order of its schedule. The plan with the
lowest figure is refined next. If that figure is its seconds, no other plan is cheaper. So plans are
yielded in the same order as if all were priced, and only plans that the caller needs are priced.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from heapq import heapify, heappop, heappush, nsmallest
from itertools import chain, islice, takewhile
from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from hierarchies import InputError
from synth.collective.ranking.request import ProvisionalResult, Watcher
from synth.collective.ranking.request import StopFlag as Stops
from synth.search.forks import WorkControl, is_parallel
from synth.search.front import Numbers, find_front
from synth.step.search.buckets import BucketChooser
from synth.step.search.composing.clock import Structure
from synth.step.search.composing.composer import Composer
from synth.step.search.composing.timing import CLOCK_BATCH
from synth.step.search.families import Family
from synth.step.search.links import (
    ComposedPlan,
    FreeLinks,
    Links,
    PlacedRecipe,
    PricedLinks,
    RecordingLinks,
)
from synth.step.sharding import Recipe

MOST_TRIED = 16
"""Number of families that are still tried after a stop, to find one that fits."""

FAMILIES_AT_ONCE = 256
"""Number of families that are bounded at once."""

PLANS_AT_ONCE = 32
"""Number of plans that are bounded at once with the machine's links: they price collectives."""

MOST_REPORTED = 10
"""Number of the best plans so far that are reported during the search."""


class _Precision(IntEnum):
    """How precisely the seconds of a plan are known, in order of refinement."""

    ROUGH = 0
    BOUND = 1
    NEARER = 2
    SECONDS = 3


class Search:
    """A search for the plans that fit in memory, the cheapest first. Mutable.

    ``plans``: the number of plans looked at; ``nearest``: the plan with the least memory among
    those that do not fit, with its bytes; ``refused``: reasons, each with the number of plans that
    it rules out; ``complete``: whether all plans were looked at; ``crew``: the processes that price
    collectives, by default the watcher's. ``buckets``: sizes in bytes of gradient buckets to try as
    well, for recipes that with them are among those searched, as ``runs`` says.
    """

    def __init__(
        self,
        composer: Composer,
        families: Sequence[Family],
        memory_bytes: float,
        links: PricedLinks,
        least: Links,
        watcher: Watcher,
        buckets: Sequence[int] = (),
        runs: Callable[[Recipe], bool] = lambda recipe: True,
    ) -> None:
        self.plans = sum(map(len, families))
        self.nearest: tuple[PlacedRecipe, float] | None = None
        self.refused: Counter[str] = Counter()
        self.complete = True
        self.crew: WorkControl = watcher
        self._watcher = watcher
        self._composer = composer
        self._links = links
        self._choosing, self._loose = (
            BucketChooser(composer.on(model), buckets, memory_bytes, runs)
            for model in (links, least)
        )
        self._families: list[Family] = []
        self._sizes: list[float] = []
        self._fit(families, memory_bytes)
        free = BucketChooser(composer.on(FreeLinks()), buckets, memory_bytes)
        self._rough = free.bounds([next(iter(family)) for family in self._families])
        self._number_plans()
        self._by_rough = np.argsort(self._rough, kind="stable")
        self._bounds, self._nearer = np.full((2, self.fitting), np.nan)
        self._best: dict[int, ComposedPlan] = {}
        self._timed: set[int] = set()

    def _fit(self, families: Sequence[Family], memory_bytes: float) -> None:
        least, looked_at = inf, 0
        for family in self._until_stopped(families):
            self._watcher.placed(looked_at, self.plans)
            looked_at += len(family)
            try:
                size = self._composer.size_bytes(family.recipe)
            except InputError as error:
                self.refused[error.problem] += len(family)
                continue
            if size <= memory_bytes:
                self._families.append(family)
                self._sizes.append(size)
            elif size < least:
                least = size
                self.nearest = next(iter(family)), size
        self.plans = looked_at

    def _until_stopped(self, families: Sequence[Family]) -> Iterator[Family]:
        """Yields the families to look at; after a stop, only a few more.

        If none fits at a stop, the families likely to need the least memory follow, so that there
        is a result.
        """
        for index, family in enumerate(families):
            if index and not self._watcher.go_on():
                self.complete = False
                left = sorted(families[index:], key=_spread, reverse=True)[:MOST_TRIED]
                yield from takewhile(lambda _: not self._families, left)
                return
            yield family

    def _number_plans(self) -> None:
        """Numbers the plans that fit, in the order of all plans."""
        fitting = self._families
        lengths = np.array([*map(len, fitting)], int)
        of_all = np.fromiter(chain.from_iterable(family.numbers for family in fitting), int)
        order = np.argsort(of_all, kind="stable")
        starts = np.cumsum(lengths) - lengths
        self._family = np.repeat(np.arange(len(fitting)), lengths)[order]
        self._place = order - starts[self._family]
        numbers = np.empty(len(order), int)
        numbers[order] = np.arange(len(order))
        self._numbers = np.split(numbers, starts)[1:]

    @property
    def fitting(self) -> int:
        """Number of plans that fit."""
        return len(self._family)

    @property
    def priced(self) -> int:
        """Number of plans that were timed to find the cheapest."""
        return len(self._timed)

    def _candidate(self, number: int) -> PlacedRecipe:
        family = self._families[self._family[number]]
        return PlacedRecipe(family.recipe, family.matrices[self._place[number]])

    def _list_bounds(self, numbers: Sequence[int] | Numbers) -> list[float]:
        """Returns lower bounds in seconds with links that no program can beat."""
        asked = np.array(numbers, int)
        if len(fresh := asked[np.isnan(self._bounds[asked])]):
            loose = self._loose.bounds([*map(self._candidate, fresh.tolist())])
            self._bounds[fresh] = np.maximum(self._rough[self._family[fresh]], loose)
        bounds: list[float] = self._bounds[asked].tolist()
        return bounds

    def _bound_family(self, family: int) -> list[float]:
        """Returns the bounds of a family's plans; those of the families after it are cached."""
        numbers = self._numbers[family]
        if np.isnan(self._bounds[numbers]).any():
            start = int(np.flatnonzero(self._by_rough == family)[0])
            after = (self._numbers[other] for other in self._by_rough[start:])
            coming = [numbers, *islice(after, FAMILIES_AT_ONCE)]
            self._list_bounds(np.unique(np.concatenate(coming)))
        return self._list_bounds(numbers)

    def _near(self, number: int, waiting: NDArray[np.bool_]) -> float:
        """Returns a lower bound in seconds with the links there are, or the looser bound.

        Bounds also the plans among ``waiting`` that are likely to be asked for next.
        """
        if np.isnan(self._nearer[number]):
            fresh = np.flatnonzero(waiting & np.isnan(self._nearer))
            if len(fresh) > PLANS_AT_ONCE:
                lowest = np.argpartition(self._bounds[fresh], PLANS_AT_ONCE)[:PLANS_AT_ONCE]
                fresh = np.union1d(fresh[lowest], [number])
            self._list_nearer(fresh.tolist())
        return float(self._nearer[number])

    def _list_nearer(self, numbers: Sequence[int]) -> list[float]:
        """Returns lower bounds in seconds, with the machine's links, of plans with bounds."""
        asked = np.array(numbers, int)
        if len(fresh := asked[np.isnan(self._nearer[asked])]):
            self._learn(fresh.tolist())  # in parallel; the bounds then read the cache
            nearer = self._choosing.bounds([*map(self._candidate, fresh.tolist())])
            self._nearer[fresh] = np.maximum(self._bounds[fresh], nearer)
        nearest: list[float] = self._nearer[asked].tolist()
        return nearest

    def cheapest(
        self, among: Callable[[PlacedRecipe], bool] = lambda candidate: True
    ) -> Iterator[ComposedPlan]:
        """Yields the plans that fit and satisfy ``among``, by seconds; ties in the given order."""
        firsts = zip(self._rough.tolist(), self._numbers, strict=True)
        waiting = [(rough, int(numbers[0]), _Precision.ROUGH) for rough, numbers in firsts]
        bounded = np.zeros(self.fitting, bool)
        heapify(waiting)
        alike: defaultdict[Structure, list[tuple[float, int]]] = defaultdict(list)
        yielded = False
        while waiting:
            _, number, known = heappop(waiting)
            if known is _Precision.SECONDS:
                yield self._best[number]
                yielded = True
            elif yielded and not self._watcher.go_on():
                self.complete = False
                return
            elif known is _Precision.ROUGH:
                family = self._family[number]
                members = self._numbers[family].tolist()
                for member, bound in zip(members, self._bound_family(family), strict=True):
                    if among(self._candidate(member)):
                        bounded[member] = True
                        heappush(waiting, (bound, member, _Precision.BOUND))
            elif known is _Precision.BOUND:
                nearer = self._near(number, bounded)
                alike[self._candidate(number).structure].append((nearer, number))
                heappush(waiting, (nearer, number, _Precision.NEARER))
            else:
                if number not in self._timed:
                    self._time(alike[self._candidate(number).structure])
                heappush(waiting, (self._best[number].seconds, number, _Precision.SECONDS))

    def front(self) -> tuple[ComposedPlan, ...]:
        """Returns the plans that no other plan beats in both seconds and memory, fastest first.

        Plans with buckets are compared by their memory without buckets. A plan whose memory with
        buckets is not below that of a faster plan is left out. If the search was stopped, plans may
        be missing.
        """
        rough, sizes = self._rough[self._family], np.array(self._sizes)[self._family]
        stops = Stops(self._watcher)
        nearer = self._list_bounds, self._list_nearer
        numbers = find_front(rough, sizes, self._time_all, stops.go_on, nearer)
        self.complete = self.complete and not stops.stopped
        least, front = inf, list[ComposedPlan]()
        for plan in map(self._best.__getitem__, numbers):
            if plan.size_bytes < least:
                least = plan.size_bytes
                front.append(plan)
        return tuple(front)

    def _time(self, alike: list[tuple[float, int]]) -> None:
        """Times the plans with the lowest bounds of one structure; the others stay in ``alike``."""
        waiting = sorted(pair for pair in alike if pair[1] not in self._timed)
        numbers = [number for _, number in waiting[:CLOCK_BATCH]]
        alike[:] = waiting[CLOCK_BATCH:]
        self._time_all(numbers)
        self._timed.update(numbers)

    def _time_all(self, numbers: Sequence[int]) -> list[float]:
        """Returns the seconds of plans that fit, each with its best buckets."""
        fresh = [number for number in numbers if number not in self._best]
        self._learn(fresh)
        best = self._choosing.best([*map(self._candidate, fresh)])
        for number, (candidate, seconds) in zip(fresh, best, strict=True):
            size = self._composer.size_bytes(candidate.recipe)
            self._best[number] = ComposedPlan(candidate, seconds, size)
        self._watcher.ranked(self._leading)
        self._watcher.placed(self.plans, self.plans)
        return [self._best[number].seconds for number in numbers]

    def _leading(self) -> list[ProvisionalResult]:
        """Returns the best of the plans that were timed so far."""
        first = nsmallest(MOST_REPORTED, self._best.values(), key=lambda plan: plan.seconds)
        least = float(self._rough.min())
        gaps = [plan.seconds / least - 1 if least else None for plan in first]
        return [
            plan.candidate.provisional(rank, plan.seconds, gap)
            for rank, (plan, gap) in enumerate(zip(first, gaps, strict=True), 1)
        ]

    def _learn(self, numbers: Sequence[int]) -> None:
        """Prices all collectives of plans at once, if several processes are allowed."""
        if not is_parallel(self.crew):
            return
        recording = RecordingLinks(self._links)
        choosing = replace(self._choosing, composed=self._composer.on(recording))
        choosing.bounds([*map(self._candidate, numbers)])
        if recording.wanted:
            self._links.learn([*recording.wanted], self.crew)


def _spread(family: Family) -> tuple[int, int, bool, int]:
    """Returns a sort key that grows as the likely memory falls.

    It counts how widely a plan shards the model state, and how little it keeps for the backward
    pass.
    """
    recipe = family.recipe
    whole = prod(size for axis, size in recipe.axes if axis not in recipe.batch)
    return recipe.zero, whole, recipe.remat, recipe.microbatches
