"""The judge of sharded steps: virtual devices that carry moves out on numpy arrays.

It reads moves as data and knows no rule: concatenate, split, and reduce over groups. What comes of
a path is for the caller to compare with what was meant.

What a device holds of a value is the judge's own reading of its type: the block of a dimension is
the mixed-radix number of the coordinates on its axes, first axis slowest; along partial axes the
value is the sum (maximum, minimum) of what devices hold; along all others devices hold equal bits.
Along flat axes a device holds a piece of the flattened block that is left; what padding holds means
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from grammar.tensors.sharding import Kind, Sharding
from synth.train.resharding.moves import How, Move, Path

Array = npt.NDArray[Any]
Coordinates = tuple[int, ...]
Sizes = Mapping[str, int]
Parts = dict[Coordinates, Array]
"""What each device holds, by its coordinates in the order of the axes."""

REDUCE = {Kind.SUM: np.add, Kind.MAX: np.maximum, Kind.MIN: np.minimum}


def devices(sizes: Sizes) -> Iterator[Coordinates]:
    """The coordinates of all devices, the first axis slowest."""
    return product(*(range(size) for size in sizes.values()))


def number(at: Coordinates, axes: Sequence[str], sizes: Sizes) -> int:
    """Which of the blocks that these axes make is a device's, the first axis slowest."""
    places = list(sizes)
    found = 0
    for axis in axes:
        found = found * sizes[axis] + at[places.index(axis)]
    return found


def neutral(kind: Kind, dtype: np.dtype[Any]) -> Any:
    """What changes nothing by being added, or by being compared."""
    if kind is Kind.SUM:
        return dtype.type(0)
    if dtype == np.bool_:
        return dtype.type(kind is Kind.MIN)
    if not np.issubdtype(dtype, np.integer):  # of numpy, bfloat16 is no floating
        return dtype.type(-np.inf if kind is Kind.MAX else np.inf)
    limits = np.iinfo(dtype)
    return dtype.type(limits.min if kind is Kind.MAX else limits.max)


def cut(value: Array, sharding: Sharding, sizes: Sizes, draw: np.random.Generator) -> Parts:
    """What devices hold of a value that lies so; partial values are split at random.

    Sums are split in multiples of an eighth with signs, which float32 adds exactly; of a maximum
    one device has the right number, drawn anew for each element, and the others none.
    """
    contributions: dict[Coordinates, Array] = {(): value}
    kinds = [kind for kind, _ in sharding.partial]
    axes = [axis for _, axis in sharding.partial]
    if axes:
        contributions = _contributions(value, kinds[0], [sizes[axis] for axis in axes], draw)
    places = [list(sizes).index(axis) for axis in axes]
    return {
        at: _block(contributions[tuple(at[p] for p in places)], sharding, sizes, at)
        for at in devices(sizes)
    }


def mismatch(parts: Parts, value: Array, sharding: Sharding, sizes: Sizes) -> str | None:
    """Where the devices do not hold a value that lies so, in words; None if they do."""
    places = [list(sizes).index(axis) for _, axis in sharding.partial]
    rest = [place for place, axis in enumerate(sizes) if axis not in sharding.axes]
    for at in devices(sizes):
        wanted, twin = _block(value, sharding, sizes, at), _at_zero(at, rest)
        if parts[at].shape != wanted.shape or parts[at].dtype != wanted.dtype:
            return f"device {at} holds {parts[at].dtype}{parts[at].shape}, not {wanted.shape}"
        if not _same_bits(parts[at], parts[twin], _elements(value, sharding, sizes, at)):
            return f"devices {twin} and {at} are replicas and hold different values"
    for at in devices(sizes):
        if at == _at_zero(at, places):
            group = [parts[other] for other in devices(sizes) if _at_zero(other, places) == at]
            kind = sharding.partial[0][0] if places else Kind.SUM
            found = np.asarray(REDUCE[kind].reduce(group)).astype(value.dtype)  # words wrap around
            elements = _elements(value, sharding, sizes, at)
            wanted = _block(value, sharding, sizes, at)
            found, wanted = (_without_padding(one, elements) for one in (found, wanted))
            if not np.array_equal(found, wanted):
                return f"what device {at} and its group hold is another value"
    return None


def _at_zero(at: Coordinates, places: Sequence[int]) -> Coordinates:
    return tuple(0 if place in places else c for place, c in enumerate(at))


def _block(value: Array, sharding: Sharding, sizes: Sizes, at: Coordinates) -> Array:
    for dimension, axes in enumerate(sharding.dimensions):
        blocks = np.split(value, sharding.parts(sizes)[dimension], axis=dimension)
        value = blocks[number(at, axes, sizes)]
    if sharding.flat:
        pieces = math.prod(sizes[axis] for axis in sharding.flat)
        return flat_piece(value, sharding.lead, pieces, number(at, sharding.flat, sizes))
    return value


def flat_piece(block: Array, lead: int, pieces: int, own: int) -> Array:
    """One of equal pieces of what is flattened behind its first dimensions, zeros at its end."""
    rows = block.reshape(*block.shape[:lead], -1)
    each = -(-rows.shape[-1] // pieces)
    more = [(0, 0)] * lead + [(0, each * pieces - rows.shape[-1])]
    return np.pad(rows, more)[..., own * each : (own + 1) * each]


def _elements(value: Array, sharding: Sharding, sizes: Sizes, at: Coordinates) -> int | None:
    """How many elements of a flat piece's last dimension are no padding; None if it has none."""
    if not sharding.flat:
        return None
    held = _block(np.ones(value.shape, np.int8), sharding, sizes, at)
    return int(held.reshape(-1, held.shape[-1])[0].sum()) if held.size else 0


def _same_bits(one: Array, other: Array, elements: int | None) -> bool:
    return _without_padding(one, elements).tobytes() == _without_padding(other, elements).tobytes()


def _without_padding(part: Array, elements: int | None) -> Array:
    return part if elements is None else part[..., :elements]


def _contributions(
    value: Array, kind: Kind, sizes: Sequence[int], draw: np.random.Generator
) -> dict[Coordinates, Array]:
    """For each device of a group a value of full size; together they make ``value``."""
    members = list(product(*map(range, sizes)))
    if kind is Kind.SUM:
        drawn = [draw.integers(-64, 65, value.shape) / 8 for _ in members[1:]]
        if not np.issubdtype(value.dtype, np.floating):
            drawn = [eighths * 8 for eighths in drawn]
        others = [one.astype(value.dtype) for one in drawn]
        return dict(zip(members, [value - sum(others), *others], strict=True))
    owner = draw.integers(0, len(members), value.shape)
    low = neutral(kind, value.dtype)
    return {one: np.where(owner == i, value, low) for i, one in enumerate(members)}


def carry_out(path: Path, parts: Parts, sizes: Sizes, shape: Sequence[int] = ()) -> Parts:
    """What devices hold after all moves of a path, of a value of this shape.

    Only where something is flat the shape is needed: to know what of it is padding.
    """
    for move in path.moves:
        parts = move_parts(move, parts, sizes, shape)
    return parts


def move_parts(move: Move, parts: Parts, sizes: Sizes, shape: Sequence[int] = ()) -> Parts:
    """What devices hold after one move: each gets it from the members of its group."""
    after = _flat_after if move.before.flat != move.after.flat else _after
    return {at: after(move, at, parts, sizes, shape) for at in devices(sizes)}


def _flat_after(
    move: Move, at: Coordinates, parts: Parts, sizes: Sizes, shape: Sequence[int]
) -> Array:
    """The same of a move along flat axes: pieces of the flattened block, with zeros at its end."""
    held = [parts[member] for member in _group(move.axes, at, sizes)]
    if move.how is How.ALL_GATHER:
        cuts = zip(shape, move.after.dimensions, strict=True)
        block = [size // math.prod(sizes[axis] for axis in axes) for size, axes in cuts]
        lead = move.before.lead
        rows = np.concatenate(held, axis=lead)[..., : math.prod(block[lead:])]
        return rows.reshape(block)
    own = number(at, move.axes, sizes)
    whole = parts[at] if move.how is How.SLICE else _reduced(move, held)
    return flat_piece(whole, move.after.lead, len(held), own)


def _after(move: Move, at: Coordinates, parts: Parts, sizes: Sizes, _: Sequence[int]) -> Array:
    mine, n = parts[at], move.devices(sizes)
    held = [parts[member] for member in _group(move.axes, at, sizes)]
    match move.how:
        case How.SLICE:
            return np.split(mine, n, axis=move.enters)[number(at, move.axes, sizes)]
        case How.MASK:
            return _masked(move, at, mine, sizes)
        case How.WIDEN:
            return _widened(move, at, mine, sizes)
        case How.ALL_GATHER:
            return np.concatenate(held, axis=move.leaves)
        case How.ALL_TO_ALL:
            own = number(at, _entering(move), sizes)
            pieces = [np.split(part, n, axis=move.enters)[own] for part in held]
            return np.concatenate(pieces, axis=move.leaves)
        case How.REDUCE_SCATTER:
            own = number(at, _entering(move), sizes)
            return np.split(_reduced(move, held), n, axis=move.enters)[own]
        case How.ALL_REDUCE:
            return _reduced(move, held)
        case How.PERMUTE:
            return parts[_sender(move, at, sizes)]
        case _:
            assert_never(move.how)


def _group(axes: tuple[str, ...], at: Coordinates, sizes: Sizes) -> list[Coordinates]:
    """The devices that differ from one along these axes only, by their number on them."""
    places = [place for place, axis in enumerate(sizes) if axis not in axes]
    alike = [one for one in devices(sizes) if all(one[place] == at[place] for place in places)]
    return sorted(alike, key=lambda one: number(one, axes, sizes))


def _entering(move: Move) -> tuple[str, ...]:
    """The axes of the move in the order in which they cut the dimension that they enter."""
    return tuple(axis for axis in move.after.dimensions[move.enters] if axis in move.axes)


def _reduced(move: Move, held: list[Array]) -> Array:
    return np.asarray(REDUCE[move.kind].reduce(held)).astype(held[0].dtype)


def _masked(move: Move, at: Coordinates, mine: Array, sizes: Sizes) -> Array:
    if move.kind is not Kind.SUM or number(at, move.axes, sizes) == 0:
        return mine
    return np.full_like(mine, neutral(move.kind, mine.dtype))


def _widened(move: Move, at: Coordinates, mine: Array, sizes: Sizes) -> Array:
    around = [np.full_like(mine, neutral(move.kind, mine.dtype))] * move.devices(sizes)
    around[number(at, move.axes, sizes)] = mine
    return np.concatenate(around, axis=move.leaves)


def _sender(move: Move, at: Coordinates, sizes: Sizes) -> Coordinates:
    """A device of the group that held what this one is to hold."""
    wanted = [number(at, axes, sizes) for axes in move.after.dimensions]
    for one in _group(move.axes, at, sizes):
        if [number(one, axes, sizes) for axes in move.before.dimensions] == wanted:
            return one
    raise ValueError(f"{move}: nobody holds the part of device {at}")
