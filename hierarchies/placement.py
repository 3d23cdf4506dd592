"""Placements of parallelism axes on a hierarchy: all parallelism matrices of P², and their words.

``[[1, 8], [4, 1]]`` is *data on all 8 gpus of a node (ranks 0-7), model across all 4 nodes (ranks
0, 8, 16, 24)*. Ranks count devices as launchers do, host by host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from math import gcd, isqrt, prod

import numpy as np

from hierarchies.errors import InputError
from hierarchies.hierarchy import Hierarchy, Level, check_distinct, check_name

Row = tuple[int, ...]
MOST_AXES = 64
_RUNS = 4


@dataclass(frozen=True)
class Axis:
    """A parallelism axis: a name and a size."""

    name: str
    size: int

    def __post_init__(self) -> None:
        check_name(self.name, "axis")
        if self.size < 1:
            raise InputError(
                f"axis {self.name!r} has size {self.size}", hint="at least 1 is needed"
            )


@dataclass(frozen=True)
class Placement:
    """A parallelism matrix of positive integers: one row per axis, one column per level.

    ``prod(matrix[a]) == axes[a].size`` for every axis and ``prod(row[l] for row in matrix) ==
    cardinality of l`` for every level. On 4 nodes of 8 GPUs ``[[2, 4], [2, 2]]`` puts data=8 on two
    nodes and four GPUs of each, model=4 on the rest. Inside one level the digit is split among the
    axes in axis order, the first axis slowest. (P², section 3.)
    """

    hierarchy: Hierarchy
    axes: tuple[Axis, ...]
    matrix: tuple[Row, ...]

    def __post_init__(self) -> None:
        check_axes(self.hierarchy, self.axes)
        levels = self.hierarchy.levels
        if len(self.matrix) != len(self.axes) or any(len(r) != len(levels) for r in self.matrix):
            raise InputError(
                f"placement {self} has the wrong shape",
                hint=f"it needs {len(self.axes)} rows (axes) of {len(levels)} numbers (levels)",
            )
        if any(factor < 1 for row in self.matrix for factor in row):
            raise InputError(f"placement {self} has a number below 1", hint="factors are positive")
        for axis, row in zip(self.axes, self.matrix, strict=True):
            if prod(row) != axis.size:
                raise InputError(
                    f"placement {self}: row {list(row)} multiplies to {prod(row)}",
                    hint=f"axis {axis.name!r} has size {axis.size}",
                )
        for level, column in zip(levels, zip(*self.matrix, strict=True), strict=True):
            if prod(column) != level.cardinality:
                raise InputError(
                    f"placement {self}: column {list(column)} multiplies to {prod(column)}",
                    hint=f"level {level.name!r} has {level.cardinality} children",
                )

    def __str__(self) -> str:
        return "[" + ", ".join(str(list(row)) for row in self.matrix) + "]"


def check_axes(hierarchy: Hierarchy, axes: Sequence[Axis]) -> None:
    """Raise InputError unless the axes cover the machine exactly."""
    if len(axes) > MOST_AXES:
        raise InputError(f"{len(axes)} axes are given", hint=f"at most {MOST_AXES}")
    if not axes:
        raise InputError("no axes are given", hint="give at least one, as in data=8")
    check_distinct(tuple(axis.name for axis in axes), "axis")
    size = prod(axis.size for axis in axes)
    if size != hierarchy.devices:
        product = " x ".join(f"{axis.name}={axis.size}" for axis in axes)
        raise InputError(
            f"the axes {product} multiply to {size} devices, "
            f"but the system {hierarchy} has {hierarchy.devices}",
            hint=f"their product must be the number of devices{_part_hint(hierarchy, size)}",
        )


def _part_hint(hierarchy: Hierarchy, size: int) -> str:
    """Name the shape that has so many devices with as many of each node; empty if there is none."""
    outer, *inner = hierarchy.levels
    each, rest = divmod(size, outer.cardinality)
    if len(inner) != 1 or rest or not 0 < each < inner[0].cardinality:
        return ""
    part = f"{outer.cardinality}x{each}"
    return f"; the machine with {each} {inner[0].name} of each {outer.name} ends in :{part}"


def placements(hierarchy: Hierarchy, axes: Sequence[Axis]) -> Iterator[Placement]:
    """Yield every placement once, in lexicographic order of matrices.

    Raises InputError for bad axes.
    """
    axes = tuple(axes)
    check_axes(hierarchy, axes)
    for matrix in _matrices(tuple(axis.size for axis in axes), hierarchy.cardinalities):
        yield Placement(hierarchy, axes, matrix)


def row_major_placement(hierarchy: Hierarchy, axes: Sequence[Axis]) -> Placement | None:
    """Return the placement of a framework's mesh: devices row by row, the last axis innermost.

    ``jax.make_mesh`` and torch's ``init_device_mesh`` reshape the devices in their order: on 4
    nodes of 8 GPUs data=8, model=4 gives ``[[4, 2], [1, 4]]``, model inside a node. None if an axis
    would end in the middle of a level, as model=6 on nodes of 4. Raises InputError for bad axes.
    """
    axes = tuple(axes)
    check_axes(hierarchy, axes)
    rows = [[1] * len(hierarchy.levels) for _ in axes]
    room = list(hierarchy.cardinalities)
    for axis, row in reversed(list(zip(axes, rows, strict=True))):
        left = axis.size
        for level in reversed(range(len(room))):
            row[level] = gcd(left, room[level]) if left >= room[level] else left
            if room[level] % row[level] or (left > row[level] and room[level] > row[level]):
                return None
            left //= row[level]
            room[level] //= row[level]
    return Placement(hierarchy, axes, tuple(tuple(row) for row in rows))


def _matrices(sizes: tuple[int, ...], room: Row) -> Iterator[tuple[Row, ...]]:
    """Yield matrices with row products ``sizes`` and column products ``room``, in order.

    Any first rows can be completed, as the remaining rows and columns have equal prime factors.
    """
    if not sizes:
        yield ()
        return
    for row in _rows(sizes[0], room):
        left = tuple(r // factor for r, factor in zip(room, row, strict=True))
        for rest in _matrices(sizes[1:], left):
            yield (row, *rest)


def _rows(size: int, room: Row) -> Iterator[Row]:
    if not room:
        if size == 1:
            yield ()
        return
    for factor in _divisors(room[0]):
        if size % factor == 0:
            for rest in _rows(size // factor, room[1:]):
                yield (factor, *rest)


@cache
def _divisors(number: int) -> tuple[int, ...]:
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}))


def count_placements(hierarchy: Hierarchy, axes: Sequence[Axis]) -> int:
    """Return the number of placements, without enumerating them.

    A matrix is chosen prime by prime, and the exponents of one prime form a contingency table with
    given row and column sums; so the count is a product over the primes. Raises InputError for bad
    axes.
    """
    check_axes(hierarchy, axes)
    columns = [exponents(cardinality) for cardinality in hierarchy.cardinalities]
    primes = sorted(set().union(*columns))
    rows = [{prime: _multiplicity(axis.size, prime) for prime in primes} for axis in axes]
    return prod(
        _tables(tuple(r[prime] for r in rows), tuple(c[prime] for c in columns)) for prime in primes
    )


def _multiplicity(number: int, prime: int) -> int:
    """Return the exponent of a prime in a number."""
    times = 0
    while number % prime == 0:
        number //= prime
        times += 1
    return times


def exponents(number: int) -> Counter[int]:
    """Return the prime factors of a number with their exponents."""
    factors: Counter[int] = Counter()
    prime = 2
    while prime * prime <= number:
        while number % prime == 0:
            factors[prime] += 1
            number //= prime
        prime += 1
    if number > 1:
        factors[number] += 1
    return factors


@cache
def _tables(rows: tuple[int, ...], columns: tuple[int, ...]) -> int:
    """Return the number of tables of non-negative integers with these row and column sums."""
    if not columns:
        return int(not any(rows))
    return sum(
        _tables(tuple(sorted(r - x for r, x in zip(rows, column, strict=True))), columns[1:])
        for column in _columns(rows, columns[0])
    )


def _columns(rows: tuple[int, ...], total: int) -> Iterator[tuple[int, ...]]:
    if not rows:
        if total == 0:
            yield ()
        return
    for x in range(min(rows[0], total) + 1):
        for rest in _columns(rows[1:], total - x):
            yield (x, *rest)


def describe_axes(placement: Placement) -> tuple[str, ...]:
    """Return the location of each axis's groups and the first group's ranks, for sizes above 1."""
    matrix = placement.matrix
    return tuple(
        f"{axis.name} {_levels_of_axis(placement, row)} (ranks "
        f"{format_ranges(first_group(matrix, number))})"
        for number, (axis, row) in enumerate(zip(placement.axes, matrix, strict=True))
        if axis.size > 1
    )


def first_group(matrix: Sequence[Sequence[int]], axis: int) -> list[int]:
    """Return the devices that differ from the first device only in this axis, ascending.

    ``matrix`` is a placement's: a row for each axis, a column for each level.
    """
    devices = np.zeros(1, dtype=np.int64)
    inside = 1
    for column in reversed(list(zip(*matrix, strict=True))):
        step = inside * prod(column[axis + 1 :])
        devices = (step * np.arange(column[axis])[:, None] + devices).reshape(-1)
        inside *= prod(column)
    return [int(device) for device in devices]


def format_ranges(numbers: Sequence[int], most: int = _RUNS + 1) -> str:
    """Ascending numbers as ranges: ``0-7``, ``0, 8, 16, 24``, ``0-3, 8-11, ..., 56-59``.

    At most ``most`` ranges are written; if there are more, the first ranges and the last.
    """
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    ]
    spelled = [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    if len(spelled) > most:
        spelled[most - 2 : -1] = ["..."]
    return ", ".join(spelled)


def _levels_of_axis(placement: Placement, row: Sequence[int]) -> str:
    """Return the levels that an axis occupies, innermost first."""
    levels = placement.hierarchy.levels
    spanned = [place for place, factor in reversed(list(enumerate(row))) if factor > 1]
    along = [place for place in spanned if len(levels[place].name) == 1]
    units = [place for place in spanned if place not in along]
    outermost = spanned[-1]
    above = levels[outermost - 1].name if outermost else ""
    inside = f" of a {above}" if len(above) > 1 else ""
    if along:
        sides = (f"{levels[at].name} ({_share(row[at], levels[at])})" for at in along)
        return f"along {' by '.join(sides)}{_describe_units(placement, row, units)}{inside}"
    innermost, *outer = units
    first = f"{_share(row[innermost], levels[innermost])} {levels[innermost].name}s"
    if not outer and prod(level.cardinality for level in levels[innermost + 1 :]) > 1:
        return f"across {first}"
    return f"on {first}{_describe_units(placement, row, outer)}{inside}"


def _describe_units(placement: Placement, row: Sequence[int], outer: Sequence[int]) -> str:
    """Return the outer units that an axis occupies: `` in each of 2 nodes``."""
    levels = placement.hierarchy.levels
    return "".join(
        f" in each of {'the ' * (row[at] == levels[at].cardinality)}{row[at]} {levels[at].name}s"
        for at in outer
    )


def _share(factor: int, level: Level) -> str:
    """``all 8``, ``4 of 8``."""
    of = level.cardinality
    return f"all {of}" if factor == of else f"{factor} of {of}"
