"""Where axes lie, and seconds of collectives by that: a search asks for the same over and over.

What a collective takes on a machine all of which does the same depends on the row of its axes in
the placement, not on what the others are called: data=8 over 8 nodes is one question for every plan
that has it. Between sizes that were asked of the planner seconds are on a straight line, as prices
are of one program; the finalists of a search are priced exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log2, prod
from typing import Protocol

from grammar import Goal
from hierarchies import Axis, Placement, Reduction, System
from synth.collective.price.bound import bound
from synth.collective.price.defaults import defaults
from synth.collective.price.resolution import estimate_price
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import total_seconds
from synth.collective.ranking.answers import unproved_answer
from synth.collective.ranking.candidates import CandidateSearch
from synth.collective.ranking.how_to_get import seconds_as_advised
from synth.collective.ranking.library import Library
from synth.collective.semantics.point_to_point import stage_transfer
from synth.collective.semantics.programs import Language
from synth.search.forks import WorkControl, map_in_forks
from synth.step.point_to_point import price_transfer
from synth.step.search.composing.clock import Structure
from synth.step.sharding import Recipe
from synth.step.sharding.plan import PIPE

STEP = 1
"""Sizes that are asked for are powers of 2 ** STEP: what is advised leaps from size to size."""

SEGMENTS = (1, 4, 16, 64)
"""A payload is cut into so many: of 90 questions none was dearer than with all numbers of them."""

MANY_BYTES = 2.0**40
"""Bytes that take so long that their latency is nothing."""

Row = tuple[int, ...]

Key = tuple[Goal, Row, int]
"""A collective over a row, of so many bytes as a power of 2."""


def axes_of(recipe: Recipe) -> tuple[Axis, ...]:
    """The axes of a recipe, to be placed."""
    return tuple(Axis(name, size) for name, size in recipe.axes)


@dataclass(frozen=True)
class PlacedRecipe:
    """A recipe and where its axes lie: a row of each axis, in their order."""

    recipe: Recipe
    rows: tuple[Row, ...]

    @property
    def row_of(self) -> Mapping[str, Row]:
        """The row of each axis of more than one device."""
        both = zip(self.recipe.axes, self.rows, strict=True)
        return {name: row for (name, size), row in both if size > 1}

    @property
    def rows_of_zero(self) -> tuple[Row, ...]:
        """Those of the axes of samples and tokens, over which gradients are summed."""
        return tuple(self.row_of[axis] for axis in self.recipe.zero_axes if axis in self.row_of)

    def in_buckets(self, size_bytes: int) -> PlacedRecipe:
        """The same with its gradients in buckets of so many bytes; each by itself for 0."""
        return replace(self, recipe=replace(self.recipe, bucket_bytes=size_bytes))

    @property
    def alone(self) -> PlacedRecipe:
        """The same with the sum of each gradient by itself."""
        return self.in_buckets(0)

    def by(self, recipe: Recipe) -> PlacedRecipe:
        """The same axes in the same places by another recipe."""
        return self if recipe == self.recipe else replace(self, recipe=recipe)

    @property
    def ranks(self) -> int:
        """How many devices the stages are on."""
        return dict(self.recipe.axes).get(PIPE, 1)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Those of the recipe, to be placed."""
        return axes_of(self.recipe)

    @property
    def structure(self) -> Structure:
        recipe = self.recipe
        return self.ranks, recipe.schedule, recipe.microbatches, recipe.chunks


@dataclass(frozen=True)
class ComposedPlan:
    """A plan with what it is expected to take: seconds of a step, bytes of the fullest device."""

    candidate: PlacedRecipe
    seconds: float
    size_bytes: float


class Links(Protocol):
    """Seconds of what is sent."""

    def seconds(self, goal: Goal, row: Row, size_bytes: float) -> float:
        """Of a collective with so many bytes, a device's largest buffer, over a row."""

    def handed(self, row: Row, size_bytes: float) -> Sequence[float]:
        """Of bytes of every device from each rank of a row to the next."""


@dataclass
class PricedLinks:
    """What is advised takes, the best programs or the runtime's own choice; finalists' are proved.

    Seconds are on a line through those of sizes that were ``asked``, which are kept.
    """

    system: System
    _known: dict[Key, float] = field(default_factory=dict)
    _handed: dict[tuple[Row, int], Sequence[float]] = field(default_factory=dict)
    libraries: dict[Goal, Library] = field(default_factory=dict)

    @cached_property
    def _simulator(self) -> Simulator:
        return Simulator(self.system)

    def seconds(self, goal: Goal, row: Row, size_bytes: float) -> float:
        """As ``Links`` says: between two powers of 2 ** STEP."""
        below, above = _powers(size_bytes)
        low, high = 2.0**below, 2.0**above
        first, second = (self._at((goal, row, power)) for power in (below, above))
        return max(0.0, first + (second - first) * (size_bytes - low) / (high - low))

    def unknown(self, goal: Goal, row: Row, size_bytes: float) -> list[Key]:
        """What would have to be asked for that."""
        keys = ((goal, row, power) for power in _powers(size_bytes))
        return [key for key in keys if key not in self._known]

    def learn(self, several: Sequence[Key], crew: WorkControl) -> None:
        """Ask for that by as many processes as there may be, until the crew is to stop.

        Forks are to know all programs.
        """
        for goal, row, _ in several:
            reduction = Reduction(place_alone(self.system, row), ("over",))
            self._library(goal).paths(len(reduction.tree.digits))
        for seconds, key in zip(map_in_forks(self._found, several, crew), several, strict=False):
            self._known[key] = seconds

    def _at(self, key: Key) -> float:
        if key not in self._known:
            self._known[key] = self._found(key)
        return self._known[key]

    def _found(self, key: Key) -> float:
        goal, row, power = key
        return self.asked(goal, place_alone(self.system, row), 2**power)

    def asked(self, goal: Goal, placement: Placement, size_bytes: int) -> float:
        """As is advised by the best program that is found, which is not proved.

        What cannot be told to gain is not looked for.
        """
        simulator, reduction = self._simulator, Reduction(placement, ("over",))
        plain = defaults(simulator, reduction, size_bytes, goal).baseline
        most = estimate_price(self.system, sum(one.ticks for one in plain), plain).most_below
        how = self._library(goal), simulator, size_bytes, SEGMENTS
        search = CandidateSearch(*how, stripes=False)
        found = search.bound_ticks(reduction) <= most and search.distinct(reduction, 1, most)
        if not found:
            return total_seconds(plain)
        return seconds_as_advised(unproved_answer(simulator, found[0].what, goal, size_bytes))

    def _library(self, goal: Goal) -> Library:
        return self.libraries.setdefault(goal, Library(Language(goal=goal)))

    def handed(self, row: Row, size_bytes: float) -> Sequence[float]:
        """Of transfers from each rank to the next."""
        key = row, int(size_bytes)
        if key not in self._handed:
            placement, ranks = place_alone(self.system, row), range(prod(row) - 1)
            sent = (stage_transfer(placement, "over", rank, rank + 1, key[1]) for rank in ranks)
            self._handed[key] = [price_transfer(one, self.system).seconds for one in sent]
        return self._handed[key]


def _powers(size_bytes: float) -> tuple[int, int]:
    """The powers of 2 between which so many bytes are."""
    below = max(STEP, int(log2(max(1.0, size_bytes))) // STEP * STEP)
    return below, below + STEP


@dataclass
class BoundLinks:
    """What nothing can beat: bounds of collectives; transfers take no time.

    But for their latency, which is left out, bounds grow as the bytes do.
    """

    system: System
    _of_a_byte: dict[tuple[Goal, Row], float] = field(default_factory=dict)

    def seconds(self, goal: Goal, row: Row, size_bytes: float) -> float:
        """Of no program less."""
        key = goal, row
        if key not in self._of_a_byte:
            reduction = Reduction(place_alone(self.system, row), ("over",))
            self._of_a_byte[key] = (
                bound(self.system, reduction, MANY_BYTES, goal).seconds / MANY_BYTES
            )
        return self._of_a_byte[key] * size_bytes

    def handed(self, row: Row, size_bytes: float) -> Sequence[float]:
        """None takes any time."""
        return [0.0] * (prod(row) - 1)


class FreeLinks:
    """Links on which nothing takes any time: none is faster."""

    def seconds(self, goal: Goal, row: Row, size_bytes: float) -> float:
        """As ``Links`` says."""
        return 0.0

    def handed(self, row: Row, size_bytes: float) -> Sequence[float]:
        """As ``Links`` says."""
        return [0.0] * (prod(row) - 1)


@dataclass
class RecordingLinks(FreeLinks):
    """The same, but what others would have to ask for is noted in ``wanted``."""

    links: PricedLinks
    wanted: dict[Key, None] = field(default_factory=dict)

    def seconds(self, goal: Goal, row: Row, size_bytes: float) -> float:
        """As ``Links`` says."""
        self.wanted.update(dict.fromkeys(self.links.unknown(goal, row, size_bytes)))
        return 0.0


def place_alone(system: System, row: Row) -> Placement:
    """An axis over a row, and all else that there is as another."""
    levels = system.hierarchy.cardinalities
    rest = tuple(size // own for size, own in zip(levels, row, strict=True))
    axes = (Axis("over", prod(row)), Axis("rest", prod(rest)))
    return Placement(system.hierarchy, axes, (row, rest))
