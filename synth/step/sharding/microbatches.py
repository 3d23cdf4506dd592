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
from grammar.tensors.sharding import Kind, Sharding, Type
from hierarchies import InputError
from synth.step.redistribution.moves import How, Move, Path
from synth.step.redistribution.paths import First, paths_between
from synth.step.sharding.plan import TIME


def redistribution(
    value: Value, source: Sharding, target: Sharding, parts: Mapping[str, int], first: First
) -> Path:
    """The cheapest path. Raises InputError where it would send something from time to time."""
    if TIME not in parts:
        return paths_between(value.type, source, target, parts, first=first)[0]
    others = {axis: size for axis, size in parts.items() if axis != TIME}
    before, after = source.along(TIME), target.along(TIME)
    if before == after:
        inside = _stripped(value.type, source, parts)
        path = paths_between(
            inside, source.without(TIME), target.without(TIME), others, first=first
        )
        return Path(source, target, tuple(_around(one, source) for one in path[0].moves))
    if before is Kind.SUM and after is None:
        done = source.without(TIME)
        accumulated = Move(How.ALL_REDUCE, (TIME,), source, done)
        path = paths_between(value.type, done, target, others, first=first)
        return Path(source, target, (accumulated, *path[0].moves))
    try:
        return paths_between(value.type, source, target, parts, _stays, first)[0]
    except InputError:
        raise InputError(
            f"{value} lies as {source.spelled(value.type.shape)} and is read as"
            f" {target.spelled(value.type.shape)}: of all microbatches at once",
            where="plan",
            hint="over microbatches sums are accumulated, and nothing else: leave microbatches out",
        ) from None


def of_one_pass(
    value: Type, source: Sharding, target: Sharding, parts: Mapping[str, int]
) -> tuple[Type, Sharding, Sharding]:
    """What is sent of one microbatch: time is no axis that anything is sent over."""
    if TIME not in parts:
        return value, source, target
    return _stripped(value, source, parts), source.without(TIME), target.without(TIME)


def accumulates(path: Path) -> bool:
    """Whether it waits for the last microbatch."""
    return any(one.how is How.ALL_REDUCE and one.axes == (TIME,) for one in path.moves)


def _stays(move: Move) -> bool:
    """Whether a move brings no two times together."""
    return TIME not in move.axes or move.how in (How.SLICE, How.MASK, How.WIDEN)


def _stripped(value: Type, sharding: Sharding, parts: Mapping[str, int]) -> Type:
    """The value of one microbatch."""
    shape = tuple(
        size // parts[TIME] if TIME in axes else size
        for size, axes in zip(value.shape, sharding.dimensions, strict=True)
    )
    return Type(value.dtype, shape)


def of_one(move: Move, value: Type, parts: Mapping[str, int]) -> tuple[Move, Type] | None:
    """A move as one microbatch sees it, and what it is of; None for one along time itself."""
    if TIME in move.axes:
        return None
    inside = replace(move, before=move.before.without(TIME), after=move.after.without(TIME))
    return inside, _stripped(value, move.before, parts)


def _around(move: Move, source: Sharding) -> Move:
    """A move of one microbatch as one of all: time is the major axis of its dimension."""

    def timed(one: Sharding) -> Sharding:
        dimensions = tuple(
            (TIME, *axes) if TIME in before else axes
            for axes, before in zip(one.dimensions, source.dimensions, strict=True)
        )
        partial = tuple(pair for pair in source.partial if pair[1] == TIME)
        return replace(one, dimensions=dimensions, partial=(*one.partial, *partial))

    return replace(move, before=timed(move.before), after=timed(move.after))
