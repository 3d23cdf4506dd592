"""The Pareto front of two costs: the choices that no other choice beats in both.

One cost, a size, is known for all choices. The other, seconds, has a lower bound, tighter bounds at
some effort each, and a price that takes longest to compute. A choice is surely beaten if a priced
choice has no larger size and no more seconds than the bound. The front, by bounds, of the remaining
choices is bounded more tightly or priced next, until none remain. So the result equals that of
pricing all choices, and few are priced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Costs = NDArray[np.float64]
Numbers = NDArray[np.intp]
Pricer = Callable[[Sequence[int]], Sequence[float]]
"""Returns a cost for each of the numbered choices."""


def find_front(
    bounds: Sequence[float] | Costs,
    sizes: Sequence[float] | Costs,
    price: Pricer,
    go_on: Callable[[], bool] = lambda: True,
    nearer: Sequence[Pricer] = (),
) -> dict[int, float]:
    """Returns the numbers on the front with their seconds, the fastest and largest first.

    Of equal choices the first to be priced stays. ``nearer``: functions that compute tighter bounds
    before a price is computed, each tighter than the one before, for all choices with equal bounds
    and sizes at once. If ``go_on`` returns False, the front is that of the choices priced so far.
    """
    seconds, large = np.full(len(sizes), np.nan), np.array(sizes, float)
    order = np.argsort(large, kind="stable")
    # By size: its choices are those from one of ``starts`` to the next. Priced ones have no bound.
    distinct, starts = np.unique(large[order], return_index=True)
    lows, refined = np.array(bounds, float)[order], np.zeros(len(order), int)
    while True:
        best = _front_of(np.flatnonzero(~np.isnan(seconds)), seconds, large)
        beaten_by = _find_fastest(distinct, seconds[best], large[best])
        least = np.minimum.reduceat(lows, starts) if len(order) else lows
        least[least >= beaten_by] = np.inf
        smaller = np.minimum.accumulate(np.append(np.inf, least))[:-1]
        chosen = np.flatnonzero(least < smaller)[::-1]
        if not len(chosen) or not go_on():
            return dict(zip(best.tolist(), seconds[best].tolist(), strict=True))
        ends = np.append(starts, len(order))[1:]
        alike = [
            starts[size] + np.flatnonzero(lows[starts[size] : ends[size]] == least[size])
            for size in chosen
        ]
        firsts = np.array([places[0] for places in alike])
        if (level := refined[firsts].min()) < len(nearer):
            far = np.concatenate([places[refined[places] == level] for places in alike])
            lows[far], refined[far] = nearer[level](order[far].tolist()), level + 1
        else:
            seconds[order[firsts]], lows[firsts] = price(order[firsts].tolist()), np.inf


def _front_of(numbers: Numbers, seconds: Costs, sizes: Costs) -> Numbers:
    """Returns the front of the given numbers, by increasing seconds and falling sizes."""
    order = numbers[np.lexsort((sizes[numbers], seconds[numbers]))]
    smallest = np.minimum.accumulate(np.append(np.inf, sizes[order]))
    return order[sizes[order] < smallest[:-1]]


def _find_fastest(most: Costs, seconds: Costs, sizes: Costs) -> Costs:
    """Returns the least seconds of a front's choices that have at most each size, or inf."""
    count = np.searchsorted(sizes[::-1], most, side="right")
    return np.append(np.inf, seconds[::-1])[count]
