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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from heapq import heapify, heappop, heappush
from math import inf

from hierarchies import InputError, System, placements
from synth.plan.request import Watcher
from synth.search.forks import several_in
from synth.search.front import front
from synth.train.planner.clock import Structure
from synth.train.planner.composing import TOGETHER, Composer
from synth.train.planner.links import Candidate, Composed, Free, Lines, Links, Noting, axes_of
from synth.train.planner.sums.choosing import Choosing
from synth.train.plans import Recipe


class _Known(IntEnum):
    """What is known of a plan."""

    ROUGH = 0
    BOUND = 1
    NEARER = 2
    SECONDS = 3


def candidates(system: System, several: Iterable[Recipe]) -> Iterator[Candidate]:
    """Every recipe on every placement of its axes, in a stable order."""
    placed: dict[tuple[tuple[str, int], ...], list[tuple[tuple[int, ...], ...]]] = {}
    for recipe in several:
        if recipe.axes not in placed:
            every = placements(system.hierarchy, axes_of(recipe))
            placed[recipe.axes] = [one.matrix for one in every]
        for matrix in placed[recipe.axes]:
            yield Candidate(recipe, matrix)


class Search:
    """Plans that need no more memory than there is, the cheapest first. Mutable.

    ``plans``: how many were looked at; ``fitting`` are those that fit, with their bytes, and
    ``nearest`` needs the least of the others. ``refused``: reasons, and of how many plans each is.
    ``priced``: how many were put on the clock. ``complete``: whether all was looked at. Gradients
    may go in ``buckets`` of such sizes, in bytes, too, where that gains.
    """

    def __init__(
        self,
        composer: Composer,
        several: Sequence[Candidate],
        memory_bytes: float,
        links: Lines,
        least: Links,
        watcher: Watcher,
        buckets: Sequence[int] = (),
    ) -> None:
        self.plans = len(several)
        self.fitting: list[tuple[Candidate, float]] = []
        self.nearest: tuple[Candidate, float] | None = None
        self.refused: Counter[str] = Counter()
        self.complete = True
        self.priced = 0
        self._watcher = watcher
        self._composer = composer
        self._links = links
        self._choosing, self._loose = (
            Choosing(composer.on(some), buckets, memory_bytes) for some in (links, least)
        )
        self._rough: list[float] = []
        self._fit(Choosing(composer.on(Free()), buckets, memory_bytes), several)
        self._bounds: dict[int, float] = {}
        self._nearer: dict[int, float] = {}
        self._best: dict[int, Composed] = {}

    def _fit(self, free: Choosing, several: Sequence[Candidate]) -> None:
        rough: dict[Recipe, float] = {}
        for number, one in enumerate(several):
            self._watcher.placed(number, len(several))
            if number and not self._watcher.go_on():
                self.complete, self.plans = False, number
                break
            try:
                size = self._composer.size_bytes(one.recipe)
            except InputError as error:
                self.refused[error.problem] += 1
                continue
            if size <= free.memory_bytes:
                self.fitting.append((one, size))
                if one.recipe not in rough:
                    rough[one.recipe] = free.bound(one)
                self._rough.append(rough[one.recipe])
            elif self.nearest is None or size < self.nearest[1]:
                self.nearest = one, size

    def _bound(self, number: int) -> float:
        """With links that nothing can beat."""
        if number not in self._bounds:
            found = self._loose.bound(self.fitting[number][0])
            self._bounds[number] = max(self._rough[number], found)
        return self._bounds[number]

    def _bounded(self, some: Sequence[int]) -> list[float]:
        return [*map(self._bound, some)]

    def cheapest(self, among: Callable[[Candidate], bool] = lambda one: True) -> Iterator[Composed]:
        """Those ``among`` all that fit, in the order of their seconds; of equal ones, as given."""
        waiting = [(rough, number, _Known.ROUGH) for number, rough in enumerate(self._rough)]
        heapify(waiting)
        alike: defaultdict[Structure, list[tuple[float, int]]] = defaultdict(list)
        told = False
        while waiting:
            least, number, known = heappop(waiting)
            one, _ = self.fitting[number]
            if known is _Known.SECONDS:
                yield self._best[number]
                told = True
            elif told and not self._watcher.go_on():
                self.complete = False
                return
            elif known is _Known.ROUGH:
                if among(one):
                    heappush(waiting, (self._bound(number), number, _Known.BOUND))
            elif known is _Known.BOUND:
                if number not in self._nearer:
                    self._learn([number])
                    self._nearer[number] = max(least, self._choosing.bound(one))
                alike[one.structure].append((self._nearer[number], number))
                heappush(waiting, (self._nearer[number], number, _Known.NEARER))
            else:
                if number not in self._best:
                    self._time(alike[one.structure])
                heappush(waiting, (self._best[number].seconds, number, _Known.SECONDS))

    def front(self) -> Iterator[Composed]:
        """Of all that fit those that no other beats in seconds and in memory, the fastest first.

        Plans in buckets are weighed without these in memory; one that then needs as much as a
        faster one is left out.
        """
        sizes = [size for _, size in self.fitting]
        known = {number: one.seconds for number, one in self._best.items()}
        go_on = self._watcher.go_on
        found = front(self._rough, sizes, self._clocked, known, go_on, self._bounded)
        least = inf
        for one in map(self._best.__getitem__, found):
            if one.size_bytes < least:
                least = one.size_bytes
                yield one

    def _time(self, alike: list[tuple[float, int]]) -> None:
        """Put the first of those of one structure on the clock; those that wait on stay."""
        waiting = sorted(pair for pair in alike if pair[1] not in self._best)
        some = [number for _, number in waiting[:TOGETHER]]
        alike[:] = waiting[TOGETHER:]
        self._clocked(some)
        self.priced += len(some)

    def _clocked(self, some: Sequence[int]) -> list[float]:
        """Seconds of some of those that fit, each in its best buckets."""
        self._learn(some)
        found = self._choosing.best([self.fitting[number][0] for number in some])
        for number, (one, seconds) in zip(some, found, strict=True):
            size = self._composer.size_bytes(one.recipe)
            self._best[number] = Composed(one, seconds, size)
        return [seconds for _, seconds in found]

    def _learn(self, some: Sequence[int]) -> None:
        """Have all asked at once that some of those that fit send, if several may ask."""
        if not several_in(self._watcher):
            return
        noting = Noting(self._links)
        choosing = replace(self._choosing, composed=self._composer.on(noting))
        for number in some:
            choosing.bound(self.fitting[number][0])
        if noting.wanted:
            self._links.learn([*noting.wanted], self._watcher)
