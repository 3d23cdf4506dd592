"""What backward passes in halves keep of a microbatch, read off two stages of a layer each.

The half for weights needs activations and gradients that the half for inputs leaves: with layers
computed again these are most of the memory, as little else is kept. The first of the two stages
waits for nobody's gradient, so all of its backward pass is for weights; the second is as all others
are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations

from synth.step.schedules import Action, Order, Pass
from synth.step.search.composing.inside import Halves, Part
from synth.step.sharding import Recipe, When
from synth.step.sharding.plan import PIPE
from synth.step.sharding.program import EACH
from synth.step.simulation import Device
from synth.step.simulation.passes import Passes

STAGES = 2


def whole(recipe: Recipe) -> Recipe:
    """The recipe without stages, and so with whole backward passes."""
    axes = tuple(axis for axis in recipe.axes if axis[0] != PIPE)
    return replace(recipe, axes=axes, schedule="")


def halves(device: Device) -> Halves:
    """Reads the tasks of a step of two layers on ``STAGES`` stages."""
    found = {span: Counter[Part]() for span in combinations(EACH, 2)}
    for span, buffer in Passes(device).saved(STAGES - 1):
        part = Part.LAYER if device.tasks[buffer.maker].layer >= 0 else Part.LAST
        found[span][part] += buffer.size_bytes
    return {span: {part: float(sizes[part]) for part in Part} for span, sizes in found.items()}


def most_kept(
    order: Order, kept: Callable[[int], Mapping[tuple[When, When], float]]
) -> tuple[float, ...]:
    """The most bytes that each rank keeps between its passes; ``kept`` is of a stage's microbatch.

    A pass allocates what it leaves before it frees what it was the last to read.
    """

    def changes(action: Action) -> Iterator[float]:
        of = kept(action.stage)
        until_input = of[When.FORWARD, When.BACKWARD]
        until_weight = of[When.FORWARD, When.WEIGHT]
        waiting = of[When.BACKWARD, When.WEIGHT]
        match action.kind:
            case Pass.FORWARD:
                yield until_input + until_weight
            case Pass.BACKWARD:
                yield -until_input - until_weight
            case Pass.INPUT:
                yield waiting
                yield -until_input
            case Pass.WEIGHT:
                yield -until_weight - waiting

    return order.most_held(changes)
