"""A small step on one core with the kernels of some plans, as XLA is and with its barriers kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from grammar.tensors.operations import Step
from hierarchies import Axis, load, placements
from hierarchies.devices import Device, device_named
from results.kernels.compiled import held, kernels_of_fusions
from synth.search.space import BestFound, Budget, Optimal
from synth.train.bucketing.gradients import promptly
from synth.train.bucketing.replica import AXIS, summed_first
from synth.train.bucketing.sums import Sums
from synth.train.emit import write
from synth.train.fusion import Fusions, alone, jointly, sectioned
from synth.train.models import Spelling, zoo_step
from synth.train.planner.finalists import RUNTIME, rooflines_of
from synth.train.plans import Plan, apply, parse_recipe, plan_of, prepared
from synth.train.plans.together.buckets import buckets_of
from synth.train.simulation.predicting import Sources, predicted
from synth.train.simulation.sources import Rooflines

FLAG = "--xla_disable_hlo_passes=cse_barrier_expander"
"""XLA's compiler for CPUs takes barriers out by this pass before it fuses anything."""
OPEN, CHOSEN, EVERY = "left to XLA", "chosen kernels", "every operation"
MODEL, MACHINE, BATCH = "gpt2-tiny", "p2-v100:1x2", 16
CHANGES = {"width": 256, "heads": 4, "layers": 2, "sequence": 64, "vocabulary": 512}
STATES, SEED, DRAWN = 120, 0, 1
ROUNDS, WARM_UPS = 15, 3
Told = dict[str, Any]


@dataclass(frozen=True)
class Ready:
    """A step with a plan for one device, by name."""

    name: str
    step: Step
    plan: Plan

    @property
    def text(self) -> str:
        ready = prepared(self.step, self.plan)
        return write("jax", ready, apply(self.step, self.plan), self.plan.sizes)


@cache
def plans() -> tuple[Ready, ...]:
    """The kernels of the joint search for two devices that sum gradients, and the extremes."""
    step = promptly(zoo_step(MODEL, CHANGES, Spelling(batch=BATCH, unrolled=True)))
    chosen = _chosen(step)
    one = summed_first(step, plan_of(step, parse_recipe(f"{AXIS}=1; batch over {AXIS}")))
    return (
        Ready(OPEN, step, one),
        Ready(CHOSEN, step, replace(one, fused=chosen.fused)),
        Ready(EVERY, step, alone(step, one)),
    )


def _chosen(step: Step) -> Plan:
    system = load(MACHINE)
    assert system.device is not None
    plan = summed_first(step, plan_of(step, parse_recipe(f"{AXIS}=2; batch over {AXIS}")))
    [placement] = placements(system.hierarchy, (Axis(AXIS, 2),))
    rooflines = rooflines_of(step, plan, device_named(system.device))
    sums = Sums(system, placement)

    def seconds(one: Plan) -> float:
        return _on_clock(step, one, rooflines, sums.seconds)

    [every] = buckets_of(prepared(step, plan), apply(step, plan), plan.sizes, 2**62)
    space = Fusions(step, sectioned(step, plan, RUNTIME), every, seconds, drawn=DRAWN)
    best = jointly(space, Budget(STATES, SEED))
    assert isinstance(best, Optimal | BestFound)
    return best.state


def measured() -> Told:
    """Each plan's step, in turns, in this process: which XLA's flags are those of."""
    import jax

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    steps: dict[str, tuple[Any, Any]] = {}
    found: dict[str, Told] = {}
    for one in plans():
        text = one.text
        space: dict[str, Any] = {"__name__": "written"}
        exec(compile(text, "<step>", "exec", dont_inherit=True), space)
        given = tuple(drawn(each.shape, each.dtype) for each in space["INPUTS"].values())
        made = jax.jit(space["sharded_step"](space["mesh"]())).lower(given).compile()
        hlo = made.as_text() or ""
        fusions = kernels_of_fusions(text, hlo)
        found[one.name] = {
            "written": text.count("the end of a kernel"),
            "held": held(hlo),
            "fusions": len(fusions),
            "across": sum(len(kernels) > 1 for kernels in fusions),
        }
        steps[one.name] = made, given
    return {"plans": _timed(steps, found), "core": core()}


def _timed(steps: Mapping[str, tuple[Any, Any]], found: Mapping[str, Told]) -> Told:
    """What was found of each, with its seconds, and how much longer it takes than left to XLA."""
    import jax

    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(WARM_UPS + ROUNDS):
        for name, (made, given) in steps.items():
            begin = perf_counter()
            jax.block_until_ready(made(given))
            if turn >= WARM_UPS:
                seconds[name].append(perf_counter() - begin)
    longer = {
        name: sorted(a / b - 1 for a, b in zip(mine, seconds[OPEN], strict=True))
        for name, mine in seconds.items()
    }
    return {
        name: {
            **one,
            "seconds": round(median(seconds[name]), 6),
            "longer": round(median(longer[name]), 4),
            # of fifteen the fourth and the fourth last hold the median in 96 of 100 cases
            "longer_low": round(longer[name][3], 4),
            "longer_high": round(longer[name][-4], 4),
        }
        for name, one in found.items()
    }


def drawn(shape: tuple[int, ...], dtype: str) -> Any:
    """Numbers to train on: small ones, and of integers ones."""
    draw = np.random.default_rng(0)
    if np.issubdtype(np.dtype(dtype), np.integer):
        return np.ones(shape, dtype)
    return draw.standard_normal(shape).astype(dtype) / 16


def core() -> Told:
    """What this core multiplies and moves in a second, and what its shortest operation takes."""
    import jax
    import jax.numpy as jnp

    def least(work: Any, *given: Any) -> float:
        made = jax.jit(work)
        jax.block_until_ready(made(*given))
        found = []
        for _ in range(7):
            begin = perf_counter()
            jax.block_until_ready(made(*given))
            found.append(perf_counter() - begin)
        return min(found)

    side, numbers = 768, 2**24
    square, line = jnp.ones((side, side)), jnp.ones(numbers)
    return {
        "flops_per_second": 2 * side**3 / least(jnp.dot, square, square),
        "bytes_per_second": 8 * numbers / least(lambda x: x + 1.0, line),
    }


def clock(core_: Told) -> dict[str, float]:
    """Seconds of each plan's step by rooflines of such a core, with nothing for a launch."""
    flops, rate = core_["flops_per_second"], core_["bytes_per_second"]
    kind = {"f32": flops}
    device = Device("a core", 2**34, rate, 1, 8, 8, kind, kind, rate, 0.0, None, {})
    found = {}
    for one in plans():
        rooflines = rooflines_of(one.step, one.plan, device)
        found[one.name] = _on_clock(one.step, one.plan, rooflines, lambda _: 0.0)
    return found


def _on_clock(
    step: Step, plan: Plan, rooflines: Rooflines, summing: Callable[[int], float]
) -> float:
    sources = Sources(
        lambda section: rooflines(section).seconds,
        lambda kind, *_: summing(kind.bytes),
        lambda *_: 0.0,
    )
    ready, program = prepared(step, plan), apply(step, plan)
    return predicted(ready, plan, program, sources, RUNTIME).seconds
