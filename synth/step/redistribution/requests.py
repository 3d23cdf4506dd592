"""Turns the moves of a path that communicate into requests on a placement.

A move over a set of axes is a single request over that set: an all-gather of a dimension over
``data`` and ``model`` is one all-gather, however the axes are placed on nodes and devices. Programs
number pieces by rank, but blocks of a dimension are numbered by the order of the axes. So buffers
are rearranged locally before and after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from grammar import Goal
from grammar.tensors.sharding import ReductionKind, Sharding, Type, part_shape
from hierarchies import Placement
from synth.collective.emit.mesh import RankOrder, mesh
from synth.collective.ranking.request import Request
from synth.collective.semantics.point_to_point import (
    PointToPoint,
    TransferKind,
    coordinates,
    devices_at,
)
from synth.collective.semantics.programs import Language
from synth.step.redistribution.moves import MoveKind, RedistributionPath, ShardingMove, pad_move

GOALS: Mapping[MoveKind, Goal] = {
    MoveKind.ALL_GATHER: Goal.ALL_GATHER,
    MoveKind.ALL_TO_ALL: Goal.ALL_TO_ALL,
    MoveKind.REDUCE_SCATTER: Goal.REDUCE_SCATTER,
    MoveKind.ALL_REDUCE: Goal.ALL_REDUCE,
}


@dataclass(frozen=True)
class Rearrangement:
    """A local reordering: ``array.reshape(shape).transpose(order).reshape(result)``."""

    shape: tuple[int, ...]
    order: tuple[int, ...]
    result: tuple[int, ...]

    @property
    def free(self) -> bool:
        """Whether the elements stay in their order in memory."""
        moved = [place for place in self.order if self.shape[place] > 1]
        return moved == sorted(moved)


@dataclass(frozen=True)
class Communication:
    """A move that communicates: its request, and the rearrangements of buffers around it.

    ``kind`` is the reduction operation: a program for a sum also works for a maximum, because it
    relies only on commutativity and counts no addend twice. ``given`` rearranges a device's part
    before the request, into ``result[0]`` pieces if the request takes pieces; ``got`` rearranges
    the result. For flat shardings, ``move`` is the move of the padded block.
    """

    move: ShardingMove
    request: Request | PointToPoint
    kind: ReductionKind
    given: Rearrangement
    got: Rearrangement


def list_communications(
    path: RedistributionPath,
    value: Type,
    placement: Placement,
    order: RankOrder = RankOrder.MACHINE,
) -> tuple[Communication, ...]:
    """Returns the communications of a path, first to last; none if it is local.

    The axes of the path are the placement's. ``order`` is the order in which the runtime that
    executes the requests numbers ranks, and so the order of pieces.
    """
    sizes = {axis.name: axis.size for axis in placement.axes}
    blocks = (pad_move(move, value, sizes) for move in path.requests(sizes))
    return tuple(_Layout(block, placement, order).communication(move) for block, move in blocks)


@dataclass(frozen=True)
class _Layout:
    """Cuts the parts of a value into pieces, and joins pieces, on a placement."""

    value: Type
    placement: Placement
    order: RankOrder

    @property
    def sizes(self) -> dict[str, int]:
        return {axis.name: axis.size for axis in self.placement.axes}

    def part(self, sharding: Sharding) -> tuple[int, ...]:
        return part_shape(self.value, sharding, self.sizes)

    def bytes_of(self, sharding: Sharding) -> int:
        """Returns the bytes of one device's part."""
        return Type(self.value.dtype, self.part(sharding)).bytes

    def communication(self, move: ShardingMove) -> Communication:
        before, after = self.part(move.before), self.part(move.after)
        given, got = _identity(before), _identity(after)
        reduces = move.how in (MoveKind.ALL_REDUCE, MoveKind.REDUCE_SCATTER)
        kind = move.kind if reduces else ReductionKind.SUM
        if move.how in (MoveKind.REDUCE_SCATTER, MoveKind.ALL_TO_ALL):
            given = self._cut(move, before)
        if move.how is MoveKind.ALL_GATHER:
            got = self._join(move, before, after)
        if move.how is MoveKind.ALL_TO_ALL:
            got = self._join(move, given.result[1:], after)
        return Communication(move, self._request(move), kind, given, got)

    def _request(self, move: ShardingMove) -> Request | PointToPoint:
        if move.how is MoveKind.PERMUTE:
            return self._permute(move)
        larger = move.after if move.how is MoveKind.ALL_GATHER else move.before
        over = tuple(axis for axis in self.sizes if axis in move.axes)
        return Request(
            self.placement.axes,
            over,
            self.bytes_of(larger),
            language=Language(goal=GOALS[move.how]),
            placement=self.placement.matrix,
        )

    def _permute(self, move: ShardingMove) -> PointToPoint:
        """Returns a transfer in which every device gets the part of its sender."""
        sources = move.sender(coordinates(self.placement), self.sizes)
        senders = devices_at(self.placement, sources)
        return PointToPoint(
            TransferKind.PERMUTE, self.placement, senders, self.bytes_of(move.before)
        )

    def _factors(self, move: ShardingMove) -> list[tuple[str, int, int]]:
        """Returns axis, level and size of the factors of a move's axes, in the order of ranks."""
        names = [axis.name for axis in self.placement.axes]
        digits = mesh(self.placement, self.order).axes
        factors = [(names[digit.axis], digit.level, digit.size) for digit in digits]
        return [factor for factor in factors if factor[0] in move.axes]

    def _cut(self, move: ShardingMove, part: tuple[int, ...]) -> Rearrangement:
        """Cuts a part along the dimension that the axes enter; pieces are in the order of ranks."""
        at, ranks = move.enters, self._factors(move)
        cuts = _sort_by_blocks(ranks, move.after.dimensions[at])
        sizes = [size for _, _, size in cuts]
        piece = (*part[:at], part[at] // prod(sizes), *part[at + 1 :])
        shape = (*part[:at], *sizes, piece[at], *part[at + 1 :])
        front = [at + cuts.index(factor) for factor in ranks]
        rest = [place for place in range(len(shape)) if place not in front]
        return Rearrangement(shape, (*front, *rest), (prod(sizes), *piece))

    def _join(
        self, move: ShardingMove, piece: tuple[int, ...], after: tuple[int, ...]
    ) -> Rearrangement:
        """Joins pieces in the order of ranks along the dimension that the axes leave."""
        at, ranks = move.leaves, self._factors(move)
        blocks = _sort_by_blocks(ranks, move.before.dimensions[at])
        front, count = [ranks.index(factor) for factor in blocks], len(ranks)
        order = (*range(count, count + at), *front, *range(count + at, count + len(piece)))
        return Rearrangement((*(size for _, _, size in ranks), *piece), order, after)


def _identity(shape: tuple[int, ...]) -> Rearrangement:
    return Rearrangement(shape, tuple(range(len(shape))), shape)


def _sort_by_blocks(
    factors: Sequence[tuple[str, int, int]], axes: Sequence[str]
) -> list[tuple[str, int, int]]:
    """Sorts factors in the order that numbers blocks: axis by axis, outermost level first."""
    return sorted(factors, key=lambda factor: (axes.index(factor[0]), factor[1]))
