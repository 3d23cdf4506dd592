"""Second runs with a fault: each row takes longer by the part of it that the fault touches.

Two models of that part. ``price``: what the price of the row owes to each level and to latency.
``table``: latency is the time of the smallest sizes of the table itself, the rest is bandwidth; the
price says only which level limits. The second does not share the split of a row with the doctor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from results.doctor.pairs import Pair
from synth.measure.calibration.candidates import Predictor
from synth.measure.calibration.measurements import Measurement

Model = Literal["price", "table"]
MODELS: tuple[Model, ...] = ("price", "table")
FELT = 0.05
"""A fault that lengthens no row by more than this share is felt by none: another level limits."""
_FEW = 3


@dataclass(frozen=True)
class Fault:
    """Factors on the busy seconds of levels and on latency; ``level`` is "" for latency."""

    name: str
    level: str
    factor: float


FAULTS = (
    Fault("a dead NIC of eight", "node", 8 / 7),
    Fault("the network at half", "node", 2.0),
    Fault("the inside at half", "gpu", 2.0),
    Fault("latency x3", "", 3.0),
)


def damage(pair: Pair, fault: Fault, model: Model) -> Measurement | None:
    """The second run with a fault; None if no row feels it."""
    run = pair.second
    predictor = Predictor(pair.system, run)
    floor = median(sorted(sample.seconds for sample in run.samples)[:_FEW])
    samples, longest = [], 1.0
    for sample in run.samples:
        price = predictor.at(sample.size_bytes).price
        busy = dict(price.busy_seconds)
        share = price.latency_seconds / price.seconds
        if model == "table":
            share = min(1.0, floor / sample.seconds)
        factor = _factor(fault, share, busy)
        longest = max(longest, factor)
        samples.append(replace(sample, seconds=sample.seconds * factor))
    return replace(run, samples=tuple(samples)) if longest > 1 + FELT else None


def _factor(fault: Fault, share: float, busy: dict[str, float]) -> float:
    if not fault.level:
        return fault.factor * share + (1 - share)
    slowed = busy | {fault.level: busy.get(fault.level, 0.0) * fault.factor}
    return share + (1 - share) * max(slowed.values()) / max(busy.values())
