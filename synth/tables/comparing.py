"""How two answers differ, as people read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import RenderableType

from hierarchies.units import duration, volume
from synth.tables.style import paragraphs, table_of
from synth.verbs.answers.comparing import Changed, Compared, DiffReply, Told


def diff(answer: DiffReply) -> RenderableType:
    """What was asked and on what machine, where that differs; then the lines that do."""
    if answer.same:
        return paragraphs("the two answers are the same")
    return paragraphs(
        *_changes("asked", answer.asked),
        *_changes("machine", answer.machine),
        *(part for line in answer.lines for part in _line(line)),
        None if answer.lines else "what is recommended, and what it takes, is the same",
    )


def _changes(heading: str, changes: Sequence[Changed]) -> Iterator[RenderableType]:
    if changes:
        cells: Mapping[str, Callable[[Changed], str]] = {
            heading: lambda one: one.what,
            "first": lambda one: value_text(one, one.first),
            "second": lambda one: value_text(one, one.second),
        }
        yield table_of(changes, cells, wraps="second")
        yield ""


def value_text(changed: Changed, value: object) -> str:
    """A value as people read it."""
    if changed.what == "bytes" and isinstance(value, int):
        return volume(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return "-" if value is None else str(value)


def _line(line: Compared) -> Iterator[str]:
    first, second = line.first, line.second
    if first is None or second is None:
        yield f"{line.what}: only in the {'second' if first is None else 'first'} answer"
        yield from (_told(found) for found in (first, second) if found)
        return
    times = f" ({found})" if (found := ratio(line)) else ""
    yield f"{line.what}: {duration(first.seconds)}, then {duration(second.seconds)}{times}"
    if first.how == second.how:
        yield f"  {first.how}"
        return
    yield f"  first:  {first.how}"
    yield f"  second: {second.how}"


def ratio(line: Compared) -> str:
    """How many times as long the second takes as the first.

    Empty where one is lacking, and of ranks below the best whose programs differ: nobody would
    take the fourth of one answer for the fourth of another.
    """
    first, second = line.first, line.second
    if first is None or second is None or not first.seconds:
        return ""
    listed = line.what.startswith("rank ") and line.what.split()[1] != "1"
    return "" if listed and first.how != second.how else f"{second.seconds / first.seconds:.2f}x"


def _told(found: Told) -> str:
    return f"  {found.how}: {duration(found.seconds)}"
