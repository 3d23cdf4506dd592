"""Answers as a page shows them: every row of a ranking with its figures in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from hierarchies.units import duration, volume
from synth.calibration.logs.tables import busbw_factor
from synth.tables.style import axes_told

Json = Mapping[str, Any]


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


def leading(body: Json) -> tuple[Leading, ...] | None:
    """The best so far of a job; None for an answer, be it complete or in part.

    An answer says by which schema it is written. The best so far are told before there is one.
    """
    if "schema_version" in body or "answers" not in body:
        return None
    return tuple(
        Leading(
            str(one["rank"]),
            tuple(_steps(program) for program in one["program"].split(" | ") if program),
            axes_told(one["axes"]),
            matrix(one["placement"]),
            duration(one["seconds"]),
        )
        for one in body["answers"]
    )


def ranked(body: Json) -> tuple[Ranked, ...]:
    """The rows of a ranking, of a range of sizes, or of a plan's entries."""
    if "stretches" in body:
        return tuple(_stretch(body, index, one) for index, one in enumerate(body["stretches"]))
    if "entries" in body:
        return tuple(_entry(index, one) for index, one in enumerate(body["entries"]))
    answers = body.get("answers", [])
    return tuple(
        _row(index, one, body["bytes"], body["request"], _members(one, body["reduce"]), body)
        for index, one in enumerate(answers)
    )


def bus_bandwidth(request: str, size_bytes: float, seconds: float, members: int) -> str:
    """By the convention of nccl-tests: bytes over seconds, times what the collective must move."""
    if not seconds:
        return "-"
    return f"{busbw_factor(request, members) * size_bytes / seconds / 1e9:.4g} GB/s"


def _members(answer: Json, over: Sequence[str]) -> int:
    return prod(answer["axes"][name] for name in over)


def _row(
    index: int, answer: Json, size_bytes: int, request: str, members: int, body: Json
) -> Ranked:
    seconds = answer["seconds"]
    bound = answer.get("bound_seconds", body.get("bound_seconds"))
    interval = answer.get("interval_seconds")
    return Ranked(
        index,
        str(answer["rank"]),
        "",
        tuple(_stripes(answer)),
        matrix(answer.get("placement")),
        duration(seconds),
        " to ".join(duration(end) for end in interval) if interval else "",
        bus_bandwidth(request, size_bytes, seconds, members),
        f"{answer['speedup']:.2f}x",
        _share(bound, seconds),
        answer["limited_by"] or "-",
        answer["proof"],
        bool(answer.get("tied")),
    )


def _stretch(body: Json, index: int, stretch: Json) -> Ranked:
    first, last = stretch["first"], stretch["last"]
    ends = (stretch["from_bytes"], stretch["until_bytes"])
    both = [
        _row(index, one, size, body["request"], _members(one, body["reduce"]), body)
        for one, size in zip((first, last), ends, strict=True)
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


def _entry(index: int, entry: Json) -> Ranked:
    answer = entry["answer"]
    members = _members(answer, entry["over"])
    row = _row(index, answer, entry["bytes"], entry["request"], members, {})
    told = f"{entry['name']}: {entry['request']} of {volume(entry['bytes'])}"
    title = f"{told} over {', '.join(entry['over'])}, {entry['times']:g} times"
    return Ranked(**{**vars(row), "title": title})


def _joined(first: Sequence[Stripe], last: Sequence[Stripe]) -> tuple[Stripe, ...]:
    """The stripes of two answers that differ in sizes only."""
    return tuple(
        Stripe(one.steps, one.share, _both(one.segments, other.segments))
        for one, other in zip(first, last, strict=True)
    )


def _stripes(answer: Json) -> list[Stripe]:
    given = answer.get("stripes") or [
        {"program": answer["program"], "share": 1.0, "segments": answer["segments"]}
    ]
    return [
        Stripe(
            _steps(one["program"]) or ("(nothing to do)",),
            f"{one['share']:.0%}" if len(given) > 1 else "",
            str(one["segments"]) if one["segments"] > 1 else "",
        )
        for one in given
    ]


def _steps(program: str) -> tuple[str, ...]:
    return tuple(program.split("; ")) if program else ()


def matrix(rows: Sequence[Sequence[int]] | None) -> str:
    """A placement in one line; a machine that lacks devices has none."""
    return "-" if rows is None else str([list(row) for row in rows])


def _share(bound_seconds: float | None, seconds: float) -> str:
    if bound_seconds is None:
        return "-"
    return f"{bound_seconds / seconds:.0%}" if seconds else "100%"


def _both(first: str, last: str) -> str:
    return first if first == last else f"{first or '1'} to {last or '1'}"
