"""Finds the buckets that end first, and the buckets that DDP fills.

Buckets are runs of gradients in the order of computation, as a reducer that never waits fills them.
Let ``end[j]`` be the earliest time by which the first j gradients are reduced. The last of their
buckets begins after some i, and of everything before only ``end[i]`` matters:
``end[j] = min over i < j of max(end[i], ready[j]) + seconds(bytes of i to j)``. The best of all
2^(n-1) ways to cut n gradients into runs is therefore found in n^2 steps, for any seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from synth.step.bucketing.clock import (
    AllReduceSeconds,
    BucketBounds,
    BucketClock,
    Ends,
    simulate_buckets,
)
from synth.step.bucketing.gradients import BackwardPass

MIB = 2**20
FIRST_BYTES, USUAL_BYTES = MIB, 25 * MIB
"""DDP's default sizes of the first bucket and of all other buckets, in bytes."""

TOLERANCE = 0.001
"""The share of a step that additional buckets must save to be worthwhile."""

CAPS_MIB = tuple(2**power for power in range(11))
"""Values of DDP's ``bucket_cap_mb`` that are tried: one number for all buckets."""


def fill_buckets(backward: BackwardPass, caps_bytes: Sequence[int]) -> Ends:
    """Fills buckets as DDP does: a bucket ends with the gradient at which it reaches its cap.

    The buckets take the caps in ``caps_bytes`` in order; all later buckets take the last cap.

    >>> from synth.step.bucketing.gradients import Gradient
    >>> made = tuple(Gradient(name, -1, 1, 4, 0.0) for name in "abcde")
    >>> fill_buckets(BackwardPass("f32", made, 1.0, 0.0), (4, 8))
    (1, 3, 5)
    """
    ends: list[int] = []
    size = 0
    for index, gradient in enumerate(backward.gradients):
        size += gradient.size_bytes
        if size >= caps_bytes[min(len(ends), len(caps_bytes) - 1)]:
            ends.append(index + 1)
            size = 0
    return (*ends, len(backward.gradients)) if size else tuple(ends)


def fill_by_default(backward: BackwardPass) -> Ends:
    """Fills DDP's default buckets."""
    return fill_buckets(backward, (FIRST_BYTES, USUAL_BYTES))


def find_buckets(
    backward: BackwardPass, summing: AllReduceSeconds, within: float = TOLERANCE
) -> Ends:
    """Returns the fewest buckets whose step exceeds the best by at most a share ``within``.

    With k buckets, one more each round: ``end[k][j] = min over i of max(end[k-1][i], ready[j]) +
    seconds(bytes of i to j)``. If reductions are hidden, very many buckets may end a microsecond
    before a few buckets. Each bucket is one more launch, which the clock does not charge to
    compute.
    """
    ready = np.array([gradient.ready_seconds for gradient in backward.gradients])
    costs = list(_costs(backward, summing))
    count = len(costs)
    cost = np.full((count, count), np.inf)
    for at, column in enumerate(costs):
        cost[: at + 1, at] = column
    after = backward.compute_seconds
    enough = (1 + within) * (max(after, _best_end(ready, costs)) + backward.update_seconds)
    end, cuts = np.array([0.0, *[np.inf] * count]), list[NDArray[np.int64]]()
    while not cuts or max(after, end[-1]) + backward.update_seconds > enough:
        ends = np.maximum(end[:-1, None], ready[None, :]) + cost
        cuts.append(np.argmin(ends, axis=0))
        end = np.array([np.inf, *np.min(ends, axis=0)])
    return _cuts(cuts, count)


def find_contended_buckets(backward: BackwardPass, summing: AllReduceSeconds, taken: float) -> Ends:
    """Returns the buckets with the fastest step, if reductions take a share of the cores.

    Of two ways to fill the buckets up to a gradient, a way that is later both in compute and in
    reductions leads to no better end. For each number of gradients the search therefore keeps the
    ways that no other way beats in both; the result is the best of all.
    """
    ready = [gradient.ready_seconds for gradient in backward.gradients]
    kept: list[dict[BucketClock, Ends]] = [{BucketClock(): ()}]
    for last, costs in enumerate(_costs(backward, summing), 1):
        ways = {
            at.computed(ready[last - 1], taken).summed(float(cost)): (*ends, last)
            for before, cost in zip(kept, costs, strict=True)
            for at, ends in before.items()
        }
        first, busy = dict[BucketClock, Ends](), inf
        for at in sorted(ways):
            if at.busy < busy:
                first[at], busy = ways[at], at.busy
        kept.append(first)

    def end(at: BucketClock) -> float:
        return max(at.busy, at.computed(backward.compute_seconds, taken).now)

    return kept[-1][min(kept[-1], key=end)]


def _best_end(ready: NDArray[np.float64], costs: Sequence[NDArray[np.float64]]) -> float:
    """Returns the earliest end of the last reduction, with any number of buckets."""
    end = [0.0]
    for at, cost in enumerate(costs):
        end.append(float(np.min(np.maximum(np.array(end), ready[at]) + cost)))
    return end[-1]


def bound_buckets(backward: BackwardPass, summing: AllReduceSeconds) -> BucketBounds:
    """Returns lower bounds over all buckets."""
    total = [0.0]
    last = 0.0
    for cost in _costs(backward, summing):
        total.append(float(np.min(np.array(total) + cost)))
        last = float(np.min(cost))
    made = backward.gradients
    update = backward.update_seconds
    return BucketBounds(
        backward.compute_seconds + update,
        made[0].ready_seconds + total[-1] + update,
        made[-1].ready_seconds + last + update,
    )


def _costs(backward: BackwardPass, summing: AllReduceSeconds) -> Iterator[NDArray[np.float64]]:
    """Yields for each gradient the seconds of buckets ending with it, by their first gradient."""
    upto = np.array(backward.upto_bytes)
    known: dict[int, float] = {}
    for at in range(1, len(upto)):
        sizes = (upto[at] - upto[:at]).tolist()
        for size in sizes:
            if size not in known:
                known[size] = summing(size)
        yield np.array([known[size] for size in sizes])


def _cuts(cuts: Sequence[NDArray[np.int64]], count: int) -> Ends:
    """Walks back from the end, along the start of the last bucket of each round."""
    ends, at = list[int](), count
    for cut in reversed(cuts):
        ends.append(at)
        at = int(cut[at - 1])
    assert at == 0, "the first bucket begins with the first gradient"
    return tuple(reversed(ends))


def best_cap(
    backward: BackwardPass, summing: AllReduceSeconds, taken: float = 0.0
) -> tuple[int, Ends]:
    """Returns the MiB for all buckets with the fastest step, the largest if equal, and the ends."""
    by_cap = {cap: fill_buckets(backward, (cap * MIB,)) for cap in CAPS_MIB}

    def seconds(cap: int) -> tuple[float, int]:
        return simulate_buckets(backward, by_cap[cap], summing, taken).seconds, -cap

    best = min(by_cap, key=seconds)
    return best, by_cap[best]
