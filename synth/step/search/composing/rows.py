"""The rows of a placement, by what is sent over them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from synth.step.search.composing.inside import INSIDE
from synth.step.search.links import PlacedRecipe, Row
from synth.step.sharding.plan import PIPE

Rows = tuple[Row, ...]

SumRows = tuple[Row, Row]
"""The row over which parameters are sharded, and the row for parameters of experts."""


class SplitRows(NamedTuple):
    """The rows of the axes that divide the ``inside`` of a stage, in their order; the merged rows
    over which gradients are reduced (``sums``); and the row of the ``pipe``. A row is () for axes
    of one device.
    """

    inside: Rows
    sums: SumRows
    pipe: Row

    @classmethod
    def of(cls, candidate: PlacedRecipe) -> SplitRows:
        """Splits the rows of a plan."""
        rows, zero_axes = candidate.row_of, candidate.recipe.zero_axes
        sums, expert_sums = (
            merge_rows(*(rows.get(axis, ()) for axis in zero_axes if axis != other))
            for other in ("", "expert")
        )
        return cls(find_inner_rows(rows), (sums, expert_sums), rows.get(PIPE, ()))


def find_inner_rows(rows: Mapping[str, Row]) -> Rows:
    """Returns the rows of the axes that divide the inside of a stage."""
    return tuple(rows.get(axis, ()) for axis in INSIDE)


def merge_rows(*rows: Row) -> Row:
    """Merges the rows of several axes into one row; axes of one device have no row."""
    return tuple(prod(sizes) for sizes in zip(*filter(None, rows), strict=True))
