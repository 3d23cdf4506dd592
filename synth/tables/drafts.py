"""What was imported, as people read it: what is known, what is blank, what may be written there."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from hierarchies import Domain
from synth.tables.style import table
from synth.verbs.answers.importing import Drafted, ImportReply

_COLUMNS = {
    "level": "name",
    "count": "count",
    "domain": "domain",
    "GB/s a port": "bandwidth_GB_per_s",
    "ports": "ports",
    "us": "latency_us",
}


def draft(answer: ImportReply) -> RenderableType:
    """The levels with a question mark where something is blank, and the blanks one by one."""
    told = answer.draft
    found = ", ".join(f"{count} {what}" for what, count in told.counted.items())
    drawn = table(*_COLUMNS, "through", wraps="through")
    needed = {(blank.place, blank.key) for blank in answer.blanks if blank.needed}
    for level in told.levels:
        cells = (
            _cell(getattr(level, key), (level.name, key) in needed) for key in _COLUMNS.values()
        )
        drawn.add_row(*cells, ", ".join(level.through) or "-")
    lines: list[RenderableType] = [
        Text(f"{told.name}: {told.title}"),
        Text(f"found: {found}" if found else "nothing was counted"),
        Text(""),
        drawn,
        Text(""),
        Text(_device(told)),
    ]
    return Group(*lines, *_blanks(answer), *_notes(told), Text(""), Text(_ending(answer)))


def _cell(value: Domain | float | str | None, blank: bool) -> str:
    if value is None:
        return "?" if blank else "-"
    if isinstance(value, Domain):
        return value.value
    return f"{value:g}" if isinstance(value, float) else str(value)


def _device(told: Drafted) -> str:
    memory = told.memory_GB_per_s
    rate = "?" if memory is None else f"{memory:g}"
    return f"device: {told.device or 'not said'}, memory {rate} GB/s"


def _blanks(answer: ImportReply) -> Iterator[RenderableType]:
    if not answer.blanks:
        return
    yield Text("")
    drawn = table("blank", "perhaps", "because", wraps="because")
    for blank in answer.blanks:
        suggestion = "-" if blank.suggestion is None else str(blank.suggestion)
        name = f"{blank.place} {blank.key}{'' if blank.needed else ' (may stay)'}"
        drawn.add_row(name, suggestion, blank.reason or "the files do not say it")
    yield drawn


def _notes(told: Drafted) -> Iterator[RenderableType]:
    if told.notes:
        yield Text("")
    for note in told.notes:
        yield Text(f"note: {note}")


def _ending(answer: ImportReply) -> str:
    if answer.complete:
        return "Nothing needed is blank: -o FILE writes a description that can be used."
    return (
        "-o FILE writes the description with its blanks; fill them in, or let --suggested take "
        "what is suggested."
    )
