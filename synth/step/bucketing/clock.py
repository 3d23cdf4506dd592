"""Buckets on a clock: one all-reduce after the other, beside compute, each when its bucket is full.

A bucket is full when the last of its gradients is made; DDP sends buckets in their order, on one
stream. So of buckets 1, 2, ... with gradients made by r and sums that take c seconds,
``end[k] = max(end[k-1], r[k]) + c[k]``, and the optimizer begins when the backward pass and the
last sum have ended.

Where a sum takes a part of what computes (``taken``, as on a CPU whose cores do both), all that is
computed beside it takes longer, and gradients are made later: then ``r[k]`` depends on the buckets
before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from synth.step.bucketing.gradients import BackwardPass

Ends = tuple[int, ...]
"""Of each bucket, how many gradients there are up to its last: ``(3, 5)`` has 3 and 2 of them."""

AllReduceSeconds = Callable[[int], float]
"""Seconds of an all-reduce of so many bytes."""


@dataclass(frozen=True)
class Bucket:
    """Gradients ``first`` to ``last`` (without that one) sent as one, from begin to end."""

    first: int
    last: int
    size_bytes: int
    begin_seconds: float
    end_seconds: float


@dataclass(frozen=True, order=True)
class BucketClock:
    """Where a step is: so late, with so much computed, and sums under way until ``busy``."""

    now: float = 0.0
    busy: float = 0.0
    done: float = 0.0

    def computed(self, done: float, taken: float) -> BucketClock:
        """Once so many seconds are computed, of which those beside a sum take longer."""
        shared = min(done - self.done, max(0.0, self.busy - self.now) * (1 - taken))
        return BucketClock(
            self.now + shared / (1 - taken) + done - self.done - shared, self.busy, done
        )

    def summed(self, seconds: float) -> BucketClock:
        """With one more sum, after those under way."""
        return BucketClock(self.now, max(self.now, self.busy) + seconds, self.done)


@dataclass(frozen=True)
class BucketTimeline:
    """A step with its buckets; ``computed_seconds``: when its backward pass ends."""

    backward: BackwardPass
    buckets: tuple[Bucket, ...]
    computed_seconds: float

    @property
    def seconds(self) -> float:
        """Of a whole step."""
        return self.exposed_seconds + self.computed_seconds + self.backward.update_seconds

    @property
    def exposed_seconds(self) -> float:
        """By how much the last sum ends after the backward pass."""
        return max(0.0, self.buckets[-1].end_seconds - self.computed_seconds)

    @property
    def summing_seconds(self) -> float:
        """Of all sums together."""
        return sum(one.end_seconds - one.begin_seconds for one in self.buckets)


@dataclass(frozen=True)
class BucketBounds:
    """What no buckets go below, each part with what the optimizer does afterwards.

    ``compute``: nothing waits. ``communication``: the first gradient that is made, then all sums
    one after the other, in the buckets that sum fastest. ``chain``: the last bucket is sent when
    the last gradient is made, and has that one at least.
    """

    compute_seconds: float
    communication_seconds: float
    chain_seconds: float

    @property
    def seconds(self) -> float:
        return max(self.compute_seconds, self.communication_seconds, self.chain_seconds)


def simulate_buckets(
    backward: BackwardPass, ends: Ends, summing: AllReduceSeconds, taken: float = 0.0
) -> BucketTimeline:
    """Buckets on the clock. ``ends`` rise to the number of gradients; ``taken`` is below 1."""
    assert ends[-1] == len(backward.gradients), ends
    found: list[Bucket] = []
    at = BucketClock()
    for first, last in pairwise((0, *ends)):
        size = backward.upto_bytes[last] - backward.upto_bytes[first]
        full = at.computed(backward.gradients[last - 1].ready_seconds, taken)
        at = full.summed(summing(size))
        found.append(Bucket(first, last, size, max(full.now, full.busy), at.busy))
    return BucketTimeline(backward, tuple(found), at.computed(backward.compute_seconds, taken).now)
