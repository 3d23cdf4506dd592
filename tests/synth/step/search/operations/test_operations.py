"""Rows of single operations and substitutions: other plans of the same step, on the same clock."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar.tensors.sharding import ReductionKind
from hierarchies import load
from hierarchies.devices import device_named
from synth.collective.ranking.oracle import ProgramPrices
from synth.search.space import BestFound, Budget, Infeasible, Optimal
from synth.step.factors import Row
from synth.step.models import ModelSettings
from synth.step.redistribution.seconds import NetworkPrices
from synth.step.search import finalists
from synth.step.search.finalists import Finalist
from synth.step.search.job import PlanningProblem
from synth.step.search.links import PlacedRecipe, PricedLinks
from synth.step.search.operations.finer import refine
from synth.step.search.operations.rows import refine_rows
from synth.step.search.operations.substituting import (
    CAST,
    _SubstitutionSpace,
    count_rounded,
    find_redistributed,
    find_row,
    replace_row,
    search_substitutions,
)
from synth.step.sharding import Plan, apply, parse_plan, parse_recipe, plan_of, prepare_step
from synth.step.simulation import StepPrediction

SYSTEM = load("dgx-h100:1")
ANSWERS, LINKS = ProgramPrices(SYSTEM, stripes=False), PricedLinks(SYSTEM)
DEVICE = device_named(SYSTEM.device)
SPELLING = ModelSettings(batch=16, dtype="bfloat16", optimizer="sgd")
DATA = "data=8; batch over data; zero=1"


@cache
def job() -> PlanningProblem:
    return PlanningProblem("gpt2-tiny", {"width": 256}, SPELLING, SYSTEM, DEVICE)


@cache
def first(text: str = DATA) -> Finalist:
    recipe = parse_recipe(text)
    rows = tuple((1, size) for _, size in recipe.axes)
    return finalists.simulate_candidate(job().step, PlacedRecipe(recipe, rows), ANSWERS, DEVICE)


def clocked(plan: Plan, network: NetworkPrices) -> StepPrediction:
    computing = finalists.rooflines_of(job().step, plan, DEVICE)
    return finalists.simulate_plan(job().step, plan, computing, network)


STAGES = "pipe=2 data=4; batch over data; zero=1; schedule 1f1b, 4 microbatches"
EACH = (DATA, f"{DATA}; 2 microbatches", STAGES)


@pytest.mark.parametrize("text", EACH)
def test_rows_are_a_plan_of_the_step_with_sums_no_dearer_than_the_recipe(text: str) -> None:
    found = refine_rows(job().step, first(text), ANSWERS, LINKS, DEVICE)
    assert isinstance(found.chosen.found, Optimal | BestFound)
    assert found.chosen.found.gap <= 0.001
    assert found.chosen.found.seconds <= found.recipe_seconds * 1.001
    recipe, own = first(text).plan, found.chosen.plan
    assert replace(own, cuts=recipe.cuts) == recipe
    again = clocked(own, NetworkPrices(ANSWERS, first(text).placement))
    assert again.seconds == found.found.seconds


@pytest.mark.parametrize("text", EACH)
def test_sums_of_a_recipe_are_what_its_stages_do_on_the_clock(text: str) -> None:
    """All that they compute and wait for, and what of sending is hidden."""
    one = first(text)
    found = refine_rows(job().step, one, ANSWERS, LINKS, DEVICE)
    busy = sum(rank.compute_seconds + rank.exposed_seconds for rank in one.found.ranks)
    assert 0.9 * busy <= found.recipe_seconds <= 1.25 * busy


def test_a_substitution_is_one_row_of_an_operation_that_something_is_sent_for() -> None:
    step, plan = job().step, plan_of(job().step, parse_recipe(DATA))
    near = list(_SubstitutionSpace(step, plan, lambda one: 0.0).moves(plan, Random(0)))
    assert near
    ready = prepare_step(step, plan)
    for where, operation, axes in find_redistributed(ready.graph, apply(step, plan)):
        assert axes == ["data"]
        assert operation.body is None
        cuts = plan.cuts
        for at in where[:-1]:
            cuts = cuts.operations[at]  # type: ignore[assignment]
        row = dict(cuts.operations[where[-1]]).get("data")  # type: ignore[arg-type]
        if row is not None:
            assert replace_row(plan.cuts, where, "data", row, ("data",)) == plan.cuts


def test_no_sum_goes_to_the_other_side_of_a_cast() -> None:
    """In bf16 gradients are cast before they are added up, in float32; after it, it is rounding."""
    spelling = ModelSettings(batch=16, dtype="bfloat16")
    step = PlanningProblem("mlp", {}, spelling, SYSTEM, DEVICE).step
    plan = plan_of(step, parse_recipe("data=8; batch over data"))
    ready = prepare_step(step, plan)
    casts = {
        where: find_row(plan.cuts, where, "data")
        for where, one, _ in find_redistributed(ready.graph, apply(step, plan))
        if one.primitive == CAST
    }
    summed = [where for where, row in casts.items() if row and ReductionKind.SUM in row.operands]
    assert summed
    for near in _SubstitutionSpace(step, plan, lambda one: 0.0).moves(plan, Random(0)):
        for where in summed:
            assert find_row(near.cuts, where, "data") == casts[where]
    whole = replace_row(plan.cuts, summed[0], "data", Row((None,), (None,)), ("data",))
    assert count_rounded(ready.graph, plan.cuts, plan.cuts) == 0
    assert count_rounded(ready.graph, plan.cuts, whole) == 1


def test_what_pays_is_kept_and_what_does_not_fit_is_not() -> None:
    step, plan = job().step, plan_of(job().step, parse_recipe(DATA))

    def bytes_sent(one: Plan) -> float:
        return float(sum(len(moved.path.moves) for moved in apply(step, one).moved()))

    found = search_substitutions(step, plan, bytes_sent, Budget(12))
    assert found.tried <= 12
    assert found.seconds == bytes_sent(found.plan) <= found.before_seconds == bytes_sent(plan)
    assert (found.plan == plan) == (not found.kept)

    def nothing_else(one: Plan) -> float | Infeasible:
        return 1.0 if one == plan else Infeasible("too much", 1.0)

    assert search_substitutions(step, plan, nothing_else, Budget(4)).plan == plan


@pytest.mark.slow
@pytest.mark.parametrize("text", EACH)
def test_a_better_plan_is_text_that_is_read_back(text: str) -> None:
    found = refine(job().step, first(text), ANSWERS, LINKS, DEVICE, Budget(5))
    assert found.rows is not None
    assert found.seconds <= first(text).found.seconds
    if found.text:
        again = parse_plan(found.text, job().step)
        network = NetworkPrices(ANSWERS, first(text).placement)
        assert clocked(again, network).seconds == pytest.approx(found.seconds)
