"""Bounds on collectives by maximum flows on a graph, without any notion of levels.

Each of k devices holds 1/k of the buffer, and all parts must reach every device. Let x be the rate
at which every device can send its part to all others at once. Then every set of devices needs a
bandwidth of x per member to the rest: for every device v the flow from all devices, x from each,
into v is k x. The largest such x is the minimum, over all cuts, of the bandwidth that leaves a set
per member (ForestColl, arXiv 2402.06787, shows that trees reach it). Newton's method finds it:
solve for one x, take a violated cut, and lower x to the rate that this cut allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import networkx as nx

from hierarchies.graphs.machine import Edge, Join, MachineGraph, Node, NodeKind

_SOURCE = ("", "source")
_HOLDS = 1 - 1e-9


@dataclass(frozen=True)
class FlowRates:
    """Bytes per second that the links allow for a buffer on all devices.

    ``all_gather`` (also for reduce-scatter) is the rate of the whole buffer; ``broadcast`` the rate
    from the slowest device, which also bounds an all-reduce.
    """

    all_gather_bytes_per_second: float
    broadcast_bytes_per_second: float


def flow_rates(graph: MachineGraph) -> FlowRates:
    """Return both rates; infinite for one device, 0 if devices are not connected."""
    network = flow_network(graph)
    devices = [node.name for node in graph.nodes if node.kind is NodeKind.DEVICE]
    if len(devices) < 2:
        return FlowRates(float("inf"), float("inf"))
    across = broadcast_flow(network, devices)
    if not across:
        return FlowRates(0.0, 0.0)
    return FlowRates(len(devices) * gather_rate(network, devices), across)


def flow_network(graph: MachineGraph) -> nx.DiGraph[object]:
    """Return the graph as arcs, both ways of each cable; arcs without a limit have no ``capacity``.

    A bus is an arc for all its traffic. A port is two nodes: traffic of its devices enters ``up``
    and leaves by its cables; traffic of its cables enters ``down`` and goes to the devices, or to
    another cable of a ring. Therefore a port shared by devices is not a path between them. A dead
    port forwards up to its bandwidth to the live ports.
    """
    builder = _ArcBuilder(nx.DiGraph(), {node.name: node for node in graph.nodes})
    for node in graph.nodes:
        if node.kind is NodeKind.DEVICE or node.kind is NodeKind.SWITCH:
            builder.arcs.add_node(node.name)
        elif node.bandwidth_bytes_per_second is not None:
            builder.add_limit(node)
    for edge in graph.edges:
        builder.join(edge, edge.source, edge.target)
        builder.join(edge, edge.target, edge.source)
    return builder.arcs


@dataclass(frozen=True)
class _ArcBuilder:
    """The arcs added so far, and the nodes of the graph by name."""

    arcs: nx.DiGraph[object]
    nodes: Mapping[str, Node]

    def add_limit(self, node: Node) -> None:
        """Add the arc of a bus, or both arcs of a dead port."""
        rate = node.bandwidth_bytes_per_second
        for way in ("up", "down") if node.kind is NodeKind.PORT else ("bus",):
            self.arcs.add_edge((node.name, way), (node.name, way, "end"), capacity=rate)

    def join(self, edge: Edge, here: str, there: str) -> None:
        """Add one direction of an edge."""
        limit = {}
        if edge.bandwidth_bytes_per_second is not None:
            limit = {"capacity": edge.bandwidth_bytes_per_second}
        if edge.kind is Join.DETOUR:
            dead = self.nodes[here].bandwidth_bytes_per_second is not None
            way = "up" if dead else "down"
            self.arcs.add_edge(self._end(here, way), (there, way))
        elif edge.kind is Join.LINK and self.nodes[here].kind is NodeKind.PORT:
            for way in ("up", "down"):
                self.arcs.add_edge((here, way), (here, there))
            self.arcs.add_edge((here, there), self._into(there, edge), **limit)
        else:
            self.arcs.add_edge(self._out_of(here), self._into(there, edge), **limit)

    def _into(self, name: str, edge: Edge) -> object:
        match self.nodes[name].kind:
            case NodeKind.PORT:
                return name, "up" if edge.kind is Join.ATTACHED else "down"
            case NodeKind.BUS:
                return name, "bus"
            case _:
                return name

    def _out_of(self, name: str) -> object:
        match self.nodes[name].kind:
            case NodeKind.PORT:
                return self._end(name, "down")
            case NodeKind.BUS:
                return name, "bus", "end"
            case _:
                return name

    def _end(self, name: str, way: str) -> object:
        dead = self.nodes[name].bandwidth_bytes_per_second is not None
        return (name, way, "end") if dead else (name, way)


def broadcast_flow(network: nx.DiGraph[object], devices: list[str]) -> float:
    """Return the least flow from one device to another; links are equal in both directions."""
    root, *others = devices
    return min(float(nx.maximum_flow_value(network, root, other)) for other in others)


def gather_rate(network: nx.DiGraph[object], devices: list[str]) -> float:
    """Return the rate x in bytes per second at which every device can send to all others."""
    rate = min(_initial_rate(network, device) for device in devices)
    network = network.copy()
    pending = list(devices)
    while pending:
        network.add_edges_from((_SOURCE, device, {"capacity": rate}) for device in devices)
        value, (side, _) = nx.minimum_cut(network, _SOURCE, pending[-1])
        if value >= len(devices) * rate * _HOLDS:
            pending.pop()
            continue
        members = sum(device in side for device in devices)
        rate = (value - rate * (len(devices) - members)) / members
        pending = list(devices)
    return rate


def _initial_rate(network: nx.DiGraph[object], device: str) -> float:
    """Return an upper bound of the rate: the arcs leaving all other nodes, as ``x`` of each."""
    others = [node for node in network if node != device]
    whole = sum(data.get("capacity", 0.0) for *_, data in network.edges(others, data=True))
    return float(whole)
