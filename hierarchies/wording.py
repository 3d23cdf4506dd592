"""A placement in words: which part of the machine, and which ranks, one group of an axis covers.

``[[1, 8], [4, 1]]`` is *data on all 8 gpus of a node (ranks 0-7), model across all 4 nodes (ranks
0, 8, 16, 24)*. Ranks count devices as launchers do, host by host.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import prod

import numpy as np

from hierarchies.hierarchy import Level
from hierarchies.placement import Placement

_RUNS = 4


def describe_axes(placement: Placement) -> tuple[str, ...]:
    """For each axis of size above 1, the location of its groups and the ranks of the first one."""
    matrix = placement.matrix
    return tuple(
        f"{axis.name} {_levels_of_axis(placement, row)} (ranks "
        f"{format_ranges(first_group(matrix, number))})"
        for number, (axis, row) in enumerate(zip(placement.axes, matrix, strict=True))
        if axis.size > 1
    )


def first_group(matrix: Sequence[Sequence[int]], axis: int) -> list[int]:
    """The devices that differ from the first one in this axis alone, ascending.

    ``matrix`` is a placement's: a row for each axis, a column for each level.
    """
    devices = np.zeros(1, dtype=np.int64)
    inside = 1
    for column in reversed(list(zip(*matrix, strict=True))):
        step = inside * prod(column[axis + 1 :])
        devices = (step * np.arange(column[axis])[:, None] + devices).reshape(-1)
        inside *= prod(column)
    return [int(device) for device in devices]


def format_ranges(numbers: Sequence[int], most: int = _RUNS + 1) -> str:
    """Ascending numbers as ranges: ``0-7``, ``0, 8, 16, 24``, ``0-3, 8-11, ..., 56-59``.

    At most ``most`` ranges are spelled; of more, the first ones and the last.
    """
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    ]
    spelled = [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    if len(spelled) > most:
        spelled[most - 2 : -1] = ["..."]
    return ", ".join(spelled)


def _levels_of_axis(placement: Placement, row: Sequence[int]) -> str:
    """The levels that an axis occupies, innermost first."""
    levels = placement.hierarchy.levels
    spanned = [place for place, factor in reversed(list(enumerate(row))) if factor > 1]
    along = [place for place in spanned if len(levels[place].name) == 1]
    units = [place for place in spanned if place not in along]
    outermost = spanned[-1]
    above = levels[outermost - 1].name if outermost else ""
    inside = f" of a {above}" if len(above) > 1 else ""
    if along:
        sides = (f"{levels[at].name} ({_share(row[at], levels[at])})" for at in along)
        return f"along {' by '.join(sides)}{_describe_units(placement, row, units)}{inside}"
    innermost, *outer = units
    first = f"{_share(row[innermost], levels[innermost])} {levels[innermost].name}s"
    if not outer and prod(level.cardinality for level in levels[innermost + 1 :]) > 1:
        return f"across {first}"
    return f"on {first}{_describe_units(placement, row, outer)}{inside}"


def _describe_units(placement: Placement, row: Sequence[int], outer: Sequence[int]) -> str:
    """The outer units that an axis occupies: `` in each of 2 nodes``."""
    levels = placement.hierarchy.levels
    return "".join(
        f" in each of {'the ' * (row[at] == levels[at].cardinality)}{row[at]} {levels[at].name}s"
        for at in outer
    )


def _share(factor: int, level: Level) -> str:
    """``all 8``, ``4 of 8``."""
    of = level.cardinality
    return f"all {of}" if factor == of else f"{factor} of {of}"
