"""Recipes of models of the zoo on one machine, what is written for them, and that read back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random

from framework_files import (
    bridge_arguments,
    deepspeed_recipe,
    megatron_parser,
    megatron_recipe,
    titan_python,
    titan_recipe,
    titan_toml,
    words,
)
from hierarchies import Axis, Placement, load, row_major_placement
from synth.step.frameworks import FrameworkFiles, ModelSpec, PlacedSystem
from synth.step.rows.grids import Extents, Knobs, list_recipes
from synth.step.schedules import SCHEDULES
from synth.step.sharding.recipes import Recipe
from synth.step.zoo.sizes import ZOO, Decoder, Gpt2, sizes_of

SYSTEM = load("dgx-h100:4")
WORLD, EACH = 32, 8
MODELS = {
    "llama3-8b": ModelSpec("llama3-8b", ZOO["llama3-8b"]),
    "llama3-70b": ModelSpec("llama3-70b", ZOO["llama3-70b"]),
    "gpt2-small": ModelSpec("gpt2-small", sizes_of("gpt2-small", {"vocabulary": 50304})),
    "gpt3-175b": ModelSpec("gpt3-175b", ZOO["gpt3-175b"]),
    "mixtral-8x7b": ModelSpec("mixtral-8x7b", ZOO["mixtral-8x7b"]),
}
KNOBS = Knobs(schedules=tuple(SCHEDULES), unstaged=(1, 4), vocabulary=(True, False))


def sequence(model: ModelSpec) -> int:
    assert isinstance(model.sizes, Gpt2 | Decoder)
    return model.sizes.sequence


@cache
def grid(model: ModelSpec) -> list[Recipe]:
    """All recipes of a model on the machine, of the extents that its sizes say."""
    one = model.sizes
    assert isinstance(one, Gpt2 | Decoder)
    heads = one.key_heads if isinstance(one, Decoder) else one.heads
    experts = one.experts if isinstance(one, Decoder) and one.experts > 1 else 0
    extents = Extents(128, one.sequence, heads, one.vocabulary, experts, one.layers)
    return list(list_recipes(WORLD, extents, KNOBS))


def machine(recipe: Recipe) -> PlacedSystem:
    axes = [Axis(name, size) for name, size in recipe.axes]
    if axes == [Axis("data", 1)]:
        return PlacedSystem(load("dgx-h100:1"), Placement(load("dgx-h100:1").hierarchy, (), ()))
    found = row_major_placement(SYSTEM.hierarchy, axes)
    assert found is not None
    return PlacedSystem(SYSTEM, found)


def sampled(seed: int, count: int) -> Iterator[tuple[ModelSpec, Recipe]]:
    """Recipes of all models, about ``count`` of each and as many of each schedule.

    A grid has far more recipes with chunks than without, which some frameworks refuse altogether.
    Recipes with stages come with unequal ones, too.
    """
    random, cuts = Random(seed), Random(seed)
    for model in MODELS.values():
        by_schedule: dict[str, list[Recipe]] = {}
        for recipe in grid(model):
            by_schedule.setdefault(recipe.schedule, []).append(recipe)
        each = -(-count // len(by_schedule))
        drawn = [
            recipe
            for several in by_schedule.values()
            for recipe in random.sample(several, min(each, len(several)))
        ]
        for recipe in drawn:
            changed = random.choice([{}, {}, {"bucket_bytes": 25_000_000}])
            yield model, (one := replace(recipe, **changed))  # type: ignore[arg-type]
            if one.stages > 1:
                yield model, replace(one, layers=uneven(cuts, one.stages, model))


def uneven(random: Random, stages: int, model: ModelSpec) -> tuple[int, ...]:
    """Any cut of the layers, but that into equal stages."""
    layers = getattr(model.sizes, "layers", 0)
    ends = [*sorted(random.sample(range(1, layers), stages - 1)), layers]
    found = tuple(end - begin for begin, end in zip([0, *ends[:-1]], ends, strict=True))
    return found if len({*found}) > 1 else ()


def read(framework: str, found: FrameworkFiles, model: ModelSpec) -> Recipe:
    """The recipe that files say, by their own words."""
    layers = getattr(model.sizes, "layers", 0)
    match framework:
        case "megatron":
            args = megatron_parser().parse_args(words(str(found.files["arguments.sh"])))
            return megatron_recipe(args, WORLD)
        case "bridge":
            text = str(found.files["collsynth_bridge.py"])
            return megatron_recipe(bridge_arguments(text), WORLD)
        case "torchtitan":
            base = model.name.replace("-", "_")
            sections = titan_python(str(found.files["collsynth_torchtitan.py"]), base)
            return titan_recipe(sections, WORLD, layers, "lm_head")
        case "torchtitan-toml":
            sections = titan_toml(str(found.files["torchtitan.toml"]))
            assert sections["model"]["flavor"].lower() == model.name.removeprefix("llama3-")
            return titan_recipe(sections, WORLD, layers, "output")
        case "deepspeed":
            return deepspeed_recipe(str(found.files["deepspeed.json"]), found.notes, WORLD)
    raise AssertionError(framework)
