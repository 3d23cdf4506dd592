"""Pairwise costs without the variables that have two neighbours at most: exact, and much smaller.

Such a variable is minimised out into a cost of one neighbour, or of the pair, so what is left is
pairwise again and has the same least cost. Chains and trees vanish altogether.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from synth.search.elimination import MOST_ENTRIES, TooWide, eliminate
from synth.search.message_passing import CLOSED, pass_messages
from synth.search.pairwise import Costs, Pairwise
from synth.search.space import BestFound, Budget, Found, Infeasible, Observer, Optimal

Choice = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Core:
    """What is left of pairwise costs, and how a choice for it is completed.

    ``kept`` are its variables by their old numbers; ``taken`` the others, in the order in which
    they went: the number, neighbours, and for each of their states the best state.
    """

    costs: Pairwise
    kept: tuple[int, ...]
    taken: tuple[tuple[int, tuple[int, ...], Costs], ...]

    def completed(self, states: Sequence[int]) -> Choice:
        """The states of all variables, best beside those of the core."""
        found = dict(zip(self.kept, states, strict=True))
        for variable, near, best in reversed(self.taken):
            found[variable] = int(best[tuple(found[one] for one in near)])
        return tuple(found[at] for at in range(len(found)))


def core(costs: Pairwise) -> Core:
    """Take out what has two neighbours at most, until nothing has; one variable stays at least."""
    alone = list(costs.alone)
    beside: list[dict[int, Costs]] = [{} for _ in alone]
    for (v, w), table in costs.pairs.items():
        beside[v][w], beside[w][v] = table, table.T
    taken: list[tuple[int, tuple[int, ...], Costs]] = []
    ready = {v for v, near in enumerate(beside) if len(near) <= 2}
    left = set(range(len(alone)))
    while ready and len(left) > 1:
        variable = min(ready, key=lambda one: (len(beside[one]), one))
        ready.discard(variable)
        left.discard(variable)
        near = tuple(sorted(beside[variable]))
        total = _beside(alone[variable], [beside[variable][one] for one in near])
        best, least = total.argmin(axis=0), total.min(axis=0)
        taken.append((variable, near, best))
        for one in near:
            del beside[one][variable]
        match near:
            case ():
                keeper = min(left)
                alone[keeper] = alone[keeper] + least
            case (one,):
                alone[one] = alone[one] + least
            case (one, other):
                joined = beside[one][other] + least if other in beside[one] else least
                beside[one][other], beside[other][one] = joined, joined.T
        ready |= {one for one in near if len(beside[one]) <= 2}
    kept = tuple(sorted(left))
    number = {old: new for new, old in enumerate(kept)}
    pairs = {(number[v], number[w]): beside[v][w] for v in kept for w in beside[v] if v < w}
    return Core(Pairwise([alone[v] for v in kept], pairs), kept, tuple(taken))


def _beside(alone: Costs, tables: Sequence[Costs]) -> Costs:
    """A variable's costs for each state of its neighbours; its own states are the first axis."""
    match tables:
        case []:
            return alone
        case [one]:
            return alone[:, None] + one
        case [one, other]:
            return (alone[:, None] + one)[:, :, None] + other[:, None, :]
    raise AssertionError(f"{len(tables)} neighbours")


def least(
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
    smaller = core(allowed)
    exact = eliminate(smaller.costs, most_entries)
    found: Found[Choice] = (
        pass_messages(smaller.costs, budget, observer, gap=gap)
        if isinstance(exact, TooWide)
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
