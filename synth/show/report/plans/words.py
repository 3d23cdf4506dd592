"""Plans in words, for readers who do not know their clauses.

>>> text = "pipe=2 data=8; batch over data; zero=1; schedule 1f1b, 8 microbatches; remat layers"
>>> for one in words(text, samples=64):
...     print(one)
2 pipeline stages, schedule 1f1b
8 data-parallel replicas (data)
each device keeps 1/8 of the optimizer state (ZeRO 1)
8 microbatches of 1 sample each
layers are recomputed in the backward pass
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from math import prod

from synth.show.terminal.style import pluralize
from synth.step.sharding import AND, PIPE, Recipe, parse_recipe, spell_shares

_ZERO = (
    "each replica keeps all parameters, gradients and optimizer state (no ZeRO)",
    "each device keeps 1/{} of the optimizer state (ZeRO 1)",
    "each device keeps 1/{} of the optimizer state and the gradients (ZeRO 2)",
    "each device keeps 1/{} of the optimizer state, gradients and parameters (ZeRO 3)",
)


def describe_plan(plan: str, samples: int) -> Iterator[str]:
    """Yield a plan in words, a line for each decision; ``samples`` are those of a step."""
    recipe = parse_recipe(plan)
    sizes = {name: size for name, size in recipe.axes if size > 1}
    if PIPE in sizes:
        chunks = f" with {recipe.chunks} chunks each" if recipe.chunks > 1 else ""
        layers = stage_layers(recipe)
        yield f"{sizes[PIPE]} pipeline stages{chunks}, schedule {recipe.schedule}{layers}"
    data = recipe.replicas
    if data > 1:
        over = AND.join(axis for axis in recipe.batch if axis in sizes)
        yield f"{data} data-parallel replicas ({over})"
    yield from _cut_text(recipe, sizes)
    if data > 1 or recipe.zero:
        yield _ZERO[recipe.zero].format(prod(sizes.get(axis, 1) for axis in recipe.zero_axes))
    if recipe.microbatches > 1:
        each = samples // (data * recipe.microbatches)
        yield f"{recipe.microbatches} microbatches of {pluralize(each, 'sample')} each"
    if recipe.remat:
        yield "layers are recomputed in the backward pass"


def stage_layers(recipe: Recipe) -> str:
    """Return how many layers each stage has, where the numbers differ."""
    return f", of {spell_shares(recipe.layers)} layers" if recipe.layers else ""


def _cut_text(recipe: Recipe, sizes: Mapping[str, int]) -> Iterator[str]:
    """Yield the shardings inside a stage."""
    for axis in dict.fromkeys(chain(*recipe.clauses.values())):
        what = {
            "layer weights": recipe.megatron,
            "vocabulary": recipe.vocabulary,
            "experts": recipe.experts,
            "tokens outside tensor-parallel blocks" if recipe.megatron else "tokens": recipe.tokens,
        }
        cut = [name for name, over in what.items() if over == axis]
        if cut and axis in sizes:
            yield f"{', '.join(cut)} sharded over {sizes[axis]} devices ({axis})"
