"""Tries sizes of gradient buckets for a simulated plan, and keeps the best if it gains.

A reduction of few bytes is mostly latency; one of many waits for the last of its gradients. Only
the clock can weigh these. Where a step waits for reductions, and fewer of them would be shorter by
more than the prediction error, the plan is simulated with buckets: first of the size that is best
as composed, then of larger and of smaller ones as long as these are faster.
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
    """Returns the finalist with its fastest buckets, or ``alone`` if the gain is uncertain.

    ``alone`` has no buckets. ``shorter`` returns the seconds saved by reducing all gradients as
    one. ``sizes`` returns the sizes to try in bytes, smallest first, and the index to start from.
    """
    error = CLOCK_ERROR * alone.found.seconds
    exposed = max(rank.exposed_seconds for rank in alone.found.ranks)
    if exposed <= error or shorter() <= error:
        return alone
    bucket_bytes, first = sizes()

    @cache
    def simulated_in(index: int) -> Finalist | None:
        """The plan in buckets of one size; None if it is invalid or does not fit."""
        try:
            finalist = simulated(alone.candidate.in_buckets(bucket_bytes[index]))
        except InputError:
            return None
        return finalist if finalist.size_bytes <= memory_bytes else None

    def seconds(index: int) -> float:
        return finalist.found.seconds if (finalist := simulated_in(index)) else inf

    index = _find_lowest(seconds, len(bucket_bytes), first)
    saved = alone.found.seconds - seconds(index)
    best = simulated_in(index)
    return replace(best, saved_seconds=saved) if best and saved > error else alone


def _find_lowest(of: Callable[[int], float], count: int, first: int) -> int:
    """Walks from ``first`` while the next value is lower; returns the index of the lowest."""
    at = first
    for step in (1, -1):
        while 0 <= at + step < count and of(at + step) < of(at):
            at += step
        if at != first:
            break
    return at
