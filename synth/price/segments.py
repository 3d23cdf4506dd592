"""The cheapest programs when steps overlap: exact, without simulating each of them.

A path's price is no sum of its moves' prices any more, but a formula bounds it from below. All
paths are bounded at once, for each number of segments; then they are followed event by event in
the order of their bounds, until no bound is below the k-th price found.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from synth.events.overlap import Work, makespan_seconds
from synth.price.steps import TICKS_PER_SECOND, ticks_of

SEGMENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""The numbers of segments that are tried where the caller leaves it open."""
_SLACK = 1e-9
"""Bounds are lowered by this share, more than rounding can raise them."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Phases = tuple[Work, ...]


@dataclass(frozen=True)
class Overlapped:
    """A path by its number, what it costs in ticks, and in how many segments."""

    path: int
    ticks: int
    segments: int


def price_ticks(phases: Sequence[Work], segments: int) -> int:
    """The price of equal segments in whole picoseconds; of one, the sum of its phases' ticks."""
    if segments == 1:
        return sum(ticks_of(phase.alone_seconds) for phase in phases)
    return ticks_of(makespan_seconds(phases, segments))


def bound_ticks(seconds: float | Floats) -> Floats:
    """Bounds in ticks that no price in ticks is below, whatever was rounded."""
    return np.asarray(np.floor(np.multiply(seconds, (1 - _SLACK) * TICKS_PER_SECOND)))


def cheapest(
    paths: Sequence[Sequence[int]],
    moves: Mapping[int, Sequence[Phases]],
    count: int,
    limit: int | None = None,
    go_on: Callable[[], bool] = lambda: True,
) -> list[Overlapped]:
    """The ``count`` cheapest paths and all that tie with the last of them; none above ``limit``.

    ``paths`` are lists of labels; ``moves`` has for each number of segments the phases of every
    label, of one segment. Each path comes once, with the number of segments it is cheapest in
    (the smallest of several). In no particular order. Where ``go_on`` answers False the best of
    those looked at until then are returned; the first path is always looked at.
    """
    known: dict[tuple[int, Phases], int] = {}
    best: dict[int, Overlapped] = {}
    ticks: list[int] = []
    worst = limit
    for bound, segments, path in _by_bound(paths, moves):
        if (worst is not None and bound > worst) or (best and not go_on()):
            break
        phases = tuple(phase for label in paths[path] for phase in moves[segments][label])
        if (segments, phases) not in known:
            known[segments, phases] = price_ticks(phases, segments)
        found = Overlapped(path, known[segments, phases], segments)
        before = best.get(path)
        if before and (before.ticks, before.segments) <= (found.ticks, segments):
            continue
        if before:
            ticks.remove(before.ticks)
        best[path] = found
        insort(ticks, found.ticks)
        if len(ticks) >= count:
            kth = ticks[count - 1]
            worst = kth if limit is None else min(kth, limit)
    return [kept for kept in best.values() if worst is None or kept.ticks <= worst]


def _by_bound(
    paths: Sequence[Sequence[int]], moves: Mapping[int, Sequence[Phases]]
) -> Iterator[tuple[int, int, int]]:
    """Every path in every number of segments with a bound in ticks, the lowest bounds first."""
    rows = _rows(paths, len(next(iter(moves.values()), ())))
    counts = sorted(moves)
    bounds = np.array([_bounds(rows, moves[segments], segments) for segments in counts])
    ticks = bound_ticks(bounds)
    for place in np.argsort(ticks, axis=None, kind="stable").tolist():
        number, path = divmod(place, len(paths))
        yield int(ticks[number, path]), counts[number], path


def _rows(paths: Sequence[Sequence[int]], nothing: int) -> Integers:
    """Labels in rows of equal length, padded with a label that does nothing."""
    longest = max((len(path) for path in paths), default=0)
    rows = np.full((len(paths), longest), nothing, dtype=np.int64)
    for row, path in zip(rows, paths, strict=True):
        row[: len(path)] = path
    return rows


def _bounds(rows: Integers, moves: Sequence[Phases], segments: int) -> Floats:
    """For each row, what no price of its phases is below.

    The longest phase follows itself in every segment; and a resource is busy for the sum of what
    all segments ask, not before the first phase that uses it has begun to, nor in the last
    segment's phases after the last that does.
    """
    padded = (*moves, ())
    alone = np.array([sum(phase.alone_seconds for phase in phases) for phases in padded])
    longest = np.array([max((p.alone_seconds for p in phases), default=0.0) for phases in padded])
    taken = alone[rows]
    before = np.cumsum(taken, axis=1) - taken
    total = taken.sum(axis=1)
    bounds: Floats = total + (segments - 1) * longest[rows].max(axis=1, initial=0.0)
    for resource in sorted({name for phases in moves for phase in phases for name in phase.busy}):
        edges = np.array([_edges(phases, resource) for phases in padded])
        work, head, tail = (edges[:, column][rows] for column in range(3))
        busy = segments * work.sum(axis=1)
        started = np.where(work > 0, before + head, np.inf).min(axis=1, initial=np.inf)
        after = total[:, None] - before - taken + tail
        ended = np.where(work > 0, after, np.inf).min(axis=1, initial=np.inf)
        bounds = np.maximum(bounds, np.where(busy > 0, started + busy + ended, 0.0))
    return bounds


def _edges(phases: Phases, resource: str) -> tuple[float, float, float]:
    """Seconds a resource is busy in some phases, and before and after they use it."""
    users = [i for i, phase in enumerate(phases) if phase.busy.get(resource)]
    if not users:
        return 0.0, 0.0, 0.0
    first, last = users[0], users[-1]
    head = sum(phase.alone_seconds for phase in phases[:first]) + phases[first].latency_seconds
    tail = sum(phase.alone_seconds for phase in phases[last + 1 :])
    return sum(phases[i].busy[resource] for i in users), head, tail
