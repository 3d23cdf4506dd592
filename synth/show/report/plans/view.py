"""What pages show of plans of a whole step: the verdict first, then figures and drawings.

The page of the service and reports show the same; only on the page somebody chooses which plans
are looked at. The first of these is drawn on the clock, in memory and on the machine, and all of
them side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup

from hierarchies import InputError, asked_as, in_words
from hierarchies.units import duration, volume
from synth.ask.answers.machine_parts import LevelInFull
from synth.ask.answers.parts import Json
from synth.ask.answers.training.planned import StepPlanReply
from synth.ask.answers.training.plans import PlanOfStep
from synth.show.report import placement
from synth.show.report.bars import Bar, Limit, bars
from synth.show.report.coordinates import coordinates
from synth.show.report.details import Device
from synth.show.report.plans import front
from synth.show.report.plans.beside import SPENT, Beside, Listed, beside
from synth.show.report.plans.words import apart, words
from synth.show.report.ranks import Looked, looked_for, placed_on
from synth.show.report.rendering import Cells, Lines, blocks
from synth.show.report.steps import MOST_RANKS
from synth.show.report.topology import topology, unit_name
from synth.show.terminal.headlines import none_fits
from synth.show.terminal.placements import placement_of
from synth.show.terminal.style import many
from synth.show.terminal.table import TABLES
from synth.show.terminal.training.planned import (
    as_fast,
    by_buckets,
    more_or_less,
    nearly_full,
    placement_gain,
    why_not,
)
from synth.step.simulation.kinds import Kind

_MOST_PICTURES = 3
_TIE = "A tie: prices do not tell which of the two is faster."


@dataclass(frozen=True)
class AxisPicture:
    """How one axis lies on the machine."""

    heading: str
    caption: str
    drawing: Markup


@dataclass(frozen=True)
class Detailed:
    """All that is shown of the plans that are looked at; ``seen`` are those, the first in full.

    ``looked``: the device that is looked for by its rank.
    """

    seen: Sequence[Listed]
    beside: Beside
    memory: Markup
    kinds: Cells
    pictures: Sequence[AxisPicture]
    axes: Sequence[str]
    devices: Sequence[Device]
    left_out: str
    looked: Looked

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
    said: Sequence[Lines | Cells]
    listed: Sequence[Listed]
    front: Markup | None
    front_table: Cells
    levels: Sequence[LevelInFull]
    detailed: Detailed | None
    written: str
    index: int
    numbers: Mapping[str, int]


def plans_view(answer: StepPlanReply, body: Json, seen: Sequence[int], rank: str = "") -> PlansView:
    """The view of an answer; ``seen``: the numbers of plans to be looked at, from 0; ``rank``: of
    a device that is looked for.

    Raises InputError for a number that no plan has.
    """
    listed = list(_listed(answer))
    if any(not 0 <= number < max(1, len(listed)) for number in seen):
        raise InputError("there is no such plan", where="answer", hint="plans count from 0")
    said = list(blocks(TABLES["plan"](body)))
    told = next((one for one in said if isinstance(one, Cells)), None)
    table = told and apart(answer.plans, told)
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
        _detailed(answer, [listed[one] for one in dict.fromkeys(seen)], rank) if listed else None,
        f"plan {(answer.advised or 0) + 1}",
        seen[0],
        dict(zip(("answer", "against"), seen, strict=False)),
    )


def _title(answer: StepPlanReply) -> str:
    """What was asked: the model, its step, the machine, and what plans must have."""
    each = f" of {answer.tokens // answer.samples:,} tokens" if answer.tokens else ""
    step = f"{many(answer.samples, 'sample')}{each}"
    return f"{answer.model}, {step}, on {_machine(answer)}{_pinned(answer)}"


def _pinned(answer: StepPlanReply) -> str:
    return f" with {answer.pins}" if answer.pins else ""


def _machine(answer: StepPlanReply) -> str:
    """The machine as it was asked for; where no count was given, with that of what it is."""
    asked = answer.system
    return asked if ":" in asked else asked_as(asked, [level.count for level in answer.levels])


def _listed(answer: StepPlanReply) -> Iterator[Listed]:
    for number, one in enumerate(answer.plans, 1):
        yield Listed(f"plan {number}", one)
    if answer.why_not is not None and answer.plans:
        yield Listed(f"with {answer.asked_why_not}", answer.why_not)


def _headline(answer: StepPlanReply) -> str:
    if not answer.plans:
        return none_fits(answer)
    best = answer.best
    tokens = f"{best.tokens_per_second:,.0f} tokens a second, " if best.tokens_per_second else ""
    said = "The best plan takes"
    if answer.advised:
        said = f"Take plan {answer.advised + 1}, as fast as any as far as prices can tell:"
    return (
        f"{said} {duration(best.seconds)} a step: {tokens}"
        f"{volume(best.memory.bytes)} of {volume(answer.device_bytes)} on the fullest device,"
        f" {volume(answer.device_bytes - best.memory.bytes)} free"
    )


def _verdict(answer: StepPlanReply) -> Iterator[str]:
    """What the plan to be taken comes to, and what others would."""
    if not answer.plans:
        return
    if asked := ": ".join(why_not(answer)):
        yield f"{asked[0].upper()}{asked[1:]}."
    best = answer.best
    shares = {what: of(best) for what, of in SPENT.items()}
    spent = ", ".join(f"{took / best.seconds:.1%} {what}" for what, took in shares.items() if took)
    yield f"{best.utilisation:.1%} of the peak of all devices. The busiest rank's time: {spent}."
    yield (
        f"No plan{_pinned(answer)} can take less than {duration(answer.least_seconds)}: this one is"
        f" {best.gap:.0%} above that."
    )
    if best.by_framework:
        yield "Its axes lie as frameworks lay them out by themselves."
    else:
        yield f"Against frameworks' own order of axes: {' '.join(placement_gain(answer, best))}."
    for said in (*as_fast(answer), *nearly_full(answer), *by_buckets(answer)):
        yield f"{said[0].upper()}{said[1:]}."


def _decisions(answer: StepPlanReply) -> Iterator[str]:
    """The plan to be taken in words, and where its axes lie."""
    if answer.plans:
        best = answer.best
        yield from words(best.plan, answer.samples)
        yield from in_words(placement_of(answer.levels, best.axes, best.placement))


def _front(answer: StepPlanReply, listed: Sequence[Listed]) -> Markup:
    expected = [front.Point(one.plan, one.seconds, one.bytes) for one in answer.front]
    simulated = [
        front.Point(one.plan.plan, one.plan.seconds, one.plan.memory.bytes)
        for one in listed[: len(answer.plans)]
    ]
    return front.drawing(expected, simulated, answer.device_bytes)


def _front_table(answer: StepPlanReply) -> Cells:
    rows = [
        [duration(one.seconds), volume(one.bytes), one.plan, str(one.placement)]
        for one in answer.front
    ]
    headings = ["a step", "memory", "plan", "placement"]
    return Cells(headings, [True, True, False, False], [False, False, True, True], rows)


def _detailed(answer: StepPlanReply, seen: Sequence[Listed], rank: str) -> Detailed:
    first = seen[0].plan
    axes = [name for name, size in first.axes.items() if size > 1] or list(first.axes)[:1]
    rows = [first.placement[list(first.axes).index(name)] for name in axes]
    alone = [[one] for one in axes]
    looked = looked_for(rank, partial(placed_on, answer.levels, axes, rows, alone))
    drawn = topology(answer.levels, around=looked.path)
    there = [
        Device(number, unit_name(answer.levels, at), coordinates(at, rows))
        for number, at in drawn.devices.items()
    ]
    lies = dict(
        zip(axes, in_words(placement_of(answer.levels, first.axes, first.placement)), strict=False)
    )
    return Detailed(
        seen,
        beside(seen, _told(seen)),
        bars(
            "Memory at its largest moment",
            [kind.value for kind in Kind],
            list(_memory(seen)),
            volume,
            Limit(answer.device_bytes, f"a device has {volume(answer.device_bytes)}"),
        ),
        _kinds(seen),
        [
            AxisPicture(
                lies.get(axis, axis),
                placement.caption(axes, [axis]),
                placement.drawing(drawn, there, axes, [axis], looked.device),
            )
            for axis in axes[::-1][:_MOST_PICTURES]
        ],
        axes,
        there,
        drawn.left_out,
        looked,
    )


def _memory(seen: Sequence[Listed]) -> Iterator[Bar]:
    """Each rank of the first plan, and of any other the fullest."""
    first, *others = seen
    ranks = first.plan.ranks
    for number, rank in enumerate(ranks[:MOST_RANKS]):
        label = f"{first.label}, rank {number}" if len(ranks) > 1 else first.label
        yield Bar(label, {kind.what: kind.bytes for kind in rank.memory.kinds})
    for one in others:
        label = f"{one.label}, fullest" if len(one.plan.ranks) > 1 else one.label
        yield Bar(label, {kind.what: kind.bytes for kind in one.plan.memory.kinds})


def _kinds(seen: Sequence[Listed]) -> Cells:
    """The same as a table."""
    several = list(_memory(seen))
    kinds = list(dict.fromkeys(kind for one in several for kind in one.parts))
    rows = [[kind, *(volume(one.parts.get(kind, 0)) for one in several)] for kind in kinds]
    rows.append(["all", *(volume(sum(one.parts.values())) for one in several)])
    count = len(several)
    return Cells(
        ["kind", *(one.label for one in several)],
        [False, *[True] * count],
        [False] * (count + 1),
        rows,
    )


def _told(seen: Sequence[Listed]) -> str:
    """How much longer steps take than that of the answer's first plan."""
    several = []
    for one in seen:
        low, high = one.plan.more.interval
        if low or high:
            tie = ", a tie" if one.plan.tied else ""
            several.append(f"{one.label} {more_or_less(low)} to {more_or_less(high)}{tie}")
    if not several:
        return ""
    told = f"Than plan 1, as far as prices can tell: {'; '.join(several)}."
    return f"{told} {_TIE}" if any(one.endswith(", a tie") for one in several) else told
