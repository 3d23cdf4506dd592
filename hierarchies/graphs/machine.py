"""The graph of a system: every device, port, switch and cable, named as in faults.

A switch level is a star: its switch, and a port for each block of devices that shares a port. Ports
are attached to the devices, like NICs of nodes with NVLink, or to the inner switch that their
traffic crosses. Rings, meshes and tori join children directly, by a port if a child contains
several devices. Therefore a cut of the graph is a cut of the machine, and maximum flows give the
bounds of its links.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from hierarchies.errors import InputError
from hierarchies.links import Wiring
from hierarchies.system import Domain, System

MOST_EDGES = 500_000


def graph_of(system: System) -> MachineGraph:
    """Return the graph of all present devices and links of a machine.

    Raises InputError for more than ``MOST_EDGES`` links, and for traffic that passes through two
    inner levels in parallel, which no path of a graph can do.
    """
    return _GraphBuilder(Wiring(system)).graph()


@dataclass
class _GraphBuilder:
    """The nodes and edges of a system, added level by level, innermost first."""

    wiring: Wiring
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)

    @property
    def system(self) -> System:
        return self.wiring.system

    @cached_property
    def missing(self) -> frozenset[int]:
        return frozenset(self.system.missing)

    def graph(self) -> MachineGraph:
        levels = range(len(self.system.links))
        meshed = sum(self.wiring.firsts[level + 1] - self.wiring.firsts[level] for level in levels)
        if meshed // 2 + self.system.devices > MOST_EDGES:
            raise InputError(
                f"{self.system.name} has {meshed} links", hint=f"a graph has at most {MOST_EDGES}"
            )
        for device in range(self.system.devices):
            if device not in self.missing:
                self.nodes.append(Node(self.device(device), NodeKind.DEVICE, "", device))
        for level in reversed([level for level in levels if self._is_crossed(level)]):
            match self.system.links[level].domain:
                case Domain.SWITCH:
                    self._add_switches(level)
                case Domain.BUS:
                    self._add_buses(level)
                case Domain.TORUS:
                    self._add_torus(level)
                case Domain.RING | Domain.MESH:
                    self._add_children(level)
        return MachineGraph(self.system.name, tuple(self.nodes), tuple(self.edges))

    def _is_crossed(self, level: int) -> bool:
        """Whether messages use a level's links: a single node's NICs are unused."""
        cardinalities = self.system.hierarchy.cardinalities
        return cardinalities[level] > 1 or any(
            cardinalities[outer] > 1 and level in self.system.through(outer)
            for outer in range(level)
        )

    def device(self, number: int) -> str:
        return self.path(number, len(self.system.links))

    def path(self, device: int, levels: int) -> str:
        """Return the unit that holds a device, as a path of this many levels: ``rack0/node3``."""
        names, digits = self.system.hierarchy.names, self.system.hierarchy.digits(device)
        return "/".join(f"{n}{d}" for n, d in zip(names[:levels], digits, strict=False))

    def middle(self, level: int, device: int) -> str:
        """Return the switch or bus that joins a device's unit to its siblings at a level."""
        parent = self.path(device, level)
        label = f"{self.system.hierarchy.names[level]}-{self.system.links[level].domain.value}"
        return f"{parent}/{label}" if parent else label

    def inside(self, level: int) -> int:
        return self.system.hierarchy.devices_in_child(level)

    def present(self, first: int, count: int) -> list[int]:
        return [d for d in range(first, first + count) if d not in self.missing]

    def domains(self, level: int) -> Iterator[int]:
        """Yield the first device of every parent with present devices in a level's domains."""
        size = self.inside(level) * self.system.hierarchy.cardinalities[level]
        yield from (d for d in range(0, self.system.devices, size) if self.present(d, size))

    def attach(self, node: str, level: int, first: int, count: int) -> None:
        """Attach a port or bus to its devices, or to the inner switch that its traffic crosses."""
        crossed = self.system.through(level)
        name = self.system.hierarchy.names[level]
        ends = [self.device(device) for device in self.present(first, count)]
        if crossed:
            nearest = min(crossed)
            if set(self.system.through(nearest)) != {*crossed} - {nearest}:
                raise InputError(
                    f"traffic of level {name!r} passes through inner levels side by side",
                    hint="a graph has only levels that lie behind each other",
                )
            ends = [self.middle(nearest, device) for device in self.present(first, count)]
        for end in dict.fromkeys(ends):
            self.edges.append(Edge(end, node, name, Join.ATTACHED))

    def _add_switches(self, level: int) -> None:
        link, name = self.system.links[level], self.system.hierarchy.names[level]
        block, children = self.system.block(level), self.system.hierarchy.cardinalities[level]
        for domain in self.domains(level):
            middle = self.middle(level, domain)
            self.nodes.append(Node(middle, NodeKind.SWITCH, name, reduces=link.reduces))
            inside, blocks = self.inside(level), self.system.blocks(level)
            for number in range(domain // inside * blocks, (domain // inside + children) * blocks):
                child, place = divmod(number, blocks)
                first, count = child * inside + place * block, min(block, inside - place * block)
                if not self.present(first, count):
                    continue
                out = self.wiring.firsts[level] + 2 * number
                end = self.device(first)
                if inside > 1 or self.system.through(level):
                    end = self.wiring.cable(out)
                    self._add_port(end, level, out)
                    self.attach(end, level, first, count)
                if out not in self.wiring.detours:
                    self.edges.append(self._cable(end, middle, level, out))

    def _add_port(self, name: str, level: int, out: int) -> None:
        """Add a port; a dead port limits its traffic on the ports that replace it."""
        label = self.system.hierarchy.names[level]
        detour = self.wiring.detours.get(out, ())
        rate = float(self.wiring.bandwidths[out]) if detour else None
        self.nodes.append(Node(name, NodeKind.PORT, label, bandwidth_bytes_per_second=rate))
        for other, _ in detour:
            self.edges.append(Edge(name, self.wiring.cable(other), label, Join.DETOUR))

    def _cable(self, here: str, there: str, level: int, link: int) -> Edge:
        return Edge(
            here,
            there,
            self.system.hierarchy.names[level],
            Join.LINK,
            float(self.wiring.bandwidths[link]),
            self.system.links[level].latency_seconds,
        )

    def _add_buses(self, level: int) -> None:
        name, size = self.system.hierarchy.names[level], self.inside(level)
        children = self.system.hierarchy.cardinalities[level]
        for domain in self.domains(level):
            middle = self.middle(level, domain)
            bus = self.wiring.firsts[level] + domain // (children * size)
            rate = float(self.wiring.bandwidths[bus])
            latency = self.system.links[level].latency_seconds
            self.nodes.append(Node(middle, NodeKind.BUS, name, None, rate, latency))
            self.attach(middle, level, domain, children * size)

    def _add_torus(self, level: int) -> None:
        if self.system.through(level):
            name = self.system.hierarchy.names[level]
            raise InputError(
                f"the cables of torus {name!r} lie behind inner links",
                hint="a graph has the cables of a torus between devices",
            )
        children, size = self.system.hierarchy.cardinalities[level], self.inside(level)
        links, pairs = self.wiring.firsts[level], self.wiring.circle_pairs(level)
        for circle in range(self.system.devices // children):
            first = circle // size * size * children + circle % size
            for place in range(pairs):
                ends = [first + at % children * size for at in (place, place + 1)]
                if not self.missing & {*ends}:
                    link = links + 2 * (circle * pairs + place)
                    here, there = map(self.device, ends)
                    self.edges.append(self._cable(here, there, level, link))

    def _add_children(self, level: int) -> None:
        """Add a ring or mesh: cables between children, or between ports of larger children."""
        children, size = self.system.hierarchy.cardinalities[level], self.inside(level)
        for number, domain in enumerate(range(0, self.system.devices, children * size)):
            ends: dict[int, str] = {}
            for child in range(children):
                first = domain + child * size
                if self.present(first, size):
                    ends[child] = self._child_end(level, first)
            for here, there, link in self._pairs(level, number):
                if here in ends and there in ends:
                    self.edges.append(self._cable(ends[here], ends[there], level, link))

    def _child_end(self, level: int, first: int) -> str:
        size = self.inside(level)
        if size == 1 and not self.system.through(level):
            return self.device(first)
        port = f"{self.path(first, level + 1)}/port0"
        label = self.system.hierarchy.names[level]
        self.nodes.append(Node(port, NodeKind.PORT, label))
        self.attach(port, level, first, size)
        return port

    def _pairs(self, level: int, number: int) -> Iterator[tuple[int, int, int]]:
        """Yield the pairs of joined children of a ring or mesh, with the link of one direction."""
        children = self.system.hierarchy.cardinalities[level]
        if self.system.links[level].domain is Domain.RING:
            pairs = self.wiring.circle_pairs(level)
            first = self.wiring.firsts[level] + number * 2 * pairs
            for place in range(pairs):
                yield place, (place + 1) % children, first + 2 * place
            return
        first = self.wiring.firsts[level] + number * children * (children - 1)
        for here in range(children):
            for there in range(here + 1, children):
                yield here, there, first + here * (children - 1) + there - 1


class NodeKind(StrEnum):
    """The kind of a node."""

    DEVICE = "device"
    PORT = "port"
    SWITCH = "switch"
    BUS = "bus"


class Join(StrEnum):
    """The kind of an edge.

    It is a cable; the attachment of a port or bus, which has no limit; or the detour from a dead
    port to the ports that carry its traffic.
    """

    LINK = "link"
    ATTACHED = "attached"
    DETOUR = "detour"


@dataclass(frozen=True)
class Node:
    """A node. ``level`` is the level whose links it belongs to; devices have none.

    ``bandwidth_bytes_per_second`` limits the node's total traffic: that of a bus to its medium,
    that of a dead port to its former bandwidth. ``latency_seconds`` is that of a bus, whose cables
    have none. ``reduces``: the switch can reduce. ``number`` is a device's id.
    """

    name: str
    kind: NodeKind
    level: str = ""
    number: int | None = None
    bandwidth_bytes_per_second: float | None = None
    latency_seconds: float | None = None
    reduces: bool = False


@dataclass(frozen=True)
class Edge:
    """An edge between two named nodes; the bandwidth is per direction, None if unlimited."""

    source: str
    target: str
    level: str = ""
    kind: Join = Join.LINK
    bandwidth_bytes_per_second: float | None = None
    latency_seconds: float | None = None


@dataclass(frozen=True)
class MachineGraph:
    """Nodes and edges, each once; an edge is a cable, the same in both directions."""

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
