"""The cheapest programs when steps overlap: exact, without simulating each program.

With overlap, a path's price is not the sum of its moves' prices, but a formula bounds it from
below, whichever algorithms its steps take. All paths are bounded at once, for each number of
segments. Then the lowest bound is refined repeatedly: first into one bound for each choice of
algorithms, then by simulation. So paths appear in the order of their prices, each with the choice
of algorithms that makes the whole fastest, and dearer paths are never simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate
from math import inf, prod

import numpy as np
import numpy.typing as npt

from synth.collective.price.steps import TICKS_PER_SECOND, ticks_of
from synth.events.overlap import Lane, PhaseWork, makespan_within

SEGMENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""The numbers of segments tried where the caller does not restrict them."""
_SLACK = 1e-9
"""Bounds are lowered by this share, which exceeds any rounding error."""

_MANY = 512
"""After this many simulated choices a limit is computed; with fewer it costs more than it saves."""
_AHEAD = 8
"""Number of paths then simulated ahead, for each number of segments."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Phases = tuple[PhaseWork, ...]
Choices = Sequence[Phases]
"""The options of a step: its phases by each of several algorithms, the fastest alone first."""


@dataclass(frozen=True)
class SegmentedPath:
    """A path by its number, with its price in ticks for this number of segments."""

    path: int
    ticks: int
    segments: int


def price_ticks(phases: Sequence[PhaseWork], segments: int) -> int:
    """The price of equal segments in ticks; of one segment, its phases' ticks added up."""
    ticks = price_up_to(phases, segments, inf)
    assert ticks is not None
    return ticks


def price_up_to(phases: Sequence[PhaseWork], segments: int, limit: float) -> int | None:
    """The price in ticks if it does not exceed ``limit``; otherwise None or the price."""
    if segments == 1:
        # Rounded phase by phase, as in ``Simulator.prices``: both must rank the same programs as
        # ties.
        return sum(ticks_of(phase.alone_seconds) for phase in phases)
    lane = Lane(tuple(phases), segments)
    seconds = makespan_within([lane], limit / TICKS_PER_SECOND)
    return None if seconds == inf else ticks_of(seconds)


def bound_ticks(seconds: float | Floats) -> Floats:
    """Lower bounds in ticks from seconds; rounding never lifts a bound above a price."""
    return np.asarray(np.floor(np.multiply(seconds, (1 - _SLACK) * TICKS_PER_SECOND)))


def best_choice(choices: Sequence[Choices], segments: int) -> tuple[int, tuple[int, ...]]:
    """Returns the least price in ticks over all combinations of choices, and that combination."""
    search = _ChoiceSearch(choices, segments)
    while not search.settled:
        search.follow()
    return search.bound, search.best


class _ChoiceSearch:
    """Simulates the choices of all steps of a program in the order of their bounds. Mutable.

    ``best`` holds the choice of each step in the cheapest combination so far, the first in that
    order among ties; ``looked`` counts the combinations tried.
    """

    def __init__(self, choices: Sequence[Choices], segments: int) -> None:
        self._choices, self._segments = choices, segments
        labels = [(phases,) for phases_of_step in choices for phases in phases_of_step]
        firsts = np.array([0, *accumulate(map(len, choices))][:-1], dtype=np.int64)
        shape = [len(phases_of_step) for phases_of_step in choices]
        self._numbers = np.indices(shape).reshape(len(choices), prod(shape))
        rows = (self._numbers + firsts[:, None]).T
        bounds = bound_ticks(bounds_of_rows(rows, labels, segments))
        self._order = np.argsort(bounds, kind="stable")
        self._bounds = bounds[self._order]
        self.looked = 0
        self._postponed: list[tuple[int, int]] = []
        self._prices: dict[int, int] = {}
        self.ticks: float = inf
        self.best = (0,) * len(choices)

    @property
    def settled(self) -> bool:
        """Whether no combination that was not simulated can be cheaper."""
        return self.ticks <= self._least

    @property
    def bound(self) -> int:
        """A lower bound over all combinations in ticks; the price, once that is settled."""
        return int(min(self._least, self.ticks))

    @property
    def _least(self) -> float:
        """A lower bound over the combinations that were not simulated to their end."""
        coming = float(self._bounds[self.looked]) if self.looked < len(self._bounds) else inf
        return min(coming, self._postponed[0][0]) if self._postponed else coming

    def follow(self, limit: float = inf) -> None:
        """Simulates the next combination until it ends or surely exceeds the limit."""
        if self._postponed and self._postponed[0][0] <= self._least:
            _, place = heappop(self._postponed)
        else:
            place = self.looked
            self.looked += 1
        limit = min(limit, self.ticks)
        ticks = self._price(place, limit)
        if ticks is None:
            if limit < self.ticks:
                # Prices are whole ticks, so a price above the limit is at least limit + 1.
                heappush(self._postponed, (int(limit) + 1, place))
        elif ticks < self.ticks:
            self.ticks, self.best = ticks, self._choice(place)

    def first(self, limit: float) -> float:
        """The price of the first combination before its turn; infinite if it exceeds the limit."""
        return inf if (ticks := self._price(0, limit)) is None else ticks

    def _price(self, place: int, limit: float) -> int | None:
        """The price of the combination at a place; None if it exceeds the limit."""
        if place not in self._prices:
            chosen = zip(self._choices, self._choice(place), strict=True)
            phases = [phase for choices, number in chosen for phase in choices[number]]
            if (ticks := price_up_to(phases, self._segments, limit)) is None:
                return None
            self._prices[place] = ticks
        return self._prices[place]

    def _choice(self, place: int) -> tuple[int, ...]:
        return tuple(self._numbers[:, self._order[place]].tolist())


class PathRanking:
    """Prices of paths in segments, the cheapest first. Mutable.

    ``paths`` are lists of labels. ``moves`` holds, for each number of segments, the options of
    every label in one segment: its phases by one algorithm, or by each of several. ``enough`` is
    the most paths that the caller expects to need: dearer paths are simulated only until they are
    known to be dearer. ``looked`` counts the combinations tried, simulated to the end or not.
    """

    def __init__(
        self,
        paths: Sequence[Sequence[int]],
        moves: Mapping[int, Sequence[Choices]],
        enough: int | None = None,
    ) -> None:
        self._moves = moves
        rows = _rows(paths, len(next(iter(moves.values()), ())))
        self._distinct_rows, row_of = np.unique(rows, axis=0, return_inverse=True)
        self._labels = paths
        self._paths: list[list[int]] = [[] for _ in self._distinct_rows]
        for path, row in enumerate(row_of.reshape(-1).tolist()):
            self._paths[row].append(path)
        self._ranked: list[SegmentedPath] = []
        self._in_order = self._cheapest_first()
        self._enough, self._limit = enough, inf
        self._least: dict[int, float] = {}
        self._searches: dict[tuple[int, int], _ChoiceSearch] = {}
        self.looked = 0

    def __iter__(self) -> Iterator[SegmentedPath]:
        """Yields every path in every number of segments by price; among ties, fewest segments
        first.
        """
        number = 0
        while True:
            if number == len(self._ranked):
                fresh = next(self._in_order, None)
                if fresh is None:
                    return
                self._ranked.append(fresh)
            yield self._ranked[number]
            number += 1

    def ticks(self, path: int, segments: int) -> int:
        """The price of one path in ``segments`` segments, whatever its rank."""
        return best_choice([self._moves[segments][x] for x in self._labels[path]], segments)[0]

    def _cheapest_first(self) -> Iterator[SegmentedPath]:
        """Yields paths by price, refining only the lowest of all bounds."""
        counts = sorted(self._moves)
        bounds = [
            bounds_of_rows(self._distinct_rows, self._moves[count], count) for count in counts
        ]
        ticks = bound_ticks(np.array(bounds))
        bounded = np.argsort(ticks, axis=None, kind="stable").tolist()
        heap: list[tuple[int, int, int]] = []
        later = iter([*bounded, None])
        place = next(later)
        while heap or place is not None:
            if place is not None:
                number, row = divmod(place, len(self._distinct_rows))
                if not heap or ticks[number, row] <= heap[0][0]:
                    segments = counts[number]
                    heappush(heap, (self._search_of(row, segments).bound, segments, row))
                    place = next(later)
                    continue
            bound, segments, row = heappop(heap)
            search = self._search_of(row, segments)
            if search.settled:
                yield from (SegmentedPath(path, bound, segments) for path in self._paths[row])
            else:
                # After many simulations, further combinations are simulated only up to the limit.
                limited = self.looked >= _MANY and search.bound <= self._limit
                looked = search.looked
                search.follow(self._limit if limited else inf)
                self.looked += search.looked - looked
                self._record(row, search.ticks)
                heappush(heap, (search.bound, segments, row))
                if self.looked == _MANY:
                    self._look_ahead(counts, ticks)

    def _look_ahead(self, counts: Sequence[int], ticks: Floats) -> None:
        """Simulates likely good paths for each number of segments, to find a low limit early.

        Bounds get weaker with more segments, so in their order the best paths come late.
        """
        if self._enough is not None:
            for segments, row_ticks in zip(counts, ticks, strict=True):
                for row in np.argsort(row_ticks, kind="stable")[:_AHEAD].tolist():
                    self._record(row, self._search_of(row, segments).first(self._limit))

    def _record(self, row: int, ticks: float) -> None:
        """Records an upper bound on a row's price, and lowers the limit if enough rows meet it."""
        if self._enough is None or ticks >= self._least.get(row, inf):
            return
        self._least[row], cheaper = ticks, 0
        for other, bound in sorted(self._least.items(), key=lambda item: item[1]):
            cheaper += len(self._paths[other])
            if cheaper > self._enough:
                self._limit = bound
                return

    def _search_of(self, row: int, segments: int) -> _ChoiceSearch:
        if (segments, row) not in self._searches:
            choices = [self._moves[segments][x] for x in self._labels[self._paths[row][0]]]
            self._searches[segments, row] = _ChoiceSearch(choices, segments)
        return self._searches[segments, row]


def cheapest_paths(
    ranking: PathRanking,
    count: int,
    limit: int | None = None,
    go_on: Callable[[], bool] = lambda: True,
) -> list[SegmentedPath]:
    """Returns the ``count`` cheapest paths and all ties with the last; none above ``limit`` ticks.

    Each path appears once, with the smallest number of segments in which it is cheapest. When
    ``go_on`` answers False, returns the paths found so far; the first path is always priced.
    """
    best: dict[int, SegmentedPath] = {}
    last = 0
    for priced in ranking:
        above = limit is not None and priced.ticks > limit
        if above or (len(best) >= count and priced.ticks > last) or (best and not go_on()):
            break
        if priced.path not in best:
            best[priced.path], last = priced, priced.ticks
    return list(best.values())


def _rows(paths: Sequence[Sequence[int]], nothing: int) -> Integers:
    """Labels in rows of equal length, padded with the label ``nothing``."""
    longest = max((1, *map(len, paths)))
    rows = np.full((len(paths), longest), nothing, dtype=np.int64)
    for row, path in zip(rows, paths, strict=True):
        row[: len(path)] = path
    return rows


def bounds_of_rows(rows: Integers, moves: Sequence[Choices], segments: int) -> Floats:
    """Lower bounds in seconds on each row of labels, whichever choices its steps take.

    The longest phase follows itself in every segment. A resource is busy for the sum of all demands
    on it; it starts no earlier than the first phase that uses it, and the last segment's phases
    after the last user follow. Label ``len(moves)`` does nothing.
    """
    names = sorted(
        {n for choices in moves for phases in choices for phase in phases for n in phase.busy}
    )
    least = []
    for choices in (*moves, ((),)):
        figures = [_figures(phases, names) for phases in choices]
        least.append(tuple(map(min, zip(*figures, strict=True))) if figures[1:] else figures[0])
    labels = np.array(least)
    places = np.ascontiguousarray(rows.T)
    alone, longest, *_ = labels.T
    taken = alone[places]
    before = np.cumsum(taken, axis=0) - taken
    total = taken.sum(axis=0)
    bounds: Floats = total + (segments - 1) * longest[places].max(axis=0, initial=0.0)
    after = total - before - taken
    for first in range(2, len(labels.T), 3):
        work, head, tail = labels.T[first : first + 3]
        busy = segments * work[places].sum(axis=0)
        started = (before + head[places]).min(axis=0, initial=np.inf)
        ended = (after + tail[places]).min(axis=0, initial=np.inf)
        bounds = np.maximum(bounds, np.where(busy > 0, started + busy + ended, 0.0))
    return bounds


def _figures(phases: Phases, names: Sequence[str]) -> tuple[float, ...]:
    """Seconds of all phases alone, of the longest phase, and three figures for each resource.

    These are how long the resource is busy, and how long phases last before and after they use it:
    infinite where no phase does.
    """
    if len(phases) == 1:  # a shortcut, as most steps have one phase
        [phase] = phases
        single = [phase.alone_seconds, phase.alone_seconds]
        for name in names:
            busy = phase.busy.get(name)
            single += (busy, phase.latency_seconds, 0.0) if busy else (0.0, inf, inf)
        return tuple(single)
    alone = [phase.alone_seconds for phase in phases]
    figures = [sum(alone), max(alone, default=0.0)]
    for name in names:
        users = [i for i, phase in enumerate(phases) if phase.busy.get(name)]
        if not users:
            figures += 0.0, inf, inf
            continue
        first, last = users[0], users[-1]
        figures.append(sum(phases[i].busy[name] for i in users))
        figures.append(sum(alone[:first]) + phases[first].latency_seconds)
        figures.append(sum(alone[last + 1 :]))
    return tuple(figures)
