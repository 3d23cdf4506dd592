"""The front of two costs: those of many choices that no other beats in both.

One cost, a size, is known of all; of the other, seconds, there is a bound from below, and a price
that takes longer. A choice is beaten for sure if one that was priced needs no more of its size and
no more seconds than its bound. Of what is left, the front by bounds is priced next, as long as
something is left. So the front is that of pricing everything, and little is priced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np


def front(
    bounds: Sequence[float],
    sizes: Sequence[float],
    price: Callable[[Sequence[int]], Sequence[float]],
    known: Mapping[int, float],
    go_on: Callable[[], bool] = lambda: True,
) -> dict[int, float]:
    """The numbers of those on the front with their seconds, the fastest and largest first.

    ``known`` holds prices from before. Of equal ones the first stays. If it may not ``go_on``, the
    front is that of what is priced by then.
    """
    lows, large = np.array(bounds, float), np.array(sizes, float)
    priced, left = dict(known), np.ones(len(lows), bool)
    left[list(priced)] = False
    while True:
        for number in _front(list(priced), priced.__getitem__, sizes):
            left &= (lows < priced[number]) | (large < sizes[number])
        open_ones = np.flatnonzero(left).tolist()
        if not open_ones or not go_on():
            return {one: priced[one] for one in _front(sorted(priced), priced.__getitem__, sizes)}
        some = _front(open_ones, bounds.__getitem__, sizes)
        priced.update(zip(some, price(some), strict=True))
        left[some] = False


def _front(
    numbers: Sequence[int], seconds: Callable[[int], float], sizes: Sequence[float]
) -> list[int]:
    """Those of some that no other of them beats, by increasing seconds and falling sizes."""
    found: list[int] = []
    for one in sorted(numbers, key=lambda one: (seconds(one), sizes[one], one)):
        if not found or sizes[one] < sizes[found[-1]]:
            found.append(one)
    return found
