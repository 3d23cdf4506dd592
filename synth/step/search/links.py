"""Placed recipes, and cached seconds of collectives by placement.

A search repeats requests. On a machine without faults, the seconds of a collective depend on the
row of its axes in the placement and not on the other axes: data=8 over 8 nodes is one request for
all plans that have it. Seconds are interpolated between priced sizes, because the price of one
program is linear in bytes. The finalists of a search are priced exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log2, prod
from threading import local
from typing import Protocol

from grammar import Goal
from hierarchies import Axis, Placement, Reduction, System
from synth.cache.choice import is_kept
from synth.cache.codec import Codec
from synth.cache.kept import KeptValues
from synth.collective.price.bound import bound
from synth.collective.ranking.library import Library
from synth.collective.ranking.oracle import PlacedGoal, ProgramPrices
from synth.collective.ranking.request import ProvisionalResult
from synth.collective.semantics.point_to_point import stage_transfer
from synth.search.forks import WorkControl, map_in_forks
from synth.step.point_to_point import TransferRoute, find_route
from synth.step.search.composing.clock import Structure
from synth.step.sharding import Recipe
from synth.step.sharding.plan import PIPE

STEP = 1
"""Priced sizes are powers of 2 ** STEP. The advised program, and so the price, can change abruptly
from size to size."""

SEGMENTS = (1, 4, 16, 64)
"""Numbers of segments to try; in 90 requests no other number was cheaper."""

MANY_BYTES = 2.0**40
"""Bytes of a collective so large that its latency is negligible."""

SYSTEMS_KEPT = 4
"""Number of systems whose prices a thread keeps in memory."""

MOST_PROGRAMS = 2000
"""The most programs in memory for a system: once there are more, its prices are forgotten."""

Row = tuple[int, ...]

Key = tuple[Goal, Row, int]
"""A goal, the row of its axes, and the exponent of its bytes as a power of 2."""


KEPT = KeptValues[dict[Key, float]]("collectives", Codec(Goal), SYSTEMS_KEPT)
"""Seconds of collectives on a system, as advised."""

_THREAD = local()


def axes_of(recipe: Recipe) -> tuple[Axis, ...]:
    """Returns the axes of a recipe, in the form that placements take."""
    return tuple(Axis(name, size) for name, size in recipe.axes)


@dataclass(frozen=True)
class PlacedRecipe:
    """A recipe with a placement: one row for each axis, in their order."""

    recipe: Recipe
    rows: tuple[Row, ...]

    @property
    def row_of(self) -> Mapping[str, Row]:
        """The row of each axis that has more than one device."""
        pairs = zip(self.recipe.axes, self.rows, strict=True)
        return {name: row for (name, size), row in pairs if size > 1}

    def in_buckets(self, size_bytes: int) -> PlacedRecipe:
        """Returns the same plan with buckets of ``size_bytes``; 0 for no buckets."""
        return replace(self, recipe=replace(self.recipe, bucket_bytes=size_bytes))

    @property
    def alone(self) -> PlacedRecipe:
        """The same plan without buckets."""
        return self.in_buckets(0)

    def by(self, recipe: Recipe) -> PlacedRecipe:
        """Returns the same placement with another recipe, which has the same axes."""
        return self if recipe == self.recipe else replace(self, recipe=recipe)

    @property
    def ranks(self) -> int:
        """Number of pipeline ranks."""
        return dict(self.recipe.axes).get(PIPE, 1)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the recipe."""
        return axes_of(self.recipe)

    def provisional(self, rank: int, seconds: float, gap: float | None) -> ProvisionalResult:
        """Returns the plan as one of the best so far."""
        return ProvisionalResult(rank, self.axes, self.rows, str(self.recipe), seconds, gap)

    @property
    def structure(self) -> Structure:
        recipe = self.recipe
        return self.ranks, recipe.schedule, recipe.microbatches, recipe.chunks


@dataclass(frozen=True)
class ComposedPlan:
    """A plan with its composed seconds of a step, and bytes of the fullest device."""

    candidate: PlacedRecipe
    seconds: float
    size_bytes: float


class Links(Protocol):
    """Prices of communication."""

    def seconds(self, goal: Goal, row: Row, size_bytes: float) -> float:
        """Returns the seconds of a collective; ``size_bytes``: of a device's largest buffer."""

    def handed(self, row: Row, size_bytes: float) -> Sequence[float]:
        """Returns the seconds of a transfer of each device's bytes from each rank to the next."""


@dataclass
class PricedLinks:
    """Prices of collectives as advised: the best programs, unproved, or the runtime's default.

    Seconds are interpolated between priced sizes, which are cached.
    """

    system: System
    _known: dict[Key, float] = field(default_factory=dict)
    _handed: dict[tuple[Row, int], Sequence[float]] = field(default_factory=dict)
    _routes: dict[Row, Sequence[TransferRoute]] = field(default_factory=dict)
    libraries: dict[Goal, Library] = field(default_factory=dict)

    @cached_property
    def _programs(self) -> ProgramPrices:
        return ProgramPrices(
            self.system, segments=SEGMENTS, stripes=False, libraries=self.libraries
        )

    @property
    def known(self) -> dict[Key, float]:
        """The seconds of the priced sizes."""
        return self._known

    def seconds(self, goal: Goal, row: Row, size_bytes: float) -> float:
        """See ``Links``; interpolated between two powers of 2 ** STEP."""
        below, above = _powers(size_bytes)
        low, high = 2.0**below, 2.0**above
        first, second = (self._at((goal, row, power)) for power in (below, above))
        return max(0.0, first + (second - first) * (size_bytes - low) / (high - low))

    def unknown(self, goal: Goal, row: Row, size_bytes: float) -> list[Key]:
        """Returns the keys of a collective that are not priced yet."""
        keys = ((goal, row, power) for power in _powers(size_bytes))
        return [key for key in keys if key not in self._known]

    def learn(self, keys: Sequence[Key], crew: WorkControl) -> None:
        """Prices keys in as many processes as are allowed, until ``crew`` stops the work.

        All programs are listed first, so that the forks inherit them.
        """
        for goal, row, _ in keys:
            reduction = Reduction(place_alone(self.system, row), ("over",))
            self._programs.library(goal).paths(len(reduction.tree.digits))
        for seconds, key in zip(map_in_forks(self._found, keys, crew), keys, strict=False):
            self._known[key] = seconds

    def _at(self, key: Key) -> float:
        if key not in self._known:
            self._known[key] = self._found(key)
        return self._known[key]

    def _found(self, key: Key) -> float:
        goal, row, power = key
        reduction = Reduction(place_alone(self.system, row), ("over",))
        return self._programs.advised_seconds(PlacedGoal(goal, 2**power, reduction))

    def handed(self, row: Row, size_bytes: float) -> Sequence[float]:
        """See ``Links``."""
        key = row, int(size_bytes)
        if key not in self._handed:
            if row not in self._routes:
                self._routes[row] = self._find_routes(row)
            size = float(key[1])
            seconds = {route: route.price(size).seconds for route in {*self._routes[row]}}
            self._handed[key] = [seconds[route] for route in self._routes[row]]
        return self._handed[key]

    def _find_routes(self, row: Row) -> Sequence[TransferRoute]:
        """Finds the routes from each rank on a row to the next; most are equal."""
        placement, ranks = place_alone(self.system, row), range(prod(row) - 1)
        transfers = (stage_transfer(placement, "over", rank, rank + 1, 1) for rank in ranks)
        return [find_route(transfer, self.system) for transfer in transfers]


@dataclass(frozen=True)
class SystemPrices:
    """The prices of collectives on a system, which grow from question to question. Mutable."""

    links: PricedLinks
    bounds: BoundLinks
    programs: ProgramPrices

    @classmethod
    def of(cls, system: System) -> SystemPrices:
        """Returns prices with what is kept of the seconds of collectives."""
        libraries: dict[Goal, Library] = {}
        links = PricedLinks(system, {**(KEPT.find(repr(system)) or {})}, libraries=libraries)
        programs = ProgramPrices(system, stripes=False, libraries=libraries)
        return cls(links, BoundLinks(system), programs)

    def keep(self) -> None:
        """Keeps the seconds of collectives for later questions, if there are more than before."""
        key, seconds = repr(self.links.system), self.links.known
        if len(seconds) > len(KEPT.find(key) or {}):
            KEPT.keep(key, {**seconds})


def prices_on(system: System) -> SystemPrices:
    """Returns the prices on a system that this thread has used last, or new ones.

    A thread has its own, because searches read what they find before they write it.
    """
    if not is_kept():
        return SystemPrices.of(system)
    recent: dict[str, SystemPrices] = _THREAD.__dict__.setdefault("recent", {})
    found = recent.pop(repr(system), None)
    if found is None or found.programs.size > MOST_PROGRAMS:
        found = SystemPrices.of(system)
    recent[repr(system)] = found
    while len(recent) > SYSTEMS_KEPT:
        del recent[next(iter(recent))]
    return found


def _powers(size_bytes: float) -> tuple[int, int]:
    """Returns the exponents of the two priced sizes around ``size_bytes``."""
    below = max(STEP, int(log2(max(1.0, size_bytes))) // STEP * STEP)
    return below, below + STEP


class FreeLinks:
    """Links on which all communication takes no time."""

    def seconds(self, goal: Goal, row: Row, size_bytes: float) -> float:
        """See ``Links``."""
        return 0.0

    def handed(self, row: Row, size_bytes: float) -> Sequence[float]:
        """See ``Links``."""
        return [0.0] * (prod(row) - 1)


@dataclass
class BoundLinks(FreeLinks):
    """Lower bounds of prices: collectives without latency, and free transfers.

    Without latency, the bounds are proportional to bytes, so each row is bounded once.
    """

    system: System
    _of_a_byte: dict[tuple[Goal, Row], float] = field(default_factory=dict)

    def seconds(self, goal: Goal, row: Row, size_bytes: float) -> float:
        """Returns a lower bound of the seconds of every program."""
        key = goal, row
        if key not in self._of_a_byte:
            reduction = Reduction(place_alone(self.system, row), ("over",))
            self._of_a_byte[key] = (
                bound(self.system, reduction, MANY_BYTES, goal).seconds / MANY_BYTES
            )
        return self._of_a_byte[key] * size_bytes


@dataclass
class RecordingLinks(FreeLinks):
    """Free links that record in ``wanted`` the keys that the given links have not priced."""

    links: PricedLinks
    wanted: dict[Key, None] = field(default_factory=dict)

    def seconds(self, goal: Goal, row: Row, size_bytes: float) -> float:
        """See ``Links``."""
        self.wanted.update(dict.fromkeys(self.links.unknown(goal, row, size_bytes)))
        return 0.0


def place_alone(system: System, row: Row) -> Placement:
    """Places an axis named "over" on a row, and the other devices as a second axis."""
    levels = system.hierarchy.cardinalities
    rest = tuple(size // own for size, own in zip(levels, row, strict=True))
    axes = (Axis("over", prod(row)), Axis("rest", prod(rest)))
    return Placement(system.hierarchy, axes, (row, rest))
