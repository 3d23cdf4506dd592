"""A slow, explicit model of machines: every link by itself, every message by itself.

It shares no code with ``fabric``, ``algorithms``, ``simulator`` and ``bound``: devices are plain
numbers, links are names, messages are (source, target, share of a buffer), capacities of cuts are
maximum flows. Only small machines can be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import chain, combinations, permutations, product
from math import prod

import networkx as nx

from grammar import Collective, Groups
from hierarchies import Domain, Reduction, System

Wire = tuple[object, ...]
"""One directed link, port or medium: its level and what tells it from the others."""
Message = tuple[int, int, Fraction]
Group = tuple[int, ...]


@dataclass(frozen=True)
class Machine:
    """Links of a system, one by one."""

    system: System

    @property
    def devices(self) -> range:
        return range(prod(self.cards))

    @property
    def cards(self) -> tuple[int, ...]:
        return tuple(level.cardinality for level in self.system.hierarchy.levels)

    def inside(self, level: int) -> int:
        return prod(self.cards[level + 1 :])

    def digits(self, device: int) -> tuple[int, ...]:
        return tuple(
            device // self.inside(level) % size for level, size in enumerate(self.cards)
        )

    def capacity(self, wire: Wire) -> float:
        """Bytes a second."""
        level = wire[0]
        assert isinstance(level, int)
        link = self.system.links[level]
        several = 1
        if link.domain is Domain.SWITCH:
            several = max(1, link.ports // self.inside(level))
        return link.bandwidth_bytes_per_second * several

    def port(self, level: int, device: int, way: str) -> Wire:
        """The port of a switch, or the medium of a bus, that a device uses at a level."""
        if self.system.links[level].domain is Domain.BUS:
            return (level, "bus", device // (self.inside(level) * self.cards[level]))
        sharing = max(1, self.inside(level) // self.system.links[level].ports)
        child, place = divmod(device, self.inside(level))
        return (level, way, child, place // sharing)

    def routes(self, source: int, target: int) -> list[tuple[Fraction, tuple[Wire, ...]]]:
        """The paths of a message, with the share of it that each carries."""
        differ = [a != b for a, b in zip(self.digits(source), self.digits(target), strict=True)]
        level = differ.index(True)
        names = self.system.hierarchy.names
        through = sorted((names.index(n) for n in self.system.links[level].through), reverse=True)
        out = tuple(self.port(inner, source, "up") for inner in through)
        back = tuple(self.port(inner, target, "down") for inner in reversed(through))
        return [(share, out + way + back) for share, way in self._ways(level, source, target)]

    def _ways(
        self, level: int, source: int, target: int
    ) -> list[tuple[Fraction, tuple[Wire, ...]]]:
        n = self.cards[level]
        a, b = self.digits(source)[level], self.digits(target)[level]
        domain: Wire = (level, source // (self.inside(level) * n))
        match self.system.links[level].domain:
            case Domain.SWITCH:
                way = (self.port(level, source, "up"), self.port(level, target, "down"))
                return [(Fraction(1), way)]
            case Domain.BUS:
                return [(Fraction(1), (self.port(level, source, "up"),))]
            case Domain.MESH:
                return [(Fraction(1), ((*domain, a, b),))]
            case Domain.TORUS:
                domain = (*domain, source % self.inside(level))
            case Domain.RING:
                pass
        ahead, behind = (b - a) % n, (a - b) % n
        ways = []
        for length, sign in ((ahead, 1), (behind, -1)):
            if length == min(ahead, behind):
                stops = [(a + sign * i) % n for i in range(length + 1)]
                ways.append(tuple((*domain, x, y) for x, y in zip(stops, stops[1:], strict=False)))
        ways = list(dict.fromkeys(ways))  # two neighbours have one link, not two
        return [(Fraction(1, len(ways)), way) for way in ways]

    def busy(self, messages: Iterable[Message]) -> dict[str, float]:
        """For each level used, the seconds its busiest link is busy for one byte of buffer."""
        loads: dict[Wire, Fraction] = {}
        totals: dict[tuple[int, int], Fraction] = {}
        for source, target, amount in messages:
            pair = (source, target)
            totals[pair] = totals.get(pair, Fraction(0)) + amount
        for (source, target), amount in totals.items():
            for share, way in self.routes(source, target):
                for wire in way:
                    loads[wire] = loads.get(wire, Fraction(0)) + amount * share
        seconds: dict[str, float] = {}
        for wire, load in loads.items():
            level = wire[0]
            assert isinstance(level, int)
            name = self.system.hierarchy.names[level]
            seconds[name] = max(seconds.get(name, 0.0), float(load) / self.capacity(wire))
        return seconds

    # What the groups exchange.

    def counts(self, group: Group) -> tuple[int, ...]:
        """How many different digits the members of a group have at each level."""
        return tuple(len(set(column)) for column in zip(*map(self.digits, group), strict=True))

    def coordinates(self, group: Group) -> dict[tuple[int, ...], int]:
        """The members by their digits, those counted from 0 within the group."""
        columns = [sorted(set(c)) for c in zip(*map(self.digits, group), strict=True)]
        table = {
            tuple(c.index(d) for c, d in zip(columns, self.digits(device), strict=True)): device
            for device in group
        }
        assert len(table) == prod(self.counts(group))
        return table

    def ring(self, group: Group, rounds: int) -> Iterator[Message]:
        """Rings in member order, both ways round, every digit of every level having its turn.

        In a mesh, where every two children have a link, rings in all orders instead.
        """
        table, counts, k = self.coordinates(group), self.counts(group), len(group)
        turns = [
            list(permutations(range(m)))
            if link.domain is Domain.MESH
            else [tuple((i + first) % m for i in range(m)) for first in range(m)]
            for m, link in zip(counts, self.system.links, strict=True)
        ]
        share = Fraction(rounds * (k - 1), k) / (2 * prod(map(len, turns)))
        for orders in product(*turns):
            circle = [table[where] for where in product(*orders)]
            for here, there in zip(circle, circle[1:] + circle[:1], strict=True):
                yield here, there, share
                yield there, here, share

    def halving(self, group: Group, rounds: int) -> Iterator[Message]:
        """Partners differ in one bit, outermost level and highest bit first; half as much each."""
        table, counts = self.coordinates(group), self.counts(group)
        left = Fraction(rounds)
        for level, m in enumerate(counts):
            assert m & (m - 1) == 0
            bit = m // 2
            while bit:
                left /= 2
                for where, device in table.items():
                    partner = (*where[:level], where[level] ^ bit, *where[level + 1 :])
                    yield device, table[partner], left
                bit //= 2

    def direct(self, group: Group, rounds: int) -> Iterator[Message]:
        for source, target in permutations(group, 2):
            yield source, target, Fraction(rounds, len(group))

    def level_by_level(
        self, group: Group, edges: Callable[[int, int], list[Message]]
    ) -> Iterator[Message]:
        """At each level the given exchange among its children, spread over those inside them."""
        table, counts = self.coordinates(group), self.counts(group)
        for level, m in enumerate(counts):
            for a, b, amount in edges(level, m):
                for where, device in table.items():
                    if where[level] == a:
                        there = table[(*where[:level], b, *where[level + 1 :])]
                        yield device, there, amount / prod(counts[level + 1 :])

    def tree(self, group: Group) -> Iterator[Message]:
        """A double binary tree at each level, half the buffer up and down each."""

        def edges(_: int, m: int) -> list[Message]:
            upwards = [edge for tree in two_trees(m) for edge in tree.items()]
            both = [*upwards, *((parent, child) for child, parent in upwards)]
            return [(a, b, Fraction(1, 2)) for a, b in both]

        return self.level_by_level(group, edges)

    def chain(self, group: Group, to_first: bool) -> Iterator[Message]:
        """A pipelined chain at each level, towards the first member or away from it.

        In a mesh chains in all orders that begin, or end, with the first.
        """

        def edges(level: int, m: int) -> list[Message]:
            others = tuple(range(1, m))
            mesh = self.system.links[level].domain is Domain.MESH
            orders = list(permutations(others)) if mesh else [others]
            steps = [pair for order in orders for pair in zip((0, *order), order, strict=False)]
            share = Fraction(1, len(orders))
            return [(b, a, share) if to_first else (a, b, share) for a, b in steps]

        return self.level_by_level(group, edges)

    def rooted_trees(self, group: Group, to_first: bool) -> Iterator[Message]:
        """Two trees over all children but the first, which both hang below the first.

        (Sanders, Speck, Träff: Two-tree algorithms, 2009: one tree is the other mirrored or moved
        by one, so that inner nodes of one are leaves of the other.)
        """

        def edges(_: int, m: int) -> list[Message]:
            steps = []
            for tree in in_order_trees(m - 1):
                steps += [(1 + child, 1 + parent) for child, parent in tree.items()]
                [root] = set(range(m - 1)) - set(tree) or {-1}
                steps += [(1 + root, 0)] if m > 1 else []
            return [(a, b, Fraction(1, 2)) if to_first else (b, a, Fraction(1, 2)) for a, b in steps]

        return self.level_by_level(group, edges)

    # What no exchange can beat.

    def leaving(self) -> dict[frozenset[int], float]:
        """For every set of devices, not empty and not all, the bytes a second that can leave it."""
        return _leaving(self.system)


def two_trees(m: int) -> list[dict[int, int]]:
    """The double binary tree by its definition: in-order positions, parents one level up."""
    first = {}
    for i in range(1, m):
        step = 1
        while i // step % 2 == 0:
            step *= 2
        above = i + step if i // step % 4 == 1 else i - step
        first[i] = above if above < m else i - step
    move = (lambda i: m - 1 - i) if m % 2 == 0 else (lambda i: (i + 1) % m)
    return [first, {move(child): move(parent) for child, parent in first.items()}]


def in_order_trees(n: int) -> list[dict[int, int]]:
    """Two binary trees over 0..n-1, none of which is inner in both: child to parent.

    The first is balanced with its inner nodes on odd numbers, leaves on even ones; the second is
    the first mirrored (n even) or moved by one (n odd).
    """

    def grown(numbers: list[int]) -> dict[int, int]:
        """A balanced search tree; the middle is always an odd place of the list."""
        if len(numbers) < 2:
            return {}
        middle = len(numbers) // 2
        middle += 1 - middle % 2 if middle + 1 < len(numbers) or middle % 2 else -1
        root, tree = numbers[middle], {}
        for side in (numbers[:middle], numbers[middle + 1 :]):
            if side:
                below = grown(side)
                [top] = set(side) - set(below)
                tree |= {**below, top: root}
        return tree

    first = grown(list(range(n)))
    move = (lambda i: n - 1 - i) if n % 2 == 0 else (lambda i: (i + 1) % n)
    return [first, {move(child): move(parent) for child, parent in first.items()}]


@cache
def _leaving(system: System) -> dict[frozenset[int], float]:
    machine = Machine(system)
    graph = nx.DiGraph()
    for source, target in permutations(machine.devices, 2):
        for _, way in machine.routes(source, target):
            stops: list[object] = [source]
            for wire in way:
                graph.add_edge(("into", wire), ("out of", wire), capacity=machine.capacity(wire))
                stops += [("into", wire), ("out of", wire)]
            stops.append(target)
            for i in range(0, len(stops), 2):
                graph.add_edge(stops[i], stops[i + 1])
    found = {}
    for part in proper_parts(machine.devices):
        flow = graph.copy()
        flow.add_edges_from(("from", device) for device in part)
        flow.add_edges_from((device, "to") for device in set(machine.devices) - part)
        found[part] = float(nx.maximum_flow_value(flow, "from", "to"))
    return found


def proper_parts(devices: Iterable[int]) -> list[frozenset[int]]:
    everyone = tuple(devices)
    sizes = range(1, len(everyone))
    return [frozenset(p) for p in chain.from_iterable(combinations(everyone, s) for s in sizes)]


def partitions(items: tuple[int, ...]) -> Iterator[list[frozenset[int]]]:
    """All ways to part some items."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for smaller in partitions(rest):
        yield [frozenset({first}), *smaller]
        for i, part in enumerate(smaller):
            yield [*smaller[:i], part | {first}, *smaller[i + 1 :]]


_PER_PART = {
    Collective.ALL_REDUCE: 2,
    Collective.REDUCE_SCATTER: 1,
    Collective.ALL_GATHER: 1,
    Collective.REDUCE: 1,
    Collective.BROADCAST: 1,
}


def must_leave(collective: Collective, group: Group, part: frozenset[int]) -> float:
    """How many buffers' worth of a group's data must leave a set of devices."""
    k, within = len(group), sum(device in part for device in group)
    if within in (0, k):
        return 0.0
    first = group[0] in part
    return {
        Collective.ALL_REDUCE: 1.0,
        Collective.REDUCE_SCATTER: (k - within) / k,
        Collective.ALL_GATHER: within / k,
        Collective.REDUCE: float(not first),
        Collective.BROADCAST: float(first),
    }[collective]


def least_seconds(system: System, collective: Collective, groups: list[Group]) -> float:
    """Per byte of buffer: what no way of carrying out a collective can beat, over all cuts and,
    where nothing in the network reduces or multicasts, all partitions of the devices.
    """
    leaving = Machine(system).leaving()
    best = 0.0
    for part, capacity in leaving.items():
        need = sum(must_leave(collective, group, part) for group in groups)
        best = max(best, need / capacity)
    for parts in partitions(tuple(Machine(system).devices)):
        if len(parts) > 1:
            touched = sum(sum(bool(part & set(g)) for part in parts) - 1 for g in groups)
            capacity = sum(leaving[part] for part in parts)
            best = max(best, _PER_PART[collective] * touched / capacity)
    return best


def groups_of(reduction: Reduction, groups: Groups) -> list[Group]:
    """The groups of an instruction as tuples of devices, found by looking at every device."""
    found: dict[tuple[object, ...], list[int]] = {}
    sizes = reduction.tree.sizes
    for device in range(reduction.placement.hierarchy.devices):
        replica, member = reduction.locate(device)
        digits = []
        for size in reversed(sizes):
            member, digit = divmod(member, size)
            digits.insert(0, digit)
        if any(digits[i] for i in groups.zero):
            continue
        key = (replica, *(d for i, d in enumerate(digits) if i not in groups.free))
        found.setdefault(key, []).append(device)
    return [tuple(sorted(group)) for group in found.values()]
