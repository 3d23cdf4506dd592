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
from functools import cached_property, lru_cache
from itertools import accumulate
from math import inf

from synth.events.engine import NEAR, Course, Engine

_SLACK = 1e-9
"""A foretold end is above a limit if it is so by this share: more than rounding can raise it."""


@dataclass(frozen=True, eq=False)
class Slopes:
    """For each resource the part of the time for which a phase at full speed keeps it busy.

    Made by ``_slopes``, one for all phases of the same parts, and compared by identity: so shares
    known of some phases are found quickly.
    """

    parts: tuple[tuple[str, float], ...]

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.parts)


@lru_cache(maxsize=2**14)
def _slopes(parts: tuple[tuple[str, float], ...]) -> Slopes:
    return Slopes(parts)


@dataclass(frozen=True)
class PhaseWork:
    """A phase of one segment: seconds it waits, then seconds it keeps each resource busy alone."""

    latency_seconds: float
    busy: Mapping[str, float]

    def __hash__(self) -> int:
        return hash((self.latency_seconds, *self.busy.items()))

    @cached_property
    def alone_seconds(self) -> float:
        """How long it takes when nothing else is in flight."""
        return self.latency_seconds + self.transfer_seconds

    @cached_property
    def transfer_seconds(self) -> float:
        return max(self.busy.values(), default=0.0)

    @cached_property
    def slopes(self) -> Slopes:
        """The part of the time for which it keeps each resource busy at full speed."""
        most = self.transfer_seconds
        return _slopes(tuple((name, each / most) for name, each in self.busy.items() if each))


@dataclass(frozen=True)
class Lane:
    """One pipeline: the phases of a segment, and how many equal segments go through them."""

    phases: tuple[PhaseWork, ...]
    segments: int = 1

    def __post_init__(self) -> None:
        if self.segments < 1:
            raise ValueError(f"{self.segments} segments")


@dataclass(frozen=True)
class PhaseSpan:
    """When a phase of a segment began to wait for its messages, and when it was done."""

    segment: int
    phase: int
    begin_seconds: float
    end_seconds: float
    lane: int = 0


def simulate_lanes(lanes: Sequence[Lane]) -> tuple[PhaseSpan, ...]:
    """Follow the phases of all segments of all lanes, event by event; in the order they end.

    The work grows with the segments times the phases. Phases count from 0 in each lane.
    """
    paces = PhasePaces(lanes)
    engine = Engine(paces.course(lanes), paces)
    places = [(i, j) for i, lane in enumerate(lanes) for j in range(len(lane.phases))]
    spans = []
    for now, ended in engine.moments():
        for track in sorted(ended, reverse=True):
            lane, phase = places[track]
            segment = engine.done[track] - 1
            spans.append(PhaseSpan(segment, phase, engine.begins[track][segment], now, lane))
    return tuple(spans)


def makespan_within(lanes: Sequence[Lane], limit_seconds: float = inf) -> float:
    """When the last segment of all lanes is done; infinity as soon as that must exceed the limit.

    What a resource carries in all is a bound from the first, and the more it has idled, the later
    all of that is done. On the way, so is each phase: those of its segments that are left, one
    after the other, and the phases after it. The end is, to the bit, that of the last span of
    ``simulate_lanes``.
    """
    latest = limit_seconds * (1 + _SLACK)
    carried = _busy_seconds(lanes)
    busiest = max(carried, key=lambda name: carried[name], default="")
    idles = latest - carried.get(busiest, 0.0) - _seconds_after_all(lanes, busiest)
    return inf if idles < 0 else _end_seconds(lanes, latest, busiest, idles)


def _busy_seconds(lanes: Sequence[Lane]) -> dict[str, float]:
    """For how long each resource is busy in all."""
    found: dict[str, float] = {}
    for lane in lanes:
        for phase in lane.phases:
            for name, seconds in phase.busy.items():
                found[name] = found.get(name, 0.0) + lane.segments * seconds
    return found


def _seconds_after_all(lanes: Sequence[Lane], name: str) -> float:
    """How long the phases last that come after the last use of a resource, whichever that is."""
    found = []
    for lane in lanes:
        uses = [j for j, phase in enumerate(lane.phases) if phase.busy.get(name)]
        found += [_seconds_after(lane)[uses[-1]]] if uses else []
    return min(found, default=0.0)


def _seconds_after(lane: Lane) -> list[float]:
    """For each phase, how long those after it take alone."""
    back = accumulate((phase.alone_seconds for phase in reversed(lane.phases)), initial=0.0)
    return list(back)[-2::-1]


def makespan_seconds(phases: Sequence[PhaseWork], segments: int) -> float:
    """When the last of the segments of one lane is done."""
    return makespan_within([Lane(tuple(phases), segments)])


def _end_seconds(  # noqa: C901 - calls cost half
    lanes: Sequence[Lane], latest: float, busiest: str, idles: float
) -> float:
    """When all lanes are done, as an ``Engine`` says; infinity as soon as that must be too late.

    That is also when the ``busiest`` resource, of which more is to come, has idled for more seconds
    than it may.
    Planning asks for thousands of ends, each of a few tracks. So all tracks are looked through for
    the next event, which is faster than a queue of events, and no spans are kept. Within a moment
    tracks come in another order than there, which changes no time.
    """
    shares = PhasePaces(lanes)
    course = shares.course(lanes)
    items, waits, moved = course.items, course.waits, course.moved
    before = [each[0] if each else -1 for each in course.before]
    uses = [phase.busy.get(busiest, 0.0) for lane in lanes for phase in lane.phases]
    known: dict[int, tuple[list[tuple[int, float]], float]] = {}
    alone = [phase.alone_seconds for lane in lanes for phase in lane.phases]
    after = [seconds for lane in lanes for seconds in _seconds_after(lane)]
    tracks = len(items)
    done = [*[0.0] * tracks, inf]  # the last for what comes after nothing
    idle = [*[True] * tracks, False]
    ends, left, paces, since = [inf] * tracks, [0.0] * tracks, [0.0] * tracks, [0.0] * tracks
    ends.append(inf)  # what never ends
    moving, now, end = 0, 0.0, 0.0
    free: list[int] = [*range(tracks)]
    while True:
        for track in free:
            if idle[track] and done[track] < items[track] and done[before[track]] > done[track]:
                idle[track] = False
                if waits[track] or not moved[track]:
                    ends[track] = now + waits[track]
                else:
                    moving |= 1 << track
                    left[track], paces[track], since[track] = 1.0, 0.0, now
        if moving not in known:
            fresh = shares.of(moving)
            together = sum(pace * uses[track] for track, pace in fresh)
            known[moving] = fresh, max(0.0, 1.0 - together)
        shared, idling = known[moving]
        for track, pace in shared:
            slower = paces[track]
            if pace != slower:
                rest = left[track] - slower * (now - since[track])
                left[track] = rest = rest if rest > 0.0 else 0.0
                paces[track], since[track] = pace, now
                ends[track] = now + rest / pace
        was, now = now, min(ends)
        if now == inf:
            return end
        idles -= idling * (now - was)
        if idles < 0 and any(uses[track] and done[track] < items[track] for track in range(tracks)):
            return inf
        until, free = now * (1 + NEAR), []
        for track, moment in enumerate(ends):
            if moment <= until:
                ends[track] = inf
                if moved[track] and not moving >> track & 1:
                    moving |= 1 << track
                    left[track], paces[track], since[track] = 1.0, 0.0, now
                    continue
                moving &= ~(1 << track)
                idle[track], end = True, now
                done[track] += 1
                if now + (items[track] - done[track]) * alone[track] + after[track] > latest:
                    return inf
                free += (track, track + 1)


class PhasePaces:
    """The paces of the phases in flight.

    Max-min fair: a phase at speed x, a share of its own fastest pace, keeps a resource busy for x
    times its part there; no resource is busier than all the time.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._phases = [phase for lane in lanes for phase in lane.phases]
        self._slopes = [phase.slopes for phase in self._phases]
        self._seconds = [phase.transfer_seconds for phase in self._phases]
        self._known: dict[int, list[tuple[int, float]]] = {}
        self._moving = 0

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
            [phase.transfer_seconds > 0 for phase in self._phases],
            before,
        )

    def change(
        self, leaving: Collection[int], arriving: Collection[int], now: float
    ) -> list[tuple[int, float]]:
        """The share of its transfer that each moving phase does in a second."""
        for track in leaving:
            self._moving ^= 1 << track
        for track in arriving:
            self._moving ^= 1 << track
        return self.of(self._moving)

    def of(self, together: int) -> list[tuple[int, float]]:
        """The paces of phases that move together: those whose bits are set."""
        if together not in self._known:
            self._known[together] = self._shared(together)
        return self._known[together]

    def _shared(self, together: int) -> list[tuple[int, float]]:
        moving = []
        while together:
            lowest = together & -together
            moving.append(lowest.bit_length() - 1)
            together ^= lowest
        speeds = _fair_speeds(tuple([self._slopes[track] for track in moving]))
        return [(moving[i], speed / self._seconds[moving[i]]) for i, speed in speeds]


@lru_cache(maxsize=2**15)
def _fair_speeds(moving: tuple[Slopes, ...]) -> list[tuple[int, float]]:
    """The speeds of phases that move together, by their places.

    All speeds are raised alike until a resource is full; then those of the others, and so on.
    """
    speeds: list[tuple[int, float]] = []
    rising = [*enumerate(moving)]
    level = 0.0
    idle: dict[str, float] = {}
    while rising:
        slopes: dict[str, float] = {}
        for _, one in rising:
            for name, part in one.parts:
                slopes[name] = slopes.get(name, 0.0) + part
        rooms = {name: idle.get(name, 1.0) / slope for name, slope in slopes.items()}
        rise = min(rooms.values())
        level += rise
        nearly = rise * (1 + NEAR)
        full = {name for name, room in rooms.items() if room <= nearly}
        still = []
        for phase, one in rising:
            if full.isdisjoint(one.names):
                still.append((phase, one))
            else:
                speeds.append((phase, level))
        if still:
            for name, slope in slopes.items():
                left = idle.get(name, 1.0) - rise * slope
                idle[name] = left if left > 0.0 else 0.0
        rising = still
    return speeds
