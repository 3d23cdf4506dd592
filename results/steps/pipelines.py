"""Pipeline schedules beside zero bubble's tables: our orders on our clock, from profiled passes.

The paper's authors profiled forward passes, both halves of backward passes and transfers of four
models (``profiles.toml``), computed the bubble of each schedule from them, and ran them. Ours are
the orders of ``synth.step.schedules`` on its clock, for the same seconds: their bubbles beside
those computed ones, their throughput beside the measured one. Two numbers are fitted to a third of
the runs: by which factor passes take longer than alone, and what each pass takes beyond that
(launches and the exchange with its neighbours), which schedules in chunks pay more often.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from results.steps.composed import Floats
from results.steps.protocol import fitted_to, short, summed_up
from results.steps.rows import Raw, raw_rows
from synth.events.longest_path import time_tasks
from synth.step.schedules import (
    Durations,
    PipelineSchedule,
    TransferGraph,
    TransferProtocol,
    build_transfer_graph,
    interleaved,
    one_f_one_b,
    zero_bubble,
    zero_bubble_h1,
)

PROFILES = Path(__file__).with_name("profiles.toml")
SCHEDULES = ("1F1B", "1F1B-I", "ZB-1p", "ZB-2p")
AIM = 0.05
_BUBBLE = re.compile(r"profiled times ([0-9.]+)")
_SCALE = np.array([1.0, 1e-3])
"""A factor, and milliseconds."""

NOTHING = np.array([1.0, 0.0])

SPREAD, SCORES, WEIGHTS_READ = 34.0, 5.0, 32.0
"""Bytes of a token's activations in a layer: for each hidden element without attention's scores,
of the scores for each head and key, and what gradients of weights read for each hidden element."""


@dataclass(frozen=True)
class Run:
    """One measured run of a schedule. ``staggered``: ranks begin the next step by themselves."""

    raw: Raw
    name: str
    configuration: str
    schedule: str
    order: PipelineSchedule
    durations: Durations
    transfer: float
    staggered: bool
    bubble: float
    seconds: float

    @cached_property
    def _clock(self) -> tuple[TransferGraph, Floats, Floats]:
        graph = build_transfer_graph(self.order, TransferProtocol.EAGER)
        of = self.durations.on(self.order)
        passes = [of(action) for action in self.order.actions]
        handed = [self.transfer] * len(graph.transfers)
        once = [1.0] * len(passes) + [0.0] * len(handed)
        return graph, np.array(passes + handed), np.array(once)

    def estimate(self, numbers: Floats = NOTHING) -> float:
        """Seconds of the step with passes so many times as long, and so much longer each."""
        graph, alone, passes = self._clock
        factor, more = numbers
        begins, ends = time_tasks(
            graph.tasks, alone * np.where(passes, factor, 1.0) + more * passes
        )
        rows = [(begins[queue[0]], ends[queue[-1]]) for queue in graph.queues]
        if self.staggered:
            return max(end - begin for begin, end in rows)
        return max(end for _, end in rows)

    @property
    def work(self) -> float:
        """Seconds of one rank's passes."""
        one = self.durations
        return self.order.microbatches * (one.forward_seconds + one.backward_seconds)

    @property
    def simple(self) -> float:
        """With the bubble of 1F1B, whatever the order."""
        ranks, micros = len(self.order.ranks), self.order.microbatches
        return self.work * (micros + ranks - 1) / micros


def runs(schedules: Collection[str] = SCHEDULES) -> list[Run]:
    """Those of some schedules."""
    with PROFILES.open("rb") as file:
        profiles = {one["model"]: one for one in tomllib.load(file)["profile"]}
    return [
        _run(raw, profiles[raw["model"]])
        for raw in raw_rows("zero_bubble_paper")
        if raw["pp_schedule"] in schedules
    ]


def _run(raw: Raw, profile: dict[str, Any]) -> Run:
    stages, micros, micro = profile["stages"], int(raw["grad_acc"]), int(raw["micro_batch"])
    forward, inputs, weights, transfer = (1e-6 * one for one in profile["times_us"][str(micros)])
    durations = Durations(forward, inputs + weights, weights)
    schedule = raw["pp_schedule"]
    match schedule:
        case "1F1B":
            order = one_f_one_b(stages, micros)
        case "1F1B-I":
            order = interleaved(stages, micros, profile["layers"] // stages)
        case "ZB-1p":
            order = zero_bubble_h1(stages, micros)
        case _:
            order = zero_bubble(
                stages, micros, durations, transfer, 2 * stages, activations(raw)[1]
            )
    [bubble] = _BUBBLE.findall(raw["notes"])
    rate = float(raw["samples_per_s_per_gpu"]) * stages
    return Run(
        raw,
        raw["id"],
        f"{raw['model']} {schedule} {micros}",
        schedule,
        order,
        durations,
        transfer,
        schedule == "ZB-2p",
        float(bubble),
        micros * micro / rate,
    )


def activations(raw: Raw) -> tuple[float, float]:
    """Bytes of a token's activations in a layer, and the part that gradients of its weights read.

    32h of 34h + 5as: Korthikanti et al. (2205.05198), as zero bubble counts it.
    """
    hidden, heads, sequence = (int(raw[name]) for name in ("hidden", "heads", "seq"))
    whole = SPREAD * hidden + SCORES * heads * sequence
    return whole, WEIGHTS_READ * hidden / whole


def fit(some: Sequence[Run]) -> Floats:
    """The factor and the seconds of each pass that explain these runs best."""

    def off(scaled: Floats) -> Floats:
        return np.array([np.log(one.estimate(scaled * _SCALE) / one.seconds) for one in some])

    found = least_squares(off, NOTHING, diff_step=1e-2, loss="soft_l1", f_scale=0.02)
    return np.asarray(found.x * _SCALE)


def made() -> dict[str, Any]:
    """All figures of pipeline schedules."""
    known = runs()
    mine = [one for one in known if fitted_to(one)]
    others = [one for one in known if not fitted_to(one)]
    numbers = fit(mine)
    factor = float(np.median([one.seconds / one.estimate() for one in mine]))
    simple = float(np.median([one.seconds / one.simple for one in mine]))
    ways = {
        "orders on the clock, two numbers fitted": [one.estimate(numbers) for one in others],
        "orders on the clock, one factor fitted": [factor * one.estimate() for one in others],
        "orders on the clock, nothing fitted": [one.estimate() for one in others],
        "1F1B's formula for all, one factor fitted": [simple * one.simple for one in others],
    }
    return {
        "fitted_rows": len(mine),
        "rows": len(others),
        "numbers": {"factor": short(float(numbers[0])), "pass": short(float(numbers[1]))},
        "judged": {name: _judged(others, found) for name, found in ways.items()},
        "schedules": {
            name: _schedule([one for one in known if one.schedule == name], numbers)
            for name in SCHEDULES
        },
    }


def _judged(some: Sequence[Run], found: Sequence[float]) -> dict[str, Any]:
    off = np.abs(np.array(found) / np.array([one.seconds for one in some]) - 1)
    return summed_up(off) | {"worst": short(float(off.max())), "within": int((off <= AIM).sum())}


def _schedule(some: Sequence[Run], numbers: Floats) -> dict[str, Any]:
    """Of one schedule: how far its bubbles are from the authors' computed ones, and its errors."""
    bubbles = [abs(1 - one.work / one.estimate() - one.bubble) for one in some]
    off = [one.estimate(numbers) / one.seconds - 1 for one in some if not fitted_to(one)]
    return {
        "rows": len(some),
        "bubble_off": short(max(bubbles)),
        "judged": len(off),
        "least": short(min(off, default=0.0)),
        "most": short(max(off, default=0.0)),
    }
