"""The time of a schedule that processes its payload in segments with overlapping steps.

Phase j of segment s waits for phase j-1 of segment s and for phase j of segment s-1. A phase first
waits for its messages (latency) and then occupies resources, which phases in flight share;
``events.engine`` finds when each ends. All groups of a step behave alike, so a phase is one fluid
flow over all its resources: its speed is the share of its own fastest pace, and speeds are max-min
fair. Several pipelines of segments may run concurrently; they are independent, but share resources.

Conservative in two ways: the busiest ports of two phases are assumed to be the same ports, and so
are the two directions of a link. With one segment the price equals that of barriers, exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from math import inf

from synth.events.engine import NEAR, Course, Engine

_SLACK = 1e-9
"""The share by which a predicted end must exceed a limit: more than rounding can add."""


@dataclass(frozen=True, eq=False)
class Slopes:
    """The fraction of each resource that a phase occupies at full speed.

    Made by ``_slopes``, one for all phases of the same parts, and compared by identity, so that
    known shares are found quickly.
    """

    parts: tuple[tuple[str, float], ...]

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(dict(self.parts))


@lru_cache(maxsize=2**14)
def _slopes(parts: tuple[tuple[str, float], ...]) -> Slopes:
    return Slopes(parts)


@dataclass(frozen=True)
class PhaseWork:
    """A phase of one segment: seconds it waits, then seconds it occupies each resource alone."""

    latency_seconds: float
    busy: Mapping[str, float]

    def __hash__(self) -> int:
        # The generated hash would fail: a mapping is not hashable.
        return hash((self.latency_seconds, *self.busy.items()))

    @cached_property
    def alone_seconds(self) -> float:
        """Seconds it takes when nothing else is in flight."""
        return self.latency_seconds + self.transfer_seconds

    @cached_property
    def transfer_seconds(self) -> float:
        return max(self.busy.values(), default=0.0)

    @cached_property
    def slopes(self) -> Slopes:
        """The fraction of each resource that it occupies at full speed."""
        most, parts = self.transfer_seconds, list[tuple[str, float]]()
        for name, seconds in self.busy.items():
            if seconds:
                parts.append((name, seconds / most))
        return _slopes(tuple(parts))


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
    """When a phase of a segment began to wait for its messages, and when it ended."""

    segment: int
    phase: int
    begin_seconds: float
    end_seconds: float
    lane: int = 0


def simulate_lanes(lanes: Sequence[Lane]) -> tuple[PhaseSpan, ...]:
    """Simulates the phases of all segments of all lanes; returns spans in the order they end.

    The work grows with the segments times the phases. Phases are numbered from 0 in each lane.
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
    """Returns when the last segment of all lanes ends; infinity if the end must exceed the limit.

    The work of the busiest resource plus its idle time so far bounds the end from below; so
    does each phase: its remaining segments, one after another, and the phases after it. The
    result equals the end of the last span of ``simulate_lanes``, to the bit.
    """
    latest = limit_seconds * (1 + _SLACK)
    carried = _busy_seconds(lanes)
    busiest = max(carried, key=lambda name: carried[name], default="")
    idles = latest - carried.get(busiest, 0.0) - _seconds_after_all(lanes, busiest)
    return inf if idles < 0 else _end_seconds(lanes, latest, busiest, idles)


def _busy_seconds(lanes: Sequence[Lane]) -> dict[str, float]:
    """Returns the total seconds that each resource is busy."""
    found: dict[str, float] = {}
    for lane in lanes:
        for phase in lane.phases:
            for name, seconds in phase.busy.items():
                found[name] = found.get(name, 0.0) + lane.segments * seconds
    return found


def _seconds_after_all(lanes: Sequence[Lane], name: str) -> float:
    """Returns the least duration of the phases that follow a lane's last use of a resource."""
    found = []
    for lane in lanes:
        uses = [j for j, phase in enumerate(lane.phases) if phase.busy.get(name)]
        found += [_seconds_after(lane)[uses[-1]]] if uses else []
    return min(found, default=0.0)


def _seconds_after(lane: Lane) -> list[float]:
    """Returns for each phase the seconds of those after it, alone."""
    back = accumulate((phase.alone_seconds for phase in reversed(lane.phases)), initial=0.0)
    return list(back)[-2::-1]


def makespan_seconds(phases: Sequence[PhaseWork], segments: int) -> float:
    """Returns when the last of the segments of one lane ends."""
    return makespan_within([Lane(tuple(phases), segments)])


def _end_seconds(  # noqa: C901 - calls cost half
    lanes: Sequence[Lane], latest: float, busiest: str, idles: float
) -> float:
    """Returns when all lanes end, as an ``Engine`` would; infinity once the end exceeds ``latest``.

    Also returns infinity once the ``busiest`` resource, while it has work left, has idled for more
    than ``idles`` seconds.

    Planning needs thousands of such ends, each of a few tracks. So a scan over all tracks, which is
    faster than a queue, finds the next event, and no spans are kept. Within a moment tracks come in
    another order than in the engine, which changes no time.
    """
    shares = PhasePaces(lanes)
    course = shares.course(lanes)
    items, waits, moved = course.items, course.waits, course.moved
    before = [earlier[0] if earlier else -1 for earlier in course.before]
    uses = [phase.busy.get(busiest, 0.0) for lane in lanes for phase in lane.phases]
    known: dict[int, tuple[list[tuple[int, float]], float]] = {}
    alone = [phase.alone_seconds for lane in lanes for phase in lane.phases]
    after = [seconds for lane in lanes for seconds in _seconds_after(lane)]
    tracks = len(items)
    done = [*[0.0] * tracks, inf]  # index -1, the predecessor of first phases, is always done
    idle = [*[True] * tracks, False]
    ends, left, paces, since = [inf] * tracks, [0.0] * tracks, [0.0] * tracks, [0.0] * tracks
    ends.append(inf)  # so that min(ends) is inf when nothing is left
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

    Max-min fair: a phase at speed x, a share of its own fastest pace, occupies x times its part
    of each resource; no resource is occupied by more than 1.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._phases = [phase for lane in lanes for phase in lane.phases]
        self._slopes = list[Slopes]()
        for phase in self._phases:
            self._slopes.append(phase.slopes)
        self._seconds = [phase.transfer_seconds for phase in self._phases]
        self._known: dict[int, list[tuple[int, float]]] = {}
        self._moving = 0

    def course(self, lanes: Sequence[Lane]) -> Course:
        """Returns a track for every phase of every lane, each after the phase before it.

        At most one segment is in each phase at a time, earlier segments in later phases.
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
        """Returns the share of its transfer that each moving phase completes in a second."""
        for track in leaving:
            self._moving ^= 1 << track
        for track in arriving:
            self._moving ^= 1 << track
        return self.of(self._moving)

    def of(self, together: int) -> list[tuple[int, float]]:
        """Returns the paces of phases that move together: those whose bits are set."""
        if together not in self._known:
            self._known[together] = self._compute(together)
        return self._known[together]

    def _compute(self, together: int) -> list[tuple[int, float]]:
        moving = []
        while together:
            lowest = together & -together
            moving.append(lowest.bit_length() - 1)
            together ^= lowest
        speeds = _fair_speeds(tuple([self._slopes[track] for track in moving]))
        return [(moving[i], speed / self._seconds[moving[i]]) for i, speed in speeds]


@lru_cache(maxsize=2**15)
def _fair_speeds(moving: tuple[Slopes, ...]) -> list[tuple[int, float]]:
    """Returns the speeds of phases that move together, by their places.

    All speeds rise equally until a resource is full; then those of the remaining phases rise, and
    so on.
    """
    speeds: list[tuple[int, float]] = []
    rising = [*enumerate(moving)]
    level = 0.0
    idle: dict[str, float] = {}
    while rising:
        slopes: dict[str, float] = {}
        for _, phase_slopes in rising:
            for name, part in phase_slopes.parts:
                slopes[name] = slopes.get(name, 0.0) + part
        rooms = {name: idle.get(name, 1.0) / slope for name, slope in slopes.items()}
        rise = min(rooms.values())
        level += rise
        nearly = rise * (1 + NEAR)
        full = {name for name, room in rooms.items() if room <= nearly}
        still = []
        for phase, phase_slopes in rising:
            if full.isdisjoint(phase_slopes.names):
                still.append((phase, phase_slopes))
            else:
                speeds.append((phase, level))
        if still:
            for name, slope in slopes.items():
                left = idle.get(name, 1.0) - rise * slope
                idle[name] = left if left > 0.0 else 0.0
        rising = still
    return speeds
