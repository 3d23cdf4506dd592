"""Max-min fair shares of resources among flows that come and go.

A flow at level y occupies y times its part of each of its resources; no resource is occupied by
more than 1, and no flow exceeds its own ceiling. Levels are max-min fair: no flow can be raised
without lowering a flow whose level is no higher. They are unique: every flow is at its ceiling or
has a *bottleneck*, a full resource on which no flow is higher. (Bertsekas, Gallager: Data Networks,
6.5.2.)

So a change need not be propagated to all flows. The flows that start are raised again from 0, and
so are flows whose bottleneck is used by a flow that starts, stops or is raised again; all others
are held. A held flow that is then higher on a bottleneck than the owners of that bottleneck is
raised again with them, and so on until every flow has its bottleneck. The levels equal those of
raising all flows, up to rounding; ``NEAR`` keeps rounding from counting as a difference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import count

import numpy as np
import numpy.typing as npt

NEAR = 1e-12
"""A resource occupied by 1 less this share is full, and levels this close are equal."""

ADDED_UP_EVERY = 500
"""Sums are recomputed after this many changes: rounding stays well below ``NEAR``."""

CEILING = -1
"""In place of a bottleneck: the flow is at its own ceiling."""

Uses = Sequence[tuple[int, float]]
"""The resources of a flow and the part of each that it occupies at level 1, above 0."""


Numbers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def scarce_uses(flow: Numbers, resource: Numbers, part: Floats, ceilings: Floats) -> list[Uses]:
    """Returns the uses of each flow, without resources that never decide a flow's level.

    Entry i: ``flow[i]`` at level 1 occupies ``part[i]`` of ``resource[i]``; ceilings are the levels
    that flows reach alone. Resources that their flows do not fill even at their ceilings are left
    out, and so are resources dominated by a resource with the same flows and no smaller parts. A
    link may then be overloaded by a share of ``NEAR``.
    """
    resources = 1 + int(resource.max(initial=-1))
    full = np.bincount(resource, part * ceilings[flow], resources) > 1 + NEAR
    some = full[resource]
    order = np.flatnonzero(some)[np.lexsort((flow[some], resource[some]))]
    flow, resource, part = flow[order], resource[order], part[order]
    alike: dict[bytes, list[Floats]] = {}
    borders = np.flatnonzero(np.diff(resource, prepend=-1))
    for users, parts in zip(np.split(flow, borders)[1:], np.split(part, borders)[1:], strict=True):
        alike.setdefault(users.tobytes(), []).append(parts)
    uses: list[list[tuple[int, float]]] = [[] for _ in ceilings]
    numbers = count()
    for key, found in alike.items():
        for parts in _maximal_rows(found):
            number = next(numbers)
            for user, part in zip(np.frombuffer(key, np.int64).tolist(), parts, strict=True):
                uses[user].append((number, float(part)))
    return list(uses)


def _maximal_rows(rows: list[Floats]) -> list[Floats]:
    """Returns the rows that no other row equals or exceeds in every place."""
    kept: list[Floats] = []
    for row in sorted(rows, key=lambda row: -float(row.sum())):
        if not any((row <= other * (1 + NEAR)).all() for other in kept):
            kept.append(row)
    return kept


Rooms = Mapping[int, float]
"""The part of each resource that the held flows leave free."""

Sharers = Mapping[int, Sequence[tuple[int, float]]]
"""For each resource, the raised flows on it with their parts."""


class Sharing:
    """The levels of the moving flows, out of a fixed set of flows.

    ``levels[flow]`` is 0.0 while a flow does not move.
    """

    def __init__(self, uses: Sequence[Uses], ceilings: Sequence[float]) -> None:
        self.levels = [0.0] * len(uses)
        self._uses = uses
        self._ceilings = ceilings
        self._bottleneck = [CEILING] * len(uses)
        resources = 1 + max((resource for use in uses for resource, _ in use), default=-1)
        self._users: list[dict[int, float]] = [{} for _ in range(resources)]
        self._owners: list[set[int]] = [set() for _ in range(resources)]
        self._busy = [0.0] * resources
        self._changes = 0

    def change(self, leaving: Collection[int], arriving: Iterable[int]) -> list[int]:
        """Stops and starts flows; returns those with new levels, including new flows."""
        users, owners, busy, levels = self._users, self._owners, self._busy, self.levels
        self._recompute_sums()
        touched: set[int] = set()
        for flow in leaving:
            self._stop_at(flow, CEILING)
            for resource, part in self._uses[flow]:
                del users[resource][flow]
                busy[resource] -= part * levels[flow]
                touched.update(owners[resource])
            levels[flow] = 0.0
        rising = list(touched.difference(leaving))
        found: list[int] = []
        for flow in arriving:
            if not self._uses[flow]:
                levels[flow] = self._ceilings[flow]
                found.append(flow)
                continue
            rising.append(flow)
            for resource, part in self._uses[flow]:
                users[resource][flow] = part
        return found + self._settle(rising) if rising else found

    def _recompute_sums(self) -> None:
        """Recomputes all sums from time to time: each change leaves a rounding error."""
        self._changes += 1
        if self._changes % ADDED_UP_EVERY == 0:
            levels = self.levels
            for resource, users in enumerate(self._users):
                self._busy[resource] = sum(part * levels[flow] for flow, part in users.items())

    def _stop_at(self, flow: int, which: int) -> None:
        """Records the bottleneck of a flow: a resource, or its ceiling."""
        before = self._bottleneck[flow]
        if before != which:
            if before != CEILING:
                self._owners[before].remove(flow)
            if which != CEILING:
                self._owners[which].add(flow)
            self._bottleneck[flow] = which

    def _settle(self, rising: list[int]) -> list[int]:
        """Raises flows, and those affected in turn; returns those with new levels.

        ``rooms`` is the part of each resource that the held flows leave free, ``sharers`` the
        raised flows on it.
        """
        levels, busy, owners, all_uses = self.levels, self._busy, self._owners, self._uses
        before: dict[int, float] = {}
        rooms: dict[int, float] = {}
        sharers: dict[int, list[tuple[int, float]]] = {}
        while rising:
            while rising:
                flow = rising.pop()
                if flow in before:
                    continue
                before[flow] = level = levels[flow]
                for which, part in all_uses[flow]:
                    if which in rooms:
                        rooms[which] += part * level
                        sharers[which].append((flow, part))
                    else:
                        rooms[which] = 1.0 - busy[which] + part * level
                        sharers[which] = [(flow, part)]
                        rising += owners[which]
            self._raise(before, rooms, sharers)
            rising = self._find_higher(before, sharers)
        for flow, level in before.items():
            change = levels[flow] - level
            if change:
                for which, part in all_uses[flow]:
                    busy[which] += part * change
        return [flow for flow, level in before.items() if levels[flow] != level]

    def _raise(self, rising: Iterable[int], rooms: Rooms, sharers: Sharers) -> None:
        """Raises flows together from 0 until each is stopped; the others are held."""
        levels = self.levels
        tops, where, stops = self._find_stops(rising, rooms, sharers)
        while tops:
            level, which = stops[0]
            if which < 0:
                heappop(stops)
                if ~which in tops:
                    levels[~which] = max(0.0, tops.pop(~which))
                    self._stop_at(~which, where[~which])
                continue
            room, slope = rooms[which], 0.0
            for flow, part in sharers[which]:
                if flow in tops:
                    slope += part
                else:
                    room -= part * levels[flow]
            if slope and room > level * slope * (1 + NEAR):
                heapreplace(stops, (room / slope, which))
                continue
            heappop(stops)
            level = max(0.0, room / slope) if slope else 0.0
            for flow, _ in sharers[which]:
                if flow in tops:
                    levels[flow] = level
                    self._stop_at(flow, which)
                    del tops[flow]

    def _find_stops(
        self, rising: Iterable[int], rooms: Rooms, sharers: Sharers
    ) -> tuple[dict[int, float], dict[int, int], list[tuple[float, int]]]:
        """Returns the level to which each flow could rise alone, its bottleneck there, and a heap
        of stops.

        A stop is a level at which a resource, or a flow's own top (``~flow``), ends a rise.
        It may move up: once some flows of a resource are stopped, the others reach its
        limit later. Resources that would stop no flow before its top are left out.
        """
        tops = {flow: self._ceilings[flow] for flow in rising}
        where = dict.fromkeys(tops, CEILING)
        shared = []
        for which, flows in sharers.items():
            if len(flows) > 1:
                shared.append((which, flows))
                continue
            flow, part = flows[0]
            if rooms[which] < part * tops[flow]:
                tops[flow], where[flow] = rooms[which] / part, which
        stops = [(level, ~flow) for flow, level in tops.items()]
        for which, flows in shared:
            slope = highest = 0.0
            for flow, part in flows:
                slope += part
                if tops[flow] > highest:
                    highest = tops[flow]
            if rooms[which] < slope * highest:
                stops.append((rooms[which] / slope, which))
        heapify(stops)
        return tops, where, stops

    def _find_higher(self, filled: Mapping[int, float], sharers: Sharers) -> list[int]:
        """Returns held flows that are higher than the owners of a bottleneck they use.

        The owners of one bottleneck were all stopped there together.
        """
        levels = self.levels
        found: list[int] = []
        for resource, raised in sharers.items():
            users, owners = self._users[resource], self._owners[resource]
            if owners and len(raised) < len(users):
                most = levels[next(iter(owners))] * (1 + NEAR)
                found += [flow for flow in users if levels[flow] > most and flow not in filled]
        return found


class FlowPaces:
    """The paces of flows for the event engine: the share of an item moved in a second.

    At level 1 an item takes ``seconds``; levels are shared fairly up to the ceilings.
    """

    def __init__(
        self, uses: Sequence[Uses], ceilings: Sequence[float], seconds: Sequence[float]
    ) -> None:
        self._sharing = Sharing(uses, ceilings)
        self._seconds = seconds

    def change(
        self, leaving: Collection[int], arriving: Collection[int], now: float
    ) -> Iterator[tuple[int, float]]:
        """Stops and starts flows; returns the flows whose paces change, with their new paces."""
        levels, seconds = self._sharing.levels, self._seconds
        found = self._sharing.change(leaving, arriving)
        return ((flow, levels[flow] / seconds[flow]) for flow in found)
