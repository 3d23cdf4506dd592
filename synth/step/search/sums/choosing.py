"""Composed seconds of plans in the buckets that gain.

Gradients are reduced one by one unless buckets of some size save more than the prediction error.
So each plan is timed without buckets first, and in buckets of a size only where its lower bound
there is that much lower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from synth.step.search.composing.composer import Composition
from synth.step.search.links import PlacedRecipe
from synth.step.search.resolution import CLOCK_ERROR

BUCKETS = tuple(mega * 10**6 for mega in (5, 25, 100, 400))
"""In bytes, from some gradients of a layer to several layers. The default of DDP is 25 MB, that of
Megatron 40 million elements."""


@dataclass(frozen=True)
class BucketChooser:
    """Composes plans, each in the best of the bucket ``sizes`` (bytes) that fits in memory."""

    composed: Composition
    sizes: Sequence[int]
    memory_bytes: float

    def bound(self, candidate: PlacedRecipe) -> float:
        """Lower bound in seconds over all sizes. Raises InputError as composing does."""
        return self.composed.bound(candidate, self.sizes)

    def best(self, candidates: Sequence[PlacedRecipe]) -> list[tuple[PlacedRecipe, float]]:
        """Returns each plan in its best buckets with its seconds. Raises as composing does."""
        best = list(zip(candidates, self.composed.seconds(candidates), strict=True))
        others = [
            (number, bucketed)
            for number, (candidate, seconds) in enumerate(best)
            for bucketed in self._worth(candidate, (1 - CLOCK_ERROR) * seconds)
        ]
        times = self.composed.seconds([candidate for _, candidate in others])
        for (number, candidate), seconds in zip(others, times, strict=True):
            most = best[number][1]
            if not best[number][0].recipe.bucket_bytes:
                most *= 1 - CLOCK_ERROR
            if seconds < most:
                best[number] = candidate, seconds
        return best

    def _worth(self, candidate: PlacedRecipe, most_seconds: float) -> Iterator[PlacedRecipe]:
        """Yields the plan in buckets that fit and may take fewer seconds than ``most_seconds``."""
        if not self.sizes or self.bound(candidate) >= most_seconds:
            return
        for size in self.sizes:
            bucketed = candidate.in_buckets(size)
            fits = self.composed.composer.size_bytes(bucketed.recipe) <= self.memory_bytes
            if fits and self.composed.bound(bucketed) < most_seconds:
                yield bucketed


def find_nearest_size(
    composed: Composition, candidate: PlacedRecipe, sizes: Sequence[int] = BUCKETS
) -> tuple[Sequence[int], int]:
    """Returns the sizes that differ for a plan, and the index of the best as composed.

    A bucket that holds all gradients behaves as any larger one.
    """
    whole = composed.composer.staged(candidate.recipe).gradient_bytes
    fewer = [size for size, less in zip(sizes, (0, *sizes), strict=False) if less < whole]
    seconds = composed.seconds([candidate.in_buckets(size) for size in fewer])
    return fewer, seconds.index(min(seconds))
