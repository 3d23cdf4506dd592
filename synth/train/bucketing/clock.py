"""Buckets on a clock: one all-reduce after the other, beside compute, each when its bucket is full.

A bucket is full when the last of its gradients is made; DDP sends buckets in their order, on one
stream. So of buckets 1, 2, ... with gradients made by r and sums that take c seconds,
``end[k] = max(end[k-1], r[k]) + c[k]``, and the optimizer begins when the backward pass and the
last sum have ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from synth.train.bucketing.gradients import Backward

Ends = tuple[int, ...]
"""Of each bucket, how many gradients there are up to its last: ``(3, 5)`` has 3 and 2 of them."""

Summing = Callable[[int], float]
"""Seconds of an all-reduce of so many bytes."""


@dataclass(frozen=True)
class Bucket:
    """Gradients ``first`` to ``last`` (without that one) sent as one, from begin to end."""

    first: int
    last: int
    size_bytes: int
    begin_seconds: float
    end_seconds: float


@dataclass(frozen=True)
class Timed:
    """A step with its buckets."""

    backward: Backward
    buckets: tuple[Bucket, ...]

    @property
    def seconds(self) -> float:
        """Of a whole step."""
        return self.exposed_seconds + self.backward.compute_seconds + self.backward.update_seconds

    @property
    def exposed_seconds(self) -> float:
        """By how much the last sum ends after the backward pass."""
        return max(0.0, self.buckets[-1].end_seconds - self.backward.compute_seconds)

    @property
    def summing_seconds(self) -> float:
        """Of all sums together."""
        return sum(one.end_seconds - one.begin_seconds for one in self.buckets)


@dataclass(frozen=True)
class Least:
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


def timed(backward: Backward, ends: Ends, summing: Summing) -> Timed:
    """Buckets on the clock. ``ends`` rise to the number of gradients."""
    assert ends[-1] == len(backward.gradients), ends
    found: list[Bucket] = []
    free = 0.0
    for first, last in pairwise((0, *ends)):
        size = backward.upto_bytes[last] - backward.upto_bytes[first]
        begin = max(free, backward.gradients[last - 1].ready_seconds)
        free = begin + summing(size)
        found.append(Bucket(first, last, size, begin, free))
    return Timed(backward, tuple(found))
