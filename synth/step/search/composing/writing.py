"""Writes two layers of a model in two microbatches as the tasks of a device, to read a stage.

The model is traced, sharded and written out once for each way to shard it, as ``simulate`` writes a
whole step. The result stands for plans with any number of layers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from grammar.tensors.operations import Step
from hierarchies.devices import Device as Accelerator
from synth.compute import Section
from synth.step.search.composing.halves import read_halves, strip_stages
from synth.step.search.composing.inside import Inside
from synth.step.search.composing.reading import StageReader
from synth.step.sharding import (
    Plan,
    Recipe,
    StepPhase,
    adapt_plan,
    apply,
    plan_of,
    prepare_step,
)
from synth.step.simulation import BufferKind, DeviceTasks, Overlap, Sources, StepRuntime
from synth.step.simulation.predicting import write_plan
from synth.step.simulation.sources import Rooflines

MICROBATCHES = 2
"""Number of microbatches of the traced step, if it is divided.

With several, the step program marks each task as forward or backward.
"""


def batch_of(recipe: Recipe, samples: int) -> int:
    """Returns the batch that gives a device ``samples`` samples in each of its microbatches."""
    return samples * recipe.replicas * recipe.microbatches


def write_insides(
    traced: Callable[[int], Step],
    recipe: Recipe,
    counts: Sequence[int],
    accelerator: Accelerator,
    *,
    layers: bool = True,
) -> list[Inside]:
    """Returns the inside of ``recipe`` for each number of samples in a device's microbatch.

    All have the shardings of the first. ``traced`` returns a step of ``LAYERS`` layers for a batch,
    or the whole step in one piece if not ``layers``. Raises InputError if the step cannot be
    sharded by the recipe.
    """
    unstaged = strip_stages(recipe)
    steps = [traced(batch_of(unstaged, count)) for count in counts]
    insides = [
        _read(step, plan, accelerator, layers=layers, batch=recipe.batch).inside()
        for step, plan in zip(steps, _plans(steps, unstaged), strict=True)
    ]
    if not recipe.schedule:
        return insides
    halves = [
        read_halves(_write(step, plan, lambda section: 0.0))
        for step, plan in zip(steps, _plans(steps, recipe), strict=True)
    ]
    return [replace(inside, halves=kept) for inside, kept in zip(insides, halves, strict=True)]


def _plans(steps: Sequence[Step], recipe: Recipe) -> list[Plan]:
    """Plans steps that differ in their batch, with the shardings of the first where possible."""
    first, *others = steps
    plan = plan_of(first, recipe)
    return [plan, *(adapt_plan(plan, first, step) or plan_of(step, recipe) for step in others)]


def _write(step: Step, plan: Plan, computing: Callable[[Section], float]) -> DeviceTasks:
    """Writes the tasks of a step, with free communication."""
    sources = Sources(computing, lambda *_: 0.0, lambda *_: 0.0)
    return write_plan(step, plan, sources, StepRuntime(Overlap(sends=True)))


def _read(
    step: Step, plan: Plan, accelerator: Accelerator, *, layers: bool, batch: tuple[str, ...]
) -> StageReader:
    program = apply(step, plan)
    ready = prepare_step(step, plan)
    rooflines = Rooflines.of(accelerator, ready, plan, program)
    written = _write(step, plan, lambda section: rooflines(section).seconds)
    if not layers:
        tasks = tuple(task._replace(layer=-1) for task in written.tasks)
        written = replace(written, tasks=tasks)
    if not program.places:
        written = _split_passes(written, layers)
    return StageReader(ready, plan, program, written, layers, batch)


def _split_passes(undivided: DeviceTasks, layers: bool) -> DeviceTasks:
    """Divides a step without microbatches into passes: backward begins where layers repeat.

    The loss, which is between the two runs of layers, belongs to the forward pass. Tasks after the
    layers that depend on moments are the update. Without layers, all tasks before the update are
    the backward pass.
    """
    passes_begun, update_buffers = (
        0 if layers else 2,
        {
            number
            for number, buffer in enumerate(undivided.buffers)
            if buffer.kind is BufferKind.MOMENTS
        },
    )
    tasks, inside_before = [], False
    made_by = defaultdict[int, list[int]](list)
    for number, buffer in enumerate(undivided.buffers):
        made_by[buffer.maker].append(number)
    for number, task in enumerate(undivided.tasks):
        passes_begun += task.layer >= 0 and not inside_before
        inside_before = task.layer >= 0
        when = StepPhase.FORWARD if passes_begun < 2 else StepPhase.BACKWARD
        if passes_begun >= 2 and not inside_before and update_buffers.intersection(task.reads):
            when = StepPhase.AFTER
            update_buffers.update(made_by[number])
        tasks.append(task._replace(place=task.place._replace(when=when)))
    return replace(undivided, tasks=tuple(tasks))
