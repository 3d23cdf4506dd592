"""The exact minimum of pairwise costs, by eliminating one variable after the other.

A variable is minimised out of the sum of all tables that speak of it, which leaves one table over
its neighbours; then all are fixed backwards. (Bertelè and Brioschi's nonserial dynamic programming;
"min-sum variable elimination".) Costs grow with the largest table, so that is counted first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from synth.search.pairwise import NO_CHOICE, Costs, Pairwise
from synth.search.space import Infeasible, Optimal

MOST_ENTRIES = 10**7

Names = tuple[int, ...]
"""Variables in order, of a table with an axis for each."""


@dataclass(frozen=True)
class WidthExceeded:
    """Not tried: the largest table would have so many entries."""

    entries: int


@dataclass(frozen=True, eq=False)
class EliminatedVariable:
    """A variable that was minimised out: its ``best`` state for each choice of its neighbours."""

    variable: int
    beside: Names
    best: npt.NDArray[np.intp]


def min_fill(costs: Pairwise) -> tuple[Names, int]:
    """Always the variable next whose neighbours lack the fewest edges; of equal ones, the least.

    And how many entries the largest table then has.
    """
    states = [len(one) for one in costs.alone]
    beside = [set(one) for one in costs.neighbours]
    fill = {variable: _count_missing_edges(beside, variable) for variable in range(len(states))}
    next_ones = [(missing, variable) for variable, missing in fill.items()]
    heapify(next_ones)
    variables, entries = [], 1
    while fill:
        missing, variable = heappop(next_ones)
        if fill.get(variable) != missing:
            continue
        del fill[variable]
        variables.append(variable)
        around = take_out(beside, variable)
        entries = max(entries, prod(states[one] for one in (*around, variable)))
        for one in around.union(*(beside[near] for near in around)):
            missing = _count_missing_edges(beside, one)
            if fill[one] != missing:
                fill[one] = missing
                heappush(next_ones, (missing, one))
    return tuple(variables), entries


def take_out(beside: Sequence[set[int]], variable: int) -> set[int]:
    """Join all neighbours of a variable to each other instead of to it, and return them."""
    around = beside[variable]
    for one in around:
        beside[one] |= around - {one}
        beside[one].discard(variable)
    return around


def _count_missing_edges(beside: Sequence[set[int]], variable: int) -> int:
    """How many edges between neighbours there are not."""
    around = beside[variable]
    return sum(len(around - beside[one]) - 1 for one in around) // 2


def eliminate(
    costs: Pairwise, most_entries: int = MOST_ENTRIES
) -> Optimal[tuple[int, ...]] | Infeasible | WidthExceeded:
    """The best choice, the first of equal ones by the states of the last variable eliminated.

    Infeasible where every choice costs infinitely much.
    """
    order, entries = min_fill(costs)
    if entries > most_entries:
        return WidthExceeded(entries)
    taken, tables = eliminate_variables(costs, order)
    if np.isinf(tables[()]):
        return NO_CHOICE
    states = complete_choice(taken, {})
    return Optimal(states, costs.cost(states))


def eliminate_variables(
    costs: Pairwise, variables: Sequence[int]
) -> tuple[list[EliminatedVariable], Mapping[Names, Costs]]:
    """Minimise some variables out, one after the other; and the tables that are left.

    What no variable that is left has a part in is the table of none.
    """
    tables: dict[Names, Costs] = {(): np.zeros(())}
    of: list[set[Names]] = [set() for _ in costs.alone]

    def add(names: Names, table: Costs) -> None:
        tables[names] = tables[names] + table if names in tables else table
        for one in names:
            of[one].add(names)

    for one, alone in enumerate(costs.alone):
        add((one,), alone)
    for edge, both in costs.pairs.items():
        add(edge, both)
    taken = []
    for variable in variables:
        total: Costs = np.zeros(())
        every = sorted({one for names in of[variable] for one in names})
        for names in sorted(of[variable], key=len):
            table = tables.pop(names)
            sizes = dict(zip(names, table.shape, strict=True))
            total = total + table.reshape([sizes.get(one, 1) for one in every])
            for one in names:
                of[one].discard(names)
        axis = every.index(variable)
        beside = (*every[:axis], *every[axis + 1 :])
        taken.append(EliminatedVariable(variable, beside, total.argmin(axis)))
        add(beside, total.min(axis))
    return taken, tables


def complete_choice(
    taken: Sequence[EliminatedVariable], states: Mapping[int, int]
) -> tuple[int, ...]:
    """The states of all variables: the best of those minimised out, beside those that are given."""
    found = dict(states)
    for one in reversed(taken):
        place: Any = tuple(found[near] for near in one.beside)
        found[one.variable] = int(one.best[place])
    return tuple(found[at] for at in range(len(found)))
