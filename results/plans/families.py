"""Chosen plans as the families that a search holds."""

from __future__ import annotations

from collections.abc import Iterable

from synth.step.search.families import Family, Matrix
from synth.step.search.links import PlacedRecipe
from synth.step.sharding import Recipe


def group_by_recipe(candidates: Iterable[PlacedRecipe]) -> list[Family]:
    """Groups plans by recipe, numbered in the given order."""
    grouped: dict[Recipe, tuple[list[Matrix], list[int]]] = {}
    for number, candidate in enumerate(candidates):
        matrices, numbers = grouped.setdefault(candidate.recipe, ([], []))
        matrices.append(candidate.rows)
        numbers.append(number)
    return [Family(recipe, *members) for recipe, members in grouped.items()]
