"""The rules of redistribution: which moves are legal.

A dimension is cut by a list of axes, major to minor. A move removes only the *minor-most* axes of
the list, or appends axes to it: new blocks then contain whole old blocks, or the reverse. A move
over several axes at once is a single request; it is never split into a request for each axis. A
permute changes the order of a list.

All flat axes of a value are added or removed in a single move: blocks over fewer devices have other
padding, so that no block contains whole blocks of the other cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, permutations

from grammar.tensors.sharding import ReductionKind, Sharding
from synth.step.redistribution.moves import MoveKind, ShardingMove

Sizes = Mapping[str, int]


def list_moves(
    before: Sharding, sizes: Sizes, kinds: frozenset[ReductionKind]
) -> Iterator[ShardingMove]:
    """Yields all moves from a sharding; they make partial values only of these kinds.

    Does not check that axes divide the dimensions they cut. Kinds are not mixed: the maximum over
    one axis of sums over another is not the sum of maxima.
    """
    if before.flat:
        yield ShardingMove(MoveKind.ALL_GATHER, before.flat, before, before.unflattened())
        yield from _flat_moves(before, sizes, kinds)
        return
    yield from _replicated_moves(before, sizes, kinds)
    for dimension, axes in enumerate(before.dimensions):
        for first in range(len(axes)):
            yield from _split_moves(before, dimension, axes[first:], kinds)
    yield from _partial_moves(before)
    yield from _permute_moves(before, sizes)


def flatten_move(before: Sharding, after: Sharding) -> ShardingMove | None:
    """Returns the move from a sharding to a flat sharding; None if there is no such move.

    Along the flat axes the value is replicated before (slice), or a partial sum (reduce-scatter).
    """
    axes = after.flat
    if before.flat or _remove_axes(before, axes) != after.unflattened():
        return None
    along = {before.along(axis) for axis in axes}
    if along == {None}:
        return ShardingMove(MoveKind.SLICE, axes, before, after)
    return (
        ShardingMove(MoveKind.REDUCE_SCATTER, axes, before, after)
        if along == {ReductionKind.SUM}
        else None
    )


def _flat_moves(
    before: Sharding, sizes: Sizes, kinds: frozenset[ReductionKind]
) -> Iterator[ShardingMove]:
    """Yields moves of a flat value along other axes, which act on each element."""
    for axis in sizes:
        if axis not in before.axes:
            yield from _partial_making_moves(MoveKind.MASK, axis, before, kinds)
    partial = [axis for _, axis in before.partial]
    for count in range(1, len(partial) + 1):
        for axes in combinations(partial, count):
            yield ShardingMove(MoveKind.ALL_REDUCE, axes, before, _remove_axes(before, axes))


def _replicated_moves(
    before: Sharding, sizes: Sizes, kinds: frozenset[ReductionKind]
) -> Iterator[ShardingMove]:
    """Yields slices and masks of one axis at a time; several at once would gain nothing."""
    for axis in sizes:
        if axis not in before.axes:
            for dimension in range(len(before.dimensions)):
                yield ShardingMove(
                    MoveKind.SLICE, (axis,), before, _append_axes(before, dimension, (axis,))
                )
            yield from _partial_making_moves(MoveKind.MASK, axis, before, kinds)


def _split_moves(
    before: Sharding, dimension: int, axes: tuple[str, ...], kinds: frozenset[ReductionKind]
) -> Iterator[ShardingMove]:
    """Yields the moves of the minor-most axes of a dimension."""
    without = _remove_axes(before, axes)
    yield ShardingMove(MoveKind.ALL_GATHER, axes, before, without)
    for other in range(len(before.dimensions)):
        if other != dimension:
            for order in permutations(axes):
                after = _append_axes(without, other, order)
                yield ShardingMove(MoveKind.ALL_TO_ALL, axes, before, after)
    if len(axes) == 1:
        yield from _partial_making_moves(MoveKind.WIDEN, axes[0], before, kinds)


def _partial_moves(before: Sharding) -> Iterator[ShardingMove]:
    """Yields reductions over any subset of the partial axes."""
    partial = [axis for _, axis in before.partial]
    for count in range(1, len(partial) + 1):
        for axes in combinations(partial, count):
            without = _remove_axes(before, axes)
            yield ShardingMove(MoveKind.ALL_REDUCE, axes, before, without)
            for dimension in range(len(before.dimensions)):
                for order in permutations(axes):
                    after = _append_axes(without, dimension, order)
                    yield ShardingMove(MoveKind.REDUCE_SCATTER, order, before, after)


def _partial_making_moves(
    how: MoveKind, axis: str, before: Sharding, kinds: frozenset[ReductionKind]
) -> Iterator[ShardingMove]:
    present = {kind for kind, _ in before.partial}
    for kind in sorted(kinds, key=lambda kind: kind.value):
        if present <= {kind}:
            yield ShardingMove(how, (axis,), before, before.laid(axis, kind))


def _permute_moves(before: Sharding, sizes: Sizes) -> Iterator[ShardingMove]:
    """Yields reorderings of a dimension's axes, and exchanges of two axes of equal size."""
    moves: dict[Sharding, ShardingMove] = {}
    for dimension, axes in enumerate(before.dimensions):
        for order in permutations(axes):
            after = _replace_dimension(before, dimension, order)
            if order != axes:
                moves[after] = ShardingMove(
                    MoveKind.PERMUTE, _changed_axes(axes, order), before, after
                )
    partial = {axis for _, axis in before.partial}
    for pair in combinations([axis for axis in sizes if axis not in partial], 2):
        if sizes[pair[0]] == sizes[pair[1]]:
            after = _exchange_axes(before, *pair)
            moves.setdefault(after, ShardingMove(MoveKind.PERMUTE, pair, before, after))
    moves.pop(before, None)
    yield from moves.values()


def _changed_axes(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the axes from the first to the last change; their blocks are renumbered."""
    changed = [place for place, axis in enumerate(before) if axis != after[place]]
    return before[changed[0] : changed[-1] + 1]


def _exchange_axes(sharding: Sharding, first: str, second: str) -> Sharding:
    names = {first: second, second: first}
    dimensions = (tuple(names.get(axis, axis) for axis in axes) for axes in sharding.dimensions)
    return Sharding(tuple(dimensions), sharding.partial)


def _remove_axes(sharding: Sharding, axes: tuple[str, ...]) -> Sharding:
    for axis in axes:
        sharding = sharding.without(axis)
    return sharding


def _append_axes(sharding: Sharding, dimension: int, axes: tuple[str, ...]) -> Sharding:
    return _replace_dimension(sharding, dimension, (*sharding.dimensions[dimension], *axes))


def _replace_dimension(sharding: Sharding, dimension: int, axes: tuple[str, ...]) -> Sharding:
    dimensions = list(sharding.dimensions)
    dimensions[dimension] = axes
    return Sharding(tuple(dimensions), sharding.partial, sharding.flat, sharding.lead)
