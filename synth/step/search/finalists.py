"""Simulates candidates in full, as the verb ``simulate`` does: every task, and proved programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from grammar.tensors.operations import Step
from hierarchies import InputError, Placement, System, row_major_placement
from hierarchies.devices import Device
from synth.collective.ranking.oracle import PlacedGoal, ProgramPrices
from synth.collective.ranking.request import StopFlag, Watcher
from synth.compute import NOTHING, Estimate, Section, sum_estimates_of_section
from synth.search.forks import WorkControl, map_in_forks
from synth.step.profiles import Kinds, Known, Profile, known
from synth.step.redistribution.seconds import NetworkPrices
from synth.step.schedules import HALVES, SCHEDULES, PipelineSchedule
from synth.step.search.links import ComposedPlan, PlacedRecipe
from synth.step.sharding import Plan, Recipe, apply, plan_of, prepare_step
from synth.step.sharding.plan import PIPE
from synth.step.sharding.stages import ONCE_PHASES
from synth.step.simulation import (
    DeviceTasks,
    Overlap,
    Sources,
    StepPrediction,
    StepRuntime,
)
from synth.step.simulation.predicting import predict_tasks, write_plan
from synth.step.simulation.sources import Rooflines, build_sources
from synth.step.simulation.stretching import choose_stages, stretch_device

RUNTIME = StepRuntime(Overlap(sends=True, prefetch=1))
"""Gradients are reduced as soon as they are computed; parameters are gathered one layer ahead."""


@dataclass(frozen=True)
class ChosenRows:
    """Seconds of rows that were chosen together, as a sum without overlap.

    ``gap``: an upper limit of the relative gap to the best sum; ``recipe_seconds``: the sum of the
    recipe along whose axes they were chosen.
    """

    seconds: float
    gap: float
    recipe_seconds: float


@dataclass(frozen=True)
class Finalist:
    """A candidate with its plan of the step, its placement, and its simulation (``found``).

    * ``products`` and ``between``: seconds of the busiest rank in matrix products, and in
      other computation;
    * ``saved_seconds``: how much longer the step would take without buckets;
    * ``kinds``: the number of kinds of local work in the profile, if there is a profile;
    * ``rows``: set if the plan was chosen operation by operation along the axes of the candidate's
      recipe, instead of by the recipe.
    """

    candidate: PlacedRecipe
    plan: Plan
    placement: Placement
    by_framework: bool
    found: StepPrediction
    products: Estimate
    between: Estimate
    saved_seconds: float = 0.0
    kinds: Kinds | None = None
    rows: ChosenRows | None = None

    @property
    def size_bytes(self) -> int:
        """Peak memory of the fullest rank."""
        return self.found.ranks[self.found.fullest].moment.size_bytes


@dataclass
class FinalistPool:
    """Simulates plans in the order in which they arrive, until enough of them fit. Mutable.

    ``looked_at``: all plans that arrived; ``refused``: reasons why some are invalid; ``nearest``:
    the plan with the least memory among those that do not fit. If a simulated plan needs more
    memory than its composition predicted, the other plans of its kind are scaled by the same
    factor, and skipped if they no longer fit. ``beside``: extra plans to simulate; ``results``: the
    results of these, whether they fit or not.
    """

    memory_bytes: float
    refused: Counter[str]
    simulated: list[Finalist] = field(default_factory=list)
    looked_at: list[ComposedPlan] = field(default_factory=list)
    nearest: tuple[PlacedRecipe, float] | None = None
    beside: Sequence[ComposedPlan] = ()
    results: list[Finalist | InputError] = field(default_factory=list)
    _excess: dict[_MemoryKind, float] = field(default_factory=dict)

    def simulate(
        self,
        coming: Iterator[ComposedPlan],
        k: int,
        simulated: Callable[[ComposedPlan], Finalist | InputError],
        watcher: Watcher,
        known: Callable[[], int] = lambda: 0,
        crew: WorkControl | None = None,
        *,
        at_once: bool = False,
    ) -> bool:
        """Simulates until ``k`` plans fit, in several processes if these are allowed.

        ``known`` counts the cached items that forks inherit; when it grows, new forks are started.
        ``at_once``: start forks without waiting. ``crew``: the processes to use instead of the
        watcher's. Returns False if it was stopped.
        """
        begun: list[_StartedPlan] = []
        stops = _FirstResultWatcher(crew or watcher, self.simulated)
        plans = self._to_simulate(coming, k, begun)
        for result in map_in_forks(simulated, plans, stops, known=known, at_once=at_once):
            plan, beside = begun.pop(0)
            if beside:
                self.results.append(result)
            else:
                self._take(plan, result)
            watcher.judged(len(self.simulated), k)
        return not stops.stopped

    def _to_simulate(
        self, coming: Iterator[ComposedPlan], k: int, begun: list[_StartedPlan]
    ) -> Iterator[ComposedPlan | None]:
        """Yields the number of plans that is needed if all fit, then the plans in ``beside``.

        Yields None while pending results decide whether more plans are needed. Records started
        plans in ``begun`` until their results are taken.
        """
        fitting, beside = self._fitting(coming), iter(self.beside)
        while len(self.simulated) < k:
            pending = sum(not extra for _, extra in begun)
            plan = None if len(self.simulated) + pending >= k else next(fitting, None)
            if plan is None and not pending:
                break
            extra = plan is None
            plan = plan or next(beside, None)
            begun += [(plan, extra)] if plan else []
            yield plan
        for plan in beside:
            begun.append((plan, True))
            yield plan

    def _fitting(self, coming: Iterator[ComposedPlan]) -> Iterator[ComposedPlan]:
        for plan in coming:
            self.looked_at.append(plan)
            if self._fits(plan):
                yield plan

    def _fits(self, plan: ComposedPlan) -> bool:
        return plan.size_bytes * self._excess.get(_memory_kind_of(plan), 1.0) <= self.memory_bytes

    def _take(self, plan: ComposedPlan, result: Finalist | InputError) -> None:
        """Keeps a result, unless an earlier result shows that plans of its kind do not fit."""
        if not self._fits(plan):
            return
        if isinstance(result, InputError):
            self.refused[result.problem] += 1
        elif result.size_bytes <= self.memory_bytes:
            self.simulated.append(result)
        else:
            self._excess[_memory_kind_of(plan)] = result.size_bytes / plan.size_bytes
            if self.nearest is None or result.size_bytes < self.nearest[1]:
                self.nearest = plan.candidate, result.size_bytes


class _FirstResultWatcher(StopFlag):
    """A watcher that continues until the first result, and then as long as the given watcher."""

    def __init__(self, watcher: WorkControl, simulated: Sequence[Finalist]) -> None:
        super().__init__(watcher)
        self._simulated = simulated

    def go_on(self) -> bool:
        return not self._simulated or super().go_on()


_StartedPlan = tuple[ComposedPlan, bool]
"""A plan whose simulation has started, and whether it is one of the extra plans."""

_MemoryKind = tuple[tuple[tuple[str, int], ...], int, bool]


def _memory_kind_of(plan: ComposedPlan) -> _MemoryKind:
    """Returns a key of a plan; plans with equal keys have about the same error in memory."""
    recipe = plan.candidate.recipe
    return recipe.axes, recipe.zero, recipe.remat


def rooflines_of(step: Step, plan: Plan, device: Device) -> Rooflines:
    """Returns the rooflines of a plan's sections; attention scores are not written to memory."""
    return Rooflines.of(device, prepare_step(step, plan), plan, apply(step, plan))


def known_of(step: Step, plan: Plan, profile: Profile | None) -> Known:
    """Returns a profile's measurements of a plan's local work. Raises as ``known`` does."""
    if profile is None:
        return _NOTHING_KNOWN
    return known(profile, prepare_step(step, plan), apply(step, plan), plan.parts)


_NOTHING_KNOWN = Known({}, Kinds(0, 0))


def simulate_plan(
    step: Step,
    plan: Plan,
    computing: Callable[[Section], Estimate],
    network: NetworkPrices,
    measured: Known = _NOTHING_KNOWN,
) -> StepPrediction:
    """Simulates a plan of a step as finalists are simulated."""
    sources = build_sources(computing, network)
    tasks = write_plan(step, plan, sources, RUNTIME, measured.seconds)
    return predict_tasks(tasks, plan.order, plan.microbatches, sources, RUNTIME)


def layers_of(recipe: Recipe, layers: int) -> int:
    """Returns the number of layers of the step that is traced to simulate the recipe."""
    short = _shorten_recipe(recipe, layers)
    return sum(short.layers) if short else layers


def _list_stage_layers(recipe: Recipe, layers: int) -> tuple[int, ...]:
    """Returns the number of layers of each stage."""
    return recipe.layers or (layers // recipe.stages,) * recipe.stages


def _shorten_recipe(recipe: Recipe, layers: int) -> Recipe | None:
    """Returns the recipe with a few stages that represent all; None if these would be all."""
    stage_layers = _list_stage_layers(recipe, layers)
    written = choose_stages(stage_layers)
    if len(written) == len(stage_layers) or sum(stage_layers) != layers:
        return None
    axes = tuple((name, len(written) if name == PIPE else size) for name, size in recipe.axes)
    schedule = "zero-bubble-h1" if recipe.schedule in HALVES else "1f1b"
    few = tuple(stage_layers[stage] for stage in written)
    return replace(recipe, axes=axes, schedule=schedule, chunks=1, layers=few)


def simulate_candidate(
    step: Step,
    candidate: PlacedRecipe,
    answers: ProgramPrices,
    device: Device,
    profile: Profile | None = None,
    plan: Plan | None = None,
) -> Finalist:
    """Simulates a step with a candidate, at the prices of ``answers``.

    ``plan``: a plan along the candidate's axes that replaces the plan of its recipe. Raises
    InputError if the plan is invalid for the step.
    """
    plan = plan or plan_of(step, candidate.recipe)
    written = _WrittenCandidate(step, plan, candidate, answers, device, profile)
    return written.simulate(written.tasks, plan.order)


def simulate_finalist(
    step_of: Callable[[int], Step],
    layers: int,
    candidate: PlacedRecipe,
    answers: ProgramPrices,
    device: Device,
    profile: Profile | None = None,
) -> Finalist:
    """Simulates a model with a candidate; ``step_of`` maps a number of layers to a step.

    For a long pipeline, only a few stages are written out, and then stretched to all stages.
    """
    recipe, settings = candidate.recipe, (candidate, answers, device, profile)
    if (short := _shorten_recipe(recipe, layers)) is not None:
        step = step_of(sum(short.layers))
        written = _WrittenCandidate(step, plan_of(step, short), *settings)
        stage_layers = _list_stage_layers(recipe, layers)
        if (longer := stretch_device(written.tasks, stage_layers)) is not None:
            order = SCHEDULES[recipe.schedule](candidate.ranks, recipe.microbatches, recipe.chunks)
            return written.simulate(longer, order)
    step = step_of(layers)
    written = _WrittenCandidate(step, plan_of(step, recipe), *settings)
    return written.simulate(written.tasks, written.plan.order)


def list_goals(
    step_of: Callable[[int], Step], layers: int, candidate: PlacedRecipe, answers: ProgramPrices
) -> list[PlacedGoal]:
    """Lists the collectives that ``simulate_finalist`` will price for a candidate, each once.

    Raises InputError as it does.
    """
    short = _shorten_recipe(candidate.recipe, layers)
    step = step_of(sum(short.layers) if short else layers)
    network = NetworkPrices(
        answers, Placement(answers.system.hierarchy, candidate.axes, candidate.rows)
    )
    goals: dict[PlacedGoal, None] = {}

    def sending(*redistribution: Any) -> float:
        goals.update(dict.fromkeys(network.goals(*redistribution)))
        return 0.0

    plan = plan_of(step, short or candidate.recipe)
    write_plan(step, plan, Sources(lambda section: 0.0, sending, network.handing), RUNTIME)
    return [*goals]


class _WrittenCandidate:
    """The tasks of a candidate, and the share of matrix products in each section.

    ``parts`` maps the seconds of a section to the estimates of its products and of the rest, for
    ``count_sections`` to look up.
    """

    def __init__(
        self,
        step: Step,
        plan: Plan,
        candidate: PlacedRecipe,
        answers: ProgramPrices,
        device: Device,
        profile: Profile | None,
    ) -> None:
        self.candidate, self.plan, self.system = candidate, plan, answers.system
        self.placement = Placement(self.system.hierarchy, candidate.axes, candidate.rows)
        self.network = NetworkPrices(answers, self.placement)
        self.parts: dict[float, tuple[Estimate, Estimate]] = {}
        rooflines, measured = rooflines_of(step, plan, device), known_of(step, plan, profile)
        self.kinds = measured.kinds if profile else None

        def computing(section: Section) -> Estimate:
            whole, products, others = rooflines.parts(section)
            self.parts[whole.seconds] = products, others
            return whole

        self.sources = build_sources(computing, self.network)
        self.tasks = write_plan(step, plan, self.sources, RUNTIME, measured.seconds)

    def simulate(self, tasks: DeviceTasks, order: PipelineSchedule | None) -> Finalist:
        """Simulates ``tasks``, or the tasks of all stages in the order of a schedule."""
        microbatches = self.candidate.recipe.microbatches
        found = predict_tasks(tasks, order, microbatches, self.sources, RUNTIME)
        return Finalist(
            self.candidate,
            self.plan,
            self.placement,
            is_framework_order(self.candidate, self.system),
            found,
            *self._divide(found),
            kinds=self.kinds,
        )

    def _divide(self, run: StepPrediction) -> tuple[Estimate, Estimate]:
        """Divides the busiest rank's computation into products and the rest.

        The proportions are those of the whole step.
        """
        counts = count_sections(run, self.candidate.recipe.microbatches, self.parts)
        estimates = [
            [part.times(count) for part in self.parts[seconds]] for seconds, count in counts.items()
        ]
        parts = [sum_estimates_of_section(part) for part in zip(*estimates, strict=True)]
        parts = parts or [NOTHING, NOTHING]
        whole = sum(part.seconds for part in parts)
        share = run.ranks[run.busiest].compute_seconds / whole if whole else 0.0
        products, between = (part.times(share) for part in parts)
        return products, between


def count_sections(
    run: StepPrediction, microbatches: int, known: Container[float]
) -> Counter[float]:
    """Counts how often a step computes each known section over all stages, by its seconds.

    A task has exactly the seconds of its section, so the seconds identify the section.
    """
    counts = Counter[float]()
    for task in run.device.tasks:
        if task.seconds in known and not task.request:
            times = 1 if task.place.when in ONCE_PHASES else microbatches
            counts[task.seconds] += times * run.device.count_stages(task.place.stage)
    return counts


def is_framework_order(candidate: PlacedRecipe, system: System) -> bool:
    """Whether the axes are placed as frameworks place them by default."""
    usual = _place_by_framework(system.hierarchy, candidate.axes)
    return usual is not None and usual.matrix == candidate.rows


_place_by_framework = lru_cache(row_major_placement)
"""Cached because recipes with the same axes have the same placement."""
