"""What slows steps down whatever they compute: a full device, and stages that hand on slowly.

Both were seen in nanotron's rows, all of which were in sight; where each begins and what it costs
is fitted to a third. Neither is in ``Numbers``, so that a reader sees what each explains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from results.steps.composed import Floats
from results.steps.shapes import Plan

WITHIN = 0.1
"""Ratios that are off by less count in full."""

TRIED = np.geomspace(0.01, 1.0, 101)
"""Seconds of a hand-over."""


@dataclass(frozen=True)
class Full:
    """From which estimated peak on (GB) a step takes how many times as long.

    Where the device is full, PyTorch's allocator gives all that it keeps back to the device, waits
    for it, and tries again (``num_alloc_retries`` of ``torch.cuda.memory_stats``), again and again.
    """

    peak: float
    times: float

    def slowed(self, seconds: Floats, peaks: Floats) -> Floats:
        return np.where(peaks >= self.peak, self.times * seconds, seconds)


def fit_full(estimates: Floats, seconds: Floats, peaks: Floats) -> Full:
    """The peak and the factor that explain these steps best; none (infinity) if nothing does."""
    ways = [Full(np.inf, 1.0)]
    for peak in np.unique(peaks):
        times = float(np.exp(np.median(np.log(seconds / estimates)[peaks >= peak])))
        ways.append(Full(float(peak), times))
    return min(ways, key=lambda one: off(one.slowed(estimates, peaks), seconds))


@dataclass(frozen=True)
class Late:
    """From so many devices on each hand-over between stages takes so many seconds.

    As long for any model, microbatch and number of parts: on 64 nodes always, on fewer now and
    then; why, no source says.
    """

    devices: float
    seconds: float

    def slowed(self, seconds: Floats, plans: Sequence[Plan]) -> Floats:
        late = np.array([handed(one) * (one.devices >= self.devices) for one in plans])
        return np.asarray(seconds + self.seconds * late)


def handed(plan: Plan) -> int:
    """How often the busiest stage sends or receives, one after the other, until a step has ended.

    Activations come and go, gradients come and go: four for each microbatch, but two where there
    are two stages; and the last microbatch goes through all stages and back.
    """
    if plan.pipe == 1:
        return 0
    return (2 if plan.pipe == 2 else 4) * (plan.micros - 1) + 2 * (plan.pipe - 1)


def fit_late(estimates: Floats, seconds: Floats, plans: Sequence[Plan]) -> Late:
    """The devices and the seconds that explain these steps best; none if nothing does."""
    ways = [Late(np.inf, 0.0)]
    for devices in sorted({one.devices for one in plans}):
        ways += [Late(devices, float(one)) for one in TRIED]
    return min(ways, key=lambda one: off(one.slowed(estimates, plans), seconds))


def off(estimates: Floats, seconds: Floats) -> float:
    """How far estimates are off in all: each row counts less the farther it is (Cauchy)."""
    return float(np.log1p((np.log(estimates / seconds) / WITHIN) ** 2).sum())
