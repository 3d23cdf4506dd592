"""Seconds of a step on a system: latency, the busiest link, and the device's own memory.

Every algorithm puts bytes on the links of each level; all replicas of a group run at once and share
links; the slowest link sets the bandwidth term. Steps wait for each other. Devices of a hierarchy
look alike, so one port stands for all, and pricing takes as long for 16 devices as for 100,000.
Where the system has slower or missing links, ``algorithms.slowest_links`` examines every link.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, cached_property
from math import prod
from typing import Protocol as Structure

import numpy as np

from grammar import Collective, Instruction
from hierarchies import Domain, Reduction, System, Tree
from hierarchies.fabric import (
    Cast,
    busiest_block,
    busiest_port,
    count_children,
    count_members,
    roles_of,
    route_load,
)
from synth.collective.algorithms.algorithms import (
    RECIPES,
    Algorithm,
    AlgorithmRecipe,
    Choice,
    offered_algorithms,
    recipes,
)
from synth.collective.algorithms.directions import is_line, loads_of_ends
from synth.collective.algorithms.nccl_model import Ranks, has_algorithm
from synth.collective.algorithms.slowest_links import Groups, SlowestLinks, loads_per_level
from synth.collective.algorithms.traffic import through_switch
from synth.collective.price.segments import Choices, Phases
from synth.collective.price.steps import InstructionPrice, price_of_line, ticks_of
from synth.collective.price.uneven_ways import uneven_ways
from synth.collective.price.ways import (
    MEMORY,
    AlgorithmWay,
    LinePicker,
    PriceLine,
    has_two_directions,
    pick_fastest,
    usable_protocols,
)
from synth.collective.semantics.layout import Buffers, Move, Shuffle
from synth.collective.semantics.lowering import buffer_fraction
from synth.collective.semantics.schedule import GroupList
from synth.events.overlap import PhaseWork


class EvenPart(Structure):
    """Devices that form a grid but not one of the machine's levels: seven GPUs of each node."""

    @property
    def tree(self) -> Tree: ...

    def among(self, instruction: Instruction) -> GroupList:
        """The groups of an instruction on the tree."""


Grid = Reduction | EvenPart
Worth = Callable[[Sequence[PriceLine], float], Sequence[PriceLine]]
"""Selects the lines worth considering for a buffer of ``size`` bytes."""


class Simulator:
    """Prices the steps of programs on one system, with one choice of algorithms.

    Where links are slower or missing, a level takes as long as its slowest link, and never less
    than in the healthy system. On a system that lacks devices, groups must be listed (``EvenPart``)
    and no level may be a ring of devices; grids raise InputError there.
    """

    def __init__(self, system: System, choice: Choice = Choice.AUTO) -> None:
        self.system = system
        self.choice = choice
        # One cache per simulator: a decorator on the methods would keep every simulator alive.
        self.lines = cache(self._lines)
        self.by = cache(self._algorithm_lines)

    @cached_property
    def of_runtimes(self) -> Simulator:
        """This simulator if the runtime can follow its choice, else one with ``Choice.AUTO``."""
        runtime_has = self.choice in (Choice.RING, Choice.TREE, Choice.AUTO)
        return self if runtime_has else Simulator(self.system)

    def runs(self, collective: Collective, algorithm: Algorithm, groups: Groups) -> bool:
        """Whether the runtime has an algorithm for a collective among these groups."""
        if isinstance(groups, GroupList):
            counts: Sequence[int] = self._slowest.shape(groups).most
        else:
            counts = [count_members(slots) for slots in groups]
        if algorithm is Algorithm.IN_NETWORK and not Ranks(self.system, tuple(counts)).multicasts:
            return False
        links = zip(self.system.links, counts, strict=True)
        return has_algorithm(collective, algorithm, [link for link, m in links if m > 1])

    @cached_property
    def _slowest(self) -> SlowestLinks:
        return SlowestLinks(self.system)

    def move(
        self, move: Move, grid: Grid, payload_bytes: float, pick: LinePicker = pick_fastest
    ) -> list[InstructionPrice]:
        """The priced phases of one step: shuffles before, the collective, shuffles after.

        ``pick`` chooses among the algorithms offered.
        """
        size = self._size(move, grid, payload_bytes)
        instruction = move.instruction
        step = self.exchange(instruction.collective, _groups(instruction, grid), size, pick)
        return [
            *(self._shuffle(shuffle, grid, payload_bytes) for shuffle in move.before),
            step,
            *(self._shuffle(shuffle, grid, payload_bytes) for shuffle in move.after),
        ]

    def prices(self, alphabet: Sequence[Move], grid: Grid, payload_bytes: float) -> list[int]:
        """The price of each move in whole picoseconds, rounded up phase by phase.

        Equals the prices of ``move`` without their reasons. Raises InputError for a price too large
        to be compared exactly.
        """
        works = self.works(alphabet, grid, payload_bytes)
        return [sum(ticks_of(phase.alone_seconds) for phase in phases) for phases in works]

    def works(
        self,
        alphabet: Sequence[Move],
        grid: Grid,
        payload_bytes: float,
        pick: LinePicker = pick_fastest,
    ) -> list[Phases]:
        """The demands of each move's phases on the machine: ``move`` without its reasons."""
        alternatives = self.alternatives(
            alphabet, grid, payload_bytes, lambda lines, size: [pick(lines, size)]
        )
        return [phases for [phases] in alternatives]

    def alternatives(
        self, alphabet: Sequence[Move], grid: Grid, payload_bytes: float, worth: Worth
    ) -> list[Choices]:
        """The demands of each move's phases, by each line that ``worth`` selects for its buffer."""
        lines: dict[Instruction, tuple[PriceLine, ...]] = {}
        sizes: dict[Buffers, float] = {}
        steps: dict[tuple[int, float], list[PhaseWork]] = {}

        @cache
        def shuffled(shuffle: Shuffle) -> PhaseWork:
            return self._shuffle(shuffle, grid, payload_bytes).work

        alternatives: list[Choices] = []
        for move in alphabet:
            instruction = move.instruction
            if instruction not in lines:
                lines[instruction] = self.lines(instruction.collective, _groups(instruction, grid))
            if move.buffers not in sizes:
                sizes[move.buffers] = self._size(move, grid, payload_bytes)
            offered, size = lines[instruction], sizes[move.buffers]
            # An id is a safe key here: ``lines`` keeps every tuple alive. Hashing its lines is
            # slow.
            step = id(offered), size
            if step not in steps:
                steps[step] = [line.work(size) for line in worth(offered, size)]
            before = [shuffled(shuffle) for shuffle in move.before]
            after = [shuffled(shuffle) for shuffle in move.after]
            alternatives.append([(*before, work, *after) for work in steps[step]])
        return alternatives

    def _size(self, move: Move, grid: Grid, payload_bytes: float) -> float:
        """The largest buffer of a participant of a step, in bytes."""
        tree = grid.tree
        return payload_bytes / min(buffer_fraction(kind, tree) for kind in move.buffers)

    def exchange(
        self,
        collective: Collective,
        groups: Groups,
        size_bytes: float,
        pick: LinePicker = pick_fastest,
    ) -> InstructionPrice:
        """The price of one collective over all groups at once, by an algorithm of those offered.

        ``size_bytes`` is of the largest buffer.
        """
        lines = self.lines(collective, groups)
        return price_of_line(collective.value, pick(lines, size_bytes), size_bytes)

    def _lines(self, collective: Collective, groups: Groups) -> tuple[PriceLine, ...]:
        """The price lines of each algorithm offered by each protocol.

        Each algorithm's first line is that of the Simple protocol.
        """
        algorithms = self._offered_algorithms(collective, groups)
        if self.choice is Choice.AUTO:
            available = []
            for algorithm in algorithms:
                if self.runs(collective, algorithm, groups):
                    available.append(algorithm)
            algorithms = available or algorithms
        lines: list[PriceLine] = []
        for algorithm in algorithms:
            lines += self.by(collective, algorithm, groups)
        return tuple(lines)

    def _offered_algorithms(self, collective: Collective, groups: Groups) -> Sequence[Algorithm]:
        """The algorithms that may be used; for listed groups some are excluded.

        Recursive halving finds no partners there; with unequal pieces, direct exchange and
        in-network reduction are excluded too.
        """
        links = self.system.links
        if not isinstance(groups, GroupList):
            counts = tuple(count_members(slots) for slots in groups)
            return offered_algorithms(collective, counts, links, self.choice)
        unfit = {Algorithm.HALVING_DOUBLING}
        if not groups.equal:
            unfit |= {Algorithm.DIRECT, Algorithm.IN_NETWORK}
        counts = self._slowest.shape(groups).most
        return offered_algorithms(collective, counts, links, self.choice, unfit)

    def _algorithm_lines(
        self, collective: Collective, algorithm: Algorithm, groups: Groups
    ) -> tuple[PriceLine, ...]:
        """The price lines of one algorithm, by each protocol that a group's links support.

        Where groups wait differently, the group that waits longest decides.
        """
        if isinstance(groups, GroupList):
            ways = uneven_ways(self._slowest.loads(collective, algorithm, groups))
        else:
            ways = [self.way(collective, algorithm, groups)]
        fitted = self.system.calibration and self.system.calibration.protocols
        lines: list[PriceLine] = []
        for protocol in ways[0].protocols:
            # A calibrated system is priced by the protocols that were measured, and by no others.
            if not fitted or protocol.value in fitted:
                by_group = [way.line(self.system, protocol) for way in ways]
                longest = max(by_group, key=lambda line: line.latency_seconds)
                beside = tuple(line for line in by_group if line.messages and line != longest)
                lines.append(replace(longest, beside=beside) if beside else longest)
        return tuple(lines)

    def _shuffle(self, shuffle: Shuffle, grid: Grid, payload_bytes: float) -> InstructionPrice:
        size = payload_bytes / buffer_fraction(shuffle.scattered, grid.tree)
        seconds = 2 * size / self.system.memory_bytes_per_second
        return InstructionPrice(
            "transpose", None, size, seconds, 0.0, MEMORY, (), ((MEMORY, seconds),)
        )

    def way(self, collective: Collective, algorithm: Algorithm, roles: Cast) -> AlgorithmWay:
        """The work of one algorithm on every level, before a protocol gives it a price."""
        self.system.check_even()
        counts = tuple(count_members(slots) for slots in roles)
        spans = tuple(level for level, m in enumerate(counts) if m > 1)
        rows = recipes(collective, algorithm, self.system, counts)
        crossing, loads = list[float](), []
        for level, row in enumerate(rows):
            crossing.append(row.crossing(counts, level) if level in spans else 0.0)
        for level, row in enumerate(rows):
            loads.append(self._level_load(level, algorithm, row, roles, crossing))
        busy = [seconds for _, seconds, _ in loads]
        one_way = self._one_way(collective, algorithm, roles, crossing, rows)
        if self.system.faults:
            _, slow, directions = loads_per_level(self._slowest.loads(collective, algorithm, roles))
            busy = [max(pair) for pair in zip(busy, slow, strict=True)]
            one_way = [
                pair and (max(pair[0], out), max(pair[1], into))
                for pair, (out, into) in zip(one_way, directions, strict=True)
            ]
        for level, seconds in enumerate(busy):
            if is_line(self.system, level):
                children = self.system.hierarchy.cardinalities[level]
                ends = loads_of_ends(collective, algorithm, children, counts, level)
                one_way[level] = (seconds * ends[0], seconds * ends[1])
        waits = [row.waits(counts, i) if i in spans else 0.0 for i, row in enumerate(rows)]
        touched = max(rows[level].memory(prod(counts)) for level in spans)
        recipe = RECIPES[collective, algorithm]
        return AlgorithmWay(
            collective.value,
            algorithm,
            spans,
            tuple(share for share, _, _ in loads),
            tuple(busy),
            tuple(hops for _, _, hops in loads),
            tuple(waits),
            touched / self.system.memory_bytes_per_second,
            usable_protocols(algorithm, (self.system.links[level] for level in spans)),
            tuple((m - 1.0) * prod(counts[level + 1 :]) for level, m in enumerate(counts)),
            counts,
            recipe.spared,
            recipe.at_once,
            counts[spans[-1]],
            counts,
            tuple(one_way),
            1 / prod(counts) if recipe.in_pieces else 1.0,
        )

    def _one_way(
        self,
        collective: Collective,
        algorithm: Algorithm,
        roles: Cast,
        crossing: list[float],
        rows: Sequence[AlgorithmRecipe],
    ) -> list[tuple[float, float] | None]:
        """Per byte of buffer, for each level whose directions are separate: the seconds that the
        busiest port sends, and those that it receives.
        """
        system = self.system
        if not any(link.reduces for link in system.links):
            return [None] * len(roles)
        crossings = np.array(crossing)[:, None].repeat(2, axis=1)
        for level, link in enumerate(system.links):
            if algorithm is Algorithm.IN_NETWORK and link.reduces and crossing[level]:
                directions = through_switch(collective, count_members(roles[level]))
                crossings[level] *= [float(side.max()) for side in directions]
        loads: list[tuple[float, float] | None] = []
        for level, row in enumerate(rows):
            if not has_two_directions(system, level):
                loads.append(None)
                continue
            passing = [crossings[j] for j in range(level) if level in system.through(j)]
            combined = np.array([crossings[level], *passing])
            share_bytes = combined.max(axis=0) if row.linear else combined.sum(axis=0)
            share = self._members_on_port(level, algorithm, roles) * share_bytes
            out, into = (share / system.port_bytes_per_second(level)).tolist()
            loads.append((out, into))
        return loads

    def _members_on_port(self, level: int, algorithm: Algorithm, roles: Cast) -> float:
        """How many members' bytes the busiest port of a level carries."""
        inside, block = roles[level + 1 :], self.system.block(level)
        if algorithm.over_ports and self.system.is_shared_unevenly(level):
            return busiest_port(inside, block)
        return busiest_block(inside, block)

    def _level_load(
        self,
        level: int,
        algorithm: Algorithm,
        row: AlgorithmRecipe,
        roles: Cast,
        crossing: list[float],
    ) -> tuple[float, float, int]:
        """Per byte of buffer: the bytes on a level's busiest link, its seconds, and the hops."""
        system, slots, inside = self.system, roles[level], roles[level + 1 :]
        link = system.links[level]
        passing = [crossing[j] for j in range(level) if level in system.through(j)]
        outer = sum(passing)
        if link.domain is Domain.SWITCH:
            bytes_sent = (
                max(crossing[level], *passing, 0.0) if row.linear else crossing[level] + outer
            )
            share = self._members_on_port(level, algorithm, roles) * bytes_sent
            return share, share / system.port_bytes_per_second(level), 1
        whole = system.hierarchy.devices_in_child(level)
        sharing = 1 if link.domain is Domain.TORUS else busiest_block(inside, whole)
        share, hops = 0.0, 1
        if crossing[level]:
            routed = route_load(link.domain, slots, row.demand, link.wraps)
            share, hops = sharing * crossing[level] * routed.peak, routed.hops
        if outer:
            share += 2 * outer * sharing * busiest_block((slots,), count_children(slots))
        return share, share / link.bandwidth_bytes_per_second, hops


def _groups(instruction: Instruction, grid: Grid) -> Groups:
    """The groups of an instruction: as roles where they follow the machine's levels."""
    if isinstance(grid, Reduction):
        return roles_of(grid, instruction.groups.free, instruction.groups.zero)
    return grid.among(instruction)
