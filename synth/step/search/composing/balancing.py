"""Which cut of the layers is fastest: the ends of a model may be as much as several layers.

Layers are alike, so each but the first of a stage goes to the rank that has least to do. What ranks
take depends on where the axes lie that cut the inside of a stage, and on no others: so a family of
plans has few cuts.

>>> from synth.step.search.composing.inside import ModelPart
>>> fastest(8, 4, 1, {ModelPart.FIRST: 0.0, ModelPart.LAYER: 1.0, ModelPart.LAST: 1.5})
((3, 2, 2, 1), 3.0)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heapreplace
from itertools import compress

from hierarchies import InputError
from synth.step.search.composing.composer import Composition
from synth.step.search.composing.inside import INSIDE, ModelPart
from synth.step.search.composing.staged import InsideKey, StagedRecipe
from synth.step.search.families import Family
from synth.step.search.links import Row
from synth.step.sharding import Recipe
from synth.step.sharding.plan import PIPE
from synth.step.sharding.recipes import share_layers

LEAST_GAIN = 0.01
"""So much faster than by stages as equal as can be the slowest rank must be for others."""

Layers = tuple[int, ...]
"""Of each stage; empty for as many as can be the same."""

Rows = tuple[Row, ...]
"""Of the axes that cut the inside of a stage, in their order."""


@dataclass
class LayerBalancer:
    """Cuts of plans, by what ranks compute and send between operations; no more memory is needed
    than there is.
    """

    composed: Composition
    memory_bytes: float
    _known: dict[tuple[InsideKey, int, int], dict[Rows, Layers]] = field(default_factory=dict)

    def cut(self, family: Family) -> Iterator[Family]:
        """The same plans with their layers cut as is fastest, where that pays and fits.

        A recipe that cannot be composed stays as it is, for the search to tell.
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
        alike: defaultdict[Layers, list[int]] = defaultdict(list)
        for rows, places in _group_by_inside(family).items():
            if rows not in known:
                known[rows] = self._fastest(plan, rows)
            alike[known[rows]] += places
        whole: list[int] = []
        for layers, places in alike.items():
            found = replace(recipe, layers=layers) if layers else recipe
            if found == recipe or not self._fits(found):
                whole += places
            else:
                yield family.some(places, found)
        if whole:
            yield family.some(sorted(whole), recipe)

    def _fits(self, recipe: Recipe) -> bool:
        return self.composed.composer.size_bytes(recipe) <= self.memory_bytes

    def _fastest(self, plan: StagedRecipe, rows: Rows) -> Layers:
        """The layers of each stage with which the slowest rank is fastest; none if as they are."""
        axes = (name for name, size in plan.recipe.axes if name in INSIDE and size > 1)
        forward, backward = self.composed.working(plan, dict(zip(axes, rows, strict=True)))
        lies = plan.lies
        seconds = {part: forward[part] + backward[part] for part in ModelPart}
        took = lies.of_ranks(lies.of_stages(seconds))
        pays = (1 - LEAST_GAIN) * max(took)
        if sum(took[kind] for kind in lies.rank_kind_of) > pays * len(lies.of_rank):
            return ()  # no cut is faster than all ranks alike
        if (plan.all_layers // len(lies.of_rank) + 1) * seconds[ModelPart.LAYER] >= pays:
            return ()  # another cut has a rank with a layer more than the least of all as equal
        chunks = plan.recipe.chunks
        layers, slowest = balance_layers(
            plan.all_layers, len(lies.of_rank), chunks, seconds, folded=plan.folded
        )
        return layers if slowest < pays else ()


def _group_by_inside(family: Family) -> Mapping[Rows, list[int]]:
    """The places of its plans, by the rows of the axes that cut the inside of a stage."""
    inside = [name in INSIDE and size > 1 for name, size in family.recipe.axes]
    found: defaultdict[Rows, list[int]] = defaultdict(list)
    for place, matrix in enumerate(family.matrices):
        found[tuple(compress(matrix, inside))].append(place)
    return found


def balance_layers(
    layers: int,
    ranks: int,
    chunks: int,
    seconds: Mapping[ModelPart, float],
    *,
    folded: bool = False,
) -> tuple[Layers, float]:
    """The layers of each stage with which the slowest rank is fastest, and its seconds.

    As layers are alike, each but the first of a stage goes to the rank that has least to do; of
    equal ones to the earlier, for whose passes fewer wait. So none gets far less than what would
    end all at once, and that far it needs no turns. What a rank has goes to its chunks in as equal
    numbers as can be. There is a layer for each stage. ``folded``: the last stage is on the first
    rank, as in a V.
    """
    layer = seconds[ModelPart.LAYER]
    ends = [0.0] * ranks
    ends[0] += seconds[ModelPart.FIRST]
    ends[0 if folded else -1] += seconds[ModelPart.LAST]
    level = (sum(ends) / layer + layers) / ranks - 2 if layer else 0.0
    counts = [max(chunks, int(level - end / layer)) if layer else chunks for end in ends]
    if sum(counts) > layers:  # as some have more to do than all would at once
        counts = [chunks] * ranks
    waiting = [(ends[rank] + count * layer, rank) for rank, count in enumerate(counts)]
    heapify(waiting)
    for _ in range(layers - sum(counts)):
        took, rank = waiting[0]
        counts[rank] += 1
        heapreplace(waiting, (took + layer, rank))
    share = {count: share_layers(count, chunks) for count in {*counts}}
    turns = [*zip(*map(share.__getitem__, counts), strict=True)]
    if folded:
        turns[1] = turns[1][::-1]
    return tuple(size for turn in turns for size in turn), max(waiting)[0]
