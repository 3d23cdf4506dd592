"""The report: an answer as one page that loads nothing, with drawings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from jinja2 import Template
from markupsafe import Markup

from hierarchies import InputError, LevelInFull
from hierarchies.units import format_bytes
from synth.ask.answers.degraded import UnevenAnswerPart, UnevenReply
from synth.ask.answers.parts import Json, StepPricePart
from synth.ask.answers.planning import PlanReply, SystemsRankedReply
from synth.ask.answers.ranked import PlacedAnswer, RankingReply, SweepReply
from synth.ask.answers.training.planned import StepPlanReply
from synth.ask.answers.training.swept import PlanSweepReply
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS, Watcher, judge
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
from synth.show.report.summaries import view_sweep
from synth.show.report.topology import Topology, topology
from synth.show.terminal.rows import Ranking
from synth.show.terminal.style import request_text
from synth.show.terminal.table import TABLES

_MOST_PICTURES = 4
_MOST_PLANS = 3
"""The number of plans that are compared."""


@dataclass(frozen=True)
class PlacementPicture:
    """A placement that is drawn; ``heading`` names the answers that have it."""

    heading: str
    caption: str
    drawing: Markup
    left_out: str
    axes: Sequence[str]
    devices: Sequence[DrawnDevice]


@dataclass(frozen=True)
class AnswerTimeline:
    """The simulated run of one answer, or the reason why there is none."""

    drawing: Markup
    figures: Mapping[str, Any]
    missing: str = ""


@dataclass(frozen=True)
class MachineReport:
    """What is drawn of the ranking on one system.

    ``advice``: how to get each answer; ``unpictured``: how many placements have no picture;
    ``example``: the answer whose steps and timeline are shown.
    """

    name: str
    levels: Sequence[LevelInFull]
    curves: Curves | None
    advice: Sequence[tuple[str, str]] = ()
    pictures: Sequence[PlacementPicture] = ()
    unpictured: int = 0
    example: str = ""
    in_segments: bool = False
    steps: Sequence[tuple[str, StepPricePart]] = ()
    timeline: AnswerTimeline | None = None


def report(verb: str, question: Json, body: Json) -> str:
    """Return a page of an answer, in HTML; the question's named texts are given by their names."""
    reply = judge(verb).validate_python(body)
    plans, found, rankings = None, None, list[Ranking]()
    said: list[Paragraph | Cells] = []
    if isinstance(reply, PlanSweepReply):
        found = view_sweep(reply)
    elif isinstance(reply, StepPlanReply):
        numbers = range(max(1, len(reply.plans)))
        chosen = list(dict.fromkeys([reply.advised or 0, *numbers]))
        plans = plans_view(reply, body, chosen[:_MOST_PLANS])
    else:
        rankings = reply.systems if isinstance(reply, SystemsRankedReply) else [reply]
        said += blocks(TABLES[verb](body))
    return _template().render(
        title=plans.title if plans else _title(question, rankings),
        plans=plans,
        found=found,
        verb=verb,
        question=question,
        body=json.dumps(body, ensure_ascii=False),
        takes=isinstance(reply, RankingReply | UnevenReply | PlanReply),
        partial=not reply.complete,
        said=said,
        machines=[_machine(ranking) for ranking in rankings],
        style=Markup(style()),
    )


def _title(question: Json, rankings: Sequence[Ranking]) -> str:
    """Return the title of rankings; where there are none, that of a sweep of plans."""
    if not rankings:
        return f"Plans of a step of {question['model']} by {', '.join(question['sweep'])}"
    others = [ranking.system.name for ranking in rankings[1:]]
    return ", ".join([title(rankings[0]), *others])


@cache
def _template() -> Template:
    return environment().get_template("report.html")


def _machine(ranking: Ranking) -> MachineReport:
    answers, system = answers_of(ranking), ranking.system
    curves = None
    if isinstance(ranking, SweepReply) and ranking.sizes:
        curves = draw_curves(ranking)
    base = MachineReport(system.name, system.levels, curves)
    if not answers:
        return base
    drawn, pictured = topology(system.levels, system.exceptions), _picture_rows(ranking, answers)
    index = _choose_row(ranking)
    answer = answers[index]
    parts = answer.stripes if isinstance(answer, PlacedAnswer) else [answer]
    return replace(
        base,
        advice=tuple(_advice(ranking, answers)),
        pictures=[_picture(ranking, drawn, rows) for rows in pictured[:_MOST_PICTURES]],
        unpictured=max(0, len(pictured) - _MOST_PICTURES),
        example=_example(ranking, index),
        in_segments=any(part.segments > 1 for part in parts),
        steps=tuple(steps(answer)),
        timeline=_timeline(ranking, index)
        if answer.steps and isinstance(answer, PlacedAnswer)
        else None,
    )


def _advice(
    ranking: Ranking, answers: Sequence[PlacedAnswer | UnevenAnswerPart]
) -> Iterator[tuple[str, str]]:
    """Yield how to use each answer, also if a run decides for it."""
    for row, answer in enumerate(answers):
        if isinstance(answer, PlacedAnswer):
            yield _heading(ranking, [row]), answer.advice.text
            if worth := answer.worth_measuring:
                yield f"{_heading(ranking, [row])}, if measured faster", worth.advice.text


def _picture_rows(
    ranking: Ranking, answers: Sequence[PlacedAnswer | UnevenAnswerPart]
) -> Sequence[Sequence[int]]:
    """Return the rows of each picture: those of one placement, over the same axes."""
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
    """Return the name of rows: entries of a job, sizes of a range, or ranks."""
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
    """Return the row whose steps are shown: the best, a job's most exposed, the largest size."""
    match ranking:
        case PlanReply(entries=entries):
            return max(range(len(entries)), key=lambda row: entries[row].exposed_seconds)
        case SweepReply():
            return len(ranking.stretches) - 1
        case _:
            return 0


def _example(ranking: Ranking, index: int) -> str:
    match ranking:
        case PlanReply():
            entry = ranking.entries[index]
            return f"{entry.name}: {request_text(entry.request, entry.over, entry.bytes)}"
        case SweepReply():
            return f"at {format_bytes(ranking.stretches[index].from_bytes)}"
        case _:
            return f"answer {answers_of(ranking)[index].rank}"


def _timeline(ranking: Ranking, index: int) -> AnswerTimeline:
    """Return the timeline that ``emit`` draws of an answer."""
    assert not isinstance(ranking, UnevenReply), "machines that lack devices have no timeline"
    emit = VERBS["emit"]
    try:
        question = parse_question(emit.question, emit_question(ranking, index, "svg"))
        found = judge("emit").validate_python(emit.answer(question, Watcher()).body)
    except InputError as error:
        return AnswerTimeline(Markup(), {}, str(error))
    drawn, figures = (file.content.decode() for file in found.files)
    return AnswerTimeline(Markup(drawn), json.loads(figures))
