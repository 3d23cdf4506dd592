"""A timeline in few spans, for a drawing: what is too short to be seen is drawn as one.

Rows are joined along their stream, no matter what there is of them: those of one kind that follow
each other without a gap that would be seen; and of different kinds those that would be too short to
be seen. Whatever is left out for being short, a drawing would show as idle.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from math import inf
from typing import NamedTuple

from synth.step.simulation.predicting import StepPrediction
from synth.step.simulation.simulation import Activity, DeviceTimeline, StepTimelineRow


def list_spans(found: StepPrediction, most: int) -> list[list[StepTimelineRow]]:
    """For each rank its passes, at most three quarters of all; for the busiest its streams, too.

    If there are more lines than ``most``, each is one span.
    """
    lines = [list(found.passes(rank)) for rank in range(len(found.ranks))]
    drawn = coarsen_lines(lines, most * 3 // 4, found.seconds)
    streams = _group_by_stream(_tasks(found, most))
    for line in coarsen_lines(streams, most - sum(map(len, drawn)), found.seconds):
        drawn[found.busiest] += line
    return drawn


def _tasks(found: StepPrediction, most: int) -> Iterator[StepTimelineRow]:
    """What the busiest rank does; of many passes each in few rows, as equal ones look alike."""
    if isinstance(found.run, DeviceTimeline):
        yield from split_communication(found.run.rows())
        return
    passes, alone = found.run.ranks[found.busiest], found.run.alone
    each = max(1, 4 * most // len(passes))
    few = {
        keys: [row for line in _streams_of(alone[keys], each) for row in line]
        for keys in {one.keys for one in passes}
    }
    for one in passes:
        yield from (row.later(one.begin_seconds) for row in few[one.keys])


def _streams_of(run: DeviceTimeline, most: int) -> list[list[StepTimelineRow]]:
    return coarsen_lines(_group_by_stream(split_communication(run.rows())), most, run.seconds)


def split_communication(rows: Iterable[StepTimelineRow]) -> Iterator[StepTimelineRow]:
    """The tasks of a device, with communication cut where compute begins or ends.

    What of it nothing is computed beside is exposed; it keeps the name of all of it.
    """
    every = list(rows)
    computing = (
        (one.begin_seconds, one.end_seconds) for one in every if one.kind is Activity.COMPUTING
    )
    busy = list(_merge_intervals(sorted(computing)))
    for one in every:
        if one.kind is Activity.COMMUNICATION:
            yield from _cut_row(one, busy)
        else:
            yield one


def _merge_intervals(several: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Times that touch each other as one; they come in order."""
    last: tuple[float, float] | None = None
    for begin, end in several:
        if last is not None and begin <= last[1]:
            last = last[0], max(last[1], end)
            continue
        if last is not None:
            yield last
        last = begin, end
    if last is not None:
        yield last


def _cut_row(
    row: StepTimelineRow, busy: Sequence[tuple[float, float]]
) -> Iterator[StepTimelineRow]:
    """One row of communication by the times in which something is computed."""
    now = row.begin_seconds
    first = max(0, bisect_right(busy, (now, inf)) - 1)
    for begin, end in busy[first:]:
        if begin >= row.end_seconds:
            break
        if end > now:
            if begin > now:
                yield replace(row, begin_seconds=now, end_seconds=begin, kind=Activity.EXPOSED)
            begin, now = max(begin, now), min(end, row.end_seconds)
            yield replace(row, begin_seconds=begin, end_seconds=now)
    if now < row.end_seconds:
        yield replace(row, begin_seconds=now, kind=Activity.EXPOSED)


def _group_by_stream(rows: Iterable[StepTimelineRow]) -> list[list[StepTimelineRow]]:
    """A line for each stream: a pass has tasks of all streams."""
    several = sorted(rows, key=lambda one: (one.stream, one.begin_seconds))
    return [list(some) for _, some in groupby(several, key=lambda one: one.stream)]


def coarsen_lines(
    lines: Sequence[Sequence[StepTimelineRow]], most: int, seconds: float
) -> list[list[StepTimelineRow]]:
    """Lines of together at most so many rows, all as coarse as they must be."""
    found = [
        [_Span(at, at + 1, frozenset([one.kind])) for at, one in enumerate(line)] for line in lines
    ]
    moments = 4.0 * most
    while sum(map(len, found)) > most and moments > 0.5:
        found = [
            list(_join_spans(line, some, seconds / moments))
            for line, some in zip(lines, found, strict=True)
        ]
        moments *= 0.75
    return [
        [_merge_rows(line[one.first : one.end]) for one in some]
        for line, some in zip(lines, found, strict=True)
    ]


class _Span(NamedTuple):
    """Some rows of a line, by their places, and which kinds they are."""

    first: int
    end: int
    kinds: frozenset[Activity]


def _join_spans(
    rows: Sequence[StepTimelineRow], spans: Sequence[_Span], seen_seconds: float
) -> Iterator[_Span]:
    """The spans of a line, as one where what is between them would not be seen."""
    last: _Span | None = None
    for one in spans:
        if last is None:
            last = one
            continue
        near = rows[one.first].begin_seconds - rows[last.end - 1].end_seconds <= seen_seconds
        both = rows[one.end - 1].end_seconds - rows[last.first].begin_seconds
        kinds = last.kinds | one.kinds
        if near and (both <= 2 * seen_seconds or len(kinds) == 1):
            last = _Span(last.first, one.end, kinds)
        else:
            yield last
            last = one
    if last is not None:
        yield last


def _merge_rows(some: Sequence[StepTimelineRow]) -> StepTimelineRow:
    """Some rows as one."""
    first = some[0]
    if len(some) == 1:
        return first
    took: defaultdict[Activity, float] = defaultdict(float)
    for one in some:
        for kind, part in one.parts or ((one.kind, 1.0),):
            took[kind] += part * (one.end_seconds - one.begin_seconds)
    others = "others" if any(one.parts for one in some) else f"{len(some) - 1} more"
    begin, end = first.begin_seconds, some[-1].end_seconds
    return StepTimelineRow(
        first.stream,
        f"{first.name} and {others}",
        begin,
        end,
        first.kind if len(took) == 1 else Activity.SEVERAL,
        tuple((kind, took[kind] / (end - begin)) for kind in Activity if kind in took),
    )
