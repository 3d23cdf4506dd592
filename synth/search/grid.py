"""All of a finite tree of choices, pruned: the answer is that of looking at everything.

A state is what was chosen so far, its moves are the ways to choose once more, and one without
moves is priced. Branches go in the order of moves; one is left out if its bound says that nothing
in it is cheaper than what was found, so that of equal prices the first in order stays, whatever
the bounds are worth. Only where nothing at all is feasible is it walked again, for the least
excess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from synth.search.space import Budget, Found, Infeasible, Observer, Price, S, Space, Tally

Chosen = tuple[Any, ...]


@dataclass(frozen=True)
class Product:
    """A space of choices made one after the other: a state has one entry for each made so far.

    ``bound`` is asked of states that are not whole, too.
    """

    choices: Sequence[Sequence[Any]]
    whole_price: Callable[[Chosen], Price]
    least: Callable[[Chosen], Price] = lambda chosen: 0.0

    def initial(self) -> Chosen:
        return ()

    def moves(self, state: Chosen, rng: Random) -> Iterable[Chosen]:
        if len(state) < len(self.choices):
            for one in self.choices[len(state)]:
                yield (*state, one)

    def price(self, state: Chosen) -> Price:
        if len(state) < len(self.choices):
            return Infeasible("not all is chosen")
        return self.whole_price(state)

    def bound(self, state: Chosen) -> Price:
        return self.least(state)


def grid(
    space: Space[S], budget: Budget | None = None, observer: Observer | None = None
) -> Found[S]:
    """The first of the cheapest leaves of the tree that moves make, which is finite."""
    budget = budget or Budget()
    tally = Tally(space.price, budget, observer or Observer())

    def dearer(bound: Price) -> bool:
        return isinstance(bound, Infeasible) or bound >= tally.seconds

    def further(bound: Price) -> bool:
        return isinstance(bound, Infeasible) and bound.excess >= tally.excess

    complete = _walk(space, budget.seed, tally, dearer)
    if complete and tally.best is None:
        complete = _walk(space, budget.seed, tally, further)
    return tally.found(complete=complete, bound=space.bound(space.initial()))


def _walk(space: Space[S], seed: int, tally: Tally[S], pruned: Callable[[Price], bool]) -> bool:
    """Depth first, in the order of moves; whether it came to an end."""
    rng, left = Random(seed), [space.initial()]
    while left:
        state = left.pop()
        if pruned(space.bound(state)):
            continue
        following = list(space.moves(state, rng))
        left += reversed(following)
        if not following:
            if not tally.may():
                return False
            tally.price(state)
    return True
