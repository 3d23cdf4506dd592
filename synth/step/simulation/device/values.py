"""Values as tasks leave them: in buffers, whole or in slices, or to be gathered later."""

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

    ``remade_bytes``: the value is not stored; its readers make so many bytes from these buffers,
    which are the parts ``sources`` of values.
    """

    buffers: tuple[int, ...]
    makers: tuple[int, ...]
    remade_bytes: int = 0
    sources: tuple[Value, ...] = ()


@dataclass(frozen=True)
class DeferredStack:
    """A stack of inputs that is gathered slice by slice, where a loop reads it.

    ``casts``: done to each slice then, each with its result. ``kept``: the slices so far of what is
    gathered once; None if a slice is freed after its layer.
    """

    moved: RedistributedValue
    held: BufferedValue
    casts: tuple[tuple[GroupedOperations, Value], ...] = ()
    kept: dict[int, BufferedValue] | None = None


Stack = tuple[BufferedValue, ...] | DeferredStack
"""A value in one piece, or the slices that a loop stacks, one for each iteration."""

Scope = dict[Key, Stack]


def join_pieces(pieces: Sequence[BufferedValue]) -> BufferedValue:
    """Joins several pieces to one value."""
    if len(pieces) == 1:
        return BufferedValue(pieces[0].buffers, pieces[0].makers)
    return BufferedValue(
        tuple(buffers_of(pieces)),
        tuple(dict.fromkeys(maker for piece in pieces for maker in piece.makers)),
    )


def buffers_of(pieces: Iterable[BufferedValue]) -> Iterable[int]:
    """The buffers of all pieces."""
    return (number for piece in pieces for number in piece.buffers)


def slice_sharding(sharding: Sharding) -> Sharding:
    """The sharding of a slice of a stack."""
    return sharding.slice()


def slice_type(kind: Type) -> Type:
    """The type of a slice of a stack."""
    return Type(kind.dtype, kind.shape[1:])
