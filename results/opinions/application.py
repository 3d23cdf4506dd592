"""A schedule on a system as one problem for the judge: plain numbers, ready for JSON.

A device goes on to its next phase as soon as all that it sends and gets in this one has arrived,
whatever the rest of its group does; a message needs both its ends to have come that far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hierarchies import Domain
from results.opinions.messages import NOBODY, expand
from results.opinions.wires import Wires
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.protocols import Protocol
from synth.collective.semantics.schedule import Exchange, Phase, Schedule, Transpose

Problem = dict[str, Any]
How = tuple[Algorithm | None, Protocol]
"""By which algorithm and protocol a phase is carried out; no algorithm for a transpose."""
CIRCLES = (Domain.RING, Domain.TORUS)
NO_ROUTE = -1


def problem(schedule: Schedule, hows: Sequence[How], wires: Wires, pieces: int) -> Problem:
    """All messages of all segments of a schedule, as ``phases_problem``."""
    return phases_problem(schedule.phases, hows, wires, pieces, schedule.segments)


def phases_problem(
    phases: Sequence[Phase], hows: Sequence[How], wires: Wires, pieces: int, segments: int = 1
) -> Problem:
    """All messages of all segments; the mark of a message is its phase.

    Chains and trees cut a segment of what they carry into so many ``pieces``. Raises
    CannotExpandError.
    """
    writer = _Writer(wires, len(phases))
    for _ in range(segments):
        writer.begin()
        for number, (phase, (algorithm, protocol)) in enumerate(zip(phases, hows, strict=True)):
            if isinstance(phase, Transpose):
                writer.transpose(number, phase)
            else:
                assert algorithm is not None
                writer.exchange(number, phase, algorithm, protocol, pieces)
    return {
        "links": wires.bytes_per_second,
        "routes": [[*ends, links] for ends, links in writer.routes],
        "messages": writer.messages,
    }


def at_once(problems: Sequence[Problem]) -> Problem:
    """Several problems on the same ``Wires`` that begin together; a message is marked by its own.

    ``links`` are those of the last, which knows all.
    """
    routes: list[Any] = []
    messages: list[Any] = []
    for mark, each in enumerate(problems):
        ways, first = len(routes), len(messages)
        routes += each["routes"]
        for route, size, seconds, after, behind, _ in each["messages"]:
            messages.append(
                [
                    route if route == NO_ROUTE else route + ways,
                    size,
                    seconds,
                    [first + other for other in after],
                    behind if behind == NOBODY else behind + first,
                    mark,
                ]
            )
    return {"links": problems[-1]["links"], "routes": routes, "messages": messages}


class _Writer:
    """Takes messages down; ``_gates`` say for each device what its next message waits for."""

    def __init__(self, wires: Wires, phases: int) -> None:
        self._wires = wires
        self._gates = [NOBODY] * wires.system.devices
        self._before: list[dict[int, int]] = [{} for _ in range(phases)]
        self._now: list[dict[int, int]] = [{} for _ in range(phases)]
        self._numbers: dict[tuple[tuple[int, int], tuple[int, ...]], int] = {}
        self.messages: list[list[Any]] = []

    @property
    def routes(self) -> list[tuple[tuple[int, int], tuple[int, ...]]]:
        return list(self._numbers)

    def begin(self) -> None:
        """A segment's phase waits for the same phase of the segment before."""
        self._gates = [NOBODY] * len(self._gates)
        self._before, self._now = self._now, [{} for _ in self._now]

    def transpose(self, mark: int, phase: Transpose) -> None:
        for device in phase.devices.tolist():
            after = self._ready(mark, device)
            route = self._route((device, device), (self._wires.memory(device),))
            self._pass(mark, device, [self._add(route, 2 * phase.size_bytes, 0.0, after, mark)])

    def exchange(
        self, mark: int, phase: Exchange, algorithm: Algorithm, protocol: Protocol, pieces: int
    ) -> None:
        for group in phase.groups:
            self._group(mark, phase, sorted(group.tolist()), (algorithm, protocol), pieces)

    def _group(
        self,
        mark: int,
        phase: Exchange,
        members: list[int],
        how: tuple[Algorithm, Protocol],
        pieces: int,
    ) -> None:
        """The messages of one group; the places of its members are those of the machine."""
        algorithm, protocol = how
        columns = zip(*(self._wires.digits(member) for member in members), strict=True)
        spread = [len({*column}) for column in columns]
        spans = [level for level, count in enumerate(spread) if count > 1]
        circles = any(self._wires.system.links[level].domain in CIRCLES for level in spans)
        counts = tuple(spread[level] for level in spans)
        told = expand(phase.collective, algorithm, counts, pieces, circles)
        each = phase.size_bytes / told.atoms / protocol.share
        ready = {member: self._ready(mark, member) for member in members}
        begun: list[list[int]] = []
        done: dict[int, list[int]] = {member: [] for member in members}
        for message in told.messages:
            ends = members[message.sender], members[message.receiver]
            after = {*ready[ends[0]], *ready[ends[1]]}
            after.update(*(begun[other] for other in message.after))
            size = (message.last - message.first) * each
            numbers = []
            for place, way in enumerate(self._wires.ways(*ends)):
                behind = NOBODY
                if message.behind != NOBODY:
                    earlier = begun[message.behind]
                    behind = earlier[min(place, len(earlier) - 1)]
                numbers.append(
                    self._add(
                        self._route(ends, way.links),
                        size * way.share,
                        self._wires.seconds(way, protocol),
                        sorted(after),
                        mark,
                        behind,
                    )
                )
            begun.append(numbers)
            for end in ends:
                done[end] += numbers
        for member in members:
            self._pass(mark, member, done[member])

    def _ready(self, phase: int, device: int) -> list[int]:
        gates = {self._gates[device], self._before[phase].get(device, NOBODY)}
        return sorted(gates - {NOBODY})

    def _pass(self, phase: int, device: int, numbers: list[int]) -> None:
        """A device is done with a phase when these have arrived."""
        gate = self._add(NO_ROUTE, 0.0, 0.0, numbers, phase)
        self._gates[device] = self._now[phase][device] = gate

    def _route(self, ends: tuple[int, int], links: tuple[int, ...]) -> int:
        return self._numbers.setdefault((ends, links), len(self._numbers))

    def _add(
        self,
        route: int,
        size_bytes: float,
        seconds: float,
        after: list[int],
        mark: int,
        behind: int = NOBODY,
    ) -> int:
        self.messages.append([route, size_bytes, seconds, after, behind, mark])
        return len(self.messages) - 1
