"""The results of sharding rules: factors of an operation, and rows along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from grammar.tensors.sharding import AxisSharding, Flat, ReductionKind, Split


class Index(Enum):
    """How a part uses its number, if the same computation on every piece would be wrong."""

    OFFSET = "adds its offset to the values that it counts"
    LOOK_UP = "looks up its own entries, and takes zero for others"
    DROP = "drops writes to entries that are not its own"
    PADDING = "adds nothing for padding"


@dataclass(frozen=True)
class Offset:
    """How the number of a part enters its computation.

    The number is the mixed-radix number of its coordinates on ``axes``. A part has ``extent``
    of the ``size`` positions, starting at number x extent.

    * ``OFFSET`` (iota): number x extent is added to each result.
    * ``LOOK_UP`` (gather): the given ``entry`` of each index is first clipped to 0 .. size - 1 if
      the mode is to clip; then number x extent is subtracted. Outside the part the result is zero.
      If some entry is out of bounds and the mode is to fill, the result is the fill value on part 0
      and zero on all others. Other entries follow the mode.
    * ``DROP`` (scatters): the same, and nothing is written outside the part.
    * ``PADDING`` (sums of flat values): number x extent is the position of the first element along
      dimension ``entry``; positions from ``size`` on are padding.
    """

    index: Index
    axes: tuple[str, ...]
    entry: int
    extent: int
    size: int


@dataclass(frozen=True)
class Cut:
    """A parameter that is divided by the number of parts: an entry of a list, or a number."""

    parameter: str
    entry: int | None = None


@dataclass(frozen=True)
class Factor:
    """One index of an operation: the dimension of each operand and result that it iterates over.

    The number of parts must divide ``size``. This is usually the dimensions' size; it is the number
    of windows if these tile a dimension, the number of groups, or the greatest common divisor for a
    reshape. ``contracted`` is the kind of partial value that results without the index become; a
    factor without it is free. ``partial`` has operands that must then be partial, too: the operands
    to which a scatter-add adds, because otherwise each part would add them again.
    """

    name: str
    size: int
    operands: tuple[int | None, ...]
    results: tuple[int | None, ...]
    contracted: ReductionKind | None = None
    partial: tuple[int, ...] = ()
    cut: Cut | None = None
    index: Index | None = None


@dataclass(frozen=True)
class Row:
    """Shardings of every operand and result along one axis, and the factor that is cut.

    Without a factor each part runs the whole computation, on replicated or on partial values.
    """

    operands: tuple[AxisSharding, ...]
    results: tuple[AxisSharding, ...]
    factor: Factor | None = None

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """The hash, cached because rows are keys of many lookups."""
        return hash((self.operands, self.results, self.factor))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without the hash, which differs between processes."""
        return Row, (self.operands, self.results, self.factor)

    def __str__(self) -> str:
        """Returns ``[0, R] -> [sum]``."""
        return f"{spell_shardings(self.operands)} -> {spell_shardings(self.results)}"


def spell_shardings(shardings: tuple[AxisSharding, ...]) -> str:
    """Returns ``[0, R, sum]``: cut in dimension 0, replicated, partial sum."""
    return f"[{', '.join(map(_spell_sharding, shardings))}]"


def _spell_sharding(sharding: AxisSharding) -> str:
    match sharding:
        case None:
            return "R"
        case ReductionKind():
            return sharding.value
        case Split(dimension):
            return str(dimension)
        case Flat(lead):
            return f"flat{lead or ''}"


def row_of(factor: Factor) -> Row:
    """Returns the row by which an axis cuts a factor."""
    return Row(
        tuple(
            factor.contracted if at in factor.partial else _split_or_none(place)
            for at, place in enumerate(factor.operands)
        ),
        tuple(factor.contracted if place is None else Split(place) for place in factor.results),
        factor,
    )


def _split_or_none(place: int | None) -> AxisSharding:
    return None if place is None else Split(place)
