"""Chooses gradient buckets for a plan: several gradients reduced at once, if that saves time.

A reduction of few bytes is mostly latency; a reduction of many bytes waits for the last of its
gradients. A plan is composed without buckets first. It is composed with buckets of a size only if
its lower bound with them is lower by more than the prediction error. Only simulation can weigh both
effects. So if a plan waits for reductions and fewer reductions would take less time, it is
simulated with buckets of the best composed size, then with larger and with smaller buckets as long
as these are faster.

>>> from synth.step.search.buckets import BUCKETS
>>> from synth.step.search.pins import pin_value_of
>>> from synth.step.sharding import parse_recipe
>>> plan = parse_recipe("data=8; batch over data; buckets of 100 MB")
>>> plan.bucket_bytes in BUCKETS, pin_value_of(plan, "bucket")
(True, '100MB')
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from math import inf

import numpy as np

from hierarchies import InputError
from synth.step.search.composing.clock import Floats
from synth.step.search.composing.composer import Composition
from synth.step.search.finalists import Finalist
from synth.step.search.links import PlacedRecipe
from synth.step.search.resolution import CLOCK_ERROR
from synth.step.sharding import Recipe

BUCKETS = tuple(mega * 10**6 for mega in (5, 25, 100, 400))
"""Bucket sizes in bytes, from a few gradients of a layer to several layers. The default of DDP is
25 MB, that of Megatron 40 million elements."""


@dataclass(frozen=True)
class BucketChooser:
    """Composes each plan with the best of the bucket ``sizes`` (bytes) that fit in memory.

    ``runs``: whether a recipe with buckets is among those that are searched.
    """

    composed: Composition
    sizes: Sequence[int]
    memory_bytes: float
    runs: Callable[[Recipe], bool] = lambda recipe: True

    def bounds(self, candidates: Sequence[PlacedRecipe]) -> Floats:
        """Returns a lower bound of each plan in seconds over all sizes. Raises InputError."""
        return self.composed.bounds(candidates, self.sizes)

    def best(self, candidates: Sequence[PlacedRecipe]) -> list[tuple[PlacedRecipe, float]]:
        """Returns each plan with its best buckets and its seconds. Raises as composing does."""
        best = list(zip(candidates, self.composed.seconds(candidates), strict=True))
        others = self._worth(candidates, [(1 - CLOCK_ERROR) * seconds for _, seconds in best])
        times = self.composed.seconds([candidate for _, candidate in others])
        for (number, candidate), seconds in zip(others, times, strict=True):
            most = best[number][1]
            # Buckets must beat the plan without buckets by more than the prediction error.
            if not best[number][0].recipe.bucket_bytes:
                most *= 1 - CLOCK_ERROR
            if seconds < most:
                best[number] = candidate, seconds
        return best

    def _worth(
        self, candidates: Sequence[PlacedRecipe], most_seconds: Sequence[float]
    ) -> list[tuple[int, PlacedRecipe]]:
        """Lists plans that may take less seconds with buckets: numbers, and each size that fits.

        By size, so that consecutive plans have the same recipe.
        """
        if not self.sizes:
            return []
        faster = np.flatnonzero(self.bounds(candidates) < np.array(most_seconds)).tolist()
        worth = []
        for size in self.sizes:
            for recipe, same in groupby(faster, key=lambda number: candidates[number].recipe):
                bucketed = replace(recipe, bucket_bytes=size)
                fits = self.composed.composer.size_bytes(bucketed) <= self.memory_bytes
                if fits and self.runs(bucketed):
                    worth += [(number, candidates[number].by(bucketed)) for number in same]
        return worth


def find_nearest_size(
    composed: Composition, candidate: PlacedRecipe, sizes: Sequence[int] = BUCKETS
) -> tuple[Sequence[int], int]:
    """Returns the bucket sizes that differ for a plan, and the index of the best composed size.

    All buckets that hold all gradients are equivalent, so only the smallest of them is included.
    """
    whole = composed.composer.staged(candidate.recipe).gradient_bytes
    fewer = [size for size, less in zip(sizes, (0, *sizes), strict=False) if less < whole]
    seconds = composed.seconds([candidate.in_buckets(size) for size in fewer])
    return fewer, seconds.index(min(seconds))


def try_buckets(
    alone: Finalist,
    simulated: Callable[[PlacedRecipe], Finalist],
    memory_bytes: float,
    shorter: Callable[[], float],
    sizes: Callable[[], tuple[Sequence[int], int]],
) -> Finalist:
    """Returns the finalist with its fastest buckets, or ``alone`` if the gain is uncertain.

    ``alone`` has no buckets. ``shorter`` returns the seconds saved by reducing all gradients at
    once. ``sizes`` returns the sizes to try in bytes, smallest first, and the index to start from.
    """
    error = CLOCK_ERROR * alone.found.seconds
    exposed = max(rank.exposed_seconds for rank in alone.found.ranks)
    if exposed <= error or shorter() <= error:
        return alone
    bucket_bytes, first = sizes()

    @cache
    def simulated_in(index: int) -> Finalist | None:
        """Simulates the plan with one bucket size; None if it is invalid or does not fit."""
        try:
            finalist = simulated(alone.candidate.in_buckets(bucket_bytes[index]))
        except InputError:
            return None
        return finalist if finalist.size_bytes <= memory_bytes else None

    def seconds(index: int) -> float:
        return finalist.found.seconds if (finalist := simulated_in(index)) else inf

    index = _find_lowest(seconds, len(bucket_bytes), first)
    saved = alone.found.seconds - seconds(index)
    best = simulated_in(index)
    return replace(best, saved_seconds=saved) if best and saved > error else alone


def _find_lowest(of: Callable[[int], float], count: int, first: int) -> int:
    """Walks from ``first`` while the next value is lower; returns the index of the lowest."""
    at = first
    for step in (1, -1):
        while 0 <= at + step < count and of(at + step) < of(at):
            at += step
        if at != first:
            break
    return at
