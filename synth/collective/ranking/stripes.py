"""The payload split over several programs that run side by side, so that no level stands idle.

A linear program says which programs, and which share of the payload each, keep the busiest link
busy for the shortest time: inside-first beside across-first, on a torus one order of its dimensions
beside another. What it cannot see is who waits for whom. So its answer is a start among others,
twins of one program among them that use the links while the other waits for messages; from each
start shares and numbers of segments are changed little by little as long as the price falls, which
is followed event by event.

The price is exact for every split it is asked of; that no other split is better is not claimed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, permutations, product
from math import inf

import numpy as np
import numpy.typing as npt
import scipy

from synth.collective.price.segments import SEGMENTS, Phases, SegmentedPath, price_ticks
from synth.collective.price.steps import TICKS_PER_SECOND, ticks_of
from synth.events.overlap import Lane, makespan_within

MOST_STRIPES = 4
"""How many programs run side by side at most: each has streams and groups of its own."""
_SMALLEST = 64
"""A stripe below this part of the payload is not worth a program of its own."""
_NEAR, _PAIRS, _ALIKE, _REFINED = 32, 6, 4, 3
"""How many programs, pairs, paths of the same loads, and starts are looked at more closely."""
_FEW = 24
"""About so many segments a start has at most: side by side, fewer are needed than alone."""
_EFFORT = 6000
"""How many phases of segments may be followed from one start, so that the work has an end."""
_RAW = 8
"""A start, whose shares were changed by nothing yet, may cost more than the best by this part."""
_LEAST_GAIN = 200
"""More stripes must be cheaper by this part, or they are not worth their groups and streams."""

Floats = npt.NDArray[np.float64]
PhasesOf = Callable[[int, float], Phases]
"""The phases of a path, by its number, for so many bytes."""


@dataclass(frozen=True, order=True)
class PathStripe:
    """A path by its number, the bytes of the payload it is for, and in how many segments."""

    path: int
    size_bytes: int
    segments: int


@dataclass(frozen=True)
class StripeSplit:
    """Stripes whose bytes sum to the payload, and what they cost side by side."""

    stripes: tuple[PathStripe, ...]
    ticks: int


@dataclass(frozen=True)
class Mix:
    """Shares of some programs, summing to 1, that keep the busiest resource busy for least time.

    ``worth``: by how much the time would fall if a resource had less to do; sums to 1.
    """

    shares: Floats
    seconds: float
    worth: Floats


def mix(loads: Floats, costs: Floats | None = None) -> Mix:
    """The linear program: ``loads`` has a row for each program, its seconds on each resource.

    They are those of the whole payload. What is minimised is the time of the busiest resource and,
    where ``costs`` are given, the seconds of each program there times its share.
    """
    programs, resources = loads.shape
    unit = loads.max(initial=0.0) or 1.0  # the solver takes whatever is below 1e-7 for nothing
    least = scipy.optimize.linprog(
        np.append(np.zeros(programs) if costs is None else costs / unit, 1.0),
        A_ub=np.hstack([loads.T / unit, -np.ones((resources, 1))]),
        b_ub=np.zeros(resources),
        A_eq=np.append(np.ones(programs), 0.0)[None, :],
        b_eq=[1.0],
        method="highs",
    )
    shares = np.clip(least.x[:programs], 0.0, 1.0)
    shares = shares / shares.sum()
    return Mix(shares, float((shares @ loads).max(initial=0.0)), -least.ineqlin.marginals)


def round_to_bytes(parts: Sequence[float], payload_bytes: int) -> list[int]:
    """Shares as whole bytes that sum to the payload exactly: thirds of 10 bytes are 3, 4 and 3."""
    ends = np.cumsum(parts) / np.sum(parts)
    cuts = [0, *(round(float(end) * payload_bytes) for end in ends[:-1]), payload_bytes]
    return [end - begin for begin, end in pairwise(cuts)]


def price_of(
    stripes: Sequence[PathStripe], phases_of: PhasesOf, limit: int | None = None
) -> int | None:
    """What stripes cost side by side, in whole picoseconds; one alone as any other program.

    None if that is above a limit.
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
    """The best split found of a payload over programs that share the machine.

    ``phases_of`` prices the paths 0 to ``paths`` - 1; ``singles`` are the best of them alone, the
    best first, and ``counts`` the numbers of segments tried. None if no split has been found that
    is cheaper by half a percent than the best alone, or if ``go_on`` answers False before; nor is
    one looked for where even the linear program's time is above the ``limit``.
    """
    if not singles or not singles[0].ticks or payload_bytes < 4 * _SMALLEST:
        return None
    one, numbers = singles[0], sorted(counts)
    size = payload_bytes / one.segments
    mixes = _Mixes([phases_of(path, size) for path in range(paths)], one.segments)
    climb = _Climb(phases_of, mixes, payload_bytes, numbers)
    best: _Priced = (one.ticks, (PathStripe(one.path, payload_bytes, one.segments),))
    most = _most_ticks_worth(best[0]) if limit is None else min(limit, _most_ticks_worth(best[0]))
    if ticks_of(mixes.least_seconds) > most:
        return None
    starts: list[_Priced] = []
    for choice in mixes.choices([single.path for single in singles]):
        limit = min([best[0], *(ticks for ticks, _ in starts)])
        start = climb.start(choice, one.segments, limit + limit // _RAW) if go_on() else None
        starts += [start] if start else []
    found = min((climb.down(start) for start in sorted(starts)[:_REFINED] if go_on()), default=best)
    while found[0] <= _most_ticks_worth(best[0]):
        best = found
        more = climb.more(best) if len(best[1]) < MOST_STRIPES and go_on() else None
        found = climb.down(more) if more else best
    return StripeSplit(best[1], best[0]) if len(best[1]) > 1 else None


def _most_ticks_worth(ticks: int) -> int:
    """What more stripes may cost at most, to be worth the groups and streams they need."""
    return ticks - max(1, ticks // _LEAST_GAIN)


_Stripes = tuple[PathStripe, ...]
_Priced = tuple[int, _Stripes]


class _Mixes:
    """Which programs go well together, by how long each keeps every resource busy.

    As in a market, scarce resources have a price (the dual of the linear program), and programs are
    chosen that are cheap at these prices.
    """

    def __init__(self, phases: Sequence[Phases], segments: int) -> None:
        """``phases`` of every path are those of one of so many segments of the payload."""
        names = sorted({name for path in phases for work in path for name in work.busy})
        busy = [[sum(w.busy.get(name, 0.0) for w in path) for name in names] for path in phases]
        self._loads = segments * np.array(busy).reshape(len(phases), len(names))
        self._alone = np.array([sum(work.alone_seconds for work in path) for path in phases])
        alike: dict[bytes, list[int]] = {}
        for path in np.argsort(self._alone, kind="stable").tolist():
            alike.setdefault(np.round(self._loads[path], 15).tobytes(), []).append(path)
        self._kinds = [paths[0] for paths in alike.values()]
        self._like = {path: paths[:_ALIKE] for paths in alike.values() for path in paths}
        self._best = mix(self._loads[self._kinds])
        self.least_seconds = self._best.seconds

    def choices(self, singles: Sequence[int]) -> list[tuple[int, ...]]:
        """Which paths to run side by side: twins, those of the linear program, and pairs."""
        first = singles[0]
        found: list[tuple[int, ...]] = [(first,) * many for many in (2, 3)]
        quick = mix(self._loads[self._kinds], self._alone[self._kinds]).shares.tolist()
        used = sorted(zip(quick, self._kinds, strict=True), reverse=True)[:MOST_STRIPES]
        found.append(tuple(path for part, path in used if part * _SMALLEST >= 1))
        found += [(first, other) for other in singles[1:]]
        found += self._pairs()
        return [paths for paths in dict.fromkeys(found) if len(paths) > 1]

    def like(self, path: int) -> list[int]:
        """Some paths that load every resource as a given one does, in another order."""
        return self._like[path]

    def shares(self, paths: Sequence[int]) -> list[float]:
        """The shares of the linear program, equal for paths with the same loads, none too small."""
        loads = np.round(self._loads[list(paths)], 15)
        kinds, kind_of = np.unique(loads, axis=0, return_inverse=True)
        parts = mix(kinds).shares.tolist()
        alike = Counter(kind_of.tolist())
        return [max(parts[kind] / alike[kind], 1 / _SMALLEST) for kind in kind_of.tolist()]

    def _pairs(self) -> list[tuple[int, int]]:
        """The pairs that keep the busiest resource busy shortest, each at its best share.

        They are looked for among the paths that cost least at what the resources are worth.
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
    """Local search: splits of one payload, changed little by little while their price falls."""

    def __init__(
        self, phases_of: PhasesOf, mixes: _Mixes, payload_bytes: int, counts: Sequence[int]
    ) -> None:
        self._phases_of = phases_of
        self._mixes = mixes
        self._payload_bytes = payload_bytes
        self._counts = counts
        self._prices: dict[_Stripes, int] = {}
        self._above: dict[_Stripes, int] = {}
        self._effort = 0

    def start(self, paths: tuple[int, ...], segments: int, limit: int) -> _Priced | None:
        """Shares by the linear program, in a few numbers of segments; a pair in several orders."""
        sizes = round_to_bytes(self._mixes.shares(paths), self._payload_bytes)

        def stripes(order: tuple[int, ...], count: int) -> _Stripes:
            return tuple(PathStripe(p, size, count) for p, size in zip(order, sizes, strict=True))

        fewer = max(self._counts[0], min(segments // len(paths), _FEW))
        middle = max(count for count in self._counts if count <= fewer)
        best = self._cheapest((stripes(paths, count) for count in self._near(middle, 2)), limit)
        if len(paths) > 2:
            return best
        count = best[1][0].segments if best else middle
        orders = product(*(self._mixes.like(path) for path in paths))
        found = (stripes(order, count) for order in orders)
        return self._cheapest(found, best[0] - 1 if best else limit) or best

    def down(self, best: _Priced) -> _Priced:
        """The least price that small changes lead to: of segments, paths, and ever fewer bytes."""
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
        """The cheapest split with one stripe cut in two; None if all cost over an eighth more.

        Shares and segments are those of fewer stripes still, as a start's are a program's: a cut
        that costs a ninth more than two stripes may end a tenth below them.
        """
        found = (
            (*rest, one, replace(two, segments=count))
            for one, two, rest in _halve_stripes(best[1], self._least_bytes)
            for count in self._near(one.segments, 2)
            if count <= one.segments
        )
        return self._cheapest(found, best[0] + best[0] // _RAW)

    @property
    def _least_bytes(self) -> int:
        return max(1, self._payload_bytes // _SMALLEST)

    def _near(self, segments: int, far: int = 1) -> Sequence[int]:
        place = self._counts.index(segments)
        return self._counts[max(0, place - far) : place + far + 1]

    def _changed(self, stripes: _Stripes) -> Iterator[_Stripes]:
        """One stripe in a few more or fewer segments, or by a path with the same loads."""
        for number, one in enumerate(stripes):
            others = (stripes[:number], stripes[number + 1 :])
            for count in self._near(one.segments):
                yield (*others[0], replace(one, segments=count), *others[1])
            for path in self._mixes.like(one.path):
                yield (*others[0], replace(one, path=path), *others[1])

    def _cheapest(self, found: Iterable[_Stripes], limit: int) -> _Priced | None:
        """The cheapest of several splits, the first of those that tie; None if all are above."""
        best: _Priced | None = None
        for stripes in found:
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
    """Some bytes of one stripe given to another."""
    for i, j in permutations(range(len(stripes)), 2):
        if stripes[i].size_bytes - step_bytes >= least_bytes:
            moved = list(stripes)
            moved[i] = replace(stripes[i], size_bytes=stripes[i].size_bytes - step_bytes)
            moved[j] = replace(stripes[j], size_bytes=stripes[j].size_bytes + step_bytes)
            yield tuple(moved)


def _halve_stripes(
    stripes: _Stripes, least_bytes: int
) -> Iterator[tuple[PathStripe, PathStripe, _Stripes]]:
    """Each stripe that is large enough in two halves, and the others."""
    for number, stripe in enumerate(stripes):
        half = stripe.size_bytes // 2
        if half >= least_bytes:
            one = replace(stripe, size_bytes=stripe.size_bytes - half)
            yield one, replace(stripe, size_bytes=half), stripes[:number] + stripes[number + 1 :]
