"""Reduces pairwise costs by eliminating variables with at most two neighbours.

Minimising such a variable out leaves a cost of one neighbour, or of the pair, so the rest is
pairwise again with the same minimum. Chains and trees vanish altogether.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from synth.search.elimination import (
    MOST_ENTRIES,
    EliminatedVariable,
    WidthExceeded,
    complete_choice,
    eliminate,
    eliminate_variables,
    take_out,
)
from synth.search.message_passing import CLOSED, ROUNDS, pass_messages
from synth.search.pairwise import Pairwise
from synth.search.space import BestFound, Found, Infeasible, Optimal

Choice = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Core:
    """The pairwise costs that remain; ``kept`` are their variables by their original numbers."""

    costs: Pairwise
    kept: tuple[int, ...]
    taken: Sequence[EliminatedVariable]

    def completed(self, states: Sequence[int]) -> Choice:
        """Returns the states of all variables, the eliminated ones optimal for the core's."""
        return complete_choice(self.taken, dict(zip(self.kept, states, strict=True)))


def reduce_to_core(costs: Pairwise) -> Core:
    """Eliminates variables with at most two neighbours until none is left, or only one variable."""
    beside = [set(near) for near in costs.neighbours]
    ready = [(len(near), variable) for variable, near in enumerate(beside) if len(near) <= 2]
    heapify(ready)
    taken_out: set[int] = set()
    order: list[int] = []
    while ready and len(order) + 1 < len(beside):
        degree, variable = heappop(ready)
        if variable in taken_out or degree != len(beside[variable]):
            continue
        taken_out.add(variable)
        order.append(variable)
        for near in take_out(beside, variable):
            if len(beside[near]) <= 2:
                heappush(ready, (len(beside[near]), near))
    taken, tables = eliminate_variables(costs, order)
    kept = tuple(sorted({*range(len(beside))} - {*order}))
    number = {old: new for new, old in enumerate(kept)}
    alone = [tables[variable,] for variable in kept]
    alone[0] = alone[0] + tables[()]
    pairs = {(number[v], number[w]): tables[v, w] for v in kept for w in beside[v] if v < w}
    return Core(Pairwise(alone, pairs), kept, taken)


def minimize(
    costs: Pairwise,
    rounds: int = ROUNDS,
    *,
    gap: float = CLOSED,
    most_entries: int = MOST_ENTRIES,
) -> Found[Choice]:
    """Minimises pairwise costs: by elimination if the tables fit, else by message passing.

    ``rounds`` and ``gap`` apply to message passing.
    """
    allowed = costs.without_dead()
    if isinstance(allowed, Infeasible):
        return allowed
    smaller = reduce_to_core(allowed)
    exact = eliminate(smaller.costs, most_entries)
    found: Found[Choice] = (
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
