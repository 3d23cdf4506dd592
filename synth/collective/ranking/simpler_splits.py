"""Simpler splits of a payload over concurrent programs, at prices that hardly differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from synth.collective.ranking.stripes import (
    PathStripe,
    PhasesOf,
    StripeSplit,
    price_of,
    round_to_bytes,
)


def find_simpler_split(
    found: StripeSplit, phases_of: PhasesOf, counts: Sequence[int], limit: int
) -> StripeSplit:
    """Returns the simplest split whose price is at most ``limit`` ticks, else ``found``.

    The gain of the last stripe and the last segments is often within the prices' uncertainty, while
    each stripe needs streams and groups, and each segment launches. So the order of preference is:
    fewest stripes, keeping the largest; then fewest segments, equal in all stripes or no more than
    before; then equal shares rather than those found.
    """
    for stripes in _splits_by_simplicity(found.stripes, sorted(counts)):
        ticks = price_of(stripes, phases_of, limit)
        if ticks is not None:
            return StripeSplit(stripes, ticks)
    return found


def _splits_by_simplicity(
    stripes: tuple[PathStripe, ...], counts: Sequence[int]
) -> Iterator[tuple[PathStripe, ...]]:
    largest = sorted(stripes, key=lambda s: (-s.size_bytes, s.path, s.segments))
    most_segments = max(stripe.segments for stripe in stripes)
    payload_bytes = sum(stripe.size_bytes for stripe in stripes)
    for stripe_count in range(2, len(stripes) + 1):
        kept = largest[:stripe_count]
        for count in (count for count in counts if count <= most_segments):
            for shares in ([1.0] * stripe_count, [float(stripe.size_bytes) for stripe in kept]):
                sizes = round_to_bytes(shares, payload_bytes)
                yield tuple(
                    replace(stripe, size_bytes=size, segments=min(count, stripe.segments))
                    for stripe, size in zip(kept, sizes, strict=True)
                )
