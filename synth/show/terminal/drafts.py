"""What was imported, as people read it: what is known, what is blank, what may be written there."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from hierarchies import Domain
from synth.ask.answers.importing import BlankPart, DraftPart, ImportReply
from synth.show.terminal.style import Columns, paragraphs, table, table_of

_KEYS = {
    "level": "name",
    "count": "count",
    "domain": "domain",
    "GB/s a port": "bandwidth_GB_per_s",
    "ports": "ports",
    "us": "latency_us",
}
"""By column the key of a level whose value it shows."""


def render_draft(reply: ImportReply) -> RenderableType:
    """The levels with a question mark where something is blank, and the blanks one by one."""
    draft = reply.draft
    found = ", ".join(f"{count} {what}" for what, count in draft.counted.items())
    made = table(*_KEYS, "through", wraps="through")
    needed = {(blank.place, blank.key) for blank in reply.blanks if blank.needed}
    for level in draft.levels:
        cells = (_cell(getattr(level, key), (level.name, key) in needed) for key in _KEYS.values())
        made.add_row(*cells, ", ".join(level.through) or "-")
    return paragraphs(
        *(f"warning: {warning}" for warning in draft.warnings),
        f"{draft.name}: {draft.title}",
        f"found: {found}\n" if found else "nothing was counted\n",
        made,
        f"\n{_device(draft)}",
        *_blanks(reply.blanks),
        "" if draft.notes else None,
        *(f"note: {note}" for note in draft.notes),
        f"\n{_ending(reply)}",
    )


def _cell(value: Domain | float | str | None, blank: bool) -> str:
    if value is None:
        return "?" if blank else "-"
    if isinstance(value, Domain):
        return value.value
    return f"{value:g}" if isinstance(value, float) else str(value)


def _device(draft: DraftPart) -> str:
    memory = draft.memory_GB_per_s
    rate = "?" if memory is None else f"{memory:g}"
    return f"device: {draft.device or 'not said'}, memory {rate} GB/s"


def _blanks(blanks: list[BlankPart]) -> Iterator[RenderableType]:
    if blanks:
        yield ""
        yield table_of(blanks, _BLANKS, wraps="because")


_BLANKS: Columns[BlankPart] = {
    "blank": lambda one: f"{one.place} {one.key}{'' if one.needed else ' (may stay)'}",
    "perhaps": lambda one: "-" if one.suggestion is None else str(one.suggestion),
    "because": lambda one: one.reason or "the files do not say it",
}


def _ending(reply: ImportReply) -> str:
    if reply.complete:
        return "Nothing needed is blank: -o FILE writes a description that can be used."
    return (
        "-o FILE writes the description with its blanks; fill them in, or let --suggested take "
        "what is suggested."
    )
