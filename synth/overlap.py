"""What a schedule costs when its payload is cut into segments whose steps overlap.

Phase j of segment s waits for phase j-1 of segment s and for phase j of segment s-1. A phase first
waits for its messages (latency) and then keeps each resource busy; phases in flight share the
resources. A phase is one fluid flow over all its resources, as all groups of a step look alike:
its speed is the share of its own fastest pace, and speeds are max-min fair.

Conservative in two ways: the busiest ports of two phases are taken to be the same ports, and so
are the two directions of a link. With one segment the price is that of barriers, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_NEAR = 1e-12
"""Events closer together than this share of a phase are one."""


@dataclass(frozen=True)
class Work:
    """A phase of one segment: seconds it waits, then seconds it keeps each resource busy alone."""

    latency_seconds: float
    busy: Mapping[str, float]

    def __hash__(self) -> int:
        return hash((self.latency_seconds, *self.busy.items()))

    @property
    def alone_seconds(self) -> float:
        """How long it takes when nothing else is in flight."""
        return self.latency_seconds + self.transfer_seconds

    @property
    def transfer_seconds(self) -> float:
        return max(self.busy.values(), default=0.0)


@dataclass(frozen=True)
class Span:
    """When a phase of a segment began to wait for its messages, and when it was done."""

    segment: int
    phase: int
    begin_seconds: float
    end_seconds: float


def overlapped(phases: Sequence[Work], segments: int) -> tuple[Span, ...]:
    """Follow the phases of so many equal segments, event by event; in the order in which they end.

    The work grows with segments times phases. Raises ValueError for less than one segment.
    """
    if segments < 1:
        raise ValueError(f"{segments} segments")
    return tuple(_Pipeline(tuple(phases), segments).spans())


def makespan_seconds(phases: Sequence[Work], segments: int) -> float:
    """When the last of the segments is done."""
    return max((span.end_seconds for span in overlapped(phases, segments)), default=0.0)


@dataclass
class _Flight:
    """A phase under way: until when it waits, and the share of its transfer that is left."""

    segment: int
    begin_seconds: float
    waits_until: float
    left: float


class _Pipeline:
    """At most one segment is in each phase at a time, the earlier segments in the later phases."""

    def __init__(self, phases: tuple[Work, ...], segments: int) -> None:
        self._phases = phases
        self._transfers = [phase.transfer_seconds for phase in phases]
        self._segments = segments
        self._flights: dict[int, _Flight] = {}
        self._done = [0] * len(phases)
        self._now = 0.0
        self._speeds: dict[tuple[int, ...], dict[int, float]] = {}

    def spans(self) -> Iterator[Span]:
        if not self._phases:
            return
        self._start(0)
        while self._flights:
            self._advance()
            for phase in sorted(self._flights, reverse=True):
                flight = self._flights[phase]
                if flight.left <= 0.0 and flight.waits_until <= self._now:
                    del self._flights[phase]
                    self._done[phase] += 1
                    yield Span(flight.segment, phase, flight.begin_seconds, self._now)
            for phase in range(len(self._phases)):
                self._start(phase)

    def _start(self, phase: int) -> None:
        """Let the next segment into a phase, if it has left the one before and this one is free."""
        segment = self._done[phase]
        ready = segment < (self._done[phase - 1] if phase else self._segments)
        if ready and phase not in self._flights:
            latency = self._phases[phase].latency_seconds
            left = 1.0 if self._transfers[phase] else 0.0
            self._flights[phase] = _Flight(segment, self._now, self._now + latency, left)

    def _share(self, moving: tuple[int, ...]) -> dict[int, float]:
        """The speeds of the phases that move: fair, and the same whenever the same phases do."""
        if moving not in self._speeds:
            self._speeds[moving] = fair_speeds({phase: self._phases[phase] for phase in moving})
        return self._speeds[moving]

    def _advance(self) -> None:
        """Go on to the next moment at which a phase ends or has waited long enough."""
        now, flights = self._now, self._flights
        moving = tuple(p for p, f in flights.items() if f.waits_until <= now and f.left > 0.0)
        speeds = self._share(moving)
        ends = {p: flights[p].left * self._transfers[p] / speeds[p] for p in moving}
        waits = [f.waits_until - now for p, f in flights.items() if f.waits_until > now]
        step = min([*ends.values(), *waits], default=0.0)
        for phase in moving:
            flight = flights[phase]
            if ends[phase] <= step * (1 + _NEAR):
                flight.left = 0.0
            else:
                flight.left -= step * speeds[phase] / self._transfers[phase]
        then = now + step
        for flight in flights.values():
            if 0.0 < flight.waits_until - then <= step * _NEAR:
                flight.waits_until = then
        self._now = then


def fair_speeds(works: Mapping[int, Work]) -> dict[int, float]:
    """Max-min fair speeds, each a share of the phase's own fastest pace.

    A phase at speed x keeps a resource busy for x times its part there; no resource is busier
    than all the time.
    """
    speeds: dict[int, float] = {}
    rising = dict(works)
    level = 0.0
    used: dict[str, float] = {}
    while rising:
        slopes: dict[str, float] = {}
        for work in rising.values():
            for name, seconds in work.busy.items():
                slopes[name] = slopes.get(name, 0.0) + seconds / work.transfer_seconds
        room = {
            name: (1.0 - used.get(name, 0.0)) / slope for name, slope in slopes.items() if slope
        }
        rise = min(room.values())
        level += rise
        for name, slope in slopes.items():
            used[name] = used.get(name, 0.0) + rise * slope
        full = {name for name, left in room.items() if left <= rise * (1 + _NEAR)}
        for phase, work in list(rising.items()):
            if any(work.busy.get(name) for name in full):
                speeds[phase] = level
                del rising[phase]
    return speeds
