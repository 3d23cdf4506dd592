"""What was imported, as people read it: what is known, what is blank, what may be written there."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from synth.tables.style import Json, table

_COLUMNS = {
    "level": "name",
    "count": "count",
    "domain": "domain",
    "GB/s a port": "bandwidth_GB_per_s",
    "ports": "ports",
    "us": "latency_us",
}


def draft(body: Json) -> RenderableType:
    """The levels with a question mark where something is blank, and the blanks one by one."""
    told = body["draft"]
    found = ", ".join(f"{count} {what}" for what, count in told["counted"].items())
    drawn = table(*_COLUMNS, "through", wraps="through")
    needed = {(blank["place"], blank["key"]) for blank in body["blanks"] if blank["needed"]}
    for level in told["levels"]:
        cells = (_cell(level, key, (level["name"], key) in needed) for key in _COLUMNS.values())
        drawn.add_row(*cells, ", ".join(level["through"]) or "-")
    lines: list[RenderableType] = [
        Text(f"{told['name']}: {told['title']}"),
        Text(f"found: {found}" if found else "nothing was counted"),
        Text(""),
        drawn,
        Text(""),
        Text(_device(told)),
    ]
    return Group(*lines, *_blanks(body), *_notes(told), Text(""), Text(_ending(body)))


def _cell(level: Json, key: str, blank: bool) -> str:
    value = level.get(key)
    if value is None:
        return "?" if blank else "-"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _device(told: Json) -> str:
    memory = told["memory_GB_per_s"]
    rate = "?" if memory is None else f"{memory:g}"
    return f"device: {told['device'] or 'not said'}, memory {rate} GB/s"


def _blanks(body: Json) -> Iterator[RenderableType]:
    if not body["blanks"]:
        return
    yield Text("")
    drawn = table("blank", "perhaps", "because", wraps="because")
    for blank in body["blanks"]:
        suggestion = "-" if blank["suggestion"] is None else str(blank["suggestion"])
        name = f"{blank['place']} {blank['key']}{'' if blank['needed'] else ' (may stay)'}"
        drawn.add_row(name, suggestion, blank["reason"] or "the files do not say it")
    yield drawn


def _notes(told: Json) -> Iterator[RenderableType]:
    if told["notes"]:
        yield Text("")
    for note in told["notes"]:
        yield Text(f"note: {note}")


def _ending(body: Json) -> str:
    if body["complete"]:
        return "Nothing needed is blank: -o FILE writes a description that can be used."
    return (
        "-o FILE writes the description with its blanks; fill them in, or let --suggested take "
        "what is suggested."
    )
