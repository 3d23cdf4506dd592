"""Discrete events: tracks process items in turn, wait for each other and share resources.

A *track* does one thing at a time: a phase of a pipeline, a group of devices, a task of a step. Its
item s begins when its item s - 1 and item s of every track in its ``before`` have ended. An item
first waits (a message's latency, or all the seconds of a task of known length) and then, if its
track moves anything, is moved at a pace set by the caller. Whenever a track starts or stops moving,
``Shares`` returns the paces that change: fair shares of links, a queue that serves one at a time
(others have pace 0), or a pace of the track's own.

A given order of tasks on a resource is expressed by predecessors; then there is no queue, and every
end is a longest path. Results are deterministic, bit for bit: moments that differ only by rounding
are merged, and within a moment tracks come in the order in which their events were scheduled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol

NEAR = 1e-12
"""Moments closer together than this share of the elapsed time are merged."""


class Shares(Protocol):
    """The caller's model of how fast tracks move that share resources."""

    def change(
        self, leaving: Collection[int], arriving: Collection[int], now: float
    ) -> Iterable[tuple[int, float]]:
        """Stops and starts tracks; returns the tracks whose paces change, with their new paces.

        A pace is the share of an item that is moved in a second. A track may leave and arrive in
        one call, with its next item. The result includes every arriving track.
        """


@dataclass(frozen=True)
class Course:
    """The work, one entry per track: the number of items, the seconds that each item waits, whether
    it is moved afterwards, and the tracks that come before.
    """

    items: Sequence[int]
    waits: Sequence[float]
    moved: Sequence[bool]
    before: Sequence[Sequence[int]]


class Engine:
    """The items in progress, and the moments of the next events.

    For each track, ``done`` is the number of ended items; ``begins`` and ``ends`` are the moments
    at which items began to wait and ended, so far.
    """

    def __init__(self, course: Course, shares: Shares) -> None:
        tracks = len(course.items)
        self.course = course
        self._shares = shares
        self.done = [0] * tracks
        self.begins: list[list[float]] = [[] for _ in range(tracks)]
        self.ends: list[list[float]] = [[] for _ in range(tracks)]
        self._met = [0] * tracks
        self._expected: dict[int, list[int]] = {}
        self._moving = [False] * tracks
        self._left = [0.0] * tracks
        self._pace = [0.0] * tracks
        self._since = [0.0] * tracks
        self._queue: list[tuple[float, int, int]] = []
        self._ticket = [0] * tracks
        self._tickets = 0

    def moments(self) -> Iterator[tuple[float, list[int]]]:
        """Yields every moment at which items end, with the tracks that end one, in order.

        Raises ValueError if items remain that can never end, because they wait for each
        other.
        """
        done, ends, expected = self.done, self.ends, self._expected
        self._share([], self._begin(range(len(done)), 0.0), 0.0)
        while self._pending():
            now, waited, leaving, arriving = self._next()
            ended = waited + leaving
            freed: list[int] = []
            for track in ended:
                done[track] += 1
                ends[track].append(now)
                freed.append(track)
                freed += expected.pop(track, ())
            if freed:
                arriving += self._begin(freed, now)
            if leaving or arriving:
                self._share(leaving, arriving, now)
            if ended:
                yield now, ended
        if any(n < of for n, of in zip(done, self.course.items, strict=True)):
            raise ValueError("some items can never end")

    def _begin(self, tracks: Iterable[int], now: float) -> list[int]:
        """Starts ready items on idle tracks; returns the tracks that move without a wait."""
        done, course = self.done, self.course
        moving = []
        for track in tracks:
            item = done[track]
            if item == course.items[track]:
                continue
            met, before = self._met[track], course.before[track]
            while met < len(before) and done[before[met]] > item:
                met += 1
            if met < len(before):
                self._met[track] = met
                self._expected.setdefault(before[met], []).append(track)
                continue
            # The next item checks all predecessors again, from the first.
            self._met[track] = 0
            self.begins[track].append(now)
            wait = course.waits[track]
            if wait or not course.moved[track]:
                self._schedule(now + wait, track)
            else:
                moving.append(track)
        return moving

    def _schedule(self, moment: float, track: int) -> None:
        """Schedules the next event of a track, replacing its earlier one."""
        self._tickets += 1
        self._ticket[track] = self._tickets
        heappush(self._queue, (moment, self._tickets, track))

    def _pending(self) -> bool:
        """Drops replaced events; returns whether any event is left."""
        queue, tickets = self._queue, self._ticket
        # Replaced events stay in the heap: a ticket that is no longer its track's is stale.
        while queue and tickets[queue[0][2]] != queue[0][1]:
            heappop(queue)
        return bool(queue)

    def _next(self) -> tuple[float, list[int], list[int], list[int]]:
        """Returns the next moment and tracks that end waiting, end moving, or start moving."""
        queue, tickets, moving, moved = (
            self._queue,
            self._ticket,
            self._moving,
            self.course.moved,
        )
        waited: list[int] = []
        leaving: list[int] = []
        arriving: list[int] = []
        now = queue[0][0]
        until = now * (1 + NEAR)
        while queue and queue[0][0] <= until:
            _, ticket, track = heappop(queue)
            if tickets[track] == ticket:
                tickets[track] = 0
                if moving[track]:
                    leaving.append(track)
                elif moved[track]:
                    arriving.append(track)
                else:
                    waited.append(track)
        return now, waited, leaving, arriving

    def _share(self, leaving: list[int], arriving: list[int], now: float) -> None:
        """Advances tracks whose pace changes to ``now``, and schedules their ends."""
        left, paces, since, moving = self._left, self._pace, self._since, self._moving
        for track in leaving:
            moving[track] = False
        for track in arriving:
            moving[track] = True
            left[track], paces[track], since[track] = 1.0, 0.0, now
        for track, pace in self._shares.change(leaving, arriving, now):
            before = paces[track]
            if pace == before:
                continue
            rest = left[track] - before * (now - since[track])
            left[track] = rest = rest if rest > 0.0 else 0.0
            paces[track], since[track] = pace, now
            if pace:
                self._schedule(now + rest / pace, track)
            else:
                self._ticket[track] = 0
