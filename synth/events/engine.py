"""Discrete events: tracks that carry items in turn, wait for each other and share what they need.

A *track* is whatever does one thing at a time: a phase of a pipeline, a group of devices, a task of
a step. Its item s begins when its item s - 1 has ended and, on every track that comes before it,
item s has too. An item first waits (a message's latency, or all the seconds of a task whose length
is known) and then, if its track moves anything, is moved at a pace that the caller says. Whenever
a track starts or stops to move, ``Shares`` says whose paces are new: fair shares of links, a queue
that serves one at a time (the others at pace 0), or a pace of one's own.

An order of tasks on a resource is written as who comes before whom; then there is no queue and an
end is the longest path to it. The same question gives the same answer, bit for bit: moments that
are equal but for roundings are one, and within a moment tracks come in the order in which their
events were scheduled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol

NEAR = 1e-12
"""Moments closer together than this share of the time gone are one."""


class Shares(Protocol):
    """How fast tracks move that move together: the caller's model of what they share."""

    def change(
        self, leaving: Collection[int], arriving: Collection[int], now: float
    ) -> Iterable[tuple[int, float]]:
        """Let tracks stop and others start; returns the tracks with new paces, and these.

        A pace is the share of an item that is moved in a second. A track may leave and arrive at
        once: its next item. The result has every track that arrives.
        """


@dataclass(frozen=True)
class Course:
    """What is to be done, one entry a track: how many items, the seconds each waits, whether it is
    moved then, and the tracks that come before.
    """

    items: Sequence[int]
    waits: Sequence[float]
    moved: Sequence[bool]
    before: Sequence[Sequence[int]]


class Engine:
    """The items under way, and the moments at which something happens next.

    ``done``, ``begins`` and ``ends`` are, for each track, how many items have ended, when items
    have begun to wait and when they have ended, so far.
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
        """Every moment at which items end, and the tracks that end one; all there are, in order.

        Raises ValueError where items are left that can never end, as they wait for each other.
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
        """Start what is ready on some idle tracks; returns those that move without a wait."""
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
            self._met[track] = 0
            self.begins[track].append(now)
            wait = course.waits[track]
            if wait or not course.moved[track]:
                self._schedule(now + wait, track)
            else:
                moving.append(track)
        return moving

    def _schedule(self, moment: float, track: int) -> None:
        """Schedule the next event of a track, in place of the one it had."""
        self._tickets += 1
        self._ticket[track] = self._tickets
        heappush(self._queue, (moment, self._tickets, track))

    def _pending(self) -> bool:
        """Whether any event is left, once those that were replaced are dropped."""
        queue, tickets = self._queue, self._ticket
        while queue and tickets[queue[0][2]] != queue[0][1]:
            heappop(queue)
        return bool(queue)

    def _next(self) -> tuple[float, list[int], list[int], list[int]]:
        """The next moment; tracks whose item ends after a wait, ends moving, or starts to move."""
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
        """Bring tracks whose pace is new up to now, and schedule when they will be done."""
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
