"""Computes the seconds to gather parameters and to reduce gradients, by the parts of a model.

Gradients are reduced one by one or in buckets. For several bucket sizes, the minimum is taken
separately for each part, which is a lower bound for every size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from grammar import Goal
from synth.step.search.composing.inside import PARTS, ModelPart
from synth.step.search.composing.rows import SumRows
from synth.step.search.composing.staged import StagedRecipe
from synth.step.search.links import Links

UNLIMITED_BYTES = 2**62
"""Size in bytes of a bucket that holds all gradients."""

PartSeconds = tuple[float, ...]
"""Seconds of each ``ModelPart``, in their order."""

CallSizes = Callable[[ModelPart, Sequence[float]], Sequence[tuple[float, float]]]
"""Maps a part and the sizes of its parameters to the bytes and the number of each call."""


@dataclass
class GradientSeconds:
    """Seconds of gathers and reductions on links, with a cache of those that plans share."""

    links: Links
    _known: dict[tuple[object, ...], PartSeconds] = field(default_factory=dict)

    def gathers(self, plan: StagedRecipe, over: SumRows) -> PartSeconds:
        """Returns the seconds to gather each part's parameters, one by one or for all layers."""
        layers = plan.layers if plan.in_stacks else 1.0
        key = plan.cut, over, layers
        if key not in self._known:

            def calls(part: ModelPart, sizes: Sequence[float]) -> Sequence[tuple[float, float]]:
                stacked = layers if part is ModelPart.LAYER else 1.0
                return [(stacked * plan.inside.gathered * size, 1 / stacked) for size in sizes]

            self._known[key] = self._seconds(plan, Goal.ALL_GATHER, over, calls)
        return self._known[key]

    def sums(
        self, plan: StagedRecipe, goal: Goal, over: SumRows, buckets: Sequence[int]
    ) -> PartSeconds:
        """Returns the seconds to reduce each part's gradients with the fastest of ``buckets``."""
        # Layers in a bucket depend on the layers of a stage, which ``plan.cut`` leaves out.
        key = plan.cut, goal, over, tuple((size, plan.layers_in(size)) for size in buckets)
        if key not in self._known:
            by_bucket = [
                self._seconds(
                    plan,
                    goal,
                    over,
                    lambda part, sizes, most=most: plan.sums(part, sizes, most),  # type: ignore[misc]
                )
                for most in buckets
            ]
            self._known[key] = tuple(map(min, zip(*by_bucket, strict=True)))
        return self._known[key]

    def _seconds(
        self, plan: StagedRecipe, goal: Goal, over: SumRows, calls: CallSizes
    ) -> PartSeconds:
        inside, seconds = plan.inside, dict.fromkeys(PARTS, 0.0)
        for row, by_part in zip(over, (inside.parameters, inside.experts), strict=True):
            for part, sizes in by_part.items() if row else ():
                for size, times in calls(part, sizes):
                    seconds[part] += times * self.links.seconds(goal, row, size)
        return tuple(seconds.values())
