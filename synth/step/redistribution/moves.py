"""Moves: changes of a value's sharding along some axes, with lower bounds of the bytes sent.

The kind of a move follows from the sharding along its axes before and after, as in this table
(R replicated, S split, P partial; n devices, each of which holds b bytes before):

    from \\ to   R                              S                              P
    R           -                              slice, nothing sent            mask, nothing sent
    S           all-gather, (n-1) b            all-to-all, (n-1)/n b          widen, nothing sent
    P           all-reduce, 2 (n-1)/n b        reduce-scatter, (n-1)/n b      -

The entries are the least bytes that one device must send or receive. From S to S of the same
dimension, or between axes of equal size, the move is a permute: whole parts of b bytes go from
device to device.

A flat value is sliced, gathered and reduce-scattered along all of its flat axes at once: its padded
block is a single dimension that these axes cut (``pad_move``), so padding also counts.
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
    """The kinds of moves, by their usual names.

    * slice: each device keeps its block of a replicated value;
    * mask: a replicated value becomes partial: all devices but the first replace it by the neutral
      element (for a maximum or a minimum they keep the value, which has the same effect);
    * widen: a block becomes partial: it is padded with the neutral element;
    * permute: devices send whole parts, point to point.
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
    """One move over all of ``axes`` at once, from sharding ``before`` to sharding ``after``.

    The axes are in the order in which they cut a dimension before (all-gather, widen, all-to-all);
    a permute names the axes whose place changes. ``synth.step.redistribution.rules`` defines the
    legal moves; the effect of a move follows from the two shardings.
    """

    how: MoveKind
    axes: tuple[str, ...]
    before: Sharding
    after: Sharding

    @property
    def leaves(self) -> int:
        """The dimension that the axes cut before the move; they must cut a dimension."""
        return _dimension(self.before, self.axes[0])

    @property
    def enters(self) -> int:
        """The dimension that the axes cut after the move; they must cut a dimension."""
        return _dimension(self.after, self.axes[0])

    @property
    def entering(self) -> tuple[str, ...]:
        """The axes in the order in which they cut the dimension that they enter."""
        return tuple(axis for axis in self.after.dimensions[self.enters] if axis in self.axes)

    @property
    def flattens(self) -> bool:
        """Whether the axes of the move cut the value flat, either before or after it."""
        return self.before.flat != self.after.flat

    @property
    def kind(self) -> ReductionKind:
        """The reduction of the partial values that the move makes or combines; some must exist."""
        before, after = self.before.along(self.axes[0]), self.after.along(self.axes[0])
        kind = after if isinstance(after, ReductionKind) else before
        assert isinstance(kind, ReductionKind), f"{self} makes and combines no partial values"
        return kind

    def devices(self, sizes: Mapping[str, int]) -> int:
        """Number of devices in one group."""
        return prod(sizes[axis] for axis in self.axes)

    def sender(self, at: Mapping[str, Digit], sizes: Mapping[str, int]) -> dict[str, Digit]:
        """Returns the coordinates of the device whose part a device gets in a permute.

        ``at`` has the receiver's coordinate on every axis, or arrays of coordinates. No device
        sends to two receivers: if an axis takes the place of another, each replica along it sends
        to a single receiver.
        """
        sender = dict(at)
        for before, after in zip(self.before.dimensions, self.after.dimensions, strict=True):
            block: Any = 0
            for axis in after:
                block = block * sizes[axis] + at[axis]
            for axis in reversed(before):
                block, sender[axis] = divmod(block, sizes[axis])
        idle = [axis for axis in self.axes if axis not in self.before.axes]
        freed = [axis for axis in self.axes if axis not in self.after.axes]
        sender |= {axis: at[other] for axis, other in zip(idle, freed, strict=True)}
        return sender

    def least(self, sizes: Mapping[str, int]) -> Fraction:
        """Returns the least share of the whole value's bytes that one device sends or receives.

        Padding is not counted; ``least_bytes`` counts it.
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
        """Returns the least bytes that one device sends or receives, with padding."""
        if not (self.before.flat or self.after.flat):
            return self.least(sizes) * value.bytes
        block, move = pad_move(self, value, sizes)
        return move.least(sizes) * block.bytes

    def sends(self, sizes: Mapping[str, int]) -> bool:
        """Whether any device must send or receive."""
        match self.how:
            case MoveKind.SLICE | MoveKind.MASK | MoveKind.WIDEN:
                return False
            case MoveKind.PERMUTE:
                return not self._leaves_blocks(sizes)
        return self.devices(sizes) > 1

    def _leaves_blocks(self, sizes: Mapping[str, int]) -> bool:
        """Whether a permute changes only axes of size 1, and so no blocks."""
        before, after = (
            [tuple(axis for axis in axes if sizes[axis] > 1) for axes in end.dimensions]
            for end in (self.before, self.after)
        )
        return before == after

    def __str__(self) -> str:
        """Spells the move for messages and tables: ``all-gather dimension 0 over data, model``."""
        names = ", ".join(self.axes)
        match self.how:
            case MoveKind.SLICE:
                return f"slice {self._into} over {names}"
            case MoveKind.MASK:
                return f"mask to a partial {self.kind.value} over {names}"
            case MoveKind.WIDEN:
                return f"widen dimension {self.leaves} to a partial {self.kind.value} over {names}"
            case MoveKind.ALL_GATHER:
                dimension = "flat" if self.flattens else f"dimension {self.leaves}"
                return f"all-gather {dimension} over {names}"
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
        """The dimension that the axes cut after the move, in words, or ``flat``."""
        return "flat" if self.flattens else f"dimension {self.enters}"


def pad_move(
    move: ShardingMove, value: Type, sizes: Mapping[str, int]
) -> tuple[Type, ShardingMove]:
    """Returns the type of the padded flat block that the dimensions' axes leave, and its move.

    The last dimension of the block has the length of the parts of all devices along the flat axes,
    which cut it. A move without flat cuts is returned unchanged.
    """
    cut = move.after if move.after.flat else move.before
    if not cut.flat:
        return value, move
    *lead, length = part_shape(value, cut, sizes)
    block = Type(value.dtype, (*lead, length * prod(sizes[axis] for axis in cut.flat)))

    def unflatten(end: Sharding) -> Sharding:
        return Sharding(((),) * cut.lead + (end.flat,), end.partial)

    return block, replace(move, before=unflatten(move.before), after=unflatten(move.after))


@dataclass(frozen=True)
class RedistributionPath:
    """Moves, first to last, from sharding ``source`` to ``target``: a certificate.

    Each move begins where the previous move ended. Without moves, source and target are equal.
    """

    source: Sharding
    target: Sharding
    moves: tuple[ShardingMove, ...]

    def __post_init__(self) -> None:
        ends = (self.source, *(move.after for move in self.moves))
        begins = (*(move.before for move in self.moves), self.target)
        assert ends == begins, "each move starts from the sharding that the previous one made"

    def requests(self, sizes: Mapping[str, int]) -> tuple[ShardingMove, ...]:
        """Returns the moves that communicate; moves over axes of size 1 do not."""
        return tuple(move for move in self.moves if move.sends(sizes))

    def least(self, sizes: Mapping[str, int]) -> Fraction:
        """Returns the least share of the whole value's bytes that one device sends or receives."""
        return sum((move.least(sizes) for move in self.moves), Fraction(0))

    def least_bytes(self, value: Type, sizes: Mapping[str, int]) -> Fraction:
        """Returns the least bytes that one device sends or receives; a bound may be fractional."""
        return sum((move.least_bytes(value, sizes) for move in self.moves), Fraction(0))


def _dimension(sharding: Sharding, axis: str) -> int:
    cut = sharding.along(axis)
    assert isinstance(cut, Split), f"{axis} cuts no dimension of {sharding.spelled()}"
    return cut.dimension
