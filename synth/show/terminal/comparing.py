"""How two answers differ, as people read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType

from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.comparing import DiffReply, LineDifference, Recommendation, ValueDifference
from synth.show.terminal.style import Columns, paragraphs, table, table_of

UNNAMED_HEADS = ("first", "second")
_NAMES = ("system", "name", "systems", "model", "job", "plan", "pin", "request", "bytes")
"""Keys whose values say by themselves what an answer is about, the first that differs."""
_LONGEST_CHARACTERS = 40
_Heads = tuple[str, str]


def render_diff(answer: DiffReply) -> RenderableType:
    """What was asked and on what machine, where that differs; then the lines that do."""
    if answer.same:
        return paragraphs("the two answers are the same")
    heads = heads_of(answer)
    return paragraphs(
        *_changes("question", answer.asked, heads),
        *_changes("machine", answer.machine, heads),
        *_lines(answer.lines, heads),
        None if answer.lines else "the recommendation and its time are the same",
    )


def heads_of(answer: DiffReply) -> _Heads:
    """What two answers are called, as ``heads`` says it."""
    changes = [*answer.machine, *answer.asked]
    return heads(
        (one.what, value_text(one, one.first), value_text(one, one.second)) for one in changes
    )


def heads(differences: Iterable[tuple[str, str, str]]) -> _Heads:
    """What two answers are called: by the machine, model, job or whatever else they differ in.

    Given what differs with both values in words, ``-`` for none and nothing for an empty one.
    ``first`` and ``second`` where nothing has two values that are short enough for a heading.
    """
    found = {
        what: (one, other)
        for what, one, other in differences
        if one != other
        and "-" not in (one, other)
        and max(len(one), len(other)) <= _LONGEST_CHARACTERS
    }
    what = next((what for what in (*_NAMES, *found) if what in found), None)
    if what is None:
        return UNNAMED_HEADS
    one, other = (said or f"no {what}" for said in found[what])
    return (one, other) if what in _NAMES else (f"{what} {one}", f"{what} {other}")


def _changes(
    heading: str, changes: Sequence[ValueDifference], heads: _Heads
) -> Iterator[RenderableType]:
    if changes:
        cells: Columns[ValueDifference] = {
            heading: lambda one: one.what,
            heads[0]: lambda one: value_text(one, one.first),
            heads[1]: lambda one: value_text(one, one.second),
        }
        yield table_of(changes, cells, wraps=heads[1])
        yield ""


def value_text(changed: ValueDifference, value: object) -> str:
    """A value as people read it."""
    if changed.what == "bytes" and isinstance(value, int):
        return format_bytes(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return "-" if value is None else str(value)


def line_headings(heads: _Heads) -> Sequence[str]:
    """What stands above the lines of two answers; figures are every second of them."""
    one, other = heads
    return ["", one, "time", other, "time", "ratio"]


def line_cells(line: LineDifference) -> Sequence[str]:
    """A line of both answers, step below step, and how many times as long the second takes."""
    return [
        line.what,
        *_recommendation_cells(line.first),
        *_recommendation_cells(line.second),
        ratio(line),
    ]


def _recommendation_cells(found: Recommendation | None) -> tuple[str, str]:
    return (
        (found.how.replace("; ", ";\n"), format_duration(found.seconds)) if found else ("none", "")
    )


def _lines(lines: Sequence[LineDifference], heads: _Heads) -> Iterator[RenderableType]:
    """Rank by rank, size by size, or entry by entry."""
    if lines:
        made = table(*line_headings(heads), right="time")
        for line in lines:
            made.add_row(*line_cells(line))
        yield made


def ratio(line: LineDifference) -> str:
    """How many times as long the second takes as the first.

    Empty where one is lacking, and of ranks below the best whose programs differ: nobody would
    take the fourth of one answer for the fourth of another.
    """
    first, second = line.first, line.second
    if first is None or second is None or not first.seconds:
        return ""
    listed = line.what.startswith("rank ") and line.what.split()[1] != "1"
    return "" if listed and first.how != second.how else f"{second.seconds / first.seconds:.2f}x"
