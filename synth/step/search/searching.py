"""The plans of a job on a machine, searched: all recipes on all placements, the cheapest first.

Memory needs no links, so what does not fit is put aside first. What is left has a rough bound, with
links that take no time, so one for all placements of a recipe; one with links that nothing can
beat; a nearer one with the links there are; and last its seconds on the clock of its schedule. The
plan of the lowest of these figures is looked at next; if that is its seconds, no other can be
cheaper. So plans come in the order of their seconds as if all were priced, and only as many are as
somebody asks for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from heapq import heapify, heappop, heappush, nsmallest
from itertools import chain, takewhile
from math import inf, prod

import numpy as np

from hierarchies import Axis, InputError
from synth.collective.ranking.request import ProvisionalResult, Watcher
from synth.collective.ranking.request import StopFlag as Stops
from synth.search.forks import WorkControl, is_parallel
from synth.search.front import find_front
from synth.step.search.composing.clock import Structure
from synth.step.search.composing.composer import CLOCK_BATCH, Composer
from synth.step.search.families import Family
from synth.step.search.links import (
    ComposedPlan,
    FreeLinks,
    Links,
    PlacedRecipe,
    PricedLinks,
    RecordingLinks,
)
from synth.step.search.sums.choosing import BucketChooser

MOST_TRIED = 16
"""So many families are looked at, once work is stopped, to find one that fits."""

MOST_REPORTED = 10
"""So many of the best so far are told while work goes on."""


class _Precision(IntEnum):
    """What is known of a plan."""

    ROUGH = 0
    BOUND = 1
    NEARER = 2
    SECONDS = 3


class Search:
    """Plans that need no more memory than there is, the cheapest first. Mutable.

    ``plans``: how many were looked at; ``nearest`` needs the least memory of those that do not fit.
    ``refused``: reasons, and of how many plans each is. ``complete``: whether all was looked at.
    ``crew``: who asks for prices, all of the watcher's unless another is set. Gradients may go in
    ``buckets`` of such sizes, in bytes, too, where that gains.
    """

    def __init__(
        self,
        composer: Composer,
        several: Sequence[Family],
        memory_bytes: float,
        links: PricedLinks,
        least: Links,
        watcher: Watcher,
        buckets: Sequence[int] = (),
    ) -> None:
        self.plans = sum(map(len, several))
        self.nearest: tuple[PlacedRecipe, float] | None = None
        self.refused: Counter[str] = Counter()
        self.complete = True
        self.crew: WorkControl = watcher
        self._watcher = watcher
        self._composer = composer
        self._links = links
        self._choosing, self._loose = (
            BucketChooser(composer.on(some), buckets, memory_bytes) for some in (links, least)
        )
        self._families: list[Family] = []
        self._sizes: list[float] = []
        self._fit(several, memory_bytes)
        free = BucketChooser(composer.on(FreeLinks()), buckets, memory_bytes)
        self._rough = [free.bound(next(iter(one))) for one in self._families]
        self._numbered()
        self._bounds: dict[int, float] = {}
        self._nearer: dict[int, float] = {}
        self._best: dict[int, ComposedPlan] = {}
        self._timed: set[int] = set()

    def _fit(self, several: Sequence[Family], memory_bytes: float) -> None:
        least, looked_at = inf, 0
        for one in self._until_stopped(several):
            self._watcher.placed(looked_at, self.plans)
            looked_at += len(one)
            try:
                size = self._composer.size_bytes(one.recipe)
            except InputError as error:
                self.refused[error.problem] += len(one)
                continue
            if size <= memory_bytes:
                self._families.append(one)
                self._sizes.append(size)
            elif size < least:
                least = size
                self.nearest = next(iter(one)), size
        self.plans = looked_at

    def _until_stopped(self, several: Sequence[Family]) -> Iterator[Family]:
        """The families to look at: all, or when work is stopped those met so far.

        If none of these fits, those follow that are likely to: so there is a best so far.
        """
        for at, one in enumerate(several):
            if at and not self._watcher.go_on():
                self.complete = False
                left = sorted(several[at:], key=_spread, reverse=True)[:MOST_TRIED]
                yield from takewhile(lambda one: not self._families, left)
                return
            yield one

    def _numbered(self) -> None:
        """Number those that fit, in the order of all plans."""
        fitting = self._families
        lengths = np.array([*map(len, fitting)], int)
        of_all = np.fromiter(chain.from_iterable(one.numbers for one in fitting), int)
        order = np.argsort(of_all, kind="stable")
        starts = np.cumsum(lengths) - lengths
        self._family = np.repeat(np.arange(len(fitting)), lengths)[order]
        self._place = order - starts[self._family]
        numbers = np.empty(len(order), int)
        numbers[order] = np.arange(len(order))
        self._numbers = np.split(numbers, starts)[1:]

    @property
    def fitting(self) -> int:
        """How many plans fit."""
        return len(self._family)

    @property
    def priced(self) -> int:
        """How many were put on the clock to find the cheapest."""
        return len(self._timed)

    def _one(self, number: int) -> PlacedRecipe:
        family = self._families[self._family[number]]
        return PlacedRecipe(family.recipe, family.matrices[self._place[number]])

    def _bound(self, number: int) -> float:
        """With links that nothing can beat."""
        if number not in self._bounds:
            found = self._loose.bound(self._one(number))
            self._bounds[number] = max(self._rough[self._family[number]], found)
        return self._bounds[number]

    def _bounded(self, some: Sequence[int]) -> list[float]:
        return [*map(self._bound, some)]

    def cheapest(
        self, among: Callable[[PlacedRecipe], bool] = lambda one: True
    ) -> Iterator[ComposedPlan]:
        """Those ``among`` all that fit, in the order of their seconds; of equal ones, as given."""
        firsts = zip(self._rough, self._numbers, strict=True)
        waiting = [(rough, int(numbers[0]), _Precision.ROUGH) for rough, numbers in firsts]
        heapify(waiting)
        alike: defaultdict[Structure, list[tuple[float, int]]] = defaultdict(list)
        told = False
        while waiting:
            least, number, known = heappop(waiting)
            if known is _Precision.SECONDS:
                yield self._best[number]
                told = True
            elif told and not self._watcher.go_on():
                self.complete = False
                return
            elif known is _Precision.ROUGH:
                for each in self._numbers[self._family[number]].tolist():
                    if among(self._one(each)):
                        heappush(waiting, (self._bound(each), each, _Precision.BOUND))
            elif known is _Precision.BOUND:
                if number not in self._nearer:
                    self._learn([number])
                    self._nearer[number] = max(least, self._choosing.bound(self._one(number)))
                alike[self._one(number).structure].append((self._nearer[number], number))
                heappush(waiting, (self._nearer[number], number, _Precision.NEARER))
            else:
                if number not in self._timed:
                    self._time(alike[self._one(number).structure])
                heappush(waiting, (self._best[number].seconds, number, _Precision.SECONDS))

    def front(self) -> tuple[ComposedPlan, ...]:
        """Of all that fit those that no other beats in seconds and in memory, the fastest first.

        Plans in buckets are weighed without these in memory; one that then needs as much as a
        faster one is left out. Where work was stopped, others may be missing.
        """
        rough, sizes = (np.array(each)[self._family] for each in (self._rough, self._sizes))
        noting = Stops(self._watcher)
        numbers = find_front(rough, sizes, self._clocked, noting.go_on, self._bounded)
        self.complete = self.complete and not noting.stopped
        least, found = inf, list[ComposedPlan]()
        for one in map(self._best.__getitem__, numbers):
            if one.size_bytes < least:
                least = one.size_bytes
                found.append(one)
        return tuple(found)

    def _time(self, alike: list[tuple[float, int]]) -> None:
        """Put the first of those of one structure on the clock; those that wait on stay."""
        waiting = sorted(pair for pair in alike if pair[1] not in self._timed)
        some = [number for _, number in waiting[:CLOCK_BATCH]]
        alike[:] = waiting[CLOCK_BATCH:]
        self._clocked(some)
        self._timed.update(some)

    def _clocked(self, some: Sequence[int]) -> list[float]:
        """Seconds of some of those that fit, each in its best buckets."""
        fresh = [number for number in some if number not in self._best]
        self._learn(fresh)
        found = self._choosing.best([*map(self._one, fresh)])
        for number, (one, seconds) in zip(fresh, found, strict=True):
            size = self._composer.size_bytes(one.recipe)
            self._best[number] = ComposedPlan(one, seconds, size)
        self._watcher.ranked(self._leading)
        self._watcher.placed(self.plans, self.plans)
        return [self._best[number].seconds for number in some]

    def _leading(self) -> list[ProvisionalResult]:
        """The best of those that were put on the clock so far."""
        first = nsmallest(MOST_REPORTED, self._best.values(), key=lambda one: one.seconds)
        return [_provisional_of(rank, one) for rank, one in enumerate(first, 1)]

    def _learn(self, some: Sequence[int]) -> None:
        """Have all asked at once that some of those that fit send, if several may ask."""
        if not is_parallel(self.crew):
            return
        noting = RecordingLinks(self._links)
        choosing = replace(self._choosing, composed=self._composer.on(noting))
        for number in some:
            choosing.bound(self._one(number))
        if noting.wanted:
            self._links.learn([*noting.wanted], self.crew)


def _spread(one: Family) -> tuple[int, int, bool, int]:
    """The greater, the less memory a plan is likely to need: over how many devices it spreads what
    the model keeps, and what it keeps for the backward pass.
    """
    recipe = one.recipe
    whole = prod(size for axis, size in recipe.axes if axis not in recipe.batch)
    return recipe.zero, whole, recipe.remat, recipe.microbatches


def _provisional_of(rank: int, one: ComposedPlan) -> ProvisionalResult:
    recipe, rows = one.candidate.recipe, one.candidate.rows
    axes = tuple(Axis(name, size) for name, size in recipe.axes)
    return ProvisionalResult(rank, axes, rows, str(recipe), one.seconds)
