"""Which coordinates a device has on the parallelism axes, and with which others it works."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hierarchies import first_group


def coordinates(digits: Sequence[int], matrix: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The coordinates of a device by its digits; ``matrix``, the placement, has a row an axis.

    Inside a level the digit is split among the axes, the first slowest, and outer levels count
    more: the last device of an axis has the highest coordinate.
    """
    found = [0] * len(matrix)
    for level, digit in enumerate(digits):
        rest = prod(row[level] for row in matrix)
        for axis, row in enumerate(matrix):
            rest //= row[level]
            part, digit = divmod(digit, rest)
            found[axis] = found[axis] * row[level] + part
    return tuple(found)


def peers(
    device: int, at: Sequence[int], matrix: Sequence[Sequence[int]], over: Sequence[int]
) -> list[int]:
    """The group of a device over some axes, itself among them, ascending.

    ``at`` are its coordinates. They all have the same ones on the other axes.
    """
    found = [device]
    for axis in over:
        steps = first_group(matrix, axis)
        found = [one + step - steps[at[axis]] for one in found for step in steps]
    return sorted(found)
