"""What can be said at once against a question about a training step: nothing is traced."""

from __future__ import annotations

from math import prod

from grammar.tensors.operations import ShardedStep, Step
from grammar.tensors.parser import parse_either
from hierarchies import InputError, System
from synth.train.models import checked_sizes
from synth.train.planner.pins import AXES, Pins
from synth.train.plans import Recipe, check
from synth.verbs.questions.named_texts import NamedText, system_of
from synth.verbs.training.bucketed import BucketsQuestion
from synth.verbs.training.configured import check_configured, is_framework
from synth.verbs.training.machines import StepOnMachineQuestion, accelerator_of, profile_of
from synth.verbs.training.planned import StepPlanQuestion
from synth.verbs.training.plans import PlannedQuestion, check_axes, check_passes
from synth.verbs.training.shards import ShardQuestion
from synth.verbs.training.simulated import SimulateQuestion, size_of
from synth.verbs.training.traces import ModelQuestion
from synth.verbs.training.trained import TrainQuestion

_MOST_READ = 2**17
"""Longer texts, in characters, are read by the worker alone: to read one, and to write a plan out
for it, takes half a second. Steps of transformers have half of it, those that convolve twice it.
"""


def check_plans(question: StepPlanQuestion, system: System) -> None:
    """Raises InputError for a model, sizes, a device or pins of no use on a machine."""
    assert question.model is not None
    checked_sizes(question.model, question.changes(), question.spelling())
    device = accelerator_of(system, question.device)
    profile_of(question.profile, device, system.devices)
    for pins in question.pins():
        _check_pins(pins, system.check_even().devices, question.batch)


def _check_pins(pins: Pins, devices: int, batch: int) -> None:
    """Raises InputError for axes that do not divide the devices, or microbatches the samples."""
    sizes = {name: int(size) for name, size in pins.said.items() if name in AXES}
    if devices % prod(sizes.values()):
        said = " ".join(f"{name}={size}" for name, size in sizes.items())
        hint = "pinned axes, one times the other, divide the devices"
        raise InputError(f"{said} on {devices} devices", where="pin", hint=hint)
    count = int(pins.said.get("microbatches", 1))
    if batch % count:
        problem = f"{batch} samples in {count} microbatches"
        raise InputError(problem, where="pin", hint="as many in each")


def check_training(question: ModelQuestion) -> None:
    """Raises InputError for a model, a plan, a machine or a device of no use."""
    question.check_model()
    given = _read(question)
    match question:
        case BucketsQuestion():
            _check_buckets(question, given)
        case PlannedQuestion():
            _check_planned(question, given)


def _check_buckets(question: BucketsQuestion, step: Step | ShardedStep | None) -> None:
    system = question.checked()
    accelerator_of(system, question.device)
    if not isinstance(question.model, NamedText):
        question.check_batch(question.batch, system.devices)
    elif isinstance(step, Step):
        question.check_batch(size_of(step)[0], system.devices)


def _check_planned(question: PlannedQuestion, given: Step | ShardedStep | None) -> None:
    match question:
        case SimulateQuestion():
            question.check_machine()
            _check_plan(question, given)
            assert question.system is not None
            system = system_of(question.system)
            device = accelerator_of(system, question.device)
            profile_of(question.profile, device, system.devices)
        case TrainQuestion() if is_framework(question.runtime):
            question.check_runtime()
            _check_recipe(question)
            check_configured(question, question.runtime)
        case TrainQuestion():
            question.check_runtime()
            _check_plan(question, given)
        case ShardQuestion() if isinstance(given, ShardedStep):
            question.check_sharded()
        case ShardQuestion() if (
            given is None and question.plan is None and not isinstance(question.model, str)
        ):
            pass  # a long text may be of a step that is sharded
        case _:
            _check_plan(question, given)


def _read(question: ModelQuestion) -> Step | ShardedStep | None:
    """The step of a short text; None of a model of the zoo, and of a text that takes long."""
    if not isinstance(question.model, NamedText):
        return None
    if len(question.model.text) > _MOST_READ:
        question.check_beginning()
        return None
    return question.read(parse_either) if isinstance(question, ShardQuestion) else question.step()


def _check_plan(question: PlannedQuestion, step: Step | ShardedStep | None) -> None:
    """Raises InputError for a plan that is none, or none of the machine, or of a step."""
    recipe = _check_recipe(question)
    if recipe is not None:
        _check_samples(question, recipe)
    if isinstance(step, Step) and len(question.text()) <= _MOST_READ:
        plan, _ = question.cut(step)
        check(step, plan)


def _check_recipe(question: PlannedQuestion) -> Recipe | None:
    """The recipe, None for a plan in full: that is read together with the step.

    Raises InputError for one that is none, or too large, or not of the machine.
    """
    recipe = question.recipe()
    if recipe is not None:
        check_axes(dict(recipe.axes))
        check_passes(recipe.stages, recipe.microbatches)
        if isinstance(question, StepOnMachineQuestion):
            question.placed(dict(recipe.axes))
    return recipe


def _check_samples(question: PlannedQuestion, recipe: Recipe) -> None:
    """Raises InputError where a model's samples are not as many in each part.

    The verb says so of an input of the step, which is not traced here.
    """
    parts = recipe.microbatches * recipe.replicas
    if isinstance(question.model, str) and question.batch % parts:
        problem = f"{question.batch} samples in {parts} parts"
        hint = f"as many in each: --batch {parts * max(1, round(question.batch / parts))}"
        raise InputError(problem, where="--batch", hint=hint)
