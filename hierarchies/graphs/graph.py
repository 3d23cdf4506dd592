"""The graph of a machine: its devices, ports, switches and buses, and the cables between them.

Other tools (networkx, Gephi, yEd, Graphviz) read graphs, and other synthesizers start from them.
Ports are those of units (NICs, uplinks); an edge is a cable, the same in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class NodeKind(StrEnum):
    """The kind of a node."""

    DEVICE = "device"
    PORT = "port"
    SWITCH = "switch"
    BUS = "bus"


class Join(StrEnum):
    """The kind of an edge: a cable; the attachment of a port or bus, without a limit of its own; or
    the detour from a dead port to those that carry its traffic.
    """

    LINK = "link"
    ATTACHED = "attached"
    DETOUR = "detour"


@dataclass(frozen=True)
class Node:
    """A node. ``level`` is the level whose links it belongs to; devices have none.

    ``bandwidth_bytes_per_second`` limits the node's total traffic: of a bus its medium, of a dead
    port its former bandwidth. ``latency_seconds`` is of a bus, as its cables have none of their
    own. ``reduces``: a switch that adds up. ``number`` is a device's id.
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

    one: str
    other: str
    level: str = ""
    kind: Join = Join.LINK
    bandwidth_bytes_per_second: float | None = None
    latency_seconds: float | None = None


@dataclass(frozen=True)
class MachineGraph:
    """Nodes and edges, each once."""

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
