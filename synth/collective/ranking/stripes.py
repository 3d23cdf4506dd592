"""Splits the payload over several concurrent programs, so that no level is idle.

A linear program chooses the programs and their shares of the payload that minimise the time of the
busiest link: inside-first together with across-first, or on a torus two orders of its dimensions.
It cannot model dependencies. So its solution is one start among several; another is twins of one
program, where one twin uses the links while the other waits for messages. From each start a local
search changes shares and numbers of segments as long as the price, found by event simulation,
falls.

The price of every split is exact, but the best split is not guaranteed to be found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, permutations, product
from math import inf

import numpy as np
import numpy.typing as npt

from synth.collective.price.segments import SEGMENTS, Phases, SegmentedPath, price_ticks
from synth.collective.price.steps import TICKS_PER_SECOND, ticks_of
from synth.events.overlap import Lane, makespan_within
from synth.search.linear_program import solve_linear_program

MOST_STRIPES = 4
"""The most concurrent programs: each has streams and groups of its own."""
_SMALLEST = 64
"""A stripe below this fraction (1/64) of the payload is not worth a program of its own."""
_NEAR, _PAIRS, _ALIKE, _REFINED = 32, 6, 4, 3
"""How many programs, pairs, paths with the same loads, and starts are examined closely."""
_FEW = 24
"""Approximately the most segments of a start: concurrent programs need fewer than a single one."""
_EFFORT = 6000
"""The most phases of segments simulated from one start, so that the search ends."""
_RAW = 8
"""A start, whose shares are not refined yet, may exceed the best price by this fraction (1/8)."""
_LEAST_GAIN = 200
"""More stripes must save this fraction (1/200) to be worth their groups and streams."""

Floats = npt.NDArray[np.float64]
PhasesOf = Callable[[int, float], Phases]
"""The phases of a path, given its number and bytes."""


@dataclass(frozen=True, order=True)
class PathStripe:
    """A path's number, its bytes of the payload, and its number of segments."""

    path: int
    size_bytes: int
    segments: int


@dataclass(frozen=True)
class StripeSplit:
    """Stripes whose bytes sum to the payload, and their price in ticks when run concurrently."""

    stripes: tuple[PathStripe, ...]
    ticks: int


@dataclass(frozen=True)
class Mix:
    """Shares of programs, summing to 1, that minimise the time of the busiest resource.

    ``worth``: the dual prices of the resources, summing to 1.
    """

    shares: Floats
    seconds: float
    worth: Floats


def mix(loads: Floats, costs: Floats | None = None) -> Mix:
    """Solves the linear program; ``loads[i, r]`` is the seconds of program i on resource r.

    Loads are for the whole payload. It minimises the time of the busiest resource plus, where
    ``costs`` are given, each program's cost in seconds times its share.
    """
    programs, resources = loads.shape
    unit = loads.max(initial=0.0) or 1.0  # the solver treats values below 1e-7 as 0
    least = solve_linear_program(
        np.append(np.zeros(programs) if costs is None else costs / unit, 1.0),
        np.hstack([loads.T / unit, -np.ones((resources, 1))]),
        np.zeros(resources),
        np.append(np.ones(programs), 0.0)[None, :],
        np.ones(1),
    )
    shares = np.clip(least.values[:programs], 0.0, 1.0)
    shares = shares / shares.sum()
    return Mix(shares, float((shares @ loads).max(initial=0.0)), -least.marginals)


def round_to_bytes(parts: Sequence[float], payload_bytes: int) -> list[int]:
    """Rounds shares to whole bytes that sum to the payload: thirds of 10 bytes are 3, 4 and 3."""
    ends = np.cumsum(parts) / np.sum(parts)
    cuts = [0, *(round(float(end) * payload_bytes) for end in ends[:-1]), payload_bytes]
    return [end - begin for begin, end in pairwise(cuts)]


def price_of(
    stripes: Sequence[PathStripe], phases_of: PhasesOf, limit: int | None = None
) -> int | None:
    """Returns the price of concurrent stripes in ticks, or None if it exceeds ``limit``.

    A single stripe is priced as any other program.
    """
    lanes = [
        Lane(phases_of(stripe.path, stripe.size_bytes / stripe.segments), stripe.segments)
        for stripe in stripes
    ]
    if len(lanes) == 1:
        ticks = price_ticks(lanes[0].phases, lanes[0].segments)
    else:
        seconds = makespan_within(lanes, inf if limit is None else limit / TICKS_PER_SECOND)
        if seconds == inf:
            return None
        ticks = ticks_of(seconds)
    return ticks if limit is None or ticks <= limit else None


def split(
    phases_of: PhasesOf,
    paths: int,
    singles: Sequence[SegmentedPath],
    payload_bytes: int,
    counts: Sequence[int] = SEGMENTS,
    limit: int | None = None,
    go_on: Callable[[], bool] = lambda: True,
) -> StripeSplit | None:
    """Returns the best split found of a payload over programs that share the machine.

    ``phases_of`` prices the paths 0 to ``paths`` - 1; ``singles`` are the best single programs,
    best first; ``counts`` are the numbers of segments to try. None if no split is cheaper than
    the best single by half a percent, if ``go_on`` returns False before one is found, or if
    even the linear program's time exceeds ``limit``.
    """
    if not singles or not singles[0].ticks or payload_bytes < 4 * _SMALLEST:
        return None
    first, numbers = singles[0], sorted(counts)
    size = payload_bytes / first.segments
    mixes = _Mixes([phases_of(path, size) for path in range(paths)], first.segments)
    usual = {single.path: single.segments for single in singles}
    climb = _Climb(phases_of, mixes, payload_bytes, numbers, usual)
    best: _Priced = (first.ticks, (PathStripe(first.path, payload_bytes, first.segments),))
    most = _most_ticks_worth(best[0]) if limit is None else min(limit, _most_ticks_worth(best[0]))
    if ticks_of(mixes.least_seconds) > most:
        return None
    starts: list[_Priced] = []
    for choice in mixes.choices([single.path for single in singles]):
        if ticks_of(mixes.of(choice).seconds) <= most and go_on():
            cheapest = min([best[0], *(ticks for ticks, _ in starts)])
            start = climb.start(choice, min(most, cheapest) * (_RAW + 1) // _RAW)
            starts += [start] if start else []
    chosen = _diverse(sorted(starts))[:_REFINED]
    found = min((climb.down(start) for start in chosen if go_on()), default=best)
    while found[0] <= _most_ticks_worth(best[0]):
        best = found
        more = climb.more(best) if len(best[1]) < MOST_STRIPES and go_on() else None
        found = climb.down(more) if more else best
    return StripeSplit(best[1], best[0]) if len(best[1]) > 1 else None


def _diverse(starts: Sequence[_Priced]) -> list[_Priced]:
    """Returns the first start of each set of programs, and then the others."""
    first: dict[frozenset[int], _Priced] = {}
    for start in starts:
        first.setdefault(frozenset(stripe.path for stripe in start[1]), start)
    return [*first.values(), *(start for start in starts if start not in first.values())]


def _most_ticks_worth(ticks: int) -> int:
    """Returns the highest price at which more stripes are worth their groups and streams."""
    return ticks - max(1, ticks // _LEAST_GAIN)


_Stripes = tuple[PathStripe, ...]
_Priced = tuple[int, _Stripes]


class _Mixes:
    """Combinations of programs chosen by how long each keeps every resource busy.

    Scarce resources have a price (the dual of the linear program); programs that are cheap at these
    prices are chosen.
    """

    def __init__(self, phases: Sequence[Phases], segments: int) -> None:
        """``phases`` of every path are those of one of ``segments`` segments of the payload."""
        names = sorted({name for path in phases for work in path for name in work.busy})
        busy = [[sum(w.busy.get(name, 0.0) for w in path) for name in names] for path in phases]
        self._loads = segments * np.array(busy).reshape(len(phases), len(names))
        self._alone = np.array([sum(work.alone_seconds for work in path) for path in phases])
        alike: dict[bytes, list[int]] = {}
        for path in np.argsort(self._alone, kind="stable").tolist():
            # Rounded, because paths with the same steps in another order sum the same loads in that
            # order.
            alike.setdefault(np.round(self._loads[path], 15).tobytes(), []).append(path)
        self._kinds = [paths[0] for paths in alike.values()]
        self._like = {path: paths[:_ALIKE] for paths in alike.values() for path in paths}
        self._best = mix(self._loads[self._kinds])
        self.least_seconds = self._best.seconds

    def choices(self, singles: Sequence[int]) -> list[tuple[int, ...]]:
        """Returns paths to run concurrently: twins, those of the linear program, and pairs.

        Twins are of the best single program, and of the one that keeps links busy for least: alone
        that one may be far behind, as it waits for more messages.
        """
        first = singles[0]
        quick = mix(self._loads[self._kinds], self._alone[self._kinds]).shares.tolist()
        used = sorted(zip(quick, self._kinds, strict=True), reverse=True)[:MOST_STRIPES]
        lean = self._kinds[int(np.argmax(self._best.shares))]
        found: list[tuple[int, ...]] = [(twin,) * many for twin in (first, lean) for many in (2, 3)]
        found += [(lean, lean, first), (lean, lean, first, first), (lean,) * 4]
        found.append(tuple(path for part, path in used if part * _SMALLEST >= 1))
        found += [(first, other) for other in singles[1:]]
        found += self._pairs()
        return [paths for paths in dict.fromkeys(found) if len(paths) > 1]

    def like(self, path: int) -> list[int]:
        """Returns paths with the same loads on every resource, in another order."""
        return self._like[path]

    def of(self, paths: Sequence[int]) -> Mix:
        """Returns the linear program's mix of some paths only, with equal shares for equal loads.

        No share is below the smallest.
        """
        loads = np.round(self._loads[list(paths)], 15)
        kinds, kind_of = np.unique(loads, axis=0, return_inverse=True)
        found = mix(kinds)
        parts, alike = found.shares.tolist(), Counter(kind_of.tolist())
        shares = [max(parts[kind] / alike[kind], 1 / _SMALLEST) for kind in kind_of.tolist()]
        return replace(found, shares=np.array(shares))

    def _pairs(self) -> list[tuple[int, int]]:
        """Returns the pairs with the least time of the busiest resource, at their best shares.

        Candidates are the paths that are cheapest at the dual prices.
        """
        kinds = np.array(self._kinds)
        worth = self._loads[kinds] @ self._best.worth + self._alone[kinds]
        kinds = kinds[np.argsort(worth, kind="stable")[:_NEAR]]
        loads, part = self._loads[kinds], np.arange(1, 16)[:, None, None, None] / 16
        both = (part * loads[:, None] + (1 - part) * loads).max(axis=3).min(axis=0)
        both += (self._alone[kinds][:, None] + self._alone[kinds]) / 2
        one, other = np.triu_indices(len(kinds), 1)
        order = np.argsort(both[one, other], kind="stable")[:_PAIRS]
        return [(int(kinds[one[i]]), int(kinds[other[i]])) for i in order.tolist()]


class _Climb:
    """Local search over splits of one payload."""

    def __init__(
        self,
        phases_of: PhasesOf,
        mixes: _Mixes,
        payload_bytes: int,
        counts: Sequence[int],
        usual: Mapping[int, int],
    ) -> None:
        """``usual``: the segments of the paths that were priced alone."""
        self._phases_of = phases_of
        self._mixes = mixes
        self._payload_bytes = payload_bytes
        self._counts = counts
        self._usual = usual
        self._prices: dict[_Stripes, int] = {}
        self._above: dict[_Stripes, int] = {}
        self._effort = 0

    def start(self, paths: tuple[int, ...], limit: int) -> _Priced | None:
        """Returns the linear program's split, with segments and order chosen coarsely.

        Twins in equal segments wait for their messages at the same time, and gain little. So each
        is also tried in more segments than the twin before.
        """
        sizes = round_to_bytes(self._mixes.of(paths).shares.tolist(), self._payload_bytes)

        def stripes(order: Sequence[int], counts: Sequence[int]) -> _Stripes:
            return tuple(map(PathStripe, order, sizes, counts))

        most = max(self._usual.values())
        places = [self._place(self._usual.get(path, most), len(paths)) for path in paths]
        middle = self._near(self._counts[max(places)], 2)
        found = chain(
            (stripes(paths, [count] * len(paths)) for count in middle),
            (stripes(paths, self._staggered(paths, places, more)) for more in range(-1, 3)),
        )
        best = self._cheapest(found, limit)
        if len(paths) > 2:
            return best
        counts = [s.segments for s in best[1]] if best else [self._counts[max(places)]] * 2
        orders = product(*(self._mixes.like(path) for path in paths))
        alike = (stripes(order, counts) for order in orders)
        return self._cheapest(alike, best[0] - 1 if best else limit) or best

    def _place(self, segments: int, stripes: int) -> int:
        """Returns the place among the counts of the segments of one of several stripes."""
        fewer = max(self._counts[0], min(segments // stripes, _FEW))
        return max(place for place, count in enumerate(self._counts) if count <= fewer)

    def _staggered(self, paths: Sequence[int], places: Sequence[int], more: int) -> list[int]:
        """Returns numbers of segments: the usual of each path, more for each of its twins."""
        twins = [paths[:number].count(path) for number, path in enumerate(paths)]
        last = len(self._counts) - 1
        chosen = (place + twin + more for place, twin in zip(places, twins, strict=True))
        return [self._counts[min(max(0, place), last)] for place in chosen]

    def down(self, best: _Priced) -> _Priced:
        """Descends by small changes of segments, paths and bytes, in ever smaller steps."""
        part, effort = 8, self._effort
        while part <= _SMALLEST and self._effort - effort < _EFFORT:
            step_bytes = self._payload_bytes // part
            moved = _move_bytes(best[1], step_bytes, self._least_bytes)
            better = self._cheapest(chain(moved, self._changed(best[1])), best[0] - 1)
            if better:
                best = better
            else:
                part *= 2
        return best

    def more(self, best: _Priced) -> _Priced | None:
        """Returns the cheapest split with one stripe halved; None if all cost over an eighth more.

        Its shares and segments are not refined yet, as in a start: a split that is a ninth
        dearer than two stripes may end a tenth below them.
        """
        found = (
            (*rest, half, replace(other_half, segments=count))
            for half, other_half, rest in _halve_stripes(best[1], self._least_bytes)
            for count in self._near(half.segments, 2)
            if count <= half.segments
        )
        return self._cheapest(found, best[0] + best[0] // _RAW)

    @property
    def _least_bytes(self) -> int:
        return max(1, self._payload_bytes // _SMALLEST)

    def _near(self, segments: int, far: int = 1) -> Sequence[int]:
        place = self._counts.index(segments)
        return self._counts[max(0, place - far) : place + far + 1]

    def _changed(self, stripes: _Stripes) -> Iterator[_Stripes]:
        """Yields splits with other segments, or another path, for one stripe."""
        for number, stripe in enumerate(stripes):
            others = (stripes[:number], stripes[number + 1 :])
            for count in self._near(stripe.segments):
                yield (*others[0], replace(stripe, segments=count), *others[1])
            for path in self._mixes.like(stripe.path):
                yield (*others[0], replace(stripe, path=path), *others[1])

    def _cheapest(self, found: Iterable[_Stripes], limit: int) -> _Priced | None:
        """Returns the cheapest split, the first of ties; None if all are above ``limit``."""
        best: _Priced | None = None
        for stripes in found:
            # The order of stripes does not matter: one key for all orders prices each split once.
            key = tuple(sorted(stripes, key=lambda s: (-s.size_bytes, s.path, s.segments)))
            ticks = self._price(key, best[0] - 1 if best else limit)
            if ticks is not None:
                best = (ticks, key)
        return best

    def _price(self, key: _Stripes, limit: int) -> int | None:
        if key not in self._prices and limit > self._above.get(key, -1):
            phases = [len(self._phases_of(s.path, s.size_bytes / s.segments)) for s in key]
            self._effort += sum(n * s.segments for n, s in zip(phases, key, strict=True))
            ticks = price_of(key, self._phases_of, limit)
            if ticks is None:
                self._above[key] = limit
            else:
                self._prices[key] = ticks
        found = self._prices.get(key)
        return None if found is None or found > limit else found


def _move_bytes(stripes: _Stripes, step_bytes: int, least_bytes: int) -> Iterator[_Stripes]:
    """Yields splits with some bytes moved from one stripe to another."""
    for i, j in permutations(range(len(stripes)), 2):
        if stripes[i].size_bytes - step_bytes >= least_bytes:
            moved = list(stripes)
            moved[i] = replace(stripes[i], size_bytes=stripes[i].size_bytes - step_bytes)
            moved[j] = replace(stripes[j], size_bytes=stripes[j].size_bytes + step_bytes)
            yield tuple(moved)


def _halve_stripes(
    stripes: _Stripes, least_bytes: int
) -> Iterator[tuple[PathStripe, PathStripe, _Stripes]]:
    """Yields the halves of each stripe that is large enough, and the other stripes."""
    for number, stripe in enumerate(stripes):
        half = stripe.size_bytes // 2
        if half >= least_bytes:
            rest = replace(stripe, size_bytes=stripe.size_bytes - half)
            yield rest, replace(stripe, size_bytes=half), stripes[:number] + stripes[number + 1 :]
