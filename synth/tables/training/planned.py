"""Plans of a whole step in few words: the table, where the best lies, and what beats what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import RenderableType

from hierarchies.units import duration, volume
from synth.tables.placements import placed
from synth.tables.style import follows, many, paragraphs, shape, stopped, table_of
from synth.tables.training.gained import by_programs
from synth.tables.training.sent import sent_in_step
from synth.train.planner.resolution import FULL, SNUG
from synth.train.plans import parse_recipe
from synth.verbs.answers.training.planned import StepPlanReply
from synth.verbs.answers.training.plans import PlanOfStep

_Row = tuple[int, PlanOfStep]
_AS_MUCH = 0.05
"""Shares of measured seconds that differ by less are as much."""


def plans(answer: StepPlanReply) -> RenderableType:
    """Plans of a model's step, the fastest first."""
    return paragraphs(
        *_head(answer), "", *_found(answer), *_beside(answer), *_rows(answer), *_end(answer)
    )


def _head(answer: StepPlanReply) -> Iterator[RenderableType]:
    tokens = f", {answer.tokens:,} tokens" if answer.tokens else ""
    yield f"{answer.model}: {many(answer.samples, 'sample')}{tokens} a step, in {answer.dtype}"
    yield (
        f"on {answer.system}, {shape(answer.levels)}, each a {answer.device} of"
        f" {volume(answer.device_bytes)}; {follows(answer.prices)}"
    )
    if answer.pins:
        yield f"pinned: {answer.pins}"
    if answer.assumed:
        yield f"assumed: {answer.assumed}"


def _found(answer: StepPlanReply) -> Iterator[RenderableType]:
    if not answer.plans:
        yield from _nothing(answer)
        return
    right = "#,a step,longer,tokens/s,samples/s,of peak,memory,waits,idle,gap"
    yield table_of(list(enumerate(answer.plans, 1)), _columns(answer), right=right)
    yield from as_fast(answer)
    yield from nearly_full(answer)
    yield ""
    for number, one in enumerate(answer.plans, 1):
        yield f"{number}: {one.plan}"
    yield from by_buckets(answer)
    yield from by_profile(answer)
    yield ""
    best = answer.best
    if answer.advised:
        yield f"of plan {answer.advised + 1}:"
    yield from placed(answer.levels, best.axes, [best.placement])
    yield from placement_gain(answer, best)
    yield from sent_in_step(answer.sent)
    yield from by_programs(answer)
    yield f"\nits timeline: {_command(answer, best)}"
    folders = dict.fromkeys(one.name.partition("/")[0] for one in answer.files)
    written = [folder for folder in folders if folder != "mscclpp"]
    if written:
        yield f"-o FOLDER writes it for {', '.join(written)}"
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
    "a step": lambda row: duration(row[1].seconds),
    "longer": lambda row: _longer(row[1], "same" if row[0] > 1 else ""),
    "tokens/s": lambda row: f"{row[1].tokens_per_second:,.0f}",
    "of peak": lambda row: f"{row[1].utilisation:.1%}",
    "memory": lambda row: volume(row[1].memory.bytes),
    "waits": lambda row: f"{row[1].exposed_seconds / row[1].seconds:.1%}",
    "idle": lambda row: f"{row[1].idle_seconds / row[1].seconds:.1%}",
    "gap": lambda row: f"{row[1].gap:.0%}",
    "placement": lambda row: str(row[1].placement),
}


def _longer(one: PlanOfStep, same: str) -> str:
    """How much longer than the first a plan takes, as shares of it."""
    first = one.seconds - one.more.seconds
    low, high = (f"{100 * end / first:.0f}" for end in one.more.interval)
    return same if one.tied else f"{low}-{high}%"


def nearly_full(answer: StepPlanReply) -> Iterator[str]:
    """Which plans leave less than a tenth of the memory free."""
    most = FULL * answer.device_bytes
    full = [number for number, one in enumerate(answer.plans, 1) if one.memory.bytes > most]
    if full:
        leave = "leaves" if len(full) == 1 else "leave"
        yield (
            f"of these plans, {_together(full)} {leave} less than a tenth of the memory free: may"
            " slow down, or crash"
        )


def by_buckets(answer: StepPlanReply) -> Iterator[str]:
    """What plans wait less by their buckets."""
    saved = [
        f"number {number} by {duration(one.bucket_saved_seconds)}"
        for number, one in enumerate(answer.plans, 1)
        if one.bucket_saved_seconds
    ]
    if saved:
        yield (
            "of these plans, a step waits less than with each gradient summed by itself:"
            f" {', '.join(saved)}"
        )


def by_profile(answer: StepPlanReply) -> Iterator[str]:
    """How much of what each plan computes goes by a profile."""
    shares = [
        f"number {number} {one.measured.share:.0%} ({one.measured.measured_kinds} of"
        f" {many(one.measured.kinds, 'kind')})"
        for number, one in enumerate(answer.plans, 1)
        if one.measured
    ]
    if not shares:
        return
    yield (
        "of the local seconds of these plans are measured, the rest is by the roofline:"
        f" {', '.join(shares)}"
    )
    measured = [one.measured.share for one in answer.plans if one.measured]
    if max(measured) - min(measured) > _AS_MUCH:
        yield (
            "a plan of which less is measured may only look faster: simulate it with a profile of"
            " its own"
        )


def _together(numbers: Sequence[int]) -> str:
    """``numbers 2, 3 and 5``, or ``number 2``."""
    *others, last = map(str, numbers)
    return f"numbers {', '.join(others)} and {last}" if others else f"number {last}"


def as_fast(answer: StepPlanReply) -> Iterator[str]:
    """Which plans prices cannot tell from the first, and by what one of all these is taken."""
    tied = [number for number, one in enumerate(answer.plans, 1) if one.tied and number > 1]
    if not tied or answer.advised is None:
        return
    by = ", and of such ".join(_before(answer, [answer.plans[number - 1] for number in (1, *tied)]))
    are = "is" if len(tied) == 1 else "are"
    yield (
        f"of these plans, {_together(tied)} {are} as fast as the first, as far as prices can tell;"
        f" take {answer.advised + 1}{f', with {by}' if by else ''}"
    )


def _before(answer: StepPlanReply, left: Sequence[PlanOfStep]) -> Iterator[str]:
    """What the plan to be taken has before others, criterion after criterion.

    Those are the answer's own (``advised``); one that all have alike is not said.
    """
    best = answer.best
    for said, key in _SIMPLER.items():
        kept = [one for one in left if key(answer, one) == key(answer, best)]
        if len(kept) < len(left):
            axes = sum(size > 1 for size in best.axes.values())
            longer = best.more.interval[1]
            worst = f" (at worst {duration(longer)} longer than the first)" if longer > 0 else ""
            yield said.format(memory=volume(best.memory.bytes), axes=axes, worst=worst)
        left = kept


_SIMPLER: Mapping[str, Callable[[StepPlanReply, PlanOfStep], object]] = {
    "room in memory": lambda answer, one: one.memory.bytes > FULL * answer.device_bytes,
    "the fewest axes ({axes})": lambda _, one: sum(size > 1 for size in one.axes.values()),
    "axes as frameworks lay them out": lambda _, one: one.by_framework,
    "nothing computed again": lambda _, one: parse_recipe(one.plan).remat,
    "a fifth of the memory free": lambda answer, one: one.memory.bytes > SNUG * answer.device_bytes,
    "the least at risk{worst}": lambda _, one: one.more.interval[1],
    "the least memory ({memory})": lambda _, one: one.memory.bytes,
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
        f"--plan '{best.plan}'",
    ]
    return " ".join(said)


def placement_gain(answer: StepPlanReply, best: PlanOfStep) -> Iterator[str]:
    """What lying elsewhere than frameworks put it is worth."""
    more = answer.usual_more
    if answer.usual_seconds is None:
        yield "no plan that fits lies as frameworks lay axes out"
    elif more is None or not more.told:
        yield "frameworks lay the axes out so, or as well as prices can tell"
    else:
        ends = (more.seconds, more.interval[0])
        first = answer.plans[0].seconds  # which they are more than
        gain, least = ((first + end) / best.seconds for end in ends)
        yield (
            f"{gain:.2f} times as fast as the best that lies as frameworks lay axes out,"
            f" {least:.2f} at least, as far as prices can tell"
        )


def _nothing(answer: StepPlanReply) -> Iterator[RenderableType]:
    searched = answer.proved == "infeasible"
    if searched:
        yield f"NOTHING FITS: none of {answer.considered:,} plans"
    else:
        looked_at = many(answer.considered, "plan")
        yield f"NOTHING FOUND THAT FITS: {looked_at} looked at"
    if answer.nearest is not None:
        one = answer.nearest
        yield (
            f"the least memory{'' if searched else ' of these'}: {volume(one.bytes)} of"
            f" {volume(answer.device_bytes)}, {volume(one.excess_bytes)} too much, by\n{one.plan}"
        )
        for knob in one.freed:
            fits = ", and fits" if knob.bytes <= answer.device_bytes else ""
            yield f"{knob.what}: {volume(knob.freed_bytes)} less{fits}"
        if not one.freed and answer.complete:
            yield "no pin, nor half the sequence or twice the devices, would help"


def why_not(answer: StepPlanReply) -> Iterator[str]:
    """The best of the plans asked why not, and how much longer it takes than the first."""
    if not answer.asked_why_not:
        return
    other = answer.why_not
    if other is None:
        near = answer.why_not_nearest
        lacks = f": the least memory is {volume(near.bytes)}, by {near.plan}" if near else ""
        said = "No such plan fits" if answer.complete else "No such plan was found that fits"
        yield f"why not {answer.asked_why_not}? {said}{lacks}"
        return
    yield f"why not {answer.asked_why_not}? The best so: {other.plan}"
    if not answer.plans:
        return
    low, high = other.more.interval
    yield (
        f"{duration(other.seconds)} a step, {more_or_less(other.more.seconds)} than the first"
        f" ({more_or_less(low)} to {more_or_less(high)}, as far as prices can tell)"
    )


def _beside(answer: StepPlanReply) -> Iterator[RenderableType]:
    """Why not the plan that was asked for, then what it takes beside the first, part by part."""
    said, other = list(why_not(answer)), answer.why_not
    if other is None or not answer.plans:
        yield from ["", *said] if said else ()
        return
    best = answer.plans[0]
    yield from ("", *said[:-1], f"{said[-1]}:")
    parts = {
        "computing": (best.compute_seconds, other.compute_seconds),
        "waiting for communication": (best.exposed_seconds, other.exposed_seconds),
        "waiting for other stages": (best.idle_seconds, other.idle_seconds),
    }
    for what, (one, two) in parts.items():
        sign = "+" if two >= one else "-"
        yield f"  {sign}{duration(abs(two - one))} {what}"
    yield f"  {volume(other.memory.bytes)} of memory against {volume(best.memory.bytes)}"
    if other.tied:
        yield "as fast as the first, as far as prices can tell"
    for source in other.more.sources[:1]:
        yield (
            f"most of what is not sure comes of {source.what}:"
            f" {duration(source.less_seconds)} less to {duration(source.more_seconds)} more"
        )


def more_or_less(seconds: float) -> str:
    """A difference in words."""
    return f"{duration(abs(seconds))} {'more' if seconds >= 0 else 'less'}"


def _ended(answer: StepPlanReply) -> str:
    """How the search ended, and what that proves."""
    found = (
        f"{answer.considered:,} plans, of which {answer.fitting:,} fit and {answer.priced:,}"
        f" could not be ruled out"
    )
    match answer.proved:
        case "optimal":
            return f"{found}: none is faster as composed"
        case "best-found" if answer.above is not None:
            return (
                f"{found}: the best found, as composed at most {answer.above:.0%} above what no"
                f" plan can beat, all devices multiplying at their peak"
            )
    return found


def _rows(answer: StepPlanReply) -> Iterator[RenderableType]:
    """What the first plan could do otherwise, operation by operation."""
    found = answer.rows
    if found is None:
        return
    yield ""
    if found.sums is None or found.sums_gap is None or found.recipe_sums is None:
        yield f"rows of single operations are not chosen together: {found.because}"
    elif found.rows_seconds is not None and found.rows_bytes is not None:
        of_stages = ", stages too" if answer.plans[0].axes.get("pipe", 1) > 1 else ""
        yield (
            f"rows of single operations, chosen together: {duration(found.sums)} one after the"
            f" other{of_stages} (the first plan's: {duration(found.recipe_sums)}), at most"
            f" {found.sums_gap:.2g} of that above the least; on the clock"
            f" {duration(found.rows_seconds)}, {volume(found.rows_bytes)}"
        )
    if found.rounded:
        yield (
            f"by these rows sums are added up on the other side of {many(found.rounded, 'cast')},"
            " so in the narrower type: part of what they gain, and other rounding"
        )
    yield (
        f"{found.tried} substitutions where it redistributes: "
        + (f"{duration(found.substituted_seconds)} by the best" if found.pays else "none pays")
    )
    yield (
        "faster than the first; -o FOLDER writes it as rows.plan"
        if found.better
        else "no rows of single operations beat the first plan"
    )


def _end(answer: StepPlanReply) -> Iterator[RenderableType]:
    yield ""
    if answer.plans:
        count = len(answer.plans)
        first = "the first is" if count == 1 else f"the first {count} are"
        yield f"{_ended(answer)}; {first} simulated"
    for one in answer.refused[:3]:
        yield f"{many(one.plans, 'plan')} cannot be: {one.because}"
    yield (
        "waits, idle: for communication, for other stages; gap: above"
        f" {duration(answer.least_seconds)}, if all devices computed all the time"
    )
    if not answer.complete:
        yield stopped(answer.complete) or ""
