"""The table of frameworks, and the files of all frameworks for one recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from hierarchies import InputError, suggest_nearest
from synth.collective.emit.launchers import PlacedSystem
from synth.collective.emit.source import Files
from synth.step.frameworks.deepspeed import decide_deepspeed, deepspeed
from synth.step.frameworks.inputs import (
    ConfigurationInputs,
    FrameworkFiles,
    ModelSpec,
    RecipeDifferences,
    RecipeInputs,
    TrainingSpec,
)
from synth.step.frameworks.jax import decide_jax, jax
from synth.step.frameworks.megatron import bridge, decide_bridge, decide_megatron, megatron
from synth.step.frameworks.torchtitan import decide_torchtitan, torchtitan, torchtitan_toml
from synth.step.sharding.recipes import Recipe


@dataclass(frozen=True)
class FrameworkWriter:
    """The writer of a framework's files.

    ``title``: its name, with the version written for. ``decide``: what ``write`` decides first: the
    recipe that the framework runs, and how it differs; raises InputError if it cannot run it.
    ``needs_step``: whether it reads the inputs of the traced step.
    """

    title: str
    write: Callable[[ConfigurationInputs], FrameworkFiles]
    decide: Callable[[RecipeInputs], RecipeDifferences]
    needs_step: bool = False


FRAMEWORKS: Mapping[str, FrameworkWriter] = {
    "megatron": FrameworkWriter("Megatron-LM (megatron-core 0.19)", megatron, decide_megatron),
    "bridge": FrameworkWriter("Megatron-Bridge 0.6", bridge, decide_bridge),
    "torchtitan": FrameworkWriter("torchtitan 0.3", torchtitan, partial(decide_torchtitan, "0.3")),
    "torchtitan-toml": FrameworkWriter(
        "torchtitan 0.2", torchtitan_toml, partial(decide_torchtitan, "0.2")
    ),
    "deepspeed": FrameworkWriter("DeepSpeed 0.19", deepspeed, decide_deepspeed),
    "jax": FrameworkWriter("JAX 0.10", jax, decide_jax, needs_step=True),
}


@dataclass(frozen=True)
class Configurations:
    """The files of each framework, and the reason for each framework without files."""

    written: Mapping[str, FrameworkFiles]
    refused: Mapping[str, InputError]

    @property
    def files(self) -> Files:
        """All files, in one folder per framework: ``megatron/arguments.sh``."""
        return {
            f"{name}/{file}": text
            for name, written in self.written.items()
            for file, text in written.files.items()
        }


def write_configuration(
    framework: str, recipe: Recipe, model: ModelSpec, job: TrainingSpec, machine: PlacedSystem
) -> FrameworkFiles:
    """Writes the files of one framework. Raises InputError if it cannot express the recipe."""
    if framework not in FRAMEWORKS:
        raise InputError(f"no framework {framework!r}", hint=suggest_nearest(framework, FRAMEWORKS))
    return FRAMEWORKS[framework].write(ConfigurationInputs(recipe, model, job, machine))


def write_configurations(
    recipe: Recipe,
    model: ModelSpec,
    job: TrainingSpec,
    machine: PlacedSystem,
    frameworks: Sequence[str] = tuple(FRAMEWORKS),
) -> Configurations:
    """Writes the files of every framework that can express the recipe.

    Raises InputError if recipe, job and machine do not fit together, whatever the framework.
    """
    # Raises the errors that no framework causes, before they are reported once for each framework.
    ConfigurationInputs(recipe, model, job, machine)
    written: dict[str, FrameworkFiles] = {}
    refused: dict[str, InputError] = {}
    for name in frameworks:
        try:
            written[name] = write_configuration(name, recipe, model, job, machine)
        except InputError as error:
            refused[name] = error
    return Configurations(written, refused)
