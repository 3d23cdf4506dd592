"""Moves carried out on the arrays of virtual devices: concatenate, split, and reduce over groups.

Knows no rule: a move is data (which kind, over which axes, from and to which dimension), and what
comes of it is for the caller to compare with what was meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import assert_never

import numpy as np

from grammar.tensors.sharding import Kind
from synth.train.replicas.parts import (
    REDUCE,
    Array,
    Coordinates,
    Parts,
    devices,
    flat_piece,
    neutral,
    number,
)
from synth.train.resharding.moves import How, Move, Path

Sizes = Mapping[str, int]


def carry_out(path: Path, parts: Parts, sizes: Sizes, shape: Sequence[int] = ()) -> Parts:
    """What devices hold after all moves of a path, of a value of this shape.

    Only where something is flat the shape is needed: to know what of it is padding.
    """
    for move in path.moves:
        parts = move_parts(move, parts, sizes, shape)
    return parts


def move_parts(move: Move, parts: Parts, sizes: Sizes, shape: Sequence[int] = ()) -> Parts:
    """What devices hold after one move: each gets it from the members of its group."""
    after = _flat_after if move.before.flat != move.after.flat else _after
    return {at: after(move, at, parts, sizes, shape) for at in devices(sizes)}


def _flat_after(
    move: Move, at: Coordinates, parts: Parts, sizes: Sizes, shape: Sequence[int]
) -> Array:
    """The same of a move along flat axes: pieces of the flattened block, with zeros at its end."""
    held = [parts[member] for member in _group(move.axes, at, sizes)]
    if move.how is How.ALL_GATHER:
        cuts = zip(shape, move.after.dimensions, strict=True)
        block = [size // prod(sizes[axis] for axis in axes) for size, axes in cuts]
        lead = move.before.lead
        rows = np.concatenate(held, axis=lead)[..., : prod(block[lead:])]
        return rows.reshape(block)
    own = number(at, move.axes, sizes)
    whole = parts[at] if move.how is How.SLICE else _reduced(move, held)
    return flat_piece(whole, move.after.lead, len(held), own)


def _after(move: Move, at: Coordinates, parts: Parts, sizes: Sizes, _: Sequence[int]) -> Array:
    mine, n = parts[at], move.devices(sizes)
    held = [parts[member] for member in _group(move.axes, at, sizes)]
    match move.how:
        case How.SLICE:
            return np.split(mine, n, axis=move.enters)[number(at, move.axes, sizes)]
        case How.MASK:
            return _masked(move, at, mine, sizes)
        case How.WIDEN:
            return _widened(move, at, mine, sizes)
        case How.ALL_GATHER:
            return np.concatenate(held, axis=move.leaves)
        case How.ALL_TO_ALL:
            own = number(at, _entering(move), sizes)
            pieces = [np.split(part, n, axis=move.enters)[own] for part in held]
            return np.concatenate(pieces, axis=move.leaves)
        case How.REDUCE_SCATTER:
            own = number(at, _entering(move), sizes)
            return np.split(_reduced(move, held), n, axis=move.enters)[own]
        case How.ALL_REDUCE:
            return _reduced(move, held)
        case How.PERMUTE:
            return parts[_sender(move, at, sizes)]
        case _:
            assert_never(move.how)


def _group(axes: tuple[str, ...], at: Coordinates, sizes: Sizes) -> list[Coordinates]:
    """The devices that differ from one along these axes only, by their number on them."""
    places = [place for place, axis in enumerate(sizes) if axis not in axes]
    alike = [one for one in devices(sizes) if all(one[place] == at[place] for place in places)]
    return sorted(alike, key=lambda one: number(one, axes, sizes))


def _entering(move: Move) -> tuple[str, ...]:
    """The axes of the move in the order in which they cut the dimension that they enter."""
    return tuple(axis for axis in move.after.dimensions[move.enters] if axis in move.axes)


def _reduced(move: Move, held: list[Array]) -> Array:
    return np.asarray(REDUCE[move.kind].reduce(held)).astype(held[0].dtype)


def _masked(move: Move, at: Coordinates, mine: Array, sizes: Sizes) -> Array:
    if move.kind is not Kind.SUM or number(at, move.axes, sizes) == 0:
        return mine
    return np.full_like(mine, neutral(move.kind, mine.dtype))


def _widened(move: Move, at: Coordinates, mine: Array, sizes: Sizes) -> Array:
    around = [np.full_like(mine, neutral(move.kind, mine.dtype))] * move.devices(sizes)
    around[number(at, move.axes, sizes)] = mine
    return np.concatenate(around, axis=move.leaves)


def _sender(move: Move, at: Coordinates, sizes: Sizes) -> Coordinates:
    """A device of the group that held what this one is to hold."""
    wanted = [number(at, axes, sizes) for axes in move.after.dimensions]
    for one in _group(move.axes, at, sizes):
        if [number(one, axes, sizes) for axes in move.before.dimensions] == wanted:
            return one
    raise ValueError(f"{move}: nobody holds the part of device {at}")
