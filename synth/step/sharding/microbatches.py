"""Redistributions where one axis is time: sums over microbatches are accumulated, and nothing else.

What is cut along the axis is done one part after the other on the same devices. So a sum is free,
once the last part is done; a part can be taken of what is whole; and whatever else would bring
parts of different times together is refused. Batch normalisation is: it reads the mean of all
samples while it works on one.
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
    """The cheapest path. Raises InputError where it would send something from time to time."""
    if TIME not in parts:
        return find_paths(value.type, source, target, parts, first=first)[0]
    others = {axis: size for axis, size in parts.items() if axis != TIME}
    before, after = source.along(TIME), target.along(TIME)
    if before == after:
        inside = _strip_value(value.type, source, parts)
        path = find_paths(inside, source.without(TIME), target.without(TIME), others, first=first)
        return RedistributionPath(
            source, target, tuple(_wrap_move(one, source) for one in path[0].moves)
        )
    if before is ReductionKind.SUM and after is None:
        done = source.without(TIME)
        accumulated = ShardingMove(MoveKind.ALL_REDUCE, (TIME,), source, done)
        path = find_paths(value.type, done, target, others, first=first)
        return RedistributionPath(source, target, (accumulated, *path[0].moves))
    try:
        return find_paths(value.type, source, target, parts, _stays, first)[0]
    except InputError:
        raise InputError(
            f"{value} lies as {source.spelled(value.type.shape)} and is read as"
            f" {target.spelled(value.type.shape)}: of all microbatches at once",
            where="plan",
            hint="over microbatches sums are accumulated, and nothing else: leave microbatches out",
        ) from None


def strip_time(
    value: Type, source: Sharding, target: Sharding, parts: Mapping[str, int]
) -> tuple[Type, Sharding, Sharding]:
    """What is sent of one microbatch: time is no axis that anything is sent over."""
    if TIME not in parts:
        return value, source, target
    return _strip_value(value, source, parts), source.without(TIME), target.without(TIME)


def accumulates(path: RedistributionPath) -> bool:
    """Whether it waits for the last microbatch."""
    return any(one.how is MoveKind.ALL_REDUCE and one.axes == (TIME,) for one in path.moves)


def _stays(move: ShardingMove) -> bool:
    """Whether a move brings no two times together."""
    return TIME not in move.axes or move.how in (MoveKind.SLICE, MoveKind.MASK, MoveKind.WIDEN)


def _strip_value(value: Type, sharding: Sharding, parts: Mapping[str, int]) -> Type:
    """The value of one microbatch."""
    shape = tuple(
        size // parts[TIME] if TIME in axes else size
        for size, axes in zip(value.shape, sharding.dimensions, strict=True)
    )
    return Type(value.dtype, shape)


def to_microbatch(
    move: ShardingMove, value: Type, parts: Mapping[str, int]
) -> tuple[ShardingMove, Type] | None:
    """A move as one microbatch sees it, and what it is of; None for one along time itself."""
    if TIME in move.axes:
        return None
    inside = replace(move, before=move.before.without(TIME), after=move.after.without(TIME))
    return inside, _strip_value(value, move.before, parts)


def _wrap_move(move: ShardingMove, source: Sharding) -> ShardingMove:
    """A move of one microbatch as one of all: time is the major axis of its dimension."""

    def timed(one: Sharding) -> Sharding:
        dimensions = tuple(
            (TIME, *axes) if TIME in before else axes
            for axes, before in zip(one.dimensions, source.dimensions, strict=True)
        )
        partial = tuple(pair for pair in source.partial if pair[1] == TIME)
        return replace(one, dimensions=dimensions, partial=(*one.partial, *partial))

    return replace(move, before=timed(move.before), after=timed(move.after))
