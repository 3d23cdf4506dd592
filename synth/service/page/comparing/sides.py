"""What stands side by side of two answers: what each comes to, and all in which they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from hierarchies import InputError
from hierarchies.units import format_bytes, format_duration
from synth.ask.answers import judge
from synth.ask.answers.comparing import DiffReply, LineDifference, ValueDifference
from synth.ask.answers.ranked import SweepReply
from synth.ask.answers.training.planned import StepPlanReply
from synth.ask.comparing import DiffQuestion, diff
from synth.ask.questions.question import parse_question
from synth.ask.taking import recommend
from synth.collective.ranking.request import Watcher
from synth.service.page.answer_routes import ViewedAnswer
from synth.service.page.results import plans_of
from synth.service.page.views import draw_over_sizes, view_of_answer
from synth.show.report.bars import StackedBar, draw_bars
from synth.show.report.details import title
from synth.show.report.plans import ListedPlan, PlanComparison, compare_plans
from synth.show.report.rendering import Cells
from synth.show.terminal.comparing import heads, line_cells, line_headings, value_text
from synth.show.terminal.rows import Ranking
from synth.show.terminal.verdict import verdict

_LONGEST_CHARACTERS = 200


@dataclass(frozen=True)
class Side:
    """One of two answers: what was asked, where it is, and what it comes to."""

    title: str
    address: str
    headline: str
    said: Sequence[str]


@dataclass(frozen=True)
class Comparison:
    """Two answers, and what each is called; ``why_not``: why lines cannot be told apart.

    ``plans``: of answers that plan a whole step, in place of lines.
    """

    names: tuple[str, str]
    sides: tuple[Side, Side]
    asked: Cells
    machine: Cells
    lines: Cells
    plans: PlanComparison | None
    drawings: Sequence[tuple[str, Markup]]
    why_not: str
    same: bool


def comparison(first: ViewedAnswer, second: ViewedAnswer) -> Comparison:
    """Two answers of one verb side by side."""
    differ, why_not = None, ""
    asked_apart = question_differences(first.question, second.question)
    names = heads(
        (what, _size_text(what, one), _size_text(what, other))
        for what, one, other in asked_apart.rows
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
        replace(asked_apart, headings=["asked", *names]),
        _changes(differ.machine if differ else (), names),
        _lines(differ.lines if differ else (), names),
        plans,
        _drawings(first.ranking, second.ranking, names),
        why_not,
        same=first.body == second.body,
    )


def _size_text(what: str, said: str) -> str:
    """A number of bytes in its unit, where it is to be a name."""
    return format_bytes(int(said)) if what == "bytes" and said.isdecimal() else said


def question_differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> Cells:
    """The keys of two questions that differ, with both values; an own text by its name."""
    rows = [
        [key, *(_words(_value_in_units(key, one.get(key))) for one in (first, second))]
        for key in dict.fromkeys((*first, *second))
        if first.get(key) != second.get(key)
    ]
    return Cells(["asked", "first", "second"], [False] * 3, [False] * 3, rows)


def _value_in_units(key: str, value: Any) -> Any:
    """A size, or the ends of a range of sizes, as one reads them; anything else as it is."""
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
            text = ", ".join(f"{key}={_words(one)}" for key, one in value.items())
        case list():
            text = ", ".join(map(_words, value))
        case bool():
            text = "yes" if value else "no"
        case _:
            text = str(value)
    return text if len(text) <= _LONGEST_CHARACTERS else f"{text[:_LONGEST_CHARACTERS]}..."


def _diff(first: ViewedAnswer, second: ViewedAnswer) -> DiffReply:
    """What ``diff`` says. Raises InputError for answers that it does not take."""
    given = {"first": first.body, "second": second.body}
    found: DiffReply = judge("diff").validate_python(
        diff(parse_question(DiffQuestion, given), Watcher()).body
    )
    return found


def _side(one: ViewedAnswer) -> Side:
    if one.ranking is not None:
        told = verdict(one.ranking)
        headline, said = (told.headline, told.said) if told else ("Nothing was found", ())
        return Side(title(one.ranking), one.base, headline, said)
    plans = plans_of(one.verb, one.body, None, None)
    if plans is not None:
        return Side(plans.title, one.base, plans.headline, [*plans.decisions, *plans.verdict])
    view = view_of_answer(one.verb, one.body)
    return Side(one.name, one.base, view.headline if view else "", view.said if view else ())


def _changes(changes: Sequence[ValueDifference], names: tuple[str, str]) -> Cells:
    rows = [[one.what, value_text(one, one.first), value_text(one, one.second)] for one in changes]
    return Cells(["machine", *names], [False] * 3, [False] * 3, rows)


def _lines(lines: Sequence[LineDifference], names: tuple[str, str]) -> Cells:
    """Rank by rank, size by size, or entry by entry, as a terminal has it."""
    figures = [False, False, True, False, True, True]
    rows = [[*line_cells(one)] for one in lines]
    return Cells(line_headings(names), figures, [False, True, False, True, False, False], rows)


def _plans(
    first: ViewedAnswer, second: ViewedAnswer, names: tuple[str, str]
) -> PlanComparison | None:
    """The plans to be taken of two whole steps beside each other; None if these are no such."""
    if first.verb != "plan" or not all(one.body.get("plans") for one in (first, second)):
        return None
    replies: list[StepPlanReply] = [
        judge("plan").validate_python(one.body) for one in (first, second)
    ]
    return compare_plans(
        [ListedPlan(name, one.best) for name, one in zip(names, replies, strict=True)]
    )


def _drawings(
    first: Ranking | None, second: Ranking | None, names: tuple[str, str]
) -> Sequence[tuple[str, Markup]]:
    """Over sizes bus bandwidth and speed-up of both, else the time of what each has one take."""
    if first is None or second is None:
        return ()
    one, other = names
    if isinstance(first, SweepReply) and isinstance(second, SweepReply):
        return draw_over_sizes({one: first, other: second})
    took = {one: recommend(first), other: recommend(second)}
    shown = [StackedBar(name, {"time": found.seconds}) for name, found in took.items() if found]
    if len(shown) < 2:
        return ()
    return [
        ("Time", draw_bars("Time of what is to be taken now", ["time"], shown, format_duration))
    ]
