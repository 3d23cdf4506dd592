"""Seconds of plans in the buckets that gain, as they are composed.

A plan has each gradient summed by itself, unless buckets of some size save more than prices can
tell. So each is put on the clock without buckets first, and in buckets of a size only where the
bound of that size is so much lower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from synth.step.search.composing.composer import Composition
from synth.step.search.links import PlacedRecipe
from synth.step.search.resolution import CLOCK_ERROR

BUCKETS = tuple(mega * 10**6 for mega in (5, 25, 100, 400))
"""In bytes: from some gradients of a layer to several layers; 25 MB is what DDP has, and 40 million
elements what Megatron has."""


@dataclass(frozen=True)
class BucketChooser:
    """Plans composed, each in the best of some ``sizes`` of buckets, in bytes, that fits."""

    composed: Composition
    sizes: Sequence[int]
    memory_bytes: float

    def bound(self, one: PlacedRecipe) -> float:
        """What the plan is not below in any of the sizes. Raises InputError as composing does."""
        return self.composed.bound(one, self.sizes)

    def best(self, several: Sequence[PlacedRecipe]) -> list[tuple[PlacedRecipe, float]]:
        """Each plan as it is best, with its seconds. Raises InputError as composing does."""
        found = list(zip(several, self.composed.seconds(several), strict=True))
        others = [
            (number, each)
            for number, (one, seconds) in enumerate(found)
            for each in self._worth(one, (1 - CLOCK_ERROR) * seconds)
        ]
        took = self.composed.seconds([one for _, one in others])
        for (number, one), seconds in zip(others, took, strict=True):
            most = found[number][1]
            if not found[number][0].recipe.bucket_bytes:
                most *= 1 - CLOCK_ERROR
            if seconds < most:
                found[number] = one, seconds
        return found

    def _worth(self, one: PlacedRecipe, most_seconds: float) -> Iterator[PlacedRecipe]:
        """In such buckets that it fits and may be below so many seconds."""
        if not self.sizes or self.bound(one) >= most_seconds:
            return
        for size in self.sizes:
            each = one.in_buckets(size)
            fits = self.composed.composer.size_bytes(each.recipe) <= self.memory_bytes
            if fits and self.composed.bound(each) < most_seconds:
                yield each


def find_nearest_size(
    composed: Composition, one: PlacedRecipe, sizes: Sequence[int] = BUCKETS
) -> tuple[Sequence[int], int]:
    """The sizes that differ for a plan, and which of them is the best as it is composed: one that
    holds all gradients is as any larger one.
    """
    whole = composed.composer.staged(one.recipe).gradient_bytes
    fewer = [size for size, less in zip(sizes, (0, *sizes), strict=False) if less < whole]
    seconds = composed.seconds([one.in_buckets(size) for size in fewer])
    return fewer, seconds.index(min(seconds))
