"""Rankings as people read them: the best answers, and from which size on which is the best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rich.console import RenderableType

from hierarchies.units import duration, volume
from synth.tables.degraded import uneven
from synth.tables.rows import Row, Stripe, ranked_table, rows
from synth.tables.style import (
    axes_text,
    between,
    lacking,
    many,
    paragraphs,
    request_text,
    searched,
    shape,
    stopped,
    table_of,
)
from synth.verbs.answers.degraded import UnevenReply
from synth.verbs.answers.machine_parts import MachineInFull
from synth.verbs.answers.planning import (
    PlacementOption,
    PlannedEntry,
    PlanReply,
    SystemsRankedReply,
    UnpricedEntry,
)
from synth.verbs.answers.ranked import RankedAnswer, RankingReply, SweepReply

_SPEEDUP = "speed-up: over the default, what the runtime would choose on the same placement"
_LEGEND = f"{_SPEEDUP}\nbound: share of the time that no schedule can avoid"
_SEEN_RATIO = 1.005
"""Times below this ratio are called equal: it would be printed as 1.00."""


def top(reply: RankingReply | SweepReply | UnevenReply) -> RenderableType:
    """The answers of one size, or of a range of sizes."""
    match reply:
        case SweepReply():
            return sweep(reply)
        case UnevenReply():
            return uneven(reply)
        case RankingReply():
            return ranking(reply)


def ranking(reply: RankingReply) -> RenderableType:
    """The answers of one size."""
    columns = ("#", "placement", "program", "time", "speed-up", "bound", "limited by", "proof")
    axes = reply.answers[0].axes if reply.answers else {}
    others = [name for name in axes if name not in reply.reduce]
    programs = many(reply.considered.programs, "program")
    default = duration(reply.best_default_seconds)
    return paragraphs(
        *_asked(reply, axes, reply.bytes),
        ranked_table(rows(reply), *columns),
        *_reasons(reply),
        f"\n{searched(reply.considered)}, {programs} ranked; best default: {default}",
        _LEGEND,
        *_ties(reply.answers, "answer"),
        f"not priced: what the axis {' or '.join(others)} sends" if others else None,
        stopped(reply.complete),
    )


def _asked(
    reply: RankingReply | SweepReply, axes: Mapping[str, int], *sizes_bytes: int
) -> Iterator[str]:
    """The question and its machine in words, and what rows and columns of a placement mean."""
    asked, system = request_text(reply.request, reply.reduce, *sizes_bytes), reply.system
    yield f"{asked}, {axes_text(axes)} on {system.name}, {shape(system.levels)}"
    if lacks := lacking(system.exceptions):
        yield lacks
    yield f"placement: {_rows_and_columns(axes, system)}\n"


def _rows_and_columns(axes: Iterable[str], system: MachineInFull) -> str:
    levels = ", ".join(level.name for level in system.levels)
    return f"rows {', '.join(axes)}; columns {levels}"


def sweep(reply: SweepReply) -> RenderableType:
    """From which size on which answer is the best."""
    columns = ("sizes", "placement", "program", "time", "speed-up", "bound", "proof")
    axes = reply.stretches[0].first.axes if reply.stretches else {}
    return paragraphs(
        *_asked(reply, axes, *reply.bytes),
        ranked_table([replace(row, interval=()) for row in rows(reply)], *columns),
        f"\n{many(len(reply.sizes), 'size')} asked; changes are told to 1%",
        f"{_LEGEND}; first and last size",
        stopped(reply.complete),
    )


def several(reply: SystemsRankedReply) -> RenderableType:
    """The best answer of each system in one table; of a range of sizes, one table each."""
    first = reply.systems[0]
    if isinstance(first, SweepReply):
        each = [part for one in reply.systems for part in (top(one), "")]
        return paragraphs(*each, stopped(reply.complete))
    columns = ("system", "placement", "program", "time", "speed-up", "limited by", "proof")
    others = (one for one in reply.systems if not isinstance(one, SweepReply))
    asked = request_text(first.request, first.reduce, first.bytes)
    return paragraphs(
        f"{asked}: the best on each of {many(len(reply.systems), 'system')}\n",
        ranked_table((_best(one) for one in others if one.answers), *columns),
        _SPEEDUP,
        stopped(reply.complete),
    )


def _best(reply: RankingReply | UnevenReply) -> Row:
    """The first row, under the name of the system."""
    row = replace(rows(reply)[0], title=(reply.system.name,), interval=())
    if isinstance(reply, UnevenReply):
        whole = Stripe((reply.answers[0].program,), "", "")
        return replace(row, placement="uneven", stripes=(whole,))
    return row


def plan(reply: PlanReply) -> RenderableType:
    """The placement of a job, what each entry does on it, and the next best placements."""
    best, *others = reply.ranking
    exposed, default = best.exposed_seconds, reply.default_exposed_seconds
    longer = default / exposed if exposed else 1.0
    gain = f", {longer:.2f} times as long" if longer >= _SEEN_RATIO else ", as long"
    return paragraphs(
        ": ".join(filter(None, (reply.job, reply.title))),
        f"on {reply.system.name}, {shape(reply.system.levels)}: {axes_text(best.axes)}",
        lacking(reply.system.exceptions) or None,
        f"placement {best.placement}: {_rows_and_columns(best.axes, reply.system)}",
        f"a step waits {duration(exposed)} for communication that compute does not hide\n"
        f"(with the runtime's own choice on the same placement {duration(default)}{gain})\n",
        *_entries(reply),
        "",
        *_others(others),
        *_ties(reply.ranking, "placement"),
        *_unpriced(reply.unpriced),
        f"{searched(reply.considered)}; what computing costs is not weighed",
        "loss: one call against the placement that the entry would have wanted for itself",
        stopped(reply.complete),
    )


def _entries(reply: PlanReply) -> Iterator[RenderableType]:
    """What each entry costs, then the program of each: two tables, so that both fit a terminal."""
    if not reply.entries:
        yield "no collective is left: the axes that they are over have size 1"
        return
    right = "#,bytes,times,hidden,one call,exposed,loss"
    yield table_of(reply.entries, _COSTS, right=right, wraps="entry")
    yield ""
    requests = [entry.request.value for entry in reply.entries]
    titled = [replace(row, title=(one,)) for row, one in zip(rows(reply), requests, strict=True)]
    yield ranked_table(titled, "#", "request", "program", "bound", "limited by", "proof")


_COSTS: Mapping[str, Callable[[PlannedEntry], str]] = {
    "#": lambda entry: str(entry.answer.rank),
    "entry": lambda entry: entry.name,
    "over": lambda entry: ",\n".join(entry.over),
    "bytes": lambda entry: volume(entry.bytes),
    "times": lambda entry: f"{entry.times:g}",
    "hidden": lambda entry: f"{entry.hidden:.0%}",
    "one call": lambda entry: duration(entry.answer.seconds),
    "exposed": lambda entry: duration(entry.exposed_seconds),
    "loss": lambda entry: f"{entry.loss:.2f}x",
}


def _others(options: list[PlacementOption]) -> Iterator[RenderableType]:
    if options:
        yield table_of(options, _OPTIONS, right="exposed")
        yield ""


_OPTIONS: Mapping[str, Callable[[PlacementOption], str]] = {
    "next best": lambda option: axes_text(option.axes),
    "placement": lambda option: str(option.placement),
    "exposed": lambda option: "\n".join(
        [duration(option.exposed_seconds), *map(between, filter(None, [option.interval_seconds]))]
    ),
}


def _ties(ranked: Sequence[RankedAnswer | PlacementOption], what: str) -> Iterator[str]:
    """What ties with the first, also the default: measurements cannot tell their prices apart."""
    first = ranked[0] if ranked else None
    if first is None or first.interval_seconds is None:
        return
    text = "below each time: where 9 of 10 measurements lay about such prices"
    many_tied = sum(one.tied for one in ranked)
    if many_tied > 1:
        text += f"\n{many(many_tied, what)} tie with the first: their intervals overlap"
    baseline = first.baseline_interval_seconds if isinstance(first, RankedAnswer) else None
    if baseline and baseline[0] <= first.interval_seconds[1]:
        text += f"\nthe default ({between(baseline)}) ties with the first, too"
    yield text


def _unpriced(entries: list[UnpricedEntry]) -> Iterator[str]:
    for one in entries:
        size = f"{volume(one.bytes)} over {', '.join(one.over)}, {one.times:g} times"
        yield f"not priced: {one.name} ({size}): {one.why}"


def _reasons(reply: RankingReply) -> Iterator[str]:
    """The reasons of the first answer; with ``--explain`` those of every answer."""
    for answer in reply.answers if reply.explain else reply.answers[:1]:
        yield f"\n{answer.rank}: " + ";\n   ".join(answer.why)
