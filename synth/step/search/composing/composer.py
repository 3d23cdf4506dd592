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
from math import inf, log, prod

from grammar import Goal
from hierarchies import InputError
from synth.search.forks import WorkControl, map_in_forks
from synth.step.schedules import HALVES
from synth.step.search.composing.clock import KindValues, PassSeconds, Structure, time_plans
from synth.step.search.composing.halves import STAGES
from synth.step.search.composing.inside import INSIDE, Inside, ModelPart, PassWork, extrapolate
from synth.step.search.composing.kept import InsideStore
from synth.step.search.composing.sending import UNLIMITED_BYTES, GradientSeconds
from synth.step.search.composing.staged import InsideKey, StagedRecipe
from synth.step.search.composing.writing import MICROBATCHES
from synth.step.search.links import Links, PlacedRecipe, Row
from synth.step.sharding import Recipe, StepPhase
from synth.step.sharding.plan import PIPE

CLOCK_BATCH = 32
"""Number of plans with the same structure that are timed at once."""

SCALED_AT_MOST = 32
"""The largest factor by which the number of samples of an inside is scaled.

Larger products are more efficient, so scaled seconds are too high: by 4 % at 32 times the samples,
by 39 % at 256 times, and by a factor of 3.4 at 4,096 times (gpt2-tiny on an H100).
"""

SCALED_EXCESS = 0.1
"""The largest share by which scaled seconds are too high."""

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
            self._plans[recipe] = StagedRecipe(recipe, cut, self.inside(cut), self.layers)
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
    base = SCALED_AT_MOST ** int(log(samples, SCALED_AT_MOST) + _ROUNDING)
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


class Composition:
    """Plans of a composer at the prices of links, with a cache of the parts that plans share."""

    def __init__(self, composer: Composer, links: Links) -> None:
        self.composer = composer
        self._links = links
        self._work: dict[
            tuple[InsideKey, tuple[Row, ...]], tuple[Mapping[ModelPart, float], ...]
        ] = {}
        self._sending = GradientSeconds(links)

    def bound(self, candidate: PlacedRecipe, buckets: Sequence[int] = ()) -> float:
        """Returns a lower bound in seconds over all orders of passes and all ``buckets`` sizes.

        Raises InputError as ``staged`` does.
        """
        recipe = candidate.recipe
        whole = recipe.schedule not in HALVES
        # The clock adds these terms in another order, so they may differ by rounding.
        return (1 - _ROUNDING) * self.parts(candidate, buckets).bound(
            recipe.microbatches, whole=whole
        )

    def seconds(self, candidates: Sequence[PlacedRecipe]) -> list[float]:
        """Returns the seconds of a step of each candidate. Raises as ``bound`` does."""
        alike: dict[Structure, list[int]] = {}
        for number, candidate in enumerate(candidates):
            alike.setdefault(candidate.structure, []).append(number)
        seconds = [0.0] * len(candidates)
        for structure, numbers in alike.items():
            for start in range(0, len(numbers), CLOCK_BATCH):
                batch = numbers[start : start + CLOCK_BATCH]
                passes = [self.parts(candidates[number]) for number in batch]
                for number, plan_seconds in zip(batch, time_plans(structure, passes), strict=True):
                    seconds[number] = plan_seconds
        return seconds

    def parts(self, candidate: PlacedRecipe, buckets: Sequence[int] = ()) -> PassSeconds:
        """Returns the seconds of stages and ranks; with ``buckets``, lower bounds over sizes."""
        plan, rows = self.composer.staged(candidate.recipe), candidate.row_of
        zero, layout = candidate.recipe.zero, plan.layout
        pipe = rows.get(PIPE, ())
        forward, backward = map(layout.of_stages, self.working(plan, rows))
        gather = self._sending.gathers(plan, _find_sum_rows(candidate))
        reduce = self._summing(plan, candidate, (candidate.recipe.bucket_bytes, *buckets))
        pieces = plan.pieces if buckets else plan.sum_pieces
        once = _once_seconds(plan, gather, layout.of_last(forward))
        if zero >= 2:
            gathers = plan.alike(gather if zero == 3 else _NOTHING)
            forward = _map_kinds(partial(_overlap_seconds, pieces=plan.pieces), forward, gathers)
            backward = _map_kinds(
                lambda own, inward, sums, ends: _overlap_seconds(own, inward + sums, pieces) + ends,
                backward,
                gathers,
                plan.alike(reduce),
                plan.ends(reduce),
            )
        else:
            # Only the last backward pass of a rank, that of its first stage, overlaps reductions.
            sent, compute = plan.alike(reduce), layout.of_last(backward)
            overlapped = _map_kinds(
                partial(_overlap_seconds, pieces=pieces), compute, layout.of_last(sent)
            )
            once = _map_kinds(
                lambda own, both, alone, sums, last, ends: own + both - alone + sums - last + ends,
                once,
                overlapped,
                compute,
                layout.of_ranks(sent),
                layout.of_last(sent),
                layout.of_ranks(plan.ends(reduce)),
            )
        busy = _map_kinds(
            lambda *passes: sum(passes), layout.of_ranks(forward), layout.of_ranks(backward)
        )
        handed = self._links.handed(pipe, plan.inside.boundary) if pipe else ()
        return PassSeconds(layout, forward, backward, busy, once, handed)

    def shorter(self, candidate: PlacedRecipe) -> float:
        """Returns the seconds saved by reducing all gradients of a rank at once.

        Raises as ``bound`` does.
        """
        plan = self.composer.staged(candidate.recipe)
        alone, whole = (
            max(plan.layout.of_ranks(plan.layout.of_stages(self._summing(plan, candidate, [size]))))
            for size in (0, UNLIMITED_BYTES)
        )
        return (alone - whole) * (
            candidate.recipe.microbatches if candidate.recipe.zero >= 2 else 1
        )

    def _summing(
        self, plan: StagedRecipe, candidate: PlacedRecipe, buckets: Sequence[int]
    ) -> Mapping[ModelPart, float]:
        """Returns the seconds of reducing each part's gradients, with the fastest bucket size."""
        goal = Goal.REDUCE_SCATTER if candidate.recipe.scatters else Goal.ALL_REDUCE
        return self._sending.sums(plan, goal, _find_sum_rows(candidate), buckets)

    def working(
        self, plan: StagedRecipe, rows: Mapping[str, Row]
    ) -> tuple[Mapping[ModelPart, float], ...]:
        """Returns the seconds of each part, forward and backward, with exposed communication."""
        key = plan.cut, _find_inner_rows(rows)
        if key not in self._work:
            self._work[key] = tuple(
                {part: self._part(plan.inside.work[phase, part], rows) for part in ModelPart}
                for phase in (StepPhase.FORWARD, StepPhase.BACKWARD)
            )
        return self._work[key]

    def _part(self, work: PassWork, rows: Mapping[str, Row]) -> float:
        exposed = 0.0
        for (goal, over, size, hidden), times in work.sent.items():
            seconds = self._links.seconds(goal, _merge_rows(*(rows[axis] for axis in over)), size)
            exposed += times * max(0.0, seconds - hidden)
        return work.seconds + exposed


_ROUNDING = 1e-9
_NOTHING = dict.fromkeys(ModelPart, 0.0)


def _once_seconds(
    plan: StagedRecipe, gather: Mapping[ModelPart, float], first: KindValues
) -> KindValues:
    """Returns the seconds in which each kind of rank sums, updates and gathers parameters.

    The update waits for all gradients, and nothing overlaps it. In a step without microbatches,
    copies are gathered one layer ahead during the ``first`` forward pass.
    """
    layout, zero = plan.layout, plan.recipe.zero
    gathered = plan.ends(gather) if zero == 3 else layout.of_stages(gather if zero else _NOTHING)
    update, gathers = layout.of_ranks(layout.of_stages(plan.updating)), layout.of_ranks(gathered)
    if zero == 3 or plan.in_stacks:
        return _map_kinds(lambda *overlapped: sum(overlapped), update, gathers)
    overlapped = _map_kinds(partial(_overlap_seconds, pieces=plan.layers), first, gathers)
    return _map_kinds(lambda own, both, passes: own + both - passes, update, overlapped, first)


def _map_kinds(function: Callable[..., float], *values: KindValues) -> KindValues:
    """Applies a function to the values of each kind."""
    return tuple(map(function, *values))


def _find_sum_rows(candidate: PlacedRecipe) -> tuple[Row, Row]:
    """Returns the merged rows over which gradients of parameters and of experts are reduced."""
    expert_rows = (
        candidate.row_of.get(axis, ()) for axis in candidate.recipe.zero_axes if axis != "expert"
    )
    return _merge_rows(*candidate.rows_of_zero), _merge_rows(*expert_rows)


def _find_inner_rows(rows: Mapping[str, Row]) -> tuple[Row, ...]:
    """Returns the rows of the axes that divide the inside of a stage."""
    return tuple(rows.get(axis, ()) for axis in INSIDE)


def _merge_rows(*rows: Row) -> Row:
    """Merges the rows of several axes into one row; axes of one device have no row."""
    return tuple(prod(sizes) for sizes in zip(*filter(None, rows), strict=True))


def _overlap_seconds(compute: float, sent: float, pieces: float) -> float:
    """Returns the seconds of overlapped computation and communication.

    One of ``pieces`` pieces of the shorter activity is exposed.
    """
    return max(compute, sent) + min(compute, sent) / max(1.0, pieces)
