"""The simulated run phase by phase: the input of both trace and drawing."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from hierarchies import Devices
from synth.collective.emit.mesh import RankOrder, mesh
from synth.collective.emit.source import EmitSource
from synth.collective.price.steps import InstructionPrice
from synth.collective.semantics.schedule import Phase
from synth.events.overlap import PhaseSpan, simulate_lanes


@dataclass(frozen=True)
class PhaseRun:
    """A phase of a stripe, both counted from 1, its price, and when it works on its segments.

    Overlapping phases have a ``lane`` each, counted from 0; otherwise all share one.
    """

    stripe: int
    step: int
    lane: int
    phase: Phase
    price: InstructionPrice
    spans: tuple[PhaseSpan, ...]


def phase_runs(source: EmitSource) -> list[PhaseRun]:
    """Returns every phase of every stripe."""
    spans: dict[tuple[int, int], list[PhaseSpan]] = defaultdict(list)
    for span in simulate_lanes(source.lanes):
        spans[span.lane, span.phase].append(span)
    together = bool(source.beside) or source.schedule.segments > 1
    found: list[PhaseRun] = []
    for number, stripe in enumerate(source.stripes):
        pairs = zip(stripe.schedule.phases, stripe.prices, strict=True)
        for step, (phase, price) in enumerate(pairs):
            lane = len(found) if together else 0
            when = tuple(spans[number, step])
            found.append(PhaseRun(number + 1, step + 1, lane, phase, price, when))
    return found


def lanes_of(runs: list[PhaseRun]) -> int:
    """Returns how many lanes the runs have, at least one."""
    return 1 + max((run.lane for run in runs), default=0)


def names_of_devices(source: EmitSource, devices: Devices) -> list[str]:
    """Returns names of devices by number and coordinates on the parallelism axes."""
    axes = source.placement.axes
    ranks = mesh(source.placement, RankOrder.AXES).ranks(devices)
    coordinates = np.unravel_index(ranks, [axis.size for axis in axes])
    names = [axis.name for axis in axes]
    return [
        f"device {device} ({', '.join(f'{n} {c}' for n, c in zip(names, at, strict=True))})"
        for device, at in zip(devices.tolist(), np.stack(coordinates, axis=1).tolist(), strict=True)
    ]
