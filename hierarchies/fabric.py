"""Who shares which link: devices behind a port, and routes inside one domain.

All devices of a hierarchy look alike, so one child, or one domain, stands for all: nothing here
grows with the number of devices, only with the number of children of one level.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hierarchies.reduction import Reduction
from hierarchies.system import Domain

Weights = npt.NDArray[np.float64]


class Role(Enum):
    """What a part of a level's digit does in an instruction.

    FREE: it varies inside a group; ZERO: it must be 0 to take part; FIXED: it tells groups apart.
    """

    FREE = "free"
    ZERO = "zero"
    FIXED = "fixed"


@dataclass(frozen=True)
class Slot:
    """A part of a level's digit with its role; neighbours of the same role are one."""

    size: int
    role: Role


Cast = tuple[tuple[Slot, ...], ...]
"""For each level, outermost first, its slots, slowest first."""


def cast(reduction: Reduction, free: tuple[int, ...], zero: tuple[int, ...]) -> Cast:
    """The roles that the digits of an instruction give to the parts of every level."""

    def role(digit: int | None) -> Role:
        if digit in free:
            return Role.FREE
        return Role.ZERO if digit in zero else Role.FIXED

    levels = []
    for parts in reduction.parts:
        slots: list[Slot] = []
        for part in parts:
            size, what = part.size, role(part.digit)
            if slots and slots[-1].role is what:
                size *= slots.pop().size
            slots.append(Slot(size, what))
        levels.append(tuple(slots))
    return tuple(levels)


def members(slots: tuple[Slot, ...]) -> int:
    """How many children of one parent at this level hold members of one group."""
    count = 1
    for slot in slots:
        count *= slot.size if slot.role is Role.FREE else 1
    return count


def playing(slots: tuple[Slot, ...]) -> npt.NDArray[np.bool_]:
    """Which children of one parent take part at all, by number."""
    table = np.ones(1, dtype=np.bool_)
    for slot in slots:
        alive = np.ones(slot.size, dtype=np.bool_)
        if slot.role is Role.ZERO:
            alive[1:] = False
        table = (table[:, None] & alive[None, :]).reshape(-1)
    return table


def busiest_block(levels: Cast, block: int) -> int:
    """The most devices that take part among ``block`` neighbours, aligned, of the inner levels.

    ``levels`` are the levels inside the child, outermost first. (System checks that a block is
    whole children of one of them.)
    """
    count = 1
    for slots in reversed(levels):
        alive = playing(slots)
        if block % len(alive) == 0:
            count *= int(alive.sum())
            block //= len(alive)
        else:
            return count * int(alive.reshape(-1, block).sum(axis=1).max())
    return count


@cache
def _routes(domain: Domain, children: int) -> tuple[Weights, npt.NDArray[np.int64]]:
    """For every two children the share of a message on each directed link, and its hops.

    Messages take the shortest paths, in equal shares where there are several.
    Shapes (children, children, links) and (children, children).
    """
    import networkx as nx  # a fifth of a second that systems of switches need not wait for

    graph = nx.complete_graph(children) if domain is Domain.MESH else nx.cycle_graph(children)
    links = {edge: number for number, edge in enumerate(graph.to_directed().edges)}
    shares = np.zeros((children, children, max(1, len(links))))
    hops = np.zeros((children, children), dtype=np.int64)
    for source in graph:
        for target in graph:
            if source == target:
                continue
            paths = list(nx.all_shortest_paths(graph, source, target))
            hops[source, target] = len(paths[0]) - 1
            for path in paths:
                for edge in pairwise(path):
                    shares[source, target, links[edge]] += 1 / len(paths)
    return shares, hops


@dataclass(frozen=True)
class Load:
    """What messages among children cost a domain.

    ``peak``: what the busiest link carries, if what one child sends counts 1; ``hops``: the
    longest way a message goes.
    """

    peak: float
    hops: int


def load(domain: Domain, slots: tuple[Slot, ...], demand: Weights) -> Load:
    """Route the messages of all groups of one domain.

    ``demand[i, j]`` is what the i-th member child of every group sends to the j-th, in units of
    what the busiest child sends. For any domain but a switch.
    """
    alive = playing(slots)
    groups = groups_of_children(slots)
    if domain is Domain.BUS:
        return Load(float(demand.sum()) * len(groups), 1)
    shares, hops = _routes(domain, len(alive))
    total = np.zeros(shares.shape[2])
    longest = 1
    for children in groups:
        total += np.einsum("ij,ijl->l", demand, shares[np.ix_(children, children)])
        longest = max(longest, int((hops[np.ix_(children, children)] * (demand > 0)).max()))
    return Load(float(total.max()), longest)


def groups_of_children(slots: tuple[Slot, ...]) -> npt.NDArray[np.int64]:
    """The children of each group of one parent, shape (groups, members)."""
    numbers = np.arange(int(np.prod([slot.size for slot in slots], dtype=np.int64)))
    grid = numbers.reshape([slot.size for slot in slots])
    for axis, slot in enumerate(slots):
        if slot.role is Role.ZERO:
            grid = grid.take([0], axis=axis)
    fixed = [axis for axis, slot in enumerate(slots) if slot.role is not Role.FREE]
    free = [axis for axis, slot in enumerate(slots) if slot.role is Role.FREE]
    return grid.transpose(fixed + free).reshape(-1, members(slots))
