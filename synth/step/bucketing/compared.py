"""Compares buckets: DDP's default, the extremes, one cap for all, and the best.

Differences are judged like differences between whole plans: errors of compute and of links are
common to both sides and cancel. Differences below the clock's error are ties.
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
    """A policy for filling buckets."""

    USUAL = "DDP's default"
    ONE = "one bucket"
    EACH = "a bucket a tensor"
    CAP = "one cap"
    BEST = "ours"


@dataclass(frozen=True)
class PolicyResult:
    """One policy with its timeline; ``saved``: how much longer DDP's default takes."""

    filling: FillPolicy
    ends: Ends
    timed: BucketTimeline
    saved: Difference


@dataclass(frozen=True)
class BucketComparison:
    """All policies; ``cap_mib``: the best single cap; ``least``: lower bounds."""

    replica: Replica
    ways: tuple[PolicyResult, ...]
    cap_mib: int
    least: BucketBounds

    @property
    def best(self) -> PolicyResult:
        """Our buckets."""
        return self.ways[-1]


def compare_policies(replica: Replica) -> BucketComparison:
    """Times each policy, and compares it with DDP's default."""
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
            policy,
            filled,
            simulate_buckets(backward, filled, sums, taken),
            compare_seconds(_estimate_errors(replica, filled), default),
        )
        for policy, filled in ends.items()
    )
    return BucketComparison(replica, tuple(ways), cap, bound_buckets(backward, sums))


def _estimate_errors(replica: Replica, ends: Ends) -> UncertainSeconds:
    """Returns the seconds of a step, with their errors from compute and from links."""
    backward, sums, taken = replica.backward, replica.sums, replica.taken
    usual = simulate_buckets(backward, ends, sums.seconds, taken).seconds

    def off(timeline: BucketTimeline) -> float:
        return timeline.seconds - usual

    by_compute = (replica.computing(ratio) for ratio in (replica.fast, replica.slow))
    fast, slow = (
        off(simulate_buckets(backward_pass, ends, sums.seconds, taken))
        for backward_pass in by_compute
    )
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
