"""Rows of single operations: other plans of the same step, on the same clock."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar.tensors.sharding import dtype_bytes
from hierarchies import load
from hierarchies.devices import device_named
from synth.collective.ranking.oracle import ProgramPrices
from synth.collective.ranking.request import UnrankedWatcher, Watcher
from synth.measure.calibration.typical import apply_typical
from synth.step.models import ModelSettings
from synth.step.redistribution.seconds import NetworkPrices
from synth.step.search import finalists
from synth.step.search.finalists import Finalist
from synth.step.search.job import PlanningProblem
from synth.step.search.links import PlacedRecipe, PricedLinks
from synth.step.search.operations import choose_rows
from synth.step.search.pins import Pins
from synth.step.search.planning import Planner
from synth.step.search.resolution import compare_seconds
from synth.step.sharding import (
    LocalOperation,
    Plan,
    RedistributedValue,
    StepProgram,
    apply,
    parse_plan,
    parse_recipe,
    plan_text,
)
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


@cache
def chosen(text: str = DATA) -> Finalist:
    return choose_rows(job().step, first(text), ANSWERS, LINKS, DEVICE)


def clocked(plan: Plan, network: NetworkPrices) -> StepPrediction:
    computing = finalists.rooflines_of(job().step, plan, DEVICE)
    return finalists.simulate_plan(job().step, plan, computing, network)


STAGES = "pipe=2 data=4; batch over data; zero=1; schedule 1f1b, 4 microbatches"
EACH = (DATA, f"{DATA}; 2 microbatches", STAGES)


@pytest.mark.parametrize("text", EACH)
def test_rows_are_a_plan_of_the_step_with_sums_no_dearer_than_the_recipe(text: str) -> None:
    found = chosen(text)
    assert found.rows is not None
    assert found.rows.gap <= 0.001
    assert found.rows.seconds <= found.rows.recipe_seconds * 1.001
    recipe, own = first(text).plan, found.plan
    assert replace(own, cuts=recipe.cuts) == recipe
    network = NetworkPrices(ANSWERS, first(text).placement)
    assert clocked(own, network).seconds == found.found.seconds


@pytest.mark.parametrize("text", EACH)
def test_sums_of_a_recipe_are_what_its_stages_do_on_the_clock(text: str) -> None:
    """All that they compute and wait for, and what of sending is hidden."""
    rows = chosen(text).rows
    assert rows is not None
    busy = sum(rank.compute_seconds + rank.exposed_seconds for rank in first(text).found.ranks)
    assert 0.9 * busy <= rows.recipe_seconds <= 1.25 * busy


def test_rows_are_text_that_is_read_back() -> None:
    again = parse_plan(plan_text(job().step, chosen().plan), job().step)
    network = NetworkPrices(ANSWERS, first().placement)
    assert clocked(again, network).seconds == pytest.approx(chosen().found.seconds)


def cast_sums(program: StepProgram) -> set[str]:
    """The casts of partial sums."""
    return {
        one.operation.results[0].name
        for one in program.instructions
        if isinstance(one, LocalOperation)
        and one.operation.primitive == "convert_element_type"
        and one.how.operands[0].partial
    }


def narrow_sums(program: StepProgram) -> set[str]:
    """The values of narrow types that are reduced."""
    return {
        one.value.name
        for one in program.instructions
        if isinstance(one, RedistributedValue)
        and dtype_bytes(one.value.type.dtype) < 4
        and len(one.path.source.partial) > len(one.path.target.partial)
    }


@pytest.mark.parametrize("model", ["mlp-tiny", "resnet-tiny", "lstm-tiny"])
def test_no_sum_goes_to_the_other_side_of_a_cast(model: str) -> None:
    """In bf16 gradients are cast before they are added up, in float32; after it, it is rounding."""
    spelling = ModelSettings(batch=16, dtype="bfloat16")
    problem = PlanningProblem(model, {}, spelling, SYSTEM, DEVICE)
    recipe = PlacedRecipe(parse_recipe("data=8; batch over data"), ((1, 8),))
    one = finalists.simulate_candidate(problem.step, recipe, ANSWERS, DEVICE)
    found = choose_rows(problem.step, one, ANSWERS, LINKS, DEVICE)
    before, after = (apply(problem.step, each.plan) for each in (one, found))
    assert cast_sums(before)
    assert cast_sums(after) <= cast_sums(before)
    kept = {
        value.name
        for each in before.instructions
        if isinstance(each, LocalOperation)
        for value, sharding in zip(each.operation.results, each.how.results, strict=True)
        if sharding.partial and dtype_bytes(value.type.dtype) < 4
    } - narrow_sums(before)
    assert kept
    assert not narrow_sums(after) & kept


def planned(model: str, pins: str = "", **sizes: int) -> tuple[Finalist, ...]:
    system = apply_typical(load("dgx-h100:1"))
    spelling = ModelSettings(batch=64, dtype="bfloat16")
    problem = PlanningProblem(model, sizes, spelling, system, DEVICE)
    return Planner(problem).plans(Pins.parse(pins), 3, UnrankedWatcher(Watcher())).finalists


def test_rows_are_the_first_plan_where_they_are_surely_faster() -> None:
    best, *others = planned("mlp-tiny")
    assert best.rows is not None
    assert len(others) == 2
    assert not any(one.rows for one in others)
    assert best.found.seconds < others[0].found.seconds
    assert best.candidate.recipe.bucket_bytes == 0
    assert planned("mlp-tiny", "data=8")[0].rows is not None


@pytest.mark.parametrize(("model", "pins"), [("mlp-tiny", "zero=0"), ("lstm-tiny", "remat=no")])
def test_decisions_that_rows_would_change_may_be_pinned(model: str, pins: str) -> None:
    assert not any(one.rows for one in planned(model, pins))


def test_errors_of_rows_are_those_of_their_own_links_and_sections() -> None:
    system = apply_typical(load("dgx-h100:2"))
    spelling = ModelSettings(batch=8192, dtype="bfloat16")
    planner = Planner(PlanningProblem("mlp", {}, spelling, system, DEVICE))
    recipe = PlacedRecipe(parse_recipe("data=16; batch over data"), ((2, 8),))
    one = planner.simulate(recipe)
    rows = planner.choose_rows(one)
    likely, own = planner.likely([one, rows])
    assert own.seconds == rows.found.seconds
    sends = any(task.request and task.seconds for task in rows.found.device.tasks)
    assert any(source.what.startswith("links of node") for source in own.ends) == sends
    assert compare_seconds(own, own).low_seconds == 0
    assert compare_seconds(likely, own).seconds == rows.found.seconds - one.found.seconds
