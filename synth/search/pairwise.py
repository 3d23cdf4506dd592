"""Choices whose costs are of one, or of two at a time: what is chosen here, and there.

The energy of a discrete graphical model: each variable has a finite number of states with a cost
each, each edge a cost for each pair of states of its two ends. An infinite cost is what cannot be.
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
        for (one, other), table in self.pairs.items():
            assert one < other, "an edge is named by its ends in order"
            assert table.shape == (len(self.alone[one]), len(self.alone[other])), (one, other)

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """Of each variable those that it shares an edge with, in order."""
        found: list[list[int]] = [[] for _ in self.alone]
        for one, other in sorted(self.pairs):
            found[one].append(other)
            found[other].append(one)
        return tuple(tuple(sorted(each)) for each in found)

    def table(self, one: int, other: int) -> Costs:
        """The costs of an edge, a row for each state of the first that is named."""
        return self.pairs[one, other] if one < other else self.pairs[other, one].T

    def cost(self, states: Sequence[int]) -> float:
        """What a choice of a state for each variable costs in all."""
        alone = sum(float(costs[at]) for costs, at in zip(self.alone, states, strict=True))
        pairs = sum(float(table[states[v], states[w]]) for (v, w), table in self.pairs.items())
        return alone + pairs

    def without_dead(self) -> Pairwise | Infeasible:
        """The same, where a state that no neighbour goes with costs infinitely much alone.

        Exact: until nothing changes. Infeasible if a variable has no state left.
        """
        alone = [costs.copy() for costs in self.alone]
        left = set(range(len(alone)))
        while left:
            one = left.pop()
            for other in self.neighbours[one]:
                with_one = (self.table(one, other) + alone[one][:, None]).min(axis=0)
                dead = np.isinf(with_one) & np.isfinite(alone[other])
                if dead.any():
                    alone[other][dead] = inf
                    left.add(other)
        if any(np.isinf(costs).all() for costs in alone):
            return NO_CHOICE
        return Pairwise(alone, self.pairs)
