"""Plans of a whole step: their table, the placement of the best, and how plans compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table

from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.planning import PlanReply
from synth.ask.answers.training.planned import ROWS, PlanOfStep, StepPlanReply
from synth.ask.answers.training.swept import PlanSweepReply
from synth.show.terminal.placements import render_placements
from synth.show.terminal.rankings import render_plan
from synth.show.terminal.style import (
    Columns,
    paragraphs,
    pluralize,
    precision_lines,
    precision_text,
    price_basis,
    shape,
    speed_lines,
    stopped_warning,
    table_of,
)
from synth.show.terminal.training.collectives import render_collectives, render_program_gains
from synth.show.terminal.training.simulated import TIME_PARTS
from synth.show.terminal.training.swept import render_swept
from synth.step.search.resolution import FULL_SHARE, SNUG
from synth.step.sharding import parse_recipe

_Row = tuple[int, PlanOfStep, int]
"""The number of a plan, itself, and the samples of its step."""
_AS_MUCH = 0.05
"""Measured shares that differ by less count as equal."""


def render_plan_answer(answer: PlanReply | StepPlanReply | PlanSweepReply) -> RenderableType:
    """Returns the table of what ``plan`` answers: plans of a step or a sweep, a job's placement."""
    match answer:
        case StepPlanReply():
            return render_plans(answer)
        case PlanSweepReply():
            return render_swept(answer)
        case PlanReply():
            return render_plan(answer)


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
    weights = precision_text(answer.precision)
    yield (
        f"{answer.model}: {pluralize(answer.samples, 'sample')}{tokens} a step, in"
        f" {answer.dtype}{weights}"
    )
    yield (
        f"on {answer.system}, {shape(answer.levels)}, each a {answer.device} of"
        f" {format_bytes(answer.device_bytes)}; {price_basis(answer.prices)}"
    )
    yield from precision_lines(answer.precision)
    yield from speed_lines(answer.speed)
    if answer.framework:
        yield f"framework: {answer.framework}"
    if answer.pins:
        yield f"pinned: {answer.pins}"
    if answer.assumed:
        yield f"assumed: {answer.assumed}"


def _render_found(answer: StepPlanReply) -> Iterator[RenderableType]:
    if not answer.plans:
        yield from _render_no_plan(answer)
        return
    yield plan_table(answer)
    yield from tie_lines(answer)
    yield from nearly_full_lines(answer)
    yield ""
    for number, plan in enumerate(answer.plans, 1):
        yield f"{number}: {plan.title}"
    yield from framework_lines(answer)
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
    folders = dict.fromkeys(
        file.name.partition("/")[0] for file in answer.files if file.name != ROWS
    )
    written = [folder for folder in folders if folder != "mscclpp"]
    if written:
        yield f"-o FOLDER writes it for {', '.join(written)}"
    if best.rows:
        yield "-o FILE writes it in full, as 'simulate', 'shard' and 'train' take it"
    for framework in answer.unsupported:
        yield f"not for {framework.framework}: {framework.reason}"


def framework_lines(answer: StepPlanReply) -> Iterator[str]:
    """Yield the frameworks that run the plans, and why no framework runs the others."""
    numbers_of: dict[tuple[str, ...], list[int]] = {}
    for number, plan in enumerate(answer.plans, 1):
        numbers_of.setdefault(tuple(plan.runs_on), []).append(number)
    for frameworks, numbers in numbers_of.items():
        if frameworks:
            verb = "runs" if len(numbers) == 1 else "run"
            yield f"{_join_numbers(numbers)} {verb} on {', '.join(frameworks)}"
    for number in numbers_of.get((), []):
        yield f"no framework runs plan {number}: {refusal_text(answer.plans[number - 1])}"


def refusal_text(plan: PlanOfStep) -> str:
    """Return why the first framework does not run a plan."""
    first = plan.refusals[0]
    return f"{first.framework}: {first.reason}"


def plan_table(
    answer: StepPlanReply, differing: Mapping[str, Sequence[str]] | None = None
) -> Table:
    """Return the table of plans; with samples instead of tokens where samples are not text.

    ``differing``: texts of the plans in the place of their placements, by the headings of columns.
    """
    columns = dict(_PLANS)
    if differing is not None:
        others = {name: _column_of(texts) for name, texts in differing.items()}
        axes = {name: columns.pop(name) for name in ("#", "axes")}
        columns.pop("placement")
        columns = {**axes, **others, **columns}
    columns.pop("samples/s" if answer.tokens else "tokens/s")
    rows = [(number, plan, answer.samples) for number, plan in enumerate(answer.plans, 1)]
    return table_of(rows, columns, right=_FIGURES)


def _column_of(texts: Sequence[str]) -> Callable[[_Row], str]:
    return lambda row: texts[row[0] - 1]


_FIGURES = (
    "#,step time,slower by,tokens/s,samples/s,MFU,memory,communication,bubble,gap,microbatches"
)
_PLANS: Columns[_Row] = {
    "#": lambda row: str(row[0]),
    "axes": lambda row: " ".join(f"{name}={size}" for name, size in row[1].axes.items()),
    "step time": lambda row: format_duration(row[1].seconds),
    "slower by": lambda row: _extra_time_text(row[0], row[1]),
    "tokens/s": lambda row: f"{row[1].tokens_per_second:,.0f}",
    "samples/s": lambda row: f"{row[2] / row[1].seconds:,.0f}",
    "MFU": lambda row: f"{row[1].utilisation:.1%}",
    "memory": lambda row: format_bytes(row[1].memory.bytes),
    "communication": lambda row: f"{row[1].exposed_seconds / row[1].seconds:.1%}",
    "bubble": lambda row: f"{row[1].idle_seconds / row[1].seconds:.1%}",
    "gap": lambda row: f"{row[1].gap:.0%}",
    "placement": lambda row: str(row[1].placement),
}


def _extra_time_text(number: int, plan: PlanOfStep) -> str:
    """Return the share of the first plan's time by which a plan is slower, as an interval."""
    if plan.tied:
        return "tie" if number > 1 else ""
    first = plan.seconds - plan.more.seconds
    low, high = (f"{100 * end / first:.0f}" for end in plan.more.interval)
    return f"{low}-{high}%"


def nearly_full_lines(answer: StepPlanReply) -> Iterator[str]:
    """Yield the plans that leave less than a tenth of the memory free."""
    most = FULL_SHARE * answer.device_bytes
    full = [number for number, plan in enumerate(answer.plans, 1) if plan.memory.bytes > most]
    if full:
        leave, they = ("leaves", "it") if len(full) == 1 else ("leave", "they")
        yield (
            f"{_join_numbers(full)} {leave} less than a tenth of the memory free:"
            f" {they} may slow down or crash"
        )


def bucket_gain_lines(answer: StepPlanReply) -> Iterator[str]:
    """Yield the time that plans save by their gradient buckets."""
    saved = [
        f"plan {number} {format_duration(plan.bucket_saved_seconds)}"
        for number, plan in enumerate(answer.plans, 1)
        if plan.bucket_saved_seconds
    ]
    if saved:
        yield f"time saved by reducing gradients in buckets: {', '.join(saved)}"


def rows_lines(answer: StepPlanReply) -> Iterator[str]:
    """Yield the decisions made operation by operation, and their distance from the best."""
    for number, plan in enumerate(answer.plans, 1):
        if rows := plan.rows:
            yield (
                f"plan {number}, its operations in sequence: {format_duration(rows.sums)}"
                f" (its recipe: {format_duration(rows.recipe_sums)}), at most"
                f" {rows.sums_gap:.2g} of that above the optimum"
            )
    if answer.advised is not None and answer.best.rows and not answer.sent:
        yield (
            "the recommended plan sends nothing: each device computes alone, because this batch is"
            " too small to gain by being divided; fewer devices would do"
        )


def by_profile(answer: StepPlanReply) -> Iterator[str]:
    """Yield the share of each plan's local seconds that a profile measured."""
    found = {number: plan.measured for number, plan in enumerate(answer.plans, 1) if plan.measured}
    if not found:
        return
    texts = ", ".join(
        f"plan {number} {part.share:.0%} ({part.measured_kinds} of {pluralize(part.kinds, 'kind')})"
        for number, part in found.items()
    )
    yield f"measured share of local seconds (the rest is by the roofline): {texts}"
    shares = [part.share for part in found.values()]
    if max(shares) - min(shares) > _AS_MUCH:
        yield (
            "a plan with a smaller measured share may only look faster: simulate it with a profile"
            " of its own"
        )


def _join_numbers(numbers: Sequence[int]) -> str:
    """``plans 2, 3 and 5``, or ``plan 2``."""
    *others, last = map(str, numbers)
    return f"plans {', '.join(others)} and {last}" if others else f"plan {last}"


def tie_lines(answer: StepPlanReply) -> Iterator[str]:
    """Yield the plans that tie with the first, and why one of them is recommended."""
    tied = [number for number, plan in enumerate(answer.plans, 1) if plan.tied and number > 1]
    if answer.advised is None:
        yield "take none of them: no framework runs one"
        return
    if answer.framework != "ideal" and not answer.plans[0].runs_on:
        yield (
            f"no framework runs plan 1; take plan {answer.advised + 1}: the fastest that one runs,"
            " or simpler and a tie with that"
        )
        return
    if not tied:
        return
    plans = [answer.plans[number - 1] for number in (1, *tied)]
    reasons = ", ".join(_preference_lines(answer, plans))
    ties = "ties" if len(tied) == 1 else "tie"
    yield (
        f"{_join_numbers(tied)} {ties} with the first within the prediction's uncertainty;"
        f" take plan {answer.advised + 1}{f': {reasons}' if reasons else ''}"
    )


def _preference_lines(answer: StepPlanReply, left: Sequence[PlanOfStep]) -> Iterator[str]:
    """Yield the advantages of the recommended plan, criterion by criterion.

    Those are the answer's own (``advised``); one that all have alike is not said.
    """
    best = answer.best
    longer = best.more.interval[1]
    worst = f" (at worst {format_duration(longer)} slower than the first)" if longer > 0 else ""
    memory, axes = format_bytes(best.memory.bytes), _axes_in_use(best)
    for text, key in _SIMPLICITY.items():
        kept = [plan for plan in left if key(answer, plan) == key(answer, best)]
        if len(kept) < len(left):
            yield text.format(memory=memory, axes=axes, worst=worst)
        left = kept


def _axes_in_use(plan: PlanOfStep) -> int:
    return sum(size > 1 for size in plan.axes.values())


_SIMPLICITY: Mapping[str, Callable[[StepPlanReply, PlanOfStep], object]] = {
    "a framework runs it": lambda answer, plan: answer.framework == "ideal" or bool(plan.runs_on),
    "a tenth of the memory free": lambda answer, plan: (
        plan.memory.bytes > FULL_SHARE * answer.device_bytes
    ),
    "fewest axes ({axes})": lambda _, plan: _axes_in_use(plan),
    "axes in frameworks' default order": lambda _, plan: plan.by_framework,
    "no recomputation": lambda _, plan: parse_recipe(plan.recipe).remat,
    "a fifth of the memory free": lambda answer, plan: (
        plan.memory.bytes > SNUG * answer.device_bytes
    ),
    "least risk{worst}": lambda _, plan: plan.more.interval[1],
    "least memory ({memory})": lambda _, plan: plan.memory.bytes,
}


def _command(answer: StepPlanReply, best: PlanOfStep) -> str:
    """Return the command that shows a plan on the clock."""
    precision = f" --precision {answer.precision}" if answer.precision else ""
    sizes = ",".join(f"{name}={size}" for name, size in answer.sizes.items())
    return "".join(
        (
            f"collsynth simulate {answer.model} {answer.system} --batch {answer.samples}",
            f" --sizes {sizes}" if sizes else "",
            f" --dtype {answer.computed_in}{precision} --optimizer {answer.optimizer}",
            f" --framework {answer.speed.framework}" if answer.speed else "",
            " --overlap all",
            "" if best.by_framework else f" --placement '{best.placement}'",
            f" --profile {best.measured.profile}" if best.measured else "",
            f" --plan {ROWS}" if best.rows else f" --plan '{best.plan}'",
        )
    )


def placement_gain(answer: StepPlanReply, best: PlanOfStep) -> Iterator[str]:
    """Yield the gain of the placement over frameworks' default order of axes."""
    more = answer.usual_more
    if answer.usual_seconds is None:
        yield "no plan in frameworks' default order of axes fits"
    elif more is None or not more.is_clear:
        yield "frameworks' default order of axes is this one, or ties with it"
    else:
        first = answer.plans[0].seconds  # the differences are from the first plan
        gain, least = ((first + end) / best.seconds for end in (more.seconds, more.interval[0]))
        yield (
            f"{gain:.2f} times as fast as the best plan in frameworks' default order of axes (at"
            f" least {least:.2f} within the prediction's uncertainty)"
        )


def _render_no_plan(answer: StepPlanReply) -> Iterator[RenderableType]:
    searched = answer.proved == "infeasible"
    if searched:
        yield f"NOTHING FITS: none of {answer.considered:,} plans"
    else:
        yield f"NOTHING FOUND THAT FITS: {pluralize(answer.considered, 'plan')} examined"
    nearest = answer.nearest
    if nearest is None:
        return
    yield (
        f"least memory{'' if searched else ' of these'}: {format_bytes(nearest.bytes)} of"
        f" {format_bytes(answer.device_bytes)}, {format_bytes(nearest.excess_bytes)} too much, "
        f"with\n{nearest.plan}"
    )
    for knob in nearest.freed:
        fits = ", which fits" if knob.bytes <= answer.device_bytes else ""
        yield f"{knob.what}: {format_bytes(knob.freed_bytes)} less{fits}"
    if not nearest.freed and answer.complete:
        yield "neither fewer pins, half the sequence nor twice the devices would help"


def why_not_lines(answer: StepPlanReply) -> Iterator[str]:
    """Yield the best plan that ``--explain`` asks about, and its time compared with the first."""
    if not answer.why_not_pins:
        return
    other = answer.why_not
    if other is None:
        near = answer.why_not_nearest
        lacks = (
            f": the least memory is {format_bytes(near.bytes)}, with {near.plan}" if near else ""
        )
        problem = "No such plan fits" if answer.complete else "No such plan was found that fits"
        yield f"why not {answer.why_not_pins}? {problem}{lacks}"
        return
    yield f"why not {answer.why_not_pins}? The best such plan: {other.title}"
    if not answer.plans:
        return
    low, high = other.more.interval
    yield (
        f"{format_duration(other.seconds)} a step, {difference_text(other.more.seconds)} than the"
        f" first ({difference_text(low)} to {difference_text(high)} within the prediction's"
        " uncertainty)"
    )


def _render_why_not(answer: StepPlanReply) -> Iterator[RenderableType]:
    """Yield the plan that ``--explain`` asks about, compared with the first part by part."""
    lines, other = list(why_not_lines(answer)), answer.why_not
    if other is None or not answer.plans:
        yield from ["", *lines] if lines else ()
        return
    best = answer.plans[0]
    yield from ("", *lines[:-1], f"{lines[-1]}:")
    for name, seconds_of in TIME_PARTS.items():
        more = seconds_of(other) - seconds_of(best)
        yield f"  {'+' if more >= 0 else '-'}{format_duration(abs(more))} {name}"
    yield (
        f"  {format_bytes(other.memory.bytes)} of memory against {format_bytes(best.memory.bytes)}"
    )
    if other.tied:
        yield "a tie with the first within the prediction's uncertainty"
    for source in other.more.sources[:1]:
        yield (
            f"largest source of uncertainty: {source.what}, {difference_text(-source.less_seconds)}"
            f" to {difference_text(source.more_seconds)}"
        )


def difference_text(seconds: float) -> str:
    """Return a difference as text."""
    return f"{format_duration(abs(seconds))} {'more' if seconds >= 0 else 'less'}"


def _search_end_text(answer: StepPlanReply) -> str:
    found = (
        f"{answer.considered:,} plans, of which {answer.fitting:,} fit and {answer.priced:,}"
        " could not be ruled out"
    )
    match answer.proved:
        case "optimal":
            return f"{found}: none has a lower estimate"
        case "best-found" if answer.above is not None:
            return (
                f"{found}: the best found; its estimate is at most {answer.above:.0%}"
                " above the time of all devices at their peak"
            )
    return found


def _end(answer: StepPlanReply) -> Iterator[RenderableType]:
    yield ""
    if count := len(answer.plans):
        first = "the first is" if count == 1 else f"the first {count} are"
        yield f"{_search_end_text(answer)}; {first} simulated"
    for refusal in answer.refused[:3]:
        yield f"{pluralize(refusal.plans, 'plan')} are impossible: {refusal.reason}"
    yield (
        "MFU: model FLOP utilisation; communication: share of the step spent only communicating;"
        " bubble: share spent waiting for other stages; gap: distance to"
        f" {format_duration(answer.least_seconds)}, in which all devices compute all the time"
    )
    if warning := stopped_warning(answer.complete):
        yield warning
