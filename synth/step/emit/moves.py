"""What a move needs that all languages ask for alike."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from grammar.tensors.sharding import ReductionKind
from synth.step.redistribution import ShardingMove

LARGEST = {"f8_e4m3fn": "448.0"}
"""The largest number of floats without infinity: what is beyond becomes no number."""


def find_senders(move: ShardingMove, sizes: Mapping[str, int]) -> tuple[tuple[str, ...], list[int]]:
    """A permute's axes in the order of ``sizes``, and the sender for each member of its group.

    Members are counted along these axes, the first the slowest, as JAX does whatever order the axes
    of a ``ppermute`` are named in: it sorts the members of a group by device. A permute leaves the
    block number along all other axes as it is, so they are taken to be at 0.
    """
    axes = tuple(axis for axis in sizes if axis in move.axes)
    members = list(product(*(range(sizes[axis]) for axis in axes)))
    nowhere = dict.fromkeys(sizes, 0)
    found = []
    for place in members:
        sender = move.sender(nowhere | dict(zip(axes, place, strict=True)), sizes)
        found.append(members.index(tuple(sender[axis] for axis in axes)))
    return axes, found


def spell_neutral(
    kind: ReductionKind, dtype: str, dtypes: Mapping[str, str], infinite: str, limits: str
) -> str:
    """What changes nothing by being added or compared, as Python."""
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
