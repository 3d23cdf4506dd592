"""From a job to plans: searched among all recipes, on all placements, the best simulated."""

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
from synth.plan.library import Library
from synth.plan.request import Request, Watcher
from synth.search.forks import Meanwhile, several_in
from synth.search.space import BestFound, Budget, Found, Infeasible, NoneFound, Optimal
from synth.train.planner.composing.balancing import Balancing
from synth.train.planner.composing.composer import Composer
from synth.train.planner.composing.writing import MICROBATCHES, batch_of, insides
from synth.train.planner.families import Family
from synth.train.planner.finalists import (
    Finalist,
    Taken,
    asked,
    by_framework,
    finalist,
    layers_of,
)
from synth.train.planner.gaining import Sending, gaining, sending
from synth.train.planner.hints import Freed, freed, least
from synth.train.planner.job import Job
from synth.train.planner.links import Candidate, Composed, Least, Priced
from synth.train.planner.operations.finer import Finer, finer
from synth.train.planner.pins import Pins
from synth.train.planner.resolution import Likely, advised, difference, likely
from synth.train.planner.searching import Search
from synth.train.planner.sums.buckets import bucketed
from synth.train.planner.sums.choosing import BUCKETS, nearest
from synth.train.plans import Recipe
from synth.train.resharding.seconds import Answers
from synth.train.zoo.sizes import sizes_of

SPARE = 50
"""So many plans more are found than are asked for: simulated, some may not fit."""

EVERY = 16
"""So many plans of a model in one piece are simulated: they are few, and composed seconds of it
leave out what normalisations of whole batches send."""

SENT = 16
"""In how many pieces gradients of a model without layers are sent while others are made."""


def _sizes(pins: Pins) -> Sequence[int]:
    """Of the buckets that are tried: none where that is pinned."""
    return BUCKETS if pins.bucket_bytes is None else ()


@dataclass(frozen=True)
class Planned:
    """What was found: the search, its first plans ``looked_at``, and the best of them simulated.

    Those are ``finalists``, the fastest first, and ``likely`` what each may be off by. ``usual`` is
    the best where axes lie as frameworks lay them out, simulated as ``laid_out`` unless the first
    lies so. ``least_seconds``: what no plan can beat, as all devices would compute all the time.
    ``refused``: why plans cannot be, and how many. ``nearest``: if none fits, what needs the least
    memory, and how much. ``peak_seconds``: that no plan is below, where not all were looked at;
    else None. ``front``: the search's, if that was wanted.
    """

    search: Search
    looked_at: tuple[Composed, ...]
    finalists: tuple[Finalist, ...]
    likely: tuple[Likely, ...]
    usual: Composed | None
    laid_out: Likely | None
    least_seconds: float
    refused: tuple[tuple[str, int], ...]
    nearest: tuple[Candidate, float] | None
    complete: bool
    peak_seconds: float | None
    front: tuple[Composed, ...]

    def advised(self, memory_bytes: float) -> int:
        """The number of the plan to be taken, from 0; there must be one."""
        told = [difference(self.likely[0], one) for one in self.likely]
        return advised(self.finalists, told, memory_bytes)

    def verdict(self, memory_bytes: float) -> Found[Candidate]:
        """What the search proves of composed seconds."""
        bound, nearest = self.peak_seconds, None
        if self.finalists:
            first = self.looked_at[0]
            if bound is None:
                return Optimal(first.candidate, first.seconds)
            return BestFound(first.candidate, first.seconds, bound)
        if self.nearest is not None:
            one, size = self.nearest
            nearest = Infeasible(f"too much memory: {one.recipe}", size - memory_bytes)
        sure = bound is None and not self.search.fitting
        return nearest if nearest is not None and sure else NoneFound(nearest)


@dataclass(frozen=True)
class Planner:
    """Plans of one job; what plans share is kept from search to search."""

    job: Job

    @cached_property
    def composer(self) -> Composer:
        job = self.job
        insides_of = partial(insides, job.traced, accelerator=job.device, layers=bool(job.layers))
        microbatches = MICROBATCHES if job.divides else 1
        return Composer(job.layers or SENT, job.spelling.batch, insides_of, microbatches)

    @cached_property
    def _links(self) -> tuple[Priced, Least]:
        return Priced(self.job.system, libraries=self._libraries), Least(self.job.system)

    @cached_property
    def _libraries(self) -> dict[Goal, Library]:
        return {}

    @cached_property
    def _answers(self) -> Answers:
        return Answers(self.job.system, stripes=False, libraries=self._libraries)

    @cached_property
    def peak_seconds(self) -> float:
        """What no plan can beat: all devices multiplying at their peak, whatever the shapes."""
        job = self.job
        count, samples = (MICROBATCHES, 1) if job.divides else (1, job.spelling.batch)
        whole = Recipe((("data", 1),), microbatches=count)
        [alone] = insides(job.traced, whole, [samples], _perfect(job.device))
        return alone.seconds(job.layers) / samples * job.spelling.batch / job.system.devices

    def plans(
        self,
        pins: Pins,
        k: int,
        watcher: Watcher,
        *,
        front: bool = False,
    ) -> Planned:
        """The ``k`` best with the pins. ``front``: also what no other beats in seconds and memory,
        found while the best are simulated.

        Raises InputError where none can be.
        """
        job = self.job
        memory, some = job.device.memory_bytes, job.families(pins)
        self._write(some, watcher)
        some = sorted(self._balanced(some, watcher), key=lambda one: one.numbers[0])
        search = Search(self.composer, some, memory, *self._links, watcher, _sizes(pins))
        if search.complete and search.refused.total() == search.plans:
            raise InputError(f"no plan can be: {next(iter(search.refused))}", where=job.model)
        taken = Taken(memory, search.refused.copy())
        several = k if job.layers else max(k, EVERY)
        usual = next(search.cheapest(lambda one: by_framework(one, job.system)), None)
        coming = map(self._traced, islice(search.cheapest(), SPARE + several))
        first = [*islice(coming, several)]
        taken.beside = [*map(self._traced, _beside(usual, first, job.system))]
        with Meanwhile(lambda: (search.front() if front else (), search.complete), watcher) as rest:
            search.crew = rest
            several_work = self._ask(pins, [*first, *taken.beside], rest)
            told = chain(first, coming), several, partial(self._simulated, pins), watcher
            complete = taken.simulate(*told, job.known, rest, at_once=several_work)
            unbeaten, whole = rest.result()
        simulated = sorted(taken.simulated, key=lambda one: one.found.seconds)[:k]
        return Planned(
            search,
            tuple(taken.looked_at),
            tuple(simulated),
            self._likely(simulated),
            usual,
            self._laid_out(pins, usual, simulated, *taken.told),
            self.composer.least_seconds(job.system.devices),
            tuple(taken.refused.most_common()),
            None if simulated else taken.nearest or search.nearest,
            search.complete and complete and whole,
            None if search.complete else self.peak_seconds,
            unbeaten,
        )

    def finer(self, one: Finalist, budget: Budget) -> Finer:
        """A finalist operation by operation; of substitutions as many as the budget has."""
        job = self.job
        return finer(job.step, one, self._answers, self._links[0], job.device, budget, job.profile)

    def _balanced(self, some: Iterable[Family], watcher: Watcher) -> Iterator[Family]:
        """All plans, their layers cut as is fastest where that pays and fits."""
        balancing = Balancing(self.composer.on(self._links[1]), self.job.device.memory_bytes)
        for one in some:
            yield from balancing.cut(one) if watcher.go_on() else [one]

    def _write(self, some: Sequence[Family], watcher: Watcher) -> None:
        """What all plans are composed of, by as many processes as there may be."""
        wanted = self.composer.wanted(one.recipe for one in some)
        for batch in dict.fromkeys(batch_of(one, each) for one, many in wanted for each in many):
            self.job.traced(batch)
        self.composer.write(wanted, watcher)

    def _traced(self, one: Composed) -> Composed:
        """What is traced here its forks need not trace: JAX has threads, which forks have not."""
        self.job.of_layers(layers_of(one.candidate.recipe, self.job.layers))
        return one

    def _ask(self, pins: Pins, several: Sequence[Composed], crew: Meanwhile[Any]) -> bool:
        """Have all priced that plans send, if several processes are to simulate them; say whether.

        What is written out here for that its forks need not write out. Buckets, which are tried
        where they may gain, are priced then.
        """
        if worth := several_in(crew):
            asked_for = chain.from_iterable(self._asked(pins, one) for one in several)
            self._answers.ask(asked_for, crew)
        return worth

    def _asked(self, pins: Pins, one: Composed) -> Sequence[Request]:
        """What will be asked when a plan is simulated; nothing of one that cannot be."""
        job, plan = self.job, one.candidate
        alone = plan if pins.bucket_bytes is not None else plan.alone
        try:
            return asked(job.of_layers, job.layers, alone, self._answers)
        except InputError:
            return ()

    def _finalist(self, one: Candidate) -> Finalist:
        job = self.job
        return finalist(job.of_layers, job.layers, one, self._answers, job.device, job.profile)

    def _bucketed(self, pins: Pins, one: Candidate) -> Finalist:
        """A plan simulated, with the buckets that are pinned, or those that gain."""
        if pins.bucket_bytes is not None:
            return self._finalist(one)
        alone = one.alone
        composed, memory = self.composer.on(self._links[0]), self.job.device.memory_bytes
        shorter, sizes = partial(composed.shorter, alone), partial(nearest, composed, alone)
        return bucketed(self._finalist(alone), self._finalist, memory, shorter, sizes)

    def _simulated(self, pins: Pins, one: Composed) -> Finalist | InputError:
        try:
            return self._bucketed(pins, one.candidate)
        except InputError as error:
            return error

    def freed(self, pins: Pins, found: Planned) -> tuple[Freed, ...]:
        """If nothing fits: what would need less memory, and how much that is."""
        if found.nearest is None or found.search.fitting or not found.search.complete:
            return ()
        nearest, size = found.nearest
        others: dict[str, Callable[[], float]] = {
            f"without {name}={value}": partial(self._least, pins.without(name))
            for name, value in pins.said.items()
        }
        recipe = nearest.recipe
        if "data" in dict(recipe.axes):
            others["twice the devices, over data"] = partial(self._doubled, recipe)
        if getattr(sizes_of(self.job.model, self.job.changes), "sequence", 1) % 2 == 0:
            others["half the sequence"] = partial(self._halved, recipe)
        return freed(size, others)

    def _least(self, pins: Pins) -> float:
        """The least memory of a plan with such pins."""
        return least(self.composer, self.job.recipes(pins))

    def _doubled(self, recipe: Recipe) -> float:
        """Twice as many samples on twice as many devices."""
        axes = tuple((name, size * (1 + (name == "data"))) for name, size in recipe.axes)
        composer = replace(self.composer, batch=2 * self.composer.batch, _plans={})
        return composer.size_bytes(replace(recipe, axes=axes))

    def _halved(self, recipe: Recipe) -> float:
        """Of half as many tokens."""
        job = self.job
        tokens = getattr(sizes_of(job.model, job.changes), "sequence", 2) // 2
        half = replace(job, changes={**job.changes, "sequence": tokens})
        return Planner(half).composer.size_bytes(recipe)

    def sending(self, one: Finalist) -> tuple[Sending, ...]:
        """The collectives of a plan, each with its best answer; what takes most time first."""
        return tuple(sending(one, self._answers))

    def gaining(self, one: Finalist) -> tuple[Sending, ...]:
        """Its collectives that gain by programs of ours."""
        return gaining(one, self._answers)

    def _likely(self, several: Sequence[Finalist]) -> tuple[Likely, ...]:
        return tuple(likely(several, self.composer, self._links[0], self.job.system))

    def _laid_out(
        self,
        pins: Pins,
        usual: Composed | None,
        simulated: Sequence[Finalist],
        *told: Finalist | InputError,
    ) -> Likely | None:
        """The best as frameworks lay axes out, simulated; None where there is nothing to gain.

        ``told``: what came of it, if it was simulated beside others.
        """
        if usual is None or not simulated or simulated[0].by_framework:
            return None
        known = (one for one in simulated if one.candidate.alone == usual.candidate.alone)
        found = next(chain(known, told), None) or self._simulated(pins, usual)
        return None if isinstance(found, InputError) else self._likely([found])[0]


def _perfect(device: Device) -> Device:
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


def _beside(
    usual: Composed | None, first: Sequence[Composed], system: System
) -> Iterator[Composed]:
    """What is to be simulated beside the first plans: the best as frameworks lay axes out, unless
    the first of all lies so, or it is one of them.
    """
    needless = usual in first or (first and by_framework(first[0].candidate, system))
    if usual is not None and not needless:
        yield usual
