"""Paths from and to flat shardings, which are few enough to list.

A flat value is gathered before it is cut in another way. To cut a value flat, it must be replicated
along the flat axes, or a partial sum over them, and all other axes must be as in the target. Sums
over other axes can be completed before the cut, or after it on smaller parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from grammar.tensors.sharding import ReductionKind, Sharding, Type
from synth.step.redistribution.moves import MoveKind, RedistributionPath, ShardingMove
from synth.step.redistribution.rules import flatten_move

PathsBetween = Callable[[Sharding, Sharding], Iterable[RedistributionPath]]
"""Maps two shardings, neither of them flat, to the cheapest paths from the first to the second."""


def flat_paths(
    value: Type, source: Sharding, target: Sharding, between: PathsBetween
) -> Iterator[RedistributionPath]:
    """Yields candidates for the cheapest path; source and target differ, and either is flat."""
    for moves in _candidates(value, source, target, between):
        yield RedistributionPath(source, target, tuple(moves))


def _candidates(
    value: Type, source: Sharding, target: Sharding, between: PathsBetween
) -> Iterator[Sequence[ShardingMove]]:
    if source.flat:
        if (in_place := _reduce_in_place(source, target)) is not None:
            yield in_place
        bare = source.unflattened()
        head = [ShardingMove(MoveKind.ALL_GATHER, source.flat, source, bare)]
    else:
        bare, head = source, []
    if not target.flat:
        yield from ([*head, *path.moves] for path in between(bare, target))
        return
    for middle, after in _flat_predecessors(value, bare, target):
        cut = flatten_move(middle, after)
        rest = _reduce_in_place(after, target)
        assert cut is not None, (middle, after)
        assert rest is not None, (after, target)
        yield from ([*head, *path.moves, cut, *rest] for path in between(bare, middle))


def _flat_predecessors(
    value: Type, source: Sharding, target: Sharding
) -> Iterator[tuple[Sharding, Sharding]]:
    """Yields shardings before and after the cut: replicated or partial sums along the flat axes.

    Other sums are completed before the cut, or left until after it.
    """
    yield target.unflattened(), target
    summed = [axis for kind, axis in source.partial if kind is ReductionKind.SUM]
    if value.dtype in ("bool", "key") or not set(summed) & set(target.flat):
        return
    over = tuple((ReductionKind.SUM, axis) for axis in target.flat)
    pending = tuple((ReductionKind.SUM, axis) for axis in summed if axis not in target.axes)
    # A set, because the two are equal if no other sums are pending.
    for kept in {(), pending}:
        partial = (*target.partial, *kept)
        yield (
            replace(target.unflattened(), partial=(*partial, *over)),
            replace(target, partial=partial),
        )


def _reduce_in_place(source: Sharding, target: Sharding) -> Sequence[ShardingMove] | None:
    """Returns an all-reduce and masks between shardings with equal cuts; None if cuts differ."""
    cuts = [(end.dimensions, end.flat, end.lead) for end in (source, target)]
    if cuts[0] != cuts[1]:
        return None
    moves, current = list[ShardingMove](), source
    over = tuple(axis for _, axis in source.partial if axis not in target.axes)
    if over:
        partial = tuple((kind, axis) for kind, axis in current.partial if axis not in over)
        reduced = replace(current, partial=partial)
        moves.append(ShardingMove(MoveKind.ALL_REDUCE, over, current, reduced))
        current = reduced
    for kind, axis in target.partial:
        if axis not in current.axes:
            masked = current.laid(axis, kind)
            moves.append(ShardingMove(MoveKind.MASK, (axis,), current, masked))
            current = masked
    return moves if current == target else None


def price_path(
    path: RedistributionPath, value: Type, sizes: Mapping[str, int]
) -> tuple[float, int, int]:
    """Returns the price of a path: bytes, requests and moves."""
    return float(path.least_bytes(value, sizes)), len(path.requests(sizes)), len(path.moves)
