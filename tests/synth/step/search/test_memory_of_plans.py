"""Memory of composed plans, held exactly to a count of parameters and a walk through the order."""

from __future__ import annotations

from math import prod

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from synth.step.schedules import SCHEDULES, Pass
from synth.step.search.composing.inside import ModelPart
from synth.step.sharding import Recipe, parse_recipe
from tests.synth.step.search.test_planner import SIZES, job, planner

pytestmark = pytest.mark.thorough
MASTER, MOMENTS = 4, 8
"""Bytes of a parameter that is trained in bf16 by AdamW."""

TIED = 2 * SIZES["vocabulary"] * SIZES["width"]
"""Bytes of a gradient of the embedding in bf16."""

PLANS = [
    "data=16; batch over data",
    "data=16; batch over data; zero=1",
    "data=16; batch over data; zero=2",
    "data=16; batch over data; zero=3",
    "data=8; batch over data; zero=3; 2 microbatches; remat layers",
    "pipe=2 data=8; batch over data; zero=1; schedule 1f1b, 4 microbatches",
    "pipe=4 data=4; batch over data; zero=2; schedule 1f1b, 8 microbatches",
    "pipe=4 data=4; batch over data; zero=3; schedule gpipe, 4 microbatches",
    "pipe=2 data=8; batch over data; zero=1; schedule interleaved-1f1b, 2 chunks, 4 microbatches",
]


def counted() -> dict[ModelPart, int]:
    """Parameters before the layers, of one layer, and behind."""
    step = job().of_layers(SIZES["layers"])
    found = dict.fromkeys(ModelPart, 0)
    labelled = zip(step.labels, step.roles, step.graph.inputs, strict=True)
    for label, role, value in labelled:
        if role == "parameter":
            part = ModelPart.LAYER if label.startswith("layers/") else None
            part = part or (
                ModelPart.FIRST if label in ("embedding", "positions") else ModelPart.LAST
            )
            found[part] += prod(value.type.shape) // (
                SIZES["layers"] if part is ModelPart.LAYER else 1
            )
    return found


def in_flight(recipe: Recipe, ranks: int) -> list[int]:
    """The most forward passes of each rank whose backward pass has not ended."""
    if ranks == 1:
        return [1]
    order = SCHEDULES[recipe.schedule](ranks, recipe.microbatches, recipe.chunks)
    found = []
    for row in order.ranks:
        now = most = 0
        for action in row:
            now += 1 if action.kind is Pass.FORWARD else -1
            most = max(most, now)
        found.append(most)
    return found


@pytest.mark.parametrize("text", PLANS)
def test_the_fullest_device_holds_what_its_stages_count(text: str) -> None:
    recipe = parse_recipe(text)
    staged = planner().composer.staged(recipe)
    ranks, inside, parameters = dict(recipe.axes).get("pipe", 1), staged.inside, counted()
    stages, zero, parts = ranks * recipe.chunks, recipe.zero, recipe.replicas
    layers = SIZES["layers"] // stages
    summed_in_parts = zero >= 2 or (zero and recipe.microbatches == 1)
    gradient, copy = MASTER * inside.gradients, MASTER * inside.copies
    each = (MASTER + MOMENTS) / (parts if zero else 1)
    each += gradient / (parts if summed_in_parts else 1) + (copy if zero < 3 else 0)

    def of_rank(rank: int) -> float:
        mine = range(rank, stages, ranks)
        times = {
            ModelPart.FIRST: 0 in mine,
            ModelPart.LAYER: layers * len(mine),
            ModelPart.LAST: stages - 1 in mine,
        }
        state = sum(each * parameters[part] * count for part, count in times.items())
        if zero >= 2 and recipe.microbatches > 1:
            # Of the embedding and of the logits, in bf16: the embedding is read at both ends.
            state += TIED * (times[ModelPart.FIRST] + times[ModelPart.LAST])
        saved = sum(inside.saved[part] * count for part, count in times.items())
        flying = in_flight(recipe, ranks)[rank] / recipe.chunks
        return state + saved * flying + inside.working[rank == ranks - 1]

    gathered = 2 * copy * parameters[ModelPart.LAYER] if zero == 3 else 0
    summed = gradient * parameters[ModelPart.LAYER] if summed_in_parts and layers > 1 else 0
    assert staged.size_bytes == pytest.approx(
        max(map(of_rank, range(ranks))) + gathered + summed, rel=1e-12
    )
