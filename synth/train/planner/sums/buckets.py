"""Buckets of gradients for a plan that is simulated: some sizes tried, the best kept if it gains.

A sum of few bytes is mostly latency, one of many waits for the last of its gradients. Which is
worse the clock says: so where a step waits for sums, and where fewer of them would be shorter by
more than prices can tell, the plan is simulated with buckets of some sizes, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from hierarchies import InputError
from synth.train.planner.finalists import Finalist
from synth.train.planner.links import Candidate
from synth.train.planner.resolution import OWN


def bucketed(
    alone: Finalist,
    simulated: Callable[[Candidate], Finalist],
    memory_bytes: float,
    shorter: Callable[[], float],
    sizes: Iterable[int],
) -> Finalist:
    """The finalist with the buckets by which it is fastest; itself if prices cannot tell that.

    ``alone`` has none. ``shorter``: by how many seconds all its sums are shorter as one.
    """
    told = OWN * alone.found.seconds
    exposed = max(rank.exposed_seconds for rank in alone.found.ranks)
    if exposed <= told or shorter() <= told:
        return alone
    several = _with_buckets(alone, simulated, memory_bytes, sizes)
    best = min(several, key=lambda one: one.found.seconds, default=alone)
    saved = alone.found.seconds - best.found.seconds
    return replace(best, saved_seconds=saved) if saved > told else alone


def _with_buckets(
    alone: Finalist,
    simulated: Callable[[Candidate], Finalist],
    memory_bytes: float,
    sizes: Iterable[int],
) -> Iterator[Finalist]:
    """Those that can be, and fit."""
    for size in sizes:
        try:
            one = simulated(alone.candidate.in_buckets(size))
        except InputError:
            continue
        if one.size_bytes <= memory_bytes:
            yield one
