"""Helpers that every language needs to spell a move."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from grammar.tensors.sharding import ReductionKind, Type
from synth.primitives.calls.call import RuntimeSpelling
from synth.primitives.calls.spelling import spell_words
from synth.step.redistribution import MoveKind, ShardingMove


def find_senders(move: ShardingMove, sizes: Mapping[str, int]) -> tuple[tuple[str, ...], list[int]]:
    """Returns a permute's axes in the order of ``sizes``, and the sender for each group member.

    Members are numbered along these axes, the first axis slowest. JAX uses this order for any order
    of axes in a ``ppermute``: it sorts the members of a group by device. A permute keeps the block
    number along all other axes, so their index is taken as 0.
    """
    axes = tuple(axis for axis in sizes if axis in move.axes)
    members = list(product(*(range(sizes[axis]) for axis in axes)))
    nowhere = dict.fromkeys(sizes, 0)
    senders = []
    for place in members:
        sender = move.sender(nowhere | dict(zip(axes, place, strict=True)), sizes)
        senders.append(members.index(tuple(sender[axis] for axis in axes)))
    return axes, senders


def spell_local_move(text: str, move: ShardingMove, held: Type, spelling: RuntimeSpelling) -> str:
    """Spells a move that does not communicate; both runtimes have the same helpers for it."""
    axes = spell_words(move.axes)
    if move.how is MoveKind.SLICE:
        return f"own_block({text}, {move.enters}, {axes})"
    if move.how is MoveKind.MASK:
        return f"only_first({text}, {axes})" if move.kind is ReductionKind.SUM else text
    neutral = spelling.neutral(move.kind, held.dtype)
    return f"written_around({text}, {move.leaves}, {axes}, {neutral})"
