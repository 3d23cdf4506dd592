"""Many plans of one model at once: their seconds and memory, composed of what their parts do.

A rank has its share of the layers, the first has what comes before them and the last what comes
after; forward and backward passes are blocks, put in the order of the schedule on one clock for all
plans of one structure. Gradients of layers are reduced beside the last backward pass of a rank,
parameters of ZeRO-3 gathered beside the layers before. What that leaves out (which task waits for
which inside a pass) the simulator has; so these prices choose who is simulated, and are no answers.
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
from synth.step.search.composing.sending import UNLIMITED_BYTES, GradientSeconds
from synth.step.search.composing.staged import InsideKey, StagedRecipe
from synth.step.search.composing.writing import MICROBATCHES
from synth.step.search.links import Links, PlacedRecipe, Row
from synth.step.sharding import Recipe, StepPhase
from synth.step.sharding.plan import PIPE

CLOCK_BATCH = 32
"""Plans of one structure that are put on the clock at once."""

SCALED_AT_MOST = 32
"""How many times as many samples an inside is scaled to.

Longer products are faster, so scaled seconds are too high: by 4 % at 32 times the samples, by 39 %
at 256 times, 3.4-fold at 4,096 times (gpt2-tiny on an H100).
"""

SCALED_EXCESS = 0.1
"""The share by which scaled seconds are at most too high."""

SampleCounts = tuple[Recipe, Sequence[int]]
"""The same with several numbers of samples."""


@dataclass
class Composer:
    """Composes plans of a job: ``layers`` in all, ``batch`` samples; what plans share is kept.

    ``insides_of`` gives what a recipe without stages does, for each of so many samples in a
    microbatch; ``microbatches``: of how many, 1 for a step that has none.
    """

    layers: int
    batch: int
    insides_of: Callable[[Recipe, Sequence[int]], Sequence[Inside]]
    microbatches: int = MICROBATCHES
    _insides: dict[InsideKey, Inside | InputError] = field(default_factory=dict)
    _written: dict[InsideKey, Inside | InputError] = field(default_factory=dict)
    _plans: dict[Recipe, StagedRecipe] = field(default_factory=dict)

    def wanted(self, several: Iterable[Recipe]) -> list[SampleCounts]:
        """What recipes need to be written out that is not yet."""
        wanted: defaultdict[Recipe, set[int]] = defaultdict(set)
        for within, samples in dict.fromkeys(map(self._cut, several)):
            wanted[within].update(_anchors(samples))
        return [
            (within, left)
            for within, counts in wanted.items()
            if (left := sorted(one for one in counts if (within, one) not in self._written))
        ]

    def write(self, wanted: Sequence[SampleCounts], crew: WorkControl) -> None:
        """Write that out, until the crew is to stop."""
        for found, one in zip(map_in_forks(self._tried, wanted, crew), wanted, strict=False):
            self._keep(one, found)

    def _tried(self, several: SampleCounts) -> Sequence[Inside] | InputError:
        try:
            return self.insides_of(*several)
        except InputError as error:
            return error

    def _keep(self, several: SampleCounts, found: Sequence[Inside] | InputError) -> None:
        within, counts = several
        for at, count in enumerate(counts):
            self._written[within, count] = found if isinstance(found, InputError) else found[at]

    def inside(self, cut: InsideKey) -> Inside:
        """What is done inside of stages. Raises InputError if it cannot be cut so."""
        if cut not in self._insides:
            try:
                self._insides[cut] = self._grown(*cut)
            except InputError as error:
                self._insides[cut] = error
        known = self._insides[cut]
        if isinstance(known, InputError):
            raise known
        return known

    def _grown(self, within: Recipe, samples: int) -> Inside:
        anchors = _anchors(samples)
        one, *more = (self._of(within, count) for count in anchors)
        for two in more:
            if (found := extrapolate(one, two, samples / anchors[0])) is not None:
                return found
        return self._of(within, samples)

    def _of(self, within: Recipe, samples: int) -> Inside:
        if (within, samples) not in self._written:
            one = within, (samples,)
            self._keep(one, self._tried(one))
        known = self._written[within, samples]
        if isinstance(known, InputError):
            raise known
        return known

    def staged(self, recipe: Recipe) -> StagedRecipe:
        """A recipe by its stages and ranks. Raises InputError for what cannot be cut so."""
        if recipe not in self._plans:
            cut = self._cut(recipe)
            self._plans[recipe] = StagedRecipe(recipe, cut, self.inside(cut), self.layers)
        return self._plans[recipe]

    def _cut(self, recipe: Recipe) -> InsideKey:
        samples = self.batch // (recipe.replicas * recipe.microbatches)
        return _inner_recipe(recipe, self.microbatches), samples

    def size_bytes(self, recipe: Recipe) -> float:
        """Memory of the fullest device, wherever axes lie. Raises as ``staged`` does."""
        return self.staged(recipe).size_bytes

    def on(self, links: Links) -> Composition:
        """Plans with what such links take."""
        return Composition(self, links)

    def least_seconds(self, devices: int) -> float:
        """A lower bound on every plan whose inside is known: all devices compute all the time.

        Seconds a sample fall with the samples of a microbatch, so the largest of each cut counts.
        Scaled seconds are up to ``SCALED_EXCESS`` too high: what could be the least is written out.
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
        """Device seconds of computing the whole batch in microbatches of so many samples."""
        return inside.seconds(self.layers) / samples * self.batch * _count_parts(within)


def _anchors(samples: int) -> Sequence[int]:
    """For how many samples an inside is written out; for others it is scaled from two of these."""
    base = SCALED_AT_MOST ** int(log(samples, SCALED_AT_MOST) + _ROUNDING)
    return (base, 2 * base) if samples > 2 * base else (samples,)


def _count_parts(within: Recipe) -> int:
    """On how many devices a sample is."""
    return prod(size for name, size in within.axes if name in INSIDE) // within.replicas


def _inner_recipe(recipe: Recipe, microbatches: int) -> Recipe:
    """What a recipe says of the inside of a stage, for samples that one device of data has.

    Where experts are on several devices the samples of each are inside, as they go to and fro.
    Backward passes are in halves only where a stage waits for another: of these there are two.
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
    """Plans of a composer with what some links take; what plans share is kept."""

    def __init__(self, composer: Composer, links: Links) -> None:
        self.composer = composer
        self._links = links
        self._work: dict[
            tuple[InsideKey, tuple[Row, ...]], tuple[Mapping[ModelPart, float], ...]
        ] = {}
        self._sending = GradientSeconds(links)

    def bound(self, one: PlacedRecipe, buckets: Sequence[int] = ()) -> float:
        """Seconds that no order of its passes is below; nor if it has ``buckets`` of such sizes.

        Raises InputError as ``staged`` does.
        """
        recipe = one.recipe
        whole = recipe.schedule not in HALVES
        # Its terms are added in another order than the clock does.
        return (1 - _ROUNDING) * self.parts(one, buckets).bound(recipe.microbatches, whole=whole)

    def seconds(self, several: Sequence[PlacedRecipe]) -> list[float]:
        """Of a step by each; those of one structure are timed at once. Raises as ``bound``."""
        alike: dict[Structure, list[int]] = {}
        for number, one in enumerate(several):
            alike.setdefault(one.structure, []).append(number)
        found = [0.0] * len(several)
        for structure, numbers in alike.items():
            for at in range(0, len(numbers), CLOCK_BATCH):
                some = numbers[at : at + CLOCK_BATCH]
                told = [self.parts(several[number]) for number in some]
                for number, took in zip(some, time_plans(structure, told), strict=True):
                    found[number] = took
        return found

    def parts(self, one: PlacedRecipe, buckets: Sequence[int] = ()) -> PassSeconds:
        """What its stages and ranks take; with ``buckets``, what they do not go below in any."""
        plan, rows = self.composer.staged(one.recipe), one.row_of
        zero, lies = one.recipe.zero, plan.lies
        pipe = rows.get(PIPE, ())
        forward, backward = map(lies.of_stages, self.working(plan, rows))
        gather = self._sending.gathers(plan, _find_sum_rows(one))
        reduce = self._summing(plan, one, (one.recipe.bucket_bytes, *buckets))
        pieces = plan.pieces if buckets else plan.sum_pieces
        once = _once_seconds(plan, gather, lies.of_last(forward))
        if zero >= 2:
            gathers = plan.alike(gather if zero == 3 else _NOTHING)
            forward = _map_kinds(partial(_overlap_seconds, pieces=plan.pieces), forward, gathers)
            backward = _map_kinds(
                lambda took, way, back, end: _overlap_seconds(took, way + back, pieces) + end,
                backward,
                gathers,
                plan.alike(reduce),
                plan.ends(reduce),
            )
        else:
            sent, took = plan.alike(reduce), lies.of_last(backward)
            beside = _map_kinds(partial(_overlap_seconds, pieces=pieces), took, lies.of_last(sent))
            once = _map_kinds(
                lambda own, both, back, rest, last, end: own + both - back + rest - last + end,
                once,
                beside,
                took,
                lies.of_ranks(sent),
                lies.of_last(sent),
                lies.of_ranks(plan.ends(reduce)),
            )
        busy = _map_kinds(lambda *both: sum(both), lies.of_ranks(forward), lies.of_ranks(backward))
        handed = self._links.handed(pipe, plan.inside.boundary) if pipe else ()
        return PassSeconds(lies, forward, backward, busy, once, handed)

    def shorter(self, one: PlacedRecipe) -> float:
        """Seconds by which all sums of gradients of a rank are shorter as one than each by itself.

        Raises as ``bound`` does.
        """
        plan = self.composer.staged(one.recipe)
        each, whole = (
            max(plan.lies.of_ranks(plan.lies.of_stages(self._summing(plan, one, [size]))))
            for size in (0, UNLIMITED_BYTES)
        )
        return (each - whole) * (one.recipe.microbatches if one.recipe.zero >= 2 else 1)

    def _summing(
        self, plan: StagedRecipe, one: PlacedRecipe, buckets: Sequence[int]
    ) -> Mapping[ModelPart, float]:
        """Seconds of the sums of gradients of each part, the least of such buckets."""
        how = Goal.REDUCE_SCATTER if one.recipe.scatters else Goal.ALL_REDUCE
        return self._sending.sums(plan, how, _find_sum_rows(one), buckets)

    def working(
        self, plan: StagedRecipe, rows: Mapping[str, Row]
    ) -> tuple[Mapping[ModelPart, float], ...]:
        """Seconds of each part forward and backward, with what is sent between operations."""
        key = plan.cut, _find_inner_rows(rows)
        if key not in self._work:
            self._work[key] = tuple(
                {part: self._part(plan.inside.work[when, part], rows) for part in ModelPart}
                for when in (StepPhase.FORWARD, StepPhase.BACKWARD)
            )
        return self._work[key]

    def _part(self, work: PassWork, rows: Mapping[str, Row]) -> float:
        waited = 0.0
        for (goal, over, size, beside), times in work.sent.items():
            took = self._links.seconds(goal, _merge_rows(*(rows[axis] for axis in over)), size)
            waited += times * max(0.0, took - beside)
        return work.seconds + waited


_ROUNDING = 1e-9
_NOTHING = dict.fromkeys(ModelPart, 0.0)


def _once_seconds(
    plan: StagedRecipe, gather: Mapping[ModelPart, float], first: KindValues
) -> KindValues:
    """Seconds of each kind of ranks to add up, to update, and to put together what is whole.

    The update waits for all gradients, and nothing goes beside it. Copies of a step that is done at
    once come a layer ahead beside the ``first`` forward pass.
    """
    lies, zero = plan.lies, plan.recipe.zero
    whole = plan.ends(gather) if zero == 3 else lies.of_stages(gather if zero else _NOTHING)
    update, gathers = lies.of_ranks(lies.of_stages(plan.updating)), lies.of_ranks(whole)
    if zero == 3 or plan.in_stacks:
        return _map_kinds(lambda *both: sum(both), update, gathers)
    both = _map_kinds(partial(_overlap_seconds, pieces=plan.layers), first, gathers)
    return _map_kinds(lambda own, late, alone: own + late - alone, update, both, first)


def _map_kinds(of: Callable[..., float], *several: KindValues) -> KindValues:
    """The same of each kind."""
    return tuple(map(of, *several))


def _find_sum_rows(one: PlacedRecipe) -> tuple[Row, Row]:
    """Where gradients are summed, and parameters in parts: of all, and of experts."""
    apart = (one.row_of.get(axis, ()) for axis in one.recipe.zero_axes if axis != "expert")
    return _merge_rows(*one.rows_of_zero), _merge_rows(*apart)


def _find_inner_rows(rows: Mapping[str, Row]) -> tuple[Row, ...]:
    """Where the axes lie that cut what is inside of a stage."""
    return tuple(rows.get(axis, ()) for axis in INSIDE)


def _merge_rows(*rows: Row) -> Row:
    """Several axes as one; those of one device have no row."""
    return tuple(prod(sizes) for sizes in zip(*filter(None, rows), strict=True))


def _overlap_seconds(compute: float, sent: float, pieces: float) -> float:
    """Seconds of computing and sending at once: of so many pieces one waits for the other."""
    return max(compute, sent) + min(compute, sent) / max(1.0, pieces)
