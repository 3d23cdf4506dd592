"""The bytes that each group of a phase puts on each link: the recipes made explicit.

``price.step_prices`` knows the load of the busiest link of each level; here every link has its own
load. Both read the same recipes: where all links of a level carry equal loads they agree, and
elsewhere no link carries more than the simulator's busiest. Groups are explicit; a grid is the
special case of identical groups under every parent, so one engine serves both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol as Structure

import numpy as np

from grammar import Collective
from hierarchies import Domain
from hierarchies.links import Floats, Numbers, Wiring, circle_links, mesh_link
from synth.collective.algorithms.algorithms import Algorithm, AlgorithmRecipe, recipes
from synth.collective.algorithms.protocols import Protocol
from synth.collective.algorithms.traffic import GroupShape, cut_ring, through_switch
from synth.collective.semantics.schedule import Exchange, GroupList, Phase


class PhaseLoadKey(Structure):
    """How a phase is executed: the facts of its price that determine its loads."""

    @property
    def algorithm(self) -> Algorithm | None: ...

    @property
    def size_bytes(self) -> float: ...

    @property
    def protocol(self) -> Protocol: ...


@dataclass(frozen=True, eq=False)
class Footprint:
    """The bytes of one segment that the groups of a phase put on links.

    ``groups`` are lists of devices. Of the other three, entry i says that group ``group[i]`` puts
    ``carried_bytes[i]``, more than 0, on link ``link[i]``. No pair of group and link appears twice.
    """

    groups: list[list[int]]
    group: Numbers
    link: Numbers
    carried_bytes: Floats


def footprint(phase: Phase, price: PhaseLoadKey, wiring: Wiring) -> Footprint:
    """The loads of a phase executed as its price says: its algorithm, protocol and size.

    Every device of a transpose is a group of its own. Raises InputError for groups in a grid that
    are no grids of digits, or not all alike.
    """
    if not isinstance(phase, Exchange):
        owner = np.arange(len(phase.devices))
        memory = (owner, wiring.memories(phase.devices), 2 * price.size_bytes)
        return merge_entries(phase.devices[:, None].tolist(), [memory], wiring)
    assert price.algorithm is not None
    shape = GroupShape.of(wiring.system.hierarchy, phase.among)
    if not isinstance(phase.among, GroupList):
        shape.check_grids()
    loads = Loads(phase.collective, price.algorithm, shape, wiring)
    flagged = price.size_bytes / price.protocol.share
    memories = wiring.memories(shape.member)
    entries: list[Entry] = [
        (shape.whose, memories, loads.touched()[shape.whose] * price.size_bytes)
    ]
    entries += [(group, link, load * flagged) for group, link, load in loads.entries()]
    return merge_entries(phase.listed, entries, wiring)


Entry = tuple[Numbers, Numbers, Floats | float]
"""Groups, links and their bytes, in arrays of one shape or broadcastable to it."""


def sum_by_link(entries: Sequence[Entry], wiring: Wiring) -> Floats:
    """The bytes of all entries together on every link; shape (links,)."""
    carried = np.zeros(wiring.links)
    for _, link, load in [*entries, *_detour_loads(entries, wiring)]:
        carried += np.bincount(link, np.broadcast_to(load, link.shape), wiring.links)
    return carried


def merge_entries(groups: list[list[int]], entries: Sequence[Entry], wiring: Wiring) -> Footprint:
    """Merges entries, summing those of the same group and link."""
    keys, values = [], []
    for group, link, load in [*entries, *_detour_loads(entries, wiring)]:
        key = group * wiring.links + link
        keys.append(key.ravel())
        values.append(np.broadcast_to(load, key.shape).ravel())
    unique, position = np.unique(np.concatenate(keys), return_inverse=True)
    summed = np.bincount(position, np.concatenate(values), len(unique)).astype(np.float64)
    loaded = summed > 0
    group, link = np.divmod(unique[loaded], wiring.links)
    return Footprint(groups, group, link, summed[loaded])


def _detour_loads(entries: Sequence[Entry], wiring: Wiring) -> Iterator[Entry]:
    """The load of each missing link, on the links that carry it instead."""
    for missing, others in wiring.detours.items():
        for group, link, load in entries:
            group, load = np.broadcast_to(group, link.shape), np.broadcast_to(load, link.shape)
            affected = link == missing
            for other, share in others:
                yield group[affected], np.full(int(affected.sum()), other), share * load[affected]


class Loads:
    """The loads of one collective over groups, for buffers of one byte in the largest.

    A recipe describes a level; here each parent is counted by itself. Of its children m hold
    members of the group, the child at hand holds p, and the bytes that this child passes on are
    spread evenly over these p. Rings of devices and halving need groups that are grids.
    """

    def __init__(
        self, collective: Collective, algorithm: Algorithm, shape: GroupShape, wiring: Wiring
    ) -> None:
        self.collective, self.algorithm = collective, algorithm
        self.shape, self.wiring = shape, wiring
        self._rows = recipes(collective, algorithm, wiring.system, shape.most)
        passing = [self._member_loads(level) for level in range(len(self._rows))]
        self._crossing, self._sent, self._received = zip(*passing, strict=True)

    def _member_loads(self, level: int) -> tuple[Floats, Floats, Floats]:
        """The bytes sent by members of the busiest child, and sent and received by each member."""
        row, rank = self._rows[level], self.shape.levels[level].rank
        places, place_of = self.shape.places(level)
        wide = max((at.children for at in places), default=1)
        crossing, shares = np.zeros(len(places)), np.zeros((2, len(places), wide))
        reduces = self.wiring.system.links[level].reduces
        switched = self.algorithm is Algorithm.IN_NETWORK and reduces
        for number, at in enumerate(places):
            if at.children > 1:
                crossing[number] = row.passed(at)
                shares[:, number, : at.children] = _shares(
                    self.collective, row, at.children, switched
                )
        sent, received = crossing[place_of] * shares[:, place_of, rank]
        return crossing[place_of], sent, received

    def touched(self) -> Floats:
        """The bytes that every member of each group reads and writes in its memory."""
        sizes, size_of = np.unique(self.shape.sizes, return_inverse=True)
        rows = [self._rows[level] for level in self.shape.spans]
        per_size = [max(row.memory(k) for row in rows) if k > 1 else 0.0 for k in sizes.tolist()]
        touched: Floats = np.array(per_size)[size_of.reshape(-1)]
        return touched if self.shape.shares is None else touched * self.shape.shares

    def waits(self, level: int) -> Floats:
        """The number of messages of each group that wait for each other across a level."""
        at, row = self.shape.levels[level], self._rows[level]
        places, place_of = self.shape.places(level)
        of_pair = np.zeros(len(at.m), dtype=np.int64)
        of_pair[at.parent] = place_of
        waiting = np.array([row.waited(place) if place.children > 1 else 0.0 for place in places])[
            of_pair
        ]
        if row.in_turn:
            return np.ceil(np.bincount(at.owner, waiting, len(self.shape.sizes)))
        waits = np.zeros(len(self.shape.sizes))
        np.maximum.at(waits, at.owner, waiting)
        return waits

    def entries(self) -> Iterator[Entry]:
        """Yields, level by level, the loads of members: their groups, the links, the bytes."""
        shares = self.shape.shares
        for group, link, load in self._unit_entries():
            yield group, link, load if shares is None else load * shares[group]

    def _unit_entries(self) -> Iterator[tuple[Numbers, Numbers, Floats]]:
        """The entries if every group had buffers of one byte."""
        owner, member = self.shape.whose, self.shape.member
        wiring, system = self.wiring, self.wiring.system
        for level, link in enumerate(system.links):
            outer = [j for j in range(level) if level in system.through(j)]
            match link.domain:
                case Domain.SWITCH:
                    ports = wiring.ports(level, member)
                    sent, received = self._through_ports([*outer, level])
                    if self.algorithm.over_ports and system.is_shared_unevenly(level):
                        sent = self._spread_over_ports(level, ports, sent)
                        received = self._spread_over_ports(level, ports, received)
                    if self.algorithm.over_ports and wiring.ports_left(level) is not None:
                        sent = self._spread_over_channels(level, ports, sent)
                        received = self._spread_over_channels(level, ports, received)
                    yield owner, ports, sent
                    yield owner, ports + 1, received
                case Domain.BUS:
                    buses = wiring.buses(level, member)
                    passing = [
                        direction[j] for j in outer for direction in (self._sent, self._received)
                    ]
                    yield owner, buses, np.sum([*passing, self._sent[level]], axis=0)
                case Domain.MESH:
                    size = system.hierarchy.cardinalities[level]
                    sender, here, there, load = self._messages(level, size)
                    links = wiring.meshes(level, member[sender]) + mesh_link(size, here, there)
                    yield owner[sender], links, load
                case Domain.RING | Domain.TORUS:
                    size = system.hierarchy.cardinalities[level]
                    sender, here, there, load = self._messages(level, size)
                    circles = owner[sender] * wiring.links + wiring.circles(level, member[sender])
                    passed = route_around_circles(size, circles, here, there, load, link.wraps)
                    for circle, link_there, circle_load in passed:
                        yield *np.divmod(circle + link_there, wiring.links), circle_load

    def _spread_over_ports(self, level: int, ports: Numbers, load: Floats) -> Floats:
        """The same bytes of each group out of each child, spread evenly over ports of its members.

        Member by member one of two ports of three members would carry twice as much.
        """
        groups = self.shape.whose
        children = self.shape.member // self.shape.hierarchy.devices_in_child(level)
        many = self.wiring.links
        _, unit = np.unique(groups * many + children, return_inverse=True)
        _, first, reached = np.unique(groups * many + ports, return_index=True, return_inverse=True)
        port_count = np.bincount(unit[first])
        each = np.bincount(unit, load) / port_count
        return np.asarray(each[unit] / np.bincount(reached)[reached])

    def _spread_over_channels(self, level: int, ports: Numbers, load: Floats) -> Floats:
        """The same bytes out of each child of a group, on as many ports as the poorest child has.

        A communicator of NCCL has one number of channels, the least that any rank found
        (src/init.cc), and each goes through one NIC of every node. Groups with a child whose ports
        are all missing keep to the ports of their members, which have detours.
        """
        left = self.wiring.ports_left(level)
        assert left is not None
        groups, many = self.shape.whose, self.wiring.links
        children = self.shape.member // self.shape.hierarchy.devices_in_child(level)
        units, unit = np.unique(groups * many + children, return_inverse=True)
        _, first, reached = np.unique(groups * many + ports, return_index=True, return_inverse=True)
        number = (ports[first] - self.wiring.firsts[level]) // 2
        of_port, here = left[number], unit[first]
        of_unit = np.bincount(here, of_port)
        channels = np.full(len(self.shape.sizes), np.inf)
        np.minimum.at(channels, units // many, of_unit)
        # Ports come in the order of their numbers, unit by unit, and fill up one after another.
        order = np.lexsort((number, here))
        before = np.empty(len(order))
        before[order] = np.cumsum(of_port[order]) - of_port[order]
        before -= (np.cumsum(of_unit) - of_unit)[here]
        most = channels[groups[first]]
        taken = np.clip(most - before, 0, of_port)
        each = np.bincount(unit, load)[here] * taken / np.maximum(most, 1)
        spread = (each / np.bincount(reached))[reached]
        return np.where(channels[groups] > 0, spread, load)

    def _through_ports(self, passing: Sequence[int]) -> tuple[Floats, Floats]:
        """The bytes every member sends and receives on ports of the last of ``passing`` levels."""
        sent, received = (
            np.sum([direction[level] for level in passing], axis=0)
            for direction in (self._sent, self._received)
        )
        crossed = [level for level in passing if level in self.shape.spans]
        if not self._rows[passing[-1]].linear or len(crossed) < 2:
            return sent, received
        levels, groups = self.shape.levels, len(self.shape.sizes)
        ranks = np.stack([at.rank for at in levels], axis=-1)
        counts = np.stack([at.m[at.parent] for at in levels], axis=-1)
        inside = np.stack([at.p for at in levels], axis=-1)
        linear = cut_ring(self.collective, passing, ranks, counts, inside)
        across = np.zeros(groups, dtype=np.int64)
        for at in (levels[level] for level in crossed):
            across += np.bincount(at.owner, at.m > 1, groups) > 0
        multilevel = (across > 1)[self.shape.whose]
        return np.where(multilevel, linear[0], sent), np.where(multilevel, linear[1], received)

    def _messages(self, level: int, size: int) -> tuple[Numbers, Numbers, Numbers, Floats]:
        """Messages of members to other children of their parent: the senders, from and to which
        child, the bytes. A direct exchange sends more to children that hold more members.
        """
        at, row = self.shape.levels[level], self._rows[level]
        wide = int(at.m.max(initial=1))
        digits, held = np.zeros((2, len(at.m), wide), dtype=np.int64)
        digits[at.parent, at.rank], held[at.parent, at.rank] = at.child % size, at.p
        rows = []
        for m in np.unique(at.m[at.m > 1]).tolist():
            [senders] = np.nonzero(at.m[at.parent] == m)
            demand = demand_of(self.collective, row, m)
            here, there = np.nonzero(demand)
            degree = np.bincount(here, minlength=m)
            sends = degree[at.rank[senders]]
            sender = np.repeat(senders, sends)
            turn = np.arange(len(sender)) - np.repeat(np.cumsum(sends) - sends, sends)
            receiver = there[(np.cumsum(degree) - degree)[at.rank[sender]] + turn]
            pair = at.parent[sender]
            share = demand[at.rank[sender], receiver]
            if row.at_once:
                share = held[pair, receiver] / (at.inside[pair] - at.p[sender])
            here = at.child[sender] % size
            rows.append(
                (sender, here, digits[pair, receiver], self._crossing[level][sender] * share)
            )
        # np.concatenate needs at least one array, and there may be no messages at this level.
        none = np.zeros(0, dtype=np.int64)
        batches = [(none, none, none, np.zeros(0)), *rows]
        sender, here, there, load = map(np.concatenate, zip(*batches, strict=True))
        return sender, here, there, load


@cache
def _shares(
    collective: Collective, row: AlgorithmRecipe, m: int, switched: bool
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The bytes each of m children sends and receives, in units of the bytes the busiest sends."""
    demand = demand_of(collective, row, m)
    exchanged = demand.sum(axis=1), demand.sum(axis=0)
    sent, received = through_switch(collective, m) if switched else exchanged
    return tuple(sent.tolist()), tuple(received.tolist())


def demand_of(collective: Collective, row: AlgorithmRecipe, m: int) -> Floats:
    """The traffic matrix among m children, in units of the bytes that the busiest sends.

    The first sends nothing in a reduce and receives nothing in a broadcast, even in a mesh.
    """
    demand = np.array(row.demand(m))
    if collective is Collective.REDUCE:
        demand[0] = 0.0
    if collective is Collective.BROADCAST:
        demand[:, 0] = 0.0
    return demand


def route_around_circles(
    size: int, circle: Numbers, source: Numbers, target: Numbers, weight: Floats, wraps: bool
) -> Iterator[tuple[Numbers, Numbers, Floats]]:
    """Yields the load of messages on the links of circles, per direction: circle, link, bytes.

    Messages take the shorter way, split where both are equally short; a line has only one way.
    """
    # Between two devices both ways around coincide: there is one link for each direction.
    if size == 2:
        yield circle, source, weight
        return
    circles, row = np.unique(circle, return_inverse=True)
    ahead = (target - source) % size
    shorter = np.where(2 * ahead < size, 1.0, np.where(2 * ahead == size, 0.5, 0.0))
    forth = weight * (shorter if wraps else target > source)
    for direction, first, length, part in (
        (0, source, ahead, forth),
        (1, target, size - ahead, weight - forth),
    ):
        change = np.zeros((len(circles), 2 * size))
        np.add.at(change, (row, first), part)
        np.add.at(change, (row, first + length), -part)
        twice = np.cumsum(change, axis=1)
        loads = (twice[:, :size] + twice[:, size:])[:, : circle_links(size, wraps)]
        row_of, used = np.nonzero(loads)
        yield circles[row_of], 2 * used + direction, loads[row_of, used]
