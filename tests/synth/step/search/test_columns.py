"""Plans in columns against plans one by one, to the last bit, on all plans of small spaces."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from hierarchies import InputError, load
from hierarchies.devices import device_named
from synth.collective.ranking.request import Watcher
from synth.step.models import ModelSettings
from synth.step.schedules import SCHEDULES
from synth.step.search.buckets import BUCKETS
from synth.step.search.composing.composer import Composition
from synth.step.search.job import PlanningProblem
from synth.step.search.links import FreeLinks, PlacedRecipe
from synth.step.search.pins import Pins
from synth.step.search.planning import Planner
from tests.plans_alone import bound_alone, time_alone

SPACES = {
    "gpt2-tiny": ["zero=0", "zero=1", "zero=2", "zero=3 remat=no", "pipe=2 schedule=zbv"],
    "mixtral-tiny": ["remat=no microbatches=2"],
    "lstm-tiny": ["zero=1", "zero=3"],
}


@cache
def planner(model: str) -> Planner:
    sizes = {"layers": 8, "vocabulary": 65536} if model == "gpt2-tiny" else {}
    spelling, system = ModelSettings(batch=16, dtype="bfloat16"), load("dgx-h100:2")
    return Planner(PlanningProblem(model, sizes, spelling, system, device_named(system.device)))


@cache
def composed(model: str, links: int) -> Composition:
    one = planner(model)
    return one.composer.on((*one._links, FreeLinks())[links])


@cache
def plans(model: str, pins: str) -> list[PlacedRecipe]:
    """All plans of a small space, with layers balanced where that pays."""
    one = planner(model)
    composer, balanced = one.composer, []
    for family in one._balanced(Pins.parse(pins), one.job.families(Pins.parse(pins)), Watcher()):
        try:
            composer.staged(family.recipe)
        except InputError:
            continue
        balanced += [*family]
    return balanced


@pytest.mark.parametrize("links", range(3))
@pytest.mark.parametrize(
    ("model", "pins"), [(model, pins) for model, some in SPACES.items() for pins in some]
)
def test_columns_bound_and_time_plans_as_each_alone(model: str, pins: str, links: int) -> None:
    """No bound is above the seconds of its plan, in any of the buckets."""
    some, one = plans(model, pins), composed(model, links)
    assert some
    bounds, times = one.bounds(some), one.seconds(some)
    assert bounds.tolist() == [bound_alone(one, each) for each in some]
    assert times == [time_alone(one, each) for each in some]
    least = one.bounds(some, BUCKETS)
    assert least.tolist() == [bound_alone(one, each, BUCKETS) for each in some]
    for size in BUCKETS[::3]:
        bucketed = [each.in_buckets(size) for each in some]
        taken = one.seconds(bucketed)
        assert taken == [time_alone(one, each) for each in bucketed]
        assert (least <= taken).all()
        assert (one.bounds(bucketed) <= taken).all()
    assert (least <= bounds).all()
    assert (bounds <= times).all()


@given(st.data())
def test_plans_do_not_depend_on_those_beside_them(data: st.DataObject) -> None:
    """Whatever their order and number."""
    every = [each for pins in SPACES["gpt2-tiny"][:4] for each in plans("gpt2-tiny", pins)]
    some = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=6))
    fresh = planner("gpt2-tiny").composer.on(planner("gpt2-tiny")._links[0])
    known = composed("gpt2-tiny", 0)
    assert fresh.seconds(some) == [known.seconds([each])[0] for each in some]
    assert fresh.bounds(some).tolist() == [known.bound(each) for each in some]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_that_a_search_tries_take_turns(schedule: str) -> None:
    """Of every schedule, by the clock that knows each action and transfer."""
    pins = f"pipe=2 schedule={schedule} remat=no zero=1"
    some, one = plans("gpt2-tiny", pins), composed("gpt2-tiny", 0)
    assert one.seconds(some) == [time_alone(one, each) for each in some] != []
