"""Plans of a whole step for pages: the verdict first, then figures and drawings.

The page of the service and reports show the same, but only on the page do users choose plans. The
first chosen plan is drawn on the clock, in memory and on the machine, and all chosen plans are
compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup

from hierarchies import InputError, LevelInFull, describe_axes, spell_machine
from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.parts import Json
from synth.ask.answers.training.planned import PlanOfFront, PlanOfStep, StepPlanReply
from synth.ask.answers.training.simulated import BufferKind
from synth.show.report import placement
from synth.show.report.charts import Limit, StackedBar, draw_bars, draw_front
from synth.show.report.details import DrawnDevice
from synth.show.report.plans.comparison import (
    ListedPlan,
    PlanComparison,
    compare_plans,
    differing_clauses,
)
from synth.show.report.plans.words import describe_plan
from synth.show.report.ranks import RankLookup, locate_rank_on, look_up_rank
from synth.show.report.rendering import Cells, Paragraph, blocks, cells_of
from synth.show.report.steps import MOST_RANKS
from synth.show.report.topology import coordinates, topology, unit_name
from synth.show.terminal.headlines import no_plan_headline
from synth.show.terminal.placements import placement_of
from synth.show.terminal.style import Columns, pluralize, table_of
from synth.show.terminal.table import TABLES
from synth.show.terminal.training.planned import (
    bucket_gain_lines,
    difference_text,
    nearly_full_lines,
    placement_gain,
    plan_table,
    rows_lines,
    tie_lines,
    why_not_lines,
)
from synth.show.terminal.training.simulated import TIME_PARTS

_MOST_PICTURES = 3
_FRONT: Columns[PlanOfFront] = {
    "step time": lambda plan: format_duration(plan.seconds),
    "memory": lambda plan: format_bytes(plan.bytes),
    "plan": lambda plan: plan.plan,
    "placement": lambda plan: str(plan.placement),
}
_TIE = "A tie: the difference is within prediction error."


@dataclass(frozen=True)
class AxisPicture:
    """One axis drawn on the machine."""

    heading: str
    caption: str
    drawing: Markup


@dataclass(frozen=True)
class DetailedPlans:
    """The details of the chosen plans, which are ``seen``, the first in full.

    ``looked`` is the device found by its rank.
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
        """The plan that is shown in full."""
        return self.seen[0].plan


@dataclass(frozen=True)
class PlansView:
    """The view of an answer; if no plan fits, ``detailed`` is empty.

    ``written`` is the recommended plan, whose files the answer contains; ``index`` the number of
    the chosen plan in ``listed``; ``numbers`` has its number and that of the plan compared with it,
    as in the address.
    """

    title: str
    headline: str
    verdict: Sequence[str]
    decisions: Sequence[str]
    table: Cells | None
    details: Sequence[Paragraph | Cells]
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
    content = list(blocks(TABLES["plan"](body)))
    tables = [block for block in content if isinstance(block, Cells)]
    shown = tables[0] if answer.plans else None
    return PlansView(
        _title(answer),
        _headline(answer),
        list(_verdict(answer)),
        list(_decisions(answer)),
        cells_of(plan_table(answer, differing_clauses(answer.plans))) if shown else None,
        [block for block in content if block is not shown],
        listed,
        draw_front(answer.front, answer.plans, answer.device_bytes) if listed else None,
        cells_of(table_of(answer.front, _FRONT, right="step time,memory")),
        answer.levels,
        _detail_plans(answer, [listed[number] for number in dict.fromkeys(seen)], rank)
        if listed
        else None,
        f"plan {(answer.advised or 0) + 1}",
        seen[0],
        dict(zip(("answer", "against"), seen, strict=False)),
    )


def _title(answer: StepPlanReply) -> str:
    """Return the model, its step, the machine (with its counts) and the pins."""
    each = f" of {answer.tokens // answer.samples:,} tokens" if answer.tokens else ""
    step = f"{pluralize(answer.samples, 'sample')}{each}"
    machine = answer.system
    if ":" not in machine:
        machine = spell_machine(machine, [level.count for level in answer.levels])
    return f"{answer.model}, {step}, on {machine}{_pins_text(answer)}"


def _pins_text(answer: StepPlanReply) -> str:
    return f" with {answer.pins}" if answer.pins else ""


def _list_plans(answer: StepPlanReply) -> Iterator[ListedPlan]:
    for number, plan in enumerate(answer.plans, 1):
        yield ListedPlan(f"plan {number}", plan)
    if answer.why_not is not None and answer.plans:
        yield ListedPlan(f"with {answer.why_not_pins}", answer.why_not)


def _headline(answer: StepPlanReply) -> str:
    if not answer.plans:
        return no_plan_headline(answer)
    best = answer.best
    tokens = f"{best.tokens_per_second:,.0f} tokens a second, " if best.tokens_per_second else ""
    opening = "The best plan takes"
    if answer.advised is None:
        opening = "No framework runs a plan that fits. The best that none runs takes"
    elif answer.advised and not answer.plans[0].runs_on:
        opening = f"Take plan {answer.advised + 1}, which a framework runs:"
    elif answer.advised:
        opening = f"Take plan {answer.advised + 1}, which ties with the fastest:"
    return (
        f"{opening} {format_duration(best.seconds)} a step: {tokens}"
        f"{format_bytes(best.memory.bytes)} of {format_bytes(answer.device_bytes)} on the fullest "
        "device,"
        f" {format_bytes(answer.device_bytes - best.memory.bytes)} free"
    )


def _verdict(answer: StepPlanReply) -> Iterator[str]:
    """Yield the figures of the recommended plan, compared with bounds and other plans."""
    if not answer.plans:
        return
    if asked := ": ".join(why_not_lines(answer)):
        yield _sentence(asked)
    best = answer.best
    shares = {what: of(best) for what, of in TIME_PARTS.items()}
    spent = ", ".join(f"{took / best.seconds:.1%} {what}" for what, took in shares.items() if took)
    yield f"Model FLOP utilisation {best.utilisation:.1%}. Time of the busiest rank: {spent}."
    yield (
        f"No plan{_pins_text(answer)} can take less than {format_duration(answer.least_seconds)}:"
        f" this one takes {best.gap:.0%} more."
    )
    if best.by_framework:
        yield "Its axes are in the frameworks' default order."
    else:
        yield from map(_sentence, placement_gain(answer, best))
    remarks = (tie_lines, nearly_full_lines, bucket_gain_lines, rows_lines)
    for lines_of in remarks:
        yield from map(_sentence, lines_of(answer))


def _sentence(line: str) -> str:
    return f"{line[0].upper()}{line[1:]}."


def _decisions(answer: StepPlanReply) -> Iterator[str]:
    """Yield the recommended plan in words, with its placement."""
    if answer.plans:
        best = answer.best
        if best.rows:
            yield f"each operation is cut by itself, along the axes of {best.recipe}"
        else:
            yield from describe_plan(best.plan, answer.samples)
        yield from describe_axes(placement_of(answer.levels, best.axes, best.placement))


def _detail_plans(answer: StepPlanReply, seen: Sequence[ListedPlan], rank: str) -> DetailedPlans:
    first = seen[0].plan
    axes = [name for name, size in first.axes.items() if size > 1] or list(first.axes)[:1]
    rows = [first.placement[list(first.axes).index(name)] for name in axes]
    alone = [[axis] for axis in axes]
    looked = look_up_rank(rank, partial(locate_rank_on, answer.levels, axes, rows, alone))
    drawn = topology(answer.levels, around=looked.path)
    there = [
        DrawnDevice(number, unit_name(answer.levels, at), coordinates(at, rows))
        for number, at in drawn.devices.items()
    ]
    placed = placement_of(answer.levels, first.axes, first.placement)
    lies = dict(zip(axes, describe_axes(placed), strict=False))
    bars = list(_memory(seen))
    size = answer.device_bytes
    limit = Limit(size, f"device memory: {format_bytes(size)}")
    return DetailedPlans(
        seen,
        compare_plans(seen, _difference_text(seen)),
        draw_bars("Peak memory", [kind.value for kind in BufferKind], bars, format_bytes, limit),
        _kinds(bars),
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
    """Yield the memory of each rank of the first plan, and of the fullest rank of others."""
    first, *others = seen
    ranks = first.plan.ranks
    for number, rank in enumerate(ranks[:MOST_RANKS]):
        label = f"{first.label}, rank {number}" if len(ranks) > 1 else first.label
        yield StackedBar(label, {kind.what.value: kind.bytes for kind in rank.memory.kinds})
    for other in others:
        label = f"{other.label}, fullest" if len(other.plan.ranks) > 1 else other.label
        yield StackedBar(label, {kind.what.value: kind.bytes for kind in other.plan.memory.kinds})


def _kinds(bars: Sequence[StackedBar]) -> Cells:
    """Return the same as a table."""
    kinds = dict.fromkeys(kind for bar in bars for kind in bar.parts)
    rows = [[kind, *(format_bytes(bar.parts.get(kind, 0)) for bar in bars)] for kind in kinds]
    rows.append(["all", *(format_bytes(sum(bar.parts.values())) for bar in bars)])
    return Cells.of(["kind", *(bar.label for bar in bars)], rows, figures=True)


def _difference_text(seen: Sequence[ListedPlan]) -> str:
    """Return the difference of step times to the answer's first plan."""
    several = []
    for listed in seen:
        low, high = listed.plan.more.interval
        if low or high:
            tie = ", a tie" if listed.plan.tied else ""
            several.append(f"{listed.label} {difference_text(low)} to {difference_text(high)}{tie}")
    if not several:
        return ""
    note = f"Compared with plan 1, within the prediction's uncertainty: {'; '.join(several)}."
    return f"{note} {_TIE}" if any(text.endswith(", a tie") for text in several) else note
