"""Graphs from other tools as drafts: GraphML, node-link JSON, MSCCL, TE-CCL and TACOS.

Bandwidths have the units that their keys name. If a file counts links, or has numbers without
units, these numbers are kept, and ``in_bytes`` is false. The error for a graph that is not a
hierarchy states bounds from its links.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from itertools import islice
from typing import Any

from hierarchies.errors import InputError
from hierarchies.graphs.machine import NodeKind
from hierarchies.importers import markup, structured
from hierarchies.importers.draft import Draft, ImportOptions
from hierarchies.importers.graphs.arcs import (
    MOST_EDGES,
    MOST_NODES,
    Arc,
    Attributes,
    SourceGraph,
    graph_of_arcs,
    number_of,
    table_of,
)
from hierarchies.importers.graphs.machine import draft_of
from hierarchies.importers.markup import parse_xml
from hierarchies.importers.structured import check_lines, parse_json, require_list, require_mapping

MOST_DEVICES = 64
"""The most devices for which maximum flows are computed."""
_LONGEST_LINE = 4096
"""The longest line in characters. A row of TACOS has four numbers."""


def read(text: str, options: ImportOptions) -> Draft:
    """Return the draft of a graph. Raises InputError for invalid texts and irregular graphs.

    Such errors include the bounds that maximum flows give, which need no levels.
    """
    source_graph = parse_graph(text)
    try:
        return draft_of(source_graph)
    except InputError as error:
        hints = (error.hint, _describe_flow_rates(source_graph))
        raise InputError(
            f"not a hierarchy: {error.problem}",
            where=error.where,
            hint="; ".join(hint for hint in hints if hint),
        ) from None


def _describe_flow_rates(source_graph: SourceGraph) -> str:
    devices = [node for node in source_graph.graph.nodes if node.kind is NodeKind.DEVICE]
    rated = all(
        e.bandwidth_bytes_per_second is not None or e.kind != "link"
        for e in source_graph.graph.edges
    )
    if not 1 < len(devices) <= MOST_DEVICES or not source_graph.in_bytes or not rated:
        return ""
    # Not at the top of the file: networkx takes longer to load than all other modules together.
    from hierarchies.graphs.flow import flow_rates

    rates = flow_rates(source_graph.graph)
    gather, across = (
        rate / 1e9 for rate in (rates.all_gather_bytes_per_second, rates.broadcast_bytes_per_second)
    )
    return (
        f"by maximum flow, its links allow an all-gather of {gather:.4g} GB/s (buffer over time) "
        f"and a broadcast of {across:.4g}"
    )


def parse_graph(text: str) -> SourceGraph:
    """Return the graph of a text. Raises InputError for an unknown format."""
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
            "the JSON is not a graph",
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
        raise InputError(
            f"<{root.tag[:40]}> is not GraphML", hint="GraphML has <graphml> with <graph>"
        )
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
        for node in require_list(attributes["nodes"], "nodes")
    }
    arcs = []
    for entry in require_list(attributes[arcs_key], arcs_key):
        edge = require_mapping(entry, "an edge")
        ends = str(edge.get("source")), str(edge.get("target"))
        arcs.append(Arc(*ends, edge, not attributes.get("directed")))
    return graph_of_arcs(nodes, arcs, "node-link JSON")


def parse_msccl(attributes: Attributes) -> SourceGraph:
    """MSCCL's topology: ``links[to][from]`` counts; ``switches`` limit groups of links."""
    if isinstance(attributes.get("topology"), dict):
        attributes = attributes["topology"]
    table = table_of(attributes["links"], "links")
    names = [str(number) for number in range(len(table))]
    limits = [
        _limit(entry, names) for entry in require_list(attributes.get("switches") or [], "switches")
    ]
    nodes: dict[str, Attributes] = {name: {"kind": "device"} for name in names}
    arcs = [
        Arc(names[source], names[target], {"weight": rate})
        for target, row in enumerate(table)
        for source, rate in enumerate(row)
        if rate
    ]
    if limits:
        arcs = _limits_as_switch(names, limits, arcs)
        nodes["switch"] = {"kind": "switch"}
    note = "MSCCL counts links: the file does not state the bandwidth of a link."
    return graph_of_arcs(nodes, arcs, "MSCCL's topology", (note,))


def _limit(entry: Any, names: Sequence[str]) -> tuple[frozenset[str], frozenset[str], float]:
    """Return a limit on all links from some devices to others."""
    if not isinstance(entry, list) or len(entry) != 4:
        raise InputError("a switch of MSCCL is [from, to, bandwidth, name]")
    ends = [frozenset(map(str, require_list(part, "a switch"))) for part in entry[:2]]
    unknown = (ends[0] | ends[1]) - {*names}
    if unknown:
        raise InputError(
            f"switch {str(entry[3])[:40]!r} names an unknown device {sorted(unknown)[0]!r}"
        )
    return ends[0], ends[1], number_of(entry[2], "bandwidth of a switch")


def _limits_as_switch(
    names: Sequence[str],
    limits: Iterable[tuple[frozenset[str], frozenset[str], float]],
    arcs: Sequence[Arc],
) -> list[Arc]:
    """Return a switch's arcs, whose ports are the limits of each device to and from all others."""
    rest = {name: frozenset(names) - {name} for name in names}
    out, into = {}, {}
    for sources, targets, rate in limits:
        [device, *others] = sorted(sources if len(sources) < len(targets) else targets) or [""]
        if not others and rest.get(device) == targets:
            out[device] = rate
        elif not others and rest.get(device) == sources:
            into[device] = rate
        else:
            raise InputError(
                f"a switch limits links from {sorted(sources)[:4]} to {sorted(targets)[:4]}",
                hint="only a limit of one device to or from all others is a port",
            )
    if (
        out.keys() != {*names}
        or into.keys() != {*names}
        or len(arcs) != len(names) * (len(names) - 1)
    ):
        raise InputError("switches that limit only some of the devices do not form a level")
    outgoing = [Arc(name, "switch", {"weight": out[name]}) for name in names]
    return [*outgoing, *(Arc("switch", name, {"weight": into[name]}) for name in names)]


def parse_te_ccl(attributes: Attributes) -> SourceGraph:
    """TE-CCL's topology: ``capacity[from][to]`` in chunks per second, ``chunk_size`` in GB."""
    table = table_of(attributes["capacity"], "capacity")
    alpha = table_of(attributes["alpha"], "alpha") if attributes.get("alpha") else None
    if alpha is not None and len(alpha) != len(table):
        raise InputError(f"alpha is of {len(alpha)} nodes, capacity of {len(table)}")
    switches = {
        str(number)
        for number in require_list(attributes.get("switch_indices") or [], "switch_indices")
    }
    chunk = attributes.get("chunk_size")
    size = None if chunk is None else number_of(chunk, "chunk_size")
    names = [str(number) for number in range(len(table))]
    nodes = {name: {"kind": "switch" if name in switches else "device"} for name in names}
    arcs = []
    for source, row in enumerate(table):
        for target, rate in enumerate(row):
            if rate > 0:
                values = {"weight": rate} if size is None else {"bandwidth_GB_per_s": rate * size}
                if alpha is not None and alpha[source][target] >= 0:
                    values["latency_seconds"] = alpha[source][target]
                arcs.append(Arc(names[source], names[target], values))
    notes = () if size else ("Without chunk_size TE-CCL's capacities have no unit.",)
    return graph_of_arcs(nodes, arcs, "TE-CCL's topology", notes)


def parse_tacos(text: str) -> SourceGraph:
    """TACOS's CSV: the number of NPUs, a header, then source, target, latency (ns), GB/s."""
    rows = _rows(text)
    count = _devices(rows)
    nodes = {str(number): {"kind": "device"} for number in range(count)}
    arcs = []
    for number, row in enumerate(rows, start=3):
        if len(row) != 4:
            raise InputError(f"{len(row)} cells", where=f"row {number}", hint="give four")
        source, target, latency, rate = (number_of(cell, "a cell") for cell in row)
        values = {"latency_ns": latency, "bandwidth_GB_per_s": rate}
        arcs.append(Arc(str(int(source)), str(int(target)), values))
    return graph_of_arcs(nodes, arcs, "TACOS's topology")


def check_tacos(text: str) -> None:
    """Raise InputError for a text that does not begin as TACOS's CSV."""
    _devices(_rows(text))


def _devices(rows: Iterator[list[str]]) -> int:
    """Return the number of NPUs, from the first two rows. Raises InputError for another format."""
    begin = list(islice(rows, 2))
    header = [cell.strip().lower() for cell in begin[1]] if len(begin) > 1 else []
    if (
        len(begin) < 2
        or len(begin[0]) != 1
        or header[:2] not in (["src", "dest"], ["source", "target"])
    ):
        raise InputError(
            "neither GraphML, JSON nor TACOS's CSV",
            hint="a topology of TACOS has the number of NPUs, then Src,Dest,Latency (ns),"
            "Bandwidth (GB/s)",
        )
    count = int(number_of(begin[0][0], "the number of NPUs"))
    if not 1 <= count <= MOST_NODES:
        raise InputError(f"{count} NPUs", hint=f"from 1 to {MOST_NODES}")
    return count


def _rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of all lines that are not blank. Raises InputError for too much text."""
    check_lines(text, 3 * MOST_EDGES)
    for number, line in enumerate(StringIO(text, newline=None), start=1):
        if len(line) > _LONGEST_LINE:
            where = f"line {number}"
            raise InputError(
                f"a line of {len(line)} characters", where=where, hint="is it a graph?"
            )
        for row in csv.reader([line]):
            if any(cell.strip() for cell in row):
                yield row


_BY_KEYS: Mapping[tuple[str, ...], Callable[[Attributes], SourceGraph]] = {
    ("nodes", "edges"): _parse_node_link,
    ("nodes", "links"): _parse_node_link,
    ("capacity",): parse_te_ccl,
    ("links",): parse_msccl,
    ("topology", "msccl_type"): parse_msccl,
}
"""Readers of JSON by the keys that identify their formats, in the order of trial."""
