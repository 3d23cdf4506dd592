"""The clock of a training step: tasks timed one by one, many plans at once, and equal blocks once.

Seconds of tasks are made up, as is what they are of: only how many there are, what waits for what
and in which order streams do them matters here. What it takes is the processor's time: nothing
here waits, and other work on the machine counts less.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from resource import RUSAGE_SELF, getrusage
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from hierarchies import load
from hierarchies.devices import device_named
from synth.events.blocks import Block, composed, expanded
from synth.events.longest_path import arranged, ends_together, retimed, timed
from synth.plan.request import Watcher
from synth.train.models import Spelling, zoo_step
from synth.train.orders import SCHEDULES, Protocol, Scheduled, scheduled
from synth.train.planner.job import Job
from synth.train.planner.links import Least, Priced
from synth.train.planner.pins import Pins
from synth.train.planner.planning import Planner
from synth.train.planner.searching import Search
from synth.train.planner.sums.choosing import BUCKETS
from synth.train.plans import apply, parse_recipe, plan_of, prepared
from synth.train.simulation import Predicted, Runtime, Sources, predicted
from synth.train.simulation.groups import Grouping
from synth.train.simulation.predicting import grouped

Figures = dict[str, float]
REPEATED = 7
DIST_IR = 275_664
"""Operations of the largest program that dist-ir was given, which took it 33.7 s and 869 MB."""


def tasks() -> Figures:
    """4 stages, 16 microbatches, 38 layers with a collective after each: each task by itself.

    Beside it 256 plans of that structure at once, and one task of another length.
    """
    blocks, graph = _pipeline("gpipe", 4, 16, _layers(38))
    flat = expanded(graph.before, graph.queues, blocks, holds=False)
    count = len(flat.durations)
    before, queues = flat.tasks.before, _queues(flat.tasks.previous)
    arranging = _median(lambda: arranged(before, queues))
    timing = _median(lambda: timed(flat.tasks, flat.durations))
    plans = np.random.default_rng(0).random((count, 256))
    together = _median(lambda: ends_together(flat.tasks, plans))
    changed = flat.durations.copy()
    changed[count // 2] += 1.0
    known = flat.times[1]
    _ = flat.tasks.places
    delta = _median(lambda: retimed(flat.tasks, changed, known, [count // 2]))
    return {
        "tasks": count,
        "us_a_task": (arranging + timing) / count * 1e6,
        "us_a_task_timed_again": timing / count * 1e6,
        "ns_a_task_and_plan": together / plans.size * 1e9,
        "delta_against_full": delta / timing,
    }


def dist_ir() -> Figures:
    """As many operations as dist-ir's largest: written out, and composed; the order included.

    16 stages, 64 microbatches, 67 layers a stage each with a collective, updates of 77 operations.
    """
    layers, update = _layers(67), _line(77)
    size = sum(len(layers.seconds) for _ in range(2 * 16 * 64)) + 16 * len(update.seconds)
    assert size == DIST_IR

    def built() -> tuple[list[Block], Scheduled]:
        return _pipeline("1f1b", 16, 64, layers, update)

    def flat() -> float:
        blocks, graph = built()
        return expanded(graph.before, graph.queues, blocks, holds=True).seconds

    def at_once() -> float:
        blocks, graph = built()
        return max(composed(graph.before, graph.queues, blocks)[1])

    once = _median(at_once)
    each = _median(flat, 3)
    assert flat() == at_once()
    peak = getrusage(RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return {"operations": DIST_IR, "flat_seconds": each, "composed_seconds": once, "peak_MB": peak}


def gpt3() -> Figures:
    """GPT-3 on 8 x 16 x 8 devices, and on 8 x 16 x 128: layer, pass, pipeline, replicas.

    96 layers of 40 operations and 4 collectives in 16 stages, 1F1B of 96 microbatches, a reduction
    of gradients over replicas, which all do the same.
    """

    def step(replicas: int) -> float:
        layer = _line(44)
        deep = Block((0,) * 6, tuple((n - 1,) if n else () for n in range(6)), (layer.alone,) * 6)
        reduced = Block((0,), ((),), (1.0 + 1.0 / replicas,))
        blocks, graph = _pipeline("1f1b", 16, 96, deep, reduced)
        return max(composed(graph.before, graph.queues, blocks)[1])

    few, many = [], []
    for _ in range(REPEATED):
        few.append(_taken(lambda: step(8)))
        many.append(_taken(lambda: step(128)))
    return {"seconds": median(few), "ratio": median(map(float.__truediv__, many, few))}


def plans() -> Figures:
    """GPT-3's plans on 512 A100 with tensor=8 and ZeRO-1, in 1,536 samples, on all placements.

    What one that fits takes to be composed, once its parts and links are known.
    """
    system = load("dgx-a100:64")
    spelling = Spelling(batch=1536, dtype="bfloat16")
    job = Job("gpt3-175b", {}, spelling, system, device_named(system.device))
    composer = Planner(job).composer
    composed = composer.on(Priced(system))
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
        spelling = Spelling(batch=batch, dtype="bfloat16")
        job = Job("gpt3-175b", {}, spelling, system, device_named(system.device))
        some, composer = job.families(Pins({})), Planner(job).composer
        begun = process_time()
        links = Priced(system), Least(system)
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
    step = zoo_step("gpt3-175b", {}, Spelling(batch=768, dtype="bfloat16"))
    recipe = (
        "data=8 tensor=8 pipe=16; batch over data; weights over tensor as Megatron; zero=1;"
        " schedule 1f1b, 96 microbatches"
    )
    plan = plan_of(step, parse_recipe(recipe))
    made, ready = apply(step, plan), prepared(step, plan)
    sources = Sources(lambda section: 1e-4, lambda *how: 1e-4, lambda *how: 1e-5)
    known = grouped(plan, made, Runtime())

    def run(grouping: Grouping | None) -> Predicted:
        return predicted(ready, plan, made, sources, None, grouping)

    whole = run(known)
    return {
        "tasks": len(whole.device.tasks),
        "seconds": _median(lambda: run(None), 3),
        "again_seconds": _median(lambda: run(known), 5),
        "memory_seconds": _median(lambda: run(known).ranks, 3),
    }


def _pipeline(
    name: str, ranks: int, microbatches: int, block: Block, last: Block | None = None
) -> tuple[list[Block], Scheduled]:
    """Every pass such a block; on each rank, if given, another at the end."""
    order = SCHEDULES[name](ranks, microbatches, 1)
    graph = scheduled(order, Protocol.EAGER)
    blocks = [block] * len(order.actions) + [Block((0,), ((),), (0.5,))] * len(graph.transfers)
    for queue in graph.queues if last else ():
        assert last is not None
        queue.append(len(blocks))
        blocks.append(last)
        graph.before.append([])
    return blocks, graph


def _layers(deep: int) -> Block:
    """A product and a collective, by turns, each waiting for the one before."""
    streams = tuple(task % 2 for task in range(2 * deep))
    return Block(streams, _chain(2 * deep), tuple(1.0 + stream for stream in streams))


def _line(count: int) -> Block:
    return Block((0,) * count, _chain(count), (1.0,) * count)


def _chain(count: int) -> tuple[tuple[int, ...], ...]:
    return tuple((task - 1,) if task else () for task in range(count))


def _queues(previous: Any) -> list[list[int]]:
    """The tasks of each resource, from the task before each."""
    after = {earlier: task for task, earlier in enumerate(previous) if earlier >= 0}
    found = []
    for task, earlier in enumerate(previous):
        if earlier < 0:
            queue = [task]
            while queue[-1] in after:
                queue.append(after[queue[-1]])
            found.append(queue)
    return found


def _median(work: Callable[[], Any], times: int = REPEATED) -> float:
    return median(_taken(work) for _ in range(times))


def _taken(work: Callable[[], Any]) -> float:
    begun = process_time()
    work()
    return process_time() - begun
