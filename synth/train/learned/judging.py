"""How far off an estimator is on what it never saw: whole families, whole models, never rows.

Intervals are conformal: they reach as far as errors did on groups that were held out. That holds
for a new group as far as it is like one of those (groups, not rows, are what is exchanged).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from statistics import mean, median, stdev

import numpy as np
from pydantic import ConfigDict

from synth.train.learned.rungs import Network, Parts, Rates, Trees
from synth.train.learned.samples import Sample

COVERED = 0.9
"""The share of kernels that an interval is to hold."""

Fit = Callable[[Sequence[Sample]], Parts | Rates | Trees | Network]
Logs = Mapping[str, np.ndarray]
"""Of each group the logarithms of measured by estimated seconds."""


@dataclass(frozen=True)
class Error:
    """Of the relative errors of some kernels: the median, and what nine of ten stay below."""

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)
    kernels: int
    median: float
    p90: float


def held_out(samples: Sequence[Sample], fit: Fit, groups: Sequence[str] | None = None) -> Logs:
    """Of each group by an estimator that was fitted to all others."""
    found = {}
    for group in groups or dict.fromkeys(one.group for one in samples):
        seen = [one for one in samples if one.group != group]
        unseen = [one for one in samples if one.group == group]
        found[group] = logarithms(fit(seen), unseen)
    return found


def logarithms(fitted: Parts | Rates | Trees | Network, samples: Sequence[Sample]) -> np.ndarray:
    """Of measured by estimated seconds."""
    said = fitted.seconds([one.kernel for one in samples])
    found: np.ndarray = np.log(np.array([one.seconds for one in samples]) / said)
    return found


def error_of(logs: np.ndarray) -> Error:
    """Relative to what was measured."""
    off = np.abs(np.exp(-logs) - 1.0)
    return Error(len(logs), float(np.median(off)), float(np.quantile(off, 0.9)))


def noise(samples: Sequence[Sample]) -> Error | None:
    """How far one process is off the middle of the others: nothing that sees kernels alone can be
    nearer to what one process takes. None where each was measured in one."""
    several = [one.each for one in samples if len(one.each) > 1]
    if not several:
        return None
    return error_of(np.array([log(median(rest) / first) for first, *rest in several]))


def together(logs: Logs, groups: Sequence[str]) -> Error:
    """Of several groups as one."""
    return error_of(np.concatenate([logs[one] for one in groups]))


def ends(logs: Logs) -> tuple[float, float]:
    """Between which logarithms COVERED lie, each end a rank further out, as of a sample more."""
    found = np.sort(np.concatenate(list(logs.values())))
    outside = (1.0 - COVERED) / 2 * (len(found) + 1)
    at = max(0, int(outside) - 1)
    return float(found[at]), float(found[len(found) - 1 - at])


def coverage(samples: Sequence[Sample], fit: Fit, groups: Sequence[str]) -> dict[str, float]:
    """Of each group the share that intervals hold which were made without it, by the others."""
    outer = held_out(samples, fit, groups)
    found = {}
    for group in groups:
        others = [one for one in groups if one != group]
        low, high = ends(held_out([one for one in samples if one.group != group], fit, others))
        found[group] = float(np.mean((outer[group] >= low) & (outer[group] <= high)))
    return found


def simplest(found: Mapping[str, Logs], groups: Sequence[str]) -> str:
    """The first rung that no later one beats by more than twice the noise.

    A rung is judged by the mean over groups of how far off it is in logarithms, in the mean of a
    group: the median alone would not see who is far off at times. The noise is the standard error
    of the differences between groups.
    """
    off = {
        rung: [float(np.abs(logs[one]).mean()) for one in groups] for rung, logs in found.items()
    }
    names = list(found)
    for at, rung in enumerate(names):
        if not any(_beats(off[one], off[rung]) for one in names[at + 1 :]):
            return rung
    raise AssertionError("nothing beats the last")


def _beats(one: Sequence[float], other: Sequence[float]) -> bool:
    gains = [b - a for a, b in zip(one, other, strict=True)]
    noise = stdev(gains) / sqrt(len(gains)) if len(gains) > 1 else 0.0
    return mean(gains) > 2 * noise
