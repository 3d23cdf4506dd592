"""Profiles of a plan's local work as tables."""

from __future__ import annotations

from rich.console import RenderableType

from hierarchies.units import format_bytes, format_duration
from synth.ask.training.profiles import EventRow, MeasurementPlace, ProfileReply
from synth.show.terminal.style import Columns, paragraphs, pluralize, table_of

MOST_EVENTS = 12
"""The number of events shown; the JSON and the file have all."""


def render_profile(answer: ProfileReply) -> RenderableType:
    """Return the longest events, and where and how they were measured."""
    rest = len(answer.events) - MOST_EVENTS
    shown: Columns[EventRow] = _COUNT_CELLS if answer.where is None else _TIME_CELLS
    return paragraphs(
        f"{answer.name}: {answer.plan}",
        f"{pluralize(answer.operations, 'operation')} in {pluralize(answer.blocks, 'block')} "
        f"separated by communication; {len(answer.events)} of them are distinct\n",
        table_of(
            answer.events[:MOST_EVENTS], shown, right="times,operations,flops,seconds,spread,bytes"
        ),
        f"and {pluralize(rest, 'shorter one')}" if rest > 0 else None,
        _MEASURE_HINT if answer.where is None else _place_text(answer.where),
    )


def _place_text(where: MeasurementPlace) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in where.versions.items())
    who = f"{pluralize(where.processes, 'process')} of {pluralize(where.threads, 'thread')}"
    who += " each" * (where.processes != 1)
    return (
        f"\nmeasured by {who} on {where.processor} ({where.device}), {versions}\n"
        f"the reference drifted by {where.drift:.1%} meanwhile; communication is not measured\n\n"
        "-o FILE writes the profile, for simulate and plan --profile FILE."
    )


_MEASURE_HINT = "\nnot measured: leave out --no-measure to measure"
_COUNT_CELLS: Columns[EventRow] = {
    "event": lambda row: row.name,
    "times": lambda row: str(row.times),
    "operations": lambda row: str(row.operations),
    "flops": lambda row: f"{row.flops:.4g}",
    "bytes": lambda row: format_bytes(row.bytes),
}
_TIME_CELLS: Columns[EventRow] = {
    "event": lambda row: row.name,
    "times": lambda row: str(row.times),
    "operations": lambda row: str(row.operations),
    "seconds": lambda row: format_duration(row.seconds or 0.0),
    "spread": lambda row: f"{row.spread or 0.0:.1%}",
}
