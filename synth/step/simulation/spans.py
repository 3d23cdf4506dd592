"""Coarsens a timeline for a drawing: rows too short to be visible are joined.

Rows are joined along their stream: rows of the same kind if there is no visible gap between them,
and rows of different kinds if they are too short to be visible. Short rows are never left out,
because a drawing would then show them as idle time.
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


def list_spans(prediction: StepPrediction, most: int) -> list[list[StepTimelineRow]]:
    """Returns the passes of each rank, and the streams of the busiest rank.

    Passes take at most three quarters of the ``most`` spans. If there are more lines than ``most``,
    each line is a single span.
    """
    lines = [list(prediction.passes(rank)) for rank in range(len(prediction.ranks))]
    drawn = coarsen_lines(lines, most * 3 // 4, prediction.seconds)
    streams = _group_by_stream(_tasks(prediction, most))
    for line in coarsen_lines(streams, most - sum(map(len, drawn)), prediction.seconds):
        drawn[prediction.busiest] += line
    return drawn


def _tasks(prediction: StepPrediction, most: int) -> Iterator[StepTimelineRow]:
    """Yields the tasks of the busiest rank; if it has many passes, few rows for each pass."""
    if isinstance(prediction.run, DeviceTimeline):
        yield from split_communication(prediction.run.rows())
        return
    passes, alone = prediction.run.ranks[prediction.busiest], prediction.run.alone
    rows_each = max(1, 4 * most // len(passes))
    coarse = {
        keys: [row for line in _streams_of(alone[keys], rows_each) for row in line]
        for keys in {span.keys for span in passes}
    }
    for span in passes:
        yield from (row.later(span.begin_seconds) for row in coarse[span.keys])


def _streams_of(run: DeviceTimeline, most: int) -> list[list[StepTimelineRow]]:
    return coarsen_lines(_group_by_stream(split_communication(run.rows())), most, run.seconds)


def split_communication(rows: Iterable[StepTimelineRow]) -> Iterator[StepTimelineRow]:
    """Yields the tasks of a device, with communication cut where computation begins or ends.

    The pieces during which the device does not compute are exposed; all pieces keep the name.
    """
    rows = list(rows)
    computing = (
        (row.begin_seconds, row.end_seconds) for row in rows if row.kind is Activity.COMPUTING
    )
    busy = list(_merge_intervals(sorted(computing)))
    for row in rows:
        if row.kind is Activity.COMMUNICATION:
            yield from _cut_row(row, busy)
        else:
            yield row


def _merge_intervals(intervals: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Merges intervals that touch or overlap; the intervals must be sorted."""
    last: tuple[float, float] | None = None
    for begin, end in intervals:
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
    """Cuts a row of communication at the intervals in which the device computes."""
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
    """Groups rows into a line for each stream; a pass has tasks on all streams."""
    ordered = sorted(rows, key=lambda row: (row.stream, row.begin_seconds))
    return [list(line) for _, line in groupby(ordered, key=lambda row: row.stream)]


def coarsen_lines(
    lines: Sequence[Sequence[StepTimelineRow]], most: int, seconds: float
) -> list[list[StepTimelineRow]]:
    """Joins rows, equally coarsely in all lines, until there are at most ``most`` in total."""
    spans = [
        [_Span(at, at + 1, frozenset([row.kind])) for at, row in enumerate(line)] for line in lines
    ]
    moments = 4.0 * most  # starts too fine, and coarsens step by step until the rows fit
    while sum(map(len, spans)) > most and moments > 0.5:
        spans = [
            list(_join_spans(line, fine, seconds / moments))
            for line, fine in zip(lines, spans, strict=True)
        ]
        moments *= 0.75
    return [
        [_merge_rows(line[span.first : span.end]) for span in line_spans]
        for line, line_spans in zip(lines, spans, strict=True)
    ]


class _Span(NamedTuple):
    """Consecutive rows of a line, by their indices, and their kinds."""

    first: int
    end: int
    kinds: frozenset[Activity]


def _join_spans(
    rows: Sequence[StepTimelineRow], spans: Sequence[_Span], seen_seconds: float
) -> Iterator[_Span]:
    """Joins spans of a line if a gap or a change between them would not be visible."""
    last: _Span | None = None
    for span in spans:
        if last is None:
            last = span
            continue
        near = rows[span.first].begin_seconds - rows[last.end - 1].end_seconds <= seen_seconds
        length = rows[span.end - 1].end_seconds - rows[last.first].begin_seconds
        kinds = last.kinds | span.kinds
        if near and (length <= 2 * seen_seconds or len(kinds) == 1):
            last = _Span(last.first, span.end, kinds)
        else:
            yield last
            last = span
    if last is not None:
        yield last


def _merge_rows(rows: Sequence[StepTimelineRow]) -> StepTimelineRow:
    """Merges rows into one, named after the first."""
    first = rows[0]
    if len(rows) == 1:
        return first
    seconds_of: defaultdict[Activity, float] = defaultdict(float)
    for row in rows:
        for kind, part in row.parts or ((row.kind, 1.0),):
            seconds_of[kind] += part * (row.end_seconds - row.begin_seconds)
    others = "others" if any(row.parts for row in rows) else f"{len(rows) - 1} more"
    begin, end = first.begin_seconds, rows[-1].end_seconds
    return StepTimelineRow(
        first.stream,
        f"{first.name} and {others}",
        begin,
        end,
        first.kind if len(seconds_of) == 1 else Activity.SEVERAL,
        tuple((kind, seconds_of[kind] / (end - begin)) for kind in Activity if kind in seconds_of),
    )
