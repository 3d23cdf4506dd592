"""Rankings as people read them: the best answers, and from which size on which is the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from hierarchies.units import duration, volume
from synth.tables.degraded import uneven
from synth.tables.style import (
    MARKS,
    axes_told,
    between,
    lacking,
    many,
    shape,
    stopped,
    table,
)
from synth.verbs.answers.degraded import UnevenAnswer, UnevenReply
from synth.verbs.answers.machine_parts import MachineInFull
from synth.verbs.answers.planning import (
    PlacementOption,
    PlacementsConsidered,
    PlannedEntry,
    PlanReply,
    SystemsRankedReply,
    UnpricedEntry,
)
from synth.verbs.answers.ranked import (
    Answer,
    Considered,
    RankedAnswer,
    RankingReply,
    SweepReply,
)

_LEGEND = (
    "speed-up: over the default, what the runtime would choose on the same placement\n"
    "bound: share of the time that no schedule can avoid"
)


_TOLD = 1.005
"""Below this ratio times are told as the same, which they would look like."""


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
    drawn = table(*columns, right="#,time,speed-up,bound", wraps="program")
    for answer in reply.answers:
        drawn.add_row(
            str(answer.rank),
            _rows(answer.placement),
            _in_stripes(answer),
            duration(answer.seconds) + _measured(answer.interval_seconds),
            f"{answer.speedup:.2f}x",
            f"{_share_of_bound(answer):.0%}",
            answer.limited_by or "-",
            MARKS[answer.proof],
        )
    considered = reply.considered
    names = list(reply.answers[0].axes) if reply.answers else []
    others = [name for name in names if name not in reply.reduce]
    first = f"{reply.request.value} of {volume(reply.bytes)} over {', '.join(reply.reduce)}"
    axes = axes_told(reply.answers[0].axes) if reply.answers else ""
    return Group(
        Text(f"{first}, {axes} on {reply.system.name}, {shape(reply.system.levels)}"),
        *_excepted(reply.system),
        Text(f"placement: rows {', '.join(names)}; columns {_names(reply.system)}"),
        Text(""),
        drawn,
        *_reasons(reply),
        Text(""),
        Text(
            f"{_of(considered)}, {many(considered.programs, 'program')} ranked; "
            f"best default: {duration(reply.best_default_seconds)}"
        ),
        Text(_LEGEND),
        *_ties(reply.answers, "answer"),
        *([Text(f"not priced: what the axis {' or '.join(others)} sends")] if others else []),
        *stopped(reply.complete),
    )


def _rows(matrix: list[list[int]]) -> str:
    """A placement, one axis a line."""
    return str(matrix).replace("], ", "],\n ")


def _names(system: MachineInFull) -> str:
    """The names of its levels, outermost first."""
    return ", ".join(level.name for level in system.levels)


def _excepted(system: MachineInFull) -> Iterator[RenderableType]:
    """A line that says what is missing or slower."""
    if told := lacking(system.exceptions):
        yield Text(told, overflow="fold")


def sweep(reply: SweepReply) -> RenderableType:
    """From which size on which answer is the best."""
    drawn = table(
        *("sizes", "placement", "program", "time", "speed-up", "bound", "proof"),
        right="sizes,time,speed-up,bound",
        wraps="program",
    )
    for stretch in reply.stretches:
        ends = (stretch.first, stretch.last)
        drawn.add_row(
            _both(volume(stretch.from_bytes), volume(stretch.until_bytes)),
            _rows(ends[0].placement),
            _in_stripes(*ends),
            _both(*(duration(end.seconds) for end in ends)),
            _both(*(f"{end.speedup:.2f}x" for end in ends)),
            _both(*(f"{_share_of_bound(end):.0%}" for end in ends)),
            MARKS[ends[0].proof],
        )
    axes = reply.stretches[0].first.axes if reply.stretches else {}
    sizes = " to ".join(volume(size) for size in reply.bytes)
    first = f"{reply.request.value} of {sizes} over {', '.join(reply.reduce)}"
    return Group(
        Text(f"{first}, {axes_told(axes)} on {reply.system.name}, {shape(reply.system.levels)}"),
        *_excepted(reply.system),
        Text(f"placement: rows {', '.join(axes)}; columns {_names(reply.system)}"),
        Text(""),
        drawn,
        Text(f"\n{many(len(reply.sizes), 'size')} asked; changes are told to 1%"),
        Text(_LEGEND + "; first and last size"),
        *stopped(reply.complete),
    )


def several(reply: SystemsRankedReply) -> RenderableType:
    """The best answer of each system in one table; of a range of sizes, one table each."""
    first = reply.systems[0]
    if isinstance(first, SweepReply):
        each = [(top(one), Text("")) for one in reply.systems]
        return Group(*(part for pair in each for part in pair), *stopped(reply.complete))
    drawn = table(
        *("system", "placement", "program", "time", "speed-up", "limited by", "proof"),
        right="time,speed-up",
        wraps="program",
    )
    for one in reply.systems:
        for best in () if isinstance(one, SweepReply) else one.answers[:1]:
            drawn.add_row(
                one.system.name,
                "uneven" if isinstance(best, UnevenAnswer) else _rows(best.placement),
                best.program if isinstance(best, UnevenAnswer) else _in_stripes(best),
                duration(best.seconds),
                f"{best.speedup:.2f}x",
                best.limited_by or "-",
                MARKS[best.proof],
            )
    asked = f"{first.request.value} of {volume(first.bytes)} over {', '.join(first.reduce)}"
    return Group(
        Text(f"{asked}: the best on each of {many(len(reply.systems), 'system')}"),
        Text(""),
        drawn,
        Text(_LEGEND.splitlines()[0]),
        *stopped(reply.complete),
    )


def plan(reply: PlanReply) -> RenderableType:
    """The placement of a job, what each entry does on it, and the next best placements."""
    best, *others = reply.ranking
    names = list(best.axes)
    exposed, default = best.exposed_seconds, reply.default_exposed_seconds
    longer = default / exposed if exposed else 1.0
    gain = f", {longer:.2f} times as long" if longer >= _TOLD else ", as long"
    return Group(
        Text(": ".join(filter(None, (reply.job, reply.title))), overflow="fold"),
        Text(f"on {reply.system.name}, {shape(reply.system.levels)}: {axes_told(best.axes)}"),
        *_excepted(reply.system),
        Text(
            f"placement {best.placement}: rows {', '.join(names)}; columns {_names(reply.system)}"
        ),
        Text(
            f"a step waits {duration(exposed)} for communication that compute does not hide\n"
            f"(with the runtime's own choice on the same placement {duration(default)}{gain})\n"
        ),
        *_entries(reply.entries),
        Text(""),
        *_others(others),
        *_ties(reply.ranking, "placement"),
        *_unpriced(reply.unpriced),
        Text(f"{_of(reply.considered)}; what computing costs is not weighed"),
        Text("loss: one call against the placement that the entry would have wanted for itself"),
        *stopped(reply.complete),
    )


def _entries(entries: list[PlannedEntry]) -> Iterator[RenderableType]:
    """What each entry costs; and below, so that both fit a terminal, by which program."""
    if not entries:
        yield Text("no collective is left: the axes that they are over have size 1")
        return
    costs = table(
        *("#", "entry", "over", "bytes", "times", "hidden", "one call", "exposed", "loss"),
        right="#,bytes,times,hidden,one call,exposed,loss",
        wraps="entry",
    )
    programs = table(
        *("#", "request", "program", "bound", "limited by", "proof"),
        right="#,bound",
        wraps="program",
    )
    for entry in entries:
        answer = entry.answer
        costs.add_row(
            str(answer.rank),
            entry.name,
            ",\n".join(entry.over),
            volume(entry.bytes),
            f"{entry.times:g}",
            f"{entry.hidden:.0%}",
            duration(answer.seconds),
            duration(entry.exposed_seconds),
            f"{entry.loss:.2f}x",
        )
        programs.add_row(
            str(answer.rank),
            entry.request.value,
            _in_stripes(answer),
            f"{_share_of_bound(answer):.0%}",
            answer.limited_by or "-",
            MARKS[answer.proof],
        )
    yield from (costs, Text(""), programs)


def _others(options: list[PlacementOption]) -> Iterator[RenderableType]:
    if options:
        drawn = table("next best", "placement", "exposed", right="exposed")
        for option in options:
            drawn.add_row(
                axes_told(option.axes),
                str(option.placement),
                duration(option.exposed_seconds) + _measured(option.interval_seconds),
            )
        yield drawn
        yield Text("")


def _measured(interval: list[float] | None) -> str:
    """Where measurements take a price to lie, below it; nothing where none were taken."""
    return f"\n{between(interval)}" if interval else ""


def _ties(ranked: Sequence[RankedAnswer | PlacementOption], what: str) -> Iterator[RenderableType]:
    """Which of the ranked ones, or the default, measurements cannot tell from the first."""
    first = ranked[0] if ranked else None
    if first is None or first.interval_seconds is None:
        return
    said = "below each time: where 9 of 10 measurements lay about such prices"
    many_tied = sum(one.tied for one in ranked)
    if many_tied > 1:
        said += f"\n{many(many_tied, what)} tie with the first: their intervals overlap"
    baseline = first.baseline_interval_seconds if isinstance(first, RankedAnswer) else None
    if baseline and baseline[0] <= first.interval_seconds[1]:
        said += f"\nthe default ({between(baseline)}) ties with the first, too"
    yield Text(said)


def _unpriced(entries: list[UnpricedEntry]) -> Iterator[RenderableType]:
    for one in entries:
        size = f"{volume(one.bytes)} over {', '.join(one.over)}, {one.times:g} times"
        yield Text(f"not priced: {one.name} ({size}): {one.why}", overflow="fold")


def _both(first: str, last: str) -> str:
    return first if first == last else f"{first} to\n{last}"


def _share_of_bound(answer: Answer) -> float:
    """The share of its time that no schedule can avoid."""
    return answer.bound_seconds / answer.seconds if answer.seconds else 1.0


def _reasons(reply: RankingReply) -> Iterator[RenderableType]:
    """Why the first answer is the first; of each answer, if that was asked."""
    for answer in reply.answers if reply.explain else reply.answers[:1]:
        yield Text(f"\n{answer.rank}: " + ";\n   ".join(answer.why), overflow="fold")


def _in_stripes(*answers: Answer) -> str:
    """The programs of answers that differ in sizes only; several each with its share."""
    told = [
        _in_segments(
            stripes[0].program.replace("; ", ";\n"), *(stripe.segments for stripe in stripes)
        )
        for stripes in zip(*(answer.stripes for answer in answers), strict=True)
    ]
    if len(told) == 1:
        return told[0]
    shares = [f"{stripe.share:.0%} by" for stripe in answers[0].stripes]
    return "\n".join(f"{share}\n{one}" for share, one in zip(shares, told, strict=True))


def _in_segments(program: str, *segments: int) -> str:
    """A program, and into how many segments its payload is cut if they overlap."""
    told = program or "(nothing to do)"
    least, most = min(segments), max(segments)
    if most == 1:
        return told
    return f"{told}\nin {least if least == most else f'{least} to {most}'} segments"


def _of(considered: Considered | PlacementsConsidered) -> str:
    done, there_are = considered.placements, considered.of_placements
    return many(done, "placement") if done == there_are else f"{done} of {there_are} placements"
