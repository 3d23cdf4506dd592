"""Seconds of putting parameters together and of summing gradients, by the parts of a model.

Gradients are summed one by one or in buckets. Of several sizes of buckets the least is asked for
part by part, so no size is below it.
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
"""The rows of parameters, and of those of experts."""

CallSizes = Callable[[ModelPart, Sequence[float]], Sequence[tuple[float, float]]]
"""Bytes of each call for parameters of such sizes, and how often it is done."""


@dataclass
class GradientSeconds:
    """What some links take for it; what plans share is kept."""

    links: Links
    _known: dict[tuple[object, ...], Mapping[ModelPart, float]] = field(default_factory=dict)

    def gathers(self, plan: StagedRecipe, over: SumRows) -> Mapping[ModelPart, float]:
        """Of the parameters of each part, one by one, or those of all layers at once."""
        layers = plan.layers if plan.in_stacks else 1.0
        key = plan.cut, over, layers
        if key not in self._known:

            def calls(part: ModelPart, sizes: Sequence[float]) -> Sequence[tuple[float, float]]:
                several = layers if part is ModelPart.LAYER else 1.0
                return [(several * plan.inside.gathered * one, 1 / several) for one in sizes]

            self._known[key] = self._seconds(plan, Goal.ALL_GATHER, over, calls)
        return self._known[key]

    def sums(
        self, plan: StagedRecipe, goal: Goal, over: SumRows, buckets: Sequence[int]
    ) -> Mapping[ModelPart, float]:
        """Of the gradients of each part, the least of those in ``buckets`` of such sizes."""
        key = plan.cut, goal, over, tuple((one, plan.layers_in(one)) for one in buckets)
        if key not in self._known:
            each = [
                self._seconds(
                    plan,
                    goal,
                    over,
                    lambda part, sizes, most=one: plan.sums(part, sizes, most),  # type: ignore[misc]
                )
                for one in buckets
            ]
            self._known[key] = {part: min(one[part] for one in each) for part in ModelPart}
        return self._known[key]

    def _seconds(
        self, plan: StagedRecipe, goal: Goal, over: SumRows, calls: CallSizes
    ) -> dict[ModelPart, float]:
        inside, found = plan.inside, dict.fromkeys(ModelPart, 0.0)
        for row, several in zip(over, (inside.parameters, inside.experts), strict=True):
            for part, sizes in several.items() if row else ():
                for size, times in calls(part, sizes):
                    found[part] += times * self.links.seconds(goal, row, size)
        return found
