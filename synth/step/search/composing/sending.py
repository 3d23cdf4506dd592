"""Seconds of gathering parameters and of reducing gradients, by the parts of a model.

Gradients are reduced one by one or in buckets. Over several bucket sizes the least is taken part by
part, which is a lower bound for each size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from grammar import Goal
from synth.step.search.composing.inside import ModelPart
from synth.step.search.composing.staged import StagedRecipe
from synth.step.search.links import Links, Row

UNLIMITED_BYTES = 2**62
"""Bytes of a bucket that has room for all gradients."""

SumRows = tuple[Row, Row]
"""The rows over which parameters are sharded, and those for parameters of experts."""

CallSizes = Callable[[ModelPart, Sequence[float]], Sequence[tuple[float, float]]]
"""Bytes of each call for parameters of these sizes, and how often it is made."""


@dataclass
class GradientSeconds:
    """Seconds of gathers and reductions on links; what plans share is kept."""

    links: Links
    _known: dict[tuple[object, ...], Mapping[ModelPart, float]] = field(default_factory=dict)

    def gathers(self, plan: StagedRecipe, over: SumRows) -> Mapping[ModelPart, float]:
        """Seconds of gathering the parameters of each part, one by one, or those of all layers."""
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
    ) -> Mapping[ModelPart, float]:
        """Seconds of reducing the gradients of each part, in the fastest of these ``buckets``."""
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
            self._known[key] = {part: min(one[part] for one in by_bucket) for part in ModelPart}
        return self._known[key]

    def _seconds(
        self, plan: StagedRecipe, goal: Goal, over: SumRows, calls: CallSizes
    ) -> dict[ModelPart, float]:
        inside, seconds = plan.inside, dict.fromkeys(ModelPart, 0.0)
        for row, by_part in zip(over, (inside.parameters, inside.experts), strict=True):
            for part, sizes in by_part.items() if row else ():
                for size, times in calls(part, sizes):
                    seconds[part] += times * self.links.seconds(goal, row, size)
        return seconds
