"""A timeline in few spans, for a drawing: what is too short to be seen is drawn as one.

Rows are joined along their stream, no matter what there is of them: those of one kind that follow
each other without a gap that would be seen; and of different kinds those that would be too short to
be seen. Whatever is left out for being short, a drawing would show as idle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from synth.train.simulation.pipeline import PASSES
from synth.train.simulation.predicting import Predicted
from synth.train.simulation.simulation import Doing, Row


def spans(found: Predicted, most: int) -> list[list[Row]]:
    """For each rank its passes, at most three quarters of all; for the busiest its streams, too.

    If there are more lines than ``most``, each is one span.
    """
    lines = [list(found.passes(rank)) for rank in range(len(found.ranks))]
    tasks = [row for row in found.rows(found.busiest) if row.stream != PASSES]
    tasks.sort(key=lambda one: one.stream)  # a pass has tasks of all streams
    streams = [list(some) for _, some in groupby(tasks, key=lambda one: one.stream)]
    drawn = in_few(lines, most * 3 // 4, found.seconds)
    for line in in_few(streams, most - sum(map(len, drawn)), found.seconds):
        drawn[found.busiest] += line
    return drawn


def in_few(lines: Sequence[Sequence[Row]], most: int, seconds: float) -> list[list[Row]]:
    """Lines of together at most so many rows, all as coarse as they must be."""
    found = [
        [_Span(at, at + 1, frozenset([one.kind])) for at, one in enumerate(line)] for line in lines
    ]
    moments = 4.0 * most
    while sum(map(len, found)) > most and moments > 0.5:
        found = [
            list(_joined(line, some, seconds / moments))
            for line, some in zip(lines, found, strict=True)
        ]
        moments *= 0.75
    return [
        [_row(line[one.first : one.end]) for one in some]
        for line, some in zip(lines, found, strict=True)
    ]


class _Span(NamedTuple):
    """Some rows of a line, by their places, and which kinds they are."""

    first: int
    end: int
    kinds: frozenset[Doing]


def _joined(rows: Sequence[Row], spans: Sequence[_Span], seen_seconds: float) -> Iterator[_Span]:
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


def _row(some: Sequence[Row]) -> Row:
    """Some rows as one."""
    first = some[0]
    if len(some) == 1:
        return first
    took: defaultdict[Doing, float] = defaultdict(float)
    for one in some:
        took[one.kind] += one.end_seconds - one.begin_seconds
    begin, end = first.begin_seconds, some[-1].end_seconds
    return Row(
        first.stream,
        f"{first.name} and {len(some) - 1} more",
        begin,
        end,
        first.kind if len(took) == 1 else Doing.SEVERAL,
        tuple((kind, took[kind] / (end - begin)) for kind in Doing if kind in took),
    )
