"""The report: an answer as one page that loads nothing, with drawings of placement and times."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Template
from markupsafe import Markup

from hierarchies import InputError
from hierarchies.units import format_bytes
from synth.ask.answers.degraded import UnevenAnswerPart, UnevenReply
from synth.ask.answers.machine_parts import LevelInFull
from synth.ask.answers.parts import Json, StepPricePart
from synth.ask.answers.planning import PlanReply, SystemsRankedReply
from synth.ask.answers.ranked import PlacedAnswer, RankingReply, SweepReply
from synth.ask.answers.training.planned import StepPlanReply
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS, judge
from synth.collective.ranking.request import Watcher
from synth.show.report.curves import Curves, draw_curves
from synth.show.report.details import (
    DrawnDevice,
    answer_at,
    answers_of,
    axes_at,
    devices,
    emit_question,
    steps,
    title,
)
from synth.show.report.placement import caption, draw_machine
from synth.show.report.plans import plans_view
from synth.show.report.rendering import Cells, Paragraph, blocks, environment, style
from synth.show.report.topology import Topology, topology
from synth.show.terminal.rows import Ranking
from synth.show.terminal.style import request_text
from synth.show.terminal.table import TABLES

_MOST_PICTURES = 4
_MOST_PLANS = 3
"""So many are drawn beside each other."""


@dataclass(frozen=True)
class PlacementPicture:
    """A placement that is drawn, of which answers it is, and what is said below it."""

    heading: str
    caption: str
    drawing: Markup
    left_out: str
    axes: Sequence[str]
    devices: Sequence[DrawnDevice]


@dataclass(frozen=True)
class AnswerTimeline:
    """The simulated run of one answer, or why there is none."""

    drawing: Markup
    figures: Mapping[str, Any]
    missing: str = ""


@dataclass(frozen=True)
class MachineReport:
    """What is drawn of one system's ranking; ``example`` says of which answer steps and times are.

    ``unpictured``: so many more placements have answers. ``advice``: how to get each answer.
    """

    name: str
    levels: Sequence[LevelInFull]
    curves: Curves | None
    pictures: Sequence[PlacementPicture]
    unpictured: int
    advice: Sequence[tuple[str, str]]
    example: str
    in_segments: bool
    steps: Sequence[tuple[str, StepPricePart]]
    timeline: AnswerTimeline | None


def report(verb: str, question: Json, body: Json) -> str:
    """A page of an answer, in HTML; the question's named texts are given by their names."""
    reply = judge(verb).validate_python(body)
    plans, rankings = None, list[Ranking]()
    said: list[Paragraph | Cells] = []
    if isinstance(reply, StepPlanReply):
        numbers = range(min(_MOST_PLANS, max(1, len(reply.plans))))
        seen = list(dict.fromkeys([reply.advised or 0, *numbers]))
        plans = plans_view(reply, body, seen[:_MOST_PLANS])
    else:
        rankings = reply.systems if isinstance(reply, SystemsRankedReply) else [reply]
        said += blocks(TABLES[verb](body))
    return _template().render(
        title=plans.title if plans else _title(rankings),
        plans=plans,
        verb=verb,
        question=question,
        body=json.dumps(body, ensure_ascii=False),
        takes=isinstance(reply, RankingReply | UnevenReply | PlanReply),
        partial=not reply.complete,
        said=said,
        machines=[_machine(one) for one in rankings],
        style=Markup(style()),
    )


@cache
def _template() -> Template:
    return environment().get_template("report.html")


def _title(rankings: Sequence[Ranking]) -> str:
    """The line of the first, with the names of all systems."""
    others = [one.system.name for one in rankings[1:]]
    return ", ".join([title(rankings[0]), *others])


def _machine(ranking: Ranking) -> MachineReport:
    answers, drawn = answers_of(ranking), topology(ranking.system.levels, ranking.system.exceptions)
    name, levels = ranking.system.name, ranking.system.levels
    drawn_curves = (
        draw_curves(ranking) if isinstance(ranking, SweepReply) and ranking.sizes else None
    )
    if not answers:
        return MachineReport(name, levels, drawn_curves, (), 0, (), "", False, (), None)
    pictured = _picture_rows(ranking, answers)
    pictures = [_picture(ranking, drawn, rows) for rows in pictured[:_MOST_PICTURES]]
    index = _choose_row(ranking)
    answer = answers[index]
    return MachineReport(
        name,
        levels,
        drawn_curves,
        pictures,
        len(pictured) - len(pictures),
        tuple(_advice(ranking, answers)),
        _example(ranking, index),
        _has_segments(answer),
        tuple(steps(answer)),
        _timeline(ranking, index) if answer.steps and isinstance(answer, PlacedAnswer) else None,
    )


def _advice(
    ranking: Ranking, answers: Sequence[PlacedAnswer | UnevenAnswerPart]
) -> Iterator[tuple[str, str]]:
    """How to get each answer; where a run is worth it, also how if that decides for it."""
    for row, one in enumerate(answers):
        if isinstance(one, PlacedAnswer):
            yield _heading(ranking, [row]), one.advice.text
            if worth := one.worth_measuring:
                yield f"{_heading(ranking, [row])}, if measured faster", worth.advice.text


def _picture_rows(
    ranking: Ranking, answers: Sequence[PlacedAnswer | UnevenAnswerPart]
) -> Sequence[Sequence[int]]:
    """The rows of each picture: those of one placement, over the same axes."""
    found: dict[str, list[int]] = {}
    for index, answer in enumerate(answers):
        placed = answer.placement if isinstance(answer, PlacedAnswer) else None
        found.setdefault(f"{placed} {axes_at(ranking, index)}", []).append(index)
    return list(found.values())


def _picture(ranking: Ranking, drawn: Topology, rows: Sequence[int]) -> PlacementPicture:
    answer, over = answer_at(ranking, rows[0]), axes_at(ranking, rows[0])
    there, axes = devices(ranking, answer, drawn), list(answer.axes)
    made = draw_machine(drawn, there, axes, over)
    return PlacementPicture(
        _heading(ranking, rows), caption(axes, over), made, drawn.left_out, axes, there
    )


def _heading(ranking: Ranking, rows: Sequence[int]) -> str:
    """What rows are called: a plan's by their entries, a range's by sizes, others by rank."""
    match ranking:
        case PlanReply():
            return ", ".join(ranking.entries[index].name for index in rows)
        case SweepReply():
            sizes = ", ".join(format_bytes(ranking.stretches[index].from_bytes) for index in rows)
            return f"from {sizes} on"
        case _:
            ranks = ", ".join(str(answers_of(ranking)[index].rank) for index in rows)
            return f"answer {ranks}" if len(rows) == 1 else f"answers {ranks}"


def _choose_row(ranking: Ranking) -> int:
    """The row whose steps are shown: the best; of a plan what waits longest, of sizes the last."""
    match ranking:
        case PlanReply():
            waits = [entry.exposed_seconds for entry in ranking.entries]
            return waits.index(max(waits))
        case SweepReply():
            return len(ranking.stretches) - 1
        case _:
            return 0


def _example(ranking: Ranking, index: int) -> str:
    """Which answer the steps and the timeline are of."""
    match ranking:
        case PlanReply():
            entry = ranking.entries[index]
            return f"{entry.name}: {request_text(entry.request, entry.over, entry.bytes)}"
        case SweepReply():
            return f"at {format_bytes(ranking.stretches[index].from_bytes)}"
        case _:
            return f"answer {answers_of(ranking)[index].rank}"


def _has_segments(answer: PlacedAnswer | UnevenAnswerPart) -> bool:
    parts = answer.stripes if isinstance(answer, PlacedAnswer) else [answer]
    return any(part.segments > 1 for part in parts)


def _timeline(ranking: Ranking, index: int) -> AnswerTimeline:
    """The timeline that ``emit`` draws of an answer."""
    assert not isinstance(ranking, UnevenReply), "machines that lack devices have no timeline"
    emit = VERBS["emit"]
    try:
        question = parse_question(emit.question, emit_question(ranking, index, "svg"))
        found = judge("emit").validate_python(emit.answer(question, Watcher()).body)
    except InputError as error:
        return AnswerTimeline(Markup(), {}, str(error))
    drawn, figures = (file.content.decode() for file in found.files)
    return AnswerTimeline(Markup(drawn), json.loads(figures))
