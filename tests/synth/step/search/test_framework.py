"""Plans that a framework runs: those found first are the best of all that its writer accepts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from hierarchies import InputError, Placement, load
from hierarchies.devices import device_named
from synth.collective.ranking.request import Watcher
from synth.step.frameworks import (
    FRAMEWORKS,
    ModelSpec,
    PlacedSystem,
    TrainingSpec,
    write_configuration,
)
from synth.step.models import ModelSettings
from synth.step.rows.grids import list_recipes
from synth.step.search.buckets import BUCKETS
from synth.step.search.composing.balancing import LayerBalancer
from synth.step.search.families import list_families
from synth.step.search.first_plan import find_first_plan
from synth.step.search.job import PlanningProblem
from synth.step.search.links import BoundLinks, PlacedRecipe, PricedLinks
from synth.step.search.pins import Pins
from synth.step.search.planning import Planner
from synth.step.zoo.sizes import sizes_of

SIZES = {"layers": 8, "width": 4096, "heads": 32, "sequence": 2048, "vocabulary": 32768}
SYSTEM = load("dgx-h100:2")


@cache
def job(model: str = "gpt2-small", batch: int = 32) -> PlanningProblem:
    changes = SIZES if model == "gpt2-small" else {"sequence": 2048}
    settings = ModelSettings(batch=batch, dtype="bfloat16")
    return PlanningProblem(model, changes, settings, SYSTEM, device_named(SYSTEM.device))


def is_written(asked: PlanningProblem, framework: str, candidate: PlacedRecipe) -> bool:
    """Whether the writer accepts a plan, and what it writes is that plan."""
    sizes = sizes_of(asked.model, asked.changes)
    step = asked.traced(asked.spelling.batch) if framework == "jax" else None
    model = ModelSpec(str(asked.model), sizes, step)
    placement = Placement(SYSTEM.hierarchy, candidate.axes, candidate.rows)
    placed = PlacedSystem(SYSTEM, placement)
    try:
        found = write_configuration(
            framework, candidate.recipe, model, TrainingSpec(asked.spelling.batch, 2048), placed
        )
    except InputError:
        return False
    return found.recipe == candidate.recipe


def list_plans(planner: Planner, framework: str) -> Iterator[PlacedRecipe]:
    """All plans of the grammar that the writer accepts, with layers balanced where it does."""
    asked, composer = planner.job, planner.composer
    # JAX runs both; as in all questions, whole vocabularies are not tried where they need not be.
    vocabulary = (True,) if framework == "jax" else (True, False)
    knobs = replace(asked.knobs(Pins({})), vocabulary=vocabulary)
    recipes = [
        recipe
        for recipe in list_recipes(SYSTEM.devices, asked.extents, knobs)
        if asked.allows(Pins({}), recipe)
    ]
    balancer = LayerBalancer(composer.on(BoundLinks(SYSTEM)), asked.device.memory_bytes)
    for family in list_families(SYSTEM, recipes):
        if not is_written(asked, framework, next(iter(family))):
            continue
        for balanced in balancer.cut(family):
            for candidate in balanced:
                if is_written(asked, framework, candidate):
                    yield candidate
                elif is_written(asked, framework, other := candidate.by(family.recipe)):
                    yield other


@pytest.mark.parametrize(
    ("framework", "model"),
    [
        ("megatron", "gpt2-small"),
        ("deepspeed", "gpt2-small"),
        ("torchtitan", "llama3-8b"),
        ("jax", "gpt2-small"),
    ],
)
def test_the_first_are_the_best_of_all_that_the_writer_accepts(framework: str, model: str) -> None:
    planner = Planner(job(model))
    composer, memory = planner.composer, planner.job.device.memory_bytes
    pins = Pins({"bucket": "no"}, (framework,))
    search = planner._search(pins, Watcher(), None)
    found = [plan for plan, _ in zip(search.cheapest(), range(12), strict=False)]
    listed = [*list_plans(planner, framework)]
    assert search.plans == len({*listed})
    fitting = [plan for plan in listed if composer.size_bytes(plan.recipe) <= memory]
    seconds = composer.on(PricedLinks(SYSTEM)).seconds(fitting)
    assert [plan.seconds for plan in found] == pytest.approx(sorted(seconds)[: len(found)])
    assert {plan.candidate for plan in found} <= {*fitting}
    front = search.front()
    assert {plan.candidate for plan in front} <= {*fitting}


@pytest.mark.parametrize("framework", ["megatron", "torchtitan", "deepspeed", "jax"])
def test_all_that_is_found_is_written(framework: str) -> None:
    asked = job("llama3-8b" if framework == "torchtitan" else "gpt2-small")
    found = Planner(asked).plans(Pins({}, (framework,)), 3, Watcher(), front=True)
    plans = [finalist.candidate for finalist in found.finalists]
    plans += [plan.candidate for plan in (*found.looked_at, *found.front)]
    assert plans
    for candidate in plans:
        assert is_written(asked, framework, candidate), candidate.recipe


@pytest.mark.parametrize("framework", ["megatron", "deepspeed"])
def test_a_first_plan_is_one_that_the_framework_runs(framework: str) -> None:
    first = find_first_plan(job(), Pins({}, (framework,)))
    assert first is not None
    assert is_written(job(), framework, first.candidate)


def test_buckets_are_tried_where_the_framework_has_them() -> None:
    asked = job("llama3-8b")
    bucketed = next(
        replace(recipe, bucket_bytes=BUCKETS[0])
        for recipe in asked.recipes(Pins({}))
        if recipe.zero == 2 and recipe.stages == 1
    )
    able = [name for name in FRAMEWORKS if asked.runs(Pins({}, (name,)), bucketed)]
    assert "megatron" in able
    assert not {"torchtitan", "jax"} & {*able}


@pytest.mark.parametrize(
    ("model", "framework", "pins", "problem", "hint"),
    [
        ("gpt2-small", "torchtitan", "", "no flavour of gpt2-small", "--framework megatron"),
        (
            "gpt2-small",
            "deepspeed",
            "zero=3 pipe=2 remat=no",
            "with zero=3 pipe=2: zero=3 on stages",
            "leave it out",
        ),
        ("gpt2-small", "jax", "pipe=2", "with pipe=2: stages are", "--framework megatron"),
        ("gpt2-small", "jax", "bucket=25MB", "XLA chooses the bucket size", "megatron"),
        ("gpt2-small", "megatron", "vocabulary=no tensor=2", "shards the vocabulary", "deepspeed"),
    ],
)
def test_what_a_framework_cannot_run_is_said(
    model: str, framework: str, pins: str, problem: str, hint: str
) -> None:
    with pytest.raises(InputError) as refused:
        job(model).recipes(replace(Pins.parse(pins), frameworks=(framework,)))
    assert problem in refused.value.problem
    assert hint in str(refused.value.hint)
