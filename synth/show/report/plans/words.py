"""A plan in words, for those who do not know its clauses; and how two plans differ, by clauses.

>>> text = "pipe=2 data=8; batch over data; zero=1; schedule 1f1b, 8 microbatches; remat layers"
>>> for one in words(text, samples=64):
...     print(one)
2 stages of layers, one after the other, by schedule 1f1b
8 groups of devices (data) with samples of their own
each device has a part of the optimizer's state (ZeRO 1)
8 microbatches of 1 sample each
layers are computed again on the way back, which saves memory
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from synth.show.terminal.style import pluralize
from synth.step.sharding import Recipe, parse_recipe
from synth.step.sharding.plan import PIPE
from synth.step.sharding.recipes import AND, spell_shares

_ZERO = {
    0: "each device has all of its parameters, gradients and optimizer's state (no ZeRO)",
    1: "each device has a part of the optimizer's state (ZeRO 1)",
    2: "each device has a part of the optimizer's state and of gradients (ZeRO 2)",
    3: "each device has a part of all that is stored, and gathers parameters as it goes (ZeRO 3)",
}


def describe_plan(plan: str, samples: int) -> Iterator[str]:
    """What a plan does, a line for each decision; ``samples`` are those of a step."""
    recipe = parse_recipe(plan)
    sizes = {name: size for name, size in recipe.axes if size > 1}
    if PIPE in sizes:
        chunks = f" in {recipe.chunks} chunks each" if recipe.chunks > 1 else ""
        yield (
            f"{sizes[PIPE]} stages of layers{chunks}, one after the other,"
            f" by schedule {recipe.schedule}{stage_layers(recipe)}"
        )
    data = recipe.replicas
    if data > 1:
        over = AND.join(axis for axis in recipe.batch if axis in sizes)
        yield f"{data} groups of devices ({over}) with samples of their own"
    yield from _cut_text(recipe, sizes)
    if data > 1 or recipe.zero:
        yield _ZERO[recipe.zero]
    if recipe.microbatches > 1:
        each = samples // (data * recipe.microbatches)
        yield f"{recipe.microbatches} microbatches of {pluralize(each, 'sample')} each"
    if recipe.remat:
        yield "layers are computed again on the way back, which saves memory"


def stage_layers(recipe: Recipe) -> str:
    """How many layers each stage has, where the numbers differ."""
    return f", of {spell_shares(recipe.layers)} layers" if recipe.layers else ""


def _cut_text(recipe: Recipe, sizes: Mapping[str, int]) -> Iterator[str]:
    """What is cut inside of a stage."""
    for axis in dict.fromkeys(chain(*recipe.clauses.values())):
        what = {
            "weights of every layer": recipe.megatron,
            "the vocabulary": recipe.vocabulary,
            "experts": recipe.experts,
            "tokens between the halves of layers" if recipe.megatron else "tokens": recipe.tokens,
        }
        cut = [one for one, over in what.items() if over == axis]
        if cut and axis in sizes:
            yield f"{', '.join(cut)} cut among {sizes[axis]} devices ({axis})"
