"""Seconds of buffers that go from device to device: every message is routed link by link.

A message crosses the links of the outermost level at which its two devices differ, and the inner
levels that those pass through; in a torus it goes dimension by dimension. Unlike a collective's,
its bytes are not spread over the members of a child: a NIC shared by two devices carries both
buffers. All messages are under way at once, so the busiest link decides, and the longest wait.

Nobody measures permutes, so on a calibrated system hops and shares are those fitted to an
all-to-all, whose messages are the nearest to these.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grammar import Collective
from hierarchies import Devices, Domain, Fit, System
from hierarchies.links import Floats, Numbers, Wiring, mesh_link
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.link_loads import Entry, route_around_circles, sum_by_link
from synth.collective.algorithms.protocols import Protocol
from synth.collective.price.steps import InstructionPrice
from synth.collective.semantics.point_to_point import PointToPoint

_MEMORY = "memory"
_TOLERANCE = 1e-12
"""Two resources that are busy as long but for rounding: the outer one is named."""


def price_transfer(request: PointToPoint, system: System) -> InstructionPrice:
    """What it costs and why; nothing where every device keeps what it has.

    Raises InputError for a system of more links than can be followed one by one, and for one that
    lacks devices.
    """
    system.check_even()
    pairs, size = request.pairs, float(request.size_bytes)
    names = (*system.hierarchy.names, _MEMORY)
    if not len(pairs):
        free = tuple((name, 0.0) for name in names)
        return InstructionPrice(request.what.value, None, size, 0.0, 0.0, _MEMORY, free[:-1], free)
    wiring = Wiring(system)
    legs = list(_legs(pairs, wiring))
    entries = [entry for leg in legs for entry in leg.entries(wiring)]
    entries += [_unit_load(wiring.memories(end)) for end in pairs.T]
    carried = sum_by_link(entries, wiring) * size
    firsts = (*wiring.firsts, wiring.links)
    busy, most = [], []
    for level, name in enumerate(names):
        here = slice(firsts[level], firsts[level + 1])
        seconds = carried[here] / wiring.bandwidths[here] / _share(system, level)
        busy.append((name, float(seconds.max(initial=0.0))))
        most.append((name, float(carried[here].max(initial=0.0))))
    latency = _launch(system) + _longest_wait(legs, len(pairs), system)
    longest = max(seconds for _, seconds in busy)
    busiest = next(name for name, seconds in busy if seconds >= longest * (1 - _TOLERANCE))
    return InstructionPrice(
        request.what.value,
        None,
        size,
        latency + longest,
        latency,
        busiest,
        tuple(most[:-1]),
        tuple(busy),
    )


class _Leg:
    """The messages that cross one level: which of all, and from which device to which."""

    def __init__(self, level: int, which: Numbers, source: Devices, target: Devices) -> None:
        self.level, self.which, self.source, self.target = level, which, source, target

    def _children(self, wiring: Wiring) -> tuple[Numbers, Numbers, int]:
        """The children of their parents that messages come from and go to, and how many it has."""
        inside = wiring.system.hierarchy.devices_in_child(self.level)
        size = wiring.system.hierarchy.cardinalities[self.level]
        return self.source // inside % size, self.target // inside % size, size

    def entries(self, wiring: Wiring) -> Iterator[Entry]:
        """What a byte of every message puts on links: of the level, and on the way to it."""
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
                passed = route_around_circles(
                    size, circles, here, there, np.ones(len(here)), link.wraps
                )
                for circle, place, each in passed:
                    yield np.zeros_like(circle), circle + place, each

    def _through(self, level: int, wiring: Wiring) -> Iterator[Entry]:
        """Out of the sender's port, or over its medium, and into the receiver's."""
        ends = (self.source, self.target)
        for way, device in enumerate(ends):
            if wiring.system.links[level].domain is Domain.BUS:
                yield _unit_load(wiring.buses(level, device))
            else:
                yield _unit_load(wiring.ports(level, device) + way)

    def hops(self, wiring: Wiring) -> Numbers:
        """How many links of the level each message crosses one after the other."""
        link, (here, there, size) = wiring.system.links[self.level], self._children(wiring)
        if link.domain not in (Domain.RING, Domain.TORUS):
            return np.ones(len(here), dtype=np.int64)
        far: Numbers = np.abs(here - there)
        return np.asarray(np.minimum(far, size - far)) if link.wraps else far


def _legs(pairs: Devices, wiring: Wiring) -> Iterator[_Leg]:
    """Messages by the levels that they cross; in tori they stop where they turn."""
    hierarchy = wiring.system.hierarchy
    now, target = pairs.T.copy()
    for level, link in enumerate(wiring.system.links):
        inside = hierarchy.devices_in_child(level)
        [which] = np.nonzero(now // inside != target // inside)
        if not len(which):
            continue
        ends = target[which]
        if link.domain is Domain.TORUS:
            ends = ends // inside * inside + now[which] % inside
        yield _Leg(level, which, now[which], ends)
        now[which] = ends


def _unit_load(links: Numbers) -> Entry:
    """A byte of each message on a link."""
    return np.zeros_like(links), links, np.ones(len(links))


def _share(system: System, level: int) -> float:
    """What of a level's bandwidth messages reach."""
    fit = _fit(system)
    return fit.levels[level].share_among(2) if fit and level < len(fit.levels) else 1.0


def _launch(system: System) -> float:
    fit = _fit(system)
    if fit:
        return fit.launch_seconds
    return Protocol.SIMPLE.launch_seconds if system.launches else 0.0


def _longest_wait(legs: list[_Leg], messages: int, system: System) -> float:
    """The latencies of all links that a message crosses, of the one that waits longest."""
    fit, wiring = _fit(system), Wiring(system)
    waits: Floats = np.zeros(messages)
    for leg in legs:
        link = system.links[leg.level].latency_seconds
        each = fit.levels[leg.level].hop_seconds if fit else link
        waits[leg.which] += leg.hops(wiring) * each
    return float(waits.max())


def _fit(system: System) -> Fit | None:
    way = (Collective.ALL_TO_ALL.value, Algorithm.DIRECT.value, Protocol.SIMPLE.value)
    return system.calibration.fit(*way) if system.calibration else None
