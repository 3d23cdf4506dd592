"""The inputs of a configuration (a recipe, a model, a job and a machine), checked to fit together.

Axes of a recipe have arbitrary names; the values that an axis cuts show its purpose. Frameworks
have a size for each of these *roles*, in a fixed order: stages (``pipe``), samples (``data``),
samples and experts (``expert``), tokens (``seq``), heads and widths (``tensor``). Only JAX can
express anything else in a recipe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import gcd, prod
from typing import Any

from grammar.tensors.operations import Step
from hierarchies import Axis, InputError, Placement
from synth.collective.emit.launchers import PlacedSystem
from synth.collective.emit.mesh import RankOrder
from synth.collective.emit.source import Files
from synth.step.redistribution.paths import CostPriority
from synth.step.sharding.plan import PIPE
from synth.step.sharding.recipes import AND, Recipe
from synth.step.zoo.sizes import Decoder, Gpt2, Sizes

ROLES = (PIPE, "data", "expert", "seq", "tensor")
"""Roles in the order in which frameworks count ranks, slowest first."""

NUMBERS = ("bfloat16", "float16", "float32")


@dataclass(frozen=True)
class ModelSpec:
    """A model of the zoo: its name, its sizes, and the step that a JAX module is generated from."""

    name: str
    sizes: Sizes
    step: Step | None = None


@dataclass(frozen=True)
class TrainingSpec:
    """A training job: ``batch`` samples per step of ``sequence`` tokens each, in dtype ``numbers``.

    Parameters and moments are float32, as in the zoo. ``precision``: that of products of weights
    (``synth.compute.precision``), if it is not that of ``numbers``.
    """

    batch: int
    sequence: int
    numbers: str = "bfloat16"
    precision: str = ""

    def __post_init__(self) -> None:
        for name in ("batch", "sequence"):
            if getattr(self, name) < 1:
                raise InputError(f"a {name} of {getattr(self, name)}", hint="at least 1")
        if self.numbers not in NUMBERS:
            raise InputError(f"numbers {self.numbers!r}", hint=f"there are {', '.join(NUMBERS)}")


@dataclass(frozen=True)
class FrameworkFiles:
    """The files of a framework, the recipe they express, and its differences from the given recipe.

    Each note is a sentence, which the files contain, too. ``order``: how ``launch.sh`` numbers
    ranks.
    """

    files: Files
    recipe: Recipe
    notes: tuple[str, ...]
    order: RankOrder = RankOrder.MACHINE


@dataclass
class RecipeDifferences:
    """Differences between a recipe and the framework's behaviour, collected as they are found.

    ``changes``: the notes of those that make it another recipe.
    """

    recipe: Recipe
    notes: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)

    def say(self, note: str, recipe: Recipe | None = None) -> None:
        """Adds a sentence, and the recipe that the framework runs instead, if there is one."""
        self.notes.append(note)
        if recipe is not None and recipe != self.recipe:
            self.changes.append(note)
            self.recipe = recipe

    def note_first(self) -> None:
        """Notes that no framework has a setting that prefers fewer requests to fewer bytes."""
        plain = replace(self.recipe, first=CostPriority.BYTES)
        if plain != self.recipe:
            self.say("no framework has a setting for 'fewest requests'", plain)

    def written(self, files: Files, order: RankOrder = RankOrder.MACHINE) -> FrameworkFiles:
        """Returns the files together with all notes."""
        return FrameworkFiles(files, self.recipe, tuple(self.notes), order)


@dataclass(frozen=True)
class RecipeInputs:
    """A recipe with a model and a job: all that decides whether a framework can run the recipe.

    Raises InputError if they do not fit together.
    """

    recipe: Recipe
    model: ModelSpec
    job: TrainingSpec

    def __post_init__(self) -> None:
        parts = self.recipe.microbatches * self.recipe.replicas
        if self.job.batch % parts:
            raise InputError(
                f"a batch of {self.job.batch} divided into {parts} parts",
                hint=f"{self.recipe.microbatches} microbatches need equal numbers of samples"
                " on every device",
            )

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The size of each role, 1 if no axis has the role. Raises InputError as ``named`` does."""
        names, axes = self._roles, dict(self.recipe.axes)
        return {role: axes.get(names.get(role, ""), 1) for role in ROLES}

    @property
    def devices(self) -> int:
        return prod(size for _, size in self.recipe.axes)

    @property
    def samples(self) -> int:
        """Samples of a microbatch on each device."""
        return self.job.batch // (self.recipe.microbatches * self.recipe.replicas)

    @cached_property
    def named(self) -> Recipe:
        """The recipe with axes named by roles, in the order of roles, without axes of size 1.

        Raises InputError for anything that only JAX can express: an axis that shards nothing, a
        clause for a single weight or input, experts on an axis along which samples are whole.
        """
        names = {axis: role for role, axis in self._roles.items() if self.sizes[role] > 1}
        axes = tuple((role, size) for role, size in self.sizes.items() if size > 1)
        cuts: dict[str, Any] = {
            clause: names.get(over[0], "")
            for clause, over in self.recipe.clauses.items()
            if clause != "batch"
        }
        cuts["batch"] = tuple(role for role in ("data", "expert") if self.sizes[role] > 1)
        staged = self.sizes[PIPE] > 1
        return replace(
            self.recipe,
            axes=axes or (("data", 1),),
            zero=self.recipe.zero if cuts["batch"] or self.sizes["seq"] > 1 else 0,
            schedule=self.recipe.schedule if staged else "",
            chunks=self.recipe.chunks if staged else 1,
            layers=self.recipe.layers if staged else (),
            **cuts,
        )

    @cached_property
    def _roles(self) -> Mapping[str, str]:
        recipe = self.recipe
        if recipe.weights or recipe.inputs:
            raise InputError(
                "clauses for a single weight or input",
                hint="frameworks have no option for them; JAX's partition specs express them",
            )
        own = recipe.tokens != recipe.megatron
        above = {name for name, size in recipe.axes if size > 1}
        samples = [axis for axis in recipe.batch if axis in above and axis != recipe.experts]
        given = {
            PIPE: PIPE,
            "data": next(iter(samples), ""),
            "expert": recipe.experts,
            "seq": recipe.tokens if own else "",
            "tensor": recipe.megatron,
        }
        roles = {role: axis for role, axis in given.items() if axis}
        if recipe.experts in above - {*recipe.batch}:
            same = "along which all devices have the same samples"
            if recipe.experts == recipe.megatron:
                same = "which also shards each of them"
            also = AND.join((*recipe.batch, "a separate axis"))
            raise InputError(
                f"experts over {recipe.experts}, {same}",
                hint=f"frameworks place experts on devices of different samples: batch over {also}",
            )
        if len(samples) > 1:
            raise InputError(
                f"batch over {AND.join(samples)}",
                hint="frameworks shard samples over one axis only",
            )
        if recipe.vocabulary in above - {recipe.megatron}:
            raise InputError(
                f"the vocabulary over {recipe.vocabulary}",
                hint="frameworks shard it over the axis of the weights, or not at all",
            )
        for name in sorted(above - set(roles.values())):
            raise InputError(f"axis {name} shards nothing", hint="frameworks have no such replicas")
        return roles

    @cached_property
    def decoder(self) -> Decoder:
        """The sizes of the model as a decoder; ``rope_base`` is 0 for learned positions.

        Raises InputError for other models, and for too many tokens.
        """
        tokens, name = self.job.sequence, self.model.name
        match self.model.sizes:
            case Gpt2() as sizes if tokens > sizes.sequence:
                problem = f"{tokens} tokens, and {name} has positions for {sizes.sequence}"
                raise InputError(problem, hint="change its sequence, too")
            case Gpt2() as sizes:
                hidden = 4 * sizes.width
                return Decoder(**asdict(sizes), key_heads=sizes.heads, hidden=hidden, rope_base=0)
            case Decoder() as sizes:
                return replace(sizes, sequence=max(sizes.sequence, tokens))
            case other:
                kind = type(other).__name__
                raise InputError(
                    f"{name} is a {kind}",
                    hint="configurations are written for decoders: GPT-2 and Llama",
                )

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers of each stage."""
        count = self.named.stages
        return self.named.layers or (self.decoder.layers // count,) * count

    def refuse_precision(self, framework: str) -> None:
        """Raises InputError for a precision that a framework's files do not switch on."""
        if self.job.precision:
            raise InputError(
                f"products in {self.job.precision}",
                hint=f"files for Megatron-LM and Megatron-Bridge switch it on, for {framework} not"
                " yet",
            )

    def check_decoder(self) -> Decoder:
        """Returns the decoder if the recipe's sizes divide it. Raises InputError otherwise."""
        decoder, sizes, recipe = self.decoder, self.sizes, self.named
        if sum(recipe.layers) not in (0, decoder.layers):
            raise InputError(
                f"stages of {sum(recipe.layers)} layers in all",
                hint=f"{self.model.name} has {decoder.layers}",
            )
        if not recipe.layers:
            check_divides(decoder.layers, "layers", sizes[PIPE] * recipe.chunks, "stages")
        for size, what in ((decoder.heads, "heads"), (decoder.key_heads, "key heads")):
            check_divides(size, what, sizes["tensor"], "parts over tensor")
        check_divides(decoder.hidden, "elements of the MLP", sizes["tensor"], "parts over tensor")
        parts = sizes["seq"] * (sizes["tensor"] if recipe.tokens == "tensor" else 1)
        check_divides(self.job.sequence, "tokens", parts, "parts")
        if recipe.experts and decoder.experts == 1:
            raise InputError(f"experts over {recipe.experts}, and {self.model.name} has none")
        if recipe.experts:
            check_divides(decoder.experts, "experts", sizes["expert"], "parts over expert")
        return decoder


@dataclass(frozen=True)
class ConfigurationInputs(RecipeInputs):
    """All inputs of a configuration. Raises InputError if they do not fit together."""

    machine: PlacedSystem

    def __post_init__(self) -> None:
        placed = {axis.name: axis.size for axis in self.machine.placement.axes if axis.size > 1}
        sizes = {name: size for name, size in self.recipe.axes if size > 1}
        if placed != sizes:
            raise InputError(
                f"the placement has {_spell_sizes(placed)}, the recipe {_spell_sizes(sizes)}",
                hint="place the axes of the recipe",
            )
        super().__post_init__()

    @cached_property
    def seated(self) -> PlacedSystem:
        """The machine, with the placement's axes named by roles and in the order of roles."""
        placement = self.machine.placement
        rows = {axis.name: row for axis, row in zip(placement.axes, placement.matrix, strict=True)}
        roles = [role for role in ROLES if self.sizes[role] > 1]
        axes = tuple(Axis(role, self.sizes[role]) for role in roles)
        matrix = tuple(rows[self._roles[role]] for role in roles)
        if not roles:
            axes, matrix = (Axis("data", 1),), ((1,) * len(placement.hierarchy.levels),)
        return replace(self.machine, placement=Placement(placement.hierarchy, axes, matrix))

    @property
    def head(self) -> tuple[str, ...]:
        """The heading of the files, in lines: model, job, machine, recipe and placement."""
        placement, job = self.machine.placement, self.job
        count = placement.hierarchy.devices
        return (
            f"collsynth: {self.model.name}, {job.batch} samples of {job.sequence} tokens a step,",
            f"on {count} devices of {self.machine.system.name}: {placement.hierarchy}.",
            f"recipe: {self.recipe}",
            f"placement: {placement} of {_spell_sizes({a.name: a.size for a in placement.axes})}",
        )


def check_divides(size: int, what: str, parts: int, of: str) -> None:
    """Raises InputError if the parts would not be equal."""
    if size % parts:
        hint = f"parts that divide {size}"
        if common := gcd(size, parts):
            hint += f", as {common} does"
        raise InputError(f"{size} {what} in {parts} {of}", hint=hint)


def _spell_sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items()) or "no axes"
