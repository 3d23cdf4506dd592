"""The first plan by closed formulas is one of the search's plans, and fits as the search counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hierarchies import load
from hierarchies.devices import device_named
from synth.collective.ranking.request import Watcher
from synth.measure.calibration.typical import apply_typical
from synth.step.models import ModelSettings
from synth.step.rows.grids import extents_of
from synth.step.search.first_plan import TransformerCounts, find_first_plan
from synth.step.search.job import PlanningProblem
from synth.step.search.links import PricedLinks
from synth.step.search.pins import Pins
from synth.step.search.planning import Planner
from synth.step.zoo.sizes import ZOO, Decoder, Gpt2

DECODERS = [
    name
    for name, sizes in ZOO.items()
    if isinstance(sizes, Gpt2) or (isinstance(sizes, Decoder) and not sizes.dropless)
]
H100, A100 = "H100 SXM5 80 GB", "A100 SXM4 80 GB"
JOBS = {
    "a small model on a node": ("gpt2-xl", "dgx-h100:1", H100, 64),
    "a model on nodes": ("llama3-8b", "dgx-h100:4", H100, 256),
    "a large model on few nodes": ("llama3-70b", "dgx-h100:8", H100, 256),
    "a large model on many nodes": ("gpt3-175b", "dgx-a100:64", A100, 1536),
    "experts": ("mixtral-8x7b", "dgx-h100:16", H100, 256),
}


def problem(model: str, system: str, device: str, batch: int) -> PlanningProblem:
    settings = ModelSettings(batch=batch, dtype="bfloat16")
    return PlanningProblem(model, {}, settings, apply_typical(load(system)), device_named(device))


@pytest.mark.parametrize("name", DECODERS)
def test_extents_are_those_of_the_traced_step(name: str) -> None:
    sizes = ZOO[name]
    assert isinstance(sizes, Gpt2 | Decoder)
    traced = problem(name, "dgx-h100:1", H100, 8).traced(8, layers=sizes.layers)
    counted = vars(TransformerCounts(sizes).extents)
    assert {**counted, "batch": 8} == vars(extents_of(traced)) | {"batch": 8}


@pytest.mark.parametrize("name", DECODERS)
def test_parameters_are_those_of_the_traced_step(name: str) -> None:
    sizes = ZOO[name]
    assert isinstance(sizes, Gpt2 | Decoder)
    traced = problem(name, "dgx-h100:1", H100, 8).traced(8, layers=sizes.layers)
    counts = TransformerCounts(sizes)
    counted = sizes.layers * sum(counts.layer_parameters) + counts.ends_parameters
    inputs = zip(traced.graph.inputs, traced.roles, strict=True)
    exact = sum(value.type.elements for value, role in inputs if role == "parameter")
    assert counted == pytest.approx(exact, rel=0.02)


def test_wider_elements_need_more_memory() -> None:
    job = problem(*JOBS["a model on nodes"])
    wide = replace(job, spelling=replace(job.spelling, dtype="float32"))
    pins = Pins.parse("tensor=1 pipe=1 zero=3 remat=no")
    assert find_first_plan(job, pins) is not None
    assert find_first_plan(wide, pins) is None


@pytest.mark.parametrize("given", JOBS.values(), ids=JOBS)
def test_it_is_a_plan_of_the_search_that_fits(given: tuple[str, str, str, int]) -> None:
    job = problem(*given)
    first = find_first_plan(job, Pins({}))
    assert first is not None
    recipe = first.candidate.recipe
    assert recipe in job.recipes(Pins({}))
    composer = job.compose()
    assert composer.size_bytes(recipe) <= job.device.memory_bytes
    [seconds] = composer.on(PricedLinks(job.system)).seconds([first.candidate])
    assert seconds / 2 < first.seconds < 2 * seconds


def test_it_has_the_pins() -> None:
    job = problem(*JOBS["a model on nodes"])
    first = find_first_plan(job, Pins.parse("tensor=4 zero=3 remat=yes"))
    assert first is not None
    recipe = first.candidate.recipe
    assert (dict(recipe.axes)["tensor"], recipe.zero, recipe.remat) == (4, 3, True)


def test_none_is_found_where_nothing_fits_or_no_formula_is_known() -> None:
    assert find_first_plan(problem("llama3-405b", "dgx-h100:1", H100, 8), Pins({})) is None
    assert find_first_plan(problem("bert-large", "dgx-h100:1", H100, 64), Pins({})) is None


class Stopped(Watcher):
    """Stops before anything is found."""

    def go_on(self) -> bool:
        return False


def test_a_search_that_is_stopped_at_once_has_it_or_a_faster_plan() -> None:
    job = problem(*JOBS["a model on nodes"])
    first = find_first_plan(job, Pins({}))
    assert first is not None
    recipe = first.candidate.recipe
    found = Planner(job).plans(Pins({}), 1, Stopped(), hint=recipe)
    assert not found.complete
    plans = [finalist.candidate.alone.recipe for finalist in found.finalists]
    assert recipe in plans
