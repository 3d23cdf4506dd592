"""The exact minimum of pairwise costs, by eliminating one variable after another.

Minimising a variable out of the sum of its tables leaves one table over its neighbours; then all
variables are fixed in reverse. (Bertelè and Brioschi's nonserial dynamic programming; "min-sum
variable elimination".) Cost grows with the largest table, so its entries are counted first.

A variable with at most two neighbours leaves a cost of one neighbour, or of the pair, so the rest
is pairwise again with the same minimum. Chains and trees vanish altogether.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from synth.search.message_passing import CLOSED, ROUNDS, pass_messages
from synth.search.pairwise import NO_CHOICE, Costs, Pairwise
from synth.search.space import BestFound, Found, Infeasible, Optimal

MOST_ENTRIES = 10**7

Names = tuple[int, ...]
"""The variables of a table in order, one per axis."""


@dataclass(frozen=True)
class WidthExceeded:
    """Elimination was not tried: the largest table would have this many entries."""

    entries: int


@dataclass(frozen=True, eq=False)
class EliminatedVariable:
    """A variable that was minimised out: its ``best`` state for each choice of its neighbours."""

    variable: int
    adjacent: Names
    best: npt.NDArray[np.intp]


def min_fill(costs: Pairwise) -> tuple[Names, int]:
    """Returns an elimination order, and the entries of the largest table it needs.

    The next variable is always the variable whose neighbours lack the fewest edges among them, the
    lowest number first.
    """
    states = [len(costs_of_states) for costs_of_states in costs.alone]
    adjacent = [set(near) for near in costs.neighbours]
    fill = {variable: _count_missing_edges(adjacent, variable) for variable in range(len(states))}
    queue = [(missing, variable) for variable, missing in fill.items()]
    heapify(queue)
    variables, entries = [], 1
    while fill:
        missing, variable = heappop(queue)
        if fill.get(variable) != missing:
            continue
        del fill[variable]
        variables.append(variable)
        neighbours = take_out(adjacent, variable)
        entries = max(entries, prod(states[each] for each in (*neighbours, variable)))
        for other in neighbours.union(*(adjacent[near] for near in neighbours)):
            missing = _count_missing_edges(adjacent, other)
            if fill[other] != missing:
                fill[other] = missing
                heappush(queue, (missing, other))
    return tuple(variables), entries


def take_out(adjacent: Sequence[set[int]], variable: int) -> set[int]:
    """Joins all neighbours of a variable to each other, removes the variable, and returns them."""
    neighbours = adjacent[variable]
    for near in neighbours:
        adjacent[near] |= neighbours - {near}
        adjacent[near].discard(variable)
    return neighbours


def _count_missing_edges(adjacent: Sequence[set[int]], variable: int) -> int:
    """Returns how many edges between a variable's neighbours are missing."""
    neighbours = adjacent[variable]
    # Each difference contains ``near`` itself, and both ends count each missing edge.
    return sum(len(neighbours - adjacent[near]) - 1 for near in neighbours) // 2


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
        adjacent = (*joined[:axis], *joined[axis + 1 :])
        taken.append(EliminatedVariable(variable, adjacent, total.argmin(axis)))
        add(adjacent, total.min(axis))
    return taken, tables


def complete_choice(
    taken: Sequence[EliminatedVariable], states: Mapping[int, int]
) -> tuple[int, ...]:
    """Returns the states of all variables: those given, and the best of those eliminated."""
    found = dict(states)
    for eliminated in reversed(taken):
        place: Any = tuple(found[near] for near in eliminated.adjacent)
        found[eliminated.variable] = int(eliminated.best[place])
    return tuple(found[variable] for variable in range(len(found)))


@dataclass(frozen=True, eq=False)
class Core:
    """The pairwise costs that remain; ``kept`` are their variables by their original numbers."""

    costs: Pairwise
    kept: tuple[int, ...]
    taken: Sequence[EliminatedVariable]

    def completed(self, states: Sequence[int]) -> Names:
        """Returns the states of all variables, the eliminated ones optimal for the core's."""
        return complete_choice(self.taken, dict(zip(self.kept, states, strict=True)))


def reduce_to_core(costs: Pairwise) -> Core:
    """Eliminates variables with at most two neighbours until none is left, or only one variable."""
    adjacent = [set(near) for near in costs.neighbours]
    ready = [(len(near), variable) for variable, near in enumerate(adjacent) if len(near) <= 2]
    heapify(ready)
    taken_out: set[int] = set()
    order: list[int] = []
    while ready and len(order) + 1 < len(adjacent):
        degree, variable = heappop(ready)
        if variable in taken_out or degree != len(adjacent[variable]):
            continue
        taken_out.add(variable)
        order.append(variable)
        for near in take_out(adjacent, variable):
            if len(adjacent[near]) <= 2:
                heappush(ready, (len(adjacent[near]), near))
    taken, tables = eliminate_variables(costs, order)
    kept = tuple(sorted({*range(len(adjacent))} - {*order}))
    number = {old: new for new, old in enumerate(kept)}
    alone = [tables[variable,] for variable in kept]
    alone[0] = alone[0] + tables[()]
    pairs = {(number[v], number[w]): tables[v, w] for v in kept for w in adjacent[v] if v < w}
    return Core(Pairwise(alone, pairs), kept, taken)


def minimize(
    costs: Pairwise,
    rounds: int = ROUNDS,
    *,
    gap: float = CLOSED,
    most_entries: int = MOST_ENTRIES,
) -> Found[Names]:
    """Minimises pairwise costs: by elimination if the tables fit, else by message passing.

    ``rounds`` and ``gap`` apply to message passing.
    """
    allowed = costs.without_dead()
    if isinstance(allowed, Infeasible):
        return allowed
    smaller = reduce_to_core(allowed)
    exact = eliminate(smaller.costs, most_entries)
    found: Found[Names] = (
        pass_messages(smaller.costs, rounds, gap=gap) if isinstance(exact, WidthExceeded) else exact
    )
    match found:
        case Optimal(states):
            whole = smaller.completed(states)
            return Optimal(whole, costs.cost(whole))
        case BestFound(states, _, bound):
            whole = smaller.completed(states)
            return BestFound(whole, costs.cost(whole), bound)
    return found
