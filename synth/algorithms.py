"""How a runtime carries out one collective: ring, tree, halving/doubling, direct exchange.

One row per algorithm and collective says what crosses each level and how many messages wait for
each other. Quantities are for a buffer of one byte per device and a group with ``members[l]``
members among the children of a parent at level l, outermost first; "outside" and "inside" of a
level are the products of the numbers before and after it. Whatever a child must pass on is spread
evenly over its members, as a runtime with several channels does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import ceil, log2, prod

import numpy as np

from grammar import Collective
from hierarchies import Domain
from hierarchies.fabric import Weights

Members = tuple[int, ...]


class Algorithm(Enum):
    """The algorithms, by the names the field gives them."""

    RING = "ring"
    TREE = "tree"
    HALVING_DOUBLING = "halving-doubling"
    DIRECT = "direct"


class Choice(Enum):
    """Which algorithm a step may use: rings; trees where there are any, else rings; the fastest."""

    RING = "ring"
    TREE = "tree"
    AUTO = "auto"


@dataclass(frozen=True)
class Recipe:
    """One algorithm for one collective.

    ``crossing(members, level)``: bytes one participant sends across the level (and receives), at
    the busiest child. ``demand(m)``: who sends how much to whom among m children of one parent,
    in units of what the busiest sends. ``waits(members, level)``: how many messages across the
    level wait for each other, of which ``spared`` are not waited for, the cheapest ones;
    ``at_once``: messages across different levels do not wait for each other.
    ``memory(k)``: bytes read or written in a device's memory.
    """

    fits: Callable[[Members], bool]
    crossing: Callable[[Members, int], float]
    demand: Callable[[int], Weights]
    waits: Callable[[Members, int], float]
    memory: Callable[[int], float]
    spared: int = 0
    at_once: bool = False


def _always(members: Members) -> bool:
    return True


def _powers_of_two(members: Members) -> bool:
    return all(m & (m - 1) == 0 for m in members)


def _inside(members: Members, level: int) -> int:
    return prod(members[level + 1 :])


def _outside(members: Members, level: int) -> int:
    return prod(members[:level])


def _part(members: Members) -> float:
    """What a member does not own itself."""
    k = prod(members)
    return (k - 1) / k


def _cycle_edges(members: Members, level: int) -> float:
    """Of a ring in member order, edges whose ends first differ at this level, per member child.

    The outermost level that varies also closes the ring; every device takes its turn at each
    border, so inner levels have m - 1 edges shared by m children.
    """
    m = members[level]
    if m == 1:
        return 0.0
    return 1.0 if _outside(members, level) == 1 else (m - 1) / m


def _ring(rounds: int) -> tuple[Callable[[Members, int], float], Callable[[Members, int], float]]:
    """A ring's crossing and waits: every member passes on all pieces but one, ``rounds`` times."""

    def crossing(members: Members, level: int) -> float:
        return rounds * _part(members) * _cycle_edges(members, level) / _inside(members, level)

    def waits(members: Members, level: int) -> float:
        """All edges of the ring; of these a piece is spared one."""
        m = members[level]
        if m == 1:
            return 0.0
        return float(
            rounds * _outside(members, level) * (m if _outside(members, level) == 1 else m - 1)
        )

    return crossing, waits


def _chain_crossing(members: Members, level: int) -> float:
    return 1 / _inside(members, level) if members[level] > 1 else 0.0


def _chain_waits(members: Members, level: int) -> float:
    return float(_outside(members, level) * (members[level] - 1))


def tree_peak(m: int) -> float:
    """What the busiest of m children sends in an all-reduce by a double binary tree.

    Each tree carries half; a child with two children in one tree is a leaf in the other.
    """
    return {1: 0.0, 2: 1.0, 3: 1.5}.get(m, 2.0)


def _tree_crossing(members: Members, level: int) -> float:
    return tree_peak(members[level]) / _inside(members, level)


def _tree_waits(members: Members, level: int) -> float:
    """Up to the root and down again."""
    return 2.0 * ceil(log2(members[level]))


def _split_crossing(rounds: int) -> Callable[[Members, int], float]:
    """Halving outermost digits first, or direct exchange: pieces end in the order of members."""

    def crossing(members: Members, level: int) -> float:
        m = members[level]
        return rounds * (m - 1) / m / _outside(members, level)

    return crossing


def _halvings(rounds: int) -> Callable[[Members, int], float]:
    return lambda members, level: rounds * log2(members[level])


def _at_once(rounds: int) -> Callable[[Members, int], float]:
    return lambda members, level: float(rounds * (members[level] > 1))


def cycle(m: int) -> Weights:
    """Half to the next member, half to the one before: both directions of a ring carry data."""
    demand = np.zeros((m, m))
    for i in range(m):
        demand[i, (i + 1) % m] += 0.5
        demand[i, (i - 1) % m] += 0.5
    return demand


def _towards_first(m: int) -> Weights:
    demand = np.zeros((m, m))
    for i in range(1, m):
        demand[i, i - 1] = 1
    return demand


def _from_first(m: int) -> Weights:
    return _towards_first(m).T


def pairs(m: int) -> Weights:
    """An equal share to everyone else."""
    return (np.ones((m, m)) - np.eye(m)) / (m - 1)


def _halving(m: int) -> Weights:
    demand = np.zeros((m, m))
    for i in range(m):
        for bit in range(m.bit_length() - 1):
            demand[i, i ^ (1 << bit)] = (1 << bit) / (m - 1)
    return demand


def parents(m: int) -> tuple[dict[int, int], dict[int, int]]:
    """The two trees of a double binary tree over 0..m-1: child to parent.

    In the first a number hangs below the one with its lowest set bit moved up by one place, or
    cleared if that one does not exist; the second is its mirror image, or for odd m the first
    with all numbers moved by one. Inner nodes of one are leaves of the other, but for the first
    number where m is odd, which has one child in each.
    (Sanders, Speck, Träff: Two-tree algorithms, 2009; as NCCL builds it.)
    """
    first = {}
    for number in range(1, m):
        low = number & -number
        above = (number ^ low) | (low << 1)
        first[number] = above if above < m else number ^ low
    if m % 2 == 0:
        return first, {m - 1 - c: m - 1 - p for c, p in first.items()}
    return first, {(c + 1) % m: (p + 1) % m for c, p in first.items()}


def _two_trees(m: int) -> Weights:
    """Half the payload up and down each tree."""
    sent = np.zeros((m, m))
    for tree in parents(m):
        for child, parent in tree.items():
            sent[child, parent] += 0.5
            sent[parent, child] += 0.5
    return sent / tree_peak(m)


def _trees_to_first(m: int) -> Weights:
    """Half the payload up each of two trees of all but the first, whose roots send to it."""
    sent = np.zeros((m, m))
    for tree in parents(m - 1):
        for child in range(m - 1):
            sent[child + 1, tree[child] + 1 if child in tree else 0] += 0.5
    return sent


def _trees_from_first(m: int) -> Weights:
    return _trees_to_first(m).T


def _rooted_tree_waits(members: Members, level: int) -> float:
    """One message between the root and the trees of the others, then down or up those."""
    m = members[level]
    return 1.0 + ceil(log2(m - 1)) if m > 1 else 0.0


def _memory(per_byte: int, whole: bool) -> Callable[[int], float]:
    """Bytes sent are read and bytes received written once; an addition reads one operand more."""
    return lambda k: per_byte * (1.0 if whole else (k - 1) / k)


_AR, _RS, _AG = Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_GATHER
_ROUNDS = {_AR: 2, _RS: 1, _AG: 1}
_TOUCHED = {_AR: 5, _RS: 3, _AG: 2, Collective.REDUCE: 3, Collective.BROADCAST: 2}


def _splitting() -> dict[tuple[Collective, Algorithm], Recipe]:
    """Rings, halving/doubling and direct exchange, for the collectives that pass pieces."""
    rows = {}
    for collective, rounds in _ROUNDS.items():
        memory = _memory(_TOUCHED[collective], whole=False)
        split = _split_crossing(rounds)
        rows[collective, Algorithm.RING] = Recipe(
            _always, _ring(rounds)[0], cycle, _ring(rounds)[1], memory, spared=rounds
        )
        rows[collective, Algorithm.HALVING_DOUBLING] = Recipe(
            _powers_of_two, split, _halving, _halvings(rounds), memory
        )
        rows[collective, Algorithm.DIRECT] = Recipe(
            _always, split, pairs, _at_once(rounds), memory, at_once=True
        )
    return rows


def _rooted() -> dict[tuple[Collective, Algorithm], Recipe]:
    """Chains and trees for reduce and broadcast; "ring" is their pipelined chain."""
    rows = {}
    for collective, chain, trees in (
        (Collective.REDUCE, _towards_first, _trees_to_first),
        (Collective.BROADCAST, _from_first, _trees_from_first),
    ):
        memory = _memory(_TOUCHED[collective], whole=True)
        rows[collective, Algorithm.RING] = Recipe(
            _always, _chain_crossing, chain, _chain_waits, memory
        )
        rows[collective, Algorithm.TREE] = Recipe(
            _always, _chain_crossing, trees, _rooted_tree_waits, memory
        )
    return rows


RECIPES: Mapping[tuple[Collective, Algorithm], Recipe] = {
    **_splitting(),
    (_AR, Algorithm.TREE): Recipe(
        _always, _tree_crossing, _two_trees, _tree_waits, _memory(5, whole=True)
    ),
    **_rooted(),
}


def _chained(collective: Collective) -> Recipe:
    """A tree that is a chain at one level: up it and down again, each member being an end once."""
    if collective is not _AR:
        chain = RECIPES[collective, Algorithm.RING]
        return replace(chain, waits=lambda members, level: float(members[level] - 1))
    return Recipe(
        _always,
        lambda members, level: 2 * (members[level] - 1) / members[level] / _inside(members, level),
        cycle,
        lambda members, level: 2.0 * (members[level] - 1),
        _memory(5, whole=True),
    )


def recipe_at(collective: Collective, algorithm: Algorithm, domain: Domain) -> Recipe:
    """The row for one level: what an algorithm does there depends on how children are joined.

    Trees are double binary where a switch joins the children, and chains along the links
    everywhere else, where the edges of a tree would pile up on them. In a mesh, rings and chains
    take turns with all links.
    """
    recipe = RECIPES[collective, algorithm]
    if algorithm is Algorithm.TREE and domain is not Domain.SWITCH:
        recipe = _chained(collective)
    if domain is Domain.MESH and algorithm in (Algorithm.RING, Algorithm.TREE):
        recipe = replace(recipe, demand=pairs)
    return recipe


def offered(
    collective: Collective, members: Members, domains: Sequence[Domain], choice: Choice
) -> Sequence[Algorithm]:
    """The algorithms a step may use, in the order in which ties between them are settled.

    Direct exchange is not offered over several dimensions of a torus: its messages would turn
    corners that ``crossing`` does not see.
    """
    spans = [domain for domain, m in zip(domains, members, strict=True) if m > 1]
    corners = len(spans) > 1 and Domain.TORUS in spans
    fitting = [
        algorithm
        for algorithm in Algorithm
        if (collective, algorithm) in RECIPES
        and RECIPES[collective, algorithm].fits(members)
        and not (algorithm is Algorithm.DIRECT and corners)
    ]
    if choice is Choice.AUTO:
        return fitting
    wanted = Algorithm(choice.value)
    return [wanted] if wanted in fitting else [Algorithm.RING]
