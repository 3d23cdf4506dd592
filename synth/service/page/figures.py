"""Answers as a page shows them: every row of a ranking with its figures in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from grammar import Goal
from hierarchies.units import duration, volume
from synth.calibration.logs.tables import busbw_factor
from synth.tables.style import axes_text, between
from synth.verbs.answers.degraded import UnevenAnswer, UnevenReply
from synth.verbs.answers.planning import PlannedEntry, PlanReply
from synth.verbs.answers.ranked import Answer, BestSoFar, RankedAnswer, RankingReply, SweepReply

Ranking = RankingReply | SweepReply | UnevenReply | PlanReply
"""An answer with rows that can be looked at one by one."""


@dataclass(frozen=True)
class Stripe:
    """One of the programs side by side: its steps, its share of the payload and its segments."""

    steps: tuple[str, ...]
    share: str
    segments: str


@dataclass(frozen=True)
class Ranked:
    """A row of a ranking. ``index`` counts from 0: several rows may have one rank."""

    index: int
    rank: str
    title: str
    stripes: tuple[Stripe, ...]
    placement: str
    time: str
    interval: str
    bus_bandwidth: str
    speedup: str
    bound: str
    limited_by: str
    proof: str
    tied: bool


@dataclass(frozen=True)
class Leading:
    """One of the best so far: found and priced, and not proved yet.

    ``programs`` run side by side, each a row of steps; of a whole job there are none.
    """

    rank: str
    programs: tuple[tuple[str, ...], ...]
    axes: str
    placement: str
    time: str


def leading(body: object) -> tuple[Leading, ...] | None:
    """The best so far of a job; None for an answer, be it complete or in part.

    An answer says by which schema it is written. The best so far are told before there is one.
    """
    if not isinstance(body, dict) or "schema_version" in body or "answers" not in body:
        return None
    return tuple(
        Leading(
            str(one.rank),
            tuple(_steps(program) for program in one.program.split(" | ") if program),
            axes_text(one.axes),
            matrix(one.placement),
            duration(one.seconds),
        )
        for one in BestSoFar.model_validate(body).answers
    )


def ranked(answer: Ranking) -> tuple[Ranked, ...]:
    """The rows of a ranking, of a range of sizes, or of a plan's entries."""
    match answer:
        case SweepReply():
            return tuple(_stretch(answer, index) for index in range(len(answer.stretches)))
        case PlanReply():
            return tuple(_entry(index, one) for index, one in enumerate(answer.entries))
        case RankingReply():
            called = _Called(answer.request, answer.reduce, answer.bytes)
            return tuple(
                _row(index, one, called, one.bound_seconds)
                for index, one in enumerate(answer.answers)
            )
        case UnevenReply():
            called = _Called(answer.request, answer.reduce, answer.bytes)
            return tuple(
                _row(index, one, called, answer.bound_seconds)
                for index, one in enumerate(answer.answers)
            )


def bus_bandwidth(request: str, size_bytes: float, seconds: float, members: int) -> str:
    """By the convention of nccl-tests: bytes over seconds, times what the collective must move."""
    if not seconds:
        return "-"
    return f"{busbw_factor(request, members) * size_bytes / seconds / 1e9:.4g} GB/s"


@dataclass(frozen=True)
class _Called:
    """What is called: a collective over some axes, with so many bytes."""

    request: Goal
    over: Sequence[str]
    size_bytes: int


def _row(
    index: int, answer: Answer | UnevenAnswer, called: _Called, bound_seconds: float
) -> Ranked:
    seconds = answer.seconds
    placed = answer if isinstance(answer, Answer) else None
    interval = placed.interval_seconds if placed else None
    members = prod(answer.axes[name] for name in called.over)
    return Ranked(
        index,
        str(answer.rank),
        "",
        tuple(_stripes(answer)),
        matrix(placed.placement if placed else None),
        duration(seconds),
        between(interval) if interval else "",
        bus_bandwidth(called.request.value, called.size_bytes, seconds, members),
        f"{answer.speedup:.2f}x",
        f"{bound_seconds / seconds:.0%}" if seconds else "100%",
        answer.limited_by or "-",
        answer.proof,
        isinstance(answer, RankedAnswer) and answer.tied,
    )


def _stretch(answer: SweepReply, index: int) -> Ranked:
    stretch = answer.stretches[index]
    ends = (stretch.from_bytes, stretch.until_bytes)
    both = [
        _row(index, one, _Called(answer.request, answer.reduce, size), one.bound_seconds)
        for one, size in zip((stretch.first, stretch.last), ends, strict=True)
    ]
    return Ranked(
        index,
        str(index + 1),
        _both(volume(ends[0]), volume(ends[1])),
        _joined(both[0].stripes, both[1].stripes),
        both[0].placement,
        _both(both[0].time, both[1].time),
        _both(both[0].interval, both[1].interval),
        _both(both[0].bus_bandwidth, both[1].bus_bandwidth),
        _both(both[0].speedup, both[1].speedup),
        _both(both[0].bound, both[1].bound),
        _both(both[0].limited_by, both[1].limited_by),
        both[0].proof,
        False,
    )


def _entry(index: int, entry: PlannedEntry) -> Ranked:
    called = _Called(entry.request, entry.over, entry.bytes)
    row = _row(index, entry.answer, called, entry.answer.bound_seconds)
    told = f"{entry.name}: {entry.request.value} of {volume(entry.bytes)}"
    return replace(row, title=f"{told} over {', '.join(entry.over)}, {entry.times:g} times")


def _joined(first: Sequence[Stripe], last: Sequence[Stripe]) -> tuple[Stripe, ...]:
    """The stripes of two answers that differ in sizes only."""
    return tuple(
        Stripe(one.steps, one.share, _both(one.segments, other.segments))
        for one, other in zip(first, last, strict=True)
    )


def _stripes(answer: Answer | UnevenAnswer) -> Iterator[Stripe]:
    if isinstance(answer, UnevenAnswer):
        yield _stripe(answer.program, "", answer.segments)
        return
    for one in answer.stripes:
        share = f"{one.share:.0%}" if len(answer.stripes) > 1 else ""
        yield _stripe(one.program, share, one.segments)


def _stripe(program: str, share: str, segments: int) -> Stripe:
    steps = _steps(program) or ("(nothing to do)",)
    return Stripe(steps, share, str(segments) if segments > 1 else "")


def _steps(program: str) -> tuple[str, ...]:
    return tuple(program.split("; ")) if program else ()


def matrix(rows: Sequence[Sequence[int]] | None) -> str:
    """A placement in one line; a machine that lacks devices has none."""
    return "-" if rows is None else str([list(row) for row in rows])


def _both(first: str, last: str) -> str:
    return first if first == last else f"{first or '1'} to {last or '1'}"
