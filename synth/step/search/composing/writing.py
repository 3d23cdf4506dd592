"""Writes out two layers of a model as the tasks of a device, in two microbatches, to read a stage.

It is traced, cut and written out once for each way to cut it, as ``simulate`` writes a whole step;
what comes of it stands for plans of any length.
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
    StepProgram,
    adapt_plan,
    apply,
    plan_of,
    prepare_step,
)
from synth.step.simulation import BufferKind, DeviceTasks, Overlap, StepRuntime, write_device
from synth.step.simulation.groups import find_scores
from synth.step.simulation.predicting import group_operations
from synth.step.simulation.sources import Rooflines

MICROBATCHES = 2
"""Of the step that is traced, if it has any: with them, forward and backward are told apart."""


def batch_of(recipe: Recipe, samples: int) -> int:
    """The batch of which a device has so many samples in each of its microbatches."""
    return samples * recipe.replicas * recipe.microbatches


def write_insides(
    traced: Callable[[int], Step],
    recipe: Recipe,
    counts: Sequence[int],
    accelerator: Accelerator,
    *,
    layers: bool = True,
) -> list[Inside]:
    """What ``recipe`` does with so many samples of a device in each of its microbatches.

    All are cut as for the first. ``traced`` gives a step of ``LAYERS`` layers for a batch; if not
    ``layers``, a whole one, in one piece. Raises InputError for what the step cannot be cut by.
    """
    unstaged = strip_stages(recipe)
    steps = [traced(batch_of(unstaged, count)) for count in counts]
    found = [
        _read(step, plan, accelerator, layers=layers, batch=recipe.batch).inside()
        for step, plan in zip(steps, _plans(steps, unstaged), strict=True)
    ]
    if not recipe.schedule:
        return found
    kept = [
        read_halves(_write(prepare_step(step, plan), plan, apply(step, plan), lambda section: 0.0))
        for step, plan in zip(steps, _plans(steps, recipe), strict=True)
    ]
    return [replace(one, halves=several) for one, several in zip(found, kept, strict=True)]


def _plans(steps: Sequence[Step], recipe: Recipe) -> list[Plan]:
    """The plans of steps that differ in their batch: all are cut as the first where they can be."""
    first, *others = steps
    plan = plan_of(first, recipe)
    return [plan, *(adapt_plan(plan, first, one) or plan_of(one, recipe) for one in others)]


def _write(
    ready: Step, plan: Plan, program: StepProgram, computing: Callable[[Section], float]
) -> DeviceTasks:
    """The tasks of a step that is prepared for its plan, where sending takes no time."""
    runtime = StepRuntime(Overlap(sends=True))
    return write_device(
        ready,
        plan,
        program,
        computing=computing,
        sending=lambda *how: 0.0,
        overlap=runtime.overlap,
        grouping=group_operations(plan, program, runtime),
    )


def _read(
    step: Step, plan: Plan, accelerator: Accelerator, *, layers: bool, batch: tuple[str, ...]
) -> StageReader:
    ready, program = prepare_step(step, plan), apply(step, plan)
    rooflines = Rooflines(accelerator, find_scores(program, plan.parts))
    written = _write(ready, plan, program, lambda section: rooflines(section).seconds)
    if not layers:
        tasks = tuple(task._replace(layer=-1) for task in written.tasks)
        written = replace(written, tasks=tasks)
    if not program.places:
        written = _split_passes(written, layers)
    return StageReader(ready, plan, program, written, layers, batch)


def _split_passes(undivided: DeviceTasks, layers: bool) -> DeviceTasks:
    """A step that is no microbatch, as passes: backward from where layers are done again.

    What is between, the loss, counts to the forward pass; behind, what reads moments, or what comes
    of them, is the update. Without layers, all before that counts to the backward pass.
    """
    begun, updated = (
        0 if layers else 2,
        {number for number, one in enumerate(undivided.buffers) if one.kind is BufferKind.MOMENTS},
    )
    tasks, inside_before = [], False
    made = defaultdict[int, list[int]](list)
    for number, one in enumerate(undivided.buffers):
        made[one.maker].append(number)
    for number, task in enumerate(undivided.tasks):
        begun += task.layer >= 0 and not inside_before
        inside_before = task.layer >= 0
        when = StepPhase.FORWARD if begun < 2 else StepPhase.BACKWARD
        if begun >= 2 and not inside_before and updated.intersection(task.reads):
            when = StepPhase.AFTER
            updated.update(made[number])
        tasks.append(task._replace(place=replace(task.place, when=when)))
    return replace(undivided, tasks=tuple(tasks))
