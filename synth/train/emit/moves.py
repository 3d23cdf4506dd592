"""What a move needs that all languages ask for alike."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from grammar.tensors.sharding import Kind
from synth.train.resharding import Move


def senders(move: Move, sizes: Mapping[str, int]) -> list[int]:
    """Of each member of a permute's group, who has what it is to get.

    Members are counted along the axes of the move, the first the slowest. The axes of a list that
    change places are neighbours, so others do not matter and are taken to be at 0.
    """
    members = list(product(*(range(sizes[axis]) for axis in move.axes)))

    def blocks(at: tuple[int, ...], dimensions: tuple[tuple[str, ...], ...]) -> list[int]:
        place = dict(zip(move.axes, at, strict=True))
        found = []
        for axes in dimensions:
            number = 0
            for axis in axes:
                number = number * sizes[axis] + place.get(axis, 0)
            found.append(number)
        return found

    had = [blocks(at, move.before.dimensions) for at in members]
    return [had.index(blocks(at, move.after.dimensions)) for at in members]


def neutral(kind: Kind, dtype: str, dtypes: Mapping[str, str], infinite: str, limits: str) -> str:
    """What changes nothing by being added or compared, as Python."""
    if dtype == "bool":
        return str(kind is Kind.MIN)
    if kind is Kind.SUM:
        return "0"
    if dtype.startswith(("f", "bf")):
        return f"-{infinite}.inf" if kind is Kind.MAX else f"{infinite}.inf"
    return f"{limits}({dtypes[dtype]}).{'min' if kind is Kind.MAX else 'max'}"
