"""What a path asks for on a placement: each move that sends something, as a request.

A move over a set of axes is the planner's request over that set on the placement: an all-gather
of a dimension over ``data`` and ``model`` is one all-gather, however their factors lie on nodes
and GPUs. Programs number pieces by ranks; which block of which dimension a piece is, the order
of the axes says. So local rearrangements stand before and after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

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
    """A local change of order: ``array.reshape(shape).transpose(order).reshape(result)``."""

    shape: tuple[int, ...]
    order: tuple[int, ...]
    result: tuple[int, ...]

    @property
    def free(self) -> bool:
        """Whether the elements stay in their order in memory."""
        moved = [place for place in self.order if self.shape[place] > 1]
        return moved == sorted(moved)

    def applied(self, array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        return array.reshape(self.shape).transpose(self.order).reshape(self.result)


@dataclass(frozen=True)
class Communication:
    """A move that sends something: its request, and how buffers are rearranged around it.

    ``kind`` is the reduction operation: a program for a sum is one for a maximum as well, as all
    that is known of an operation is that order does not matter and that nothing may count twice.
    ``given``: the rearrangement of a device's part before, into
    ``result[0]`` pieces where the request takes pieces; ``got``: of what it ends with. Of what is
    flat, ``move`` is that of its padded block.
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
    """The requests of a path, first to last; none if it is local.

    The axes of the path are the placement's. ``order`` is how ranks are numbered by what will carry
    the requests out: pieces are in their order.
    """
    sizes = {axis.name: axis.size for axis in placement.axes}
    blocks = (pad_move(move, value, sizes) for move in path.requests(sizes))
    return tuple(_Layout(block, placement, order).communication(move) for block, move in blocks)


@dataclass(frozen=True)
class _Layout:
    """How the parts of a value are cut in pieces and put together on a placement."""

    value: Type
    placement: Placement
    order: RankOrder

    @property
    def sizes(self) -> dict[str, int]:
        return {axis.name: axis.size for axis in self.placement.axes}

    def part(self, sharding: Sharding) -> tuple[int, ...]:
        return part_shape(self.value, sharding, self.sizes)

    def bytes_of(self, sharding: Sharding) -> int:
        """Of the part of one device."""
        return Type(self.value.dtype, self.part(sharding)).bytes

    def communication(self, move: ShardingMove) -> Communication:
        before, after = self.part(move.before), self.part(move.after)
        given, got = _identity(before), _identity(after)
        reduces = move.how in (MoveKind.ALL_REDUCE, MoveKind.REDUCE_SCATTER)
        kind = move.kind if reduces else ReductionKind.SUM
        if move.how in (MoveKind.REDUCE_SCATTER, MoveKind.ALL_TO_ALL):
            given = self._cut(move, before)
        if move.how is MoveKind.ALL_GATHER:
            got = self._joined(move, before, after)
        if move.how is MoveKind.ALL_TO_ALL:
            got = self._joined(move, given.result[1:], after)
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
        """Every device gets the part of the one that had what it is to have."""
        wanted = move.sender(coordinates(self.placement), self.sizes)
        senders = devices_at(self.placement, wanted)
        return PointToPoint(
            TransferKind.PERMUTE, self.placement, senders, self.bytes_of(move.before)
        )

    def _factors(self, move: ShardingMove) -> list[tuple[str, int, int]]:
        """Axis, level and size of the factors of a move's axes, as ranks are counted by them."""
        names = [axis.name for axis in self.placement.axes]
        every = mesh(self.placement, self.order).axes
        found = [(names[one.axis], one.level, one.size) for one in every]
        return [factor for factor in found if factor[0] in move.axes]

    def _cut(self, move: ShardingMove, part: tuple[int, ...]) -> Rearrangement:
        """A part cut along the dimension that the axes enter: pieces in the order of ranks."""
        at, ranks = move.enters, self._factors(move)
        cuts = _sort_by_blocks(ranks, move.after.dimensions[at])
        sizes = [size for _, _, size in cuts]
        piece = (*part[:at], part[at] // prod(sizes), *part[at + 1 :])
        shape = (*part[:at], *sizes, piece[at], *part[at + 1 :])
        front = [at + cuts.index(factor) for factor in ranks]
        rest = [place for place in range(len(shape)) if place not in front]
        return Rearrangement(shape, (*front, *rest), (prod(sizes), *piece))

    def _joined(
        self, move: ShardingMove, piece: tuple[int, ...], after: tuple[int, ...]
    ) -> Rearrangement:
        """Pieces in the order of ranks put together along the dimension that the axes leave."""
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
    """Factors in the order in which they number blocks: axis by axis, outermost level first."""
    return sorted(factors, key=lambda one: (axes.index(one[0]), one[1]))
