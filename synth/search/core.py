"""Pairwise costs without the variables that have two neighbours at most: exact, and much smaller.

Such a variable is minimised out into a cost of one neighbour, or of the pair, so what is left is
pairwise again and has the same least cost. Chains and trees vanish altogether.
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
from synth.search.message_passing import CLOSED, pass_messages
from synth.search.pairwise import Pairwise
from synth.search.space import BestFound, Budget, Found, Infeasible, Observer, Optimal

Choice = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Core:
    """What is left of pairwise costs; ``kept`` are its variables by their old numbers."""

    costs: Pairwise
    kept: tuple[int, ...]
    taken: Sequence[EliminatedVariable]

    def completed(self, states: Sequence[int]) -> Choice:
        """The states of all variables, best beside those of the core."""
        return complete_choice(self.taken, dict(zip(self.kept, states, strict=True)))


def reduce_to_core(costs: Pairwise) -> Core:
    """Take out what has two neighbours at most, until nothing has; one variable stays at least."""
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
        for one in take_out(beside, variable):
            if len(beside[one]) <= 2:
                heappush(ready, (len(beside[one]), one))
    taken, tables = eliminate_variables(costs, order)
    kept = tuple(sorted({*range(len(beside))} - {*order}))
    number = {old: new for new, old in enumerate(kept)}
    alone = [tables[one,] for one in kept]
    alone[0] = alone[0] + tables[()]
    pairs = {(number[v], number[w]): tables[v, w] for v in kept for w in beside[v] if v < w}
    return Core(Pairwise(alone, pairs), kept, taken)


def minimize(
    costs: Pairwise,
    budget: Budget | None = None,
    observer: Observer | None = None,
    *,
    gap: float = CLOSED,
    most_entries: int = MOST_ENTRIES,
) -> Found[Choice]:
    """The least of pairwise costs: by elimination where that can be, else by message passing.

    Budget, observer and gap are those of the latter.
    """
    allowed = costs.without_dead()
    if isinstance(allowed, Infeasible):
        return allowed
    smaller = reduce_to_core(allowed)
    exact = eliminate(smaller.costs, most_entries)
    found: Found[Choice] = (
        pass_messages(smaller.costs, budget, observer, gap=gap)
        if isinstance(exact, WidthExceeded)
        else exact
    )
    match found:
        case Optimal(states):
            whole = smaller.completed(states)
            return Optimal(whole, costs.cost(whole))
        case BestFound(states, _, bound):
            whole = smaller.completed(states)
            return BestFound(whole, costs.cost(whole), bound)
    return found
