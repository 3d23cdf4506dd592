"""Plans of a whole step in few words: the table, where the best lies, and what beats what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import RenderableType

from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.training.planned import StepPlanReply
from synth.ask.answers.training.plans import ROWS, PlanOfStep
from synth.show.terminal.placements import render_placements
from synth.show.terminal.style import (
    paragraphs,
    pluralize,
    price_basis,
    shape,
    stopped_warning,
    table_of,
)
from synth.show.terminal.training.gained import render_program_gains
from synth.show.terminal.training.sent import render_collectives
from synth.step.search.resolution import FULL_SHARE, SNUG
from synth.step.sharding import parse_recipe

_Row = tuple[int, PlanOfStep]
_AS_MUCH = 0.05
"""Shares of measured seconds that differ by less are as much."""


def render_plans(answer: StepPlanReply) -> RenderableType:
    """Plans of a model's step, the fastest first."""
    return paragraphs(
        *_head(answer),
        "",
        *_render_found(answer),
        *_render_why_not(answer),
        *_end(answer),
    )


def _head(answer: StepPlanReply) -> Iterator[RenderableType]:
    tokens = f", {answer.tokens:,} tokens" if answer.tokens else ""
    yield f"{answer.model}: {pluralize(answer.samples, 'sample')}{tokens} a step, in {answer.dtype}"
    yield (
        f"on {answer.system}, {shape(answer.levels)}, each a {answer.device} of"
        f" {format_bytes(answer.device_bytes)}; {price_basis(answer.prices)}"
    )
    if answer.pins:
        yield f"pinned: {answer.pins}"
    if answer.assumed:
        yield f"assumed: {answer.assumed}"


def _render_found(answer: StepPlanReply) -> Iterator[RenderableType]:
    if not answer.plans:
        yield from _render_no_plan(answer)
        return
    right = "#,step time,slower by,tokens/s,samples/s,of peak,memory,communication,bubble,gap"
    yield table_of(list(enumerate(answer.plans, 1)), _columns(answer), right=right)
    yield from tie_lines(answer)
    yield from nearly_full_lines(answer)
    yield ""
    for number, one in enumerate(answer.plans, 1):
        yield f"{number}: {one.title}"
    yield from bucket_gain_lines(answer)
    yield from rows_lines(answer)
    yield from by_profile(answer)
    yield ""
    best = answer.best
    if answer.advised:
        yield f"of plan {answer.advised + 1}:"
    yield from render_placements(answer.levels, best.axes, [best.placement])
    yield from placement_gain(answer, best)
    yield from render_collectives(answer.sent)
    yield from render_program_gains(answer)
    yield f"\nits timeline: {_command(answer, best)}"
    folders = dict.fromkeys(one.name.partition("/")[0] for one in answer.files if one.name != ROWS)
    written = [folder for folder in folders if folder != "mscclpp"]
    if written:
        yield f"-o FOLDER writes it for {', '.join(written)}"
    if best.rows:
        yield "-o FILE writes it in full, as 'simulate', 'shard' and 'train' take it"
    for framework in answer.not_said:
        yield f"not for {framework.framework}: {framework.because}"


def _columns(answer: StepPlanReply) -> Mapping[str, Callable[[_Row], str]]:
    """Those of plans; where samples are no texts, samples in the place of tokens."""
    if answer.tokens:
        return _PLANS

    def rate(row: _Row) -> str:
        return f"{answer.samples / row[1].seconds:,.0f}"

    told = {"tokens/s": ("samples/s", rate)}
    return dict(told.get(name, (name, column)) for name, column in _PLANS.items())


_PLANS: Mapping[str, Callable[[_Row], str]] = {
    "#": lambda row: str(row[0]),
    "axes": lambda row: " ".join(f"{name}={size}" for name, size in row[1].axes.items()),
    "step time": lambda row: format_duration(row[1].seconds),
    "slower by": lambda row: _extra_time_text(row[1], "tie" if row[0] > 1 else ""),
    "tokens/s": lambda row: f"{row[1].tokens_per_second:,.0f}",
    "of peak": lambda row: f"{row[1].utilisation:.1%}",
    "memory": lambda row: format_bytes(row[1].memory.bytes),
    "communication": lambda row: f"{row[1].exposed_seconds / row[1].seconds:.1%}",
    "bubble": lambda row: f"{row[1].idle_seconds / row[1].seconds:.1%}",
    "gap": lambda row: f"{row[1].gap:.0%}",
    "placement": lambda row: str(row[1].placement),
}


def _extra_time_text(one: PlanOfStep, tie: str) -> str:
    """By which share of the first plan's time a plan is slower, as an interval."""
    first = one.seconds - one.more.seconds
    low, high = (f"{100 * end / first:.0f}" for end in one.more.interval)
    return tie if one.tied else f"{low}-{high}%"


def nearly_full_lines(answer: StepPlanReply) -> Iterator[str]:
    """Which plans leave less than a tenth of the memory free."""
    most = FULL_SHARE * answer.device_bytes
    full = [number for number, one in enumerate(answer.plans, 1) if one.memory.bytes > most]
    if full:
        leave, they = ("leaves", "it") if len(full) == 1 else ("leave", "they")
        yield (
            f"{_join_numbers(full)} {leave} less than a tenth of the memory free:"
            f" {they} may slow down or crash"
        )


def bucket_gain_lines(answer: StepPlanReply) -> Iterator[str]:
    """What plans save by their gradient buckets."""
    saved = [
        f"plan {number} {format_duration(one.bucket_saved_seconds)}"
        for number, one in enumerate(answer.plans, 1)
        if one.bucket_saved_seconds
    ]
    if saved:
        yield f"time saved by reducing gradients in buckets: {', '.join(saved)}"


def rows_lines(answer: StepPlanReply) -> Iterator[str]:
    """What was chosen operation by operation, and how near to the best that is."""
    for number, one in enumerate(answer.plans, 1):
        if one.rows:
            yield (
                f"plan {number}, one operation after the other: {format_duration(one.rows.sums)}"
                f" (its recipe: {format_duration(one.rows.recipe_sums)}), at most"
                f" {one.rows.sums_gap:.2g} of that above the optimum"
            )


def by_profile(answer: StepPlanReply) -> Iterator[str]:
    """Which share of each plan's local seconds comes from a profile."""
    shares = [
        f"plan {number} {one.measured.share:.0%} ({one.measured.measured_kinds} of"
        f" {pluralize(one.measured.kinds, 'kind')})"
        for number, one in enumerate(answer.plans, 1)
        if one.measured
    ]
    if not shares:
        return
    yield (f"measured share of local seconds (the rest is by the roofline): {', '.join(shares)}")
    measured = [one.measured.share for one in answer.plans if one.measured]
    if max(measured) - min(measured) > _AS_MUCH:
        yield (
            "a plan with a smaller measured share may only look faster: simulate it with a profile"
            " of its own"
        )


def _join_numbers(numbers: Sequence[int]) -> str:
    """``plans 2, 3 and 5``, or ``plan 2``."""
    *others, last = map(str, numbers)
    return f"plans {', '.join(others)} and {last}" if others else f"plan {last}"


def tie_lines(answer: StepPlanReply) -> Iterator[str]:
    """Which plans tie with the first, and why one of them is advised."""
    tied = [number for number, one in enumerate(answer.plans, 1) if one.tied and number > 1]
    if not tied or answer.advised is None:
        return
    reasons = ", ".join(
        _preference_lines(answer, [answer.plans[number - 1] for number in (1, *tied)])
    )
    ties = "ties" if len(tied) == 1 else "tie"
    yield (
        f"{_join_numbers(tied)} {ties} with the first within the prediction's uncertainty;"
        f" take plan {answer.advised + 1}{f': {reasons}' if reasons else ''}"
    )


def _preference_lines(answer: StepPlanReply, left: Sequence[PlanOfStep]) -> Iterator[str]:
    """What the plan to be taken has before others, criterion after criterion.

    Those are the answer's own (``advised``); one that all have alike is not said.
    """
    best = answer.best
    for said, key in _SIMPLICITY.items():
        kept = [one for one in left if key(answer, one) == key(answer, best)]
        if len(kept) < len(left):
            axes = sum(size > 1 for size in best.axes.values())
            longer = best.more.interval[1]
            worst = (
                f" (at worst {format_duration(longer)} slower than the first)" if longer > 0 else ""
            )
            yield said.format(memory=format_bytes(best.memory.bytes), axes=axes, worst=worst)
        left = kept


_SIMPLICITY: Mapping[str, Callable[[StepPlanReply, PlanOfStep], object]] = {
    "a tenth of the memory free": lambda answer, one: (
        one.memory.bytes > FULL_SHARE * answer.device_bytes
    ),
    "fewest axes ({axes})": lambda _, one: sum(size > 1 for size in one.axes.values()),
    "axes in frameworks' own order": lambda _, one: one.by_framework,
    "no recomputation": lambda _, one: parse_recipe(one.recipe).remat,
    "a fifth of the memory free": lambda answer, one: one.memory.bytes > SNUG * answer.device_bytes,
    "least risk{worst}": lambda _, one: one.more.interval[1],
    "least memory ({memory})": lambda _, one: one.memory.bytes,
}


def _command(answer: StepPlanReply, best: PlanOfStep) -> str:
    """What shows a plan on the clock."""
    sizes = ",".join(f"{name}={size}" for name, size in answer.sizes.items())
    said = [
        f"collsynth simulate {answer.model} {answer.system} --batch {answer.samples}",
        *([f"--sizes {sizes}"] if sizes else []),
        f"--dtype {answer.computed_in} --optimizer {answer.optimizer} --overlap all",
        *([] if best.by_framework else [f"--placement '{best.placement}'"]),
        *([f"--profile {best.measured.profile}"] if best.measured else []),
        f"--plan {ROWS}" if best.rows else f"--plan '{best.plan}'",
    ]
    return " ".join(said)


def placement_gain(answer: StepPlanReply, best: PlanOfStep) -> Iterator[str]:
    """What the placement gains over frameworks' own order of axes."""
    more = answer.usual_more
    if answer.usual_seconds is None:
        yield "no plan in frameworks' own order of axes fits"
    elif more is None or not more.told:
        yield "frameworks' own order of axes is this one, or ties with it"
    else:
        ends = (more.seconds, more.interval[0])
        first = answer.plans[0].seconds  # which they are more than
        gain, least = ((first + end) / best.seconds for end in ends)
        yield (
            f"{gain:.2f} times as fast as the best plan in frameworks' own order of axes (at least"
            f" {least:.2f} within the prediction's uncertainty)"
        )


def _render_no_plan(answer: StepPlanReply) -> Iterator[RenderableType]:
    searched = answer.proved == "infeasible"
    if searched:
        yield f"NOTHING FITS: none of {answer.considered:,} plans"
    else:
        looked_at = pluralize(answer.considered, "plan")
        yield f"NOTHING FOUND THAT FITS: {looked_at} looked at"
    if answer.nearest is not None:
        one = answer.nearest
        yield (
            f"the least memory{'' if searched else ' of these'}: {format_bytes(one.bytes)} of"
            f" {format_bytes(answer.device_bytes)}, {format_bytes(one.excess_bytes)} too much, "
            f"by\n{one.plan}"
        )
        for knob in one.freed:
            fits = ", which fits" if knob.bytes <= answer.device_bytes else ""
            yield f"{knob.what}: {format_bytes(knob.freed_bytes)} less{fits}"
        if not one.freed and answer.complete:
            yield "neither fewer pins, half the sequence nor twice the devices would help"


def why_not_lines(answer: StepPlanReply) -> Iterator[str]:
    """The best of the plans asked why not, and how much longer it takes than the first."""
    if not answer.asked_why_not:
        return
    other = answer.why_not
    if other is None:
        near = answer.why_not_nearest
        lacks = f": the least memory is {format_bytes(near.bytes)}, by {near.plan}" if near else ""
        said = "No such plan fits" if answer.complete else "No such plan was found that fits"
        yield f"why not {answer.asked_why_not}? {said}{lacks}"
        return
    yield f"why not {answer.asked_why_not}? The best such plan: {other.title}"
    if not answer.plans:
        return
    low, high = other.more.interval
    yield (
        f"{format_duration(other.seconds)} a step, {difference_text(other.more.seconds)} than the"
        f" first ({difference_text(low)} to {difference_text(high)} within the prediction's"
        " uncertainty)"
    )


def _render_why_not(answer: StepPlanReply) -> Iterator[RenderableType]:
    """Why not the plan that was asked for, then what it takes beside the first, part by part."""
    said, other = list(why_not_lines(answer)), answer.why_not
    if other is None or not answer.plans:
        yield from ["", *said] if said else ()
        return
    best = answer.plans[0]
    yield from ("", *said[:-1], f"{said[-1]}:")
    parts = {
        "compute": (best.compute_seconds, other.compute_seconds),
        "exposed communication": (best.exposed_seconds, other.exposed_seconds),
        "bubble": (best.idle_seconds, other.idle_seconds),
    }
    for what, (one, two) in parts.items():
        sign = "+" if two >= one else "-"
        yield f"  {sign}{format_duration(abs(two - one))} {what}"
    yield (
        f"  {format_bytes(other.memory.bytes)} of memory against {format_bytes(best.memory.bytes)}"
    )
    if other.tied:
        yield "a tie with the first within the prediction's uncertainty"
    for source in other.more.sources[:1]:
        yield (
            f"largest source of uncertainty: {source.what},"
            f" {format_duration(source.less_seconds)} less to "
            f"{format_duration(source.more_seconds)} more"
        )


def difference_text(seconds: float) -> str:
    """A difference in words."""
    return f"{format_duration(abs(seconds))} {'more' if seconds >= 0 else 'less'}"


def _search_end_text(answer: StepPlanReply) -> str:
    """How the search ended, and what that proves."""
    found = (
        f"{answer.considered:,} plans, of which {answer.fitting:,} fit and {answer.priced:,}"
        f" could not be ruled out"
    )
    match answer.proved:
        case "optimal":
            return f"{found}: none is faster by its composed estimate"
        case "best-found" if answer.above is not None:
            return (
                f"{found}: the best found, by its composed estimate at most {answer.above:.0%}"
                " above the time in which all devices compute at their peak"
            )
    return found


def _end(answer: StepPlanReply) -> Iterator[RenderableType]:
    yield ""
    if answer.plans:
        count = len(answer.plans)
        first = "the first is" if count == 1 else f"the first {count} are"
        yield f"{_search_end_text(answer)}; {first} simulated"
    for one in answer.refused[:3]:
        yield f"{pluralize(one.plans, 'plan')} are impossible: {one.because}"
    yield (
        "communication: share of the step that only communicates; bubble: that waits for other"
        f" stages; gap: above {format_duration(answer.least_seconds)}, in which all devices compute"
        " all the time"
    )
    if not answer.complete:
        yield stopped_warning(answer.complete) or ""
