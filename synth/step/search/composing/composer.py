"""Composes the seconds and memory of many plans of one model from the work of its parts.

Each rank has a share of the layers. The first rank also has the operations before the layers, and
the last rank the operations after them. Forward and backward passes are blocks in the order of the
schedule, and all plans with the same structure are timed together. Gradients of layers are reduced
during a rank's last backward pass, and the parameters of ZeRO-3 are gathered during the layers
before. Dependencies of tasks inside a pass are left to the simulator. So these prices decide which
plans are simulated; they are not answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from math import inf, log, prod
from operator import attrgetter

import numpy as np

from grammar import Goal
from hierarchies import InputError
from synth.search.forks import WorkControl, map_in_forks
from synth.step.schedules import HALVES
from synth.step.search.composing.clock import Floats, PassColumns, Structure
from synth.step.search.composing.columns import DistinctValues, RecipeColumns, compose_passes
from synth.step.search.composing.halves import STAGES
from synth.step.search.composing.inside import INSIDE, Inside, ModelPart, PassWork, extrapolate
from synth.step.search.composing.kept import InsideStore
from synth.step.search.composing.rows import Rows, SplitRows, SumRows, merge_rows
from synth.step.search.composing.sending import (
    UNLIMITED_BYTES,
    GradientSeconds,
    PartSeconds,
)
from synth.step.search.composing.staged import InsideKey, StagedRecipe
from synth.step.search.composing.timing import PlanClock
from synth.step.search.composing.writing import MICROBATCHES
from synth.step.search.links import Links, PlacedRecipe, Row
from synth.step.sharding import Recipe, StepPhase
from synth.step.sharding.plan import PIPE

COLUMN_PLANS = 4096
"""Number of plans whose columns are in memory at once."""

SCALED_AT_MOST = 32
"""The largest factor by which the number of samples of an inside is scaled.

Larger products are more efficient, so scaled seconds are too high: by 4 % at 32 times the samples,
by 39 % at 256 times, and by a factor of 3.4 at 4,096 times (gpt2-tiny on an H100).
"""

SCALED_EXCESS = 0.1
"""The largest share by which scaled seconds are too high."""

ROUNDING = 1e-9
"""The relative difference between sums of the same seconds, added in different orders."""

SampleCounts = tuple[Recipe, Sequence[int]]
"""A recipe of the inside of a stage, with several numbers of samples."""


@dataclass
class Composer:
    """Composes plans of ``layers`` layers and ``batch`` samples, and caches their common parts.

    ``insides_of`` returns the work of a recipe without stages, for each number of samples in a
    microbatch. ``microbatches``: the number in the traced step; 1 if the step is not divided.
    ``kept``: insides of earlier questions.
    """

    layers: int
    batch: int
    insides_of: Callable[[Recipe, Sequence[int]], Sequence[Inside]]
    microbatches: int = MICROBATCHES
    kept: InsideStore | None = None
    _insides: dict[InsideKey, Inside | InputError] = field(default_factory=dict)
    _written: dict[InsideKey, Inside | InputError] = field(default_factory=dict)
    _numbers: dict[InsideKey, int] = field(default_factory=dict)
    _plans: dict[Recipe, StagedRecipe] = field(default_factory=dict)
    _together: dict[Recipe, Sequence[int]] = field(default_factory=dict)

    def wanted(self, recipes: Iterable[Recipe]) -> list[SampleCounts]:
        """Lists the insides that the recipes need and that are neither written out nor kept."""
        wanted: defaultdict[Recipe, set[int]] = defaultdict(set)
        for within, own in dict.fromkeys(map(self._cut, recipes)):
            wanted[within].update(_anchors(own))
        missing = (
            (within, sorted(count for count in counts if (within, count) not in self._written))
            for within, counts in wanted.items()
        )
        recalled = (self._recall(within, counts) for within, counts in missing if counts)
        return [sample_counts for sample_counts in recalled if sample_counts[1]]

    def _recall(self, within: Recipe, counts: Sequence[int]) -> SampleCounts:
        """Takes insides that are kept, and returns those to write out: the first, if any."""
        self._together[within] = counts
        found = self.kept.find(within, counts) if self.kept else {}
        self._written.update({(within, count): inside for count, inside in found.items()})
        missing = [count for count in counts if count not in found]
        # All have the shardings of the first of those that are wanted together.
        return within, sorted({counts[0], *missing}) if missing else ()

    def write(self, wanted: Sequence[SampleCounts], crew: WorkControl) -> None:
        """Writes out insides in several processes, until ``crew`` stops the work."""
        for result, wanted_here in zip(
            map_in_forks(self._tried, wanted, crew), wanted, strict=False
        ):
            self._finish(wanted_here, result)

    def _tried(self, sample_counts: SampleCounts) -> Sequence[Inside] | InputError:
        try:
            return self.insides_of(*sample_counts)
        except InputError as error:
            return error

    def _finish(self, sample_counts: SampleCounts, result: Sequence[Inside] | InputError) -> None:
        within, counts = sample_counts
        if isinstance(result, InputError):
            self._written.update({(within, count): result for count in self._together[within]})
            return
        self._written.update(
            {(within, count): inside for count, inside in zip(counts, result, strict=True)}
        )
        if self.kept:
            self.kept.keep(within, counts, result)

    def inside(self, cut: InsideKey) -> Inside:
        """Returns the work inside a stage. Raises InputError if it cannot be sharded this way."""
        if cut not in self._insides:
            try:
                self._insides[cut] = self._grown(*cut)
            except InputError as error:
                self._insides[cut] = error  # cached too: many recipes have the same inside
        inside = self._insides[cut]
        if isinstance(inside, InputError):
            raise inside
        return inside

    def _grown(self, within: Recipe, samples: int) -> Inside:
        anchors = _anchors(samples)
        base, *doubles = (self._of(within, count) for count in anchors)
        for double in doubles:
            if (grown := extrapolate(base, double, samples / anchors[0])) is not None:
                return grown
        return self._of(within, samples)

    def _of(self, within: Recipe, samples: int) -> Inside:
        if (within, samples) not in self._written:
            wanted = self._recall(within, (samples,))
            if wanted[1]:
                self._finish(wanted, self._tried(wanted))
        result = self._written[within, samples]
        if isinstance(result, InputError):
            raise result
        return result

    def staged(self, recipe: Recipe) -> StagedRecipe:
        """Returns a recipe by its stages and ranks. Raises as ``inside`` does."""
        if recipe not in self._plans:
            cut = self._cut(recipe)
            number = self._numbers.setdefault(cut, len(self._numbers))
            self._plans[recipe] = StagedRecipe(recipe, number, self.inside(cut), self.layers)
        return self._plans[recipe]

    def _cut(self, recipe: Recipe) -> InsideKey:
        samples = self.batch // (recipe.replicas * recipe.microbatches)
        return _inner_recipe(recipe, self.microbatches), samples

    def size_bytes(self, recipe: Recipe) -> float:
        """Returns the memory of the fullest device, on any placement. Raises as ``staged`` does."""
        return self.staged(recipe).size_bytes

    def on(self, links: Links) -> Composition:
        """Returns the composition of plans at the prices of ``links``."""
        return Composition(self, links)

    def least_seconds(self, devices: int) -> float:
        """Returns a lower bound of every plan whose inside is known: devices compute all the time.

        Seconds per sample fall as microbatches grow, so only the largest microbatch of each way to
        shard the inside counts. Scaled seconds are up to ``SCALED_EXCESS`` too high, so insides
        that could be the fastest are written out exactly.
        """
        scaled_seconds: dict[Recipe, tuple[int, float]] = {}
        for (within, samples), inside in self._insides.items():
            if isinstance(inside, Inside) and samples > scaled_seconds.get(within, (0, 0.0))[0]:
                seconds = self._compute_seconds(within, samples, inside) / devices
                scaled_seconds[within] = samples, seconds
        least = inf
        for within, (samples, seconds) in sorted(
            scaled_seconds.items(), key=lambda item: item[1][1]
        ):
            if (1 - SCALED_EXCESS) * seconds >= least:
                break
            exact = self._compute_seconds(within, samples, self._of(within, samples))
            least = min(least, exact / devices)
        return least

    def _compute_seconds(self, within: Recipe, samples: int, inside: Inside) -> float:
        """Returns the device seconds of the whole batch in microbatches of ``samples`` samples."""
        return inside.seconds(self.layers) / samples * self.batch * _count_parts(within)


def _anchors(samples: int) -> Sequence[int]:
    """Returns the numbers of samples to write out; an inside is scaled from two of these."""
    base = SCALED_AT_MOST ** int(log(samples, SCALED_AT_MOST) + ROUNDING)
    return (base, 2 * base) if samples > 2 * base else (samples,)


def _count_parts(within: Recipe) -> int:
    """Returns the number of devices that share a sample."""
    return prod(size for name, size in within.axes if name in INSIDE) // within.replicas


def _inner_recipe(recipe: Recipe, microbatches: int) -> Recipe:
    """Returns the part of a recipe that concerns the inside of a stage, on one data replica.

    An expert axis also divides samples, so the inside includes the samples of each of its devices.
    The effect of split backward passes shows only if a stage waits for another, so a recipe with
    split backward passes has two stages.
    """
    stages = ((PIPE, STAGES),) if recipe.schedule in HALVES else ()
    axes = tuple((name, size) for name, size in recipe.axes if name in INSIDE)
    return replace(
        recipe,
        axes=(*stages, *(axes or (("data", 1),))),
        batch=tuple(axis for axis in recipe.batch if axis in INSIDE),
        zero=0,
        bucket_bytes=0,
        microbatches=microbatches,
        schedule="zero-bubble-h1" if stages else "",
        chunks=1,
        layers=(),
    )


_AxesKey = tuple[tuple[tuple[str, int], ...], tuple[str, ...]]
"""The axes of a recipe, and those of ZeRO."""


class Composition:
    """Plans of a composer at the prices of links, with a cache of the parts that plans share."""

    def __init__(self, composer: Composer, links: Links) -> None:
        self.composer = composer
        self._links = links
        self._work: defaultdict[int, dict[Rows, tuple[PartSeconds, PartSeconds]]] = defaultdict(
            dict
        )
        self._sending = GradientSeconds(links)
        self._rows: defaultdict[_AxesKey, dict[Rows, SplitRows]] = defaultdict(dict)
        self._clock = PlanClock()

    def bound(self, candidate: PlacedRecipe, buckets: Sequence[int] = ()) -> float:
        """Returns the bound of a single plan, as ``bounds`` does."""
        return float(self.bounds([candidate], buckets)[0])

    def bounds(self, candidates: Sequence[PlacedRecipe], buckets: Sequence[int] = ()) -> Floats:
        """Returns a lower bound in seconds of each plan, over all orders of passes and all
        ``buckets`` sizes.

        Raises InputError as ``staged`` does.
        """
        bounds = np.empty(len(candidates))
        for start in range(0, len(candidates), COLUMN_PLANS):
            some = candidates[start : start + COLUMN_PLANS]
            recipes = [candidate.recipe for candidate in some]
            microbatches = np.array([recipe.microbatches for recipe in recipes])
            whole = np.array([recipe.schedule not in HALVES for recipe in recipes])
            columns = self._columns(some, buckets)
            bounds[start : start + len(some)] = columns.bounds(microbatches, whole=whole)
        # The clock adds these terms in another order, so they may differ by rounding.
        return (1 - ROUNDING) * bounds

    def seconds(self, candidates: Sequence[PlacedRecipe]) -> list[float]:
        """Returns the seconds of a step of each candidate. Raises as ``bounds`` does."""
        seconds = np.empty(len(candidates))
        for start in range(0, len(candidates), COLUMN_PLANS):
            some = candidates[start : start + COLUMN_PLANS]
            alike: defaultdict[Structure, list[int]] = defaultdict(list)
            for number, candidate in enumerate(some):
                alike[candidate.structure].append(number)
            columns = self._columns(some)
            for structure, numbers in alike.items():
                times = self._clock.seconds(structure, columns.select(numbers))
                seconds[[start + number for number in numbers]] = times
        every: list[float] = seconds.tolist()
        return every

    def _columns(
        self, candidates: Sequence[PlacedRecipe], buckets: Sequence[int] = ()
    ) -> PassColumns:
        """Returns the seconds of stages and ranks; with ``buckets``, lower bounds over sizes.

        Consecutive plans of one recipe share what does not depend on their placements.
        """
        work, gather, sums, handed = (DistinctValues() for _ in range(4))
        plans: list[StagedRecipe] = []
        pieces: list[float] = []
        of_plan: list[int] = []
        for recipe, several in groupby(candidates, key=attrgetter("recipe")):
            plan = self.composer.staged(recipe)
            known = self._rows[recipe.axes, recipe.zero_axes]
            rows = []
            for candidate in several:
                if candidate.rows not in known:
                    known[candidate.rows] = SplitRows.of(candidate)
                rows.append(known[candidate.rows])
            of_plan += [len(plans)] * len(rows)
            plans.append(plan)
            pieces.append(plan.pieces if buckets else plan.sum_pieces)
            over = [split.sums for split in rows]
            summing = partial(self.sums, plan, (recipe.bucket_bytes, *buckets))
            work.add([split.inside for split in rows], partial(self.working, plan))
            gather.add(over, partial(self.gathers, plan))
            sums.add(over, summing)
            handed.add([split.pipe for split in rows], partial(self.handed, plan))
        recipes = RecipeColumns.of(plans, pieces).select(of_plan)
        return compose_passes(recipes, work.array, gather.array, sums.array, handed.padded)

    def shorter(self, candidate: PlacedRecipe) -> float:
        """Returns the seconds saved by reducing all gradients of a rank at once.

        Raises as ``bounds`` does.
        """
        plan, rows = self.composer.staged(candidate.recipe), SplitRows.of(candidate).sums
        alone, whole = (
            max(
                plan.layout.of_ranks(plan.layout.of_stages(dict(zip(ModelPart, sums, strict=True))))
            )
            for sums in (self.sums(plan, (size,), rows) for size in (0, UNLIMITED_BYTES))
        )
        return (alone - whole) * (
            candidate.recipe.microbatches if candidate.recipe.zero >= 2 else 1
        )

    def sums(self, plan: StagedRecipe, buckets: Sequence[int], rows: SumRows) -> PartSeconds:
        """Returns the seconds of reducing each part's gradients, with the fastest bucket size."""
        goal = Goal.REDUCE_SCATTER if plan.recipe.scatters else Goal.ALL_REDUCE
        return self._sending.sums(plan, goal, rows, buckets)

    def gathers(self, plan: StagedRecipe, rows: SumRows) -> PartSeconds:
        """Returns the seconds of gathering each part's parameters."""
        return self._sending.gathers(plan, rows)

    def handed(self, plan: StagedRecipe, row: Row) -> Sequence[float]:
        """Returns the seconds of handing what a stage makes from each rank to the next."""
        return self._links.handed(row, plan.inside.boundary) if row else ()

    def working(self, plan: StagedRecipe, inner: Rows) -> tuple[PartSeconds, PartSeconds]:
        """Returns the seconds of each part, forward and backward, with exposed communication.

        ``inner``: the rows of the axes that divide the inside of a stage.
        """
        known = self._work[plan.cut]
        if inner not in known:
            rows = dict(zip(INSIDE, inner, strict=True))
            forward, backward = (
                tuple(self._part(plan.inside.work[phase, part], rows) for part in ModelPart)
                for phase in (StepPhase.FORWARD, StepPhase.BACKWARD)
            )
            known[inner] = forward, backward
        return known[inner]

    def _part(self, work: PassWork, rows: Mapping[str, Row]) -> float:
        exposed = 0.0
        for (goal, over, size, hidden), times in work.sent.items():
            seconds = self._links.seconds(goal, merge_rows(*(rows[axis] for axis in over)), size)
            exposed += times * max(0.0, seconds - hidden)
        return work.seconds + exposed
