"""Rows of rankings as text, for tables of the terminal and of pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod

from rich.table import Table

from grammar import Goal
from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.degraded import UnevenAnswerPart, UnevenReply
from synth.ask.answers.parts import KEEP_DEFAULT, StepPricePart
from synth.ask.answers.planning import PlannedEntry, PlanReply
from synth.ask.answers.ranked import (
    DefaultComparison,
    PlacedAnswer,
    RankedAnswer,
    RankingReply,
    SweepReply,
)
from synth.collective.price.resolution import FINEST, WORTH
from synth.show.terminal.style import (
    MARKS,
    Columns,
    algorithm_name,
    algorithm_text,
    port_loads,
    request_text,
    table_of,
    times_text,
)

Ranking = RankingReply | SweepReply | UnevenReply | PlanReply
"""An answer with rows."""
Ends = tuple[str, ...]
"""A figure as text, as ``("1.2x",)``; over a range of sizes both ends if they differ."""


@dataclass(frozen=True)
class StripeText:
    """A stripe: its steps, its share of the payload and its segments.

    ``share`` is empty if it has the whole payload, ``segments`` if that is not cut.
    """

    steps: tuple[str, ...]
    share: str
    segments: str


@dataclass(frozen=True)
class RankingRow:
    """A row of a ranking. Several rows may share a rank; title and intervals may be empty.

    ``intervals``: both ends of each, in the order of times; over a range of sizes two that differ.
    On a machine that lacks devices the placement is ``-``. ``by`` is the algorithm where that is
    all that tells a row from the default; the row stands for ``others`` near it. ``slower``: than
    the best default, beyond prediction error.
    """

    rank: str
    title: Ends
    stripes: tuple[StripeText, ...]
    placement: str
    time: Ends
    intervals: tuple[Ends, ...]
    bus_bandwidth: Ends
    speedup: Ends
    bound: Ends
    limited_by: Ends
    proof: str
    tied: bool
    slower: bool
    by: str = ""
    others: int = 0
    as_run: Ends = ()


@dataclass(frozen=True)
class _PricedAnswer:
    """An answer at one size, with its lower bound.

    ``default_seconds``: of the default that it is compared with, if that is on another placement.
    """

    answer: PlacedAnswer | UnevenAnswerPart
    size_bytes: int
    bound_seconds: float
    default_seconds: float | None = None


def rows(reply: Ranking) -> list[RankingRow]:
    """Return the rows of an answer."""
    match reply:
        case SweepReply():
            return [_stretch(reply, index) for index in range(len(reply.stretches))]
        case PlanReply():
            return [_entry(entry) for entry in reply.entries]
        case RankingReply():
            best = reply.best_default_seconds
            priced = [
                _PricedAnswer(answer, reply.bytes, answer.bound_seconds, best)
                for answer in reply.answers
            ]
        case UnevenReply():
            priced = [
                _PricedAnswer(answer, reply.bytes, reply.bound_seconds) for answer in reply.answers
            ]
    found = [_row(reply.request, reply.reduce, part) for part in priced]
    others = zip(found[1:], priced[1:], strict=True)
    return [*found[:1], *(_mark_default(row, part.answer, reply.request) for row, part in others)]


def elsewhere_rows(reply: RankingReply) -> list[RankingRow]:
    """Return the rows of faster placements; their speed-up is the gain over the first answer."""
    found = []
    for option in reply.elsewhere:
        priced = _PricedAnswer(option.answer, reply.bytes, option.answer.bound_seconds)
        row = _row(reply.request, reply.reduce, priced)
        found.append(replace(row, speedup=(f"{option.gain:.2f}x",)))
    return found


def default_rows(reply: RankingReply) -> list[RankingRow]:
    """Return the default as a row, where no answer is better and none is the default."""
    if not reply.answers or any(answer.against_best in _BETTER for answer in reply.answers):
        return []
    first = min(reply.answers, key=lambda answer: answer.baseline_seconds)
    listed = any(
        _is_default_call(answer, reply.request)
        for answer in reply.answers
        if answer.baseline_seconds == first.baseline_seconds
    )
    if not first.steps or listed:
        return []
    row = replace(rows(reply)[reply.answers.index(first)], rank="-", speedup=("",))
    by = f"by {first.default.name}: {first.default.advice.text}"
    return [
        _replace_by_default(row, reply, by, _PricedAnswer(first, reply.bytes, first.bound_seconds))
    ]


def _replace_by_default(
    row: RankingRow, reply: RankingReply | SweepReply, by: str, *priced: _PricedAnswer
) -> RankingRow:
    """Return a row with the default instead of the answers at these sizes."""
    plain = [
        (part, part.answer.default) for part in priced if isinstance(part.answer, PlacedAnswer)
    ]
    intervals = dict.fromkeys(_interval(own.interval_seconds) for _, own in plain)
    members = prod(plain[0][0].answer.axes[name] for name in reply.reduce)
    return replace(
        row,
        others=0,
        limited_by=("-",),
        proof="",
        slower=False,
        as_run=(),
        stripes=(StripeText((f"{reply.request.value} root inside",), "", ""),),
        by=by,
        time=_ends(format_duration(own.seconds) for _, own in plain),
        bus_bandwidth=_ends(
            bus_bandwidth(reply.request.value, part.size_bytes, own.seconds, members)
            for part, own in plain
        ),
        intervals=tuple(interval for interval in intervals if interval),
        bound=_ends(_share(part.bound_seconds, own.seconds) for part, own in plain),
    )


def default_by_size(reply: SweepReply) -> list[str]:
    """Return the default at each size from which it changes: ``tree, LL from 64 KiB``."""
    sizes = sorted(reply.sizes, key=lambda size: size.bytes)
    ways = [
        (size.bytes, algorithm_name(size.default_name, size.default_protocol)) for size in sizes
    ]
    changes = groupby(ways, key=lambda pair: pair[1])
    return [f"{way} from {format_bytes(next(some)[0])}" for way, some in changes]


_BETTER = (DefaultComparison.FASTER, DefaultComparison.NOT_OFFERED)


def bus_bandwidth(request: str, size_bytes: float, seconds: float, members: int) -> str:
    """Return nccl-tests' busbw: for an all-reduce of n devices 2(n-1)/n times bytes per second."""
    if not seconds:
        return "-"
    return f"{Goal(request).busbw_factor(members) * size_bytes / seconds / 1e9:.4g} GB/s"


def _step_bandwidth(step: StepPricePart) -> str:
    if step.members < 2:
        return "-"
    rate = bus_bandwidth(step.collective, step.bytes, step.seconds, step.members)
    return rate.removesuffix(" GB/s")


STEPS: Columns[StepPricePart] = {
    "collective": lambda step: step.collective,
    "algorithm": lambda step: algorithm_text(step).replace("-d", "-\nd"),
    "bytes": lambda step: format_bytes(step.bytes),
    "time": lambda step: format_duration(step.seconds),
    "busbw": _step_bandwidth,
    "latency": lambda step: format_duration(step.latency_seconds),
    "limited by": lambda step: step.limited_by,
    "busiest port carries": lambda step: "\n".join(port_loads(step)),
}
STEP_FIGURES = "bytes,time,busbw,latency"


def stripe(program: str, segments: Sequence[int], share: str = "") -> StripeText:
    """Return a program as a stripe, with its number of segments at each of some sizes."""
    least, most = min(segments), max(segments)
    cut = str(most) if least == most else f"{least} to {most}"
    steps = program.split("; ") if program else ["(nothing to do)"]
    return StripeText(tuple(steps), share, cut if most > 1 else "")


def stripe_lines(stripes: Iterable[StripeText]) -> str:
    """Programs that run side by side, one step a line, with the share of each."""
    return "\n".join(
        (f"{part.share} by\n" if part.share else "")
        + ";\n".join(part.steps)
        + (f"\nin {part.segments} segments" if part.segments else "")
        for part in stripes
    )


def ranked_table(rows: Iterable[RankingRow], *columns: str) -> Table:
    """Return a table of a ranking."""
    cells = {column: _CELLS[column] for column in columns}
    right = "#,sizes,near,time,busbw,speed-up,gain,bound"
    return table_of(rows, cells, right=right, wraps="program")


_CELLS: Columns[RankingRow] = {
    "#": lambda row: row.rank,
    "sizes": lambda row: _lines(row.title),
    "system": lambda row: _lines(row.title),
    "request": lambda row: _lines(row.title),
    "placement": lambda row: row.placement.replace("], ", "],\n "),
    "program": lambda row: "\n".join(filter(None, (stripe_lines(row.stripes), row.by))),
    "near": lambda row: f"+{row.others}" if row.others else "",
    "time": lambda row: _time_cell(row),
    "busbw": lambda row: _lines(tuple(rate.removesuffix(" GB/s") for rate in row.bus_bandwidth)),
    "speed-up": lambda row: _lines(row.speedup),
    "gain": lambda row: _lines(row.speedup),
    "bound": lambda row: _lines(row.bound),
    "limited by": lambda row: _lines(row.limited_by),
    "proof": lambda row: MARKS.get(row.proof, ""),
    "proof at this size": lambda row: MARKS[row.proof],
}


def _lines(ends: Ends) -> str:
    return " to\n".join(ends)


def _time_cell(row: RankingRow) -> str:
    """Times with their intervals, in brackets where both ends have their own."""
    longer = [f"run: {_lines(row.as_run)}"] if row.as_run else []
    if len(row.intervals) < 2:
        return "\n".join([*map(_lines, filter(None, (row.time, *row.intervals))), *longer])
    first, last = row.time[0], row.time[-1]
    each = zip((first, last), row.intervals, strict=True)
    times = "\nto ".join(f"{time}\n({_lines(interval)})" for time, interval in each)
    return "\n".join([times, *longer])


def _interval(seconds: Sequence[float] | None) -> Ends:
    """Return both ends of an interval; empty without one."""
    return tuple(format_duration(end) for end in seconds or ())


def _row(request: Goal, over: Sequence[str], *priced: _PricedAnswer) -> RankingRow:
    """Return the row of an answer, or of both ends of a range with one placement and program."""
    answers = [part.answer for part in priced]
    first = answers[0]
    placed = [answer for answer in answers if isinstance(answer, PlacedAnswer)]
    members = prod(first.axes[name] for name in over)
    intervals = dict.fromkeys(_interval(answer.interval_seconds) for answer in placed)
    return RankingRow(
        rank=str(first.rank),
        title=(),
        stripes=tuple(_stripes(placed) if placed else [stripe(first.program, [first.segments])]),
        by=_algorithm_note(first, request),
        others=first.others,
        placement=str(placed[0].placement) if placed else "-",
        time=_ends(format_duration(answer.seconds) for answer in answers),
        intervals=tuple(interval for interval in intervals if interval),
        bus_bandwidth=_ends(
            bus_bandwidth(request.value, part.size_bytes, part.answer.seconds, members)
            for part in priced
        ),
        speedup=_ends(map(_speedup, priced)),
        slower=all(_comparison_of(answer) is DefaultComparison.SLOWER for answer in answers),
        bound=_ends(_share(part.bound_seconds, part.answer.seconds) for part in priced),
        limited_by=_ends(answer.limited_by or "-" for answer in answers),
        proof=first.proof,
        tied=isinstance(first, RankedAnswer) and first.tied,
        as_run=_runtime_ends(placed),
    )


def _runtime_ends(answers: Sequence[PlacedAnswer]) -> Ends:
    """Return the times of answers as the runtime executes them; empty if they are as priced."""
    if all(answer.runtime_seconds <= (1 + FINEST) * answer.seconds for answer in answers):
        return ()
    return _ends(format_duration(answer.runtime_seconds) for answer in answers)


def _comparison_of(answer: PlacedAnswer | UnevenAnswerPart) -> DefaultComparison:
    """Return the comparison of an answer with the best default of its ranking."""
    match answer:
        case RankedAnswer():
            return answer.against_best
        case PlacedAnswer() | UnevenAnswerPart():
            return answer.against_default


def _speedup(priced: _PricedAnswer) -> str:
    """Return the speed-up over the default, if prices can tell it and a runtime offers the program.

    An expected speed-up within prediction error that is worth measuring has a question mark, and so
    has an equal expected slowdown.
    """
    answer, against = priced.answer, _comparison_of(priced.answer)
    if isinstance(answer, UnevenAnswerPart):
        open_ = against is DefaultComparison.SAME
        near = open_ and 1 / (1 + WORTH) <= answer.speedup <= 1 + WORTH
        return "tie" if near else f"{answer.speedup:.2f}x" + "?" * open_
    default = answer.baseline_seconds if priced.default_seconds is None else priced.default_seconds
    worth = answer.worth_measuring is not None
    return speedup_text(against, worth, default, answer.runtime_seconds)


def speedup_text(
    against: DefaultComparison, worth: bool, default_seconds: float, seconds: float
) -> str:
    """Return the speed-up of times; ``worth``: whether a run could decide about it."""
    if against is DefaultComparison.NOT_OFFERED:
        return "none"
    if against is DefaultComparison.SAME and not worth and seconds <= (1 + WORTH) * default_seconds:
        return "tie"
    return f"{default_seconds / seconds:.2f}x" + "?" * (against is DefaultComparison.SAME)


def _algorithm_note(answer: PlacedAnswer | UnevenAnswerPart, request: Goal) -> str:
    """Return the algorithm of a plain collective, where it differs from the default."""
    if isinstance(answer, UnevenAnswerPart) or not is_plain(answer, request):
        return ""
    if _is_default_call(answer, request):
        return ""
    own, [step] = answer.default, answer.steps
    one_way = own.algorithm is None and answer.against_default is DefaultComparison.SAME
    return "" if one_way else f"by {algorithm_text(step)}"


def _mark_default(
    row: RankingRow, answer: PlacedAnswer | UnevenAnswerPart, request: Goal
) -> RankingRow:
    """Return a row that is not the first; the runtime's own call says that it is the default."""
    if isinstance(answer, UnevenAnswerPart) or not _is_default_call(answer, request):
        return row
    return replace(row, by=f"by {answer.default.name}: the default")


def _is_default_call(answer: PlacedAnswer, request: Goal) -> bool:
    """Whether it is the call that the runtime makes by itself, in one segment."""
    return is_plain(answer, request) and answer.segments == 1 and answer.is_default


def is_plain(answer: PlacedAnswer, request: Goal) -> bool:
    """Whether it is the plain collective, in one call or in segments of it."""
    collectives = [step.collective for step in answer.steps]
    return len(answer.stripes) == 1 and collectives == [request.value]


def _stretch(reply: SweepReply, index: int) -> RankingRow:
    stretch = reply.stretches[index]
    first = _PricedAnswer(stretch.first, stretch.from_bytes, stretch.first.bound_seconds)
    last = _PricedAnswer(stretch.last, stretch.until_bytes, stretch.last.bound_seconds)
    title = _ends([format_bytes(stretch.from_bytes), format_bytes(stretch.until_bytes)])
    if stretch.keeps_default and stretch.first.steps:
        row = _row(reply.request, reply.reduce, first)
        row = replace(
            _replace_by_default(row, reply, KEEP_DEFAULT.text, first, last), speedup=("tie",)
        )
    else:
        row = _row(reply.request, reply.reduce, first, last)
    return replace(row, rank=str(index + 1), title=title)


def _entry(entry: PlannedEntry) -> RankingRow:
    priced = _PricedAnswer(entry.answer, entry.bytes, entry.answer.bound_seconds)
    asked = request_text(entry.request, entry.over, entry.bytes)
    title = f"{entry.name}: {asked}, {times_text(entry.times)}"
    return replace(_row(entry.request, entry.over, priced), title=(title,))


def _stripes(answers: Sequence[PlacedAnswer]) -> Iterator[StripeText]:
    """Yield the stripes of answers that differ only in size, with the segments of all sizes."""
    for first, *others in zip(*(answer.stripes for answer in answers), strict=True):
        share = f"{first.share:.0%}" if len(answers[0].stripes) > 1 else ""
        yield stripe(first.program, [part.segments for part in (first, *others)], share)


def _ends(values: Iterable[str]) -> Ends:
    return tuple(dict.fromkeys(values))


def _share(bound_seconds: float, seconds: float) -> str:
    """Return the share of the time that no schedule can avoid."""
    return f"{bound_seconds / seconds:.0%}" if seconds else "100%"
