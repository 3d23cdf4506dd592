"""What each group of a phase puts on each link, byte by byte: the recipes made explicit.

``simulator`` knows what the busiest link of each level carries; here every link has its own load.
Both read the same recipes, so where all links of a level carry alike they say the same, and
elsewhere no link carries more than the simulator's busiest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol as Structure

import numpy as np

from grammar import Collective
from hierarchies import Devices, Domain, Hierarchy, InputError
from synth.algorithms import Algorithm, Recipe, recipe_at
from synth.network import Floats, Numbers, Wiring, circle_links, mesh_link
from synth.protocols import Protocol
from synth.schedule import Exchange, Phase


class Way(Structure):
    """How a phase is carried out: what of its price decides its loads."""

    @property
    def algorithm(self) -> Algorithm | None: ...

    @property
    def size_bytes(self) -> float: ...

    @property
    def protocol(self) -> Protocol: ...


@dataclass(frozen=True, eq=False)
class Footprint:
    """The bytes of one segment that the groups of a phase put on links.

    ``groups`` has shape (groups, members); of the other three, entry i says that group
    ``group[i]`` puts ``carried_bytes[i]``, more than 0, on link ``link[i]``. No pair of group and
    link comes twice.
    """

    groups: Devices
    group: Numbers
    link: Numbers
    carried_bytes: Floats


def footprint(phase: Phase, price: Way, wiring: Wiring) -> Footprint:
    """The loads of a phase carried out as its price says: its algorithm, its size.

    Every device of a transpose is a group of its own. Raises InputError for groups that are no
    grids of digits, or not all alike.
    """
    if not isinstance(phase, Exchange):
        devices = phase.devices[:, None]
        whose = np.arange(len(devices))
        memory = (whose, wiring.memories(devices[:, 0]), 2 * price.size_bytes)
        return gathered(devices, [memory], wiring)
    assert price.algorithm is not None
    loads = _Loads(phase, price.algorithm, wiring)
    flagged = price.size_bytes / price.protocol.share
    group, link, each = loads.memory()
    entries = [(group, link, each * price.size_bytes)]
    entries += [(group, link, each * flagged) for group, link, each in loads.links()]
    return gathered(phase.groups, entries, wiring)


Entry = tuple[Numbers, Numbers, Floats | float]
"""Groups, links and the bytes of each, all of one shape or made so."""


def gathered(groups: Devices, entries: Sequence[Entry], wiring: Wiring) -> Footprint:
    """Entries as one, those of the same group and link summed."""
    keys, values = [], []
    for group, link, each in [*entries, *_detoured(entries, wiring)]:
        key = group * wiring.links + link
        keys.append(key.ravel())
        values.append(np.broadcast_to(each, key.shape).ravel())
    whole, where = np.unique(np.concatenate(keys), return_inverse=True)
    summed = np.bincount(where, np.concatenate(values), len(whole)).astype(np.float64)
    some = summed > 0
    group, link = np.divmod(whole[some], wiring.links)
    return Footprint(groups, group, link, summed[some])


def _detoured(entries: Sequence[Entry], wiring: Wiring) -> Iterator[Entry]:
    """What is put on missing links once more, on the links that carry it instead."""
    for missing, others in wiring.detours.items():
        for group, link, each in entries:
            group, each = np.broadcast_to(group, link.shape), np.broadcast_to(each, link.shape)
            some = link == missing
            for other, share in others:
                yield group[some], np.full(int(some.sum()), other), share * each[some]


@dataclass(frozen=True, eq=False)
class _Grid:
    """Groups as grids of digits.

    ``counts``: for each level how many children of one parent hold members of one group;
    ``ranks``, shape (members, levels): which of those a member is in; ``children[level]``, shape
    (groups, counts[level]): their digits.
    """

    counts: tuple[int, ...]
    ranks: Numbers
    children: tuple[Numbers, ...]

    @classmethod
    def of(cls, groups: Devices, hierarchy: Hierarchy) -> _Grid:
        digits = np.stack(np.unravel_index(groups, hierarchy.cardinalities), axis=-1)
        ranks, children = [], []
        for level in range(digits.shape[-1]):
            column = digits[:, :, level]
            _, first, rank = np.unique(column[0], return_index=True, return_inverse=True)
            held = column[:, first]
            if (column != held[:, rank]).any() or (np.diff(held, axis=1) <= 0).any():
                raise InputError("the groups of a phase differ in shape")
            ranks.append(rank)
            children.append(held)
        counts = tuple(held.shape[1] for held in children)
        places = np.ravel_multi_index(ranks, counts)
        if len(np.unique(places)) != prod(counts) or len(places) != prod(counts):
            raise InputError(f"a group of {len(places)} devices that are no grid of digits")
        return cls(counts, np.stack(ranks, axis=-1), tuple(children))


class _Loads:
    """The loads of an exchange, for buffers of one byte."""

    def __init__(self, phase: Exchange, algorithm: Algorithm, wiring: Wiring) -> None:
        system = wiring.system
        self._wiring, self._system, self._groups = wiring, system, phase.groups
        self._collective = phase.collective
        self._whose = np.broadcast_to(np.arange(len(phase.groups))[:, None], phase.groups.shape)
        self._grid = _Grid.of(phase.groups, system.hierarchy)
        counts = self._grid.counts
        self._rows: list[Recipe] = [
            recipe_at(phase.collective, algorithm, link.domain, link.reduces)
            for link in system.links
        ]
        self._demands: list[Floats] = []
        self._sent: list[Floats] = []
        self._received: list[Floats] = []
        for level, row in enumerate(self._rows):
            m, rank = counts[level], self._grid.ranks[:, level]
            crossing = row.crossing(counts, level) if m > 1 else 0.0
            switched = algorithm is Algorithm.IN_NETWORK and system.links[level].reduces
            self._demands.append(crossing * demand_of(phase.collective, row, m))
            sent, received = (
                (crossing * way for way in through_switch(phase.collective, m))
                if switched
                else (self._demands[-1].sum(axis=1), self._demands[-1].sum(axis=0))
            )
            self._sent.append(sent[rank])
            self._received.append(received[rank])

    def memory(self) -> Entry:
        """What every member reads and writes."""
        counts = self._grid.counts
        spans = zip(self._rows, counts, strict=True)
        touched = max((row.memory(prod(counts)) for row, m in spans if m > 1), default=0.0)
        return self._whose, self._wiring.memories(self._groups), touched

    def links(self) -> Iterator[Entry]:
        """Level by level what every member puts on links."""
        whose, counts = self._whose, self._grid.counts
        for level, link in enumerate(self._system.links):
            outer = [j for j in range(level) if level in self._system.through(j)]
            match link.domain:
                case Domain.SWITCH:
                    ports = self._wiring.ports(level, self._groups)
                    sent, received = self._through_ports([*outer, level])
                    yield whose, ports, sent
                    yield whose, ports + 1, received
                case Domain.BUS:
                    buses = self._wiring.buses(level, self._groups)
                    passing = [way[j] for j in outer for way in (self._sent, self._received)]
                    yield whose, buses, np.sum([*passing, self._sent[level]], axis=0)
                case _ if counts[level] > 1:
                    yield from self._messages(level, link.domain)

    def _through_ports(self, passing: Sequence[int]) -> tuple[Floats, Floats]:
        """What every member sends and receives on ports of the last of some levels."""
        counts, ranks = self._grid.counts, self._grid.ranks
        several = sum(counts[level] > 1 for level in passing) > 1
        if self._rows[passing[-1]].linear and several:
            inside = [prod(counts[level + 1 :]) for level in range(len(counts))]
            widths = (np.broadcast_to(each, ranks.shape) for each in (counts, inside))
            return cut_ring(self._collective, passing, ranks, *widths)
        sent, received = (
            np.sum([way[level] for level in passing], axis=0)
            for way in (self._sent, self._received)
        )
        return sent, received

    def _messages(self, level: int, domain: Domain) -> Iterator[Entry]:
        """Messages among the children of one parent, on the links between those."""
        heads = self._groups[:, self._grid.ranks[:, level] == 0]
        mesh = domain is Domain.MESH
        size = self._system.hierarchy.cardinalities[level]
        demand = self._demands[level]
        bases = (self._wiring.meshes if mesh else self._wiring.circles)(level, heads)
        held = self._grid.children[level]
        for children in np.unique(held, axis=0):
            loads = (_across if mesh else _around)(size, children, demand)
            [used] = np.nonzero(loads)
            [alike] = np.nonzero((held == children).all(axis=1))
            links = bases[alike][:, :, None] + used
            yield np.broadcast_to(alike[:, None, None], links.shape), links, loads[used]


def demand_of(collective: Collective, row: Recipe, m: int) -> Floats:
    """Who of m children sends how much to whom, in units of what the busiest sends.

    The first sends nothing in a reduce and gets nothing in a broadcast, whatever is said of a mesh.
    """
    demand = np.array(row.demand(m)) if m > 1 else np.zeros((1, 1))
    if collective is Collective.REDUCE:
        demand[0] = 0.0
    if collective is Collective.BROADCAST:
        demand[:, 0] = 0.0
    return demand


def through_switch(collective: Collective, m: int) -> tuple[Floats, Floats]:
    """The same where the switch adds up and copies: sums are pulled, results are sent once."""
    all_of_it, own_piece, first = np.ones(m), np.full(m, 1 / m), np.eye(m)[0]
    match collective:
        case Collective.REDUCE_SCATTER:
            return all_of_it, own_piece
        case Collective.ALL_GATHER:
            return own_piece, all_of_it
        case Collective.REDUCE:
            return all_of_it, first
        case Collective.BROADCAST:
            return first, all_of_it
        case _:
            return all_of_it, all_of_it


def cut_ring(
    collective: Collective, passing: Sequence[int], ranks: Numbers, counts: Numbers, inside: Numbers
) -> tuple[Floats, Floats]:
    """What members of rooted chains send and receive on ports that several levels pass.

    ``ranks``, ``counts`` and ``inside``, shape (members, levels): which of how many children of one
    parent a member is in, of how many members that child is; the root is the first everywhere. Each
    chain is a ring in member order cut open at the root, and begins in each child at another of its
    members: all but the root send each piece on once, all but the last in the ring get it once.
    """
    several = counts > 1
    edges = np.where(several, (counts - 1) / counts, 0.0) / inside
    outermost = several & (np.cumsum(several, axis=1) == 1)
    edges = np.where(outermost, 1 / inside, edges)
    each = np.where(several, 1 / inside, 0.0)[:, passing].max(axis=1)
    sent = np.where((ranks == 0).all(axis=1), 0.0, each)
    received = each.copy()
    for level in passing:
        first, last = ranks[:, :level] == 0, ranks[:, level:] == counts[:, level:] - 1
        ends = first.all(axis=1) & last.all(axis=1)
        received -= np.where(ends, edges[:, level], 0.0)
    received = np.maximum(received, 0.0)
    return (received, sent) if collective is Collective.BROADCAST else (sent, received)


def _across(size: int, children: Numbers, demand: Floats) -> Floats:
    """The loads of a mesh's links: every message has one of its own."""
    loads = np.zeros(size * (size - 1))
    here, there = np.nonzero(demand)
    loads[mesh_link(size, children[here], children[there])] = demand[here, there]
    return loads


def _around(size: int, children: Numbers, demand: Floats) -> Floats:
    """The loads of a circle's links, forth and back by turns.

    Messages go the shorter way, half and half where both are as short.
    """
    here, there = np.nonzero(demand)
    weight = demand[here, there]
    source, target = children[here], children[there]
    if size == 2:
        return np.bincount(source, weight, 2).astype(np.float64)
    ahead = (target - source) % size
    forth = np.where(2 * ahead < size, weight, np.where(2 * ahead == size, weight / 2, 0.0))
    loads = np.empty((circle_links(size), 2))
    loads[:, 0] = _covered(size, source, ahead, forth)
    loads[:, 1] = _covered(size, target, size - ahead, weight - forth)
    return loads.ravel()


def _covered(size: int, first: Numbers, length: Numbers, weight: Floats) -> Floats:
    """What lies on each link of a circle, of messages by first link, length and weight."""
    change = np.zeros(2 * size)
    np.add.at(change, first, weight)
    np.add.at(change, first + length, -weight)
    twice = np.cumsum(change)
    return np.asarray(twice[:size] + twice[size:])
