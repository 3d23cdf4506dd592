"""A long pipeline from a few stages of it is, to the last bit, what all of it written out is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from hierarchies import Axis, load, placements
from hierarchies.devices import device_named
from synth.step.models import ModelSettings
from synth.step.search import finalists
from synth.step.search.job import PlanningProblem
from synth.step.search.links import PlacedRecipe
from synth.step.search.planning import Planner
from synth.step.sharding import parse_recipe
from synth.step.simulation import PipelineTimeline, StepPrediction

SYSTEM = load("dgx-a100:2")
SIZES = {"layers": 16, "sequence": 512}
MEGATRON = "batch over data; weights over tensor as Megatron; vocabulary over tensor"
INTERLEAVED = "schedule interleaved-1f1b, 4 chunks, 8 microbatches"
BREADTH = "schedule looped-bfs, 2 chunks, 4 microbatches"
LIGHT_FIRST = "schedule 1f1b, 8 microbatches; stages of 1, 6 times 2, 3 layers"
LONG = (
    (
        "gpt2-small",
        "pipe=8 tensor=2; weights over tensor as Megatron; schedule 1f1b, 8 microbatches",
    ),
    ("llama3-tiny", f"pipe=4 data=4; batch over data; zero=1; {BREADTH}"),
    (
        "llama3-tiny",
        f"pipe=8 data=2; batch over data; zero=1; {LIGHT_FIRST}",
    ),
)
UNEVEN = "schedule interleaved-1f1b, 2 chunks, 8 microbatches; stages of 2 times 1"
MORE = (
    ("llama3-tiny", f"pipe=4 data=4; batch over data; {UNEVEN}, 2, 2 times 3, 2, 3, 1 layers"),
    ("gpt2-small", f"pipe=4 data=2 tensor=2; {MEGATRON}; zero=2; {INTERLEAVED}"),
    ("llama3-tiny", "pipe=8 data=2; batch over data; zero=3; schedule 1f1b, 8 microbatches"),
    ("llama3-tiny", "pipe=8 data=2; batch over data; remat layers; schedule gpipe, 8 microbatches"),
    ("vit-base", "pipe=8 data=2; batch over data; zero=1; schedule 1f1b, 8 microbatches"),
)


@cache
def planner(model: str) -> Planner:
    sizes = {"layers": 16} if model == "vit-base" else SIZES
    if model == "gpt2-small":
        sizes = {**sizes, "vocabulary": 50304}
    spelling = ModelSettings(batch=32, dtype="bfloat16")
    return Planner(PlanningProblem(model, sizes, spelling, SYSTEM, device_named(SYSTEM.device)))


def facts(found: StepPrediction) -> object:
    assert isinstance(found.run, PipelineTimeline)
    spans = [
        (one.name, one.begin_seconds, one.end_seconds) for row in found.run.ranks for one in row
    ]
    ranks = [(one.stages, one.compute_seconds, one.sent, one.moment.by_kind) for one in found.ranks]
    tasks = sum(found.device.count_stages(task.place.stage) for task in found.device.tasks)
    return found.seconds, spans, ranks, found.run.handed_seconds, tasks


def check(model: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = parse_recipe(text)
    axes = tuple(Axis(name, size) for name, size in recipe.axes)
    one = PlacedRecipe(recipe, next(placements(SYSTEM.hierarchy, axes)).matrix)
    short = planner(model).simulate(one)
    monkeypatch.setattr(finalists, "choose_stages", lambda layers: range(len(layers)))
    whole = planner(model).simulate(one)
    assert facts(short.found) == facts(whole.found)
    for summed in ("products", "between"):
        both = (getattr(one, summed) for one in (short, whole))
        ends, others = ([one.low, one.seconds, one.high] for one in both)
        assert ends == pytest.approx(others)


@pytest.mark.parametrize(("model", "text"), LONG)
def test_a_long_pipeline_is_stretched(
    model: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(model, text, monkeypatch)


def test_inner_stages_of_each_number_of_layers_are_written_once() -> None:
    recipe = parse_recipe(
        "pipe=8 data=2; batch over data; schedule 1f1b, 8 microbatches;"
        " stages of 3 times 2, 3, 1, 3 times 2 layers"
    )
    assert finalists.layers_of(recipe, 16) == 14
    even = replace(recipe, layers=())
    assert finalists.layers_of(even, 16) == 10
    ends = replace(recipe, axes=(("pipe", 5), ("data", 2)), layers=(2, 2, 8, 2, 2))
    assert finalists.layers_of(ends, 16) == 16, "nothing is left out, so nothing is stretched"


@pytest.mark.slow
@pytest.mark.parametrize(("model", "text"), MORE)
def test_others_are_stretched_too(model: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(model, text, monkeypatch)
