"""Buckets beside each other: DDP's own, the extremes, one number for all, and the best.

Which is faster is told as of whole plans: what one unknown factor does to both cancels, all
computing being off together, and all links. What is nearer than the clock leaves out is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from synth.step.bucketing.choosing import best_cap, filled, least, soonest, soonest_beside, usual
from synth.step.bucketing.clock import Ends, Least, Timed, timed
from synth.step.bucketing.replica import Replica
from synth.step.search.resolution import Difference, Likely, Source, difference

COMPUTING, LINKS = Source("computing"), Source("links")


class Filling(Enum):
    """Who fills buckets, and how."""

    USUAL = "DDP's default"
    ONE = "one bucket"
    EACH = "a bucket a tensor"
    CAP = "one cap"
    BEST = "ours"


@dataclass(frozen=True)
class Filled:
    """One way to fill them on the clock; ``saved``: what DDP's default takes more than it."""

    filling: Filling
    ends: Ends
    timed: Timed
    saved: Difference


@dataclass(frozen=True)
class Compared:
    """All ways; ``cap_mib`` is that of the best single cap; nothing is below ``least``."""

    replica: Replica
    ways: tuple[Filled, ...]
    cap_mib: int
    least: Least

    @property
    def best(self) -> Filled:
        """Ours."""
        return self.ways[-1]


def compared(replica: Replica) -> Compared:
    """Each way on the clock, and beside DDP's own."""
    backward, sums, taken = replica.backward, replica.sums.seconds, replica.taken
    cap, capped = best_cap(backward, sums, taken)
    ends: Mapping[Filling, Ends] = {
        Filling.USUAL: usual(backward),
        Filling.ONE: (len(backward.gradients),),
        Filling.EACH: filled(backward, (0,)),
        Filling.CAP: capped,
        Filling.BEST: soonest_beside(backward, sums, taken) if taken else soonest(backward, sums),
    }
    default = _likely(replica, ends[Filling.USUAL])
    ways = (
        Filled(
            filling,
            each,
            timed(backward, each, sums, taken),
            difference(_likely(replica, each), default),
        )
        for filling, each in ends.items()
    )
    return Compared(replica, tuple(ways), cap, least(backward, sums))


def _likely(replica: Replica, ends: Ends) -> Likely:
    """Seconds of a step, and by how much they are others where computing or links are."""
    backward, sums, taken = replica.backward, replica.sums, replica.taken
    usual = timed(backward, ends, sums.seconds, taken).seconds

    def off(one: Timed) -> float:
        return one.seconds - usual

    by_compute = (replica.computing(ratio) for ratio in (replica.fast, replica.slow))
    fast, slow = (off(timed(each, ends, sums.seconds, taken)) for each in by_compute)
    return Likely(
        usual,
        {
            COMPUTING: (fast, slow),
            LINKS: (
                off(timed(backward, ends, sums.low, taken)),
                off(timed(backward, ends, sums.high, taken)),
            ),
        },
    )
