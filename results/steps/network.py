"""Seconds of a plan's collectives on a machine: the planner's prices of what runtimes do.

Prices of the plain collective (``synth.collective.price.defaults``), by what links of such media
reach: no row of a training step has a part in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from grammar import Goal
from hierarchies import Axis, Placement, Reduction, System, load
from hierarchies.placement import row_major_placement
from results.steps.shapes import Plan
from synth.collective.price.defaults import defaults
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import total_seconds
from synth.collective.semantics.point_to_point import NOBODY, PointToPoint, TransferKind
from synth.measure.calibration.typical import apply_typical
from synth.step.point_to_point import price_transfer

PIPE, DATA, TENSOR = "pipe", "data", "tensor"


@dataclass(frozen=True)
class Price:
    """Seconds of a collective, and those of them that do not depend on its size."""

    seconds: float
    latency: float


class Network:
    """Prices on so many nodes of a machine of the catalogue; stages outermost, tensors inside."""

    def __init__(self, machine: str, plan: Plan) -> None:
        self.per_node = load(f"{machine}:1").devices
        self._nodes = max(1, plan.devices // self.per_node)
        self._machine = machine
        self._plan = plan
        self.placement = _placement(machine, self._nodes, plan.pipe, plan.data, plan.tensor)

    def price(self, goal: Goal, axis: str, size: float) -> Price:
        """Of one collective over an axis; nothing where it has one part."""
        if self.placement is None or size <= 0:
            return Price(0.0, 0.0)
        return _price(self._machine, self._nodes, self.placement, goal, axis, float(size))

    def send(self, size: float) -> float:
        """Of handing a buffer from each stage to the next."""
        if self.placement is None or self._plan.pipe == 1:
            return 0.0
        return _send(self._machine, self._nodes, self.placement, int(size))


@cache
def _system(machine: str, nodes: int) -> tuple[System, Simulator]:
    system = apply_typical(load(f"{machine}:{nodes}"))
    return system, Simulator(system)


@cache
def _placement(machine: str, nodes: int, pipe: int, data: int, tensor: int) -> Placement | None:
    """As a framework lays it out; None where an axis would end in the middle of a node.

    A part of a node is the whole of a smaller one.
    """
    system, _ = _system(machine, nodes)
    left = system.devices // (pipe * data * tensor)
    axes = [Axis("left", left), Axis(PIPE, pipe), Axis(DATA, data), Axis(TENSOR, tensor)]
    if left * pipe * data * tensor != system.devices:
        return None
    return row_major_placement(system.hierarchy, axes)


@cache
def _price(
    machine: str, nodes: int, placement: Placement, goal: Goal, axis: str, size: float
) -> Price:
    _, simulator = _system(machine, nodes)
    found = defaults(simulator, Reduction(placement, (axis,)), size, goal)
    return Price(total_seconds(found.baseline), sum(one.latency_seconds for one in found.baseline))


@cache
def _send(machine: str, nodes: int, placement: Placement, size: int) -> float:
    system, _ = _system(machine, nodes)
    sizes = {axis.name: axis.size for axis in placement.axes}
    stride = sizes[DATA] * sizes[TENSOR]
    devices = np.arange(system.devices)
    senders = np.where(devices % (stride * sizes[PIPE]) >= stride, devices - stride, NOBODY)
    request = PointToPoint(TransferKind.SEND_RECEIVE, placement, senders, size)
    return price_transfer(request, system).seconds
