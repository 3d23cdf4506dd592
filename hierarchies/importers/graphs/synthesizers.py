"""The topologies of other synthesizers: MSCCL, TE-CCL and TACOS."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from itertools import islice
from typing import Any

from hierarchies.errors import InputError
from hierarchies.importers.graphs.arcs import (
    MOST_EDGES,
    MOST_NODES,
    Arc,
    Attributes,
    SourceGraph,
    graph_of_arcs,
    list_of,
    number_of,
    table_of,
)

_LONGEST_LINE = 4096
"""In characters; a row of TACOS has four numbers."""


def parse_msccl(attributes: Attributes) -> SourceGraph:
    """MSCCL's topology: ``links[to][from]`` counts; ``switches`` limit groups of links."""
    if isinstance(attributes.get("topology"), dict):
        attributes = attributes["topology"]
    table = table_of(attributes["links"], "links")
    names = [str(number) for number in range(len(table))]
    limits = [
        _limit(entry, names) for entry in list_of(attributes.get("switches") or [], "switches")
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
    note = "MSCCL counts links: what one carries is not in the file."
    return graph_of_arcs(nodes, arcs, "MSCCL's topology", (note,))


def _limit(entry: Any, names: Sequence[str]) -> tuple[frozenset[str], frozenset[str], float]:
    """A limit on all links from some devices to others."""
    if not isinstance(entry, list) or len(entry) != 4:
        raise InputError("a switch of MSCCL is [from, to, bandwidth, name]")
    ends = [frozenset(map(str, list_of(part, "a switch"))) for part in entry[:2]]
    unknown = (ends[0] | ends[1]) - {*names}
    if unknown:
        raise InputError(f"switch {str(entry[3])[:40]!r} names no device {sorted(unknown)[0]!r}")
    return ends[0], ends[1], number_of(entry[2], "bandwidth of a switch")


def _limits_as_switch(
    names: Sequence[str],
    limits: Iterable[tuple[frozenset[str], frozenset[str], float]],
    arcs: Sequence[Arc],
) -> list[Arc]:
    """The arcs of one switch whose ports are the limits of each device to and from all others."""
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
                hint="only what limits one device to or from all others is a port",
            )
    if (
        out.keys() != {*names}
        or into.keys() != {*names}
        or len(arcs) != len(names) * (len(names) - 1)
    ):
        raise InputError("switches that limit only some of the devices are no level")
    outgoing = [Arc(name, "switch", {"weight": out[name]}) for name in names]
    return [*outgoing, *(Arc("switch", name, {"weight": into[name]}) for name in names)]


def parse_te_ccl(attributes: Attributes) -> SourceGraph:
    """TE-CCL's topology: ``capacity[from][to]`` in chunks per second, ``chunk_size`` in GB."""
    table = table_of(attributes["capacity"], "capacity")
    alpha = table_of(attributes["alpha"], "alpha") if attributes.get("alpha") else None
    if alpha is not None and len(alpha) != len(table):
        raise InputError(f"alpha is of {len(alpha)} nodes, capacity of {len(table)}")
    switches = {
        str(number) for number in list_of(attributes.get("switch_indices") or [], "switch_indices")
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
            raise InputError(f"{len(row)} cells", where=f"row {number}", hint="four are wanted")
        source, target, latency, rate = (number_of(cell, "a cell") for cell in row)
        values = {"latency_ns": latency, "bandwidth_GB_per_s": rate}
        arcs.append(Arc(str(int(source)), str(int(target)), values))
    return graph_of_arcs(nodes, arcs, "TACOS's topology")


def check_tacos(text: str) -> None:
    """Raise InputError for a text that does not begin as TACOS's CSV."""
    _devices(_rows(text))


def _devices(rows: Iterator[list[str]]) -> int:
    """The number of NPUs, from the first two rows. Raises InputError for another format."""
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
    """The cells of all lines that are not blank. Raises InputError for too much text."""
    if (count := text.count("\n")) > 3 * MOST_EDGES:
        raise InputError(f"{count} lines", hint=f"a graph has at most {MOST_EDGES} edges")
    for number, line in enumerate(StringIO(text, newline=None), start=1):
        if len(line) > _LONGEST_LINE:
            where = f"line {number}"
            raise InputError(
                f"a line of {len(line)} characters", where=where, hint="is it a graph?"
            )
        for row in csv.reader([line]):
            if any(cell.strip() for cell in row):
                yield row
