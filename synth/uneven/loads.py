"""What uneven groups put on links: the recipes of ``algorithms`` for groups that are no grids.

A group may have any number of members in any unit. What a recipe says of a level is said here of
each parent by itself: m of its children hold members of the group, the child at hand p of them, and
whatever that child must pass on is spread evenly over these p. For groups that are grids this is
what ``footprint`` and ``simulator`` say. Recursive halving is not offered: it wants powers of two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, log2

import numpy as np

from grammar import Collective
from hierarchies import Devices, Domain, InputError, System
from synth.algorithms import Algorithm, Choice, Recipe, recipe_at
from synth.demands import tree_peak
from synth.footprint import Entry, cut_ring, demand_of, gathered, through_switch
from synth.lines import Line, Way
from synth.network import Floats, Numbers, Wiring, mesh_link
from synth.protocols import protocols
from synth.worn import by_level, levels_of

_SPLITTING = {Collective.ALL_REDUCE: 2, Collective.REDUCE_SCATTER: 1, Collective.ALL_GATHER: 1}
_TURNS = {
    Collective.ALL_REDUCE: 3,
    Collective.REDUCE_SCATTER: 2,
    Collective.ALL_GATHER: 1,
    Collective.REDUCE: 2,
    Collective.BROADCAST: 1,
}


def check_linked(system: System) -> None:
    """Refuse machines on which messages would pass through devices that are missing. InputError."""
    for level, link in zip(system.hierarchy.levels, system.links, strict=True):
        if link.domain in (Domain.RING, Domain.TORUS):
            raise InputError(
                f"level {level.name!r} is a {link.domain.value}: messages pass through its devices",
                hint="without some of them the ring is broken; describe what is left of it",
            )


def lines_of(
    collective: Collective,
    groups: Sequence[Devices],
    wiring: Wiring,
    choice: Choice = Choice.AUTO,
    *,
    equal: bool = True,
    sizes: Sequence[float] | None = None,
) -> tuple[Line, ...]:
    """What one collective over groups costs by each algorithm and protocol, all groups at once.

    As lines in the size of the largest buffer; ``sizes`` are those of the groups in shares of it.
    Where pieces are not ``equal``, a ring's edge is taken to carry a whole buffer, which it never
    exceeds. The groups' roots are their first members. Those of one member do nothing.
    """
    shares = np.array([1.0] * len(groups) if sizes is None else sizes)
    some = [i for i, group in enumerate(groups) if len(group) > 1]
    shape = _Shape.of([groups[i] for i in some], wiring.system)
    found: list[Line] = []
    for algorithm in _offered(collective, shape, wiring.system, choice, equal):
        loads = _Loads(collective, algorithm, shape, wiring, equal)
        found += loads.lines(shares[some])
    return tuple(found)


@dataclass(frozen=True, eq=False)
class _Shape:
    """Groups in one row of members, and for each level where these are.

    ``whose`` is the group of each member. Level by level: ``parent`` numbers the pairs of group
    and parent, ``m`` says for each pair how many children hold members, ``inside`` how many members
    there are; ``p`` how many members each member's child has, ``rank`` which of the m that is.
    """

    sizes: Numbers
    member: Numbers
    whose: Numbers
    levels: tuple[_Level, ...]

    @classmethod
    def of(cls, groups: Sequence[Devices], system: System) -> _Shape:
        sizes = np.array([len(group) for group in groups], dtype=np.int64)
        member = np.concatenate([np.zeros(0, np.int64), *groups])
        whose = np.repeat(np.arange(len(groups)), sizes)
        roots = np.array([group[0] for group in groups], dtype=np.int64)
        cards = system.hierarchy.cardinalities
        levels = tuple(
            _Level.of(member, whose, roots, cards[level], system.hierarchy.devices_in_child(level))
            for level in range(len(cards))
        )
        return cls(sizes, member, whose, levels)

    def spans(self) -> list[int]:
        return [i for i, level in enumerate(self.levels) if level.m.max(initial=0) > 1]


@dataclass(frozen=True, eq=False)
class _Level:
    parent: Numbers
    owner: Numbers
    m: Numbers
    inside: Numbers
    p: Numbers
    rank: Numbers
    child: Numbers

    @classmethod
    def of(
        cls, member: Numbers, whose: Numbers, roots: Numbers, children: int, devices: int
    ) -> _Level:
        child = member // devices
        first = child == (roots // devices)[whose]
        wide = 1 + int(member.max(initial=0))
        pairs, parent = np.unique(whose * wide + child // children, return_inverse=True)
        # Children of a pair in order, the root's own before the others.
        keys = (parent * 2 + ~first) * wide + child
        held, place = np.unique(keys, return_inverse=True)
        of_pair = held // (2 * wide)
        m = np.bincount(of_pair, minlength=len(pairs))
        begins = np.cumsum(m) - m
        p = np.bincount(place, minlength=len(held))
        inside = np.bincount(parent, minlength=len(pairs))
        return cls(parent, pairs // wide, m, inside, p[place], place - begins[parent], child)


def _offered(
    collective: Collective, shape: _Shape, system: System, choice: Choice, equal: bool
) -> list[Algorithm]:
    links = [system.links[level] for level in shape.spans()]
    has_tree = collective not in (Collective.REDUCE_SCATTER, Collective.ALL_GATHER)
    found = [Algorithm.RING]
    if has_tree:
        found.append(Algorithm.TREE)
    if collective in _SPLITTING and equal:
        found.append(Algorithm.DIRECT)
    reducing = [link.reduces for link in links]
    if links and equal and (any(reducing) if has_tree else all(reducing)):
        found.append(Algorithm.IN_NETWORK)
    if choice is Choice.AUTO:
        return found
    wanted = Algorithm(choice.value)
    return [wanted] if wanted in found else [Algorithm.RING]


class _Loads:
    """One collective by one algorithm, for buffers of one byte."""

    def __init__(
        self,
        collective: Collective,
        algorithm: Algorithm,
        shape: _Shape,
        wiring: Wiring,
        equal: bool,
    ) -> None:
        self._collective, self._algorithm = collective, algorithm
        self._shape, self._wiring, self._equal = shape, wiring, equal
        self._rows: list[Recipe] = [
            recipe_at(collective, algorithm, link.domain, link.reduces)
            for link in wiring.system.links
        ]
        ways = [self._sent_and_received(level) for level in range(len(self._rows))]
        self._sent = [sent for sent, _ in ways]
        self._received = [received for _, received in ways]

    def lines(self, shares: Floats) -> Iterator[Line]:
        """One a protocol; the group that waits longest decides how long is waited."""
        shape, system = self._shape, self._wiring.system
        entries = [(whose, link, each * shares[whose]) for whose, link, each in self._entries()]
        one = gathered(shape.member[:, None], entries, self._wiring)
        carried = np.bincount(one.link, one.carried_bytes, self._wiring.links)
        peaks = [float(carried[a:b].max(initial=0.0)) for a, b in levels_of(self._wiring)]
        busy = tuple(by_level(self._wiring, one.link, one.carried_bytes).tolist())
        spans = shape.spans()
        touched = max((self._touched(level, shares) for level in spans), default=0.0)
        ways = [
            Way(
                self._collective.value,
                self._algorithm,
                tuple(level for level, n in enumerate(waits) if n),
                tuple(peaks),
                busy,
                (1,) * len(waits),
                waits,
                float(touched / system.memory_bytes_per_second),
                (),
                peers,
                self._rounds(),
                self._algorithm is Algorithm.DIRECT,
                in_a_row,
            )
            for waits, peers, in_a_row in self._waiting()
        ]
        known = protocols(system.links[level] for level in spans)
        fitted = system.calibration and system.calibration.protocols
        for protocol in known[:1] if self._algorithm is Algorithm.IN_NETWORK else known:
            if not fitted or protocol.value in fitted:
                lines = [way.line(system, protocol) for way in ways]
                yield max(lines, key=lambda line: line.latency_seconds + line.gap_seconds)

    def _touched(self, level: int, shares: Floats) -> float:
        row = self._rows[level]
        return max(
            (
                share * row.memory(int(k))
                for k, share in zip(self._shape.sizes, shares, strict=True)
            ),
            default=0.0,
        )

    def _switched(self, level: int) -> bool:
        return self._algorithm is Algorithm.IN_NETWORK and self._wiring.system.links[level].reduces

    def _treelike(self, level: int) -> bool:
        """Whether an all-reduce goes up and down double binary trees at a level."""
        return (
            self._algorithm in (Algorithm.TREE, Algorithm.IN_NETWORK)
            and not self._switched(level)
            and self._wiring.system.links[level].domain is Domain.SWITCH
        )

    def _of_child(self, level: int) -> Floats:
        """For each pair of group and parent what its busiest child sends; not for direct."""
        at, collective = self._shape.levels[level], self._collective
        k = self._shape.sizes[at.owner]
        m = at.m.astype(np.float64)
        if self._algorithm is Algorithm.RING and collective in _SPLITTING:
            part = (k - 1) / k if self._equal else 1.0
            edges = np.where(at.inside == k, 1.0, (m - 1) / m)
            each = _SPLITTING[collective] * part * edges
        elif collective is not Collective.ALL_REDUCE:
            each = np.ones_like(m)
        elif self._switched(level):
            each = (m + 1) / m
        elif self._treelike(level):
            each = np.array([tree_peak(int(n)) if n > 1 else 0.0 for n in at.m])
        else:
            each = 2 * (m - 1) / m
        return np.asarray(np.where(at.m > 1, each, 0.0))

    def _sent_and_received(self, level: int) -> tuple[Floats, Floats]:
        """What each member sends and receives across a level."""
        at = self._shape.levels[level]
        if self._algorithm is Algorithm.DIRECT:
            k = self._shape.sizes[self._shape.whose]
            both = _SPLITTING[self._collective] * (at.inside[at.parent] - at.p) / k
            return both, both
        each = (self._of_child(level)[at.parent]) / at.p
        ways = []
        for way in (0, 1):
            table = np.array([self._way(level, int(m), way) for m in at.m], dtype=object)
            factor = np.array(
                [table[a][r] for a, r in zip(at.parent.tolist(), at.rank.tolist(), strict=True)]
            )
            ways.append(each * factor)
        return ways[0], ways[1]

    def _way(self, level: int, m: int, way: int) -> tuple[float, ...]:
        if m == 1:
            return (0.0,)
        if self._switched(level):
            return tuple(through_switch(self._collective, m)[way].tolist())
        return _sums(self._collective, self._rows[level], m)[way]

    def _entries(self) -> Iterator[Entry]:
        """Level by level what members put on links: their groups, the links, the bytes."""
        system, wiring, shape = self._wiring.system, self._wiring, self._shape
        for level, link in enumerate(system.links):
            outer = [j for j in range(level) if level in system.through(j)]
            match link.domain:
                case Domain.SWITCH:
                    ports = wiring.ports(level, shape.member)
                    sent, received = self._through_ports([*outer, level])
                    yield shape.whose, ports, sent
                    yield shape.whose, ports + 1, received
                case Domain.BUS:
                    buses = wiring.buses(level, shape.member)
                    passing = [way[j] for j in outer for way in (self._sent, self._received)]
                    yield shape.whose, buses, np.sum([*passing, self._sent[level]], axis=0)
                case Domain.MESH:
                    yield from self._across(level)

    def _through_ports(self, passing: Sequence[int]) -> tuple[Floats, Floats]:
        """What every member sends and receives on ports of the last of some levels."""
        sent, received = (
            np.sum([way[level] for level in passing], axis=0)
            for way in (self._sent, self._received)
        )
        if not self._rows[passing[-1]].linear:
            return sent, received
        levels = self._shape.levels
        ranks = np.stack([at.rank for at in levels], axis=-1)
        counts = np.stack([at.m[at.parent] for at in levels], axis=-1)
        inside = np.stack([at.p for at in levels], axis=-1)
        linear = cut_ring(self._collective, passing, ranks, counts, inside)
        groups = np.zeros((len(self._shape.sizes), len(levels)), dtype=np.bool_)
        np.logical_or.at(groups, self._shape.whose, counts > 1)
        several = groups[:, passing].sum(axis=1)[self._shape.whose] > 1
        return np.where(several, linear[0], sent), np.where(several, linear[1], received)

    def _across(self, level: int) -> Iterator[Entry]:
        """Messages between the children of one parent, each on its own link of the mesh."""
        at, shape = self._shape.levels[level], self._shape
        children = self._wiring.system.hierarchy.cardinalities[level]
        whole = self._of_child(level)
        for pair in np.flatnonzero(at.m > 1).tolist():
            some = np.flatnonzero(at.parent == pair)
            heads = {int(at.rank[i]): int(i) for i in reversed(some.tolist())}
            order = np.array([heads[r] for r in range(int(at.m[pair]))])
            digits, p = at.child[order] % children, at.p[order]
            k = int(shape.sizes[at.owner[pair]])
            demand = demand_of(self._collective, self._rows[level], len(order)) * whole[pair]
            if self._algorithm is Algorithm.DIRECT:
                demand = _SPLITTING[self._collective] * np.outer(p, p) / k
            here, there = np.nonzero(demand * (1 - np.eye(len(order))))
            base = self._wiring.meshes(level, shape.member[order[:1]])[0]
            links = base + mesh_link(children, digits[here], digits[there])
            yield np.full(len(links), at.owner[pair]), links, demand[here, there]

    def _waiting(self) -> set[tuple[tuple[float, ...], tuple[float, ...], int]]:
        """The ways in which groups wait: messages that wait for each other, and that one sends,
        over each level; how many members are in a row in the innermost.
        """
        levels, groups = self._shape.levels, len(self._shape.sizes)
        waits, peers = np.zeros((2, len(levels), groups))
        in_a_row = np.ones(groups, dtype=np.int64)
        for level, at in enumerate(levels):
            top = at.inside == self._shape.sizes[at.owner]
            if self._algorithm is Algorithm.RING:
                edges = np.where(at.m > 1, at.m - 1 + top, 0) * self._rounds()
                waits[level] = np.bincount(at.owner, edges, groups)
            else:
                pairs = zip(at.m.tolist(), top.tolist(), strict=True)
                np.maximum.at(waits[level], at.owner, [self._depth(level, *pair) for pair in pairs])
            np.maximum.at(peers[level], self._shape.whose, at.inside[at.parent] - at.p)
            most = np.ones(groups, dtype=np.int64)
            np.maximum.at(most, at.owner, at.m)
            in_a_row = np.where(most > 1, most, in_a_row)
        rows = zip(waits.T.tolist(), peers.T.tolist(), in_a_row.tolist(), strict=True)
        return {(tuple(waited), tuple(sent), row) for waited, sent, row in rows}

    def _rounds(self) -> int:
        """How often a ring is gone round, once where it is cut at the root; 0 for all else."""
        ring = self._algorithm is Algorithm.RING
        return _SPLITTING.get(self._collective, 1) if ring else 0

    def _depth(self, level: int, m: int, outermost: bool) -> float:
        """How many messages wait for each other at a level where m children take part.

        Inside of the outermost level a piece on its way to or from the root crosses two children.
        """
        if m < 2:
            return 0.0
        if self._algorithm is Algorithm.DIRECT:
            return float(_SPLITTING[self._collective])
        if self._switched(level):
            return float(_TURNS[self._collective])
        if self._collective is Collective.ALL_REDUCE:
            return 2.0 * (ceil(log2(m)) if self._treelike(level) else m - 1)
        one_way = 1.0 + ceil(log2(m - 1)) if self._treelike(level) else m - 1.0
        return one_way if outermost else 2 * one_way


@cache
def _sums(collective: Collective, row: Recipe, m: int) -> tuple[tuple[float, ...], ...]:
    """What each of m children sends, and receives, in units of what the busiest sends."""
    demand = demand_of(collective, row, m)
    return tuple(demand.sum(axis=1).tolist()), tuple(demand.sum(axis=0).tolist())
