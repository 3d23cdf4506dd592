"""The Pareto front of two costs: the choices that no other choice beats in both.

One cost, a size, is known for all choices. The other, seconds, has a lower bound, a tighter bound
at some effort, and a price that takes longest to compute. A choice is surely beaten if a priced
choice has no larger size and no more seconds than the bound. The front, by bounds, of the remaining
choices is priced next, until none remain. So the result equals that of pricing all choices, and few
are priced.
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
    nearer: Pricer | None = None,
) -> dict[int, float]:
    """Returns the numbers on the front with their seconds, the fastest and largest first.

    Of equal choices the first to be priced stays. ``nearer`` returns tighter bounds, which are
    computed before a price, for all choices with equal bounds and sizes at once. If ``go_on``
    returns False, the front is that of the choices priced so far.
    """
    lows, large = np.array(bounds, float), np.array(sizes, float)
    seconds, rough = np.full(len(lows), np.nan), np.full(len(lows), nearer is not None)
    left = np.arange(len(lows))
    while True:
        best = _front_of(np.flatnonzero(~np.isnan(seconds)), seconds, large)
        left = left[~_find_beaten(lows[left], large[left], seconds[best], large[best])]
        if not len(left) or not go_on():
            return dict(zip(best.tolist(), seconds[best].tolist(), strict=True))
        chosen = _front_of(left, lows, large)
        if nearer is not None and len(far := chosen[rough[chosen]]):
            # Complex numbers compare pairs of bound and size in one call of np.isin.
            alike = np.isin(lows[left] + 1j * large[left], lows[far] + 1j * large[far])
            far = left[alike & rough[left]]
            lows[far], rough[far] = nearer(far.tolist()), False
        else:
            seconds[chosen] = price(chosen.tolist())
            left = left[np.isnan(seconds[left])]


def _front_of(numbers: Numbers, seconds: Costs, sizes: Costs) -> Numbers:
    """Returns the front of the given numbers, by increasing seconds and falling sizes."""
    order = numbers[np.lexsort((sizes[numbers], seconds[numbers]))]
    smallest = np.minimum.accumulate(np.append(np.inf, sizes[order]))
    return order[sizes[order] < smallest[:-1]]


def _find_beaten(lows: Costs, large: Costs, seconds: Costs, sizes: Costs) -> NDArray[np.bool_]:
    """Returns which choices a front surely beats, by a choice within their bound and size."""
    before = np.searchsorted(seconds, lows, side="right")
    return np.append(np.inf, sizes)[before] <= large
