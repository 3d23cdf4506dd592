"""What a schedule costs when its payload is cut into segments whose steps overlap.

Phase j of segment s waits for phase j-1 of segment s and for phase j of segment s-1. A phase first
waits for its messages (latency) and then keeps each resource busy; phases in flight share the
resources, and ``events`` says when each ends. A phase is one fluid flow over all its resources, as
all groups of a step look alike: its speed is the share of its own fastest pace, and speeds are
max-min fair. Several pipelines of segments may run side by side; they wait for nothing of each
other, but share the resources.

Conservative in two ways: the busiest ports of two phases are taken to be the same ports, and so
are the two directions of a link. With one segment the price is that of barriers, exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from synth.events.engine import NEAR, Course, Engine

_SLACK = 1e-9
"""A foretold end is lowered by this share: more than rounding can raise it."""


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
class Lane:
    """One pipeline: the phases of a segment, and how many equal segments go through them."""

    phases: tuple[Work, ...]
    segments: int = 1

    def __post_init__(self) -> None:
        if self.segments < 1:
            raise ValueError(f"{self.segments} segments")


@dataclass(frozen=True)
class Span:
    """When a phase of a segment began to wait for its messages, and when it was done."""

    segment: int
    phase: int
    begin_seconds: float
    end_seconds: float
    lane: int = 0


def side_by_side(lanes: Sequence[Lane]) -> tuple[Span, ...]:
    """Follow the phases of all segments of all lanes, event by event; in the order they end.

    The work grows with the segments times the phases. Phases count from 0 in each lane.
    """
    paces = Paces(lanes)
    engine = Engine(paces.course(lanes), paces)
    places = [(i, j) for i, lane in enumerate(lanes) for j in range(len(lane.phases))]
    spans = []
    for now, ended in engine.moments():
        for track in sorted(ended, reverse=True):
            lane, phase = places[track]
            segment = engine.done[track] - 1
            spans.append(Span(segment, phase, engine.begins[track][segment], now, lane))
    return tuple(spans)


def together_seconds(lanes: Sequence[Lane], limit_seconds: float = inf) -> float:
    """When the last segment of all lanes is done; infinity as soon as that must exceed the limit.

    Each resource gives a bound on the way: its work in all and its idle time so far.
    """
    paces = Paces(lanes)
    if paces.least_seconds > limit_seconds:
        return inf
    end = 0.0
    for now, _ in Engine(paces.course(lanes), paces).moments():
        end = now
        if paces.least_seconds > limit_seconds:
            return inf
    return end


def overlapped(phases: Sequence[Work], segments: int) -> tuple[Span, ...]:
    """The spans of one lane, as ``side_by_side`` has them. ValueError for less than one segment."""
    return side_by_side([Lane(tuple(phases), segments)])


def makespan_seconds(phases: Sequence[Work], segments: int) -> float:
    """When the last of the segments of one lane is done."""
    return together_seconds([Lane(tuple(phases), segments)])


class Paces:
    """The paces of the phases in flight, and how long each resource has been idle.

    Max-min fair: a phase at speed x, a share of its own fastest pace, keeps a resource busy for x
    times its part there; no resource is busier than all the time.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._phases = [phase for lane in lanes for phase in lane.phases]
        self._transfers = [phase.transfer_seconds for phase in self._phases]
        self._slopes = [_slopes(phase) for phase in self._phases]
        self._known: dict[frozenset[int], tuple[list[tuple[int, float]], dict[str, float]]] = {}
        self._moving: frozenset[int] = frozenset()
        self._since = 0.0
        self._idle: Mapping[str, float] = {}
        self._ends: dict[str, float] = {}
        for lane in lanes:
            for phase in lane.phases:
                for name, seconds in phase.busy.items():
                    self._ends[name] = self._ends.get(name, 0.0) + lane.segments * seconds

    def course(self, lanes: Sequence[Lane]) -> Course:
        """Every phase of every lane a track, which comes after the phase before it.

        So at most one segment is in each phase at a time, the earlier segments in the later phases.
        """
        before: list[tuple[int, ...]] = []
        for lane in lanes:
            first = len(before)
            before += [(first + j - 1,) if j else () for j in range(len(lane.phases))]
        return Course(
            [lane.segments for lane in lanes for _ in lane.phases],
            [phase.latency_seconds for phase in self._phases],
            [transfer > 0 for transfer in self._transfers],
            before,
        )

    @property
    def least_seconds(self) -> float:
        """No end before this: for each resource what it does in all and how long it was idle."""
        return max(self._ends.values(), default=0.0) * (1 - _SLACK)

    def change(
        self, leaving: Collection[int], arriving: Collection[int], now: float
    ) -> list[tuple[int, float]]:
        """The share of its transfer that each moving phase does in a second."""
        for name in self._ends:
            self._ends[name] += (now - self._since) * self._idle.get(name, 1.0)
        self._since = now
        self._moving = moving = self._moving.difference(leaving).union(arriving)
        if moving not in self._known:
            speeds, idle = _fair({phase: self._slopes[phase] for phase in sorted(moving)})
            paces = [(phase, speed / self._transfers[phase]) for phase, speed in speeds.items()]
            self._known[moving] = paces, idle
        paces, self._idle = self._known[moving]
        return paces


_Slopes = tuple[tuple[str, float], ...]
"""The part of the time for which a phase at full speed keeps each resource busy."""
_Pace = tuple[dict[int, float], dict[str, float]]
"""The speeds of phases, and the part of the time for which each resource is idle then."""


def _slopes(work: Work) -> _Slopes:
    most = work.transfer_seconds
    return tuple((name, seconds / most) for name, seconds in work.busy.items() if seconds)


def _fair(rising: dict[int, _Slopes]) -> _Pace:
    """Raise all speeds alike until a resource is full; then those of the others, and so on."""
    speeds: dict[int, float] = {}
    level = 0.0
    idle: dict[str, float] = {}
    while rising:
        slopes: dict[str, float] = {}
        for parts in rising.values():
            for name, part in parts:
                slopes[name] = slopes.get(name, 0.0) + part
        rooms = {name: idle.get(name, 1.0) / slope for name, slope in slopes.items()}
        rise = min(rooms.values())
        level += rise
        for name, slope in slopes.items():
            idle[name] = max(0.0, idle.get(name, 1.0) - rise * slope)
        full = {name for name, left in rooms.items() if left <= rise * (1 + NEAR)}
        still = {}
        for phase, parts in rising.items():
            if any(name in full for name, _ in parts):
                speeds[phase] = level
            else:
                still[phase] = parts
        rising = still
    return speeds, idle
