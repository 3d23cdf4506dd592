"""Conversion of a file's arcs and nodes to a graph with kinds, units and both directions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from hierarchies.errors import InputError
from hierarchies.graphs.machine import Edge, Join, MachineGraph, Node, NodeKind
from hierarchies.importers.hostlist import shorten_list
from hierarchies.importers.structured import require_list

MOST_NODES, MOST_EDGES = 20_000, 200_000
_RATES = {
    "bandwidth_bytes_per_second": 1.0,
    "bandwidth_GB_per_s": 1e9,
    "bandwidth_GBps": 1e9,
    "bandwidth_Gb_per_s": 1e9 / 8,
    "bandwidth_Gbps": 1e9 / 8,
    "bandwidth": None,
    "capacity": None,
    "weight": None,
}
"""Keys of an edge's bandwidth, and their units in bytes per second; None: without a unit."""
_LATENCIES = {"latency_seconds": 1.0, "latency_us": 1e-6, "latency_ns": 1e-9}
_KINDS = {
    NodeKind.DEVICE: re.compile(r"device|gpu|npu|tpu|dcu|accelerator|rank|host|compute", re.I),
    NodeKind.SWITCH: re.compile(r"switch|nvs|spine|leaf|core|router|tor\b|sw\d", re.I),
    NodeKind.PORT: re.compile(r"port|nic|hca|uplink", re.I),
    NodeKind.BUS: re.compile(r"bus|numa|medium", re.I),
}

Attributes = Mapping[str, Any]


@dataclass(frozen=True)
class SourceGraph:
    """A graph as read. ``source`` describes the file; ``notes`` its irregularities."""

    graph: MachineGraph
    source: str
    in_bytes: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arc:
    """One direction of a connection of two nodes, or with ``both`` both directions."""

    here: str
    there: str
    values: Attributes
    both: bool = False


def graph_of_arcs(
    nodes: Mapping[str, Attributes],
    arcs: Sequence[Arc],
    source: str,
    notes: tuple[str, ...] = (),
) -> SourceGraph:
    """Return the graph of nodes and arcs. Raises InputError for invalid or one-way arcs."""
    if not 0 < len(nodes) <= MOST_NODES or len(arcs) > 2 * MOST_EDGES:
        raise InputError(
            f"a graph of {len(nodes)} nodes and {len(arcs)} edges",
            hint=f"1 to {MOST_NODES} nodes and at most {MOST_EDGES} edges",
        )
    kinds = _kinds(nodes)
    joined = {end for arc in arcs for end in (arc.here, arc.there)}
    idle = [name for name in nodes if name not in joined and kinds[name] is not NodeKind.DEVICE]
    if idle:
        nodes = {
            name: values
            for name, values in nodes.items()
            if name in joined or kinds[name] is NodeKind.DEVICE
        }
        notes = (*notes, f"left out, as they are not connected: {shorten_list(idle)}")
    units: set[bool] = set()
    graph_nodes = [
        Node(
            name,
            kinds[name],
            str(values.get("level") or ""),
            number if kinds[name] is NodeKind.DEVICE else None,
            _rate(values, units) if kinds[name] in (NodeKind.BUS, NodeKind.PORT) else None,
            _latency(values),
            str(values.get("reduces", "")).lower() in ("true", "1"),
        )
        for number, (name, values) in enumerate(nodes.items())
    ]
    edges = _edges(nodes, arcs, units)
    if len(units) > 1:
        raise InputError(
            "some bandwidths have a unit and some have none", hint="give the unit for all"
        )
    return SourceGraph(
        MachineGraph("graph", tuple(graph_nodes), edges), source, units != {False}, notes
    )


def _kinds(nodes: Mapping[str, Attributes]) -> dict[str, NodeKind]:
    """Return the kind of each node: by its attribute, else by its name, else a device."""
    kinds = {}
    for name, values in nodes.items():
        stated = str(values.get("kind") or values.get("type") or values.get("role") or "")
        last = name.rpartition("/")[2]
        matches = [kind for kind, words in _KINDS.items() if words.search(stated or last)]
        kinds[name] = (
            NodeKind(stated)
            if stated in [*NodeKind]
            else matches[-1]
            if matches
            else NodeKind.DEVICE
        )
    return kinds


def _edges(
    nodes: Mapping[str, Attributes], arcs: Iterable[Arc], units: set[bool]
) -> tuple[Edge, ...]:
    """Return edges for both directions. Raises InputError if the two differ, or one is missing."""
    edge_of: dict[tuple[str, str], Edge] = {}
    for arc in arcs:
        edge = _edge(nodes, arc, units)
        for here, there in ((arc.here, arc.there), (arc.there, arc.here))[: 1 + arc.both]:
            if (here, there) in edge_of:
                raise InputError(f"two edges from {here[:40]!r} to {there[:40]!r}")
            edge_of[here, there] = edge
    for (here, there), edge in edge_of.items():
        back = edge_of.get((there, here))
        if back is None:
            raise InputError(
                f"a link from {here[:40]!r} to {there[:40]!r}, but not back",
                hint="links of a hierarchy have both directions",
            )
        if back.bandwidth_bytes_per_second != edge.bandwidth_bytes_per_second:
            rates = [e.bandwidth_bytes_per_second for e in (edge, back)]
            raise InputError(
                f"{here[:40]!r} to {there[:40]!r} has {rates[0]:g}, the other way {rates[1]:g}",
                hint="both directions of a link in a hierarchy are equal",
            )
    kept: dict[frozenset[str], Edge] = {}
    for ends, edge in edge_of.items():
        kept.setdefault(frozenset(ends), edge)
    return tuple(kept.values())


def _edge(nodes: Mapping[str, Attributes], arc: Arc, units: set[bool]) -> Edge:
    for end in (arc.here, arc.there):
        if end not in nodes:
            raise InputError(f"an edge to {end[:40]!r}, which is not a node")
    if arc.here == arc.there:
        raise InputError(f"an edge from {arc.here[:40]!r} to itself")
    stated = str(arc.values.get("kind") or "link")
    kind = Join(stated) if stated in [*Join] else Join.LINK
    level = str(arc.values.get("level") or "")
    rate = _rate(arc.values, units) if kind is Join.LINK else None
    return Edge(arc.here, arc.there, level, kind, rate, _latency(arc.values))


def _rate(values: Attributes, units: set[bool]) -> float | None:
    for key, unit in _RATES.items():
        if values.get(key) is not None:
            rate = number_of(values[key], key)
            if rate <= 0:
                raise InputError(f"{key} is {rate:g}", hint="above 0")
            units.add(unit is not None)
            return rate * (unit or 1.0)
    return None


def _latency(values: Attributes) -> float | None:
    for key, unit in _LATENCIES.items():
        if values.get(key) is not None:
            seconds = number_of(values[key], key)
            if seconds < 0:
                raise InputError(f"{key} is {seconds:g}", hint="0 or more")
            return seconds * unit
    return None


def number_of(value: Any, subject: str) -> float:
    """Return a finite number. Raises InputError otherwise."""
    try:
        number = float(value) if not isinstance(value, bool) else float("nan")
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not isfinite(number):
        raise InputError(f"{subject} is {str(value)[:40]!r}", hint="a number")
    return number


def table_of(value: Any, subject: str) -> list[list[float]]:
    """Return a square table of numbers. Raises InputError otherwise."""
    rows = [require_list(row, subject) for row in require_list(value, subject)]
    if len(rows) > MOST_NODES // 4 or any(len(row) != len(rows) for row in rows):
        raise InputError(f"{subject} is not a square table")
    return [[number_of(cell, subject) for cell in row] for row in rows]
