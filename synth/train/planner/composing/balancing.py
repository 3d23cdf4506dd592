"""Which cut of the layers is fastest: the ends of a model may be as much as several layers.

Layers are alike, so each but the first of a stage goes to the rank that has least to do. What ranks
take depends on where the axes lie that cut the inside of a stage, and on no others: so a family of
plans has few cuts.

>>> from synth.train.planner.composing.inside import Part
>>> fastest(8, 4, 1, {Part.FIRST: 0.0, Part.LAYER: 1.0, Part.LAST: 1.5})
((3, 2, 2, 1), 3.0)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heapreplace

from hierarchies import InputError
from synth.train.planner.composing.composer import Composition
from synth.train.planner.composing.inside import INSIDE, Part
from synth.train.planner.composing.staged import Cut, Staged
from synth.train.planner.families import Family
from synth.train.planner.links import Row
from synth.train.plans import Recipe
from synth.train.plans.plan import PIPE
from synth.train.plans.recipes import shares

PAYS = 0.01
"""So much faster than by stages as equal as can be the slowest rank must be for others."""

Layers = tuple[int, ...]
"""Of each stage; empty for as many as can be the same."""


@dataclass
class Balancing:
    """Cuts of plans, by what ranks compute and send between operations; no more memory is needed
    than there is.
    """

    composed: Composition
    memory_bytes: float
    _layers: dict[tuple[Cut, tuple[Row, ...], int, int], Layers] = field(default_factory=dict)

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
        alike: defaultdict[Layers, list[int]] = defaultdict(list)
        for rows, places in _by_inside(family).items():
            alike[self._fastest(plan, rows)] += places
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

    def _fastest(self, plan: Staged, rows: tuple[Row, ...]) -> Layers:
        """The layers of each stage with which the slowest rank is fastest; none if as they are."""
        key = plan.cut, rows, plan.sizes[PIPE], plan.recipe.chunks
        if key not in self._layers:
            axes = (name for name, size in plan.recipe.axes if name in INSIDE and size > 1)
            self._layers[key] = self._found(plan, dict(zip(axes, rows, strict=True)))
        return self._layers[key]

    def _found(self, plan: Staged, rows: Mapping[str, Row]) -> Layers:
        lies = plan.lies
        forward, backward = self.composed.working(plan, rows)
        seconds = {part: forward[part] + backward[part] for part in Part}
        took = lies.of_ranks(lies.of_stages(seconds))
        pays = (1 - PAYS) * max(took)
        if sum(took[kind] for kind in lies.rank_kind_of) > pays * len(lies.of_rank):
            return ()  # no cut is faster than all ranks alike
        layers, slowest = fastest(plan.all_layers, len(lies.of_rank), plan.recipe.chunks, seconds)
        return layers if slowest < pays else ()


def _by_inside(family: Family) -> Mapping[tuple[Row, ...], list[int]]:
    """The places of its plans, by the rows of the axes that cut the inside of a stage."""
    axes = family.recipe.axes
    at = [place for place, (name, size) in enumerate(axes) if name in INSIDE and size > 1]
    found: defaultdict[tuple[Row, ...], list[int]] = defaultdict(list)
    for place, matrix in enumerate(family.matrices):
        found[tuple(matrix[one] for one in at)].append(place)
    return found


def fastest(
    layers: int, ranks: int, chunks: int, seconds: Mapping[Part, float]
) -> tuple[Layers, float]:
    """The layers of each stage with which the slowest rank is fastest, and its seconds.

    As layers are alike, each but the first of a stage goes to the rank that has least to do; of
    equal ones to the earlier, for whose passes fewer wait. What a rank has goes to its chunks in as
    equal numbers as can be. There is a layer for each stage.
    """
    layer, counts = seconds[Part.LAYER], [chunks] * ranks
    ends = [0.0] * ranks
    ends[0] += seconds[Part.FIRST]
    ends[-1] += seconds[Part.LAST]
    waiting = [(end + chunks * layer, rank) for rank, end in enumerate(ends)]
    heapify(waiting)
    for _ in range(layers - ranks * chunks):
        took, rank = waiting[0]
        counts[rank] += 1
        heapreplace(waiting, (took + layer, rank))
    of_rank = (shares(count, chunks) for count in counts)
    cut = tuple(one for some in zip(*of_rank, strict=True) for one in some)
    return cut, max(waiting)[0]
