"""The front of two costs: those of many choices that no other beats in both.

One cost, a size, is known of all; of the other, seconds, there is a bound from below, for some
effort a nearer one, and a price that takes longer. A choice is beaten for sure if one that was
priced needs no more of its size and no more seconds than its bound. Of what is left, the front by
bounds is priced next, as long as something is left. So the front is that of pricing everything, and
little is priced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Costs = NDArray[np.float64]
Numbers = NDArray[np.intp]
Pricer = Callable[[Sequence[int]], Sequence[float]]
"""A cost of each of some choices, by their numbers."""


def find_front(
    bounds: Sequence[float] | Costs,
    sizes: Sequence[float] | Costs,
    price: Pricer,
    go_on: Callable[[], bool] = lambda: True,
    nearer: Pricer | None = None,
) -> dict[int, float]:
    """The numbers of those on the front with their seconds, the fastest and largest first.

    Of equal ones the first that is priced stays. ``nearer``: bounds that are asked for before a
    price is, of all at once of which nothing told them apart. If it may not ``go_on``, the front is
    that of what is priced by then.
    """
    lows, large = np.array(bounds, float), np.array(sizes, float)
    took, rough = np.full(len(lows), np.nan), np.full(len(lows), nearer is not None)
    left = np.arange(len(lows))
    while True:
        best = _front_of(np.flatnonzero(~np.isnan(took)), took, large)
        left = left[~_find_beaten(lows[left], large[left], took[best], large[best])]
        if not len(left) or not go_on():
            return dict(zip(best.tolist(), took[best].tolist(), strict=True))
        some = _front_of(left, lows, large)
        if nearer is not None and len(far := some[rough[some]]):
            alike = np.isin(lows[left] + 1j * large[left], lows[far] + 1j * large[far])
            far = left[alike & rough[left]]
            lows[far], rough[far] = nearer(far.tolist()), False
        else:
            took[some] = price(some.tolist())
            left = left[np.isnan(took[left])]


def _front_of(numbers: Numbers, seconds: Costs, sizes: Costs) -> Numbers:
    """Those of some that no other of them beats, by increasing seconds and falling sizes."""
    order = numbers[np.lexsort((sizes[numbers], seconds[numbers]))]
    smallest = np.minimum.accumulate(np.append(np.inf, sizes[order]))
    return order[sizes[order] < smallest[:-1]]


def _find_beaten(lows: Costs, large: Costs, seconds: Costs, sizes: Costs) -> NDArray[np.bool_]:
    """Which of some a front beats for sure: what it has by their bound and needs no more."""
    before = np.searchsorted(seconds, lows, side="right")
    return np.append(np.inf, sizes)[before] <= large
