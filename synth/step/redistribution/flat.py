"""Paths from and to what is cut flat: few enough to be listed, and the cheapest taken.

A flat value is gathered before it is cut otherwise. It is made of what is replicated along its flat
axes, or of a sum over them, once everything else lies as it is to; sums over other axes may be
completed before or after that, and after it they are of parts only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from grammar.tensors.sharding import ReductionKind, Sharding, Type
from synth.step.redistribution.moves import MoveKind, RedistributionPath, ShardingMove
from synth.step.redistribution.rules import flatten_move

PathsBetween = Callable[[Sharding, Sharding], Iterable[RedistributionPath]]
"""The cheapest paths from one sharding to another, neither of them flat."""


def flat_paths(
    value: Type, source: Sharding, target: Sharding, between: PathsBetween
) -> Iterator[RedistributionPath]:
    """Candidates for the cheapest path where the source or the target is flat, and they differ."""
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
    """From what a flat value is made, and as what: replicated or a sum along its axes.

    Other sums are completed before, or left for afterwards.
    """
    yield target.unflattened(), target
    summed = [axis for kind, axis in source.partial if kind is ReductionKind.SUM]
    if value.dtype in ("bool", "key") or not set(summed) & set(target.flat):
        return
    over = tuple((ReductionKind.SUM, axis) for axis in target.flat)
    left = tuple((ReductionKind.SUM, axis) for axis in summed if axis not in target.axes)
    for rest in {(), left}:
        partial = (*target.partial, *rest)
        yield (
            replace(target.unflattened(), partial=(*partial, *over)),
            replace(target, partial=partial),
        )


def _reduce_in_place(source: Sharding, target: Sharding) -> Sequence[ShardingMove] | None:
    """Masks and one all-reduce between values that are cut flat alike; None if they are not."""
    cuts = [(one.dimensions, one.flat, one.lead) for one in (source, target)]
    if cuts[0] != cuts[1]:
        return None
    found, at = list[ShardingMove](), source
    over = tuple(axis for _, axis in source.partial if axis not in target.axes)
    if over:
        done = replace(at, partial=tuple(one for one in at.partial if one[1] not in over))
        found.append(ShardingMove(MoveKind.ALL_REDUCE, over, at, done))
        at = done
    for kind, axis in target.partial:
        if axis not in at.axes:
            masked = at.laid(axis, kind)
            found.append(ShardingMove(MoveKind.MASK, (axis,), at, masked))
            at = masked
    return found if at == target else None


def price_path(
    path: RedistributionPath, value: Type, sizes: Mapping[str, int]
) -> tuple[float, int, int]:
    """Bytes, requests and moves: the price of a path."""
    return float(path.least_bytes(value, sizes)), len(path.requests(sizes)), len(path.moves)
