"""The exact minimum of pairwise costs, by eliminating one variable after the other.

A variable is minimised out of the sum of all tables that speak of it, which leaves one table over
its neighbours; then all are fixed backwards. (Bertelè and Brioschi's nonserial dynamic programming;
"min-sum variable elimination".) Costs grow with the largest table, so that is counted first.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from synth.search.pairwise import NO_CHOICE, Costs, Pairwise
from synth.search.space import Infeasible, Optimal

MOST_ENTRIES = 10**7


@dataclass(frozen=True)
class TooWide:
    """Not tried: the largest table would have so many entries."""

    entries: int


@dataclass(frozen=True)
class Order:
    """In which order variables go, and how many entries the largest table then has."""

    variables: tuple[int, ...]
    entries: int


def min_fill(costs: Pairwise) -> Order:
    """Always the variable next whose neighbours lack the fewest edges; of equal ones, the least."""
    states = [len(one) for one in costs.alone]
    beside = [set(one) for one in costs.neighbours]
    fill = {variable: _missing(beside, variable) for variable in range(len(states))}
    variables, entries = [], 1
    while fill:
        variable = min(fill, key=lambda one: (fill[one], one))
        del fill[variable]
        around = beside[variable]
        variables.append(variable)
        entries = max(entries, prod(states[one] for one in (*around, variable)))
        for one in around:
            beside[one] |= around - {one}
            beside[one].discard(variable)
        for one in around.union(*(beside[near] for near in around)):
            fill[one] = _missing(beside, one)
    return Order(tuple(variables), entries)


def _missing(beside: list[set[int]], variable: int) -> int:
    """How many edges between neighbours there are not."""
    around = beside[variable]
    return sum(len(around - beside[one]) - 1 for one in around) // 2


def eliminate(
    costs: Pairwise, most_entries: int = MOST_ENTRIES
) -> Optimal[tuple[int, ...]] | Infeasible | TooWide:
    """The best choice, the first of equal ones by the states of the last variable eliminated.

    Infeasible where every choice costs infinitely much.
    """
    order = min_fill(costs)
    if order.entries > most_entries:
        return TooWide(order.entries)
    tables: list[_Table] = [_Table((v,), one) for v, one in enumerate(costs.alone)]
    tables += [_Table(pair, one) for pair, one in costs.pairs.items()]
    kept: list[_Table] = []
    for variable in order.variables:
        mine = [one for one in tables if variable in one.variables]
        tables = [one for one in tables if variable not in one.variables]
        joined = _sum(mine, variable)
        kept.append(joined)
        tables.append(_Table(joined.variables[1:], joined.costs.min(axis=0)))
    least = sum(float(one.costs) for one in tables)
    if np.isinf(least):
        return NO_CHOICE
    chosen: dict[int, int] = {}
    for one in reversed(kept):
        fixed: Any = (slice(None), *(chosen[v] for v in one.variables[1:]))
        chosen[one.variables[0]] = int(one.costs[fixed].argmin())
    states = tuple(chosen[v] for v in range(len(costs.alone)))
    return Optimal(states, costs.cost(states))


@dataclass(frozen=True, eq=False)
class _Table:
    """Costs by the states of some variables, an axis each."""

    variables: tuple[int, ...]
    costs: Costs


def _sum(tables: list[_Table], first: int) -> _Table:
    """One table over all the variables of several; the first axis is this variable's."""
    rest = sorted({v for one in tables for v in one.variables} - {first})
    variables = (first, *rest)
    place = {v: at for at, v in enumerate(variables)}
    total: Costs = np.zeros((1,) * len(variables))
    for one in tables:
        order = sorted(range(len(one.variables)), key=lambda at: place[one.variables[at]])
        shape = [1] * len(variables)
        for at, v in enumerate(one.variables):
            shape[place[v]] = one.costs.shape[at]
        total = total + one.costs.transpose(order).reshape(shape)
    return _Table(variables, total)
