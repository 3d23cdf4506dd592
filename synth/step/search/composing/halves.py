"""Reads the memory that split backward passes keep of a microbatch, from two stages of one layer.

The half for weights needs activations and gradients that the half for inputs leaves in memory. With
recompute this is most of the memory, as little else is kept. No stage waits for the gradient of the
first of the two stages, so its whole backward pass is the half for weights; the second stage stands
for all other stages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations

from synth.step.schedules import Action, Pass, PipelineSchedule
from synth.step.search.composing.inside import Halves, ModelPart
from synth.step.sharding import Recipe, StepPhase
from synth.step.sharding.plan import PIPE
from synth.step.sharding.program import MICROBATCH_PHASES
from synth.step.simulation import DeviceTasks
from synth.step.simulation.passes import Passes

STAGES = 2


def strip_stages(recipe: Recipe) -> Recipe:
    """Returns the recipe without stages, and so with whole backward passes."""
    axes = tuple(axis for axis in recipe.axes if axis[0] != PIPE)
    return replace(recipe, axes=axes, schedule="")


def read_halves(device: DeviceTasks) -> Halves:
    """Reads the bytes kept between passes from a step of two layers on ``STAGES`` stages."""
    kept = {span: Counter[ModelPart]() for span in combinations(MICROBATCH_PHASES, 2)}
    for span, buffer in Passes(device).saved(STAGES - 1):
        part = ModelPart.LAYER if device.tasks[buffer.maker].layer >= 0 else ModelPart.LAST
        kept[span][part] += buffer.size_bytes
    return {span: {part: float(sizes[part]) for part in ModelPart} for span, sizes in kept.items()}


def find_peak_kept(
    order: PipelineSchedule, kept: Callable[[int], Mapping[tuple[StepPhase, StepPhase], float]]
) -> tuple[float, ...]:
    """Returns the most bytes that each rank keeps between its passes.

    ``kept`` maps a stage to the bytes of one microbatch between two passes. A pass allocates its
    outputs before it frees the buffers that it was the last to read.
    """

    # The order of yields matters: allocations come before releases, so a peak holds both.
    def changes(action: Action) -> Iterator[float]:
        spans = kept(action.stage)
        until_input = spans[StepPhase.FORWARD, StepPhase.BACKWARD]
        until_weight = spans[StepPhase.FORWARD, StepPhase.WEIGHT]
        waiting = spans[StepPhase.BACKWARD, StepPhase.WEIGHT]
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
