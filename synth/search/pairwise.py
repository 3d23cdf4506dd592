"""Sums of costs of one or two variables: the energy of a discrete graphical model.

Each variable has a finite number of states with a cost each; each edge has a cost for each pair of
states of its two ends. An infinite cost forbids a state or a pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
import numpy.typing as npt

from synth.search.space import Infeasible

Costs = npt.NDArray[np.float64]

NO_CHOICE = Infeasible("no choice is allowed by all that it is put together with")


@dataclass(frozen=True, eq=False)
class Pairwise:
    """``alone[v]`` has the cost of each state of a variable, ``pairs[v, w]`` of each pair; v < w.

    Costs are not negative, and may be infinite.
    """

    alone: Sequence[Costs]
    pairs: Mapping[tuple[int, int], Costs]

    def __post_init__(self) -> None:
        for (first, second), table in self.pairs.items():
            assert first < second, "an edge is named by its ends in order"
            assert table.shape == (len(self.alone[first]), len(self.alone[second])), (first, second)

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """For each variable, the variables that share an edge with it, in order."""
        found: list[list[int]] = [[] for _ in self.alone]
        for first, second in sorted(self.pairs):
            found[first].append(second)
            found[second].append(first)
        return tuple(tuple(sorted(near)) for near in found)

    def table(self, first: int, second: int) -> Costs:
        """Returns the costs of an edge, with a row for each state of the first variable."""
        return self.pairs[first, second] if first < second else self.pairs[second, first].T

    def cost(self, states: Sequence[int]) -> float:
        """Returns the total cost of a choice of states."""
        alone = sum(float(costs[at]) for costs, at in zip(self.alone, states, strict=True))
        pairs = sum(float(table[states[v], states[w]]) for (v, w), table in self.pairs.items())
        return alone + pairs

    def without_dead(self) -> Pairwise | Infeasible:
        """Returns the same costs, with dead states (no partner in some neighbour) infinite.

        Exact: repeated until nothing changes. Infeasible if a variable has no state left.
        """
        alone = [costs.copy() for costs in self.alone]
        left = set(range(len(alone)))
        while left:
            variable = left.pop()
            for other in self.neighbours[variable]:
                least = (self.table(variable, other) + alone[variable][:, None]).min(axis=0)
                dead = np.isinf(least) & np.isfinite(alone[other])
                if dead.any():
                    alone[other][dead] = inf
                    left.add(other)
        if any(np.isinf(costs).all() for costs in alone):
            return NO_CHOICE
        return Pairwise(alone, self.pairs)
