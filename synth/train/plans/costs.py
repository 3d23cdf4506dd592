"""What a row costs along an axis: bytes, and results that samples or tokens no longer cut."""

from __future__ import annotations

from collections.abc import Sequence

from grammar.tensors.sharding import Kind, Lie, Split
from synth.train.factors import Row


def sent(before: Lie, after: Lie, parts: int) -> float:
    """Of the whole value, what one device must send or receive along an axis: design section 5."""
    share = (parts - 1) / parts
    match before, after:
        case (Kind(), None):
            return 2 * share
        case (Kind(), Split()):
            return share
        case (Split(), None):
            return share
        case (Split(one), Split(other)) if one != other:
            return share / parts
    return 0.0


def astray(row: Row, over: Sequence[frozenset[int]], kept: bool) -> int:
    """How many results could be cut by samples or tokens and are not, nor are sums that will be."""
    return sum(
        bool(places) and lie not in (*((Kind.SUM,) if kept else ()), *map(Split, places))
        for lie, places in zip(row.results, over, strict=True)
    )
