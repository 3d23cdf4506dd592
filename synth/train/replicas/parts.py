"""What each of some virtual devices holds of a value: cut by its type, and put together again.

The judge's own reading of what a type means: the block of a dimension is the mixed-radix number of
the coordinates on its axes, first axis slowest; along partial axes the value is the sum (maximum,
minimum) of what devices hold; along all others devices hold equal bits. Along flat axes a device
holds a piece of the flattened block that is left; what padding holds means nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from grammar.tensors.sharding import Kind, Sharding

Array = npt.NDArray[Any]
Coordinates = tuple[int, ...]
Parts = dict[Coordinates, Array]
"""What each device holds, by its coordinates in the order of the axes."""

REDUCE = {Kind.SUM: np.add, Kind.MAX: np.maximum, Kind.MIN: np.minimum}


def devices(sizes: Mapping[str, int]) -> Iterator[Coordinates]:
    """The coordinates of all devices, the first axis slowest."""
    return product(*(range(size) for size in sizes.values()))


def number(at: Coordinates, axes: Sequence[str], sizes: Mapping[str, int]) -> int:
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
    if np.issubdtype(dtype, np.floating):
        return dtype.type(-np.inf if kind is Kind.MAX else np.inf)
    limits = np.iinfo(dtype)
    return dtype.type(limits.min if kind is Kind.MAX else limits.max)


def cut(
    value: Array, sharding: Sharding, sizes: Mapping[str, int], draw: np.random.Generator
) -> Parts:
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


def mismatch(
    parts: Parts, value: Array, sharding: Sharding, sizes: Mapping[str, int]
) -> str | None:
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


def _block(value: Array, sharding: Sharding, sizes: Mapping[str, int], at: Coordinates) -> Array:
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


def _elements(
    value: Array, sharding: Sharding, sizes: Mapping[str, int], at: Coordinates
) -> int | None:
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
