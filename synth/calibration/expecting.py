"""What a measured run should have taken: by what the runtime does when nobody plans, and at best.

Only the devices that took part are priced: with fewer devices busy than a host has, only the ports
that serve those count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from grammar import Collective, Goal
from hierarchies import Axis, Domain, Hierarchy, InputError, Level, Placement, Reduction, System
from hierarchies.fabric import cast
from synth.algorithms import Algorithm, Choice
from synth.bound import Bound, bound
from synth.calibration.measurements import SEND_RECEIVE, Measurement
from synth.defaults import defaults
from synth.margins import Interval, interval
from synth.nccl_model import NVLS, NVLS_TREE, RING, TREE
from synth.prices import StepPrice, priced_by
from synth.protocols import Protocol
from synth.simulator import Simulator

_WAYS = {
    RING: Algorithm.RING,
    TREE: Algorithm.TREE,
    NVLS: Algorithm.IN_NETWORK,
    NVLS_TREE: Algorithm.IN_NETWORK,
    "direct": Algorithm.DIRECT,
}


@dataclass(frozen=True)
class Predicted:
    """One size: the price of the way that was forced or chosen, of all ways, and the bound.

    ``interval`` is where a calibration takes the truth to lie; None without one.
    """

    way: str
    price: StepPrice
    options: Mapping[str, float]
    bound: Bound
    interval: Interval | None = None

    @property
    def seconds(self) -> float:
        return self.price.seconds


class Predictor:
    """Prices the sizes of one measurement. Raises InputError for what cannot be priced."""

    def __init__(self, system: System, measurement: Measurement) -> None:
        if measurement.collective == SEND_RECEIVE:
            raise InputError(
                "a test of sends and receives is no collective",
                where=measurement.source,
                hint="give it to 'calibrate'; 'doctor' reads collectives",
            )
        self.goal = Goal(measurement.collective)
        self.measurement = measurement
        self.system, self.reduction = busy_part(system, measurement)
        told = {RING: Choice.RING, TREE: Choice.TREE}
        self._simulator = Simulator(self.system, told.get(measurement.algorithm or "", Choice.AUTO))

    def at(self, size_bytes: int) -> Predicted:
        found = defaults(self._simulator, self.reduction, size_bytes, self.goal)
        least = bound(self.system, self.reduction, size_bytes, self.goal)
        algorithm, protocol = self.measurement.algorithm, self.measurement.protocol
        way = algorithm or found.chosen
        if way not in found.options:
            raise InputError(
                f"forced to {way}, which {self.goal.value} has not on these links",
                where=self.measurement.source,
                hint=f"there are: {', '.join(found.options)}",
            )
        prices = found.options[way]
        if not prices:
            raise InputError("groups of one rank", where=self.measurement.source)
        price = prices[0] if protocol is None else self._forced(way, Protocol(protocol), size_bytes)
        margin = interval(self._simulator.system, (price,))
        return Predicted(way, price, found.seconds, least, margin)

    def _forced(self, way: str, protocol: Protocol, size_bytes: int) -> StepPrice:
        roles = cast(self.reduction, tuple(range(len(self.reduction.tree.digits))), ())
        collective = Collective(self.goal.value)
        for line in self._simulator.by(collective, _WAYS[way], roles):
            if line.protocol is protocol:
                return priced_by(collective, line, size_bytes)
        raise InputError(
            f"forced to {protocol.value}, which the links of {self.system.name} do not know",
            where=self.measurement.source,
            hint=f"state {protocol.value}_latency_us for the levels that it crosses",
        )


def busy_part(system: System, measurement: Measurement) -> tuple[System, Reduction]:
    """The machine as far as it was busy, with groups and their replicas as a reduction.

    Raises InputError for a part of a circle, whose idle devices would still pass messages on, and
    for groups that are not alike.
    """
    if system.faults and measurement.busy != system.hierarchy.cardinalities:
        raise InputError(
            f"a part of {system.name}, which has exceptions, was busy",
            where=measurement.source,
            hint="measure all of it, or describe the part",
        )
    levels, links, rows = [], [], []
    for position, level in enumerate(system.hierarchy.levels):
        members, busy = measurement.members[position], measurement.busy[position]
        link = system.links[position]
        circle = link.domain in (Domain.RING, Domain.TORUS)
        if circle and busy not in (1, level.cardinality):
            raise InputError(
                f"{busy} of the {level.cardinality} children of the {link.domain.value} "
                f"{level.name!r} were busy",
                where=measurement.source,
                hint="measure whole circles",
            )
        if busy % members:
            raise InputError(
                f"groups of {members} among {busy} at level {level.name!r}",
                where=measurement.source,
                hint="groups must be alike",
            )
        whole = system.hierarchy.devices_in_child(position)
        inside = prod(measurement.busy[position + 1 :])
        levels.append(Level(level.name, busy))
        links.append(replace(link, ports=_ports(link.ports, whole, inside)))
        rows.append((members, busy // members))
    hierarchy = Hierarchy(tuple(levels))
    part = replace(system, hierarchy=hierarchy, links=tuple(links))
    columns = list(zip(*rows, strict=True))
    axes = (Axis("groups", prod(columns[1])), Axis("measured", prod(columns[0])))
    return part, Reduction(Placement(hierarchy, axes, (columns[1], columns[0])), ("measured",))


def _ports(ports: int, whole: int, inside: int) -> int:
    """How many of a child's ports serve those devices of it that are busy: its first ones."""
    if inside == whole:
        return ports
    if ports >= whole:
        return ports // whole * inside
    return max(1, inside * ports // whole)
