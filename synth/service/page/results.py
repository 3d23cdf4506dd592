"""The page's view of an answer: its ranking, and the details of the chosen row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from markupsafe import Markup

from grammar import Goal
from hierarchies.units import format_duration
from synth.ask.answers.degraded import UnevenAnswerPart, UnevenReply
from synth.ask.answers.parts import AdviceKind, StepPricePart
from synth.ask.answers.planning import PlanReply
from synth.ask.answers.ranked import (
    BestSoFar,
    LeadingAnswer,
    PlacedAnswer,
    RankingReply,
    SweepReply,
)
from synth.ask.answers.training.planned import StepPlanReply
from synth.ask.answers.training.simulated import SimulateReply
from synth.ask.answers.training.swept import PlanSweepReply
from synth.ask.questions.notations import A_RANGE_BYTES
from synth.ask.ranking import TopQuestion
from synth.ask.table import judge
from synth.collective.emit import nccl_tuner
from synth.collective.emit.mscclpp.homes import REFUSED
from synth.collective.emit.targets import TARGETS
from synth.show.report.curves import Curves, draw_curves
from synth.show.report.details import (
    DrawnDevice,
    NoCodeAdvice,
    answer_at,
    answers_of,
    axes_at,
    devices,
    no_code_advice,
    placement_lines,
    request_at,
    steps,
    title,
)
from synth.show.report.placement import DrawnGroups, grouping
from synth.show.report.plans import PlansView, plans_view
from synth.show.report.ranks import RankLookup, groupings, locate_rank, look_up_rank, members
from synth.show.report.steps import draw_timeline
from synth.show.report.topology import topology
from synth.show.terminal.deciding import ToDo
from synth.show.terminal.placements import left_over_words, unused_axes_lines
from synth.show.terminal.rows import Ranking, RankingRow, default_rows, elsewhere_rows, rows
from synth.show.terminal.style import axes_text, considered_text, faults_text, pluralize, shape
from synth.show.terminal.verdict import Verdict, row_to_do, verdict

Json = Mapping[str, Any]
TABS = {name: target.tab for name, target in TARGETS.items() if target.tab}
"""The formats in which the page shows a program."""
_GROUP_TABS = {"json": "JSON"}
"""Formats for programs of explicit groups, as on a machine that lacks devices."""
RANKED_VERBS = ("top", "plan")
"""The verbs whose answers have a ranking."""


@dataclass(frozen=True)
class RowDetails:
    """The details of one row of a ranking; a step of a striped program has both numbers.

    ``why`` is the explanation in sentences. For sizes that keep the default it explains the
    default, and ``steps`` is empty because the program ties with the default. ``placement`` is the
    placement of each axis; empty on a machine that lacks devices. ``to_do`` explains how to obtain
    or measure the program. ``instead`` is the action to take in place of code; None if the code
    suffices. ``looked`` is the device found by its rank.
    """

    row: RankingRow
    placement: Sequence[str]
    answer: PlacedAnswer | UnevenAnswerPart
    why: Sequence[str]
    steps: Sequence[tuple[str, StepPricePart]]
    picture: Json
    left_out: str
    devices: Sequence[DrawnDevice]
    to_do: ToDo | None
    instead: NoCodeAdvice | None
    looked: RankLookup


@dataclass(frozen=True)
class Result:
    """An answer with a ranking, and the chosen row.

    ``default``: the runtime's own choice as a row, unless it is among the others; ``slower``: the
    positions of rows slower than the best default, unless all are. ``tabs``: formats that can
    express the row; ``unfit``: formats that cannot, by reason.
    """

    answer: Ranking
    title: str
    facts: tuple[str, ...]
    verdict: Verdict | None
    default: Sequence[RankingRow]
    rows: Sequence[RankingRow]
    slower: Sequence[int]
    index: int
    chosen: RowDetails | None
    curves: Curves | None
    tabs: Mapping[str, str]
    unfit: Mapping[str, Sequence[str]]
    elsewhere: Sequence[RankingRow] = ()


def ranking_of(verb: str, body: object) -> Ranking | None:
    """Parse an answer with a ranking; None for other answers and for a job's best so far.

    Plans of a whole step are not a ranking of programs. Raises ValidationError if an answer does
    not match this edition's model.
    """
    if verb not in RANKED_VERBS or not isinstance(body, dict) or "schema_version" not in body:
        return None
    reply: Ranking | StepPlanReply | PlanSweepReply = judge(verb).validate_python(body)
    return None if isinstance(reply, StepPlanReply | PlanSweepReply) else reply


def plans_of(
    verb: str, body: object, index: int | None, against: int | None, rank: str = ""
) -> PlansView | None:
    """Return the plans of a whole step, with plan ``index`` in full compared with ``against``.

    The default is the advised plan, compared with the ``why_not`` plan, else with the next.
    ``rank`` is that of the device to highlight. Returns None for other answers. Raises InputError
    if there is no such plan.
    """
    if verb != "plan" or not isinstance(body, dict) or "plans" not in body:
        return None
    answer: StepPlanReply = judge(verb).validate_python(body)
    if index is None:
        index = answer.advised or 0
    if against is None:
        last = len(answer.plans) - (answer.why_not is None)
        against = last if answer.why_not and index != last else (index + 1) % max(1, last + 1)
    return plans_view(answer, body, [index, against], rank)


def drawing_of(verb: str, body: object) -> Markup | None:
    """Draw the timeline of an answer of ``simulate``; None for other verbs."""
    if verb != "simulate":
        return None
    reply: SimulateReply = judge(verb).validate_python(body)
    return draw_timeline(reply.name, reply.seconds, reply.ranks)


def read_best_so_far(body: object) -> list[LeadingAnswer] | None:
    """Parse a job's best so far; None for an answer, complete or partial.

    Only an answer has a ``schema_version``.
    """
    if not isinstance(body, dict) or "schema_version" in body or "answers" not in body:
        return None
    return BestSoFar.model_validate(body).answers


def result(answer: Ranking, index: int | None, rank: str = "") -> Result:
    """Return the page's view of an answer with a ranking; the default row is the recommended one.

    ``rank`` is that of the device to highlight. Raises InputError if there is no such row.
    """
    ranked, answer_verdict = rows(answer), verdict(answer)
    default = default_rows(answer) if isinstance(answer, RankingReply) else []
    slower = [at for at, row in enumerate(ranked) if row.slower]
    if not isinstance(answer, RankingReply | UnevenReply) or len(slower) == len(ranked + default):
        slower = []
    if index is None:
        faster = (at for at in range(len(ranked)) if at not in slower)
        index = (
            answer_verdict.to_do[0].row
            if answer_verdict and answer_verdict.to_do
            else next(faster, 0)
        )
    tabs, unfit = _tabs(answer, index) if ranked else (TABS, {})
    return Result(
        answer,
        title(answer),
        tuple(_facts(answer)),
        answer_verdict,
        default,
        ranked,
        slower,
        index,
        _row_details(answer, ranked, index, answer_verdict, rank) if ranked else None,
        draw_curves(answer) if isinstance(answer, SweepReply) and answer.sizes else None,
        tabs,
        unfit,
        elsewhere_rows(answer) if isinstance(answer, RankingReply) else (),
    )


def _tabs(ranking: Ranking, index: int) -> tuple[Mapping[str, str], Mapping[str, Sequence[str]]]:
    """Return the formats that can express a row, and those that cannot, grouped by reason."""
    answer = answer_at(ranking, index)
    if isinstance(ranking, UnevenReply) or not isinstance(answer, PlacedAnswer):
        return _GROUP_TABS, {}
    request = request_at(ranking, index)
    unfit: dict[str, list[str]] = {}
    fit = {}
    for target, label in TABS.items():
        if why := _unfit_reason(target, request, answer):
            unfit.setdefault(why, []).append(label)
        else:
            fit[target] = label
    return fit, unfit


def _unfit_reason(target: str, request: Goal, answer: PlacedAnswer) -> str:
    """Return why a target obviously cannot express a row; empty if it may."""
    row = TARGETS[target]
    if len(answer.stripes) > 1 and not (row.overlaps or row.places):
        return "this row is several programs side by side, and such a file holds one program"
    if target == "mscclpp" and request in REFUSED:
        return REFUSED[request]
    if target == "nccl-tuner" and request.apart:
        return f"NCCL does not ask tuners about {request.value}"
    return _tuner_gap(answer) if target == "nccl-tuner" else ""


def _tuner_gap(answer: PlacedAnswer) -> str:
    """Return why NCCL's tuner has no row for a step, or for the default if one call keeps it."""
    calls = [(step.collective, step.algorithm) for step in answer.steps]
    if len(calls) == 1 and answer.advice.by is AdviceKind.DEFAULT:
        calls += [(calls[0][0], answer.default.algorithm)]
    return next(filter(None, (nccl_tuner.explain_missing_row(*call) for call in calls)), "")


def _facts(answer: Ranking) -> Iterator[str]:
    system, answers = answer.system, answers_of(answer)
    yield f"{shape(system.levels)}: {system.devices} devices"
    if answers:
        yield axes_text(answers[0].axes)
    if lacks := faults_text(system.exceptions):
        yield lacks
    match answer:
        case UnevenReply():
            yield f"left: {answer.uneven.left}"
            yield f"{pluralize(answer.considered.programs, 'program')} ranked"
        case SweepReply():
            yield f"{len(answer.sizes)} sizes asked; changes are accurate to 1%"
            yield from left_over_words(answer)
        case RankingReply():
            yield considered_text(answer.considered)
            yield f"{pluralize(answer.considered.programs, 'program')} ranked"
            yield from left_over_words(answer)
        case PlanReply():
            yield from _plan_facts(answer)


def _plan_facts(answer: PlanReply) -> Iterator[str]:
    if answer.ranking:
        exposed = format_duration(answer.ranking[0].exposed_seconds)
        plain = format_duration(answer.default_exposed_seconds)
        yield f"exposed communication {exposed} a step; with the runtime's defaults {plain}"
    for collective in answer.unpriced:
        yield f"not priced: {collective.name}: {collective.why}"
    yield from unused_axes_lines(answer)
    yield considered_text(answer.considered)


def _row_details(
    ranking: Ranking, ranked: Sequence[RankingRow], index: int, verdict: Verdict | None, rank: str
) -> RowDetails:
    answer = answer_at(ranking, index)
    looked = look_up_rank(rank, partial(locate_rank, ranking, index))
    machine, around = ranking.system, looked.path
    drawn = topology(machine.levels, machine.exceptions, around=around)
    narrow = topology(machine.levels, machine.exceptions, narrow=True, around=around)
    shown_devices = devices(ranking, answer, drawn)
    all_devices = [*shown_devices, *devices(ranking, answer, narrow)]
    where = {str(device.number): device.coordinates for device in all_devices if device.coordinates}
    found_groups = [asdict(group) for group in _groupings(ranking, index, all_devices)]
    over = tuple(axes_at(ranking, index))
    first = next(n for n, group in enumerate(found_groups) if group["over"] == over)
    drawings: dict[str, dict[str, Any]] = {
        name: {"nodes": graph.nodes, "edges": graph.edges, "left_out": graph.left_out}
        for name, graph in (("wide", drawn), ("narrow", narrow))
    }
    picture: dict[str, Any] = {**drawings, "axes": list(answer.axes), "coordinates": where}
    picture |= {"groupings": found_groups, "first": first, "here": looked.device}
    keeps_default = isinstance(ranking, SweepReply) and ranking.stretches[index].keeps_default
    numbered = () if keeps_default else tuple(steps(answer))
    why = answer.why[: 1 if keeps_default else None] if isinstance(answer, PlacedAnswer) else ()
    lines, instead = placement_lines(ranking, answer), no_code_advice(ranking, index)
    row = ranked[index]
    to_do = None
    if isinstance(answer, PlacedAnswer):
        name = " to ".join(row.title) or f"row {row.rank}"
        request = request_at(ranking, index).value
        to_do = row_to_do(verdict, answer, index, name, request, " to ".join(row.speedup))
    shown = (numbered, picture, drawn.left_out, shown_devices, to_do, instead)
    return RowDetails(row, lines, answer, why, *shown, looked)


def _groupings(
    ranking: Ranking, index: int, drawn_devices: Sequence[DrawnDevice]
) -> Iterator[DrawnGroups]:
    """Yield the groups over each axis, and over all axes of the reduction if there are several.

    On a machine that lacks devices there is one group of all remaining ones.
    """
    answer = answer_at(ranking, index)
    axes = list(answer.axes)
    drawn = sorted(
        {device.number: device for device in drawn_devices}.values(),
        key=lambda device: device.number,
    )
    for over in groupings(ranking, index):
        yield grouping(drawn, axes, over, members(ranking, answer, axes, over))


def question_over_sizes(question: TopQuestion, ranking: Ranking) -> TopQuestion | None:
    """Return a question about one size as one over a range of sizes; None if impossible.

    Questions about machines that lack devices have one size.
    """
    size = question.bytes
    if question.collectives or not isinstance(size, int) or isinstance(ranking, UnevenReply):
        return None
    smallest, largest = A_RANGE_BYTES
    ends = (min(size, smallest), max(size, largest))
    plain = {"k": 1, "per_placement": False, "explain": False}
    return question.model_copy(update={"bytes": ends, **plain})
