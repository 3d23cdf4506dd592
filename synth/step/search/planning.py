"""Plans a job: lists the candidates, prices and searches them, simulates the best, explains them.

Candidates are the recipes of the ``job`` on all placements. They are composed of parts that are
written out once (``composing``), and searched in order of price (``searching``). The best are
simulated in full (``finalists``), with gradient ``buckets`` that save time, or with rows chosen
operation by operation (``operations``). The result states what is proved, and which changes would
help (``explaining``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, islice
from typing import Any

from hierarchies import InputError, System
from synth.collective.ranking.oracle import PlacedGoal, ProgramPrices
from synth.collective.ranking.request import Watcher
from synth.search.forks import BackgroundWork, is_parallel
from synth.step.search.buckets import BUCKETS, find_nearest_size, try_buckets
from synth.step.search.composing.balancing import LayerBalancer
from synth.step.search.composing.composer import Composer
from synth.step.search.composing.writing import batch_of
from synth.step.search.explaining import PlanningResult
from synth.step.search.families import Family
from synth.step.search.finalists import (
    Finalist,
    FinalistPool,
    is_framework_order,
    layers_of,
    list_goals,
    simulate_finalist,
)
from synth.step.search.gaining import CollectiveGain, list_collective_gains, list_gains
from synth.step.search.job import PlanningProblem
from synth.step.search.links import (
    BoundLinks,
    ComposedPlan,
    PlacedRecipe,
    PricedLinks,
    SystemPrices,
    prices_on,
)
from synth.step.search.operations import can_choose_rows, choose_rows
from synth.step.search.pins import Pins
from synth.step.search.resolution import (
    UncertainSeconds,
    compare_seconds,
    estimate_errors,
)
from synth.step.search.searching import Search
from synth.step.sharding import Recipe

SPARE_PLANS = 50
"""Number of plans taken in addition to those requested, as some may not fit when simulated."""

UNSTAGED_PLANS = 16
"""Least number of plans of a model in one piece to simulate: there are few plans, and their
composed seconds leave out communication for normalisation over whole batches."""


def _bucket_sizes(pins: Pins) -> Sequence[int]:
    """Returns the bucket sizes to try; none if the size is pinned."""
    return BUCKETS if pins.bucket_bytes is None else ()


@dataclass(frozen=True)
class Planner:
    """A planner of one job, which caches the parts that plans share from search to search."""

    job: PlanningProblem

    @cached_property
    def composer(self) -> Composer:
        """The composer of the job's plans, with its cache."""
        return self.job.compose()

    @cached_property
    def _prices(self) -> SystemPrices:
        return prices_on(self.job.system)

    @property
    def _links(self) -> tuple[PricedLinks, BoundLinks]:
        return self._prices.links, self._prices.bounds

    @property
    def _answers(self) -> ProgramPrices:
        return self._prices.programs

    def plans(
        self,
        pins: Pins,
        k: int,
        watcher: Watcher,
        *,
        front: bool = False,
        hint: Recipe | None = None,
    ) -> PlanningResult:
        """Returns the ``k`` best plans with the pins.

        ``front``: also finds the plans that no other plan beats in both seconds and memory, while
        the best plans are simulated. ``hint``: a recipe to look at first, which a search that is
        stopped early then knows. Raises InputError if no plan is valid.
        """
        job = self.job
        search = self._search(pins, watcher, hint)
        pool = FinalistPool(job.device.memory_bytes, search.refused.copy())
        count = k if job.layers else max(k, UNSTAGED_PLANS)
        usual = next(search.cheapest(lambda plan: is_framework_order(plan, job.system)), None)
        coming = map(self._traced, islice(search.cheapest(), SPARE_PLANS + count))
        first = [*islice(coming, count)]
        pool.beside = [*map(self._traced, _extra_candidates(usual, first, job.system))]
        known = self._prices.links.known
        with BackgroundWork(
            lambda: (search.front() if front else (), search.complete, known), watcher
        ) as rest:
            search.crew = rest
            several_work = self._ask(pins, [*first, *pool.beside], rest)
            arguments = chain(first, coming), count, partial(self._simulated, pins), watcher
            complete = pool.simulate(*arguments, job.known, rest, at_once=several_work)
            unbeaten, whole, learned = rest.result()
        known.update(learned)
        self._prices.keep()
        simulated = sorted(pool.simulated, key=lambda finalist: finalist.found.seconds)
        best = [*self._find_rows(pins, simulated, watcher), *simulated][:k]
        return PlanningResult(
            search,
            tuple(pool.looked_at),
            tuple(best),
            self.likely(best),
            usual,
            self._laid_out(pins, usual, best, *pool.results),
            self.composer.least_seconds(job.system.devices),
            tuple(pool.refused.most_common()),
            None if best else pool.nearest or search.nearest,
            search.complete and complete and whole,
            None if search.complete else job.peak_seconds,
            unbeaten,
        )

    def _search(self, pins: Pins, watcher: Watcher, hint: Recipe | None) -> Search:
        """Lists the candidates, writes out the parts that they share, and begins their search.

        Raises InputError if no plan is valid.
        """
        families = self.job.families(pins)
        self._write(families, watcher)
        families = sorted(
            self._balanced(pins, families, watcher), key=lambda family: family.numbers[0]
        )
        families.sort(key=lambda family: replace(family.recipe, layers=()) != hint)
        memory, buckets = self.job.device.memory_bytes, _bucket_sizes(pins)
        runs = partial(self.job.runs, pins)
        search = Search(self.composer, families, memory, *self._links, watcher, buckets, runs)
        if search.complete and search.refused.total() == search.plans:
            raise InputError(
                f"no plan is possible: {next(iter(search.refused))}", where=str(self.job.model)
            )
        return search

    def _find_rows(
        self, pins: Pins, simulated: Sequence[Finalist], watcher: Watcher
    ) -> Iterator[Finalist]:
        """Yields a plan chosen operation by operation if it is surely faster than the first plan.

        Yields none for transformers, whose weights recipes shard: chosen rows are slower there
        (``results/rows``). Yields none for frameworks, which take recipes only.
        """
        job = self.job
        if pins.frameworks or job.extents.megatron or not simulated or not watcher.go_on():
            return
        first = simulated[0]
        if not can_choose_rows(first, pins):
            return
        try:
            found = self.choose_rows(first)
        except InputError:
            return  # An operation has no known rows, so the recipe's plan stays.
        faster = compare_seconds(*self.likely([first, found])).high_seconds < 0
        if found.size_bytes <= job.device.memory_bytes and faster:
            yield found

    def choose_rows(self, first: Finalist) -> Finalist:
        """Simulates the rows chosen along the axes of a plan.

        Raises as the function of this name does.
        """
        job, links = self.job, self._links[0]
        return choose_rows(job.step, first, self._answers, links, job.device, job.profile)

    def _balanced(
        self, pins: Pins, families: Iterable[Family], watcher: Watcher
    ) -> Iterator[Family]:
        """Yields all plans, with layers balanced over stages if that saves time and fits."""
        composed, memory = self.composer.on(self._links[1]), self.job.device.memory_bytes
        balancing = LayerBalancer(composed, memory, partial(self.job.runs, pins))
        for family in families:
            yield from balancing.cut(family) if watcher.go_on() else [family]

    def _write(self, families: Sequence[Family], watcher: Watcher) -> None:
        """Writes out the parts of plans, in as many processes as are allowed."""
        wanted = self.composer.wanted(family.recipe for family in families)
        batches = (batch_of(recipe, samples) for recipe, counts in wanted for samples in counts)
        for batch in dict.fromkeys(batches):
            self.job.traced(batch)
        self.composer.write(wanted, watcher)

    def _traced(self, plan: ComposedPlan) -> ComposedPlan:
        """Traces the plan's step before the fork, as forks do not inherit the threads of JAX."""
        self.job.of_layers(layers_of(plan.candidate.recipe, self.job.layers))
        return plan

    def _ask(self, pins: Pins, plans: Sequence[ComposedPlan], crew: BackgroundWork[Any]) -> bool:
        """Prices the collectives of plans at once if several processes will simulate the plans.

        Returns whether several processes will. Forks inherit the steps that were written out to
        list the collectives. Buckets are priced later, if they may save time.
        """
        if parallel := is_parallel(crew):
            goals = chain.from_iterable(self._asked(pins, plan) for plan in plans)
            self._answers.prove(goals, crew)
        return parallel

    def _asked(self, pins: Pins, plan: ComposedPlan) -> Sequence[PlacedGoal]:
        """Returns the collectives of a plan to simulate; none if the plan is invalid."""
        job, candidate = self.job, plan.candidate
        alone = candidate if pins.bucket_bytes is not None else candidate.alone
        try:
            return list_goals(job.of_layers, job.layers, alone, self._answers)
        except InputError:
            return ()

    @cached_property
    def simulate(self) -> Callable[[PlacedRecipe], Finalist]:
        """Function that simulates a candidate with the buckets of its recipe."""
        job = self.job
        return partial(
            simulate_finalist,
            job.of_layers,
            job.layers,
            answers=self._answers,
            device=job.device,
            profile=job.profile,
        )

    def _simulated(self, pins: Pins, plan: ComposedPlan) -> Finalist | InputError:
        """Simulates a plan with the pinned buckets, or with buckets that save time.

        Returns the error if the plan is invalid.
        """
        alone = plan.candidate.alone
        composed, memory = self.composer.on(self._links[0]), self.job.device.memory_bytes
        shorter = partial(composed.shorter, alone)
        sizes = partial(find_nearest_size, composed, alone)
        try:
            if pins.bucket_bytes is not None:
                return self.simulate(plan.candidate)
            several = partial(self._simulate_runnable, pins)
            return try_buckets(self.simulate(alone), several, memory, shorter, sizes)
        except InputError as error:
            return error

    def _simulate_runnable(self, pins: Pins, candidate: PlacedRecipe) -> Finalist:
        """Simulates a candidate. Raises InputError if no framework of the pins runs it."""
        if not self.job.runs(pins, candidate.recipe):
            raise InputError("no framework of the question runs it", where=str(candidate.recipe))
        return self.simulate(candidate)

    def sending(self, finalist: Finalist) -> tuple[CollectiveGain, ...]:
        """Returns the collectives of a plan, each with its best answer, longest first."""
        return tuple(list_collective_gains(finalist, self._answers))

    def gaining(self, finalist: Finalist) -> tuple[CollectiveGain, ...]:
        """Returns the collectives of a plan that are faster with our programs."""
        return list_gains(finalist, self._answers)

    def likely(self, finalists: Sequence[Finalist]) -> tuple[UncertainSeconds, ...]:
        return tuple(estimate_errors(finalists, self.composer, self._links[0], self.job.system))

    def _laid_out(
        self,
        pins: Pins,
        usual: ComposedPlan | None,
        simulated: Sequence[Finalist],
        *results: Finalist | InputError,
    ) -> UncertainSeconds | None:
        """Returns the simulated seconds of the best plan with the placement of frameworks.

        ``results``: the result of that plan, if it was simulated as an extra plan. Returns None if
        there is no such plan, if it is invalid, or if the first plan is placed that way.
        """
        if usual is None or not simulated or simulated[0].by_framework:
            return None
        known = (
            finalist for finalist in simulated if finalist.candidate.alone == usual.candidate.alone
        )
        result = next(chain(known, results), None) or self._simulated(pins, usual)
        return None if isinstance(result, InputError) else self.likely([result])[0]


def _extra_candidates(
    usual: ComposedPlan | None, first: Sequence[ComposedPlan], system: System
) -> Iterator[ComposedPlan]:
    """Yields the best plan with the placement of frameworks, to be simulated as an extra plan.

    Yields nothing if the first plan has that placement, or if that plan is among ``first``.
    """
    needless = usual in first or (first and is_framework_order(first[0].candidate, system))
    if usual is not None and not needless:
        yield usual
