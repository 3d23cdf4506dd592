"""Composes the passes of many plans at once: arrays with a row for each plan.

Every sum adds its terms in one fixed order, so a plan's seconds do not depend on the plans beside
it, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from synth.step.search.composing.clock import (
    Floats,
    Integers,
    LayoutColumns,
    PassColumns,
    StageLayout,
)
from synth.step.search.composing.inside import PARTS
from synth.step.search.composing.staged import StagedRecipe


@dataclass
class DistinctValues:
    """Values by key, computed once for each distinct key of a group, and a row for each plan."""

    values: list[Any] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def add(self, keys: Sequence[Any], value: Callable[[Any], Any]) -> None:
        """Adds a group of plans with these keys."""
        known: dict[Any, int] = {}
        for key in keys:
            if key not in known:
                known[key] = len(self.values)
                self.values.append(value(key))
            self.rows.append(known[key])

    @property
    def array(self) -> Floats:
        """The value of each plan, of shape (plans, ...)."""
        return np.array(self.values)[self.rows]

    @property
    def padded(self) -> Floats:
        """The value of each plan, where values are lists of different lengths, with zeros."""
        most = max(map(len, self.values))
        padded = np.zeros((len(self.values), most))
        for row, value in zip(padded, self.values, strict=True):
            row[: len(value)] = value
        return padded[self.rows]


@dataclass(frozen=True)
class RecipeColumns:
    """What the seconds of plans need of their recipes, a row for each plan.

    ``alike``: whether a part's communication overlaps computation, and ``updating``: its seconds
    once per step, are of shape (plans, parts); the others have one number for each plan.
    ``sum_pieces``: the number of pieces in which gradients are reduced.
    """

    layouts: Sequence[StageLayout]
    zero: Integers
    in_stacks: NDArray[np.bool_]
    layers: Floats
    pieces: Floats
    sum_pieces: Floats
    alike: NDArray[np.bool_]
    updating: Floats

    @classmethod
    def of(cls, plans: Sequence[StagedRecipe], sum_pieces: Sequence[float]) -> Self:
        """Returns a row for each recipe."""
        return cls(
            [plan.layout for plan in plans],
            np.array([plan.recipe.zero for plan in plans]),
            np.array([plan.in_stacks for plan in plans]),
            np.array([plan.layers for plan in plans]),
            np.array([plan.pieces for plan in plans]),
            np.array(sum_pieces),
            np.array([[part in plan.overlapping for part in PARTS] for plan in plans]),
            np.array([[*plan.updating.values()] for plan in plans]),
        )

    def select(self, rows: Sequence[int]) -> Self:
        """Returns the given rows, some of them several times."""
        layouts = [self.layouts[row] for row in rows]
        columns = (getattr(self, column.name)[rows] for column in fields(self)[1:])
        return type(self)(layouts, *columns)


def compose_passes(
    recipes: RecipeColumns, work: Floats, gather: Floats, sums: Floats, handed: Floats
) -> PassColumns:
    """Returns the seconds of stages and ranks of each plan.

    ``work``: seconds of computation and exposed communication of a microbatch, of shape (plans, 2,
    parts) for forward and backward; ``gather`` and ``sums``: to gather parameters and to reduce
    gradients, of shape (plans, parts); ``handed``: see ``PassColumns``.
    """
    layouts, zero = LayoutColumns.of(recipes.layouts), recipes.zero[:, None]
    forward, backward = layouts.of_stages(work[:, 0]), layouts.of_stages(work[:, 1])
    alike, pieces = recipes.alike, recipes.pieces[:, None]
    sent, ends = (layouts.of_stages(np.where(kept, sums, 0.0)) for kept in (alike, ~alike))
    once = _once_seconds(recipes, layouts, gather, layouts.of_last(forward))
    # Gradients that are not sharded are reduced during the last backward pass of a rank, that of
    # its first stage; others in every backward pass.
    compute, last = layouts.of_last(backward), layouts.of_last(sent)
    sum_pieces = recipes.sum_pieces[:, None]
    overlapped = _overlap_seconds(compute, last, sum_pieces)
    summed = once + overlapped - compute + layouts.of_ranks(sent) - last + layouts.of_ranks(ends)
    gathers = layouts.of_stages(np.where(alike & (zero == 3), gather, 0.0))
    reduced = _overlap_seconds(backward, gathers + sent, sum_pieces) + ends
    backward = np.where(zero >= 2, reduced, backward)
    forward = np.where(zero >= 2, _overlap_seconds(forward, gathers, pieces), forward)
    busy = layouts.of_ranks(forward) + layouts.of_ranks(backward)
    once = np.where(zero >= 2, once, summed)
    return PassColumns(recipes.layouts, forward, backward, busy, once, handed)


def _once_seconds(
    recipes: RecipeColumns, layouts: LayoutColumns, gather: Floats, first: Floats
) -> Floats:
    """Returns the seconds in which each kind of rank sums, updates and gathers parameters.

    The update waits for all gradients, and nothing overlaps it. In a step without microbatches,
    copies are gathered one layer ahead during the ``first`` forward pass.
    """
    zero = recipes.zero[:, None]
    gathered = np.where((zero == 0) | ((zero == 3) & recipes.alike), 0.0, gather)
    update = layouts.of_ranks(layouts.of_stages(recipes.updating))
    gathers = layouts.of_ranks(layouts.of_stages(gathered))
    overlapped = _overlap_seconds(first, gathers, recipes.layers[:, None])
    alone = (zero == 3) | recipes.in_stacks[:, None]
    return np.where(alone, update + gathers, update + overlapped - first)


def _overlap_seconds(compute: Floats, sent: Floats, pieces: Floats) -> Floats:
    """Returns the seconds of overlapped computation and communication.

    One of ``pieces`` pieces of the shorter activity is exposed.
    """
    return np.maximum(compute, sent) + np.minimum(compute, sent) / np.maximum(1.0, pieces)
