"""The simulator's prices for pairs, from shaped rates and what single flows said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import linear_regression, median
from typing import Any

from hierarchies import System
from results.testbed.cases import Pair
from results.testbed.flows import LARGE_BYTES
from synth.collective.algorithms.algorithms import Choice
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import total_seconds
from synth.collective.semantics.lowering import moves

Told = dict[str, Any]


@dataclass(frozen=True)
class Fit:
    """What single flows cost at each level: seconds of a message, and the rate its bytes reach."""

    latency_seconds: tuple[float, ...]
    bytes_per_second: tuple[float, ...]

    def applied(self, system: System) -> System:
        """The system with what was fitted instead of what was asked for."""
        links = tuple(
            replace(link, latency_seconds=latency, bandwidth_bytes_per_second=rate)
            for link, latency, rate in zip(
                system.links, self.latency_seconds, self.bytes_per_second, strict=True
            )
        )
        return replace(system, links=links)


def nominal(system: System) -> Fit:
    """The shaped rates and nothing else."""
    rates = tuple(link.bandwidth_bytes_per_second for link in system.links)
    return Fit((0.0,) * len(rates), rates)


def fitted(flows: Sequence[Told], levels: int) -> Fit:
    """By level: the seconds of the smallest message, and what each further byte of large ones took.

    The slope is that of a line through the sizes from ``LARGE_BYTES``. What a line would start
    with at size 0 is below 0 here and left out: a shaper lets the last packet pass before it is
    paid for, once a message. ``flows`` are rows of a file of flows.
    """
    latencies, rates = [], []
    for level in range(levels):
        mine = sorted((f for f in flows if f["level"] == level), key=lambda f: f["size_bytes"])
        seconds = [median(flow["microseconds"]) * 1e-6 / flow["messages"] for flow in mine]
        large = [(f["size_bytes"], s) for f, s in zip(mine, seconds, strict=True)]
        sizes, times = zip(*[point for point in large if point[0] >= LARGE_BYTES], strict=True)
        latencies.append(seconds[0])
        rates.append(1 / linear_regression(sizes, times).slope)
    return Fit(tuple(latencies), tuple(rates))


def prices(system: System, pairs: Sequence[Pair]) -> list[float]:
    """Seconds of pairs, step after step in one segment, by rings and chains as they are run."""
    simulator = Simulator(system, Choice.RING)
    return [
        total_seconds(
            price
            for move in moves(pair.derivation)
            for price in simulator.move(move, pair.reduction, pair.schedule.padded_bytes)
        )
        for pair in pairs
    ]
