"""A split as simple as prices allow: fewer stripes, fewer segments, nearly the same time.

``plan.stripes`` looks for the least price and stops only at picoseconds. What it gains by the last
stripe and by the last segments is often within what prices can tell, and each stripe needs streams
and groups, each segment launches.
"""

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
    """The simplest split tried whose price is at most the limit, in ticks, or that one.

    Fewest stripes first, the largest being kept; then fewest segments, the same in all stripes or
    no more than before; then equal shares before those found.
    """
    for stripes in _splits_by_simplicity(found.stripes, sorted(counts)):
        ticks = price_of(stripes, phases_of, limit)
        if ticks is not None:
            return StripeSplit(stripes, ticks)
    return found


def _splits_by_simplicity(
    stripes: tuple[PathStripe, ...], counts: Sequence[int]
) -> Iterator[tuple[PathStripe, ...]]:
    largest = sorted(stripes, key=lambda one: (-one.size_bytes, one.path, one.segments))
    most = max(one.segments for one in stripes)
    payload_bytes = sum(one.size_bytes for one in stripes)
    for many in range(2, len(stripes) + 1):
        kept = largest[:many]
        for count in (one for one in counts if one <= most):
            for shares in ([1.0] * many, [float(one.size_bytes) for one in kept]):
                sizes = round_to_bytes(shares, payload_bytes)
                yield tuple(
                    replace(one, size_bytes=size, segments=min(count, one.segments))
                    for one, size in zip(kept, sizes, strict=True)
                )
