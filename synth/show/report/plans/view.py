"""What pages show of plans of a whole step: the verdict first, then figures and drawings.

The page of the service and reports show the same; only on the page somebody chooses which plans
are looked at. The first of these is drawn on the clock, in memory and on the machine, and all of
them side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from markupsafe import Markup

from hierarchies import InputError, describe_axes, spell_machine
from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.machine_parts import LevelInFull
from synth.ask.answers.parts import Json
from synth.ask.answers.training.planned import StepPlanReply
from synth.ask.answers.training.plans import PlanOfStep
from synth.show.report import placement
from synth.show.report.bars import Limit, StackedBar, draw_bars
from synth.show.report.coordinates import coordinates
from synth.show.report.details import DrawnDevice
from synth.show.report.plans import front
from synth.show.report.plans.beside import TIME_PARTS, ListedPlan, PlanComparison, compare_plans
from synth.show.report.plans.words import add_difference_columns, describe_plan
from synth.show.report.ranks import RankLookup, locate_rank_on, look_up_rank
from synth.show.report.rendering import Cells, Paragraph, blocks
from synth.show.report.steps import MOST_RANKS
from synth.show.report.topology import topology, unit_name
from synth.show.terminal.headlines import no_plan_headline
from synth.show.terminal.placements import placement_of
from synth.show.terminal.style import pluralize
from synth.show.terminal.table import TABLES
from synth.show.terminal.training.planned import (
    bucket_gain_lines,
    difference_text,
    nearly_full_lines,
    placement_gain,
    rows_lines,
    tie_lines,
    why_not_lines,
)
from synth.step.simulation.kinds import BufferKind

_MOST_PICTURES = 3
_TIE = "A tie: the difference is within prediction error."


@dataclass(frozen=True)
class AxisPicture:
    """How one axis lies on the machine."""

    heading: str
    caption: str
    drawing: Markup


@dataclass(frozen=True)
class DetailedPlans:
    """All that is shown of the plans that are looked at; ``seen`` are those, the first in full.

    ``looked``: the device that is looked for by its rank.
    """

    seen: Sequence[ListedPlan]
    beside: PlanComparison
    memory: Markup
    kinds: Cells
    pictures: Sequence[AxisPicture]
    axes: Sequence[str]
    devices: Sequence[DrawnDevice]
    left_out: str
    looked: RankLookup

    @property
    def plan(self) -> PlanOfStep:
        """The one that is shown in full."""
        return self.seen[0].plan


@dataclass(frozen=True)
class PlansView:
    """What is shown of an answer; if nothing fits there is nothing ``detailed``.

    ``written``: the plan that is to be taken, whose files the answer has; ``index``: the number of
    the one that is looked at, in ``listed``, ``numbers`` of that and the one beside it, as the
    address has them.
    """

    title: str
    headline: str
    verdict: Sequence[str]
    decisions: Sequence[str]
    table: Cells | None
    said: Sequence[Paragraph | Cells]
    listed: Sequence[ListedPlan]
    front: Markup | None
    front_table: Cells
    levels: Sequence[LevelInFull]
    detailed: DetailedPlans | None
    written: str
    index: int
    numbers: Mapping[str, int]


def plans_view(answer: StepPlanReply, body: Json, seen: Sequence[int], rank: str = "") -> PlansView:
    """The view of an answer; ``seen``: the numbers of plans to be looked at, from 0; ``rank``: of
    a device that is looked for.

    Raises InputError for a number that no plan has.
    """
    listed = list(_list_plans(answer))
    if any(not 0 <= number < max(1, len(listed)) for number in seen):
        raise InputError("there is no such plan", where="answer", hint="plans count from 0")
    said = list(blocks(TABLES["plan"](body)))
    told = next((one for one in said if isinstance(one, Cells)), None)
    table = told and add_difference_columns(answer.plans, told)
    return PlansView(
        _title(answer),
        _headline(answer),
        list(_verdict(answer)),
        list(_decisions(answer)),
        table,
        [one for one in said if one is not told],
        listed,
        _front(answer, listed) if listed else None,
        _front_table(answer),
        answer.levels,
        _detail_plans(answer, [listed[one] for one in dict.fromkeys(seen)], rank)
        if listed
        else None,
        f"plan {(answer.advised or 0) + 1}",
        seen[0],
        dict(zip(("answer", "against"), seen, strict=False)),
    )


def _title(answer: StepPlanReply) -> str:
    """What was asked: the model, its step, the machine, and what plans must have."""
    each = f" of {answer.tokens // answer.samples:,} tokens" if answer.tokens else ""
    step = f"{pluralize(answer.samples, 'sample')}{each}"
    return f"{answer.model}, {step}, on {_machine(answer)}{_pins_text(answer)}"


def _pins_text(answer: StepPlanReply) -> str:
    return f" with {answer.pins}" if answer.pins else ""


def _machine(answer: StepPlanReply) -> str:
    """The machine as it was asked for; where no count was given, with that of what it is."""
    asked = answer.system
    return asked if ":" in asked else spell_machine(asked, [level.count for level in answer.levels])


def _list_plans(answer: StepPlanReply) -> Iterator[ListedPlan]:
    for number, one in enumerate(answer.plans, 1):
        yield ListedPlan(f"plan {number}", one)
    if answer.why_not is not None and answer.plans:
        yield ListedPlan(f"with {answer.asked_why_not}", answer.why_not)


def _headline(answer: StepPlanReply) -> str:
    if not answer.plans:
        return no_plan_headline(answer)
    best = answer.best
    tokens = f"{best.tokens_per_second:,.0f} tokens a second, " if best.tokens_per_second else ""
    said = "The best plan takes"
    if answer.advised:
        said = f"Take plan {answer.advised + 1}, which ties with the fastest:"
    return (
        f"{said} {format_duration(best.seconds)} a step: {tokens}"
        f"{format_bytes(best.memory.bytes)} of {format_bytes(answer.device_bytes)} on the fullest "
        "device,"
        f" {format_bytes(answer.device_bytes - best.memory.bytes)} free"
    )


def _verdict(answer: StepPlanReply) -> Iterator[str]:
    """What the plan to be taken comes to, and what others would."""
    if not answer.plans:
        return
    if asked := ": ".join(why_not_lines(answer)):
        yield f"{asked[0].upper()}{asked[1:]}."
    best = answer.best
    shares = {what: of(best) for what, of in TIME_PARTS.items()}
    spent = ", ".join(f"{took / best.seconds:.1%} {what}" for what, took in shares.items() if took)
    yield f"{best.utilisation:.1%} of the peak of all devices. The busiest rank's time: {spent}."
    yield (
        f"No plan{_pins_text(answer)} can take less than {format_duration(answer.least_seconds)}:"
        f" this one takes {best.gap:.0%} more."
    )
    if best.by_framework:
        yield "Its axes are in frameworks' own order."
    else:
        [gain] = placement_gain(answer, best)
        yield f"{gain[0].upper()}{gain[1:]}."
    remarks = (tie_lines, nearly_full_lines, bucket_gain_lines, rows_lines)
    for remark in chain.from_iterable(of(answer) for of in remarks):
        yield f"{remark[0].upper()}{remark[1:]}."


def _decisions(answer: StepPlanReply) -> Iterator[str]:
    """The plan to be taken in words, and where its axes lie."""
    if answer.plans:
        best = answer.best
        if best.rows:
            yield f"each operation is cut by itself, along the axes of {best.recipe}"
        else:
            yield from describe_plan(best.plan, answer.samples)
        yield from describe_axes(placement_of(answer.levels, best.axes, best.placement))


def _front(answer: StepPlanReply, listed: Sequence[ListedPlan]) -> Markup:
    expected = [front.Point(one.plan, one.seconds, one.bytes) for one in answer.front]
    simulated = [
        front.Point(one.plan.title, one.plan.seconds, one.plan.memory.bytes)
        for one in listed[: len(answer.plans)]
    ]
    return front.draw_front(expected, simulated, answer.device_bytes)


def _front_table(answer: StepPlanReply) -> Cells:
    rows = [
        [format_duration(one.seconds), format_bytes(one.bytes), one.plan, str(one.placement)]
        for one in answer.front
    ]
    headings = ["step time", "memory", "plan", "placement"]
    return Cells(headings, [True, True, False, False], [False, False, True, True], rows)


def _detail_plans(answer: StepPlanReply, seen: Sequence[ListedPlan], rank: str) -> DetailedPlans:
    first = seen[0].plan
    axes = [name for name, size in first.axes.items() if size > 1] or list(first.axes)[:1]
    rows = [first.placement[list(first.axes).index(name)] for name in axes]
    alone = [[one] for one in axes]
    looked = look_up_rank(rank, partial(locate_rank_on, answer.levels, axes, rows, alone))
    drawn = topology(answer.levels, around=looked.path)
    there = [
        DrawnDevice(number, unit_name(answer.levels, at), coordinates(at, rows))
        for number, at in drawn.devices.items()
    ]
    lies = dict(
        zip(
            axes,
            describe_axes(placement_of(answer.levels, first.axes, first.placement)),
            strict=False,
        )
    )
    return DetailedPlans(
        seen,
        compare_plans(seen, _difference_text(seen)),
        draw_bars(
            "Peak memory",
            [kind.value for kind in BufferKind],
            list(_memory(seen)),
            format_bytes,
            Limit(answer.device_bytes, f"a device has {format_bytes(answer.device_bytes)}"),
        ),
        _kinds(seen),
        [
            AxisPicture(
                lies.get(axis, axis),
                placement.caption(axes, [axis]),
                placement.draw_machine(drawn, there, axes, [axis], looked.device),
            )
            for axis in axes[::-1][:_MOST_PICTURES]
        ],
        axes,
        there,
        drawn.left_out,
        looked,
    )


def _memory(seen: Sequence[ListedPlan]) -> Iterator[StackedBar]:
    """Each rank of the first plan, and of any other the fullest."""
    first, *others = seen
    ranks = first.plan.ranks
    for number, rank in enumerate(ranks[:MOST_RANKS]):
        label = f"{first.label}, rank {number}" if len(ranks) > 1 else first.label
        yield StackedBar(label, {kind.what: kind.bytes for kind in rank.memory.kinds})
    for one in others:
        label = f"{one.label}, fullest" if len(one.plan.ranks) > 1 else one.label
        yield StackedBar(label, {kind.what: kind.bytes for kind in one.plan.memory.kinds})


def _kinds(seen: Sequence[ListedPlan]) -> Cells:
    """The same as a table."""
    several = list(_memory(seen))
    kinds = list(dict.fromkeys(kind for one in several for kind in one.parts))
    rows = [[kind, *(format_bytes(one.parts.get(kind, 0)) for one in several)] for kind in kinds]
    rows.append(["all", *(format_bytes(sum(one.parts.values())) for one in several)])
    count = len(several)
    return Cells(
        ["kind", *(one.label for one in several)],
        [False, *[True] * count],
        [False] * (count + 1),
        rows,
    )


def _difference_text(seen: Sequence[ListedPlan]) -> str:
    """How much longer steps take than that of the answer's first plan."""
    several = []
    for one in seen:
        low, high = one.plan.more.interval
        if low or high:
            tie = ", a tie" if one.plan.tied else ""
            several.append(f"{one.label} {difference_text(low)} to {difference_text(high)}{tie}")
    if not several:
        return ""
    told = f"Compared with plan 1, within the prediction's uncertainty: {'; '.join(several)}."
    return f"{told} {_TIE}" if any(one.endswith(", a tie") for one in several) else told
