"""Times buckets: all-reduces run one by one, each when its bucket is full, and overlap compute.

A bucket is full when the last of its gradients is computed; DDP sends buckets in order, on one
stream. For buckets 1, 2, ... that are full at r and whose reductions take c seconds,
``end[k] = max(end[k-1], r[k]) + c[k]``. The optimizer begins when the backward pass and the last
reduction have ended.

If a reduction takes a share of the cores (``taken``, as on a CPU), concurrent compute takes longer,
and gradients are computed later. In that case ``r[k]`` depends on the earlier buckets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from synth.step.bucketing.gradients import BackwardPass

Ends = tuple[int, ...]
"""For each bucket the number of gradients up to its last: ``(3, 5)`` are buckets of 3 and 2."""

AllReduceSeconds = Callable[[int], float]
"""Seconds of an all-reduce, by its number of bytes."""


@dataclass(frozen=True)
class Bucket:
    """Gradients ``first`` to ``last`` (exclusive) reduced together, with begin and end."""

    first: int
    last: int
    size_bytes: int
    begin_seconds: float
    end_seconds: float


@dataclass(frozen=True, order=True)
class BucketClock:
    """The state of a step: its time, seconds computed, and the end of reductions (``busy``)."""

    # The order of the fields matters: ``find_contended_buckets`` sorts clocks by ``now`` first.
    now: float = 0.0
    busy: float = 0.0
    done: float = 0.0

    def computed(self, done: float, taken: float) -> BucketClock:
        """Returns the state once ``done`` seconds are computed, slower during a reduction."""
        shared = min(done - self.done, max(0.0, self.busy - self.now) * (1 - taken))
        return BucketClock(
            self.now + shared / (1 - taken) + done - self.done - shared, self.busy, done
        )

    def summed(self, seconds: float) -> BucketClock:
        """Returns the state with one more reduction, after the reductions in progress."""
        return BucketClock(self.now, max(self.now, self.busy) + seconds, self.done)


@dataclass(frozen=True)
class BucketTimeline:
    """A step with its buckets; ``computed_seconds``: the end of its backward pass."""

    backward: BackwardPass
    buckets: tuple[Bucket, ...]
    computed_seconds: float

    @property
    def seconds(self) -> float:
        """Seconds of the whole step."""
        return self.exposed_seconds + self.computed_seconds + self.backward.update_seconds

    @property
    def exposed_seconds(self) -> float:
        """Seconds from the end of the backward pass to the end of the last reduction."""
        return max(0.0, self.buckets[-1].end_seconds - self.computed_seconds)

    @property
    def summing_seconds(self) -> float:
        """Total seconds of all reductions."""
        return sum(bucket.end_seconds - bucket.begin_seconds for bucket in self.buckets)


@dataclass(frozen=True)
class BucketBounds:
    """Lower bounds over all buckets, each with the update afterwards.

    ``compute``: compute never waits. ``communication``: the first gradient, then all reductions one
    by one, in the buckets that are reduced fastest. ``chain``: the last bucket is sent when the
    last gradient is computed, and contains at least that gradient.
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
    """Times buckets. ``ends`` rise to the number of gradients; ``taken`` is below 1."""
    assert ends[-1] == len(backward.gradients), ends
    buckets: list[Bucket] = []
    at = BucketClock()
    for first, last in pairwise((0, *ends)):
        size = backward.upto_bytes[last] - backward.upto_bytes[first]
        full = at.computed(backward.gradients[last - 1].ready_seconds, taken)
        at = full.summed(summing(size))
        buckets.append(Bucket(first, last, size, max(full.now, full.busy), at.busy))
    return BucketTimeline(
        backward, tuple(buckets), at.computed(backward.compute_seconds, taken).now
    )
