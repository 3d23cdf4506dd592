"""Buckets of gradients for a plan that is simulated: some sizes tried, the best kept if it gains.

A sum of few bytes is mostly latency, one of many waits for the last of its gradients. Which is
worse the clock says: so where a step waits for sums, and where fewer of them would be shorter by
more than prices can tell, the plan is simulated with buckets of each size, too. What is compared is
the time in which nothing is computed. Without buckets the update of parameters goes in pieces, as
gradients come, of which the clock has every one as a kernel of its own, and frameworks have one for
all: a bucket that only mends that gains nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from hierarchies import InputError
from synth.train.planner.composing import Candidate
from synth.train.planner.finalists import Finalist
from synth.train.planner.resolution import OWN

BUCKETS = tuple(mega * 10**6 for mega in (5, 25, 100, 400))
"""In bytes: from some gradients of a layer to several layers; 25 MB is what DDP has, and 40 million
elements what Megatron has."""


def bucketed(
    alone: Finalist,
    simulated: Callable[[Candidate], Finalist],
    memory_bytes: float,
    shorter: Callable[[], float],
    sizes: Sequence[int] = BUCKETS,
) -> Finalist:
    """The finalist with the buckets by which it waits least; itself if prices cannot tell that.

    ``alone`` has none. ``shorter``: by how many seconds all its sums are shorter as one.
    """
    told = OWN * alone.found.seconds
    exposed = max(rank.exposed_seconds for rank in alone.found.ranks)
    if exposed <= told or shorter() <= told:
        return alone
    several = [alone, *_with_buckets(alone, simulated, memory_bytes, sizes)]
    best = min(several, key=lambda one: (_waiting(one), one.candidate.recipe.bucket_bytes))
    saved = _waiting(alone) - _waiting(best)
    return replace(best, saved_seconds=saved) if saved > told else alone


def _with_buckets(
    alone: Finalist,
    simulated: Callable[[Candidate], Finalist],
    memory_bytes: float,
    sizes: Sequence[int],
) -> Iterator[Finalist]:
    """Those that can be, fit, and take no longer."""
    for size in sizes:
        try:
            one = simulated(alone.candidate.in_buckets(size))
        except InputError:
            continue
        if one.size_bytes <= memory_bytes and one.found.seconds <= alone.found.seconds:
            yield one


def _waiting(one: Finalist) -> float:
    """Seconds in which the busiest rank does not compute."""
    return one.found.seconds - one.found.ranks[one.found.busiest].compute_seconds
