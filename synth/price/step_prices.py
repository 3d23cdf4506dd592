"""Seconds of a step on a system: latency, the busiest link, and the device's own memory.

Every algorithm puts its bytes on the links of each level; all replicas of a group run at once and
share links; the link that takes longest sets the bandwidth term. Steps wait for each other.
Devices of a hierarchy look alike, so one port stands for all and a price costs the same for 16 and
100,000 devices. Where the system says that some are not, ``collectives.slowest_links`` looks at
every link.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from math import prod
from typing import Protocol as Structure

from grammar import Collective, Instruction
from hierarchies import Domain, Reduction, System, Tree
from hierarchies.fabric import Cast, busiest_block, cast, children_of, load, members
from synth.collectives.algorithms import RECIPES, Algorithm, Choice, Recipe, offered, recipes
from synth.collectives.slowest_links import Groups, SlowestLinks, carried_and_busy
from synth.events.overlap import Work
from synth.price.steps import StepPrice, priced_by, ticks_of
from synth.price.uneven_ways import uneven_ways
from synth.price.ways import MEMORY, Line, Pick, Way, fastest, usable
from synth.semantics.layout import Buffers, Move, Shuffle
from synth.semantics.lowering import buffer_fraction
from synth.semantics.schedule import GroupList


class EvenPart(Structure):
    """Devices that form a grid, though not one of the machine's levels: seven GPUs of each node."""

    @property
    def tree(self) -> Tree: ...

    def among(self, instruction: Instruction) -> GroupList:
        """The groups that an instruction on the tree means."""


Grid = Reduction | EvenPart


class Simulator:
    """Prices the steps of programs on one system, with one choice of algorithms.

    Where links are slower or missing, a level takes as long as its slowest link, and never less
    than in the healthy system. On a system that lacks devices groups are listed (``EvenPart``), and
    on none with rings of devices; grids raise InputError there.
    """

    def __init__(self, system: System, choice: Choice = Choice.AUTO) -> None:
        self.system = system
        self.choice = choice
        self.lines = cache(self._lines)
        self.by = cache(self._by)

    @cached_property
    def _slowest(self) -> SlowestLinks:
        return SlowestLinks(self.system)

    def move(
        self, move: Move, where: Grid, payload_bytes: float, pick: Pick = fastest
    ) -> list[StepPrice]:
        """The phases of one step with their prices: shuffles before, the collective, shuffles.

        ``pick`` chooses among the algorithms offered.
        """
        size = self._size(move, where, payload_bytes)
        what = move.instruction
        step = self.exchange(what.collective, _groups(what, where), size, pick)
        return [
            *(self._shuffle(shuffle, where, payload_bytes) for shuffle in move.before),
            step,
            *(self._shuffle(shuffle, where, payload_bytes) for shuffle in move.after),
        ]

    def prices(self, alphabet: Sequence[Move], where: Grid, payload_bytes: float) -> list[int]:
        """The price of each move in whole picoseconds, rounded up phase by phase.

        The same figures as ``move`` gives, without the reasons. Raises InputError for a price
        that is too large to be compared exactly.
        """
        works = self.works(alphabet, where, payload_bytes)
        return [sum(ticks_of(phase.alone_seconds) for phase in phases) for phases in works]

    def works(
        self,
        alphabet: Sequence[Move],
        where: Grid,
        payload_bytes: float,
        pick: Pick = fastest,
    ) -> list[tuple[Work, ...]]:
        """The phases of each move as what they ask of the machine: as ``move``, without reasons."""
        found = []
        for move, line, size in self._sized(alphabet, where, payload_bytes, pick):
            busy = {name: size * load for name, load in line.loads if load}
            step = Work(line.waiting_seconds(size), busy)
            before, after = (
                [self._shuffle(shuffle, where, payload_bytes).work for shuffle in shuffles]
                for shuffles in (move.before, move.after)
            )
            found.append((*before, step, *after))
        return found

    def _sized(
        self,
        alphabet: Sequence[Move],
        where: Grid,
        payload_bytes: float,
        pick: Pick = fastest,
    ) -> Iterator[tuple[Move, Line, float]]:
        """Each move with the algorithm it runs by and the size of its largest buffer."""
        lines: dict[Instruction, tuple[Line, ...]] = {}
        sizes: dict[Buffers, float] = {}
        for move in alphabet:
            what = move.instruction
            if what not in lines:
                lines[what] = self.lines(what.collective, _groups(what, where))
            if move.buffers not in sizes:
                sizes[move.buffers] = self._size(move, where, payload_bytes)
            size = sizes[move.buffers]
            yield move, pick(lines[what], size), size

    def _size(self, move: Move, where: Grid, payload_bytes: float) -> float:
        """The largest buffer of those who take part in a step."""
        tree = where.tree
        return payload_bytes / min(buffer_fraction(kind, tree) for kind in move.buffers)

    def exchange(
        self,
        collective: Collective,
        groups: Groups,
        size_bytes: float,
        pick: Pick = fastest,
    ) -> StepPrice:
        """One collective over all groups at once, by an algorithm of those offered.

        ``size_bytes`` is of the largest buffer.
        """
        lines = self.lines(collective, groups)
        return priced_by(collective.value, pick(lines, size_bytes), size_bytes)

    def _lines(self, collective: Collective, groups: Groups) -> tuple[Line, ...]:
        """What each algorithm offered costs by each protocol, as lines in the size of the buffer.

        Of one algorithm the line of the Simple protocol is the first.
        """
        algorithms = self._offered(collective, groups)
        return tuple(line for one in algorithms for line in self.by(collective, one, groups))

    def _offered(self, collective: Collective, groups: Groups) -> Sequence[Algorithm]:
        """The algorithms that may be used; in a list some are not.

        Recursive halving finds no partners there; where pieces are unequal, direct exchange and
        in-network reduction are left out too.
        """
        links = self.system.links
        if not isinstance(groups, GroupList):
            counts = tuple(members(slots) for slots in groups)
            return offered(collective, counts, links, self.choice)
        unfit = {Algorithm.HALVING_DOUBLING}
        if not groups.equal:
            unfit |= {Algorithm.DIRECT, Algorithm.IN_NETWORK}
        counts = self._slowest.shape(groups).most
        return offered(collective, counts, links, self.choice, unfit)

    def _by(self, collective: Collective, algorithm: Algorithm, groups: Groups) -> tuple[Line, ...]:
        """What one algorithm costs by each protocol that the links of a group know.

        Where groups wait differently, the one that waits longest decides.
        """
        if isinstance(groups, GroupList):
            ways = uneven_ways(self._slowest.loads(collective, algorithm, groups))
        else:
            ways = [self.way(collective, algorithm, groups)]
        fitted = self.system.calibration and self.system.calibration.protocols
        return tuple(
            max((way.line(self.system, protocol) for way in ways), key=_longest_wait)
            for protocol in ways[0].protocols
            if not fitted or protocol.value in fitted
        )

    def _shuffle(self, shuffle: Shuffle, where: Grid, payload_bytes: float) -> StepPrice:
        size = payload_bytes / buffer_fraction(shuffle.scattered, where.tree)
        seconds = 2 * size / self.system.memory_bytes_per_second
        return StepPrice("transpose", None, size, seconds, 0.0, MEMORY, (), ((MEMORY, seconds),))

    def way(self, collective: Collective, algorithm: Algorithm, roles: Cast) -> Way:
        """What one algorithm does on every level, before a protocol gives it a price."""
        self.system.check_even()
        counts = tuple(members(slots) for slots in roles)
        spans = tuple(level for level, m in enumerate(counts) if m > 1)
        rows = recipes(collective, algorithm, self.system.links)
        crossing = [row.crossing(counts, i) if i in spans else 0.0 for i, row in enumerate(rows)]
        loads = [self._level(i, row, roles, crossing) for i, row in enumerate(rows)]
        busy = [seconds for _, seconds, _ in loads]
        if self.system.faults:
            _, slow = carried_and_busy(self._slowest.loads(collective, algorithm, roles))
            busy = [max(pair) for pair in zip(busy, slow, strict=True)]
        waits = [row.waits(counts, i) if i in spans else 0.0 for i, row in enumerate(rows)]
        touched = max(rows[level].memory(prod(counts)) for level in spans)
        recipe = RECIPES[collective, algorithm]
        return Way(
            collective.value,
            algorithm,
            spans,
            tuple(share for share, _, _ in loads),
            tuple(busy),
            tuple(hops for _, _, hops in loads),
            tuple(waits),
            touched / self.system.memory_bytes_per_second,
            usable(algorithm, (self.system.links[level] for level in spans)),
            tuple((m - 1.0) * prod(counts[level + 1 :]) for level, m in enumerate(counts)),
            recipe.spared,
            recipe.at_once,
            counts[spans[-1]],
            counts,
        )

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


def _longest_wait(line: Line) -> float:
    return line.latency_seconds + line.gap_seconds


def _groups(what: Instruction, where: Grid) -> Groups:
    """The groups that an instruction means: as roles where the levels of the machine say them."""
    if isinstance(where, Reduction):
        return cast(where, what.groups.free, what.groups.zero)
    return where.among(what)
