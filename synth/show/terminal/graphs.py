"""A machine's graph in few words."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from hierarchies import Domain
from synth.ask.answers.graphs import GraphReply, LevelOfGraph, Nodes
from synth.show.terminal.style import Columns, faults_text, paragraphs, pluralize, shape, table_of

_MIDDLES = {Domain.SWITCH: ("switch", "switches"), Domain.BUS: ("bus", "buses")}


def render_graph(answer: GraphReply) -> RenderableType:
    """How many nodes and cables, level by level, and how to have them."""
    nodes = ", ".join(_count_nodes(answer.nodes))
    lacks = faults_text(answer.exceptions)
    return paragraphs(
        f"{answer.system.name}: {shape(answer.system.levels)}",
        f"exceptions: {lacks}" if lacks else None,
        f"{nodes}; {pluralize(answer.edges.link, 'cable')}\n",
        table_of(answer.levels, _LEVELS, right="cables"),
        "\n-o FILE writes it: .graphml and .json for networkx, .dot, .svg to look at.",
    )


def _count_nodes(nodes: Nodes) -> Iterator[str]:
    yield pluralize(nodes.device, "device")
    if nodes.port:
        yield pluralize(nodes.port, "port")
    if nodes.switch:
        yield "1 switch" if nodes.switch == 1 else f"{nodes.switch} switches"
    if nodes.bus:
        yield "1 bus" if nodes.bus == 1 else f"{nodes.bus} buses"


_LEVELS: Columns[LevelOfGraph] = {
    "level": lambda level: level.name,
    "joined by": lambda level: _hub_text(level),
    "ports": lambda level: str(level.ports) if level.ports else "-",
    "cables": lambda level: str(level.links),
    "GB/s each": lambda level: _rates(level),
}


def _hub_text(level: LevelOfGraph) -> str:
    if level.domain not in _MIDDLES:
        return f"a {level.domain.value}"
    one, several = _MIDDLES[level.domain]
    return f"{level.middles} {one if level.middles == 1 else several}"


def _rates(level: LevelOfGraph) -> str:
    if level.slowest_GB_per_s is None or level.fastest_GB_per_s is None:
        return "-"
    slowest, fastest = level.slowest_GB_per_s, level.fastest_GB_per_s
    return f"{fastest:g}" if slowest == fastest else f"{slowest:g} to {fastest:g}"
