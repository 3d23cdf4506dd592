"""Values as tasks leave them: in buffers, in one piece or in slices, or put together later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from grammar.tensors.operations import Value
from grammar.tensors.sharding import Sharding, Type
from synth.step.sharding import RedistributedValue
from synth.step.simulation.groups import GroupedOperations, Key


class BufferedValue(NamedTuple):
    """A value as some tasks leave it, in some buffers.

    ``remade_bytes``: it is none of these, but who reads it makes so many bytes of them, which are
    the parts ``sources`` of values.
    """

    buffers: tuple[int, ...]
    makers: tuple[int, ...]
    remade_bytes: int = 0
    sources: tuple[Value, ...] = ()


@dataclass(frozen=True)
class DeferredStack:
    """A stack of inputs that is put together slice by slice, where a loop reads it.

    ``casts`` are what is done to it then, each with its result. ``kept``: the slices so far of what
    is put together once; None if it is let go with its layer.
    """

    moved: RedistributedValue
    held: BufferedValue
    casts: tuple[tuple[GroupedOperations, Value], ...] = ()
    kept: dict[int, BufferedValue] | None = None


Stack = tuple[BufferedValue, ...] | DeferredStack
"""A value: one piece, or of what a loop stacks one for each iteration."""

Scope = dict[Key, Stack]


def join_pieces(many: Sequence[BufferedValue]) -> BufferedValue:
    """Several pieces as one."""
    if len(many) == 1:
        return BufferedValue(many[0].buffers, many[0].makers)
    return BufferedValue(
        tuple(buffers_of(many)),
        tuple(dict.fromkeys(maker for one in many for maker in one.makers)),
    )


def buffers_of(many: Iterable[BufferedValue]) -> Iterable[int]:
    """What all pieces are in."""
    return (number for one in many for number in one.buffers)


def slice_sharding(one: Sharding) -> Sharding:
    """How a slice of a stack lies."""
    return one.slice()


def slice_type(kind: Type) -> Type:
    """What a slice of a stack is."""
    return Type(kind.dtype, kind.shape[1:])
