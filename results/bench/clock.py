"""The clock of a training step: one program put on it, and plans composed and searched.

What it takes is the processor's time: nothing here waits, and other work on the machine counts
less.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from statistics import median
from time import process_time
from typing import Any

from hierarchies import load
from hierarchies.devices import device_named
from synth.collective.ranking.request import Watcher
from synth.step.models import ModelSettings, zoo_step
from synth.step.search.buckets import BUCKETS
from synth.step.search.job import PlanningProblem
from synth.step.search.links import BoundLinks, PricedLinks
from synth.step.search.pins import Pins
from synth.step.search.planning import Planner
from synth.step.search.searching import Search
from synth.step.sharding import apply, parse_recipe, plan_of, prepare_step
from synth.step.simulation import Sources, StepPrediction, StepRuntime, predict_step
from synth.step.simulation.groups import OperationGrouping
from synth.step.simulation.predicting import group_operations

Figures = dict[str, float]
REPEATED = 7


def plans() -> Figures:
    """GPT-3's plans on 512 A100 with tensor=8 and ZeRO-1, in 1,536 samples, on all placements.

    What one that fits takes to be composed, once its parts and links are known.
    """
    system = load("dgx-a100:64")
    spelling = ModelSettings(batch=1536, dtype="bfloat16")
    job = PlanningProblem("gpt3-175b", {}, spelling, system, device_named(system.device))
    composer = Planner(job).composer
    composed = composer.on(PricedLinks(system))
    some = job.candidates(Pins.parse("tensor=8 zero=1"))
    fitting = [one for one in some if composer.size_bytes(one.recipe) <= job.device.memory_bytes]
    composed.seconds(fitting)
    begun = process_time()
    composed.seconds(fitting)
    took_seconds = process_time() - begun
    return {"ms_a_plan": 1e3 * took_seconds / len(fitting), "plans": float(len(fitting))}


def search() -> Figures:
    """All of GPT-3's plans on 512 A100, and on 4,096, from the traced step to the five cheapest.

    Everything counts: what stages do inside is written out, links are priced. Plans that a bound
    rules out are not put on the clock.
    """
    found: dict[str, float] = {}
    for nodes, batch in ((64, 1536), (512, 4096)):
        system = load(f"dgx-a100:{nodes}")
        spelling = ModelSettings(batch=batch, dtype="bfloat16")
        job = PlanningProblem("gpt3-175b", {}, spelling, system, device_named(system.device))
        some, composer = job.families(Pins({})), Planner(job).composer
        begun = process_time()
        links = PricedLinks(system), BoundLinks(system)
        memory = job.device.memory_bytes
        searched = Search(composer, some, memory, *links, Watcher(), BUCKETS)
        cheapest = list(islice(searched.cheapest(), 5))
        took_seconds = process_time() - begun
        assert len(cheapest) == 5
        found[f"seconds_{system.devices}"] = took_seconds
        found[f"fitting_{system.devices}"] = float(searched.fitting)
        found[f"ms_a_plan_{system.devices}"] = 1e3 * took_seconds / searched.fitting
    return found


def program() -> Figures:
    """GPT-3's program on 8 x 16 x 8 devices, 96 microbatches by 1F1B, until all ranks are timed.

    The first time, and from other seconds. Seconds of sections and redistributions are given;
    tracing, planning and these are not here.
    """
    step = zoo_step("gpt3-175b", {}, ModelSettings(batch=768, dtype="bfloat16"))
    recipe = (
        "data=8 tensor=8 pipe=16; batch over data; weights over tensor as Megatron; zero=1;"
        " schedule 1f1b, 96 microbatches"
    )
    plan = plan_of(step, parse_recipe(recipe))
    made, ready = apply(step, plan), prepare_step(step, plan)
    sources = Sources(lambda section: 1e-4, lambda *how: 1e-4, lambda *how: 1e-5)
    known = group_operations(plan, made, StepRuntime())

    def run(grouping: OperationGrouping | None) -> StepPrediction:
        return predict_step(ready, plan, made, sources, None, grouping)

    whole = run(known)
    return {
        "tasks": len(whole.device.tasks),
        "seconds": _median(lambda: run(None), 3),
        "again_seconds": _median(lambda: run(known), 5),
        "memory_seconds": _median(lambda: run(known).ranks, 3),
    }


def _median(work: Callable[[], Any], times: int = REPEATED) -> float:
    return median(_taken(work) for _ in range(times))


def _taken(work: Callable[[], Any]) -> float:
    begun = process_time()
    work()
    return process_time() - begun
