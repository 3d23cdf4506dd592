"""Seconds of a step on a system: latency, the busiest link, and the device's own memory.

Every algorithm puts its bytes on the links of each level; all replicas of a group run at once and
share links; the link that takes longest sets the bandwidth term. Steps wait for each other.
Devices of a hierarchy look alike, so one port stands for all and a price costs the same for 16 and
100,000 devices. Where the system says that some are not, ``collectives.slowest_links`` looks at
every link.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from grammar import Collective, Groups, Instruction
from hierarchies import Domain, Reduction, System
from hierarchies.fabric import Cast, busiest_block, cast, children_of, load, members
from synth.collectives.algorithms import RECIPES, Algorithm, Choice, Recipe, offered, recipe_at
from synth.collectives.protocols import protocols
from synth.collectives.slowest_links import SlowestLinks
from synth.events.overlap import Work
from synth.price.steps import StepPrice, priced_by, ticks_of
from synth.price.ways import MEMORY, Line, Pick, Way, fastest
from synth.semantics.layout import Buffers, Move, Shuffle
from synth.semantics.lowering import buffer_fraction


class Simulator:
    """Prices the steps of programs on one system, with one choice of algorithms.

    Where links are slower or missing, a level takes as long as its slowest link, and never less
    than in the healthy system. Raises InputError for a system that lacks devices.
    """

    def __init__(self, system: System, choice: Choice = Choice.AUTO) -> None:
        self.system = system.check_even()
        self._slowest = SlowestLinks(system) if system.faults else None
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
        return priced_by(collective.value, pick(lines, size_bytes), size_bytes)

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
        if self._slowest:
            slow = self._slowest.busy_seconds(collective, algorithm, roles)
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
            counts,
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
            share += 2 * outer * sharing * busiest_block((slots,), children_of(slots))
        return share, share / link.bandwidth_bytes_per_second, hops
