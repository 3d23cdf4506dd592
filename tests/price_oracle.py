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
from itertools import chain, combinations, count, pairwise, permutations, product
from math import ceil, factorial, gcd, prod
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt
from networkx.algorithms.flow import edmonds_karp

from grammar import Collective, Groups
from hierarchies import Domain, Reduction, System
from located import located

Wire = tuple[object, ...]
"""One directed link, port or medium: its level and what tells it from the others."""
Message = tuple[int, int, Fraction]
Group = tuple[int, ...]
Numbers = npt.NDArray[Any]


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
        return tuple(device // self.inside(level) % size for level, size in enumerate(self.cards))

    def capacity(self, wire: Wire) -> float:
        """Bytes a second."""
        level = wire[0]
        assert isinstance(level, int)
        link = self.system.links[level]
        several = 1
        if link.domain is Domain.SWITCH and not self.uneven(level):
            several = link.ports // gcd(link.ports, self.inside(level))
        return link.bandwidth_bytes_per_second * several

    def uneven(self, level: int) -> bool:
        """Whether neighbours share ports that do not divide them: of five on three, 2, 2 and 1."""
        inside, ports = self.inside(level), self.system.links[level].ports
        if inside != self.cards[-1] or ports >= inside or inside % ports == 0:
            return False
        rows = [range(inside)[at : at + ceil(inside / ports)] for at in range(inside)]
        return len(rows[:: ceil(inside / ports)]) == ports

    def port(self, level: int, device: int, way: str) -> Wire:
        """The port of a switch, or the medium of a bus, that a device uses at a level."""
        if self.system.links[level].domain is Domain.BUS:
            return (level, "bus", device // (self.inside(level) * self.cards[level]))
        sharing = self.inside(level) // gcd(self.system.links[level].ports, self.inside(level))
        if self.uneven(level):
            sharing = ceil(self.inside(level) / self.system.links[level].ports)
        child, place = divmod(device, self.inside(level))
        return (level, way, child, place // sharing)

    def routes(
        self, source: int, target: int, detours: bool = False
    ) -> list[tuple[Fraction, tuple[Wire, ...]]]:
        """The paths of a message, with the share of it that each carries.

        With ``detours`` also the long way round a ring or torus; the shares then mean nothing.
        """
        differ = [a != b for a, b in zip(self.digits(source), self.digits(target), strict=True)]
        level = differ.index(True)
        names = self.system.hierarchy.names
        through = sorted((names.index(n) for n in self.system.links[level].through), reverse=True)
        out = tuple(self.port(inner, source, "up") for inner in through)
        back = tuple(self.port(inner, target, "down") for inner in reversed(through))
        ways = self._ways(level, source, target, detours)
        return [(share, out + way + back) for share, way in ways]

    def _ways(
        self, level: int, source: int, target: int, detours: bool
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
        if not self.system.links[level].wraps:
            stops = list(range(a, b + 1)) or list(range(a, b - 1, -1))
            return [(Fraction(1), tuple((*domain, x, y) for x, y in pairwise(stops)))]
        ahead, behind = (b - a) % n, (a - b) % n
        ways = []
        for length, sign in ((ahead, 1), (behind, -1)):
            if detours or length == min(ahead, behind):
                stops = [(a + sign * i) % n for i in range(length + 1)]
                ways.append(tuple((*domain, x, y) for x, y in pairwise(stops)))
        ways = list(dict.fromkeys(ways))  # two neighbours have one link, not two
        return [(Fraction(1, len(ways)), way) for way in ways]

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Which devices links join without a third: a torus joins the same places of two parents.

        ``routes`` lets a message turn a corner where it lands; in a graph that would be a link
        of its own.
        """
        for source, target in permutations(self.devices, 2):
            differ = [a != b for a, b in zip(self.digits(source), self.digits(target), strict=True)]
            torus = self.system.links[differ.index(True)].domain is Domain.TORUS
            if not torus or sum(differ) == 1:
                yield source, target

    def busy(self, messages: Iterable[Message]) -> dict[str, float]:
        """For each level used, the seconds its busiest link is busy for one byte of buffer."""
        return self.slowest(self.loads(messages))

    def loads(self, messages: Iterable[Message]) -> dict[Wire, Fraction]:
        """Shares of a buffer on every link used."""
        loads: dict[Wire, Fraction] = {}
        totals: dict[tuple[int, int], Fraction] = {}
        for source, target, amount in messages:
            pair = (source, target)
            totals[pair] = totals.get(pair, Fraction(0)) + amount
        for (source, target), amount in totals.items():
            for share, way in self.routes(source, target):
                for wire in way:
                    loads[wire] = loads.get(wire, Fraction(0)) + amount * share
        return loads

    def slowest(self, loads: dict[Wire, Fraction]) -> dict[str, float]:
        """Of what is on links, the seconds of the busiest of each level."""
        seconds: dict[str, float] = {}
        for wire, load in loads.items():
            level = wire[0]
            assert isinstance(level, int)
            name = self.system.hierarchy.names[level]
            seconds[name] = max(seconds.get(name, 0.0), float(load) / self.capacity(wire))
        return seconds

    # What the groups exchange.

    def over_ports(self, group: Group, messages: Iterable[Message]) -> Iterator[Message]:
        """The same, with what crosses unevenly shared ports spread over those of both ends.

        A ring is laid over ports, so that one of three members on two ports sends half.
        """
        for here, there, amount in messages:
            where, to = self.fronts(group, here, there), self.fronts(group, there, here)
            for source, target in product(where, to):
                yield source, target, amount / (len(where) * len(to))

    def fronts(self, group: Group, here: int, there: int) -> list[int]:
        """One member for each port by which the group leaves a child, if these are uneven."""
        differ = [a != b for a, b in zip(self.digits(here), self.digits(there), strict=True)]
        level, names = differ.index(True), self.system.hierarchy.names
        crossed = {level, *map(names.index, self.system.links[level].through)}
        for uneven in crossed:
            link = self.system.links[uneven]
            if link.domain is Domain.SWITCH and self.uneven(uneven):
                child = here // self.inside(uneven)
                ports = {
                    self.port(uneven, member, "up"): member
                    for member in group
                    if member // self.inside(uneven) == child
                }
                return list(ports.values())
        return [here]

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

    def turns(self, group: Group) -> int:
        """How many rings ``ring`` lays: its work."""
        return prod(
            factorial(m) if link.domain is Domain.MESH else m
            for m, link in zip(self.counts(group), self.system.links, strict=True)
        )

    def turned(self, level: int, m: int) -> list[tuple[int, ...]]:
        """The order in which a ring passes children, begun with each: out and back along a line."""
        order = list(range(m))
        if not self.system.links[level].wraps:
            order = order[::2] + order[1::2][::-1]
        return [tuple(order[first:] + order[:first]) for first in range(m)]

    def ring(self, group: Group, rounds: int) -> Iterator[Message]:
        """Rings in member order, both ways round, every digit of every level having its turn.

        In a mesh, where every two children have a link, rings in all orders instead.
        """
        table, k = self.coordinates(group), len(group)
        turns = [
            list(permutations(range(m)))
            if self.system.links[level].domain is Domain.MESH
            else self.turned(level, m)
            for level, m in enumerate(self.counts(group))
        ]
        share = Fraction(rounds * (k - 1), k) / (2 * prod(map(len, turns)))
        for orders in product(*turns):
            circle = [table[where] for where in product(*orders)]
            for here, there in zip(circle, circle[1:] + circle[:1], strict=True):
                yield from self.over_ports(group, [(here, there, share), (there, here, share)])

    def is_along_a_line(self, group: Group) -> bool:
        """Whether a group's members differ in one digit only, of a level without joined ends.

        The level's links are the children's own: inner ports would carry pieces in and out again.
        """
        spanned = [self.system.links[i] for i, m in enumerate(self.counts(group)) if m > 1]
        return len(spanned) == 1 and not spanned[0].wraps and not spanned[0].through

    def straight(self, group: Group, *, to_owners: bool) -> Iterator[Message]:
        """Every piece passes from member to member along a line: its sums to its owner, or copies
        from there.
        """
        k = len(group)
        for owner in range(k):
            for i in range(k):
                if i != owner:
                    ends = group[i], group[i + 1 if i < owner else i - 1]
                    message = (*(ends if to_owners else ends[::-1]), Fraction(1, k))
                    yield from self.over_ports(group, [message])

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
                        message = device, there, amount / prod(counts[level + 1 :])
                        yield from self.over_ports(group, [message])

    def orders(self, level: int, children: tuple[int, ...]) -> list[tuple[int, ...]]:
        """In which orders a chain may pass some children: any in a mesh, else only the given."""
        mesh = self.system.links[level].domain is Domain.MESH
        return list(permutations(children)) if mesh else [children]

    def branches(self, level: int) -> bool:
        """Whether a tree branches at a level: in a switch; elsewhere it is a chain."""
        return self.system.links[level].domain is Domain.SWITCH

    def tree(self, group: Group) -> Iterator[Message]:
        """A double binary tree at each level that branches, half the buffer up and down each.

        Else chains, up and down again, every child being the end of one of them.
        """

        def edges(level: int, m: int) -> list[Message]:
            if self.branches(level):
                upwards = [edge for tree in two_trees(m) for edge in tree.items()]
                share = Fraction(1, 2)
            else:
                orders = [
                    order for turn in self.turned(level, m) for order in self.orders(level, turn)
                ]
                upwards = [edge for order in orders for edge in pairwise(order)]
                share = Fraction(1, len(orders))
            return [edge for a, b in upwards for edge in ((a, b, share), (b, a, share))]

        return self.level_by_level(group, edges)

    def chain(self, group: Group, to_first: bool) -> Iterator[Message]:
        """A pipelined chain at each level, towards the first member or away from it.

        In a mesh chains in all orders that begin, or end, with the first.
        """
        return self.level_by_level(group, lambda level, m: self._chained(level, m, to_first))

    def _chained(self, level: int, m: int, to_first: bool) -> list[Message]:
        orders = self.orders(level, tuple(range(1, m)))
        link = self.system.links[level]
        joined = link.wraps and link.domain in (Domain.RING, Domain.TORUS)
        if joined and m == self.cards[level]:
            orders = [*orders, *(order[::-1] for order in orders)]
        steps = [pair for order in orders for pair in pairwise((0, *order))]
        share = Fraction(1, len(orders))
        return [(b, a, share) if to_first else (a, b, share) for a, b in steps]

    def cut_rings(self, group: Group, to_first: bool) -> list[list[Message]]:
        """Linear chains through all members, one for each inner place, in order of their steps.

        Child by child in a circle from that place on, the whole cut open where the first member
        comes round again; towards the first, or away from it. Each carries an equal share.
        """
        table, counts = self.coordinates(group), self.counts(group)
        turns = list(product(*map(range, counts[1:])))
        chains = []
        for turn in turns:
            starts = zip(counts, (0, *turn), strict=True)
            digits = [[(i + start) % m for i in range(m)] for m, start in starts]
            circle = [table[where] for where in product(*digits)]
            root = circle.index(table[(0,) * len(counts)])
            line = circle[root:] + circle[:root]
            steps = [(a, b, Fraction(1, len(turns))) for a, b in pairwise(line)]
            chains.append([(b, a, x) for a, b, x in reversed(steps)] if to_first else steps)
        return chains

    def passing(self, level: int, group: Group) -> tuple[int, int]:
        """Of how many levels with several of a group's children the traffic is on links of one,
        and how many there are.
        """
        names, counts = self.system.hierarchy.names, self.counts(group)
        here = [
            outer == level or names[level] in self.system.links[outer].through
            for outer in range(level + 1)
        ]
        several = [m > 1 for m in counts]
        both = (a and b for a, b in zip(here, several, strict=False))
        return sum(both), sum(several)

    def alike(self, group: Group) -> bool:
        """Whether on each level no other traffic passes, or all of it, as far as it concerns."""
        found = (self.passing(level, group) for level in range(len(self.cards)))
        return all(here < 2 or here == several for here, several in found)

    def chained(self, group: Group, to_first: bool) -> dict[Wire, Fraction]:
        """What pipelined chains put on links, as a price takes them: on ports that several levels
        pass, linear chains through all members; on all other links, chains level by level.
        """
        apart = self.loads(self.chain(group, to_first))
        linear = self.loads(
            self.over_ports(group, chain.from_iterable(self.cut_rings(group, to_first)))
        )
        shared = {
            level
            for level, link in enumerate(self.system.links)
            if link.domain is Domain.SWITCH and self.passing(level, group)[0] > 1
        }
        rest = {wire: load for wire, load in apart.items() if wire[0] not in shared}
        return rest | {wire: load for wire, load in linear.items() if wire[0] in shared}

    def rooted_trees(self, group: Group, to_first: bool) -> Iterator[Message]:
        """Two trees over all children but the first, which both hang below the first; else chains.

        (Sanders, Speck, Träff: Two-tree algorithms, 2009: one tree is the other mirrored or moved
        by one, so that inner nodes of one are leaves of the other.)
        """

        def edges(level: int, m: int) -> list[Message]:
            if not self.branches(level):
                return self._chained(level, m, to_first)
            steps = []
            for tree in in_order_trees(m - 1):
                steps += [(1 + child, 1 + parent) for child, parent in tree.items()]
                steps += [(1 + root, 0) for root in set(range(m - 1)) - set(tree)]
            share = Fraction(1, 2)
            return [(a, b, share) if to_first else (b, a, share) for a, b in steps]

        return self.level_by_level(group, edges)

    # What a switch adds up and copies.

    def in_network(self, collective: Collective, group: Group) -> Iterator[tuple[Wire, Fraction]]:
        """At each level, through its switch, on wires: every piece is pulled by the member whose
        it is, or sent out once by it, or both.

        Pieces are as many as members among the children, for each of those inside them; a rooted
        collective pulls to, or sends from, the first child in all pieces.
        """
        table, counts = self.coordinates(group), self.counts(group)
        for level, m in enumerate(counts):
            each = Fraction(1, prod(counts[level + 1 :]))
            lines: dict[tuple[int, ...], list[int]] = {}
            for where, device in table.items():
                lines.setdefault((*where[:level], *where[level + 1 :]), []).append(device)
            for line in lines.values():
                if m == 1:
                    continue
                if collective in (Collective.REDUCE, Collective.BROADCAST):
                    pieces = [(line[0], each)]
                else:
                    pieces = [(device, each / m) for device in line]
                for owner, amount in pieces:
                    if collective in (
                        Collective.ALL_REDUCE,
                        Collective.REDUCE_SCATTER,
                        Collective.REDUCE,
                    ):
                        yield from ((w, amount) for d in line for w in self.climb(level, d, "up"))
                        yield from ((w, amount) for w in self.climb(level, owner, "down"))
                    if collective in (
                        Collective.ALL_REDUCE,
                        Collective.ALL_GATHER,
                        Collective.BROADCAST,
                    ):
                        yield from ((w, amount) for w in self.climb(level, owner, "up"))
                        yield from ((w, amount) for d in line for w in self.climb(level, d, "down"))

    def climb(self, level: int, device: int, way: str) -> list[Wire]:
        """The wires between a device and the switch of a level."""
        names = self.system.hierarchy.names
        inner = [names.index(name) for name in self.system.links[level].through]
        return [self.port(each, device, way) for each in (level, *inner)]

    # What no exchange can beat.

    def leaving(self) -> dict[frozenset[int], float]:
        """For every set of devices, not empty and not all, the bytes a second that can leave it."""
        return {part: self.room(part) for part in proper_parts(self.devices)}

    def room(self, part: frozenset[int]) -> float:
        """The bytes a second that can leave some devices: a maximum flow."""
        return _room(self.system, part)


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
def _room(system: System, part: frozenset[int]) -> float:
    machine = Machine(system)
    flow = _wires(system).copy()
    flow.add_edges_from(("from", device) for device in part)
    flow.add_edges_from((device, "to") for device in set(machine.devices) - part)
    return float(nx.maximum_flow_value(flow, "from", "to", flow_func=edmonds_karp))


@cache
def _wires(system: System) -> Any:
    """Every message between two devices as a path over wires."""
    machine = Machine(system)
    graph = nx.DiGraph()
    for source, target in machine.pairs():
        for _, way in machine.routes(source, target):
            stops: list[object] = [source]
            for wire in way:
                graph.add_edge(("into", wire), ("out of", wire), capacity=machine.capacity(wire))
                stops += [("into", wire), ("out of", wire)]
            stops.append(target)
            for i in range(0, len(stops), 2):
                graph.add_edge(stops[i], stops[i + 1])
    return graph


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


def together(
    system: System, collective: Collective, group: Group, parts: frozenset[frozenset[int]]
) -> float:
    """How many buffers' worth of a group's data must go from parts to other parts, in sum."""
    held = [sum(device in part for device in group) for part in parts]
    touched, k = sum(map(bool, held)), len(group)
    if collective is Collective.ALL_TO_ALL:
        return sum(p * (k - p) for p in held) / k
    if collective is Collective.ALL_REDUCE and any(link.reduces for link in system.links):
        return touched if touched > 1 else 0
    return (2 if collective is Collective.ALL_REDUCE else 1) * (touched - 1)


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
        Collective.ALL_TO_ALL: within * (k - within) / k,
    }[collective]


def least_seconds(system: System, collective: Collective, groups: list[Group]) -> float:
    """Per byte of buffer: what no way of carrying out a collective can beat, over all cuts and
    partitions of the devices: all of them for up to five devices, else those into equal parts.
    """
    best = 0.0
    for part, capacity in Machine(system).leaving().items():
        need = sum(must_leave(collective, group, part) for group in groups)
        best = max(best, need / capacity)
    for parts, capacity in _together(system).items():
        need = sum(together(system, collective, group, parts) for group in groups)
        best = max(best, need / capacity)
    return best


@cache
def _together(system: System) -> dict[frozenset[frozenset[int]], float]:
    """For each partition the bytes a second that can go from parts to other parts, in sum.

    Not the sum of what can leave each: parts may share a port or a bus. A linear program over all
    paths of all messages between parts.
    """
    machine = Machine(system)
    found = {}
    for parts in partitions(tuple(machine.devices)):
        alike = len(machine.devices) <= 5 or len({len(part) for part in parts}) == 1
        if len(parts) > 1 and alike:
            home = {device: part for part in parts for device in part}
            ways = {
                way
                for source, target in permutations(machine.devices, 2)
                if home[source] is not home[target]
                for _, way in machine.routes(source, target, detours=True)
            }
            found[frozenset(parts)] = _packed(machine, ways)
    return found


def _packed(machine: Machine, ways: set[tuple[Wire, ...]]) -> float:
    """The most that can go over some paths together: a linear program.

    In floats if those end at an optimum that its dual confirms, else in fractions.
    """
    wires = sorted({wire for way in ways for wire in way}, key=repr)
    capacities = np.array([machine.capacity(wire) for wire in wires])
    scale = capacities.max()
    uses = np.zeros((len(wires), len(ways)))
    for column, way in enumerate(sorted(ways, key=repr)):
        for wire in way:
            uses[wires.index(wire), column] += 1
    most, shares, prices = _simplex(uses, capacities / scale)
    confirmed = (
        np.isclose(most, prices @ (capacities / scale), rtol=1e-9)
        and (prices @ uses >= 1 - 1e-9).all()
        and (uses @ shares <= capacities / scale * (1 + 1e-9)).all()
        and min(prices.min(), shares.min()) >= -1e-12
    )
    if not confirmed:
        exactly = np.vectorize(Fraction, otypes=[object])
        most, _, _ = _simplex(exactly(uses), exactly(capacities / scale))
    return float(most) * float(scale)


def _simplex(uses: Numbers, room: Numbers) -> tuple[float, Numbers, Numbers]:
    """The most in sum of what respects ``uses @ shares <= room``, its shares, the dual's prices.

    Bland's rule, which ends if the numbers are exact; floats stop after many rounds.
    """
    exact = uses.dtype == object
    little, rows, columns = (0 if exact else 1e-9), *uses.shape
    table = np.zeros((rows + 1, columns + rows + 1), dtype=uses.dtype)
    table[:-1, :columns], table[:-1, -1] = uses, room
    table[:-1, columns:-1] = np.eye(rows, dtype=int)
    table[-1, :columns] = -1
    basis = np.arange(columns, columns + rows)
    for turn in count():
        entering = np.flatnonzero(table[-1, :-1] < -little)
        candidates = np.flatnonzero(table[:-1, entering[0]] > little) if entering.size else []
        if not len(candidates) or (turn > 300 and not exact):
            break
        column = entering[0]
        ratios = table[candidates, -1] / table[candidates, column]
        tied = candidates[ratios <= ratios.min() + (0 if exact else 1e-12 * abs(ratios.min()))]
        row = tied[np.argmin(basis[tied])]
        table[row] = table[row] / table[row, column]
        for other in np.flatnonzero(table[:, column]):
            if other != row:
                table[other] = table[other] - table[other, column] * table[row]
        basis[row] = column
    shares = np.zeros(columns + rows, dtype=uses.dtype)
    shares[basis] = table[:-1, -1]
    return table[-1, -1], shares[:columns], table[-1, columns:-1]


def groups_of(reduction: Reduction, groups: Groups) -> list[Group]:
    """The groups of an instruction as tuples of devices, found by looking at every device."""
    found: dict[tuple[object, ...], list[int]] = {}
    sizes = reduction.tree.sizes
    for device in range(reduction.placement.hierarchy.devices):
        replica, member = located(reduction, device)
        digits = []
        for size in reversed(sizes):
            member, digit = divmod(member, size)
            digits.insert(0, digit)
        if any(digits[i] for i in groups.zero):
            continue
        key = (replica, *(d for i, d in enumerate(digits) if i not in groups.free))
        found.setdefault(key, []).append(device)
    return [tuple(sorted(group)) for group in found.values()]
