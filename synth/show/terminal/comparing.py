"""The differences of two answers as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType

from hierarchies.units import format_bytes, format_duration
from synth.ask.comparing import DiffReply, LineDifference, ValueDifference
from synth.ask.taking import Recommendation
from synth.show.terminal.style import Columns, paragraphs, table, table_of

UNNAMED_HEADS = ("first", "second")
_NAMES = ("system", "name", "systems", "model", "job", "plan", "pin", "request", "bytes")
"""Keys whose values name an answer, in order of preference."""
_LONGEST_CHARACTERS = 40
_Heads = tuple[str, str]


def render_diff(answer: DiffReply) -> RenderableType:
    """Return the differences of the questions and machines, then of the recommendations."""
    if answer.same:
        return paragraphs("the two answers are the same")
    heads = heads_of(answer)
    return paragraphs(
        *_changes("question", answer.question, heads),
        *_changes("machine", answer.machine, heads),
        *_lines(answer.lines, heads),
        None if answer.lines else "the recommendation and its time are the same",
    )


def heads_of(answer: DiffReply) -> _Heads:
    """Return the names of two answers, as ``heads`` chooses them."""
    changes = [*answer.machine, *answer.question]
    return heads(
        (change.what, value_text(change, change.first), value_text(change, change.second))
        for change in changes
    )


def heads(differences: Iterable[tuple[str, str, str]]) -> _Heads:
    """Return names of two answers: the machine, model, job or other value in which they differ.

    Given the name of each difference with both values as texts, ``-`` where there is no value.
    ``first`` and ``second`` where nothing has two values that are short enough for a heading.
    """
    found = {
        what: (first, other)
        for what, first, other in differences
        if first != other
        and "-" not in (first, other)
        and max(len(first), len(other)) <= _LONGEST_CHARACTERS
    }
    what = next((what for what in (*_NAMES, *found) if what in found), None)
    if what is None:
        return UNNAMED_HEADS
    first, second = (text or f"no {what}" for text in found[what])
    return (first, second) if what in _NAMES else (f"{what} {first}", f"{what} {second}")


def _changes(
    heading: str, changes: Sequence[ValueDifference], heads: _Heads
) -> Iterator[RenderableType]:
    if changes:
        cells: Columns[ValueDifference] = {
            heading: lambda change: change.what,
            heads[0]: lambda change: value_text(change, change.first),
            heads[1]: lambda change: value_text(change, change.second),
        }
        yield table_of(changes, cells, wraps=heads[1])
        yield ""


def value_text(changed: ValueDifference, value: object) -> str:
    """Return a value as text."""
    if changed.what == "bytes" and isinstance(value, int):
        return format_bytes(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return "-" if value is None else str(value)


def line_headings(heads: _Heads) -> Sequence[str]:
    """Return the headings of the lines of two answers."""
    first, second = heads
    return ["", first, "time", second, "time", "ratio"]


def line_cells(line: LineDifference) -> Sequence[str]:
    """Return the cells of a line: both recommendations with their times, and the ratio of times."""
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
    if lines:
        made = table(*line_headings(heads), right="time")
        for line in lines:
            made.add_row(*line_cells(line))
        yield made


def ratio(line: LineDifference) -> str:
    """Return the time of the second recommendation as a multiple of the first.

    Empty if either is missing, and for ranks below the best whose programs differ: the fourth
    rows of two answers do not correspond.
    """
    first, second = line.first, line.second
    if first is None or second is None or not first.seconds:
        return ""
    listed = line.what.startswith("rank ") and line.what.split()[1] != "1"
    return "" if listed and first.how != second.how else f"{second.seconds / first.seconds:.2f}x"
