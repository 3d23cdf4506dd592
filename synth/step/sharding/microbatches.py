"""Redistributions with time as an axis: only sums are accumulated over microbatches.

Parts along this axis are computed one after the other on the same devices. So a sum is free once
the last part is done, and a part can be sliced from a replicated value. Any other redistribution
would combine parts of different times and is refused. For this reason batch normalisation is
refused: it reads the mean of all samples while it processes a single microbatch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from grammar.tensors.operations import Value
from grammar.tensors.sharding import ReductionKind, Sharding, Type
from hierarchies import InputError
from synth.step.redistribution.moves import MoveKind, RedistributionPath, ShardingMove
from synth.step.redistribution.paths import CostPriority, find_paths
from synth.step.sharding.plan import TIME


def find_redistribution(
    value: Value, source: Sharding, target: Sharding, parts: Mapping[str, int], first: CostPriority
) -> RedistributionPath:
    """Returns the cheapest path. Raises InputError if it would combine different microbatches."""
    if TIME not in parts:
        return find_paths(value.type, source, target, parts, first=first)[0]
    others = {axis: size for axis, size in parts.items() if axis != TIME}
    before, after = source.along(TIME), target.along(TIME)
    if before == after:
        inside = _strip_value(value.type, source, parts)
        path = find_paths(inside, source.without(TIME), target.without(TIME), others, first=first)
        return RedistributionPath(
            source, target, tuple(_wrap_move(move, source) for move in path[0].moves)
        )
    if before is ReductionKind.SUM and after is None:
        summed = source.without(TIME)
        accumulated = ShardingMove(MoveKind.ALL_REDUCE, (TIME,), source, summed)
        path = find_paths(value.type, summed, target, others, first=first)
        return RedistributionPath(source, target, (accumulated, *path[0].moves))
    try:
        return find_paths(value.type, source, target, parts, _is_within_microbatch, first)[0]
    except InputError:
        raise InputError(
            f"{value} is sharded as {source.spelled(value.type.shape)} and read as"
            f" {target.spelled(value.type.shape)}, which needs all microbatches together",
            where="plan",
            hint="only sums accumulate over microbatches: remove the microbatches from the plan",
        ) from None


def strip_time(
    value: Type, source: Sharding, target: Sharding, parts: Mapping[str, int]
) -> tuple[Type, Sharding, Sharding]:
    """Returns type and shardings of one microbatch's share: nothing is sent along time."""
    if TIME not in parts:
        return value, source, target
    return _strip_value(value, source, parts), source.without(TIME), target.without(TIME)


def accumulates(path: RedistributionPath) -> bool:
    """Whether a path sums over microbatches, so that it waits for the last microbatch."""
    return any(move.how is MoveKind.ALL_REDUCE and move.axes == (TIME,) for move in path.moves)


def _is_within_microbatch(move: ShardingMove) -> bool:
    """Whether a move does not combine microbatches."""
    return TIME not in move.axes or move.how in (MoveKind.SLICE, MoveKind.MASK, MoveKind.WIDEN)


def _strip_value(value: Type, sharding: Sharding, parts: Mapping[str, int]) -> Type:
    """Returns the type of one microbatch's share of a value."""
    shape = tuple(
        size // parts[TIME] if TIME in axes else size
        for size, axes in zip(value.shape, sharding.dimensions, strict=True)
    )
    return Type(value.dtype, shape)


def to_microbatch(
    move: ShardingMove, value: Type, parts: Mapping[str, int]
) -> tuple[ShardingMove, Type] | None:
    """Returns a move and its type within one microbatch; None for a move along time itself."""
    if TIME in move.axes:
        return None
    inside = replace(move, before=move.before.without(TIME), after=move.after.without(TIME))
    return inside, _strip_value(value, move.before, parts)


def _wrap_move(move: ShardingMove, source: Sharding) -> ShardingMove:
    """Adds time to a move of one microbatch, as the major axis of its dimension."""

    def add_time(sharding: Sharding) -> Sharding:
        dimensions = tuple(
            (TIME, *axes) if TIME in before else axes
            for axes, before in zip(sharding.dimensions, source.dimensions, strict=True)
        )
        partial = tuple(pair for pair in source.partial if pair[1] == TIME)
        return replace(sharding, dimensions=dimensions, partial=(*sharding.partial, *partial))

    return replace(move, before=add_time(move.before), after=add_time(move.after))
