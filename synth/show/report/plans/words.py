"""A plan in words, for those who do not know its clauses; and how two plans differ, by clauses.

>>> text = "pipe=2 data=8; batch over data; zero=1; schedule 1f1b, 8 microbatches; remat layers"
>>> for one in words(text, samples=64):
...     print(one)
2 stages of layers, one after the other, by schedule 1f1b
8 groups of devices (data) with samples of their own
each device has a part of the optimizer's state (ZeRO 1)
8 microbatches of 1 sample each
layers are computed again on the way back, which saves memory
>>> clauses(text)["ZeRO"], clauses(text)["computed again"]
('1', 'layers')
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from synth.ask.answers.training.plans import PlanOfStep
from synth.show.report.rendering import Cells
from synth.show.terminal.style import pluralize
from synth.step.sharding import Recipe, parse_recipe
from synth.step.sharding.plan import PIPE
from synth.step.sharding.recipes import AND, CLAUSES, spell_shares

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
            f" by schedule {recipe.schedule}{_shares(recipe)}"
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


def _shares(recipe: Recipe) -> str:
    """How many layers stages have, where they have not as many."""
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


def clauses(plan: str) -> Mapping[str, str]:
    """What a plan says of each thing that may be decided."""
    recipe = parse_recipe(plan)
    cuts = [CLAUSES[one][0].format(AND.join(axes)) for one, axes in recipe.clauses.items()]
    chunks = f", {recipe.chunks} chunks" if recipe.chunks > 1 else ""
    return {
        "axes": " ".join(f"{name}={size}" for name, size in recipe.axes),
        "cut": "; ".join(cuts),
        "ZeRO": str(recipe.zero),
        "schedule": f"{recipe.schedule}{chunks}{_shares(recipe)}" or "no stages",
        "microbatches": str(recipe.microbatches),
        "computed again": "layers" if recipe.remat else "nothing",
        "gradients summed": (
            f"in buckets of {recipe.bucket_bytes / 1e6:.6g} MB"
            if recipe.bucket_bytes
            else "each by itself"
        ),
    }


def layout_clauses(one: PlanOfStep) -> Mapping[str, str]:
    """The same of a plan of an answer, and where its axes lie."""
    return {**clauses(one.recipe), "placement": str(one.placement)}


def add_difference_columns(plans: Sequence[PlanOfStep], table: Cells) -> Cells:
    """The table of plans with a column for each thing in which they differ beside their axes.

    The placement is one of them, where it says more than the axes do.
    """
    every = [layout_clauses(one) for one in plans]
    by_axes = dict(zip((one["axes"] for one in every), every, strict=True))
    differ = [
        what
        for what in every[0]
        if what != "axes"
        and len({one[what] for one in every}) > 1
        and any(by_axes[one["axes"]][what] != one[what] for one in every)
    ]
    kept = [at for at, heading in enumerate(table.headings) if heading != "placement"]
    at = table.headings.index("axes") + 1

    def row(number: int) -> list[str]:
        cells = [table.rows[number][one] for one in kept]
        return [*cells[:at], *(every[number][what] or "-" for what in differ), *cells[at:]]

    figures, code = ([flags[one] for one in kept] for flags in (table.figures, table.code))
    headings = [table.headings[one] for one in kept]
    return Cells(
        [*headings[:at], *differ, *headings[at:]],
        [*figures[:at], *(what == "microbatches" for what in differ), *figures[at:]],
        [*code[:at], *(what == "placement" for what in differ), *code[at:]],
        [row(number) for number in range(len(every))],
    )
