"""A machine as a graph: what stands in it, and the links between.

A graph is what other tools read (networkx, Gephi, yEd, Graphviz) and what other synthesizers start
from. Nodes are devices, ports of units (NICs, uplinks), switches and buses; an edge is a cable, the
same in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class NodeKind(StrEnum):
    """What a node is."""

    DEVICE = "device"
    PORT = "port"
    SWITCH = "switch"
    BUS = "bus"


class Join(StrEnum):
    """What an edge is: a cable; a place to which a port or bus belongs, with no limit of its own;
    or the way from a dead port to those that carry its traffic.
    """

    LINK = "link"
    ATTACHED = "attached"
    DETOUR = "detour"


@dataclass(frozen=True)
class Node:
    """A node. ``level`` is the level whose links it belongs to; devices belong to none.

    ``bandwidth_bytes_per_second`` limits what passes a node in all: of a bus its medium, of a dead
    port what it carried. ``latency_seconds`` is of a bus, as its cables have none of their own.
    ``reduces``: a switch that adds up. ``number`` is a device's id.
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
    """What joins two nodes, by their names; the bandwidth is of each direction, None: no limit."""

    one: str
    other: str
    level: str = ""
    kind: Join = Join.LINK
    bandwidth_bytes_per_second: float | None = None
    latency_seconds: float | None = None


@dataclass(frozen=True)
class MachineGraph:
    """Nodes and edges, each of them once."""

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
