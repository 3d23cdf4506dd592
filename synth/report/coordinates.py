"""Which coordinates a device has on the parallelism axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod


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
