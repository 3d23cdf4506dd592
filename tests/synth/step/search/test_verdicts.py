"""What a search proves: of all plans the best, of some the best found, or that nothing fits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")


from hierarchies import InputError, load
from hierarchies.devices import device_named
from synth.collective.ranking.request import Watcher
from synth.search.space import BestFound, Infeasible, NoneFound, Optimal
from synth.step.models import ModelSettings
from synth.step.search.job import PlanningProblem
from synth.step.search.pins import Pins
from synth.step.search.planning import Planner

MACHINES = ("dgx-h100:1", "dgx-h100:2", "l40s-pcie")
PINS = Pins.parse("remat=no")


@cache
def planner(machine: str = MACHINES[0]) -> Planner:
    system = load(machine)
    spelling = ModelSettings(batch=48, dtype="bfloat16")
    sizes = {"layers": 6, "width": 1024, "heads": 16, "vocabulary": 8192}
    accelerator = device_named("H100 SXM5 80 GB")
    return Planner(PlanningProblem("gpt2-tiny", sizes, spelling, system, accelerator))


def test_nothing_is_below_all_devices_at_their_peak() -> None:
    one = planner()
    composed = one.composer.on(one._links[0])
    assert all(one.job.peak_seconds < composed.bound(each) for each in one.job.candidates(PINS))


def test_pins_that_no_plan_has_are_named() -> None:
    with pytest.raises(InputError, match="has tensor=5"):
        planner().plans(Pins.parse("tensor=5"), 1, Watcher())


class Stops(Watcher):
    """Lets a search go on so many times."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.left = most

    def go_on(self) -> bool:
        self.left -= 1
        return self.left >= 0


def test_all_plans_prove_the_best_and_some_do_not() -> None:
    one, memory = planner(), planner().job.device.memory_bytes
    pins = Pins.parse("remat=no tensor=1 pipe=1 bucket=no")
    all_, some = (one.plans(pins, 1, watcher) for watcher in (Watcher(), Stops(3)))
    proved, found = all_.verdict(memory), some.verdict(memory)
    assert isinstance(proved, Optimal)
    assert isinstance(found, BestFound)
    assert found.seconds >= proved.seconds
    assert found.bound == one.job.peak_seconds
    assert all_.complete
    assert not some.complete


def test_nothing_fits_or_nothing_was_found_that_fits() -> None:
    small = replace(planner().job.device, memory_bytes=1e6)
    one = Planner(replace(planner().job, device=small))
    pins = Pins.parse("remat=no tensor=1 pipe=1")
    proved, met = (one.plans(pins, 1, watcher) for watcher in (Watcher(), Stops(3)))
    verdict = proved.verdict(1e6)
    assert isinstance(verdict, Infeasible)
    assert verdict.because.startswith("too much memory: data=8")
    unproved = met.verdict(1e6)
    assert isinstance(unproved, NoneFound)
