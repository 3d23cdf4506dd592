"""Seconds of a step on a system: latency, the busiest link, and the device's own memory.

Every algorithm puts its bytes on the links of each level; all replicas of a group run at once and
share links; the link that takes longest sets the bandwidth term. Steps wait for each other.
Devices of a hierarchy look alike, so one port stands for all and a price costs the same for 16 and
100,000 devices. Where the system says that some are not, ``worn`` looks at every link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, prod

from grammar import Collective, Groups, Instruction
from hierarchies import Domain, InputError, Link, Reduction, System
from hierarchies.fabric import Cast, busiest_block, cast, load, members
from synth.algorithms import RECIPES, Algorithm, Choice, Recipe, offered, recipe_at
from synth.layout import Buffers, Move, Shuffle
from synth.lowering import buffer_fraction
from synth.overlap import Work, makespan_seconds
from synth.protocols import Protocol, protocols
from synth.search import BEYOND
from synth.worn import WornLinks

MEMORY = "memory"
LATENCY = "latency"
TICKS_PER_SECOND = 10**12
"""Prices are compared in whole picoseconds: closer ones are ties."""


@dataclass(frozen=True)
class Line:
    """The price of one algorithm, by one protocol, as a line in the size of the buffer.

    ``loads``: for each resource (level names, and ``memory``) the seconds it is busy for one byte
    of buffer; ``bytes_per_port`` the bytes its busiest port or link carries then, flags included.
    Messages of a calibrated system keep a distance, ``gap_seconds`` in all, which passes while
    bytes are on the wire: its line begins flat.
    """

    algorithm: Algorithm
    latency_seconds: float
    loads: tuple[tuple[str, float], ...]
    bytes_per_port: tuple[tuple[str, float], ...]
    protocol: Protocol = Protocol.SIMPLE
    gap_seconds: float = 0.0
    seconds_per_byte: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds_per_byte", max(load for _, load in self.loads))

    def waiting_seconds(self, size_bytes: float) -> float:
        """How long no byte moves."""
        return self.latency_seconds + max(
            0.0, self.gap_seconds - size_bytes * self.seconds_per_byte
        )

    def seconds(self, size_bytes: float) -> float:
        return self.waiting_seconds(size_bytes) + size_bytes * self.seconds_per_byte


@dataclass(frozen=True)
class StepPrice:
    """What one phase costs and why.

    ``what`` is the collective's name, or ``transpose``; ``busiest`` the resource that is busy
    longest (a level's name, or ``memory``).
    ``bytes_per_port`` gives for each level what its busiest port or link carries, per direction;
    ``busy_seconds`` for each resource how long it is busy.
    """

    what: str
    algorithm: Algorithm | None
    size_bytes: float
    seconds: float
    latency_seconds: float
    busiest: str
    bytes_per_port: tuple[tuple[str, float], ...]
    busy_seconds: tuple[tuple[str, float], ...]
    protocol: Protocol = Protocol.SIMPLE

    @property
    def work(self) -> Work:
        """What it asks of the machine, for the price of phases that overlap."""
        return Work(self.latency_seconds, {name: busy for name, busy in self.busy_seconds if busy})

    @property
    def limited_by(self) -> str:
        """The busiest resource, or ``latency`` where waiting for messages takes longer."""
        return LATENCY if self.latency_seconds > self.seconds / 2 else self.busiest

    @property
    def ticks(self) -> int:
        return ticks_of(self.seconds)


@dataclass(frozen=True)
class Way:
    """One algorithm for one collective among given groups: what it does at every level.

    For each level: the bytes on its busiest link and the seconds they take at the description's
    bandwidth, for one byte of buffer; hops of a message, and messages that wait for each other, of
    which ``spared`` are not waited for, the cheapest ones. ``at_once``: messages across different
    levels do not wait for each other; ``peers`` are those that a member sends to across each.
    Bytes in memory cost ``memory_seconds``.
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
    spared: int = 0
    at_once: bool = False
    in_a_row: int = 1

    def line(self, system: System, protocol: Protocol) -> Line:
        """Its price by a protocol: as measured, if the system is calibrated for it."""
        names = system.hierarchy.names
        fit = system.calibration and system.calibration.fit(
            self.collective, self.algorithm.value, protocol.value
        )
        if fit:
            counted = self.counted(system.links)
            latency = fit.launch_seconds + sum(
                n * level.hop_seconds for n, level in zip(counted, fit.levels, strict=True)
            )
            gap = sum(
                n * level.gap_seconds
                for n, level in zip(self.paced(counted), fit.levels, strict=True)
            )
            shares = [level.share for level in fit.levels]
        else:
            latency, gap = self._nominal_latency(system.links, protocol), 0.0
            shares = [protocol.share] * len(names)
        crossed = [level for level, share in enumerate(self.bytes_per_port) if share]
        loads = [(names[i], self.busy_seconds[i] / shares[i]) for i in crossed]
        flagged = tuple((names[i], self.bytes_per_port[i] / protocol.share) for i in crossed)
        memory = (MEMORY, self.memory_seconds)
        return Line(self.algorithm, latency, (*loads, memory), flagged, protocol, gap)

    def counted(self, links: Sequence[Link]) -> tuple[float, ...]:
        """How many hops over each level are waited for in all, as a fit counts them.

        The cheapest messages, and those that others outlast, are told by the description, so that
        the price is linear in what is fitted.
        """
        found = [n * hops for n, hops in zip(self.waits, self.hops, strict=True)]
        one = {i: self.hops[i] * links[i].latency_seconds for i in self.spans}
        if self.at_once:
            longest = max(self.spans, key=lambda i: (self.waits[i] * one[i], -i))
            return tuple(n if i == longest else 0.0 for i, n in enumerate(found))
        for level in self._spared_levels(one):
            found[level] -= self.hops[level]
        return tuple(found)

    def paced(self, counted: Sequence[float]) -> tuple[float, ...]:
        """How many messages over each level keep a distance to the one before.

        Those that wait for each other; where all are sent at once, those that one member sends.
        """
        return self.peers if self.at_once else tuple(counted)

    def _nominal_latency(self, links: Sequence[Link], protocol: Protocol) -> float:
        messages = {i: self.hops[i] * protocol.seconds(links[i]) for i in self.spans}
        waits = [self.waits[i] * one for i, one in messages.items()]
        if self.at_once:
            return max(waits)
        return sum(waits) - sum(messages[level] for level in self._spared_levels(messages))

    def _spared_levels(self, messages: Mapping[int, float]) -> tuple[int, ...]:
        """Over which levels the messages are that a piece is spared: the cheapest in a row.

        An edge of any level has one of the innermost beside it; two of that one, where three
        members are in a row there.
        """
        cheapest = sorted(self.spans, key=lambda i: (messages[i], -i))
        if self.spared < 2:
            return tuple(cheapest[: self.spared])
        inner = self.spans[-1]
        beside = [i for i in cheapest if i != inner or self.in_a_row > 2 or len(cheapest) == 1]
        return inner, beside[0]


Pick = Callable[[Sequence[Line], float], Line]
"""Chooses the line a step runs by, given the size of its buffer; the first of those that tie."""


def fastest(lines: Sequence[Line], size_bytes: float) -> Line:
    """The one that takes least time by itself."""
    return min(lines, key=lambda line: line.seconds(size_bytes))


def leanest(lines: Sequence[Line], size_bytes: float) -> Line:
    """The one that keeps its busiest resource busy for least time, as others use it meanwhile."""
    return min(lines, key=lambda line: (line.seconds_per_byte, line.latency_seconds))


class Simulator:
    """Prices the steps of programs on one system, with one choice of algorithms.

    Where links are slower or missing, a level takes as long as its slowest link, and never less
    than in the healthy system. Raises InputError for a system that lacks devices.
    """

    def __init__(self, system: System, choice: Choice = Choice.AUTO) -> None:
        self.system = system.check_even()
        self._worn = WornLinks(system) if system.faults else None
        self.choice = choice
        self._lines: dict[tuple[Collective, Cast], tuple[Line, ...]] = {}
        self._by: dict[tuple[Collective, Algorithm, Cast], tuple[Line, ...]] = {}

    def move(
        self, move: Move, reduction: Reduction, payload_bytes: float, pick: Pick = fastest
    ) -> list[StepPrice]:
        """The phases of one step with their prices: shuffles before, the collective, shuffles.

        ``pick`` chooses among the algorithms offered.
        """
        size = self._size(move, reduction, payload_bytes)
        what = move.instruction
        step = self.exchange(what.collective, what.groups, reduction, size, pick)
        return [
            *(self._shuffle(shuffle, reduction, payload_bytes) for shuffle in move.before),
            step,
            *(self._shuffle(shuffle, reduction, payload_bytes) for shuffle in move.after),
        ]

    def prices(
        self, alphabet: Sequence[Move], reduction: Reduction, payload_bytes: float
    ) -> list[int]:
        """The price of each move in whole picoseconds, rounded up phase by phase.

        The same figures as ``move`` gives, without the reasons. Raises InputError for a price
        that is too large to be compared exactly.
        """
        found = []
        for move, line, size in self._sized(alphabet, reduction, payload_bytes):
            price = ticks_of(line.seconds(size))
            for shuffle in (*move.before, *move.after):
                price += ticks_of(self._shuffle(shuffle, reduction, payload_bytes).seconds)
            found.append(price)
        return found

    def works(
        self,
        alphabet: Sequence[Move],
        reduction: Reduction,
        payload_bytes: float,
        pick: Pick = fastest,
    ) -> list[tuple[Work, ...]]:
        """The phases of each move as what they ask of the machine: as ``move``, without reasons."""
        found = []
        for move, line, size in self._sized(alphabet, reduction, payload_bytes, pick):
            busy = {name: size * load for name, load in line.loads if load}
            step = Work(line.waiting_seconds(size), busy)
            before, after = (
                [self._shuffle(shuffle, reduction, payload_bytes).work for shuffle in shuffles]
                for shuffles in (move.before, move.after)
            )
            found.append((*before, step, *after))
        return found

    def _sized(
        self,
        alphabet: Sequence[Move],
        reduction: Reduction,
        payload_bytes: float,
        pick: Pick = fastest,
    ) -> Iterator[tuple[Move, Line, float]]:
        """Each move with the algorithm it runs by and the size of its largest buffer."""
        lines: dict[Instruction, tuple[Line, ...]] = {}
        sizes: dict[Buffers, float] = {}
        for move in alphabet:
            what = move.instruction
            if what not in lines:
                roles = cast(reduction, what.groups.free, what.groups.zero)
                lines[what] = self.lines(what.collective, roles)
            if move.buffers not in sizes:
                sizes[move.buffers] = self._size(move, reduction, payload_bytes)
            size = sizes[move.buffers]
            yield move, pick(lines[what], size), size

    def _size(self, move: Move, reduction: Reduction, payload_bytes: float) -> float:
        """The largest buffer of those who take part in a step."""
        tree = reduction.tree
        return payload_bytes / min(buffer_fraction(kind, tree) for kind in move.buffers)

    def exchange(
        self,
        collective: Collective,
        groups: Groups,
        reduction: Reduction,
        size_bytes: float,
        pick: Pick = fastest,
    ) -> StepPrice:
        """One collective over the groups of all replicas, by an algorithm of those offered."""
        lines = self.lines(collective, cast(reduction, groups.free, groups.zero))
        return priced_by(collective, pick(lines, size_bytes), size_bytes)

    def lines(self, collective: Collective, roles: Cast) -> tuple[Line, ...]:
        """What each algorithm offered costs by each protocol, as lines in the size of the buffer.

        Of one algorithm the line of the Simple protocol is the first.
        """
        key = (collective, roles)
        if key not in self._lines:
            counts = tuple(members(slots) for slots in roles)
            self._lines[key] = tuple(
                line
                for algorithm in offered(collective, counts, self.system.links, self.choice)
                for line in self.by(collective, algorithm, roles)
            )
        return self._lines[key]

    def by(self, collective: Collective, algorithm: Algorithm, roles: Cast) -> tuple[Line, ...]:
        """What one algorithm costs by each protocol that the links of a group know."""
        key = (collective, algorithm, roles)
        if key not in self._by:
            self._by[key] = tuple(self._by_protocol(collective, algorithm, roles))
        return self._by[key]

    def _shuffle(self, shuffle: Shuffle, reduction: Reduction, payload_bytes: float) -> StepPrice:
        size = payload_bytes / buffer_fraction(shuffle.scattered, reduction.tree)
        seconds = 2 * size / self.system.memory_bytes_per_second
        return StepPrice("transpose", None, size, seconds, 0.0, MEMORY, (), ((MEMORY, seconds),))

    def way(self, collective: Collective, algorithm: Algorithm, roles: Cast) -> Way:
        """What one algorithm does on every level, before a protocol gives it a price."""
        counts = tuple(members(slots) for slots in roles)
        spans = tuple(level for level, m in enumerate(counts) if m > 1)
        rows = self._rows(collective, algorithm)
        crossing = [row.crossing(counts, i) if i in spans else 0.0 for i, row in enumerate(rows)]
        loads = [self._level(i, row, roles, crossing) for i, row in enumerate(rows)]
        busy = [seconds for _, seconds, _ in loads]
        if self._worn:
            slow = self._worn.busy_seconds(collective, algorithm, roles)
            busy = [max(pair) for pair in zip(busy, slow, strict=True)]
        waits = [row.waits(counts, i) if i in spans else 0.0 for i, row in enumerate(rows)]
        touched = max(rows[level].memory(prod(counts)) for level in spans)
        recipe = RECIPES[collective, algorithm]
        known = protocols(self.system.links[level] for level in spans)
        return Way(
            collective.value,
            algorithm,
            spans,
            tuple(share for share, _, _ in loads),
            tuple(busy),
            tuple(hops for _, _, hops in loads),
            tuple(waits),
            touched / self.system.memory_bytes_per_second,
            known[:1] if algorithm is Algorithm.IN_NETWORK else known,
            tuple((m - 1.0) * prod(counts[level + 1 :]) for level, m in enumerate(counts)),
            recipe.spared,
            recipe.at_once,
            counts[spans[-1]],
        )

    def _by_protocol(
        self, collective: Collective, algorithm: Algorithm, roles: Cast
    ) -> Iterator[Line]:
        way = self.way(collective, algorithm, roles)
        fitted = self.system.calibration and self.system.calibration.protocols
        for protocol in way.protocols:
            if not fitted or protocol.value in fitted:
                yield way.line(self.system, protocol)

    def _rows(self, collective: Collective, algorithm: Algorithm) -> list[Recipe]:
        """What the algorithm does at each level."""
        return [
            recipe_at(collective, algorithm, link.domain, link.reduces)
            for link in self.system.links
        ]

    def _level(
        self, level: int, row: Recipe, roles: Cast, crossing: list[float]
    ) -> tuple[float, float, int]:
        """Per byte of buffer: bytes on a level's busiest link, its seconds; and the hops."""
        system, slots, inside = self.system, roles[level], roles[level + 1 :]
        link = system.links[level]
        passing = [crossing[j] for j in range(level) if level in system.through(j)]
        outer = sum(passing)
        if link.domain is Domain.SWITCH:
            each = max(crossing[level], *passing, 0.0) if row.linear else crossing[level] + outer
            share = busiest_block(inside, system.block(level)) * each
            return share, share / system.port_bytes_per_second(level), 1
        whole = system.hierarchy.devices_in_child(level)
        sharing = 1 if link.domain is Domain.TORUS else busiest_block(inside, whole)
        share, hops = 0.0, 1
        if crossing[level]:
            routed = load(link.domain, slots, row.demand)
            share, hops = sharing * crossing[level] * routed.peak, routed.hops
        if outer:
            share += 2 * outer * sharing * busiest_block((slots,), prod(s.size for s in slots))
        return share, share / link.bandwidth_bytes_per_second, hops


def priced_by(collective: Collective, line: Line, size_bytes: float) -> StepPrice:
    """What a collective costs that is carried out as a line says."""
    busiest, _ = max(line.loads, key=lambda item: item[1])
    return StepPrice(
        collective.value,
        line.algorithm,
        size_bytes,
        line.seconds(size_bytes),
        line.waiting_seconds(size_bytes),
        busiest,
        tuple((name, share * size_bytes) for name, share in line.bytes_per_port),
        tuple((name, size_bytes * load) for name, load in line.loads),
        line.protocol,
    )


def total_seconds(prices: Iterable[StepPrice]) -> float:
    """The price of phases that wait for each other: their sum, in whole picoseconds."""
    return sum(price.ticks for price in prices) / TICKS_PER_SECOND


def summed(rows: Iterable[Iterable[tuple[str, float]]]) -> dict[str, float]:
    """The sum for each name, of what the prices of several phases say of it."""
    found: dict[str, float] = {}
    for row in rows:
        for name, value in row:
            found[name] = found.get(name, 0.0) + value
    return found


def limiting(prices: Iterable[StepPrice], segments: int = 1) -> str:
    """The resource a program waits for longest: a level's name, ``memory`` or ``latency``.

    ``prices`` are of one segment. Where segments overlap, it is the resource that is busiest in
    all; ``latency`` if none is busy for half of the time.
    """
    prices = tuple(prices)
    if segments > 1 and prices:
        return _busiest(prices, segments)
    waits = summed(
        (
            (LATENCY, price.latency_seconds),
            (price.busiest, price.seconds - price.latency_seconds),
        )
        for price in prices
    )
    return max(waits, key=lambda name: waits[name]) if waits else ""


def _busiest(prices: tuple[StepPrice, ...], segments: int) -> str:
    return _most_busy([(prices, segments)], makespan_seconds([p.work for p in prices], segments))


def limiting_side_by_side(
    stripes: Sequence[tuple[Sequence[StepPrice], int]], seconds: float
) -> str:
    """The same for programs side by side, each with the prices of one of its segments."""
    if len(stripes) == 1:
        return limiting(*stripes[0])
    return _most_busy(stripes, seconds)


def _most_busy(stripes: Sequence[tuple[Sequence[StepPrice], int]], whole_seconds: float) -> str:
    busy = summed(
        [(name, segments * seconds) for name, seconds in price.busy_seconds]
        for prices, segments in stripes
        for price in prices
    )
    most = max(busy, key=lambda name: busy[name])
    return most if 2 * busy[most] >= whole_seconds else LATENCY


def ticks_of(seconds: float) -> int:
    """Seconds in whole picoseconds, rounded up. Raises InputError where they are too many."""
    if seconds * TICKS_PER_SECOND >= BEYOND >> 4:
        raise InputError(
            f"one step would take {seconds:.3g} s", hint="give a smaller payload or faster links"
        )
    return ceil(seconds * TICKS_PER_SECOND)
