"""What all languages need alike to spell a move."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from grammar.tensors.sharding import ReductionKind
from synth.step.redistribution import ShardingMove

LARGEST = {"f8_e4m3fn": "448.0"}
"""The largest finite number of floats without infinity; what is larger becomes NaN."""


def find_senders(move: ShardingMove, sizes: Mapping[str, int]) -> tuple[tuple[str, ...], list[int]]:
    """A permute's axes in the order of ``sizes``, and the sender for each member of its group.

    Members are numbered along these axes, the first the slowest, as JAX does whatever the order of
    the axes in a ``ppermute``: it sorts the members of a group by device. A permute keeps the block
    number along all other axes, so these are taken to be at 0.
    """
    axes = tuple(axis for axis in sizes if axis in move.axes)
    members = list(product(*(range(sizes[axis]) for axis in axes)))
    nowhere = dict.fromkeys(sizes, 0)
    senders = []
    for place in members:
        sender = move.sender(nowhere | dict(zip(axes, place, strict=True)), sizes)
        senders.append(members.index(tuple(sender[axis] for axis in axes)))
    return axes, senders


def spell_neutral(
    kind: ReductionKind, dtype: str, dtypes: Mapping[str, str], infinite: str, limits: str
) -> str:
    """The neutral element of a reduction, as Python."""
    if dtype == "bool":
        return str(kind is ReductionKind.MIN)
    if kind is ReductionKind.SUM:
        return "0"
    sign = "-" if kind is ReductionKind.MAX else ""
    if dtype in LARGEST:
        return f"{sign}{LARGEST[dtype]}"
    if dtype.startswith(("f", "bf")):
        return f"{sign}{infinite}.inf"
    if dtype.startswith("u"):  # a runtime may keep these in a wider type, which has other limits
        return "0" if kind is ReductionKind.MAX else str(2 ** int(dtype[1:]) - 1)
    return f"{limits}({dtypes[dtype]}).{'min' if kind is ReductionKind.MAX else 'max'}"
