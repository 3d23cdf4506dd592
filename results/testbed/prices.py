"""The simulator's prices for pairs, from shaped rates and what single flows said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
from scipy.optimize import nnls

from hierarchies import System
from synth.algorithms import Choice
from synth.lowering import moves
from synth.simulator import Simulator, total_seconds
from testbed.cases import Pair

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
    """Least squares of relative errors, none below 0: seconds = latency + bytes / rate, by level.

    ``flows`` are rows of a file of flows.
    """
    latencies, rates = [], []
    for level in range(levels):
        mine = [flow for flow in flows if flow["level"] == level]
        seconds = np.array(
            [median(flow["microseconds"]) * 1e-6 / flow["messages"] for flow in mine]
        )
        sizes = np.array([flow["size_bytes"] for flow in mine], dtype=np.float64)
        rows = np.stack([np.ones(len(mine)), sizes / sizes.max()], axis=1) / seconds[:, None]
        (latency, whole), _ = nnls(rows, np.ones(len(mine)))
        latencies.append(float(latency))
        rates.append(float(sizes.max() / whole))
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
