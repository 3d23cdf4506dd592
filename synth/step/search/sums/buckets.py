"""Buckets of gradients for a plan that is simulated: some sizes tried, the best kept if it gains.

A sum of few bytes is mostly latency, one of many waits for the last of its gradients. Which is
worse the clock says: so where a step waits for sums, and where fewer of them would be shorter by
more than prices can tell, the plan is simulated with buckets, too: of the size that is best as it
is composed, then of larger and of smaller ones as long as the clock says that these are faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from math import inf

from hierarchies import InputError
from synth.step.search.finalists import Finalist
from synth.step.search.links import PlacedRecipe
from synth.step.search.resolution import CLOCK_ERROR


def try_buckets(
    alone: Finalist,
    simulated: Callable[[PlacedRecipe], Finalist],
    memory_bytes: float,
    shorter: Callable[[], float],
    sizes: Callable[[], tuple[Sequence[int], int]],
) -> Finalist:
    """The finalist with the buckets by which it is fastest; itself if prices cannot tell that.

    ``alone`` has none. ``shorter``: by how many seconds all its sums are shorter as one.
    ``sizes``: what is tried, in bytes, the smallest first, and with which of them to begin.
    """
    told = CLOCK_ERROR * alone.found.seconds
    exposed = max(rank.exposed_seconds for rank in alone.found.ranks)
    if exposed <= told or shorter() <= told:
        return alone
    several, first = sizes()

    @cache
    def tried(at: int) -> Finalist | None:
        """In buckets of a size, if that can be, and fits."""
        try:
            one = simulated(alone.candidate.in_buckets(several[at]))
        except InputError:
            return None
        return one if one.size_bytes <= memory_bytes else None

    def seconds(at: int) -> float:
        return one.found.seconds if (one := tried(at)) else inf

    at = _find_lowest(seconds, len(several), first)
    saved = alone.found.seconds - seconds(at)
    best = tried(at)
    return replace(best, saved_seconds=saved) if best and saved > told else alone


def _find_lowest(of: Callable[[int], float], count: int, first: int) -> int:
    """The place of the lowest of so many, from the first on as long as the next is lower."""
    at = first
    for step in (1, -1):
        while 0 <= at + step < count and of(at + step) < of(at):
            at += step
        if at != first:
            break
    return at
