"""Arrays laid on the devices of some axes, and whether arrays on devices mean an array.

What design section 2 says of types, written down a second time, for tests: it shares no code
with the types' own. Along one axis a lie is a dimension that is cut, a kind of partial, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import product
from typing import Any

import jax
import numpy as np

from equations.executed import is_key
from grammar.tensors.sharding import AxisSharding, ReductionKind, Sharding, Split

Array = Any
Draws = np.random.Generator
Place = tuple[int, ...]
"""A device: its coordinate on each axis, in the order of the sizes."""

PUT_TOGETHER: Mapping[ReductionKind, Callable[[Array, Array], Array]] = {
    ReductionKind.SUM: np.add,
    ReductionKind.MAX: np.maximum,
    ReductionKind.MIN: np.minimum,
}


def fractions(draws: Draws, shape: Sequence[int], dtype: Any) -> Array:
    """Signed fractions of 8, whose sums are exact; signed whole numbers; words of 32 bits."""
    if np.dtype(dtype) == np.dtype(bool):
        return draws.integers(0, 2, shape).astype(bool)
    if dtype == np.uint32:
        return _words(draws, shape)
    if np.issubdtype(dtype, np.integer):
        return draws.integers(-6, 7, shape).astype(dtype)
    return (draws.integers(-24, 25, shape) / 8).astype(dtype)


def _words(draws: Draws, shape: Sequence[int]) -> Array:
    """Words of all sizes, so that arithmetic wraps around at zero and at the other end."""
    found = draws.integers(0, 2**32, shape, dtype=np.uint32) >> draws.integers(0, 32, shape)
    found = np.where(draws.integers(0, 4, shape) == 0, 0, found)
    return np.where(draws.integers(0, 3, shape) == 0, ~found, found).astype(np.uint32)


def parted(whole: Array, kind: ReductionKind, parts: int, draws: Draws) -> list[Array]:
    """Arrays of the same shape whose sum, maximum or minimum is the whole."""
    whole = np.asarray(whole)
    if kind is ReductionKind.SUM:
        found = [fractions(draws, whole.shape, whole.dtype) for _ in range(parts - 1)]
        rest = whole
        for one in found:
            rest = (rest - one).astype(whole.dtype)
        return [*found, np.asarray(rest)]
    holder = draws.integers(0, parts, whole.shape)
    return [np.where(holder == part, whole, _beyond(whole, kind, draws)) for part in range(parts)]


def _beyond(whole: Array, kind: ReductionKind, draws: Draws) -> Array:
    """Below the whole, if a maximum is to be it, else above; often equal to it."""
    if whole.dtype == bool:
        other = draws.integers(0, 2, whole.shape).astype(bool)
        return whole & other if kind is ReductionKind.MAX else whole | other
    if whole.dtype == np.uint32:
        other = _words(draws, whole.shape)
        return PUT_TOGETHER[ReductionKind.MIN if kind is ReductionKind.MAX else ReductionKind.MAX](
            whole, other
        )
    step = np.abs(fractions(draws, whole.shape, whole.dtype))
    return (whole - step if kind is ReductionKind.MAX else whole + step).astype(whole.dtype)


def along(whole: Array, lie: AxisSharding, parts: int, draws: Draws) -> list[Array]:
    """The parts of a value along one axis."""
    match lie:
        case None:
            return [whole] * parts
        case ReductionKind():
            return parted(whole, lie, parts, draws)
        case Split(dimension):
            return list(np.split(whole, parts, dimension))


def means(parts: Sequence[Array], lie: AxisSharding, whole: Array) -> bool:
    """Are these the parts of the whole along one axis?"""
    match lie:
        case None:
            return all(equal(part, whole) for part in parts)
        case ReductionKind():
            if len({part.shape for part in parts}) > 1 or is_key(whole):
                return False
            with np.errstate(all="ignore"):
                return equal(reduce(PUT_TOGETHER[lie], parts), whole)
        case Split(dimension):
            size = whole.shape[dimension]
            if size % len(parts) or {part.shape for part in parts} != {
                (*whole.shape[:dimension], size // len(parts), *whole.shape[dimension + 1 :])
            }:
                return False
            return equal(np.concatenate(parts, dimension), whole)


def laid(
    whole: Array, sharding: Sharding, sizes: Mapping[str, int], draws: Draws
) -> dict[Place, Array]:
    """What each device holds: partial axes first, then the blocks of each part."""
    parts: dict[Place, Array] = {(): whole}
    for axis, size in sizes.items():
        kinds = [kind for kind, other in sharding.partial if other == axis]
        parts = {
            (*at, number): one
            for at, part in parts.items()
            for number, one in enumerate(along(part, next(iter(kinds), None), size, draws))
        }
    return {at: part[_block(part.shape, sharding, sizes, at)] for at, part in parts.items()}


def meant(
    parts: Mapping[Place, Array], sharding: Sharding, sizes: Mapping[str, int], whole: Array
) -> bool:
    """Do the arrays of all devices mean the whole? Partial axes of one kind only."""
    names = list(sizes)
    partial = {names.index(axis): kind for kind, axis in sharding.partial}
    kinds = set(partial.values())
    assert len(kinds) <= 1, "sums of maxima are not maxima of sums"
    ranges = [range(1) if at in partial else range(sizes[axis]) for at, axis in enumerate(names)]
    for place in product(*ranges):
        group = [range(sizes[a]) if at in partial else [place[at]] for at, a in enumerate(names)]
        members = [parts[at] for at in product(*group)]
        expected = whole[_block(whole.shape, sharding, sizes, place)]
        with np.errstate(all="ignore"):
            if any(one.shape != expected.shape for one in members):
                return False
            found = reduce(PUT_TOGETHER[next(iter(kinds))], members) if kinds else members[0]
        if not equal(found, expected):
            return False
    return True


def _block(
    shape: Iterable[int], sharding: Sharding, sizes: Mapping[str, int], at: Place
) -> tuple[slice, ...]:
    """Where a device's block lies: the mixed-radix number of its coordinates, first slowest."""
    coordinate = dict(zip(sizes, at, strict=True))
    found = []
    for size, axes in zip(shape, sharding.dimensions, strict=True):
        start, extent = 0, size
        for axis in axes:
            extent //= sizes[axis]
            start += coordinate[axis] * extent
        found.append(slice(start, start + extent))
    return tuple(found)


def equal(found: Array, whole: Array) -> bool:
    """Equal to the digits of its element type; nan is equal to nan. Keys: bit for bit."""
    if is_key(whole):
        found, whole = np.asarray(jax.random.key_data(found)), jax.random.key_data(whole)
    found, whole = np.asarray(found), np.asarray(whole)
    if found.shape != whole.shape or found.dtype != whole.dtype:
        return False
    if found.dtype == bool or np.issubdtype(found.dtype, np.integer):
        return bool(np.array_equal(found, whole))
    close = 1e-5 if found.dtype == np.float32 else 0.03
    return bool(
        np.allclose(
            found.astype(np.float64),
            whole.astype(np.float64),
            rtol=close,
            atol=close,
            equal_nan=True,
        )
    )
