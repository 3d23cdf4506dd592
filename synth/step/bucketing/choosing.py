"""The buckets that end first, and those that others fill.

Buckets are runs of gradients in the order in which they are made, as a reducer that waits for none
fills them. Of the first j gradients let ``end[j]`` be the least time by which all are summed; the
last bucket of them begins after some i, and nothing but ``end[i]`` matters of what was before:
``end[j] = min over i < j of max(end[i], ready[j]) + seconds(bytes of i to j)``. So the best of all
2^(n-1) ways to cut n gradients in runs is found in n^2 steps, whatever the seconds are.
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
"""DDP's bytes of the first bucket and of all others, unless it is told other ones."""

TOLERANCE = 0.001
"""Of a step: what more buckets gain less is not worth them."""

CAPS_MIB = tuple(2**power for power in range(11))
"""What is tried for DDP's ``bucket_cap_mb``: one number for all buckets."""


def fill_buckets(backward: BackwardPass, caps_bytes: Sequence[int]) -> Ends:
    """As DDP fills them: a bucket ends with the gradient by which it has its bytes or more.

    Each bucket has the next of ``caps_bytes``, those after the last the last one.

    >>> from synth.step.bucketing.gradients import Gradient
    >>> made = tuple(Gradient(name, -1, 1, 4, 0.0) for name in "abcde")
    >>> filled(Backward("f32", made, 1.0, 0.0), (4, 8))
    (1, 3, 5)
    """
    found: list[int] = []
    size = 0
    for at, one in enumerate(backward.gradients):
        size += one.size_bytes
        if size >= caps_bytes[min(len(found), len(caps_bytes) - 1)]:
            found.append(at + 1)
            size = 0
    return (*found, len(backward.gradients)) if size else tuple(found)


def fill_by_default(backward: BackwardPass) -> Ends:
    """DDP's, unless it is told other bytes."""
    return fill_buckets(backward, (FIRST_BYTES, USUAL_BYTES))


def find_buckets(
    backward: BackwardPass, summing: AllReduceSeconds, within: float = TOLERANCE
) -> Ends:
    """The fewest buckets by which a step takes at most this share more than by the best there are.

    With k buckets, one more each round: ``end[k][j] = min over i of max(end[k-1][i], ready[j]) +
    seconds(bytes of i to j)``. Where sums are hidden very many buckets may end a microsecond
    before few; each is one more launch, which the clock does not charge to compute.
    """
    ready = np.array([one.ready_seconds for one in backward.gradients])
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
    """The buckets by which a step ends first where sums take a part of what computes.

    Of two ways to fill the buckets up to a gradient that one leads to no better end which is later
    in both, what is computed and what is summed. So of each number of gradients those ways are kept
    that no other beats in both: the best is found of all that there are.
    """
    ready = [one.ready_seconds for one in backward.gradients]
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
    """When the last sum ends at best, by however many buckets."""
    end = [0.0]
    for at, cost in enumerate(costs):
        end.append(float(np.min(np.maximum(np.array(end), ready[at]) + cost)))
    return end[-1]


def bound_buckets(backward: BackwardPass, summing: AllReduceSeconds) -> BucketBounds:
    """What no buckets go below, whatever is in them."""
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
    """For each gradient: seconds of buckets that end with it, from each one before it on."""
    upto = np.array(backward.upto_bytes)
    known: dict[int, float] = {}
    for at in range(1, len(upto)):
        sizes = (upto[at] - upto[:at]).tolist()
        for size in sizes:
            if size not in known:
                known[size] = summing(size)
        yield np.array([known[size] for size in sizes])


def _cuts(cuts: Sequence[NDArray[np.int64]], count: int) -> Ends:
    """Back from the end, along where the last of so many buckets begins."""
    found, at = list[int](), count
    for cut in reversed(cuts):
        found.append(at)
        at = int(cut[at - 1])
    assert at == 0, "the first bucket begins with the first gradient"
    return tuple(reversed(found))


def best_cap(
    backward: BackwardPass, summing: AllReduceSeconds, taken: float = 0.0
) -> tuple[int, Ends]:
    """The number of MiB for all buckets by which a step ends first, the largest of equal ones."""
    found = {cap: fill_buckets(backward, (cap * MIB,)) for cap in CAPS_MIB}

    def seconds(cap: int) -> tuple[float, int]:
        return simulate_buckets(backward, found[cap], summing, taken).seconds, -cap

    best = min(found, key=seconds)
    return best, found[best]
