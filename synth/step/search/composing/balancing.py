"""Balances layers over stages: the ends of a model may take as long as several layers.

Layers are alike, so each layer after the first of a stage goes to the rank with the least work. The
seconds of ranks depend only on the placement of the axes that divide the inside of a stage, so a
family of plans has few distinct divisions of layers.

>>> from synth.step.search.composing.inside import ModelPart
>>> balance_layers(8, 4, 1, {ModelPart.FIRST: 0.0, ModelPart.LAYER: 1.0, ModelPart.LAST: 1.5})
((3, 2, 2, 1), 3.0)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heapreplace
from itertools import compress
from operator import add

from hierarchies import InputError
from synth.step.search.composing.composer import Composition
from synth.step.search.composing.inside import INSIDE, ModelPart
from synth.step.search.composing.rows import Rows, find_inner_rows
from synth.step.search.composing.staged import StagedRecipe
from synth.step.search.families import Family
from synth.step.sharding import Recipe
from synth.step.sharding.plan import PIPE
from synth.step.sharding.recipes import share_layers

LEAST_GAIN = 0.01
"""The share of the slowest rank's seconds that an uneven division must save."""

Layers = tuple[int, ...]
"""Number of layers of each stage; empty if stages are as equal as possible."""


@dataclass
class LayerBalancer:
    """Balances the layers of plans by the seconds of ranks, within the memory of a device.

    ``runs``: whether a recipe with other layers is among those that are searched.
    """

    composed: Composition
    memory_bytes: float
    runs: Callable[[Recipe], bool] = lambda recipe: True
    _known: dict[tuple[int, int, int], dict[Rows, Layers]] = field(default_factory=dict)

    def cut(self, family: Family) -> Iterator[Family]:
        """Yields the same plans with the fastest division of layers, if it saves time and fits.

        A recipe that cannot be composed is unchanged; the search reports it.
        """
        recipe = family.recipe
        if dict(recipe.axes).get(PIPE, 1) == 1:
            yield family
            return
        try:
            plan = self.composed.composer.staged(recipe)
        except InputError:
            yield family
            return
        known = self._known.setdefault((plan.cut, plan.sizes[PIPE], recipe.chunks), {})
        by_layers: defaultdict[Layers, list[int]] = defaultdict(list)
        for rows, places in _group_by_inside(family).items():
            if rows not in known:
                known[rows] = self._fastest(plan, rows)
            by_layers[known[rows]] += places
        unchanged: list[int] = []
        for layers, places in by_layers.items():
            balanced = replace(recipe, layers=layers) if layers else recipe
            if balanced == recipe or not (self._fits(balanced) and self.runs(balanced)):
                unchanged += places
            else:
                yield family.select(places, balanced)
        if unchanged:
            yield family.select(sorted(unchanged), recipe)

    def _fits(self, recipe: Recipe) -> bool:
        return self.composed.composer.size_bytes(recipe) <= self.memory_bytes

    def _fastest(self, plan: StagedRecipe, rows: Rows) -> Layers:
        """Returns the fastest layers of each stage; empty to keep them as equal as possible."""
        axes = (name for name, size in plan.recipe.axes if name in INSIDE and size > 1)
        row_of = dict(zip(axes, rows, strict=True))
        forward, backward = self.composed.working(plan, find_inner_rows(row_of))
        layout = plan.layout
        both = map(add, forward, backward)
        seconds = dict(zip(ModelPart, both, strict=True))
        seconds_of_ranks = layout.of_ranks(layout.of_stages(seconds))
        most = (1 - LEAST_GAIN) * max(seconds_of_ranks)
        if sum(seconds_of_ranks[kind] for kind in layout.rank_kind_of) > most * len(layout.of_rank):
            return ()  # not even equal seconds on all ranks would pay
        if (plan.all_layers // len(layout.of_rank) + 1) * seconds[ModelPart.LAYER] >= most:
            return ()  # a rank with one layer more than the equal share is too slow
        chunks = plan.recipe.chunks
        layers, slowest = balance_layers(
            plan.all_layers, len(layout.of_rank), chunks, seconds, folded=plan.folded
        )
        return layers if slowest < most else ()


def _group_by_inside(family: Family) -> Mapping[Rows, list[int]]:
    """Groups the indices of a family's plans by the rows of the axes that divide the inside."""
    inside = [name in INSIDE and size > 1 for name, size in family.recipe.axes]
    places_by_rows: defaultdict[Rows, list[int]] = defaultdict(list)
    for place, matrix in enumerate(family.matrices):
        places_by_rows[tuple(compress(matrix, inside))].append(place)
    return places_by_rows


def balance_layers(
    layers: int,
    ranks: int,
    chunks: int,
    seconds: Mapping[ModelPart, float],
    *,
    folded: bool = False,
) -> tuple[Layers, float]:
    """Returns the fastest layers of each stage, and the seconds of the slowest rank.

    Greedy: each layer after the first of a stage goes to the rank with the least work; of equal
    ranks to the earliest, because fewer passes wait for its passes. No rank gets far less than the
    mean, so the layers up to near the mean are assigned at once. A rank's layers are divided among
    its chunks as equally as possible, with at least one layer for each stage. ``folded``: the last
    stage is on the first rank, as in a V-shaped schedule.
    """
    layer = seconds[ModelPart.LAYER]
    ends = [0.0] * ranks
    ends[0] += seconds[ModelPart.FIRST]
    ends[0 if folded else -1] += seconds[ModelPart.LAST]
    level = (sum(ends) / layer + layers) / ranks - 2 if layer else 0.0
    counts = [max(chunks, int(level - end / layer)) if layer else chunks for end in ends]
    if sum(counts) > layers:  # some ends alone exceed the mean
        counts = [chunks] * ranks
    waiting = [(ends[rank] + count * layer, rank) for rank, count in enumerate(counts)]
    heapify(waiting)
    for _ in range(layers - sum(counts)):
        seconds_so_far, rank = waiting[0]
        counts[rank] += 1
        heapreplace(waiting, (seconds_so_far + layer, rank))
    share = {count: share_layers(count, chunks) for count in {*counts}}
    turns = [*zip(*map(share.__getitem__, counts), strict=True)]
    if folded:
        turns[1] = turns[1][::-1]
    return tuple(size for turn in turns for size in turn), max(waiting)[0]
