"""Parses graphs from other tools: GraphML, node-link JSON, MSCCL, TE-CCL and TACOS.

Bandwidths have the units that their keys name. If a file counts links, or has numbers without
units, these are kept, and ``in_bytes`` is false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hierarchies.errors import InputError
from hierarchies.importers import markup, structured
from hierarchies.importers.graphs.arcs import (
    Arc,
    Attributes,
    SourceGraph,
    graph_of_arcs,
    list_of,
    number_of,
)
from hierarchies.importers.graphs.synthesizers import (
    check_tacos,
    parse_msccl,
    parse_tacos,
    parse_te_ccl,
)
from hierarchies.importers.markup import parse_xml
from hierarchies.importers.structured import parse_json, require_mapping


def parse_graph(text: str) -> SourceGraph:
    """The graph of a text. Raises InputError for an unknown format."""
    start = text.lstrip()[:1]
    if start == "<":
        return _parse_graphml(text)
    if start in "{[":
        value = parse_json(text)
        if isinstance(value, dict):
            for keys, read in _BY_KEYS.items():
                if {*keys} <= value.keys():
                    return read(value)
        raise InputError(
            "JSON that is no graph",
            hint="node-link data of networkx has 'nodes' and 'edges', a topology of MSCCL "
            "'links', of TE-CCL 'capacity'",
        )
    return parse_tacos(text)


def check_beginning(text: str) -> None:
    """Raise InputError for a text that does not begin as a graph of a known format."""
    start = text.lstrip()[:1]
    if start == "<":
        markup.check_beginning(text, "graphml")
    elif start in "{[":
        structured.check_beginning(text, *(f'"{keys[0]}"' for keys in _BY_KEYS))
    else:
        check_tacos(text)


def _parse_graphml(text: str) -> SourceGraph:
    root = parse_xml(text)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    graph = root.find("graph")
    if root.tag != "graphml" or graph is None:
        raise InputError(f"<{root.tag[:40]}> is no GraphML", hint="it has <graphml> with <graph>")
    keys = {key.get("id", ""): key for key in root.iterfind("key")}
    undirected = graph.get("edgedefault") != "directed"
    nodes = {node.get("id", ""): _data(node, keys) for node in graph.iterfind("node")}
    arcs = [
        Arc(edge.get("source", ""), edge.get("target", ""), _data(edge, keys), undirected)
        for edge in graph.iterfind("edge")
    ]
    return graph_of_arcs(nodes, arcs, "GraphML")


def _data(element: Any, keys: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for data in element.iterfind("data"):
        key = keys.get(data.get("key", ""))
        if key is None or key.get("attr.name") is None:
            continue
        text = (data.text or "").strip()
        if key.get("attr.type") in ("int", "long", "float", "double"):
            values[key.get("attr.name")] = number_of(text, key.get("attr.name"))
        else:
            values[key.get("attr.name")] = text
    return values


def _parse_node_link(attributes: Attributes) -> SourceGraph:
    arcs_key = "edges" if "edges" in attributes else "links"
    nodes = {
        str(require_mapping(node, "a node").get("id")): require_mapping(node, "a node")
        for node in list_of(attributes["nodes"], "nodes")
    }
    arcs = []
    for entry in list_of(attributes[arcs_key], arcs_key):
        edge = require_mapping(entry, "an edge")
        ends = str(edge.get("source")), str(edge.get("target"))
        arcs.append(Arc(*ends, edge, not attributes.get("directed")))
    return graph_of_arcs(nodes, arcs, "node-link JSON")


_BY_KEYS: Mapping[tuple[str, ...], Callable[[Attributes], SourceGraph]] = {
    ("nodes", "edges"): _parse_node_link,
    ("nodes", "links"): _parse_node_link,
    ("capacity",): parse_te_ccl,
    ("links",): parse_msccl,
    ("topology", "msccl_type"): parse_msccl,
}
"""Readers of JSON by the keys that identify their formats, in the order of trial."""
