"""Plans of a job as a space to walk in: a move changes one thing of a plan.

Where all recipes on all placements are too many to be looked at, a walk prices as many as may be.
It goes among the plans that the grid has and never lists them: a factor of one axis goes to another
on the level where it lies, or changes places with one of another level; or one word of the recipe
changes. What a plan of other sizes cannot say goes to what is nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf, prod
from random import Random

from hierarchies import InputError, System, placements
from hierarchies.devices import Device
from hierarchies.placement import exponents
from hierarchies.units import volume
from synth.search.space import Infeasible, Price
from synth.train.choice.grids import Extents, Knobs, recipes, recipes_of
from synth.train.planner.composing.composer import Composition
from synth.train.planner.links import Candidate, Row, axes_of
from synth.train.plans import Recipe

Words = tuple[str, ...]
Sizes = tuple[int, ...]
"""Of all axes that there may be, in their order."""

WORDS: Sequence[Words] = (
    ("zero",),
    ("microbatches",),
    ("schedule", "chunks"),
    ("remat",),
    ("tokens",),
    ("vocabulary",),
)
"""What of a recipe changes at once, beside the sizes of its axes."""

ALL_WORDS = tuple(name for words in WORDS for name in words)

TRIES = 200
"""So often a move is drawn in vain before there is none."""

FAR = 0.1
"""How often all words change at once, and how often a move of factors is followed by another."""

FIRST_MOVES = 30
"""So many are drawn until a walk begins that does not begin with the first plan."""

Rows = list[list[int]]


@dataclass
class PlanSpace:
    """The recipes with such knobs that are ``allowed``, on all placements of their axes.

    A walk begins with the first plan, or what is drawn by ``start``, a seed. Plans are priced by
    ``composed``, without a clock, each once, in the best of ``buckets``, in bytes, or in none;
    ``least_seconds`` is below every plan. One that needs more memory than there is cannot be, by as
    many bytes.
    """

    system: System
    extents: Extents
    knobs: Knobs
    allowed: Callable[[Recipe], bool]
    composed: Composition
    memory_bytes: float
    least_seconds: float
    buckets: Sequence[int] = ()
    start: int = 0
    prices: dict[Candidate, Price] = field(default_factory=dict)
    _recipes: dict[Sizes, list[Recipe]] = field(default_factory=dict)
    _near: dict[tuple[Recipe, object], list[Recipe]] = field(default_factory=dict)

    def initial(self) -> Candidate:
        """The first plan in the order of the grid, or drawn. Raises InputError if there is none."""
        every = recipes(self.system.devices, self.extents, self.knobs)
        first = next(filter(self.allowed, every), None)
        if first is None:
            raise InputError("no plan is allowed", where="pin", hint="pin less")
        lies = next(placements(self.system.hierarchy, axes_of(first)))
        found, rng = Candidate(first, lies.matrix), Random(self.start)
        for _ in range(FIRST_MOVES * (self.start > 0)):
            found = next(self.moves(found, rng), found)
        return found

    def moves(self, state: Candidate, rng: Random) -> Iterator[Candidate]:
        """Drawn without end, unless no plan is near."""
        missed = 0
        while missed < TRIES:
            found = self._moved(state, rng)
            if found is None or found == state:
                missed += 1
            else:
                missed = 0
                yield found

    def price(self, state: Candidate) -> Price:
        """What no order of its passes is below: near its seconds as composed, and no clock."""
        if state not in self.prices:
            self.prices[state] = self._price(state)
        return self.prices[state]

    def _price(self, state: Candidate) -> Price:
        try:
            size = self.composed.composer.size_bytes(state.recipe)
        except InputError as error:
            return Infeasible(error.problem)
        if size > self.memory_bytes:
            excess = size - self.memory_bytes
            return Infeasible(f"{volume(excess)} of memory too much", excess)
        return min(map(self.composed.bound, (state, *map(state.in_buckets, self.buckets))))

    def bound(self, state: Candidate) -> Price:
        """The same for all: moves lead from each to any."""
        return self.least_seconds

    def _moved(self, state: Candidate, rng: Random) -> Candidate | None:
        """A plan near to a state; None where none is allowed."""
        before = self._rows(state)
        sizes = tuple(map(prod, before))
        if rng.random() < 0.5:
            far = rng.random() < FAR
            words = None if far else rng.choice(WORDS)
            others = self._changed(state.recipe, sizes, words)
            return Candidate(rng.choice(others), state.rows) if others else None
        rows = [list(row) for row in before]
        _shift(rows, rng)
        while rng.random() < FAR:
            _shift(rows, rng)
        after = tuple(map(prod, rows))
        near = [state.recipe] if after == sizes else self._nearest(state.recipe, after)
        return self._placed(rng.choice(near), rows) if near else None

    def _rows(self, state: Candidate) -> list[Row]:
        """A row of every axis that there may be."""
        known, whole = state.row_of, (1,) * len(self.system.hierarchy.levels)
        return [known.get(axis, whole) for axis in self.knobs.axes]

    def _placed(self, recipe: Recipe, rows: Rows) -> Candidate:
        of = dict(zip(self.knobs.axes, map(tuple, rows), strict=True))
        return Candidate(recipe, tuple(of[name] for name, _ in recipe.axes))

    def _with_sizes(self, sizes: Sizes) -> list[Recipe]:
        if sizes not in self._recipes:
            named = dict(zip(self.knobs.axes, sizes, strict=True))
            every = recipes_of(named, self.extents, self.knobs)
            self._recipes[sizes] = [one for one in every if self.allowed(one)]
        return self._recipes[sizes]

    def _changed(self, recipe: Recipe, sizes: Sizes, words: Words | None) -> list[Recipe]:
        """All others of the same sizes, or those that differ in some words only."""
        key = recipe, words
        if key not in self._near:
            kept = [] if words is None else [one for some in WORDS if some != words for one in some]
            same = self._with_sizes(sizes)
            self._near[key] = [
                one for one in same if one != recipe and not _apart(one, recipe, kept)
            ]
        return self._near[key]

    def _nearest(self, recipe: Recipe, sizes: Sizes) -> list[Recipe]:
        """Those of other sizes that say most alike."""
        key = recipe, sizes
        if key not in self._near:
            several = self._with_sizes(sizes)
            apart = [_apart(one, recipe, ALL_WORDS) for one in several]
            both = zip(several, apart, strict=True)
            self._near[key] = [one for one, far in both if far == min(apart)]
        return self._near[key]


def perfect(device: Device) -> Device:
    """One that multiplies at its peak whatever the shapes, and does all else in no time."""
    rates = device.matrix_flops_per_second
    return replace(
        device,
        memory_bytes_per_second=inf,
        multiprocessors=1,
        smallest_tile=1,
        tile=1,
        reached_flops_per_second=dict.fromkeys(rates, inf),
        reached_bytes_per_second=None,
        launch_seconds=0.0,
        attention_flops_per_second=(inf, inf),
    )


def _apart(one: Recipe, other: Recipe, names: Sequence[str]) -> int:
    """In how many words two recipes differ."""
    return sum(getattr(one, name) != getattr(other, name) for name in names)


def _shift(rows: Rows, rng: Random) -> None:
    """A factor of an axis goes to another axis of its level; or two change places.

    Then the second axis gives its like, of another level, to the first: sizes stay.
    """
    lying = [
        (axis, level) for axis, row in enumerate(rows) for level, size in enumerate(row) if size > 1
    ]
    if not lying:
        return
    axis, level = rng.choice(lying)
    other = rng.choice([at for at in range(len(rows)) if at != axis])
    factor = rng.choice(sorted(exponents(rows[axis][level])))
    back = [at for at, size in enumerate(rows[other]) if at != level and size % factor == 0]
    rows[axis][level] //= factor
    rows[other][level] *= factor
    if back and rng.random() < 0.5:
        at = rng.choice(back)
        rows[other][at] //= factor
        rows[axis][at] *= factor
