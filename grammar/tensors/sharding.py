"""Shardings: how a value of a training step is divided over the axes of a placement.

Along one axis every device holds the whole value (*replicate*), or its block of one dimension
(*split*), or an addend of full size, where the sum (or maximum, or minimum) over the devices is
the value (*partial*). On ``data=4, model=2`` a matrix ``f32[8@data,16]{sum:model}`` has four blocks
of two rows, each the sum of two devices' addends.

Values that are only updated element by element may be cut *flat*, over any number of devices: the
remaining block is flattened, padded to a multiple of the devices, and cut into equal pieces. On
``data=3`` a device has 6 elements of ``f32[4,4]{flat:data}``, and 2 elements of the last device are
padding. In ``f32[32,4,4]{flat1:data}``, a stack, each slice is cut in this way: flat from
dimension 1.

Follows the types of Shardy and of PyTorch's DTensor; see the design of the step, sections 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, lru_cache
from itertools import chain
from math import prod

from hierarchies import InputError

MOST_DIMENSIONS = 64
MOST_ELEMENTS = 2**63
"""The range of a 64-bit index."""


class ReductionKind(Enum):
    """The operation that combines the addends of a partial value."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"


@dataclass(frozen=True)
class Split:
    """Along an axis, each device has its block of ``dimension``."""

    dimension: int


@dataclass(frozen=True)
class Flat:
    """Along an axis, each device has its block of the value flattened after ``lead`` dimensions."""

    lead: int = 0


AxisSharding = Split | Flat | ReductionKind | None
"""The sharding along one axis: split, flat, partial of a kind, or (None) replicated."""


@dataclass(frozen=True)
class Sharding:
    """For each dimension the axes that cut it, major to minor, and the partial axes with a kind.

    An axis occurs at most once; along an axis that does not occur the value is replicated.
    ``partial`` is sorted, by kind and then by name, so equal shardings compare equal. A device's
    block of a dimension is the mixed-radix number of its coordinates on the axes of that dimension,
    the first axis slowest; ``[a,b]`` and ``[b,a]`` therefore differ. ``flat`` are the axes, major
    to minor, that cut the flattened remaining block; the first ``lead`` dimensions are not
    flattened. Raises InputError for an axis that occurs twice.
    """

    dimensions: tuple[tuple[str, ...], ...]
    partial: tuple[tuple[ReductionKind, str], ...] = ()
    flat: tuple[str, ...] = ()
    lead: int = 0

    def __post_init__(self) -> None:
        if not self.flat and self.lead:
            object.__setattr__(self, "lead", 0)
        if len(self.partial) > 1:
            in_order = sorted(self.partial, key=lambda entry: (entry[0].value, entry[1]))
            object.__setattr__(self, "partial", tuple(in_order))
        axes = self.axes
        if len(set(axes)) < len(axes):
            axis = next(axis for axis in axes if axes.count(axis) > 1)
            raise InputError(
                f"axis {axis!r} occurs {axes.count(axis)} times in {self.spelled()}",
                hint="an axis cuts one dimension, or is partial, or is not named",
            )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """The hash, cached because shardings are keys of many lookups."""
        return hash((self.dimensions, self.partial, self.flat, self.lead))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without the hash, which differs between processes."""
        return Sharding, (self.dimensions, self.partial, self.flat, self.lead)

    @property
    def splitting(self) -> tuple[str, ...]:
        """The axes that cut a dimension, by dimensions."""
        return tuple(chain.from_iterable(self.dimensions))

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The axes that occur; along all other axes the value is replicated."""
        return (*self.cutting, *(axis for _, axis in self.partial))

    @property
    def cutting(self) -> tuple[str, ...]:
        """The axes along which devices hold parts: axes that cut a dimension, and flat axes."""
        return (*self.splitting, *self.flat)

    def along(self, axis: str) -> AxisSharding:
        """Return the sharding along one axis."""
        for dimension, axes in enumerate(self.dimensions):
            if axis in axes:
                return Split(dimension)
        if axis in self.flat:
            return Flat(self.lead)
        return next((kind for kind, other in self.partial if other == axis), None)

    def without(self, axis: str) -> Sharding:
        """Return the same sharding, but replicated along an axis."""
        if axis not in self.axes:
            return self
        kept = tuple(tuple(other for other in axes if other != axis) for axes in self.dimensions)
        partial = tuple(entry for entry in self.partial if entry[1] != axis)
        flat = tuple(other for other in self.flat if other != axis)
        return Sharding(kept, partial, flat, self.lead)

    def laid(self, axis: str, along: AxisSharding) -> Sharding:
        """Return the same sharding, but ``along`` an axis; a split is minor-most in its dimension.

        A flat axis is the minor-most flat axis. Raises InputError if other flat axes have another
        lead.
        """
        return _laid(self, axis, along)

    def unflattened(self) -> Sharding:
        """Return the same sharding, but replicated along the flat axes."""
        return Sharding(self.dimensions, self.partial)

    def stack(self) -> Sharding:
        """Return the sharding of a stack of these values, whose first dimension is not cut."""
        return Sharding(((), *self.dimensions), self.partial, self.flat, self.lead + 1)

    def slice(self) -> Sharding:
        """Return the sharding of a slice of a stack, without axes that cut the first dimension."""
        flat = self.flat if self.lead else ()
        return Sharding(self.dimensions[1:], self.partial, flat, max(self.lead - 1, 0))

    def parts(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the number of blocks of each dimension, given the sizes of the axes."""
        return tuple(prod(map(sizes.__getitem__, axes)) for axes in self.dimensions)

    def spelled(self, shape: Sequence[int] = ()) -> str:
        """Return ``[8@data,16,64@(seq,model)]{sum:expert}``; without a shape, sizes are ``?``."""
        sizes: Sequence[int | str] = shape or ["?"] * len(self.dimensions)
        inside = ",".join(map(_dimension, sizes, self.dimensions))
        return f"[{inside}]{self.spelled_rest}"

    @property
    def spelled_rest(self) -> str:
        """The flat and partial axes, ``{flat:data,sum:expert}``; empty if there are none."""
        kinds = {kind: [a for k, a in self.partial if k is kind] for kind, _ in self.partial}
        rest = [f"{kind.value}:{_axes(axes)}" for kind, axes in kinds.items()]
        if self.flat:
            rest.insert(0, f"flat{self.lead or ''}:{_axes(self.flat)}")
        return f"{{{','.join(rest)}}}" if rest else ""


@lru_cache(maxsize=2**14)
def _laid(sharding: Sharding, axis: str, along: AxisSharding) -> Sharding:
    # Cached because the values of a step have few shardings, each of them many times.
    rest = sharding.without(axis)
    match along:
        case None:
            return rest
        case ReductionKind():
            return replace(rest, partial=(*rest.partial, (along, axis)))
        case Flat(lead):
            if rest.flat and rest.lead != lead:
                problem = f"{sharding.spelled()} flat from dimension {lead}, too"
                raise InputError(problem, hint="all flat axes cut one flattened block")
            return replace(rest, flat=(*rest.flat, axis), lead=lead)
        case Split(dimension):
            cut = (
                (*axes, axis) if at == dimension else axes
                for at, axes in enumerate(rest.dimensions)
            )
            return replace(rest, dimensions=tuple(cut))


@lru_cache(maxsize=MOST_DIMENSIONS)
def replicated_sharding(rank: int) -> Sharding:
    """Return the sharding of a value that every device holds in full."""
    return Sharding(((),) * rank)


@dataclass(frozen=True)
class Type:
    """The type of a whole value: its element type, as JAX prints it ("bf16"), and its shape."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of the whole value. A boolean takes one byte; a key, four for each of its words."""
        return self.elements * dtype_bytes(self.dtype)

    def __str__(self) -> str:
        return self.dtype + replicated_sharding(len(self.shape)).spelled(self.shape)

    def sharded(self, sharding: Sharding) -> str:
        """Return the type with a sharding, ``f32[8@data,16]{sum:model}``."""
        return self.dtype + sharding.spelled(self.shape)


def dtype_bytes(dtype: str) -> int:
    """Return the bytes of one element: 2 for ``bf16``. Raises InputError for an unknown type."""
    if dtype in _BYTES:
        return _BYTES[dtype]
    raise InputError(f"unknown element type {dtype!r}", hint=f"known are: {', '.join(_BYTES)}")


def is_float(dtype: str) -> bool:
    """Return whether elements are floating-point numbers."""
    return dtype.startswith(("f", "bf"))


def parse_value_type(dtype: str, shape: tuple[int, ...]) -> Type:
    """Return the type with this element type and shape.

    Raises InputError for an unknown element type, and for a shape with more dimensions or elements
    than any array has.
    """
    dtype_bytes(dtype)
    if len(shape) > MOST_DIMENSIONS:
        hint = f"at most {MOST_DIMENSIONS}"
        raise InputError(f"a shape of {len(shape)} dimensions", hint=hint)
    # Zeros count as 1: an empty array may still have dimensions that no index can hold.
    if prod(size or 1 for size in shape) > MOST_ELEMENTS:
        raise InputError("a shape of so many elements", hint=f"at most {MOST_ELEMENTS}")
    return Type(dtype, shape)


def check_type(
    value: Type, sharding: Sharding, sizes: Mapping[str, int], *, where: str = ""
) -> None:
    """Raise InputError if a value cannot have this sharding.

    The following are refused: an axis without a size, a dimension that the product of its axes does
    not divide, a sum of booleans or of keys, a key that is not replicated, and a flat value without
    a dimension to flatten, or with a cut leading dimension.
    """
    if len(sharding.dimensions) != len(value.shape):
        problem = f"{value} has {len(value.shape)} dimensions, its sharding {sharding.spelled()}"
        raise InputError(problem, where=where)
    for axis in sharding.axes:
        if axis not in sizes:
            raise InputError(
                f"no axis {axis!r}", where=where, hint=f"the axes are {', '.join(sizes)}"
            )
    if value.dtype == "key" and sharding.axes:
        raise InputError(
            f"a key is sharded as {sharding.spelled()}",
            where=where,
            hint="keys are always replicated",
        )
    for kind, axis in sharding.partial:
        if value.dtype == "bool" and kind is ReductionKind.SUM:
            problem = f"a boolean is a partial sum over {axis!r}"
            raise InputError(problem, where=where, hint="'or' is a maximum, 'and' a minimum")
    if sharding.flat:
        _check_flat(value, sharding, where)
    for at, (size, parts) in enumerate(zip(value.shape, sharding.parts(sizes), strict=True)):
        if size % parts:
            over = " x ".join(f"{axis}={sizes[axis]}" for axis in sharding.dimensions[at])
            raise InputError(
                f"{over} cuts dimension {at} of {value} in {parts} parts, of {size} elements",
                where=where,
                hint=f"the product of the axes must divide the size: {_count_parts(size, parts)}"
                f" of {size}, or {-size % parts + size} elements, would do",
            )


def _count_parts(size: int, most: int) -> str:
    """Return the largest number of equal parts, at most ``most``, that ``size`` divides into."""
    count = next(parts for parts in range(min(size, most), 0, -1) if size % parts == 0)
    return f"{count} part{'s' * (count > 1)}"


def part_shape(value: Type, sharding: Sharding, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape of one device's part.

    For a flat value: its leading dimensions, then each device's share of the flattened elements,
    including padding.
    """
    if not sharding.cutting:
        return value.shape
    shape = tuple(
        size // parts for size, parts in zip(value.shape, sharding.parts(sizes), strict=True)
    )
    if not sharding.flat:
        return shape
    devices = prod(map(sizes.__getitem__, sharding.flat))
    return (*shape[: sharding.lead], -(-prod(shape[sharding.lead :]) // devices))


def _check_flat(value: Type, sharding: Sharding, where: str) -> None:
    """Raise InputError if the value's rank does not allow this flat sharding."""
    if sharding.lead >= len(value.shape):
        raise InputError(
            f"{value} is flat from dimension {sharding.lead}",
            where=where,
            hint="flatten at least one dimension; a scalar is replicated",
        )
    if any(sharding.dimensions[: sharding.lead]):
        raise InputError(
            f"{value.sharded(sharding)}: a dimension before those that are flattened is cut",
            where=where,
            hint="of a stack that is flat, the first dimension is whole",
        )


def block(sharding: Sharding, sizes: Mapping[str, int], at: Mapping[str, int]) -> tuple[int, ...]:
    """Return the number of each dimension's block on the device at these coordinates."""
    return numbers_of(sharding.dimensions, sizes, at)


def numbers_of(
    groups: Sequence[tuple[str, ...]], sizes: Mapping[str, int], at: Mapping[str, int]
) -> tuple[int, ...]:
    """Return the device's mixed-radix number along each group of axes, the first axis slowest."""

    def number(axes: tuple[str, ...]) -> int:
        result = 0
        for axis in axes:
            result = result * sizes[axis] + at[axis]
        return result

    return tuple(map(number, groups))


def shardings(rank: int, axes: Sequence[str], kinds: Sequence[ReductionKind]) -> Iterator[Sharding]:
    """Yield every sharding of a value of a rank over some axes, each once.

    For rank 2 with one kind of partial, there are 4, 18 and 92 over one, two and three axes: the
    axes that cut, the other axes that are partial, and an ordered list for each dimension.
    """
    if not axes:
        yield replicated_sharding(rank)
        return
    axis = axes[-1]
    for rest in shardings(rank, axes[:-1], kinds):
        yield rest
        for kind in kinds:
            yield Sharding(rest.dimensions, (*rest.partial, (kind, axis)))
        for dimension, before in enumerate(rest.dimensions):
            for place in range(len(before) + 1):
                with_it = (*before[:place], axis, *before[place:])
                cut = (*rest.dimensions[:dimension], with_it, *rest.dimensions[dimension + 1 :])
                yield Sharding(cut, rest.partial)


def _dimension(size: int | str, axes: tuple[str, ...]) -> str:
    return f"{size}@{_axes(axes)}" if axes else str(size)


def _axes(axes: Sequence[str]) -> str:
    return axes[0] if len(axes) == 1 else f"({','.join(axes)})"


_BYTES: Mapping[str, int] = {
    "bool": 1,
    "i8": 1,
    "u8": 1,
    "i16": 2,
    "u16": 2,
    "i32": 4,
    "u32": 4,
    "i64": 8,
    "u64": 8,
    "f8_e4m3fn": 1,
    "f8_e5m2": 1,
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "f64": 8,
    "key": 8,
}
