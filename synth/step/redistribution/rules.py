"""Which moves may be taken: the rules of redistribution.

A dimension is cut by a list of axes, major to minor, and a move takes off only the *minor-most*
of them, or appends to the list: blocks are then whole blocks of what was there. One move may be
over several axes at once, which is one request; it is never cut in one for each axis. The order
of a list is changed by a permute.

All flat axes of a value come and go in one move: over fewer devices blocks are padded otherwise, so
that none is a block of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations, permutations

from grammar.tensors.sharding import Kind, Sharding
from synth.step.redistribution.moves import How, Move

Sizes = Mapping[str, int]


def moves(before: Sharding, sizes: Sizes, kinds: frozenset[Kind]) -> Iterator[Move]:
    """All moves from a sharding over axes of such sizes; partial values only of these kinds.

    Whether the axes divide the dimensions they cut is not looked at. Kinds are not mixed: the
    maximum over one axis of sums over another is not the sum of maxima.
    """
    if before.flat:
        yield Move(How.ALL_GATHER, before.flat, before, before.unflattened())
        yield from _as_flat(before, sizes, kinds)
        return
    yield from _from_replicated(before, sizes, kinds)
    for dimension, axes in enumerate(before.dimensions):
        for first in range(len(axes)):
            yield from _from_split(before, dimension, axes[first:], kinds)
    yield from _from_partial(before)
    yield from _permutes(before, sizes)


def flattened(before: Sharding, after: Sharding) -> Move | None:
    """The move to what is flat from what is not; None if there is none.

    Along the flat axes the value is replicated before (slice), or a sum (reduce-scatter).
    """
    axes = after.flat
    if before.flat or _without(before, axes) != after.unflattened():
        return None
    along = {before.along(axis) for axis in axes}
    if along == {None}:
        return Move(How.SLICE, axes, before, after)
    return Move(How.REDUCE_SCATTER, axes, before, after) if along == {Kind.SUM} else None


def _as_flat(before: Sharding, sizes: Sizes, kinds: frozenset[Kind]) -> Iterator[Move]:
    """What works on each element of a flat value as it is, along other axes."""
    for axis in sizes:
        if axis not in before.axes:
            yield from _made_partial(How.MASK, axis, before, kinds)
    partial = [axis for _, axis in before.partial]
    for count in range(1, len(partial) + 1):
        for axes in combinations(partial, count):
            yield Move(How.ALL_REDUCE, axes, before, _without(before, axes))


def _from_replicated(before: Sharding, sizes: Sizes, kinds: frozenset[Kind]) -> Iterator[Move]:
    """Slices and masks, one axis at a time: nothing is gained by several at once."""
    for axis in sizes:
        if axis not in before.axes:
            for dimension in range(len(before.dimensions)):
                yield Move(How.SLICE, (axis,), before, _appended(before, dimension, (axis,)))
            yield from _made_partial(How.MASK, axis, before, kinds)


def _from_split(
    before: Sharding, dimension: int, axes: tuple[str, ...], kinds: frozenset[Kind]
) -> Iterator[Move]:
    """What can be done with the minor-most axes of a dimension."""
    without = _without(before, axes)
    yield Move(How.ALL_GATHER, axes, before, without)
    for other in range(len(before.dimensions)):
        if other != dimension:
            for order in permutations(axes):
                after = _appended(without, other, order)
                yield Move(How.ALL_TO_ALL, axes, before, after)
    if len(axes) == 1:
        yield from _made_partial(How.WIDEN, axes[0], before, kinds)


def _from_partial(before: Sharding) -> Iterator[Move]:
    """Reductions over any of the partial axes."""
    partial = [axis for _, axis in before.partial]
    for count in range(1, len(partial) + 1):
        for axes in combinations(partial, count):
            without = _without(before, axes)
            yield Move(How.ALL_REDUCE, axes, before, without)
            for dimension in range(len(before.dimensions)):
                for order in permutations(axes):
                    after = _appended(without, dimension, order)
                    yield Move(How.REDUCE_SCATTER, order, before, after)


def _made_partial(how: How, axis: str, before: Sharding, kinds: frozenset[Kind]) -> Iterator[Move]:
    present = {kind for kind, _ in before.partial}
    for kind in sorted(kinds, key=lambda one: one.value):
        if present <= {kind}:
            yield Move(how, (axis,), before, before.laid(axis, kind))


def _permutes(before: Sharding, sizes: Sizes) -> Iterator[Move]:
    """Another order of the axes of a dimension; two axes of one size in each other's place."""
    found: dict[Sharding, Move] = {}
    for dimension, axes in enumerate(before.dimensions):
        for order in permutations(axes):
            after = _with_dimension(before, dimension, order)
            if order != axes:
                found[after] = Move(How.PERMUTE, _reordered(axes, order), before, after)
    partial = {axis for _, axis in before.partial}
    for pair in combinations([axis for axis in sizes if axis not in partial], 2):
        if sizes[pair[0]] == sizes[pair[1]]:
            after = _exchanged(before, *pair)
            found.setdefault(after, Move(How.PERMUTE, pair, before, after))
    found.pop(before, None)
    yield from found.values()


def _reordered(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[str, ...]:
    """From the first to the last axis that is another: blocks of those between are renumbered."""
    differ = [place for place, axis in enumerate(before) if axis != after[place]]
    return before[differ[0] : differ[-1] + 1]


def _exchanged(sharding: Sharding, one: str, other: str) -> Sharding:
    """Each of two axes where the other was."""
    names = {one: other, other: one}
    dimensions = (tuple(names.get(a, a) for a in axes) for axes in sharding.dimensions)
    return Sharding(tuple(dimensions), sharding.partial)


def _without(sharding: Sharding, axes: tuple[str, ...]) -> Sharding:
    for axis in axes:
        sharding = sharding.without(axis)
    return sharding


def _appended(sharding: Sharding, dimension: int, axes: tuple[str, ...]) -> Sharding:
    return _with_dimension(sharding, dimension, (*sharding.dimensions[dimension], *axes))


def _with_dimension(sharding: Sharding, dimension: int, axes: tuple[str, ...]) -> Sharding:
    every = sharding.dimensions
    cut = (*every[:dimension], axes, *every[dimension + 1 :])
    return replace(sharding, dimensions=cut)
