"""Prices point-to-point transfers: every message is routed link by link.

A message crosses the links of the outermost level at which its two devices differ, and the inner
levels on the way there; in a torus it is routed dimension by dimension. Unlike in a collective,
its bytes are not spread over the members of a child: a NIC shared by two devices carries both
buffers. All messages are in flight at once, so a transfer takes the seconds of the busiest link
plus the longest latency.

Permutes are rarely measured. A calibrated system therefore uses the hops and shares fitted to
all-to-all, whose messages are the most similar.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import mul

import numpy as np

from grammar import Collective
from hierarchies import Devices, Domain, Fit, System
from hierarchies.links import Numbers, Wiring, mesh_link
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.link_loads import Entry, route_around_circles, sum_by_link
from synth.collective.algorithms.protocols import Protocol
from synth.collective.price.steps import InstructionPrice
from synth.collective.semantics.point_to_point import PointToPoint, TransferKind

_CHOICE = Collective.ALL_TO_ALL.value, Algorithm.DIRECT.value, Protocol.SIMPLE.value
_MEMORY = "memory"
_TOLERANCE = 1e-12
"""Resources whose busy times differ by less are tied, and the outermost is reported."""


def price_transfer(request: PointToPoint, system: System) -> InstructionPrice:
    """Returns the price of a transfer with its breakdown; free if every device keeps its part.

    Raises as ``find_route`` does.
    """
    return find_route(request, system).price(float(request.size_bytes))


def find_route(request: PointToPoint, system: System) -> TransferRoute:
    """Finds what a transfer loads, for any number of bytes.

    Raises InputError for a system with too many links to follow individually, and for a system with
    missing devices.
    """
    system.check_even()
    pairs = request.pairs
    levels = len(system.links) + 1
    if not len(pairs):
        return TransferRoute(request.what, ((),) * levels, (), system)
    wiring = Wiring(system)
    legs = list(_legs(pairs, wiring))
    entries = [entry for leg in legs for entry in leg.entries(wiring)]
    entries += [_unit_load(wiring.memories(end)) for end in pairs.T]
    carried = sum_by_link(entries, wiring)
    firsts = (*wiring.firsts, wiring.links)
    loads = []
    for level in range(levels):
        links = firsts[level] + np.flatnonzero(carried[firsts[level] : firsts[level + 1]])
        distinct = {*zip(carried[links].tolist(), wiring.bandwidths[links].tolist(), strict=True)}
        loads.append(tuple(sorted(distinct)))
    hops = np.zeros((len(pairs), len(system.links)), np.int64)
    for leg in legs:
        hops[leg.which, leg.level] = leg.hops(wiring)
    ways = tuple(map(tuple, np.unique(hops, axis=0).tolist()))
    return TransferRoute(request.what, tuple(loads), ways, system)


@dataclass(frozen=True)
class TransferRoute:
    """The links that a transfer loads, for any number of bytes of each device.

    ``loads``: of each level, and of memory, the distinct pairs of buffers on a link and the link's
    bytes a second. ``hops``: the distinct numbers of links of each level that messages cross in
    turn; none if every device keeps its part.
    """

    kind: TransferKind
    loads: tuple[tuple[tuple[float, float], ...], ...]
    hops: tuple[tuple[int, ...], ...]
    system: System = field(compare=False)  # its hash covers every link

    def price(self, size_bytes: float) -> InstructionPrice:
        """Returns the price of a transfer of ``size_bytes`` of each device, with its breakdown."""
        names = (*self.system.hierarchy.names, _MEMORY)
        if not self.hops:
            free = tuple((name, 0.0) for name in names)
            return InstructionPrice(
                self.kind.value, None, size_bytes, 0.0, 0.0, _MEMORY, free[:-1], free
            )
        busy, most = [], []
        for level, (name, loads) in enumerate(zip(names, self.loads, strict=True)):
            share = _share(self.system, level)
            seconds = (load * size_bytes / bandwidth / share for load, bandwidth in loads)
            busy.append((name, max(seconds, default=0.0)))
            most.append((name, max((load * size_bytes for load, _ in loads), default=0.0)))
        latency = _launch(self.system) + self._wait_seconds(size_bytes)
        longest = max(seconds for _, seconds in busy)
        busiest = next(name for name, seconds in busy if seconds >= longest * (1 - _TOLERANCE))
        return InstructionPrice(
            self.kind.value,
            None,
            size_bytes,
            latency + longest,
            latency,
            busiest,
            tuple(most[:-1]),
            tuple(busy),
        )

    def _wait_seconds(self, size_bytes: float) -> float:
        """Returns the largest sum of latencies of the links that one message crosses."""
        levels = range(len(self.system.links))
        waits = [_hop_seconds(self.system, level, size_bytes) for level in levels]
        return float(max(sum(map(mul, hops, waits)) for hops in self.hops))


class _Leg:
    """The messages that cross one level: their indices, and their end points at this level."""

    def __init__(self, level: int, which: Numbers, source: Devices, target: Devices) -> None:
        self.level, self.which, self.source, self.target = level, which, source, target

    def _children(self, wiring: Wiring) -> tuple[Numbers, Numbers, int]:
        """Returns the children that send, the children that receive, and the level's fan-out."""
        inside = wiring.system.hierarchy.devices_in_child(self.level)
        size = wiring.system.hierarchy.cardinalities[self.level]
        return self.source // inside % size, self.target // inside % size, size

    def entries(self, wiring: Wiring) -> Iterator[Entry]:
        """Yields the load per byte of each message on the level's links and on the inner levels."""
        link = wiring.system.links[self.level]
        for inner in wiring.system.through(self.level):
            yield from self._through(inner, wiring)
        here, there, size = self._children(wiring)
        match link.domain:
            case Domain.SWITCH:
                yield from self._through(self.level, wiring)
            case Domain.BUS:
                yield _unit_load(wiring.buses(self.level, self.source))
            case Domain.MESH:
                yield _unit_load(
                    wiring.meshes(self.level, self.source) + mesh_link(size, here, there)
                )
            case Domain.RING | Domain.TORUS:
                circles = wiring.circles(self.level, self.source)
                loads = route_around_circles(
                    size, circles, here, there, np.ones(len(here)), link.wraps
                )
                for circle, place, load in loads:
                    yield np.zeros_like(circle), circle + place, load

    def _through(self, level: int, wiring: Wiring) -> Iterator[Entry]:
        """Yields the loads of the sender's and the receiver's ports, or of their buses."""
        ends = (self.source, self.target)
        for direction, device in enumerate(ends):
            if wiring.system.links[level].domain is Domain.BUS:
                yield _unit_load(wiring.buses(level, device))
            else:
                yield _unit_load(wiring.ports(level, device) + direction)

    def hops(self, wiring: Wiring) -> Numbers:
        """Returns the number of links of the level that each message crosses in turn."""
        link, (here, there, size) = wiring.system.links[self.level], self._children(wiring)
        if link.domain not in (Domain.RING, Domain.TORUS):
            return np.ones(len(here), dtype=np.int64)
        distance: Numbers = np.abs(here - there)
        return np.asarray(np.minimum(distance, size - distance)) if link.wraps else distance


def _legs(pairs: Devices, wiring: Wiring) -> Iterator[_Leg]:
    """Yields the messages of each level that they cross; in a torus each dimension is a leg."""
    hierarchy = wiring.system.hierarchy
    now, target = pairs.T.copy()
    for level, link in enumerate(wiring.system.links):
        inside = hierarchy.devices_in_child(level)
        [which] = np.nonzero(now // inside != target // inside)
        if not len(which):
            continue
        ends = target[which]
        # Only this dimension's coordinate changes here; the inner coordinates stay.
        if link.domain is Domain.TORUS:
            ends = ends // inside * inside + now[which] % inside
        yield _Leg(level, which, now[which], ends)
        now[which] = ends


def _unit_load(links: Numbers) -> Entry:
    """Returns the load of one byte of each message on a link."""
    return np.zeros_like(links), links, np.ones(len(links))


def _share(system: System, level: int) -> float:
    """Returns the share of a level's bandwidth that messages reach."""
    fit = _fit(system)
    return fit.levels[level].share_among(2) if fit and level < len(fit.levels) else 1.0


def _launch(system: System) -> float:
    fit = _fit(system)
    if fit:
        return fit.launch_seconds
    return Protocol.SIMPLE.launch_seconds if system.launches else 0.0


def _hop_seconds(system: System, level: int, size_bytes: float) -> float:
    """Returns the latency of one link of a level."""
    fit = _fit(system)
    hop = fit.levels[level].hop_seconds if fit else system.links[level].latency_seconds
    curve = system.calibration and system.calibration.curve(*_CHOICE[1:], level)
    return hop * curve.at(size_bytes) if curve else hop


def _fit(system: System) -> Fit | None:
    return system.calibration.fit(*_CHOICE) if system.calibration else None
