"""What the page shows of an answer: its ranking, and the details of the row that is chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from markupsafe import Markup

from grammar import Goal
from hierarchies.units import format_duration
from synth.ask.answers import judge
from synth.ask.answers.degraded import UnevenAnswerPart, UnevenReply
from synth.ask.answers.parts import StepPricePart
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
from synth.ask.planning import TopQuestion
from synth.ask.questions.notations import A_RANGE_BYTES
from synth.collective.emit import TARGETS, nccl_tuner
from synth.collective.emit.mscclpp.homes import REFUSED
from synth.collective.price.defaults import ALGORITHMS
from synth.collective.ranking.how_to_get import AdviceKind
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
from synth.show.terminal.left_over import left_over_words, unused_axes_lines
from synth.show.terminal.rows import Ranking, RankingRow, default_rows, elsewhere_rows, rows
from synth.show.terminal.style import axes_text, considered_text, faults_text, pluralize, shape
from synth.show.terminal.verdict import Verdict, row_to_do, verdict

Json = Mapping[str, Any]
TABS = {
    "torch": "PyTorch",
    "jax": "JAX",
    "jax-flat": "JAX, explicit groups",
    "mpi": "mpi4py",
    "mscclpp": "MSCCL++",
    "nccl-tuner": "NCCL tuner",
    "json": "JSON",
    "torchrun": "torchrun",
    "slurm": "Slurm",
    "rankfile": "Open MPI rankfile",
    "kubernetes": "Kubernetes",
}
_GROUP_TABS = {"json": "JSON"}
"""Formats for programs of explicit groups, those of a machine that lacks devices."""
RANKED_VERBS = ("top", "plan")
"""The verbs whose answers have a ranking: of any other the page shows the JSON."""


@dataclass(frozen=True)
class RowDetails:
    """The details of one row of a ranking; with several stripes a step has both numbers.

    ``why``: in sentences. Of sizes at which the default is kept it is the default's, and there are
    no ``steps``: the program that prices do not tell from it is nobody's matter.
    ``placement_lines``: where each axis lies, in words; none on a machine that lacks devices.
    ``to_do``: how it is got, or measured. ``instead``: what to do for it in place of code; None
    where its code does it. ``looked``: the device that was looked for by its rank.
    """

    row: RankingRow
    lies: Sequence[str]
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
    """An answer with a ranking, and the row that is looked at.

    ``default``: the runtime's own choice as a row, where no other is it; ``slower``: the positions
    of rows that are slower than the best default, where others are not. ``tabs``: as which files
    the row can be had; ``unfit``: as which others it cannot, by the reason.
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
    """An answer with a ranking, read; None for any other, and for the best so far of a job.

    Plans of a whole step are no ranking of programs. Raises ValidationError for an answer that
    does not fit this code's model.
    """
    if verb not in RANKED_VERBS or not isinstance(body, dict) or "schema_version" not in body:
        return None
    found: Ranking | StepPlanReply = judge(verb).validate_python(body)
    return None if isinstance(found, StepPlanReply) else found


def plans_of(
    verb: str, body: object, index: int | None, against: int | None, rank: str = ""
) -> PlansView | None:
    """Plans of a whole step, one in full, and beside it another; ``rank``: of a device that is
    looked for.

    If none is chosen that is the one to be taken, and the one that was asked why not, else the
    next. None for any other answer. Raises InputError for a plan that there is not.
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
    """The drawing of an answer that has one beside its text: a step's timeline."""
    if verb != "simulate":
        return None
    found: SimulateReply = judge(verb).validate_python(body)
    return draw_timeline(found.name, found.seconds, found.ranks)


def read_best_so_far(body: object) -> list[LeadingAnswer] | None:
    """The best so far of a job; None for an answer, be it complete or in part.

    The two differ by a key: only an answer has a ``schema_version``.
    """
    if not isinstance(body, dict) or "schema_version" in body or "answers" not in body:
        return None
    return BestSoFar.model_validate(body).answers


def result(answer: Ranking, index: int | None, rank: str = "") -> Result:
    """The page's view of an answer with a ranking; if no row is chosen that of the verdict.

    ``rank``: of a device that is looked for. Raises InputError for a row that it lacks.
    """
    found, told = rows(answer), verdict(answer)
    default = default_rows(answer) if isinstance(answer, RankingReply) else []
    slower = [at for at, row in enumerate(found) if row.slower]
    if not isinstance(answer, RankingReply | UnevenReply) or len(slower) == len(found + default):
        slower = []
    if index is None:
        kept = (at for at in range(len(found)) if at not in slower)
        index = told.to_do[0].row if told and told.to_do else next(kept, 0)
    tabs, unfit = _tabs(answer, index) if found else (TABS, {})
    return Result(
        answer,
        title(answer),
        tuple(_facts(answer)),
        told,
        default,
        found,
        slower,
        index,
        _row_details(answer, found, index, told, rank) if found else None,
        draw_curves(answer) if isinstance(answer, SweepReply) and answer.sizes else None,
        tabs,
        unfit,
        elsewhere_rows(answer) if isinstance(answer, RankingReply) else (),
    )


def _tabs(ranking: Ranking, index: int) -> tuple[Mapping[str, str], Mapping[str, Sequence[str]]]:
    """As which files a row can be had; and as which others not, by the reason why."""
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
    """Why a target has no words for what is seen of a row at once; nothing where it may have."""
    row = TARGETS[target]
    if len(answer.stripes) > 1 and not (row.overlaps or row.places):
        return "this row is several programs side by side, and there a file is one program"
    if target == "mscclpp" and request in REFUSED:
        return REFUSED[request]
    if target == "nccl-tuner" and request.apart:
        return f"NCCL asks no tuner how to send {request.value}"
    return _tuner_gap(answer) if target == "nccl-tuner" else ""


def _tuner_gap(answer: PlacedAnswer) -> str:
    """What NCCL's tuner has no row for: a step, or the default where that is kept for one call."""
    sent = [(one.collective, one.algorithm) for one in answer.steps]
    if len(sent) == 1 and answer.advice.by is AdviceKind.DEFAULT:
        sent += [(sent[0][0], ALGORITHMS.get(answer.default.name))]
    return next(filter(None, (nccl_tuner.explain_missing_row(*one) for one in sent)), "")


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
    for one in answer.unpriced:
        yield f"not priced: {one.name}: {one.why}"
    yield from unused_axes_lines(answer)
    yield considered_text(answer.considered)


def _row_details(
    ranking: Ranking, found: Sequence[RankingRow], index: int, verdict: Verdict | None, rank: str
) -> RowDetails:
    answer = answer_at(ranking, index)
    looked = look_up_rank(rank, partial(locate_rank, ranking, index))
    machine, around = ranking.system, looked.path
    drawn = topology(machine.levels, machine.exceptions, around=around)
    narrow = topology(machine.levels, machine.exceptions, narrow=True, around=around)
    there = devices(ranking, answer, drawn)
    held = [*there, *devices(ranking, answer, narrow)]
    where = {str(one.number): one.coordinates for one in held if one.coordinates}
    found_groups = [asdict(one) for one in _groupings(ranking, index, held)]
    asked = tuple(axes_at(ranking, index))
    first = next(n for n, one in enumerate(found_groups) if one["over"] == asked)
    drawings: dict[str, dict[str, Any]] = {
        name: {"nodes": one.nodes, "edges": one.edges, "left_out": one.left_out}
        for name, one in (("wide", drawn), ("narrow", narrow))
    }
    picture: dict[str, Any] = {**drawings, "axes": list(answer.axes), "coordinates": where}
    picture |= {"groupings": found_groups, "first": first, "here": looked.device}
    kept = isinstance(ranking, SweepReply) and ranking.stretches[index].keeps_default
    numbered = () if kept else tuple(steps(answer))
    why = answer.why[: 1 if kept else None] if isinstance(answer, PlacedAnswer) else ()
    told, instead = placement_lines(ranking, answer), no_code_advice(ranking, index)
    row = found[index]
    to_do = None
    if isinstance(answer, PlacedAnswer):
        name = " to ".join(row.title) or f"row {row.rank}"
        request = request_at(ranking, index).value
        to_do = row_to_do(verdict, answer, index, name, request, " to ".join(row.speedup))
    shown = (numbered, picture, drawn.left_out, there, to_do, instead)
    return RowDetails(row, told, answer, why, *shown, looked)


def _groupings(ranking: Ranking, index: int, held: Sequence[DrawnDevice]) -> Iterator[DrawnGroups]:
    """The groups over each axis, and over all that the collective is over where these are several.

    On a machine that lacks devices there is one, of all that are left.
    """
    answer = answer_at(ranking, index)
    axes = list(answer.axes)
    drawn = sorted({one.number: one for one in held}.values(), key=lambda one: one.number)
    for over in groupings(ranking, index):
        yield grouping(drawn, axes, over, members(ranking, answer, axes, over))


def question_over_sizes(question: TopQuestion, ranking: Ranking) -> TopQuestion | None:
    """A question about one size, asked over a range of sizes; None where that is impossible.

    Machines that lack devices are asked about one size at a time.
    """
    size = question.bytes
    if question.collectives or not isinstance(size, int) or isinstance(ranking, UnevenReply):
        return None
    smallest, largest = A_RANGE_BYTES
    ends = (min(size, smallest), max(size, largest))
    plain = {"k": 1, "per_placement": False, "explain": False}
    return question.model_copy(update={"bytes": ends, **plain})
