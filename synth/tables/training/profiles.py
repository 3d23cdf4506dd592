"""The local work of a plan, in few words: what takes longest, and how far to trust it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rich.console import RenderableType

from hierarchies.units import duration, volume
from synth.tables.style import many, paragraphs, table_of
from synth.verbs.answers.training.profiles import EventRow, MeasuredWhere, ProfileReply

SHOWN = 12
"""So many events are shown; the JSON and the file have all."""


def profile(answer: ProfileReply) -> RenderableType:
    """The events that take longest, and where and how they were measured."""
    rest = len(answer.events) - SHOWN
    shown: Mapping[str, Callable[[EventRow], str]] = _COUNTED if answer.where is None else _TIMED
    return paragraphs(
        f"{answer.name}: {answer.plan}",
        f"{many(answer.operations, 'operation')} in {many(answer.blocks, 'block')} between which "
        f"something is sent; {len(answer.events)} of them differ\n",
        table_of(answer.events[:SHOWN], shown, right="times,operations,flops,seconds,spread,bytes"),
        f"and {many(rest, 'other')}, which take less" if rest > 0 else None,
        _TO_MEASURE if answer.where is None else _where(answer.where),
    )


def _where(where: MeasuredWhere) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in where.versions.items())
    who = f"{many(where.processes, 'process')} of {many(where.threads, 'thread')}"
    if where.processes != 1:
        who = f"{where.processes} processes of {many(where.threads, 'thread')} each"
    return (
        f"\nmeasured by {who} on {where.processor} ({where.device}), {versions}\n"
        f"the reference moved by {where.drift:.1%} meanwhile; what is sent is not measured\n\n"
        "-o FILE writes the profile, for simulate and plan --profile FILE."
    )


_TO_MEASURE = "\nnothing is measured: leave out --no-measure"
_COUNTED: Mapping[str, Callable[[EventRow], str]] = {
    "event": lambda row: row.name,
    "times": lambda row: str(row.times),
    "operations": lambda row: str(row.operations),
    "flops": lambda row: f"{row.flops:.4g}",
    "bytes": lambda row: volume(row.bytes),
}
_TIMED: Mapping[str, Callable[[EventRow], str]] = {
    "event": lambda row: row.name,
    "times": lambda row: str(row.times),
    "operations": lambda row: str(row.operations),
    "seconds": lambda row: duration(row.seconds or 0.0),
    "spread": lambda row: f"{row.spread or 0.0:.1%}",
}
