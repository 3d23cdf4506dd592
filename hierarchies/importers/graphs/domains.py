"""Domains of a graph: the devices that are joined, and the ports or cables that join them.

Ports and uplinks are abstracted: a *terminal* is a cable into a switch, with the devices that reach
it by any path. The NIC of a GPU, the uplink of a leaf switch and a cable from a device to a
crossbar differ only in the devices behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from hierarchies.errors import InputError
from hierarchies.graphs.machine import Edge, Join, MachineGraph, Node, NodeKind
from hierarchies.importers.disjoint import DisjointSets

Devices = frozenset[str]


@dataclass(frozen=True)
class Terminal:
    """A connection of a domain: the devices behind it, its attachments to middles, its bandwidth.

    The bandwidth is 0 for a dead port, None if not stated.
    """

    behind: Devices
    hangs_on: frozenset[str]
    rate: float | None
    latency_seconds: float | None = None


@dataclass(frozen=True)
class GraphDomain:
    """A group of joined devices: a switch or bus with its terminals, or cables between ends.

    ``cables`` join two sets of devices each: single devices, or the devices behind a port.
    """

    name: str
    kind: NodeKind | None
    devices: Devices
    terminals: tuple[Terminal, ...] = ()
    cables: tuple[tuple[Terminal, Terminal, Edge], ...] = ()
    rate: float | None = None
    latency_seconds: float | None = None
    reduces: bool = False
    level: str = ""


@dataclass(frozen=True)
class Wires:
    """A graph with the devices behind each of its nodes."""

    graph: MachineGraph

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.graph.nodes}

    @cached_property
    def edges(self) -> Mapping[str, tuple[Edge, ...]]:
        edges_of: dict[str, list[Edge]] = {name: [] for name in self.nodes}
        for edge in self.graph.edges:
            edges_of[edge.source].append(edge)
            edges_of[edge.target].append(edge)
        return {name: tuple(edges) for name, edges in edges_of.items()}

    def other(self, edge: Edge, end: str) -> str:
        return edge.target if edge.source == end else edge.source

    @cached_property
    def heights(self) -> Mapping[str, int]:
        """Each node's distance from a device. Raises InputError for an unconnected node."""
        heights = {name: 0 for name, node in self.nodes.items() if node.kind is NodeKind.DEVICE}
        layer = list(heights)
        if not layer:
            raise InputError("no device found", hint="give nodes the attribute kind=device")
        while layer:
            next_layer = []
            for name in layer:
                for edge in self.edges[name]:
                    there = self.other(edge, name)
                    if edge.kind is not Join.DETOUR and there not in heights:
                        heights[there] = heights[name] + 1
                        next_layer.append(there)
            layer = next_layer
        lost = next((name for name in self.nodes if name not in heights), None)
        if lost is not None:
            raise InputError(f"{lost!r} is not connected to a device")
        return heights

    def inward(self, name: str) -> tuple[str, ...]:
        """Return the nodes that a port, switch or bus is attached to: those nearer to devices."""
        kind = self.nodes[name].kind
        nodes = []
        for edge in self.edges[name]:
            there = self.other(edge, name)
            attached = edge.kind is Join.ATTACHED and self.hanging(edge) == name
            lower = edge.kind is Join.LINK and self.heights[there] < self.heights[name]
            if (
                attached
                or (lower and kind is not NodeKind.PORT)
                or (lower and not any(e.kind is Join.ATTACHED for e in self.edges[name]))
            ):
                nodes.append(there)
        return tuple(nodes)

    def hanging(self, edge: Edge) -> str:
        """Return an edge's end that is attached to the other: a port, else a bus or outer node."""
        rank = {NodeKind.PORT: 2, NodeKind.BUS: 1, NodeKind.SWITCH: 0, NodeKind.DEVICE: 0}
        ends = (edge.source, edge.target)
        return max(ends, key=lambda end: (rank[self.nodes[end].kind], self.heights[end]))

    def behind(self, name: str) -> Devices:
        """Return the devices behind a node."""
        if name not in self._behind:
            below = (
                [frozenset({name})]
                if self.nodes[name].kind is NodeKind.DEVICE
                else [self.behind(inner) for inner in self.inward(name)]
            )
            self._behind[name] = frozenset().union(*below)
        return self._behind[name]

    @cached_property
    def _behind(self) -> dict[str, Devices]:
        return {}

    def attachments(self, port: str) -> frozenset[str]:
        """Return the switches and buses to which a port is attached."""
        below = self.inward(port)
        return frozenset(name for name in below if self.nodes[name].kind is not NodeKind.DEVICE)

    def terminal(self, end: str, edge: Edge) -> Terminal:
        """Return the terminal by which an edge enters a domain from one end."""
        hangs: frozenset[str] = frozenset()
        if self.nodes[end].kind is NodeKind.PORT:
            hangs = self.attachments(end)
        elif self.nodes[end].kind is not NodeKind.DEVICE:
            hangs = frozenset({end})
        rate = edge.bandwidth_bytes_per_second
        return Terminal(self.behind(end), hangs, rate, edge.latency_seconds)


def find_domains(wires: Wires) -> list[GraphDomain]:
    """Return all domains of a graph: switches and buses, then cables between devices or ports."""
    middles = [
        _domain_of_middle(wires, node)
        for node in wires.graph.nodes
        if node.kind in (NodeKind.SWITCH, NodeKind.BUS)
    ]
    return [*middles, *_cable_domains(wires)]


def _domain_of_middle(wires: Wires, node: Node) -> GraphDomain:
    terminals = []
    inward = wires.inward(node.name)
    for edge in wires.edges[node.name]:
        there = wires.other(edge, node.name)
        if there in inward:
            terminals.append(wires.terminal(there, edge))
        elif (
            wires.nodes[there].kind is not NodeKind.PORT
            and wires.heights[there] == wires.heights[node.name]
        ):
            raise InputError(
                f"switches {node.name!r} and {there!r}, equally near to devices, are connected",
                hint="in a tree, switches are connected by the switches above them",
            )
    terminals += [
        Terminal(wires.behind(port), wires.attachments(port), 0.0)
        for port in _dead_ports(wires, node)
    ]
    return GraphDomain(
        node.name,
        node.kind,
        frozenset().union(*(terminal.behind for terminal in terminals)),
        tuple(terminals),
        (),
        node.bandwidth_bytes_per_second,
        node.latency_seconds,
        node.reduces,
        node.level,
    )


def _dead_ports(wires: Wires, switch: Node) -> Iterator[str]:
    """Yield ports with a dead cable whose traffic goes over ports of this switch."""
    dead: dict[str, None] = {}
    for edge in wires.edges[switch.name]:
        port = wires.other(edge, switch.name)
        for detour in wires.edges[port] if edge.kind is Join.LINK else ():
            if detour.kind is Join.DETOUR:
                dead[wires.other(detour, port)] = None
    yield from dead


def _cable_domains(wires: Wires) -> Iterator[GraphDomain]:
    """Yield connected cables between devices or ports, as one domain each."""
    cables = [
        edge
        for edge in wires.graph.edges
        if edge.kind is Join.LINK
        and {wires.nodes[edge.source].kind, wires.nodes[edge.target].kind}
        <= {NodeKind.DEVICE, NodeKind.PORT}
        and not _is_way_in(wires, edge)
    ]
    sets = DisjointSets[str]()
    for edge in cables:
        sets.join(edge.source, edge.target)
    groups: dict[str, list[Edge]] = {}
    for edge in cables:
        groups.setdefault(sets.find(edge.source), []).append(edge)
    for name, edges in groups.items():
        joined = tuple(
            (wires.terminal(edge.source, edge), wires.terminal(edge.target, edge), edge)
            for edge in edges
        )
        devices = frozenset().union(*(first.behind | second.behind for first, second, _ in joined))
        yield GraphDomain(name, None, devices, cables=joined, level=common_label(edges))


def common_label(parts: Iterable[Edge | GraphDomain]) -> str:
    """Return the level that all edges or domains name; "" if they differ."""
    labels = {part.level for part in parts}
    return labels.pop() if len(labels) == 1 else ""


def _is_way_in(wires: Wires, edge: Edge) -> bool:
    """Whether a cable from a device to a port attaches the port to it, not part of a ring."""
    kinds = {wires.nodes[edge.source].kind, wires.nodes[edge.target].kind}
    port = edge.source if wires.nodes[edge.source].kind is NodeKind.PORT else edge.target
    return (
        kinds == {NodeKind.DEVICE, NodeKind.PORT}
        and bool(wires.inward(port))
        and any(
            wires.nodes[wires.other(e, port)].kind in (NodeKind.SWITCH, NodeKind.BUS)
            for e in wires.edges[port]
        )
    )
