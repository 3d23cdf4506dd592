"""The work of an algorithm on every level, and its price by the size of the buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hierarchies import Domain, Link, MessageCurve, System
from hierarchies.calibration import ANY
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.protocols import Protocol, protocols
from synth.events.overlap import PhaseWork

MEMORY = "memory"
OUT, INTO = " out", " in"
"""Suffixes of a level's name where the two directions of its ports are separate resources."""

OneWay = tuple[str, float, float]
"""A level, the seconds its busiest port sends, and the seconds its busiest port receives."""


def busy_resources(
    loads: Iterable[tuple[str, float]], one_way: Sequence[OneWay]
) -> dict[str, float]:
    """Seconds each resource is busy: a level is one resource, or two where directions are separate.

    >>> busy_resources([("gpu", 2.0), ("memory", 1.0)], [("gpu", 2.0, 0.25)])
    {'gpu out': 2.0, 'gpu in': 0.25, 'memory': 1.0}
    """
    directions = {name: (out, into) for name, out, into in one_way}
    resources: dict[str, float] = {}
    for name, busy in loads:
        if name in directions:
            resources[name + OUT], resources[name + INTO] = directions[name]
        else:
            resources[name] = busy
    return resources


def busy_by_level(busy: Mapping[str, float]) -> dict[str, float]:
    """Merges resources by level: of two directions, the one that is busy for longer."""
    levels: dict[str, float] = {}
    for name, seconds in busy.items():
        level = name.removesuffix(OUT).removesuffix(INTO)
        levels[level] = max(levels.get(level, 0.0), seconds)
    return levels


def busy_by_direction(busy: Mapping[str, float]) -> dict[str, float]:
    """Splits resources that stand for both directions of a level, each busy for as long.

    >>> busy_by_direction({"gpu out": 2.0, "node": 1.0, "memory": 0.5})
    {'gpu out': 2.0, 'node out': 1.0, 'node in': 1.0, 'memory': 0.5}
    """
    directions: dict[str, float] = {}
    for name, seconds in busy.items():
        whole = name == MEMORY or name.endswith((OUT, INTO))
        for one in (name,) if whole else (name + OUT, name + INTO):
            directions[one] = directions.get(one, 0.0) + seconds
    return directions


@dataclass(frozen=True)
class PriceLine:
    """The price of one algorithm by one protocol, as a line in the size of the buffer.

    ``loads``: for each resource (level names and ``memory``), the seconds it is busy per byte of
    buffer. ``bytes_per_port``: the bytes its busiest port or link then carries, flags included.
    ``members`` is that of the ``AlgorithmWay``. ``one_way``: where the directions of a level's
    ports are separate, the seconds of each per byte. ``messages``: where a message's cost depends
    on its size, seconds of the latency with their curve; a message has ``message_share`` of the
    buffer. The price is then one line for each piece of the curves, and ``latency_seconds`` is that
    at factors of 1. ``beside``: lines of groups that run at once and wait differently; the group
    that waits longest counts at each size. ``resources``: the loads, with both directions where
    they are separate.
    """

    algorithm: Algorithm
    latency_seconds: float
    loads: tuple[tuple[str, float], ...]
    bytes_per_port: tuple[tuple[str, float], ...]
    protocol: Protocol = Protocol.SIMPLE
    members: tuple[int, ...] = ()
    one_way: tuple[OneWay, ...] = ()
    messages: tuple[tuple[float, MessageCurve], ...] = ()
    message_share: float = 1.0
    beside: tuple[PriceLine, ...] = ()
    seconds_per_byte: float = field(init=False)
    fixed_seconds: float = field(init=False)
    resources: tuple[tuple[str, float], ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds_per_byte", max(load for _, load in self.loads))
        busy = busy_resources(self.loads, self.one_way)
        object.__setattr__(self, "resources", tuple((n, s) for n, s in busy.items() if s))
        by_size = sum(seconds for seconds, _ in self.messages)
        object.__setattr__(self, "fixed_seconds", max(0.0, self.latency_seconds - by_size))

    def waiting_seconds(self, size_bytes: float) -> float:
        """Seconds in which no byte moves, for a buffer of ``size_bytes``."""
        message_bytes = size_bytes * self.message_share
        waits = sum(seconds * curve.at(message_bytes) for seconds, curve in self.messages)
        own = self.fixed_seconds + waits
        return max([own, *(line.waiting_seconds(size_bytes) for line in self.beside)])

    def work(self, size_bytes: float) -> PhaseWork:
        """The demands of a buffer of ``size_bytes`` on the machine."""
        busy = {name: size_bytes * load for name, load in self.resources}
        return PhaseWork(self.waiting_seconds(size_bytes), busy)

    def seconds(self, size_bytes: float) -> float:
        return self.waiting_seconds(size_bytes) + size_bytes * self.seconds_per_byte


@dataclass(frozen=True)
class AlgorithmWay:
    """One algorithm for one collective among given groups: its work at every level.

    For each level: the bytes on its busiest link and their seconds at the described bandwidth, per
    byte of buffer; the hops of a message; how many messages wait for each other. The cheapest
    ``spared`` of these messages are not waited for. ``at_once``: messages across different levels
    do not wait for each other. ``peers``: the number of members one member sends to across each
    level. ``memory_seconds``: seconds of memory traffic per byte. ``members``: for each level, how
    many children of one parent hold members of a group; empty where groups are not alike.
    ``children``: the same, or the maximum over groups. ``in_a_row``: how many members are in a row
    in the innermost level. ``one_way``: the seconds that the busiest port sends and receives, at
    each level where directions are separate. ``message_share``: bytes of a message per byte of
    buffer.
    """

    collective: str
    algorithm: Algorithm
    spans: tuple[int, ...]
    bytes_per_port: tuple[float, ...]
    busy_seconds: tuple[float, ...]
    hops: tuple[int, ...]
    waits: tuple[float, ...]
    memory_seconds: float
    protocols: tuple[Protocol, ...]
    peers: tuple[float, ...]
    children: tuple[int, ...]
    spared: int = 0
    at_once: bool = False
    in_a_row: int = 1
    members: tuple[int, ...] = ()
    one_way: tuple[tuple[float, float] | None, ...] = ()
    message_share: float = 1.0

    @property
    def curve_name(self) -> str:
        """The algorithm whose curves of messages it has; "" for those in common."""
        return self.algorithm.value if self.at_once else ANY

    def line(self, system: System, protocol: Protocol) -> PriceLine:
        """The price by a protocol: as measured, if the system is calibrated for it.

        The formula is that of ``hierarchies.calibration``: hops by ``counted`` and, where all is
        sent at once, a cost for each of the ``peers``.
        """
        names = system.hierarchy.names
        calibration, algorithm = system.calibration, self.algorithm.value
        fit = calibration and calibration.fit(self.collective, algorithm, protocol.value)
        messages: list[tuple[float, MessageCurve]] = []
        if calibration and fit:
            latency = fit.launch_seconds
            counts = zip(self.counted(system.links), self.peers, fit.levels, strict=True)
            for index, (hops, peers, level) in enumerate(counts):
                waits = hops * level.hop_seconds + peers * level.peer_seconds * self.at_once
                latency += waits
                curve = calibration.curve(self.curve_name, protocol.value, index)
                if waits and curve:
                    messages.append((waits, curve))
            shares = [
                level.share_among(m) for m, level in zip(self.children, fit.levels, strict=True)
            ]
        else:
            latency = self._nominal_latency(system.links, protocol)
            latency += protocol.launch_seconds if system.launches else 0.0
            shares = [protocol.share] * len(names)
        crossed = [level for level, share in enumerate(self.bytes_per_port) if share]
        loads = [(names[i], self.busy_seconds[i] / shares[i]) for i in crossed]
        flagged = tuple((names[i], self.bytes_per_port[i] / protocol.share) for i in crossed)
        one_way = tuple(
            (names[i], directions[0] / shares[i], directions[1] / shares[i])
            for i, directions in enumerate(self.one_way)
            if directions and self.bytes_per_port[i]
        )
        loads.append((MEMORY, self.memory_seconds))
        return PriceLine(
            self.algorithm,
            latency,
            tuple(loads),
            flagged,
            protocol,
            self.members,
            one_way,
            tuple(messages),
            self.message_share,
        )

    def counted(self, links: Sequence[Link]) -> tuple[float, ...]:
        """How many hops over each level are waited for in all, as a fit counts them.

        The messages spared or outlasted are chosen by the described latencies, which keeps the
        price linear in the fitted parameters.
        """
        counts = [n * hops for n, hops in zip(self.waits, self.hops, strict=True)]
        message_seconds = {i: self.hops[i] * links[i].latency_seconds for i in self.spans}
        if self.at_once:
            longest = max(self.spans, key=lambda i: (self.waits[i] * message_seconds[i], -i))
            return tuple(n if i == longest else 0.0 for i, n in enumerate(counts))
        for level in self._spared_levels(message_seconds):
            counts[level] -= self.hops[level]
        return tuple(counts)

    def _nominal_latency(self, links: Sequence[Link], protocol: Protocol) -> float:
        messages: dict[int, float] = {}
        for level in self.spans:
            messages[level] = self.hops[level] * protocol.seconds(links[level])
        waits = [self.waits[i] * seconds for i, seconds in messages.items()]
        if self.at_once:
            return max(waits)
        return sum(waits) - sum(messages[level] for level in self._spared_levels(messages))

    def _spared_levels(self, messages: Mapping[int, float]) -> tuple[int, ...]:
        """The levels of the messages not waited for: the cheapest neighbouring edges of a ring.

        Every edge has a neighbour in the innermost level. Two edges of the innermost level are
        neighbours only where three members are in a row there.
        """
        cheapest = sorted(self.spans, key=lambda i: (messages[i], -i))
        if self.spared < 2:
            return tuple(cheapest[: self.spared])
        inner = self.spans[-1]
        neighbours = [i for i in cheapest if i != inner or self.in_a_row > 2 or len(cheapest) == 1]
        return inner, neighbours[0]


def has_two_directions(system: System, level: int) -> bool:
    """Whether sending and receiving on a level's ports are two resources.

    Switch ports always have two directions, but all algorithms load both alike, except those that
    reduce or copy in a switch. (In a reduce-scatter through a switch a port sends a whole buffer
    and receives a piece.) Elsewhere one resource stands for both.
    """
    links = system.links
    if links[level].domain is not Domain.SWITCH:
        return False
    return any(
        link.reduces and (outer == level or level in system.through(outer))
        for outer, link in enumerate(links[: level + 1])
    )


def usable_protocols(algorithm: Algorithm, links: Iterable[Link]) -> tuple[Protocol, ...]:
    """The protocols of an algorithm over these links: in-network algorithms have Simple only."""
    supported = protocols(links)
    return supported[:1] if algorithm is Algorithm.IN_NETWORK else supported


LinePicker = Callable[[Sequence[PriceLine], float], PriceLine]
"""Chooses the line a step uses, given the size of its buffer; the first among ties."""


def pick_fastest(lines: Sequence[PriceLine], size_bytes: float) -> PriceLine:
    """The line that takes the least time alone."""
    return min(lines, key=lambda line: line.seconds(size_bytes))


def pick_leanest(lines: Sequence[PriceLine], size_bytes: float) -> PriceLine:
    """The line whose busiest resource is busy for the least time, for steps that share it."""
    return min(lines, key=lambda line: (line.seconds_per_byte, line.waiting_seconds(size_bytes)))


def pick_lightest(lines: Sequence[PriceLine], size_bytes: float) -> PriceLine:
    """The line that keeps links busy for the least time in sum, each direction counted.

    A reduce-scatter through a reducing switch sends more than a ring and receives almost nothing; a
    concurrent all-gather does the opposite.
    """

    def load(line: PriceLine) -> float:
        return sum(seconds for name, seconds in line.resources if name != MEMORY)

    return min(lines, key=lambda line: (load(line), line.waiting_seconds(size_bytes)))


OVERLAP_PICKS: Sequence[LinePicker] = (pick_leanest, pick_lightest)
"""Rules by which the steps of concurrent programs may choose lines, one rule for all steps."""
