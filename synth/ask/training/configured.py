"""A training step and a plan of it as the files of a framework that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from grammar.tensors.operations import Step
from hierarchies import InputError, Placement, System
from synth.ask.answers.parts import Axes, Matrix, ReplyModel, TextFile
from synth.ask.answers.training.gained import ProgramOfPlan
from synth.ask.reply import Reply, reply
from synth.ask.training.gaining import programs_of
from synth.ask.training.machines import StepOnMachineQuestion, accelerator_of
from synth.collective.emit.source import EmitOptions
from synth.collective.ranking.oracle import ProgramPrices
from synth.step.frameworks import (
    FRAMEWORKS,
    FrameworkFiles,
    ModelSpec,
    PlacedSystem,
    write_configuration,
)
from synth.step.frameworks import Configurations as Found
from synth.step.frameworks import TrainingSpec as Training
from synth.step.search.finalists import simulate_candidate
from synth.step.search.gaining import list_gains
from synth.step.search.links import PlacedRecipe
from synth.step.sharding import Recipe
from synth.step.zoo.sizes import ModelSource, sizes_of

_RUNTIME_NAMES = {"mesh": "jax"}
"""Runtimes that are frameworks of another name."""

if TYPE_CHECKING:
    Framework = str
else:  # type checkers take no literal of a table's keys
    _other_names = {name: runtime for runtime, name in _RUNTIME_NAMES.items()}
    Framework = Literal[tuple(_other_names.get(name, name) for name in FRAMEWORKS)]
    """Those of ``synth.step.frameworks``; JAX's mesh and partition specs are ``mesh``."""


class ConfiguredReply(ReplyModel):
    """A plan of a step as the files of a framework that runs it."""

    model: str = Field(description="Model.")
    framework: str = Field(description="Framework and the version it is written for.")
    system: str = Field(description="The name of the machine.")
    axes: Axes = Field(description="Sizes by name, in the order of the placement.")
    placement: Matrix = Field(description="One row an axis, one column a level.")
    plan: str = Field(description="Plan as requested.")
    recipe: str = Field(description="Recipe that the files express.")
    notes: list[str] = Field(
        description="Differences from the requested plan, noted in the files as well."
    )
    programs: list[ProgramOfPlan] = Field(description="Programs that gain, the largest gain first.")
    files: list[TextFile] = Field(min_length=1, description="Files to save.")


def runtime_of(framework: str) -> str:
    """What a question calls a framework."""
    return next(
        (runtime for runtime, name in _RUNTIME_NAMES.items() if name == framework), framework
    )


def check_model_and_machine(question: StepOnMachineQuestion) -> ModelSource:
    """The model. Raises InputError for the text of a step, and on no machine."""
    source = question.source()
    if source is None:
        problem = "frameworks have models of their own, and this is a step"
        hint = "a model of the zoo, as llama3-8b, or a config.json"
        raise InputError(problem, where="MODEL", hint=hint)
    if question.system is None:
        raise InputError("on which machine?", where="SYSTEM", hint="as in dgx-h100:8")
    return source


def configure_framework(question: StepOnMachineQuestion, runtime: str) -> Reply:
    """The files of one framework for a plan, with programs for the collectives that gain by them.

    Raises InputError for what is no model of the zoo, on no machine, or no recipe, and for what
    the framework cannot say.
    """
    model = check_model_and_machine(question)
    recipe, step = _read_recipe(question), question.step()
    system, placement = _place_axes(question, recipe)
    name = _RUNTIME_NAMES.get(runtime, runtime)
    written = _write_files(question, runtime, recipe, step)
    programs, more = _find_programs(step, recipe, system, placement, Found({name: written}, {}))
    files = {**written.files, **{file.partition("/")[2]: text for file, text in more.items()}}
    return reply(
        ConfiguredReply.like(
            written,
            model=str(model),
            framework=FRAMEWORKS[name].title,
            system=system.name,
            placement=placement,
            axes=recipe.axes,
            plan=str(recipe),
            recipe=str(written.recipe),
            programs=programs,
            files={file: str(text) for file, text in files.items()},
        )
    )


def check_configured(question: StepOnMachineQuestion, runtime: str) -> None:
    """Raises InputError as ``configure_framework`` does, except for JAX.

    JAX's partition specs are those of a traced step's inputs, and this check does not trace.
    """
    if runtime not in _RUNTIME_NAMES:
        _write_files(question, runtime, _read_recipe(question), None)


def _read_recipe(question: StepOnMachineQuestion) -> Recipe:
    """The plan as a recipe. Raises InputError for a plan in full."""
    recipe = question.recipe()
    if recipe is None:
        hint = "--runtime jax or torch takes it"
        problem = "frameworks take recipes, and this is a plan in full"
        raise InputError(problem, where="--plan", hint=hint)
    return recipe


def _write_files(
    question: StepOnMachineQuestion, runtime: str, recipe: Recipe, step: Step | None
) -> FrameworkFiles:
    """The files of a framework; of a step that was not traced, of all frameworks but JAX."""
    model = check_model_and_machine(question)
    sizes = sizes_of(model, question.sizes)
    return write_configuration(
        _RUNTIME_NAMES.get(runtime, runtime),
        recipe,
        ModelSpec(str(model), sizes, step),
        Training(question.batch, getattr(sizes, "sequence", 1), question.dtype),
        PlacedSystem(*_place_axes(question, recipe), EmitOptions()),
    )


def _place_axes(question: StepOnMachineQuestion, recipe: Recipe) -> tuple[System, Placement]:
    machine = question.placed(dict(recipe.axes))
    assert machine is not None
    return machine.system, machine.placement


def _find_programs(
    step: Step, recipe: Recipe, system: System, placement: Placement, written: Found
) -> tuple[list[ProgramOfPlan], dict[str, str]]:
    """None on a machine that does not say its accelerators: then nobody knows what is hidden."""
    if not system.device:
        return [], {}
    answers = ProgramPrices(system, stripes=False)
    placed = PlacedRecipe(recipe, placement.matrix)
    found = simulate_candidate(step, placed, answers, accelerator_of(system, None))
    return programs_of(system, placement, list_gains(found, answers), written)
