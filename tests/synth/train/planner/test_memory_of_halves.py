"""Memory of plans whose backward passes are in halves: composed against simulated."""

from __future__ import annotations

from itertools import product

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from hierarchies import Axis, placements
from synth.train.orders import HALVES, SCHEDULES
from synth.train.planner.composing.halves import most_kept
from synth.train.planner.finalists import finalist
from synth.train.planner.links import Candidate
from synth.train.plans import When, parse_recipe
from synth.train.resharding.seconds import Answers
from tests.synth.train.planner.test_planner import SYSTEM, job, planner

FORWARD, INPUT, WEIGHT = When.FORWARD, When.BACKWARD, When.WEIGHT


@pytest.mark.thorough
@pytest.mark.parametrize(("schedule", "remat"), [*product(HALVES, ("", "remat layers; "))])
def test_what_halves_for_weights_keep_is_composed(schedule: str, remat: str) -> None:
    """Without it up to 59 % were missing; of 1F1B, too, 8 to 11 % are."""
    text = f"pipe=4 data=4; batch over data; zero=1; {remat}schedule {schedule}, 8 microbatches"
    recipe, asked = parse_recipe(text), job()
    axes = tuple(Axis(name, size) for name, size in recipe.axes)
    candidate = Candidate(recipe, next(iter(placements(SYSTEM.hierarchy, axes))).matrix)
    answers = Answers(SYSTEM, stripes=False)
    found = finalist(asked.of_layers, asked.layers, candidate, answers, asked.device)
    assert planner().composer.size_bytes(recipe) == pytest.approx(found.size_bytes, rel=0.12)


@pytest.mark.parametrize(("schedule", "ranks"), [*product(HALVES, (1, 2, 3, 4))])
def test_what_a_rank_keeps_is_as_orders_count_it(schedule: str, ranks: int) -> None:
    order = SCHEDULES[schedule](ranks, 8, 2)

    def most(first: float, whole: float, waiting: float) -> list[float]:
        kept = {(FORWARD, INPUT): first, (FORWARD, WEIGHT): whole, (INPUT, WEIGHT): waiting}
        return [*most_kept(order, lambda stage: kept)]

    assert most(1, 0, 0) == [*order.held()]
    assert most(0.75, 0.25, 0) == [*order.held_with(0.25)]
    assert most(0, 0, 1) == [*order.waiting()]
