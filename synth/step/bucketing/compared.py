"""Buckets beside each other: DDP's own, the extremes, one number for all, and the best.

Which is faster is told as of whole plans: what one unknown factor does to both cancels, all
computing being off together, and all links. What is nearer than the clock leaves out is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from synth.step.bucketing.choosing import (
    best_cap,
    bound_buckets,
    fill_buckets,
    fill_by_default,
    find_buckets,
    find_contended_buckets,
)
from synth.step.bucketing.clock import BucketBounds, BucketTimeline, Ends, simulate_buckets
from synth.step.bucketing.replica import Replica
from synth.step.search.resolution import (
    Difference,
    UncertainSeconds,
    UncertaintySource,
    compare_seconds,
)

COMPUTING, LINKS = UncertaintySource("computing"), UncertaintySource("links")


class FillPolicy(Enum):
    """Who fills buckets, and how."""

    USUAL = "DDP's default"
    ONE = "one bucket"
    EACH = "a bucket a tensor"
    CAP = "one cap"
    BEST = "ours"


@dataclass(frozen=True)
class PolicyResult:
    """One way to fill them on the clock; ``saved``: what DDP's default takes more than it."""

    filling: FillPolicy
    ends: Ends
    timed: BucketTimeline
    saved: Difference


@dataclass(frozen=True)
class BucketComparison:
    """All ways; ``cap_mib`` is that of the best single cap; nothing is below ``bound_buckets``."""

    replica: Replica
    ways: tuple[PolicyResult, ...]
    cap_mib: int
    least: BucketBounds

    @property
    def best(self) -> PolicyResult:
        """Ours."""
        return self.ways[-1]


def compare_policies(replica: Replica) -> BucketComparison:
    """Each way on the clock, and beside DDP's own."""
    backward, sums, taken = replica.backward, replica.sums.seconds, replica.taken
    cap, capped = best_cap(backward, sums, taken)
    ends: Mapping[FillPolicy, Ends] = {
        FillPolicy.USUAL: fill_by_default(backward),
        FillPolicy.ONE: (len(backward.gradients),),
        FillPolicy.EACH: fill_buckets(backward, (0,)),
        FillPolicy.CAP: capped,
        FillPolicy.BEST: find_contended_buckets(backward, sums, taken)
        if taken
        else find_buckets(backward, sums),
    }
    default = _estimate_errors(replica, ends[FillPolicy.USUAL])
    ways = (
        PolicyResult(
            filling,
            each,
            simulate_buckets(backward, each, sums, taken),
            compare_seconds(_estimate_errors(replica, each), default),
        )
        for filling, each in ends.items()
    )
    return BucketComparison(replica, tuple(ways), cap, bound_buckets(backward, sums))


def _estimate_errors(replica: Replica, ends: Ends) -> UncertainSeconds:
    """Seconds of a step, and by how much they are others where computing or links are."""
    backward, sums, taken = replica.backward, replica.sums, replica.taken
    usual = simulate_buckets(backward, ends, sums.seconds, taken).seconds

    def off(one: BucketTimeline) -> float:
        return one.seconds - usual

    by_compute = (replica.computing(ratio) for ratio in (replica.fast, replica.slow))
    fast, slow = (off(simulate_buckets(each, ends, sums.seconds, taken)) for each in by_compute)
    return UncertainSeconds(
        usual,
        {
            COMPUTING: (fast, slow),
            LINKS: (
                off(simulate_buckets(backward, ends, sums.low, taken)),
                off(simulate_buckets(backward, ends, sums.high, taken)),
            ),
        },
    )
