"""Values as tasks leave them: in buffers, whole or in slices, or deferred until they are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from grammar.tensors.operations import Value
from grammar.tensors.sharding import Sharding, Type
from synth.step.sharding import RedistributedValue
from synth.step.sharding.program import Key
from synth.step.simulation.groups import GroupedOperations


class BufferedValue(NamedTuple):
    """A value as tasks leave it, in buffers.

    ``remade_bytes``: if not 0, the value is not stored, and its readers recompute this number of
    bytes from the buffers. ``sources``: the parts of values that these buffers hold.
    """

    buffers: tuple[int, ...]
    makers: tuple[int, ...]
    remade_bytes: int = 0
    sources: tuple[Value, ...] = ()


@dataclass(frozen=True)
class DeferredStack:
    """A stack of inputs that is gathered slice by slice when a loop reads it.

    ``casts``: casts of each slice after it is gathered, each with its result. ``kept``: the slices
    gathered so far, if each is gathered only once; None if a slice is freed after its layer.
    """

    moved: RedistributedValue
    held: BufferedValue
    casts: tuple[tuple[GroupedOperations, Value], ...] = ()
    kept: dict[int, BufferedValue] | None = None


Stack = tuple[BufferedValue, ...] | DeferredStack
"""A value in one piece, or the slices that a loop stacks, with a slice for each iteration."""

Scope = dict[Key, Stack]


def join_pieces(pieces: Sequence[BufferedValue]) -> BufferedValue:
    """Joins several pieces into one value."""
    if len(pieces) == 1:
        return BufferedValue(pieces[0].buffers, pieces[0].makers)
    return BufferedValue(
        tuple(buffers_of(pieces)),
        tuple(dict.fromkeys(maker for piece in pieces for maker in piece.makers)),
    )


def buffers_of(pieces: Iterable[BufferedValue]) -> Iterable[int]:
    """Returns the buffers of all pieces."""
    return (number for piece in pieces for number in piece.buffers)


def slice_sharding(sharding: Sharding) -> Sharding:
    """Returns the sharding of a slice of a stack."""
    return sharding.slice()


def slice_type(kind: Type) -> Type:
    """Returns the type of a slice of a stack."""
    return Type(kind.dtype, kind.shape[1:])
