"""Recipes with the placements on which each is tried: what a search holds, not plan by plan.

Of half a million plans there are some thousand recipes. What memory one needs, and what it takes
with links that take no time, is asked once for all its placements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hierarchies import System, placements
from synth.step.search.links import PlacedRecipe, Row, axes_of
from synth.step.sharding import Recipe

Matrix = tuple[Row, ...]
"""Where the axes of a recipe lie: a row of each, in their order."""


@dataclass(frozen=True)
class Family:
    """Plans of one recipe: where its axes lie in each, and its number among all plans."""

    recipe: Recipe
    matrices: Sequence[Matrix]
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.matrices)

    def __iter__(self) -> Iterator[PlacedRecipe]:
        return (PlacedRecipe(self.recipe, matrix) for matrix in self.matrices)

    def some(self, places: Sequence[int], recipe: Recipe) -> Family:
        """Those at some places, by another recipe with the same axes."""
        matrices = [self.matrices[place] for place in places]
        return Family(recipe, matrices, [self.numbers[place] for place in places])


def list_families(system: System, several: Iterable[Recipe]) -> list[Family]:
    """Every recipe on every placement of its axes, in a stable order."""
    placed: dict[tuple[tuple[str, int], ...], list[Matrix]] = {}
    found: list[Family] = []
    number = 0
    for recipe in several:
        if recipe.axes not in placed:
            every = placements(system.hierarchy, axes_of(recipe))
            placed[recipe.axes] = [one.matrix for one in every]
        matrices = placed[recipe.axes]
        found.append(Family(recipe, matrices, range(number, number + len(matrices))))
        number += len(matrices)
    return found


def group_by_recipe(several: Iterable[PlacedRecipe]) -> list[Family]:
    """Plans by their recipes, numbered as they come."""
    found: dict[Recipe, tuple[list[Matrix], list[int]]] = {}
    for number, one in enumerate(several):
        matrices, numbers = found.setdefault(one.recipe, ([], []))
        matrices.append(one.rows)
        numbers.append(number)
    return [Family(recipe, *both) for recipe, both in found.items()]
