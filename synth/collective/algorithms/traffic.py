"""Traffic matrices among the children of one parent: circles, chains, pairs, two trees.

Each pattern is a matrix for m children, row to column, in units of the bytes that the busiest
sends. A ``GroupPlace`` describes how the members of a group are placed under that parent, a
``GroupShape`` how they are placed under all parents of all levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import prod

import numpy as np

from grammar import Collective
from hierarchies import Devices, Hierarchy, InputError
from hierarchies.fabric import Weights
from hierarchies.links import Floats, Numbers
from synth.collective.semantics.schedule import GroupList

Members = tuple[int, ...]


@dataclass(frozen=True)
class GroupPlace:
    """How the members of a group are placed under one parent of a level, seen from one child.

    The group has ``group`` members, ``parent`` of them under this parent, spread over ``children``
    of its children, and ``child`` of them in the child at hand: for 16 GPUs on two nodes, seen from
    one node, 16, 16, 2 and 8. Where pieces are not ``equal``, a piece may be nearly the whole
    buffer.
    """

    group: int
    parent: int
    children: int
    child: int
    equal: bool = True

    @classmethod
    def of(cls, members: Members, level: int) -> GroupPlace:
        """The place of any member of a grid, where all members are alike."""
        inside = prod(members[level + 1 :])
        return cls(prod(members), members[level] * inside, members[level], inside)

    @property
    def outermost(self) -> bool:
        """Whether the whole group is under this parent."""
        return self.parent == self.group

    @property
    def part(self) -> float:
        """The share of the buffer that a member does not own itself."""
        return (self.group - 1) / self.group if self.equal else 1.0

    @property
    def edges(self) -> float:
        """The edges of a ring in member order between children of this parent, per child.

        The outermost level that the group spans also closes the ring. Every device takes its turn
        at each border, so inner levels have m - 1 edges shared by m children.
        """
        return 1.0 if self.outermost else (self.children - 1) / self.children


@dataclass(frozen=True, eq=False)
class LevelMembers:
    """Where the members of all groups are at one level.

    A *pair* is a group and a parent under which it has members. For each pair, ``owner`` is its
    group, ``m`` the number of children that hold members, ``inside`` the number of members. For
    each member, ``parent`` is the number of its pair, ``child`` the child it is in, ``rank`` that
    child's number among the m (the root's own is the first), and ``p`` the number of members in
    that child.
    """

    parent: Numbers
    owner: Numbers
    m: Numbers
    inside: Numbers
    p: Numbers
    rank: Numbers
    child: Numbers

    @classmethod
    def of(cls, shape: GroupShape, roots: Numbers, children: int, devices: int) -> LevelMembers:
        child = shape.member // devices
        first = child == (roots // devices)[shape.whose]
        stride = 1 + int(shape.member.max(initial=0))
        pairs, parent = np.unique(shape.whose * stride + child // children, return_inverse=True)
        # Children of a pair in order, the root's own before the others.
        keys = (parent * 2 + ~first) * stride + child
        held, child_of = np.unique(keys, return_inverse=True)
        m = np.bincount(held // (2 * stride), minlength=len(pairs))
        begins = np.cumsum(m) - m
        p = np.bincount(child_of, minlength=len(held))
        inside = np.bincount(parent, minlength=len(pairs))
        return cls(
            parent, pairs // stride, m, inside, p[child_of], child_of - begins[parent], child
        )


@dataclass(frozen=True, eq=False)
class GroupShape:
    """Groups of devices as one array of all their members, and where these are in a hierarchy.

    ``sizes`` are the groups' numbers of members, ``whose`` is the group of each member. A group may
    have any number of members in any unit; the first is its root. ``shares`` and ``equal`` are
    those of a ``GroupList``; in grids all groups have buffers of one size.
    """

    hierarchy: Hierarchy
    sizes: Numbers
    member: Numbers
    shares: Floats | None = None
    equal: bool = True

    @classmethod
    def of(cls, hierarchy: Hierarchy, among: Devices | GroupList) -> GroupShape:
        """The groups of a grid, or of a list."""
        if not isinstance(among, GroupList):
            return cls(hierarchy, np.full(*among.shape), among.ravel())
        sizes = np.array([len(group) for group in among.groups])
        members = np.fromiter(chain(*among.groups), np.int64)
        return cls(hierarchy, sizes, members, np.array(among.shares), among.equal)

    @cached_property
    def whose(self) -> Numbers:
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @cached_property
    def levels(self) -> tuple[LevelMembers, ...]:
        roots = self.member[np.cumsum(self.sizes) - self.sizes]
        return tuple(
            LevelMembers.of(self, roots, children, self.hierarchy.devices_in_child(level))
            for level, children in enumerate(self.hierarchy.cardinalities)
        )

    @cached_property
    def most(self) -> Members:
        """For each level, the most children of one parent in which a group has members."""
        return tuple(int(level.m.max(initial=0)) for level in self.levels)

    @property
    def spans(self) -> tuple[int, ...]:
        """The levels at which some group has members in several children of one parent."""
        return tuple(level for level, m in enumerate(self.most) if m > 1)

    def places(self, level: int) -> tuple[list[GroupPlace], Numbers]:
        """The distinct places of members at a level, and the number of each member's place."""
        at = self.levels[level]
        columns = (self.sizes[self.whose], at.inside[at.parent], at.m[at.parent], at.p)
        if all((column == column[:1]).all() for column in columns):
            rows, place_of = np.array([column[:1] for column in columns]).T, np.zeros_like(at.p)
        else:
            rows, place_of = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        places = [GroupPlace(k, q, m, p, self.equal) for k, q, m, p in rows.tolist()]
        return places, place_of.reshape(-1)

    def check_grids(self) -> None:
        """Raises InputError for groups that are no grids of digits, or not all alike."""
        count = int(self.sizes[0])
        if prod(int(at.m[0]) for at in self.levels) != count:
            raise InputError(f"a group of {count} devices that are no grid of digits")
        for at, children in zip(self.levels, self.hierarchy.cardinalities, strict=True):
            ranks, digits = (x.reshape(-1, count) for x in (at.rank, at.child % children))
            heads = digits[:, np.unique(ranks[0], return_index=True)[1]]
            alike = (at.m == at.m[0]).all() and (ranks == ranks[0]).all()
            if not alike or (heads[:, ranks[0]] != digits).any() or (np.diff(heads) <= 0).any():
                raise InputError("the groups of a phase differ in shape")


def cycle(m: int) -> Weights:
    """A ring: half to the next member, half to the previous, as both directions carry data."""
    demand = np.zeros((m, m))
    for i in range(m):
        demand[i, (i + 1) % m] += 0.5
        demand[i, (i - 1) % m] += 0.5
    return demand


def folded_cycle(m: int) -> Weights:
    """A ring on a line with unjoined ends: out over every second member, back over the rest.

    For six members: 0, 2, 4, 5, 3, 1. Links carry as much as in the order of the line, where one
    message a round goes from end to end, but here none travels further than two members.
    """
    order = np.array([*range(0, m, 2), *reversed(range(1, m, 2))], dtype=np.int64)
    demand = np.zeros((m, m))
    demand[np.ix_(order, order)] = cycle(m)
    return demand


def line_to_owners(m: int) -> Weights:
    """A reduce-scatter along a line: sums of every piece come straight from both ends to its owner.

    In units of the bytes that a member sends, which are the same for all: all pieces but its own.
    """
    demand = np.zeros((m, m))
    for i in range(m - 1):
        demand[i, i + 1] = (m - 1 - i) / (m - 1)
        demand[i + 1, i] = (i + 1) / (m - 1)
    return demand


def line_from_owners(m: int) -> Weights:
    """An all-gather along a line: ``line_to_owners`` backwards."""
    return line_to_owners(m).T


def chain_to_first(m: int) -> Weights:
    """A chain that ends at the first member."""
    demand = np.zeros((m, m))
    for i in range(1, m):
        demand[i, i - 1] = 1
    return demand


def chain_from_first(m: int) -> Weights:
    """A chain that begins at the first member."""
    return chain_to_first(m).T


def chains_to_first(m: int) -> Weights:
    """Two chains around a ring that end at the first member, one each way, with half each."""
    demand = np.zeros((m, m))
    for i in range(1, m):
        demand[i, i - 1] += 0.5
        demand[i, (i + 1) % m] += 0.5
    return demand


def chains_from_first(m: int) -> Weights:
    """Two chains around a ring that begin at the first member."""
    return chains_to_first(m).T


def pairs(m: int) -> Weights:
    """Direct exchange: an equal share to everyone else."""
    return (np.ones((m, m)) - np.eye(m)) / (m - 1)


def halving(m: int) -> Weights:
    """Recursive halving: partners differ in one bit of their number; half the rest at each bit."""
    demand = np.zeros((m, m))
    for i in range(m):
        for bit in range(m.bit_length() - 1):
            demand[i, i ^ (1 << bit)] = (1 << bit) / (m - 1)
    return demand


def parents(m: int) -> tuple[dict[int, int], dict[int, int]]:
    """The two trees of a double binary tree over 0..m-1: child to parent.

    In the first tree the parent of a number is the number with its lowest set bit moved up by one
    place, or cleared if the former does not exist. The second tree is the mirror image, or for odd
    m the first with all numbers moved by one. Inner nodes of one are leaves of the other, except
    the first number where m is odd, which has one child in each. (Sanders, Speck, Träff: Two-tree
    algorithms, 2009; as NCCL builds it.)
    """
    first = {}
    for number in range(1, m):
        low = number & -number
        above = (number ^ low) | (low << 1)
        first[number] = above if above < m else number ^ low
    if m % 2 == 0:
        return first, {m - 1 - c: m - 1 - p for c, p in first.items()}
    return first, {(c + 1) % m: (p + 1) % m for c, p in first.items()}


def tree_peak(m: int) -> float:
    """The bytes that the busiest of m children sends in an all-reduce by a double binary tree.

    Each tree carries half; a child with two children in one tree is a leaf in the other.
    """
    return {1: 0.0, 2: 1.0, 3: 1.5}.get(m, 2.0)


def two_trees(m: int) -> Weights:
    """Half the payload up and down each tree."""
    sent = np.zeros((m, m))
    for tree in parents(m):
        for child, parent in tree.items():
            sent[child, parent] += 0.5
            sent[parent, child] += 0.5
    return sent / tree_peak(m)


def trees_to_first(m: int) -> Weights:
    """A reduce: half the payload up each of two trees of all but the first, then to the first."""
    sent = np.zeros((m, m))
    for tree in parents(m - 1):
        for child in range(m - 1):
            sent[child + 1, tree[child] + 1 if child in tree else 0] += 0.5
    return sent


def trees_from_first(m: int) -> Weights:
    """A broadcast: the trees of ``trees_to_first`` reversed."""
    return trees_to_first(m).T


def through_switch(collective: Collective, m: int) -> tuple[Floats, Floats]:
    """The bytes that each of m children sends and receives where the switch reduces and copies."""
    whole, piece, first = np.ones(m), np.full(m, 1 / m), np.eye(m)[0]
    match collective:
        case Collective.REDUCE_SCATTER:
            return whole, piece
        case Collective.ALL_GATHER:
            return piece, whole
        case Collective.REDUCE:
            return whole, first
        case Collective.BROADCAST:
            return first, whole
        case _:
            return whole, whole


def cut_ring(
    collective: Collective, passing: Sequence[int], ranks: Numbers, counts: Numbers, inside: Numbers
) -> tuple[Floats, Floats]:
    """Bytes that members send and receive in rooted chains on ports that several levels share.

    Arrays have one entry per member and level, shape (members, levels): ``counts`` is the number of
    children of its parent that hold members, ``ranks`` which of these it is in, ``inside`` the
    number of members in that child. The root has rank 0 everywhere. Each chain is a ring in member
    order cut open at the root, and begins in each child at a different member: all members but the
    root pass each piece on once, all but the last in the ring receive it once.
    """
    spanned = counts > 1
    edges = np.where(spanned, (counts - 1) / counts, 0.0) / inside
    outermost = spanned & (np.cumsum(spanned, axis=1) == 1)
    edges = np.where(outermost, 1 / inside, edges)
    passed_on = np.where(spanned, 1 / inside, 0.0)[:, passing].max(axis=1)
    sent = np.where((ranks == 0).all(axis=1), 0.0, passed_on)
    received = passed_on.copy()
    for level in passing:
        first, last = ranks[:, :level] == 0, ranks[:, level:] == counts[:, level:] - 1
        ends = first.all(axis=1) & last.all(axis=1)
        received -= np.where(ends, edges[:, level], 0.0)
    received = np.maximum(received, 0.0)
    return (received, sent) if collective is Collective.BROADCAST else (sent, received)
