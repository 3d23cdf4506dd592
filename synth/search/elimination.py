"""The exact minimum of pairwise costs, by eliminating one variable after another.

Minimising a variable out of the sum of its tables leaves one table over its neighbours; then all
variables are fixed in reverse. (Bertelè and Brioschi's nonserial dynamic programming; "min-sum
variable elimination".) Cost grows with the largest table, so its entries are counted first.
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
"""The variables of a table in order, one an axis."""


@dataclass(frozen=True)
class WidthExceeded:
    """Elimination was not tried: the largest table would have this many entries."""

    entries: int


@dataclass(frozen=True, eq=False)
class EliminatedVariable:
    """A variable that was minimised out: its ``best`` state for each choice of its neighbours."""

    variable: int
    beside: Names
    best: npt.NDArray[np.intp]


def min_fill(costs: Pairwise) -> tuple[Names, int]:
    """Returns an elimination order, and the entries of the largest table it needs.

    The next variable is the one whose neighbours lack the fewest edges, the lowest number
    first.
    """
    states = [len(costs_of_states) for costs_of_states in costs.alone]
    beside = [set(near) for near in costs.neighbours]
    fill = {variable: _count_missing_edges(beside, variable) for variable in range(len(states))}
    queue = [(missing, variable) for variable, missing in fill.items()]
    heapify(queue)
    variables, entries = [], 1
    while fill:
        missing, variable = heappop(queue)
        if fill.get(variable) != missing:
            continue
        del fill[variable]
        variables.append(variable)
        neighbours = take_out(beside, variable)
        entries = max(entries, prod(states[each] for each in (*neighbours, variable)))
        for other in neighbours.union(*(beside[near] for near in neighbours)):
            missing = _count_missing_edges(beside, other)
            if fill[other] != missing:
                fill[other] = missing
                heappush(queue, (missing, other))
    return tuple(variables), entries


def take_out(beside: Sequence[set[int]], variable: int) -> set[int]:
    """Joins all neighbours of a variable to each other instead of to it, and returns them."""
    neighbours = beside[variable]
    for near in neighbours:
        beside[near] |= neighbours - {near}
        beside[near].discard(variable)
    return neighbours


def _count_missing_edges(beside: Sequence[set[int]], variable: int) -> int:
    """Returns how many edges between a variable's neighbours are missing."""
    neighbours = beside[variable]
    return sum(len(neighbours - beside[near]) - 1 for near in neighbours) // 2


def eliminate(
    costs: Pairwise, most_entries: int = MOST_ENTRIES
) -> Optimal[tuple[int, ...]] | Infeasible | WidthExceeded:
    """Returns the best choice, the first of ties by the state of the last variable eliminated.

    Infeasible if every choice costs infinitely much.
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
    """Minimises variables out, one after another; returns them and the remaining tables.

    The table of no variables holds the constant.
    """
    tables: dict[Names, Costs] = {(): np.zeros(())}
    of: list[set[Names]] = [set() for _ in costs.alone]

    def add(names: Names, table: Costs) -> None:
        tables[names] = tables[names] + table if names in tables else table
        for name in names:
            of[name].add(names)

    for variable, alone in enumerate(costs.alone):
        add((variable,), alone)
    for edge, pair_costs in costs.pairs.items():
        add(edge, pair_costs)
    taken = []
    for variable in variables:
        total: Costs = np.zeros(())
        joined = sorted({name for names in of[variable] for name in names})
        for names in sorted(of[variable], key=len):
            table = tables.pop(names)
            sizes = dict(zip(names, table.shape, strict=True))
            total = total + table.reshape([sizes.get(name, 1) for name in joined])
            for name in names:
                of[name].discard(names)
        axis = joined.index(variable)
        beside = (*joined[:axis], *joined[axis + 1 :])
        taken.append(EliminatedVariable(variable, beside, total.argmin(axis)))
        add(beside, total.min(axis))
    return taken, tables


def complete_choice(
    taken: Sequence[EliminatedVariable], states: Mapping[int, int]
) -> tuple[int, ...]:
    """Returns the states of all variables: those given, and the best of those eliminated."""
    found = dict(states)
    for eliminated in reversed(taken):
        place: Any = tuple(found[near] for near in eliminated.beside)
        found[eliminated.variable] = int(eliminated.best[place])
    return tuple(found[variable] for variable in range(len(found)))
