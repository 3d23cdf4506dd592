"""Recipes with their placements, which a search stores instead of single plans.

Half a million plans have about a thousand recipes. Memory, and seconds with free links, depend on
the recipe alone, so they are computed once for all its placements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hierarchies import System, placements
from synth.step.search.links import PlacedRecipe, Row, axes_of
from synth.step.sharding import Recipe

Matrix = tuple[Row, ...]
"""A placement of a recipe's axes: one row for each axis, in their order."""


@dataclass(frozen=True)
class Family:
    """Plans of one recipe: the placement of each, and its number among all plans."""

    recipe: Recipe
    matrices: Sequence[Matrix]
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.matrices)

    def __iter__(self) -> Iterator[PlacedRecipe]:
        return (PlacedRecipe(self.recipe, matrix) for matrix in self.matrices)

    def select(self, places: Sequence[int], recipe: Recipe) -> Family:
        """Returns the plans at ``places``, with another recipe that has the same axes."""
        matrices = [self.matrices[place] for place in places]
        return Family(recipe, matrices, [self.numbers[place] for place in places])


def list_families(system: System, recipes: Iterable[Recipe]) -> list[Family]:
    """Lists every recipe on every placement of its axes, in a stable order."""
    placed: dict[tuple[tuple[str, int], ...], list[Matrix]] = {}
    families: list[Family] = []
    number = 0
    for recipe in recipes:
        if recipe.axes not in placed:
            every = placements(system.hierarchy, axes_of(recipe))
            placed[recipe.axes] = [placement.matrix for placement in every]
        matrices = placed[recipe.axes]
        families.append(Family(recipe, matrices, range(number, number + len(matrices))))
        number += len(matrices)
    return families
