"""Plans a job: searches all recipes on all placements, and simulates the best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, islice
from math import inf
from typing import Any

from grammar import Goal
from hierarchies import InputError, System
from hierarchies.devices import Device
from synth.collective.ranking.library import Library
from synth.collective.ranking.request import Request, Watcher
from synth.search.forks import BackgroundWork, is_parallel
from synth.search.space import BestFound, Found, Infeasible, NoneFound, Optimal
from synth.step.redistribution.seconds import RequestAnswers
from synth.step.search.buckets import BUCKETS, find_nearest_size, try_buckets
from synth.step.search.composing.balancing import LayerBalancer
from synth.step.search.composing.composer import Composer
from synth.step.search.composing.writing import MICROBATCHES, batch_of, write_insides
from synth.step.search.families import Family
from synth.step.search.finalists import (
    Finalist,
    FinalistPool,
    is_framework_order,
    layers_of,
    list_requests,
    simulate_finalist,
)
from synth.step.search.gaining import CollectiveGain, list_collective_gains, list_gains
from synth.step.search.hints import MemorySaving, find_least_memory, find_savings
from synth.step.search.job import PlanningProblem
from synth.step.search.links import BoundLinks, ComposedPlan, PlacedRecipe, PricedLinks
from synth.step.search.operations import can_choose_rows, choose_rows
from synth.step.search.pins import Pins
from synth.step.search.resolution import (
    UncertainSeconds,
    choose_advised,
    compare_seconds,
    estimate_errors,
)
from synth.step.search.searching import Search
from synth.step.sharding import Recipe
from synth.step.zoo.sizes import sizes_of

SPARE_PLANS = 50
"""How many more plans are taken than requested, as some may not fit when simulated."""

UNSTAGED_PLANS = 16
"""Plans of a model in one piece that are simulated at least: there are few, and their composed
seconds leave out communication for normalisation over whole batches."""

GRADIENT_PIECES = 16
"""Pieces in which gradients of a model without layers are sent while others are computed."""


def _bucket_sizes(pins: Pins) -> Sequence[int]:
    """Sizes of buckets to try; none where the size is pinned."""
    return BUCKETS if pins.bucket_bytes is None else ()


@dataclass(frozen=True)
class PlanningResult:
    """The search, its first plans ``looked_at``, and the best of them simulated.

    ``finalists``: the fastest first; ``likely``: the seconds of each with their errors. ``usual``:
    the best plan with axes placed as frameworks place them; ``laid_out``: that plan simulated,
    unless the first is placed so. ``least_seconds``: a bound if all devices computed all the time.
    ``refused``: why plans are invalid, and how many. ``nearest``: if none fits, the plan that needs
    the least memory, and how much. ``peak_seconds``: a lower bound where not all plans were looked
    at, else None. ``front``: the search's front, if it was requested.
    """

    search: Search
    looked_at: tuple[ComposedPlan, ...]
    finalists: tuple[Finalist, ...]
    likely: tuple[UncertainSeconds, ...]
    usual: ComposedPlan | None
    laid_out: UncertainSeconds | None
    least_seconds: float
    refused: tuple[tuple[str, int], ...]
    nearest: tuple[PlacedRecipe, float] | None
    complete: bool
    peak_seconds: float | None
    front: tuple[ComposedPlan, ...]

    def advised(self, memory_bytes: float) -> int:
        """Index of the plan to advise. There must be a finalist."""
        differences = [compare_seconds(self.likely[0], seconds) for seconds in self.likely]
        return choose_advised(self.finalists, differences, memory_bytes)

    def verdict(self, memory_bytes: float) -> Found[PlacedRecipe]:
        """What the search proves of composed seconds."""
        bound, nearest = self.peak_seconds, None
        if self.finalists:
            first = self.looked_at[0]
            if bound is None:
                return Optimal(first.candidate, first.seconds)
            return BestFound(first.candidate, first.seconds, bound)
        if self.nearest is not None:
            candidate, size = self.nearest
            nearest = Infeasible(f"too much memory: {candidate.recipe}", size - memory_bytes)
        exhausted = bound is None and not self.search.fitting
        return nearest if nearest is not None and exhausted else NoneFound(nearest)


@dataclass(frozen=True)
class Planner:
    """Plans one job; what plans share is kept from search to search."""

    job: PlanningProblem

    @cached_property
    def composer(self) -> Composer:
        job = self.job
        insides_of = partial(
            write_insides, job.traced, accelerator=job.device, layers=bool(job.layers)
        )
        microbatches = MICROBATCHES if job.divides else 1
        return Composer(job.layers or GRADIENT_PIECES, job.spelling.batch, insides_of, microbatches)

    @cached_property
    def _links(self) -> tuple[PricedLinks, BoundLinks]:
        return PricedLinks(self.job.system, libraries=self._libraries), BoundLinks(self.job.system)

    @cached_property
    def _libraries(self) -> dict[Goal, Library]:
        return {}

    @cached_property
    def _answers(self) -> RequestAnswers:
        return RequestAnswers(self.job.system, stripes=False, libraries=self._libraries)

    @cached_property
    def peak_seconds(self) -> float:
        """Lower bound of every plan: all devices multiply at their peak, whatever the shapes."""
        job = self.job
        count, samples = (MICROBATCHES, 1) if job.divides else (1, job.spelling.batch)
        whole = Recipe((("data", 1),), microbatches=count)
        [alone] = write_insides(job.traced, whole, [samples], _perfect(job.device))
        return alone.seconds(job.layers) / samples * job.spelling.batch / job.system.devices

    def plans(
        self,
        pins: Pins,
        k: int,
        watcher: Watcher,
        *,
        front: bool = False,
    ) -> PlanningResult:
        """Returns the ``k`` best plans with the pins.

        ``front``: also finds the plans that no other beats in both seconds and memory, while the
        best are simulated. Raises InputError if no plan is valid.
        """
        job = self.job
        search = self._search(pins, watcher)
        pool = FinalistPool(job.device.memory_bytes, search.refused.copy())
        count = k if job.layers else max(k, UNSTAGED_PLANS)
        usual = next(search.cheapest(lambda plan: is_framework_order(plan, job.system)), None)
        coming = map(self._traced, islice(search.cheapest(), SPARE_PLANS + count))
        first = [*islice(coming, count)]
        pool.beside = [*map(self._traced, _extra_candidates(usual, first, job.system))]
        with BackgroundWork(
            lambda: (search.front() if front else (), search.complete), watcher
        ) as rest:
            search.crew = rest
            several_work = self._ask(pins, [*first, *pool.beside], rest)
            arguments = chain(first, coming), count, partial(self._simulated, pins), watcher
            complete = pool.simulate(*arguments, job.known, rest, at_once=several_work)
            unbeaten, whole = rest.result()
        simulated = sorted(pool.simulated, key=lambda finalist: finalist.found.seconds)
        best = [*self._find_rows(pins, simulated, watcher), *simulated][:k]
        return PlanningResult(
            search,
            tuple(pool.looked_at),
            tuple(best),
            self.likely(best),
            usual,
            self._laid_out(pins, usual, best, *pool.told),
            self.composer.least_seconds(job.system.devices),
            tuple(pool.refused.most_common()),
            None if best else pool.nearest or search.nearest,
            search.complete and complete and whole,
            None if search.complete else self.peak_seconds,
            unbeaten,
        )

    def _search(self, pins: Pins, watcher: Watcher) -> Search:
        """Lists the candidates, writes out what they are composed of, and begins their search.

        Raises InputError if no plan is valid.
        """
        families = self.job.families(pins)
        self._write(families, watcher)
        families = sorted(self._balanced(families, watcher), key=lambda family: family.numbers[0])
        memory, buckets = self.job.device.memory_bytes, _bucket_sizes(pins)
        search = Search(self.composer, families, memory, *self._links, watcher, buckets)
        if search.complete and search.refused.total() == search.plans:
            raise InputError(f"no plan can be: {next(iter(search.refused))}", where=self.job.model)
        return search

    def _find_rows(
        self, pins: Pins, simulated: Sequence[Finalist], watcher: Watcher
    ) -> Iterator[Finalist]:
        """Yields a plan of rows of single operations if it is surely faster than the first plan.

        Not for transformers, whose weights recipes cut: there rows lose (``results/rows``).
        """
        job = self.job
        if job.extents.megatron or not simulated or not watcher.go_on():
            return
        first = simulated[0]
        if not can_choose_rows(first, pins):
            return
        try:
            found = self.choose_rows(first)
        except InputError:
            return  # No rows are known of some operation: the recipe stays.
        faster = compare_seconds(*self.likely([first, found])).high_seconds < 0
        if found.size_bytes <= job.device.memory_bytes and faster:
            yield found

    def choose_rows(self, first: Finalist) -> Finalist:
        """Simulates the rows that are chosen along the axes of a plan. Raises as the function."""
        job, links = self.job, self._links[0]
        return choose_rows(job.step, first, self._answers, links, job.device, job.profile)

    def _balanced(self, families: Iterable[Family], watcher: Watcher) -> Iterator[Family]:
        """Yields all plans, with their layers balanced over stages where that pays and fits."""
        balancing = LayerBalancer(self.composer.on(self._links[1]), self.job.device.memory_bytes)
        for family in families:
            yield from balancing.cut(family) if watcher.go_on() else [family]

    def _write(self, families: Sequence[Family], watcher: Watcher) -> None:
        """Writes out the parts that plans are composed of, in as many processes as there may be."""
        wanted = self.composer.wanted(family.recipe for family in families)
        batches = (batch_of(recipe, samples) for recipe, counts in wanted for samples in counts)
        for batch in dict.fromkeys(batches):
            self.job.traced(batch)
        self.composer.write(wanted, watcher)

    def _traced(self, plan: ComposedPlan) -> ComposedPlan:
        """Traces the plan's step before the fork: JAX has threads, which forks do not inherit."""
        self.job.of_layers(layers_of(plan.candidate.recipe, self.job.layers))
        return plan

    def _ask(self, pins: Pins, plans: Sequence[ComposedPlan], crew: BackgroundWork[Any]) -> bool:
        """Prices the requests of plans at once if several processes will simulate them.

        Returns whether they will. The forks inherit what was written out for it. Buckets are
        priced later, where they may gain.
        """
        if parallel := is_parallel(crew):
            requests = chain.from_iterable(self._asked(pins, plan) for plan in plans)
            self._answers.ask(requests, crew)
        return parallel

    def _asked(self, pins: Pins, plan: ComposedPlan) -> Sequence[Request]:
        """Requests of simulating a plan; none for an invalid one."""
        job, candidate = self.job, plan.candidate
        alone = candidate if pins.bucket_bytes is not None else candidate.alone
        try:
            return list_requests(job.of_layers, job.layers, alone, self._answers)
        except InputError:
            return ()

    @cached_property
    def simulate(self) -> Callable[[PlacedRecipe], Finalist]:
        """Simulates a candidate as its recipe has it."""
        job = self.job
        where = {"answers": self._answers, "device": job.device, "profile": job.profile}
        return partial(simulate_finalist, job.of_layers, job.layers, **where)

    def _simulated(self, pins: Pins, plan: ComposedPlan) -> Finalist | InputError:
        """Simulates a plan, with the pinned buckets, or those that gain; or says why it is none."""
        alone = plan.candidate.alone
        composed, memory = self.composer.on(self._links[0]), self.job.device.memory_bytes
        shorter = partial(composed.shorter, alone)
        sizes = partial(find_nearest_size, composed, alone)
        try:
            if pins.bucket_bytes is not None:
                return self.simulate(plan.candidate)
            return try_buckets(self.simulate(alone), self.simulate, memory, shorter, sizes)
        except InputError as error:
            return error

    def freed(self, pins: Pins, result: PlanningResult) -> tuple[MemorySaving, ...]:
        """If nothing fits: changes that need less memory, and how much each needs."""
        if result.nearest is None or result.search.fitting or not result.search.complete:
            return ()
        nearest, size = result.nearest
        others: dict[str, Callable[[], float]] = {
            f"without {name}={value}": partial(self._least, pins.without(name))
            for name, value in pins.said.items()
        }
        recipe = nearest.recipe
        if "data" in dict(recipe.axes):
            others["twice the devices, over data"] = partial(self._doubled, recipe)
        if getattr(sizes_of(self.job.model, self.job.changes), "sequence", 1) % 2 == 0:
            others["half the sequence"] = partial(self._halved, recipe)
        return find_savings(size, others)

    def _least(self, pins: Pins) -> float:
        """The least memory of a plan with these pins."""
        return find_least_memory(self.composer, self.job.recipes(pins))

    def _doubled(self, recipe: Recipe) -> float:
        """Memory with twice the samples on twice the devices."""
        axes = tuple((name, size * (1 + (name == "data"))) for name, size in recipe.axes)
        composer = replace(self.composer, batch=2 * self.composer.batch, _plans={})
        return composer.size_bytes(replace(recipe, axes=axes))

    def _halved(self, recipe: Recipe) -> float:
        """Memory with half the tokens."""
        job = self.job
        tokens = getattr(sizes_of(job.model, job.changes), "sequence", 2) // 2
        half = replace(job, changes={**job.changes, "sequence": tokens})
        return Planner(half).composer.size_bytes(recipe)

    def sending(self, finalist: Finalist) -> tuple[CollectiveGain, ...]:
        """Collectives of a plan, each with its best answer, longest first."""
        return tuple(list_collective_gains(finalist, self._answers))

    def gaining(self, finalist: Finalist) -> tuple[CollectiveGain, ...]:
        """Collectives of a plan that gain by programs of ours."""
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
        """Simulates the best plan with the placement of frameworks; None if nothing is to gain.

        ``results``: its result, if it was simulated beside others.
        """
        if usual is None or not simulated or simulated[0].by_framework:
            return None
        known = (
            finalist for finalist in simulated if finalist.candidate.alone == usual.candidate.alone
        )
        result = next(chain(known, results), None) or self._simulated(pins, usual)
        return None if isinstance(result, InputError) else self.likely([result])[0]


def _perfect(device: Device) -> Device:
    """A device that multiplies at its peak whatever the shapes, and does all else in no time."""
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


def _extra_candidates(
    usual: ComposedPlan | None, first: Sequence[ComposedPlan], system: System
) -> Iterator[ComposedPlan]:
    """Yields the best plan with the placement of frameworks, to be simulated beside the first.

    Nothing if the very first plan is placed so, or if it is among the first anyway.
    """
    needless = usual in first or (first and is_framework_order(first[0].candidate, system))
    if usual is not None and not needless:
        yield usual
