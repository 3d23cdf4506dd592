"""What the table is made of: a factor, and a row along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from grammar.tensors.sharding import AxisSharding, Flat, ReductionKind, Split


class Index(Enum):
    """What a part does with its number, where the same computation on its piece is not enough."""

    OFFSET = "adds its offset to what it counts"
    LOOK_UP = "looks up what is its own, else takes zero"
    DROP = "drops what is not its own"
    PADDING = "adds nothing of what is padding"


@dataclass(frozen=True)
class Cut:
    """A parameter that is divided by the number of parts: one entry of a list, or a number."""

    parameter: str
    entry: int | None = None


@dataclass(frozen=True)
class Factor:
    """One index of an operation: the dimension of each operand and result that runs over it.

    ``size`` is what the number of parts must divide: most often that of the dimensions, but the
    number of windows where these tile a dimension, the number of groups, the greatest common
    divisor where a reshape joins. ``contracted`` is the kind of partial that results become which
    do not have it; a factor without it is free. ``partial`` are operands that must then be partial,
    too: what scatter-add adds to, which would else be added by every part.
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
    """Along one axis: how every operand lies, how every result then does, and by which factor.

    Without a factor a part computes what the whole does: all is replicated, or partial values go
    through.
    """

    operands: tuple[AxisSharding, ...]
    results: tuple[AxisSharding, ...]
    factor: Factor | None = None

    def __str__(self) -> str:
        """``[0, R] -> [sum]``"""
        return f"{spell_shardings(self.operands)} -> {spell_shardings(self.results)}"


def spell_shardings(several: tuple[AxisSharding, ...]) -> str:
    """``[0, R, sum]``: cut in dimension 0, replicated, partial sum."""
    return f"[{', '.join(map(_spell_lie, several))}]"


def _spell_lie(lie: AxisSharding) -> str:
    match lie:
        case None:
            return "R"
        case ReductionKind():
            return lie.value
        case Split(dimension):
            return str(dimension)
        case Flat(lead):
            return f"flat{lead or ''}"


def row_of(factor: Factor) -> Row:
    """How operands and results lie if an axis cuts the factor."""
    return Row(
        tuple(
            factor.contracted if at in factor.partial else _lie_of_place(place)
            for at, place in enumerate(factor.operands)
        ),
        tuple(
            factor.contracted if place is None else _lie_of_place(place) for place in factor.results
        ),
        factor,
    )


def _lie_of_place(place: int | None) -> AxisSharding:
    return None if place is None else Split(place)
