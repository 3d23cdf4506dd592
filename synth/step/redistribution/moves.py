"""Moves: one change of how a value lies on some axes, and what it costs at least.

What a move does follows from how the value lies along its axes before and after, as in this
table (R replicated, S split, P partial; n devices, each of which holds b bytes before):

    from \\ to   R                              S                              P
    R           -                              slice, nothing sent            mask, nothing sent
    S           all-gather, (n-1) b            all-to-all, (n-1)/n b          widen, nothing sent
    P           all-reduce, 2 (n-1)/n b        reduce-scatter, (n-1)/n b      -

The entries are what one device must send or receive at least. From S to S of the same dimension,
or between axes of one size, it is a permute: whole parts go from device to device, b bytes.

What is cut flat is sliced, gathered and reduce-scattered along all of its flat axes at once: the
padded block goes as one dimension that these axes cut (``pad_move``), so its bytes are counted,
too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from math import prod
from typing import Any, TypeVar

from grammar.tensors.sharding import ReductionKind, Sharding, Split, Type, part_shape

Digit = TypeVar("Digit")
"""A coordinate of one device, or an array of the coordinates of many."""


class MoveKind(Enum):
    """The kinds of moves, by the names the field gives them.

    * slice: each device keeps its block of what all hold;
    * mask: what all hold becomes partial: all but the first device take the neutral element (of a
      maximum or a minimum they keep what they hold, as nothing changes by it);
    * widen: a block becomes partial: the neutral element is written around it;
    * permute: devices pass on whole parts, point to point.
    """

    SLICE = "slice"
    MASK = "mask"
    WIDEN = "widen"
    ALL_GATHER = "all-gather"
    ALL_TO_ALL = "all-to-all"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_REDUCE = "all-reduce"
    PERMUTE = "permute"


@dataclass(frozen=True)
class ShardingMove:
    """One move over all of ``axes`` at once: from lying as ``before`` to lying as ``after``.

    The axes are in the order in which they cut a dimension before (all-gather, widen, all-to-all);
    a permute names those whose place changes. Whether a move may be taken the rules say
    (``synth.step.redistribution.rules``); what it does is read from the two shardings.
    """

    how: MoveKind
    axes: tuple[str, ...]
    before: Sharding
    after: Sharding

    @property
    def leaves(self) -> int:
        """The dimension that the axes no longer cut afterwards; only where they cut one."""
        return _dimension(self.before, self.axes[0])

    @property
    def enters(self) -> int:
        """The dimension that the axes cut afterwards; only where they cut one."""
        return _dimension(self.after, self.axes[0])

    @property
    def entering(self) -> tuple[str, ...]:
        """The axes in the order in which they cut the dimension that they enter."""
        return tuple(axis for axis in self.after.dimensions[self.enters] if axis in self.axes)

    @property
    def flattens(self) -> bool:
        """Whether the axes of the move are those that cut a value flat, before or after it."""
        return self.before.flat != self.after.flat

    @property
    def kind(self) -> ReductionKind:
        """What puts the parts together that the move makes, or combines; only where it does."""
        before, after = self.before.along(self.axes[0]), self.after.along(self.axes[0])
        kind = after if isinstance(after, ReductionKind) else before
        assert isinstance(kind, ReductionKind), f"{self} makes and combines no partial values"
        return kind

    def devices(self, sizes: Mapping[str, int]) -> int:
        """How many devices take part in one group."""
        return prod(sizes[axis] for axis in self.axes)

    def sender(self, at: Mapping[str, Digit], sizes: Mapping[str, int]) -> dict[str, Digit]:
        """Coordinates of the device whose part a device gets; only of a permute.

        ``at`` has the receiver's coordinate on every axis, or arrays of these. No device sends to
        two: where one axis takes the place of another, replicas along it send to one receiver each.
        """
        found = dict(at)
        for before, after in zip(self.before.dimensions, self.after.dimensions, strict=True):
            block: Any = 0
            for axis in after:
                block = block * sizes[axis] + at[axis]
            for axis in reversed(before):
                block, found[axis] = divmod(block, sizes[axis])
        idle = [axis for axis in self.axes if axis not in self.before.axes]
        freed = [axis for axis in self.axes if axis not in self.after.axes]
        found |= {axis: at[other] for axis, other in zip(idle, freed, strict=True)}
        return found

    def least(self, sizes: Mapping[str, int]) -> Fraction:
        """What one device must send or receive at least, as a share of the whole value's bytes.

        Padding is not counted: ``least_bytes`` does.
        """
        flat = prod(sizes[axis] for axis in self.before.flat)
        held = Fraction(1, prod(self.before.parts(sizes)) * flat)
        n = self.devices(sizes)
        match self.how:
            case MoveKind.SLICE | MoveKind.MASK | MoveKind.WIDEN:
                return Fraction(0)
            case MoveKind.ALL_GATHER:
                return (n - 1) * held
            case MoveKind.ALL_TO_ALL | MoveKind.REDUCE_SCATTER:
                return Fraction(n - 1, n) * held
            case MoveKind.ALL_REDUCE:
                return Fraction(2 * (n - 1), n) * held
            case MoveKind.PERMUTE:
                return Fraction(0) if self._leaves_blocks(sizes) else held

    def least_bytes(self, value: Type, sizes: Mapping[str, int]) -> Fraction:
        """The bytes of a value that one device must send or receive at least, with padding."""
        if not (self.before.flat or self.after.flat):
            return self.least(sizes) * value.bytes
        block, move = pad_move(self, value, sizes)
        return move.least(sizes) * block.bytes

    def sends(self, sizes: Mapping[str, int]) -> bool:
        """Whether a device must send or receive anything."""
        match self.how:
            case MoveKind.SLICE | MoveKind.MASK | MoveKind.WIDEN:
                return False
            case MoveKind.PERMUTE:
                return not self._leaves_blocks(sizes)
        return self.devices(sizes) > 1

    def _leaves_blocks(self, sizes: Mapping[str, int]) -> bool:
        """Whether a permute moves axes of size 1 only."""
        above = [
            [tuple(axis for axis in axes if sizes[axis] > 1) for axes in one.dimensions]
            for one in (self.before, self.after)
        ]
        return above[0] == above[1]

    def __str__(self) -> str:
        """``all-gather dimension 0 over data, model``: in words, for messages and tables."""
        names = ", ".join(self.axes)
        match self.how:
            case MoveKind.SLICE:
                return f"slice {self._into} over {names}"
            case MoveKind.MASK:
                return f"mask to a partial {self.kind.value} over {names}"
            case MoveKind.WIDEN:
                return f"widen dimension {self.leaves} to a partial {self.kind.value} over {names}"
            case MoveKind.ALL_GATHER:
                what = "flat" if self.flattens else f"dimension {self.leaves}"
                return f"all-gather {what} over {names}"
            case MoveKind.ALL_TO_ALL:
                return f"all-to-all from dimension {self.leaves} to {self.enters} over {names}"
            case MoveKind.REDUCE_SCATTER:
                return f"reduce-scatter ({self.kind.value}) to {self._into} over {names}"
            case MoveKind.ALL_REDUCE:
                return f"all-reduce ({self.kind.value}) over {names}"
            case MoveKind.PERMUTE:
                return f"permute {names}"

    @property
    def _into(self) -> str:
        """What the axes cut afterwards."""
        return "flat" if self.flattens else f"dimension {self.enters}"


def pad_move(
    move: ShardingMove, value: Type, sizes: Mapping[str, int]
) -> tuple[Type, ShardingMove]:
    """The same move of the padded block that the dimensions' axes leave, flattened.

    Its last dimension is as long as all devices of the flat axes hold together, and is cut by
    these. A move of a value that is flat nowhere is as it was.
    """
    cut = move.after if move.after.flat else move.before
    if not cut.flat:
        return value, move
    *lead, each = part_shape(value, cut, sizes)
    block = Type(value.dtype, (*lead, each * prod(sizes[axis] for axis in cut.flat)))

    def along(one: Sharding) -> Sharding:
        return Sharding(((),) * cut.lead + (one.flat,), one.partial)

    return block, replace(move, before=along(move.before), after=along(move.after))


@dataclass(frozen=True)
class RedistributionPath:
    """Moves, first to last, that make what lies as ``source`` lie as ``target``: a certificate.

    Each begins where the one before ended. Without moves the two are the same.
    """

    source: Sharding
    target: Sharding
    moves: tuple[ShardingMove, ...]

    def __post_init__(self) -> None:
        ends = (self.source, *(move.after for move in self.moves))
        begins = (*(move.before for move in self.moves), self.target)
        assert ends == begins, "every move begins where the one before ended"

    def requests(self, sizes: Mapping[str, int]) -> tuple[ShardingMove, ...]:
        """The moves that send something: also none of those over axes of size 1."""
        return tuple(move for move in self.moves if move.sends(sizes))

    def least(self, sizes: Mapping[str, int]) -> Fraction:
        """What one device must send or receive at least, as a share of the whole value's bytes."""
        return sum((move.least(sizes) for move in self.moves), Fraction(0))

    def least_bytes(self, value: Type, sizes: Mapping[str, int]) -> Fraction:
        """The bytes that one device must send or receive at least; a bound need not be whole."""
        return sum((move.least_bytes(value, sizes) for move in self.moves), Fraction(0))


def _dimension(sharding: Sharding, axis: str) -> int:
    lie = sharding.along(axis)
    assert isinstance(lie, Split), f"{axis} cuts no dimension of {sharding.spelled()}"
    return lie.dimension
