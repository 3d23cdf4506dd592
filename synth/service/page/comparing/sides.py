"""Two answers side by side: the summary of each, and their differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from hierarchies import InputError
from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.ranked import SweepReply
from synth.ask.answers.training.planned import StepPlanReply
from synth.ask.comparing import DiffQuestion, DiffReply, LineDifference, ValueDifference, diff
from synth.ask.questions.question import parse_question
from synth.ask.table import Watcher, judge
from synth.ask.taking import recommend
from synth.service.page.answer_routes import ViewedAnswer
from synth.service.page.results import plans_of
from synth.service.page.views import draw_over_sizes, view_of_answer
from synth.show.report.charts import StackedBar, draw_bars
from synth.show.report.details import title
from synth.show.report.plans import ListedPlan, PlanComparison, compare_plans
from synth.show.report.rendering import Cells
from synth.show.terminal.comparing import heads, line_cells, line_headings, value_text
from synth.show.terminal.rows import Ranking
from synth.show.terminal.verdict import verdict

_LONGEST_CHARACTERS = 200


@dataclass(frozen=True)
class Side:
    """One of two answers: its question, its address, and its summary."""

    title: str
    address: str
    headline: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Comparison:
    """Two answers with their names; ``why_not`` is the reason if their lines are not comparable.

    ``plans`` replaces lines for answers that plan a whole step.
    """

    names: tuple[str, str]
    sides: tuple[Side, Side]
    question: Cells
    machine: Cells
    lines: Cells
    plans: PlanComparison | None
    drawings: Sequence[tuple[str, Markup]]
    why_not: str
    same: bool


def comparison(first: ViewedAnswer, second: ViewedAnswer) -> Comparison:
    """Compare two answers of one verb."""
    differ, why_not = None, ""
    differing_keys = question_differences(first.question, second.question)
    names = heads(
        (key, _size_text(key, first_text), _size_text(key, second_text))
        for key, first_text, second_text in differing_keys.rows
    )
    plans = _plans(first, second, names)
    if plans is None:
        try:
            differ = _diff(first, second)
        except InputError as error:
            why_not = error.problem
    return Comparison(
        names,
        (_side(first), _side(second)),
        replace(differing_keys, headings=["question", *names]),
        _changes(differ.machine if differ else (), names),
        _lines(differ.lines if differ else (), names),
        plans,
        _drawings(first.ranking, second.ranking, names),
        why_not,
        same=first.body == second.body,
    )


def _size_text(key: str, text: str) -> str:
    """Return the value of a key as a name spells it: bytes have a unit."""
    return format_bytes(int(text)) if key == "bytes" and text.isdecimal() else text


def question_differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> Cells:
    """Return the keys that differ between two questions, with both values; a text by its name."""
    rows = [
        [key, *(_words(_value_in_units(key, question.get(key))) for question in (first, second))]
        for key in dict.fromkeys((*first, *second))
        if first.get(key) != second.get(key)
    ]
    return Cells(["question", "first", "second"], [False] * 3, [False] * 3, rows)


def _value_in_units(key: str, value: Any) -> Any:
    """Return a size or range of sizes with units; any other value unchanged."""
    match key, value:
        case "bytes", int():
            return format_bytes(value)
        case "bytes", [int(low), int(high)]:
            return f"{format_bytes(low)} to {format_bytes(high)}"
    return value


def _words(value: Any) -> str:
    match value:
        case None:
            return "-"
        case {"name": str(name), "text": str()}:
            return name
        case dict():
            text = ", ".join(f"{key}={_words(item)}" for key, item in value.items())
        case list():
            text = ", ".join(map(_words, value))
        case bool():
            text = "yes" if value else "no"
        case _:
            text = str(value)
    return text if len(text) <= _LONGEST_CHARACTERS else f"{text[:_LONGEST_CHARACTERS]}..."


def _diff(first: ViewedAnswer, second: ViewedAnswer) -> DiffReply:
    """Ask ``diff``. Raises InputError for answers that it cannot compare."""
    bodies = {"first": first.body, "second": second.body}
    reply: DiffReply = judge("diff").validate_python(
        diff(parse_question(DiffQuestion, bodies), Watcher()).body
    )
    return reply


def _side(viewed: ViewedAnswer) -> Side:
    if viewed.ranking is not None:
        judged = verdict(viewed.ranking)
        headline, lines = (judged.headline, judged.lines) if judged else ("Nothing was found", ())
        return Side(title(viewed.ranking), viewed.base, headline, lines)
    plans = plans_of(viewed.verb, viewed.body, None, None)
    if plans is not None:
        return Side(plans.title, viewed.base, plans.headline, [*plans.decisions, *plans.verdict])
    view = view_of_answer(viewed.verb, viewed.body)
    return Side(viewed.name, viewed.base, view.headline if view else "", view.lines if view else ())


def _changes(changes: Sequence[ValueDifference], names: tuple[str, str]) -> Cells:
    rows = [
        [change.what, value_text(change, change.first), value_text(change, change.second)]
        for change in changes
    ]
    return Cells(["machine", *names], [False] * 3, [False] * 3, rows)


def _lines(lines: Sequence[LineDifference], names: tuple[str, str]) -> Cells:
    """Return the lines by rank, size, or entry, as in the terminal."""
    figures = [False, False, True, False, True, True]
    rows = [[*line_cells(line)] for line in lines]
    return Cells(line_headings(names), figures, [False, True, False, True, False, False], rows)


def _plans(
    first: ViewedAnswer, second: ViewedAnswer, names: tuple[str, str]
) -> PlanComparison | None:
    """Compare the best plans of two whole steps; None for other answers."""
    if first.verb != "plan" or not all(viewed.body.get("plans") for viewed in (first, second)):
        return None
    replies: list[StepPlanReply] = [
        judge("plan").validate_python(viewed.body) for viewed in (first, second)
    ]
    return compare_plans(
        [ListedPlan(name, reply.best) for name, reply in zip(names, replies, strict=True)]
    )


def _drawings(
    first: Ranking | None, second: Ranking | None, names: tuple[str, str]
) -> Sequence[tuple[str, Markup]]:
    """Draw bus bandwidth and speed-up over sizes, else the time of each recommendation."""
    if first is None or second is None:
        return ()
    first_name, second_name = names
    if isinstance(first, SweepReply) and isinstance(second, SweepReply):
        return draw_over_sizes({first_name: first, second_name: second})
    advised = {first_name: recommend(first), second_name: recommend(second)}
    shown = [
        StackedBar(name, {"time": answer.seconds}) for name, answer in advised.items() if answer
    ]
    if len(shown) < 2:
        return ()
    return [
        ("Time", draw_bars("Time of the recommended programs", ["time"], shown, format_duration))
    ]
