"""A queue of states by price, from whose cheapest all moves are tried several times.

After DisCo's search (arXiv 2209.12769, section 4): what costs at most ``alpha`` times the best is
kept, so that a state a little dearer may lead to a better one, and each move is tried up to
``beta`` times as it is drawn anew.
"""

from __future__ import annotations

import heapq
from random import Random

from synth.search.space import Budget, Found, Infeasible, Observer, S, Space, Tally


def backtrack(
    space: Space[S],
    alpha: float = 1.05,
    beta: int = 10,
    budget: Budget | None = None,
    observer: Observer | None = None,
) -> Found[S]:
    """The best state found. With an infinite ``alpha``, and moves that leave out nothing, the best.

    ``alpha`` is at least 1. States that are not feasible are not kept, but the initial one.
    """
    assert alpha >= 1, "less would not keep the best itself"
    budget = budget or Budget()
    rng, tally = Random(budget.seed), Tally(space.price, budget, observer or Observer())
    start = space.initial()
    price = tally.price(start)
    order = 0
    queue = [(0.0 if isinstance(price, Infeasible) else price, order, start)]
    seen = {start}
    while queue:
        seconds, _, state = heapq.heappop(queue)
        if seconds > alpha * tally.seconds:
            break
        for _ in range(beta):
            for move in space.moves(state, rng):
                if move in seen:
                    continue
                if not tally.may():
                    return tally.found(space.bound(start))
                seen.add(move)
                cost = tally.price(move)
                if not isinstance(cost, Infeasible) and cost <= alpha * tally.seconds:
                    order += 1
                    heapq.heappush(queue, (cost, order, move))
    return tally.found(space.bound(start))
