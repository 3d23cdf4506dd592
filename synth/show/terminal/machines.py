"""Machines as tables: known and described ones, imported ones with their blanks, and graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, prod
from typing import TYPE_CHECKING

from rich.console import RenderableType

from hierarchies import CalibrationPart, Domain, LevelInFull
from hierarchies.system import are_shared_unevenly
from synth.ask.answers.machine_parts import MachineInBrief, MachineInFull
from synth.ask.machines import CatalogueReply, GraphReply, LevelOfGraph, PlaceReply, SystemReply
from synth.show.terminal.placements import PLACEMENT_HEADING, legend, order_table
from synth.show.terminal.style import (
    Columns,
    axes_text,
    faults_text,
    paragraphs,
    pluralize,
    shape,
    table,
    table_of,
)

if TYPE_CHECKING:  # a table of a known machine must not wait for the importers of all tools
    from synth.ask.importing import BlankPart, ImportReply


def render_systems(answer: CatalogueReply | SystemReply) -> RenderableType:
    """Return the machines of the catalogue, or one with its levels and their sources."""
    if isinstance(answer, SystemReply):
        return _render_system(answer.system)
    return table_of(answer.systems, _CATALOGUE, wraps="description")


_CATALOGUE: Columns[MachineInBrief] = {
    "name": lambda system: system.name,
    "default": lambda system: shape(system.levels),
    "description": lambda system: system.title,
}


def _render_system(system: MachineInFull) -> RenderableType:
    device = system.device
    doubt = " (unconfirmed)" if device.unconfirmed else ""
    levels = {source for level in system.levels for source in level.sources.values()}
    lacks = faults_text(system.exceptions)
    rows = [
        (level, _inside(system.levels, at), at == len(system.levels) - 2)
        for at, level in enumerate(system.levels)
    ]
    return paragraphs(
        f"{system.name}: {system.title}",
        f"{system.devices} devices, {shape(system.levels)}\n",
        table_of(rows, _LEVELS, wraps="note"),
        "",
        f"exceptions: {lacks}" if lacks else None,
        f"device memory: {device.memory_GB_per_s:g} GB/s{doubt}",
        "sources:",
        *(f"  {source}" for source in sorted(levels | {device.source}) if source),
        *_calibration_lines(system.calibration),
    )


def _inside(levels: Sequence[LevelInFull], at: int) -> int:
    """Return the number of devices in each child of a level."""
    return prod(level.count for level in levels[at + 1 :])


_LEVELS: Columns[tuple[LevelInFull, int, bool]] = {
    "level": lambda row: row[0].name,
    "count": lambda row: str(row[0].count),
    "domain": lambda row: ",\n".join(_domain(row[0])),
    "GB/s per port": lambda row: f"{row[0].bandwidth_GB_per_s:g}",
    "ports": lambda row: _ports(*row),
    "latency": lambda row: "\n".join(_latencies(row[0])),
    "through": lambda row: ",\n".join(row[0].through) or "-",
    "note": lambda row: (
        f"unconfirmed: {', '.join(row[0].unconfirmed)}" if row[0].unconfirmed else ""
    ),
}


def _ports(level: LevelInFull, inside: int, innermost: bool) -> str:
    """Return the ports of a child; where they do not divide, how many devices share how many."""
    if innermost and are_shared_unevenly(inside, level.ports):
        return f"{level.ports},\n1 for every {-(-inside // level.ports)}"
    together = gcd(inside, level.ports)
    shared, ports = inside // together, level.ports // together
    uneven = level.domain is Domain.SWITCH and shared > 1 and ports > 1
    return f"{level.ports},\n{ports} for every {shared}" if uneven else str(level.ports)


def _domain(level: LevelInFull) -> Iterator[str]:
    yield level.domain.value
    if level.reduces:
        yield "reduces"
    if not level.wraps:
        yield "open ends"


def _latencies(level: LevelInFull) -> Iterator[str]:
    """Yield the latency of a message by protocol: ``5 us`` for Simple, then ``ll 2 us``."""
    yield f"{level.latency_us:g} us"
    if level.ll_latency_us is not None:
        yield f"ll {level.ll_latency_us:g} us"
    if level.ll128_latency_us is not None:
        yield f"ll128 {level.ll128_latency_us:g} us"


def _calibration_lines(calibration: CalibrationPart | None) -> Iterator[str]:
    if calibration is None:
        return
    rows = sum(fit.rows for fit in calibration.fit)
    yield f"calibrated with {pluralize(rows, 'measured row')}:"
    yield from (f"  {line}" for line in calibration.sources)
    yield from (f"  undetermined: {line}" for line in calibration.undetermined)
    yield from (f"  dropped: {line}" for line in calibration.dropped)


def render_place(answer: PlaceReply) -> RenderableType:
    """Return the placements; of a single one also the order of ranks that each framework needs."""
    levels, single = answer.system.levels, len(answer.described) == 1
    defaults = [] if single else ["default of"]
    rows = table(PLACEMENT_HEADING, "matrix", *defaults, wraps=PLACEMENT_HEADING)
    for described, matrix in zip(answer.described, answer.placements, strict=True):
        names = [order.framework for order in described.orders if order.default]
        where = ";\n".join(described.groups) or "everything on one device"
        rows.add_row(where, str(matrix), *[",\n".join(names) or "-" for _ in defaults])
    orders = [
        "default of: frameworks that use this rank order; --placement shows how to set it in others"
    ]
    return paragraphs(
        f"{'one of ' if single and answer.count > 1 else ''}"
        f"{pluralize(answer.count, 'placement')} of {axes_text(answer.axes)} on {shape(levels)}\n",
        rows,
        f"\nmatrix: {legend(levels, answer.axes)}",
        *(["\nrank order:", *order_table(answer.described[0].orders)] if single else orders),
    )


_DRAFT_KEYS = {
    "level": "name",
    "count": "count",
    "domain": "domain",
    "GB/s per port": "bandwidth_GB_per_s",
    "ports": "ports",
    "us": "latency_us",
}
"""The key of a level that each column shows."""


def render_draft(answer: ImportReply) -> RenderableType:
    """Return the levels, with a question mark for each needed blank, and a list of blanks."""
    draft = answer.draft
    found = ", ".join(f"{count} {what}" for what, count in draft.counted.items())
    rows = table(*_DRAFT_KEYS, "through", wraps="through")
    needed = {(blank.place, blank.key) for blank in answer.blanks if blank.needed}
    for level in draft.levels:
        cells = (
            _draft_cell(getattr(level, key), "?" if (level.name, key) in needed else "-")
            for key in _DRAFT_KEYS.values()
        )
        rows.add_row(*cells, ", ".join(level.through) or "-")
    memory = "?" if draft.memory_GB_per_s is None else f"{draft.memory_GB_per_s:g}"
    ending = "All required values are known: -o FILE writes a usable description."
    if not answer.complete:
        ending = (
            "-o FILE writes the description with its blanks; fill them in, or accept the"
            " suggestions with --suggested."
        )
    blanks = table_of(answer.blanks, _BLANKS, wraps="reason")
    return paragraphs(
        *(f"warning: {warning}" for warning in draft.warnings),
        f"{draft.name}: {draft.title}",
        f"found: {found}\n" if found else "no components were found\n",
        rows,
        f"\ndevice: {draft.device or 'unknown'}, memory {memory} GB/s",
        *(("", blanks) if answer.blanks else ()),
        "" if draft.notes else None,
        *(f"note: {note}" for note in draft.notes),
        f"\n{ending}",
    )


def _draft_cell(value: Domain | float | str | None, blank: str) -> str:
    match value:
        case None:
            return blank
        case Domain():
            return value.value
        case float():
            return f"{value:g}"
    return str(value)


_BLANKS: Columns[BlankPart] = {
    "blank": lambda blank: f"{blank.place} {blank.key}{'' if blank.needed else ' (optional)'}",
    "suggestion": lambda blank: "-" if blank.suggestion is None else str(blank.suggestion),
    "reason": lambda blank: blank.reason or "not in the files",
}


def render_graph(answer: GraphReply) -> RenderableType:
    """Return the nodes and cables of the graph by level."""
    nodes, lacks = answer.nodes, faults_text(answer.exceptions)
    counts = [
        pluralize(nodes.device, "device"),
        *[pluralize(nodes.port, "port")][: nodes.port],
        *[pluralize(nodes.switch, "switch")][: nodes.switch],
        *[pluralize(nodes.bus, "bus")][: nodes.bus],
    ]
    return paragraphs(
        f"{answer.system.name}: {shape(answer.system.levels)}",
        f"exceptions: {lacks}" if lacks else None,
        f"{', '.join(counts)}; {pluralize(answer.edges.link, 'cable')}\n",
        table_of(answer.levels, _GRAPH_LEVELS, right="cables"),
        "\n-o FILE writes the graph: .graphml and .json for networkx, .dot, or .svg.",
    )


_GRAPH_LEVELS: Columns[LevelOfGraph] = {
    "level": lambda level: level.name,
    "domain": lambda level: (
        pluralize(level.middles, level.domain.value)
        if level.domain in (Domain.SWITCH, Domain.BUS)
        else f"a {level.domain.value}"
    ),
    "ports": lambda level: str(level.ports) if level.ports else "-",
    "cables": lambda level: str(level.links),
    "GB/s each": lambda level: _rates(level),
}


def _rates(level: LevelOfGraph) -> str:
    slowest, fastest = level.slowest_GB_per_s, level.fastest_GB_per_s
    if slowest is None or fastest is None:
        return "-"
    return f"{fastest:g}" if slowest == fastest else f"{slowest:g} to {fastest:g}"
