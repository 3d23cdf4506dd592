"""A guided random walk: cheaper is always taken, dearer by a chance that falls with the price.

After FlexFlow's search (Jia et al. 2019, arXiv 1807.05358, section 6.2): a move that costs ``dt``
seconds more is taken with the probability exp(-alpha dt). The best state that was met is kept.
"""

from __future__ import annotations

from math import exp
from random import Random

from synth.search.space import Budget, Found, Infeasible, Observer, Price, S, Space, Tally


def anneal(
    space: Space[S],
    alpha: float,
    budget: Budget | None = None,
    observer: Observer | None = None,
    *,
    patience: int = 10_000,
) -> Found[S]:
    """The best state that a walk meets whose moves are drawn: of ``moves`` it takes the first.

    ``alpha`` is in 1/seconds: 0 takes every move, infinity only those that are not dearer. After
    ``patience`` moves that found nothing better it begins anew from the best, or, if it did so
    without finding anything better, ends. What is not feasible is left for less excess, and
    entered from what is not feasible either.
    """
    budget = budget or Budget()
    rng, tally = Random(budget.seed), Tally(space.price, budget, observer or Observer())
    at = space.initial()
    bound = space.bound(at)
    begun = at, tally.price(at)
    price = begun[1]
    waited, again = 0, False
    while tally.may() and tally.seconds > (0.0 if isinstance(bound, Infeasible) else bound):
        proposed = next(iter(space.moves(at, rng)), None)
        if proposed is None:
            break
        before = tally.seconds, tally.excess
        other = tally.price(proposed)
        if _takes(price, other, alpha, rng):
            at, price = proposed, other
        waited = waited + 1 if before == (tally.seconds, tally.excess) else 0
        again = again and waited > 0
        if waited >= patience:
            if again:
                break
            at, price = tally.best or begun
            waited, again = 0, True
    return tally.found(complete=False, bound=bound)


def _takes(before: Price, after: Price, alpha: float, rng: Random) -> bool:
    chance = rng.random()  # drawn always, so that a walk depends on the seed alone
    match before, after:
        case Infeasible(), Infeasible():
            return after.excess <= before.excess
        case _, Infeasible():
            return False
        case Infeasible(), _:
            return True
        case float() | int(), float() | int():
            dearer = after - before
            return dearer <= 0 or chance < exp(-alpha * dearer)
    raise AssertionError((before, after))
