"""Walks among plans, held against all plans: they meet no other, and find the best of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from math import isinf
from random import Random

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from hierarchies import InputError, load
from hierarchies.devices import device_named
from synth.plan.request import Watcher
from synth.search.space import BestFound, Budget, Infeasible, NoneFound, Optimal
from synth.train.models import Spelling
from synth.train.planner.job import Job
from synth.train.planner.pins import Pins
from synth.train.planner.planning import Planner
from synth.train.planner.walks.space import PlanSpace
from synth.train.planner.walks.walking import walked

MACHINES = ("dgx-h100:1", "dgx-h100:2", "l40s-pcie")
PINS = Pins.parse("remat=no")


@cache
def planner(machine: str = MACHINES[0]) -> Planner:
    system = load(machine)
    spelling = Spelling(batch=48, dtype="bfloat16")
    sizes = {"layers": 6, "width": 1024, "heads": 16, "vocabulary": 8192}
    accelerator = device_named("H100 SXM5 80 GB")
    return Planner(Job("gpt2-tiny", sizes, spelling, system, accelerator))


def space(pins: Pins = PINS, machine: str = MACHINES[0], memory: float = 1e12) -> PlanSpace:
    one = planner(machine)
    allowed = partial(one.job.allows, pins)
    composed = one.composer.on(one._links[0])
    told = one.job.system, one.job.extents, one.job.knobs(pins), allowed, composed, memory
    return PlanSpace(*told, one.peak_seconds)


@pytest.mark.parametrize(
    "machine", [MACHINES[0], *(pytest.param(one, marks=pytest.mark.slow) for one in MACHINES[1:])]
)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_walk_finds_the_best_of_all(machine: str, seed: int) -> None:
    one, found = planner(machine), space(machine=machine)
    every = one.job.candidates(PINS)
    met = walked(found, Budget(len(every), seed), Watcher())
    assert set(met) <= set(every)
    least = min(found.composed.bound(each) for each in every)
    assert min(found.composed.bound(each) for each in met) == least
    seconds = found.composed.seconds
    assert min(seconds(met)) == pytest.approx(min(seconds(every)), rel=0.01)


def test_moves_lead_from_each_plan_to_any_other() -> None:
    found = space()
    every = set(planner().job.candidates(PINS))
    reached, rng = {found.initial()}, Random(0)
    waiting = list(reached)
    while waiting:
        state = waiting.pop()
        for _, near in zip(range(300), found.moves(state, rng), strict=False):
            if near not in reached:
                reached.add(near)
                waiting.append(near)
    assert reached == every


def test_nothing_is_below_all_devices_at_their_peak() -> None:
    one, found = planner(), space()
    assert all(one.peak_seconds < found.composed.bound(each) for each in one.job.candidates(PINS))


def test_a_walk_prices_no_more_than_its_budget_and_the_same_again() -> None:
    first, second = (walked(space(), Budget(40, 3), Watcher()) for _ in range(2))
    assert first == second
    assert len(first) <= 40
    assert walked(space(), Budget(40, 4), Watcher()) != first


def test_what_does_not_fit_is_too_much_by_its_bytes() -> None:
    found = space(memory=1.0)
    state = found.initial()
    price = found.price(state)
    assert isinstance(price, Infeasible)
    assert price.excess == found.composed.composer.size_bytes(state.recipe) - 1.0
    for one in walked(found, Budget(40), Watcher()):
        why = found.price(one)
        assert isinstance(why, Infeasible)
        assert not isinf(why.excess)


def test_a_walk_that_is_stopped_has_met_one_plan() -> None:
    class Stops(Watcher):
        def go_on(self) -> bool:
            return False

    assert len(walked(space(), Budget(100), Stops())) == 1


def test_pins_that_no_plan_has_are_named_before_a_walk() -> None:
    with pytest.raises(InputError, match="has tensor=5"):
        planner().plans(Pins.parse("tensor=5"), 1, Watcher(), Budget(10))


def test_all_plans_prove_the_best_and_a_walk_does_not() -> None:
    one, memory = planner(), planner().job.device.memory_bytes
    pins = Pins.parse("remat=no tensor=1 pipe=1 bucket=no")
    all_, some = (one.plans(pins, 1, Watcher(), budget) for budget in (None, Budget(200)))
    proved, found = all_.verdict(memory), some.verdict(memory)
    assert isinstance(proved, Optimal)
    assert isinstance(found, BestFound)
    assert found.seconds == proved.seconds
    assert found.bound == one.peak_seconds
    assert all_.complete
    assert not some.complete


def test_nothing_fits_or_nothing_was_found_that_fits() -> None:
    small = replace(planner().job.device, memory_bytes=1e6)
    one = Planner(replace(planner().job, device=small))
    pins = Pins.parse("remat=no tensor=1 pipe=1")
    proved, met = (one.plans(pins, 1, Watcher(), some) for some in (None, Budget(5)))
    verdict = proved.verdict(1e6)
    assert isinstance(verdict, Infeasible)
    assert verdict.because.startswith("too much memory: data=8")
    unproved = met.verdict(1e6)
    assert isinstance(unproved, NoneFound)
    assert unproved.nearest is not None
    assert unproved.nearest.excess >= verdict.excess
