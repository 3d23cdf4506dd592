"""What several processes ask for at once is what one asks for on its way, no more and no less."""

from __future__ import annotations

from functools import cache
from unittest.mock import patch

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar import Goal
from hierarchies import Placement, load
from hierarchies.devices import device_named
from results.speedup.perfect import Several
from synth.collective.ranking.oracle import ProgramPrices
from synth.collective.ranking.request import Watcher
from synth.search import forks
from synth.step.models import ModelSettings
from synth.step.search.buckets import BUCKETS
from synth.step.search.finalists import list_goals, simulate_finalist
from synth.step.search.job import PlanningProblem
from synth.step.search.links import BoundLinks, FreeLinks, PlacedRecipe, PricedLinks, RecordingLinks
from synth.step.search.pins import Pins
from synth.step.search.planning import Planner
from synth.step.sharding import parse_recipe

SYSTEM = load("dgx-h100:1")
MEGATRON = "weights over tensor as Megatron"
RECIPES = (
    f"data=2 tensor=4; batch over data; {MEGATRON}; zero=3; 2 microbatches",
    "pipe=4 data=2; batch over data; zero=2; buckets of 1 MB; schedule 1f1b, 8 microbatches",
)


@cache
def planner() -> Planner:
    spelling = ModelSettings(batch=16, dtype="bfloat16")
    accelerator = device_named("H100 SXM5 80 GB")
    return Planner(PlanningProblem("gpt2-tiny", {"layers": 4}, spelling, SYSTEM, accelerator))


class Linear(PricedLinks):
    """A byte takes a second."""

    def asked(self, goal: Goal, placement: Placement, size_bytes: int) -> float:
        return float(size_bytes)


def test_links_are_asked_at_once_for_all_that_plans_send() -> None:
    some = planner().job.candidates(Pins.parse("remat=no microbatches=2"))[::5]
    composer, learned, on_the_way = planner().composer, Linear(SYSTEM), Linear(SYSTEM)
    noting = RecordingLinks(learned)
    for one in some:
        composer.on(noting).bound(one, BUCKETS)
        composer.on(on_the_way).bound(one, BUCKETS)
    assert {*noting.wanted} == {*on_the_way._known}
    learned.learn([*noting.wanted], Watcher())
    every = [each for one in some for each in (one, *map(one.in_buckets, BUCKETS))]
    found = composer.on(on_the_way).seconds(every)
    with patch.object(Linear, "asked", None):  # nothing is left to be asked
        assert composer.on(learned).seconds(every) == found


def test_no_links_are_faster_than_free_ones() -> None:
    composer = planner().composer
    free, least = composer.on(FreeLinks()), composer.on(BoundLinks(SYSTEM))
    for one in planner().job.candidates(Pins.parse("remat=no"))[::7]:
        assert free.bound(one, BUCKETS) <= least.bound(one, BUCKETS) * (1 + 1e-9)


@pytest.mark.parametrize("text", RECIPES)
def test_what_a_plan_sends_is_priced_before_it_is_simulated(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "WORTH_SECONDS", 0)
    recipe, job = parse_recipe(text), planner().job
    one = PlacedRecipe(recipe, tuple((1, size) for _, size in recipe.axes))
    before, on_the_way = (ProgramPrices(SYSTEM, stripes=False) for _ in range(2))
    before.prove(list_goals(job.of_layers, job.layers, one, before), Several(2))
    known = before._answers.copy()
    seconds = [
        simulate_finalist(job.of_layers, job.layers, one, answers, job.device).found.seconds
        for answers in (before, on_the_way)
    ]
    assert seconds[0] == seconds[1]
    assert before._answers == known == on_the_way._answers
