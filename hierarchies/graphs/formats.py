"""Graphs as networkx objects and as text: GraphML, node-link JSON, DOT.

Attributes are in SI units, named in their keys; an unlimited edge or node has no bandwidth.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

import networkx as nx

from hierarchies.graphs.drawing import svg
from hierarchies.graphs.machine import Edge, Join, MachineGraph, Node, NodeKind
from hierarchies.system import System

_SHAPES = {
    NodeKind.DEVICE: "box",
    NodeKind.PORT: "cds",
    NodeKind.SWITCH: "hexagon",
    NodeKind.BUS: "component",
}
_STYLES = {Join.LINK: "solid", Join.ATTACHED: "dotted", Join.DETOUR: "dashed"}


def networkx_graph(graph: MachineGraph) -> nx.Graph[str]:
    """Return an undirected ``networkx.Graph`` with an attribute for each known value."""
    network: nx.Graph[str] = nx.Graph(name=graph.name)
    for node in graph.nodes:
        network.add_node(node.name, **_known_attributes(node, "name"))
    for edge in graph.edges:
        network.add_edge(edge.source, edge.target, **_known_attributes(edge, "source", "target"))
    return network


def _known_attributes(thing: Node | Edge, *keys: str) -> dict[str, Any]:
    values = {field.name: getattr(thing, field.name) for field in fields(thing)}
    known = {
        key: value
        for key, value in values.items()
        if key not in keys and value is not None and value is not False and value != ""
    }
    return known | {"kind": thing.kind.value}


def graphml(graph: MachineGraph) -> str:
    """Write GraphML, which networkx, Gephi and yEd read."""
    return "\n".join(nx.generate_graphml(networkx_graph(graph))) + "\n"


def node_link(graph: MachineGraph) -> str:
    """Write the JSON of ``networkx.node_link_graph(data, edges="edges")``."""
    return json.dumps(nx.node_link_data(networkx_graph(graph), edges="edges"), indent=1) + "\n"


def dot(graph: MachineGraph) -> str:
    """Write the language of Graphviz, with the units of the outermost level as clusters."""
    return "\n".join(_dot(graph)) + "\n"


def _dot(graph: MachineGraph) -> Iterator[str]:
    yield f"graph {_quote(graph.name)} {{"
    yield '  node [fontname="sans-serif"]; edge [fontname="sans-serif"];'
    parts: dict[str, list[Node]] = {}
    for node in graph.nodes:
        outermost, inside, _ = node.name.partition("/")
        parts.setdefault(outermost if inside else "", []).append(node)
    for number, (part, nodes) in enumerate(parts.items()):
        if part:
            yield f"  subgraph cluster_{number} {{ label={_quote(part)};"
        for node in nodes:
            shape = _SHAPES[node.kind]
            yield f"    {_quote(node.name)} [kind={node.kind.value} shape={shape}];"
        if part:
            yield "  }"
    for edge in graph.edges:
        rate = edge.bandwidth_bytes_per_second
        label = "" if rate is None else f' label="{rate / 1e9:g} GB/s"'
        ends = f"{_quote(edge.source)} -- {_quote(edge.target)}"
        yield f"  {ends} [style={_STYLES[edge.kind]}{label}];"
    yield "}"


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


Writer = Callable[[System, MachineGraph], str]
FORMATS: Mapping[str, Writer] = {
    "graphml": lambda system, graph: graphml(graph),
    "json": lambda system, graph: node_link(graph),
    "dot": lambda system, graph: dot(graph),
    "svg": lambda system, graph: svg(system),
}
"""Writers by format name, which is also the suffix of its files."""
