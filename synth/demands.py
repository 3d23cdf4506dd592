"""Who sends how much to whom among the children of one parent: circles, chains, pairs, two trees.

Each is a matrix for m children, row to column, in units of what the busiest of them sends.
"""

from __future__ import annotations

import numpy as np

from hierarchies.fabric import Weights


def cycle(m: int) -> Weights:
    """Half to the next member, half to the one before: both directions of a ring carry data."""
    demand = np.zeros((m, m))
    for i in range(m):
        demand[i, (i + 1) % m] += 0.5
        demand[i, (i - 1) % m] += 0.5
    return demand


def towards_first(m: int) -> Weights:
    """A chain whose end is the first."""
    demand = np.zeros((m, m))
    for i in range(1, m):
        demand[i, i - 1] = 1
    return demand


def from_first(m: int) -> Weights:
    """The same chain the other way."""
    return towards_first(m).T


def pairs(m: int) -> Weights:
    """An equal share to everyone else."""
    return (np.ones((m, m)) - np.eye(m)) / (m - 1)


def halving(m: int) -> Weights:
    """Partners differ in one bit of their number; half of the rest for each lower bit."""
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


def tree_peak(m: int) -> float:
    """What the busiest of m children sends in an all-reduce by a double binary tree.

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
    """Half the payload up each of two trees of all but the first, whose roots send to it."""
    sent = np.zeros((m, m))
    for tree in parents(m - 1):
        for child in range(m - 1):
            sent[child + 1, tree[child] + 1 if child in tree else 0] += 0.5
    return sent


def trees_from_first(m: int) -> Weights:
    """The same trees the other way."""
    return trees_to_first(m).T
