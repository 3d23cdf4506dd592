"""Backtracking search: a priority queue of states, from the cheapest of which moves are drawn.

After DisCo's search (arXiv 2209.12769, section 4): states that cost at most ``alpha`` times the
best are kept, so that a slightly dearer state may lead to a better one, and random moves are drawn
up to ``beta`` times for each state.
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
    """Returns the best state found.

    It is optimal for an infinite ``alpha`` and moves that omit nothing. ``alpha`` is at least
    1. Infeasible states are not kept, except the initial one.
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
