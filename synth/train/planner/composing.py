"""Many plans of one model at once: their seconds and memory, composed of what their parts do.

A rank has its share of the layers, the first has what comes before them and the last what comes
after; forward and backward passes are blocks, put in the order of the schedule on one clock for all
plans of one structure. Gradients are reduced beside the last backward pass, parameters of ZeRO-3
gathered beside the layers before. What that leaves out (which task waits for which inside a pass)
the simulator has; so these prices choose who is simulated, and are no answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from math import prod

import numpy as np

from grammar import Goal
from hierarchies import Axis, InputError
from synth.events.longest_path import ends_together
from synth.train.orders import (
    SCHEDULES,
    Action,
    Pass,
    Protocol,
    Scheduled,
    one_f_one_b,
    scheduled,
)
from synth.train.planner.inside import INSIDE, MICROBATCHES, Inside, Part, scaled
from synth.train.planner.links import Links, Row
from synth.train.plans import Recipe, When
from synth.train.plans.plan import PIPE

TOGETHER = 256
"""Plans that are timed at once."""

PIECES = 8
"""In how many an update is that parameters are put together beside."""

Structure = tuple[int, str, int, int]
"""Ranks of stages, schedule, microbatches, chunks: which passes there are, and their order."""


def axes_of(recipe: Recipe) -> tuple[Axis, ...]:
    """The axes of a recipe, to be placed."""
    return tuple(Axis(name, size) for name, size in recipe.axes)


@dataclass(frozen=True)
class Candidate:
    """A recipe and where its axes lie: a row of each axis, in their order."""

    recipe: Recipe
    rows: tuple[Row, ...]

    @property
    def row_of(self) -> Mapping[str, Row]:
        """The row of each axis of more than one device."""
        both = zip(self.recipe.axes, self.rows, strict=True)
        return {name: row for (name, size), row in both if size > 1}

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
class _Seconds:
    """Of a microbatch by stage, of transfers between ranks, and by rank what is done once."""

    forward: list[float]
    backward: list[float]
    handed: Sequence[float]
    once: list[float]


@dataclass
class Composer:
    """Composes plans of a job: ``layers`` in all, ``batch`` samples; what plans share is kept.

    ``inside_of`` gives what a recipe without stages does, for so many samples a microbatch;
    ``microbatches``: of how many, 1 for a step that has none.
    """

    layers: int
    batch: int
    inside_of: Callable[[Recipe, int], Inside]
    microbatches: int = MICROBATCHES
    _insides: dict[tuple[Recipe, int], Inside | InputError] = field(default_factory=dict)
    _written: dict[tuple[Recipe, int], Inside] = field(default_factory=dict)
    _sizes: dict[Recipe, float] = field(default_factory=dict)

    def inside(self, recipe: Recipe) -> Inside:
        """What a recipe does inside of its stages. Raises InputError if it cannot be cut so."""
        within = _within(recipe, self.microbatches)
        samples = self.batch // (dict(recipe.axes).get("data", 1) * recipe.microbatches)
        if (within, samples) not in self._insides:
            try:
                self._insides[within, samples] = self._grown(within, samples)
            except InputError as error:
                self._insides[within, samples] = error
        known = self._insides[within, samples]
        if isinstance(known, InputError):
            raise known
        return known

    def _grown(self, within: Recipe, samples: int) -> Inside:
        if samples > 2:
            one, two = (self._of(within, count) for count in (1, 2))
            if (found := scaled(one, two, samples)) is not None:
                return found
        return self._of(within, samples)

    def _of(self, within: Recipe, samples: int) -> Inside:
        if (within, samples) not in self._written:
            self._written[within, samples] = self.inside_of(within, samples)
        return self._written[within, samples]

    def size_bytes(self, one: Candidate) -> float:
        """Memory of the fullest device, wherever its axes lie.

        Raises InputError for what cannot be cut so.
        """
        if one.recipe not in self._sizes:
            self._sizes[one.recipe] = max(_Plan(one, self.inside(one.recipe), self.layers).sizes())
        return self._sizes[one.recipe]

    def least_seconds(self, devices: int) -> float:
        """What no plan takes less than of those whose insides are known: all compute, always."""
        return min(
            one.seconds(self.layers) / samples * self.batch * _parts(within) / devices
            for (within, samples), one in self._insides.items()
            if isinstance(one, Inside)
        )

    def seconds(self, several: Sequence[Candidate], links: Links) -> list[float]:
        """Of a step by each; those of one structure are timed at once.

        Raises InputError for what cannot be cut so.
        """
        alike: dict[Structure, list[int]] = {}
        for number, one in enumerate(several):
            alike.setdefault(one.structure, []).append(number)
        found = [0.0] * len(several)
        for structure, numbers in alike.items():
            for at in range(0, len(numbers), TOGETHER):
                some = numbers[at : at + TOGETHER]
                plans = (several[number] for number in some)
                told = [_Plan(p, self.inside(p.recipe), self.layers).seconds(links) for p in plans]
                for number, took in zip(some, _clock(*structure).seconds(told), strict=True):
                    found[number] = took
        return found


def _parts(within: Recipe) -> int:
    """On how many devices a sample is."""
    return prod(size for name, size in within.axes if name in INSIDE)


def _within(recipe: Recipe, microbatches: int) -> Recipe:
    """What a recipe says of the inside of a stage, for samples that one device of data has."""
    axes = tuple((name, size) for name, size in recipe.axes if name in INSIDE)
    return replace(
        recipe,
        axes=axes or (("data", 1),),
        batch="",
        zero=0,
        microbatches=microbatches,
        schedule="",
        chunks=1,
    )


@dataclass(frozen=True)
class _Plan:
    """One plan, by its stages and ranks."""

    candidate: Candidate
    inside: Inside
    all_layers: int

    @property
    def stages(self) -> int:
        return self.candidate.ranks * self.candidate.recipe.chunks

    @property
    def layers(self) -> float:
        """Of one stage."""
        return self.all_layers / self.stages

    def parts(self, stage: int) -> Iterator[tuple[Part, float]]:
        """What a stage has, and how often."""
        if stage == 0:
            yield Part.FIRST, 1.0
        yield Part.LAYER, self.layers
        if stage == self.stages - 1:
            yield Part.LAST, 1.0

    def of_rank(self, rank: int) -> range:
        """The stages of a rank."""
        return range(rank, self.stages, self.candidate.ranks)

    def sum(self, stages: Sequence[int], of: Callable[[Part], float]) -> float:
        """Of all that some stages have."""
        return sum(times * of(part) for stage in stages for part, times in self.parts(stage))

    def sizes(self) -> Iterator[float]:
        """Bytes of a device of each rank."""
        inside, recipe = self.inside, self.candidate.recipe
        held = _clock(*self.candidate.structure).held
        shared = prod(self.candidate.row_of.get("data", ()))
        share = [1 / shared if recipe.zero >= stage else 1.0 for stage in range(4)]
        each = share[1 if inside.copies else 3]
        each += inside.moments * share[1] + inside.gradients * share[2]
        each += 0.0 if recipe.zero == 3 else inside.copies
        layer = inside.stored[Part.LAYER]
        ahead = 2 * layer * inside.gathered if recipe.zero == 3 else 0.0
        beside = min(1.0, self.layers - 1)  # whose gradients are sent while the next computes
        ahead += beside * layer * inside.gradients if recipe.zero >= 2 else 0.0
        for rank in range(self.candidate.ranks):
            mine = self.of_rank(rank)
            kept = self.sum(mine, inside.saved.__getitem__) / len(mine)
            state = each * self.sum(mine, inside.stored.__getitem__)
            last = rank == self.candidate.ranks - 1
            yield state + ahead + held[rank] * kept + inside.working[last]

    def seconds(self, links: Links) -> _Seconds:
        """What it takes with such links."""
        inside, rows, zero = self.inside, self.candidate.row_of, self.candidate.recipe.zero
        data, seq = rows.get("data", ()), rows.get("seq", ())

        def of(when: When) -> Callable[[Part], float]:
            return cache(lambda part: _work(inside, when, part, rows, links))

        def sent(goal: Goal, row: Row, share: float) -> Callable[[Part], float]:
            sizes = inside.parameters
            return cache(
                lambda part: (
                    sum(links.seconds(goal, row, share * one) for one in sizes[part])
                    if row
                    else 0.0
                )
            )

        both = _merged(data, seq)
        scatter = sent(Goal.REDUCE_SCATTER, both, inside.gradients)
        reduce = scatter if zero else sent(Goal.ALL_REDUCE, both, inside.gradients)
        gather = sent(Goal.ALL_GATHER, data, inside.gathered)
        ahead, back = of(When.FORWARD), of(When.BACKWARD)
        ends = (0, min(1, self.stages - 1), self.stages - 1)
        forward, backward = [0.0] * self.stages, [0.0] * self.stages
        for stage in ends:
            gathers = self.sum([stage], gather) if zero == 3 else 0.0
            scatters = self.sum([stage], scatter) if zero >= 2 else 0.0
            forward[stage] = _beside(self.sum([stage], ahead), gathers, self.layers)
            backward[stage] = _beside(self.sum([stage], back), gathers + scatters, self.layers)
        forward[2:-1] = forward[1:2] * (self.stages - 3)
        backward[2:-1] = backward[1:2] * (self.stages - 3)
        once = []
        for rank in range(self.candidate.ranks):
            mine = self.of_rank(rank)
            stored = self.sum(mine, inside.stored.__getitem__)
            update = inside.update_seconds * stored / (prod(data) if zero else 1)
            gathers = self.sum(mine, gather) if zero in (1, 2) else 0.0
            last = sum(backward[stage] for stage in mine)
            beside = self.sum(mine, reduce) if zero < 2 else 0.0
            exposed = _beside(last, beside, self.layers) - last
            once.append(exposed + _beside(update, gathers, PIECES))
        pipe = rows.get(PIPE, ())
        return _Seconds(
            forward, backward, links.handed(pipe, inside.boundary) if pipe else (), once
        )


def _work(inside: Inside, when: When, part: Part, rows: Mapping[str, Row], links: Links) -> float:
    """Seconds of a part of a pass, with what it sends between its operations."""
    work = inside.work[when, part]
    sent = (
        times * links.seconds(goal, _merged(*(rows[axis] for axis in over)), size)
        for (goal, over, size), times in work.sent.items()
    )
    return work.seconds + sum(sent)


def _merged(*rows: Row) -> Row:
    """Several axes as one; those of one device have no row."""
    return tuple(prod(sizes) for sizes in zip(*filter(None, rows), strict=True))


def _beside(compute: float, sent: float, pieces: float) -> float:
    """Seconds of computing and sending at once: of so many pieces one waits for the other."""
    return max(compute, sent) + min(compute, sent) / max(1.0, pieces)


@dataclass(frozen=True)
class _Clock:
    """An order as tasks, for many plans that differ in seconds only."""

    graph: Scheduled
    held: Sequence[int]

    def seconds(self, several: Sequence[_Seconds]) -> list[float]:
        """Of each plan, until the last rank has done what it does once."""
        stage, ahead, links = self._places
        forward = np.array([one.forward for one in several])[:, stage]
        backward = np.array([one.backward for one in several])[:, stage]
        took = np.where(ahead, forward, backward).T
        if self.graph.transfers:
            handed = np.array([[*one.handed, max(one.handed)] for one in several])
            took = np.concatenate([took, handed[:, links].T])
        ends = ends_together(self.graph.tasks, took)
        last = ends[[queue[-1] for queue in self.graph.queues]]
        found: list[float] = (last.T + [one.once for one in several]).max(axis=1).tolist()
        return found

    @cached_property
    def _places(self) -> tuple[list[int], list[bool], list[int]]:
        """Of each action its stage, and whether it goes forward; of each transfer its link."""
        actions = self.graph.order.actions
        return (
            [one.stage for one in actions],
            [one.kind is Pass.FORWARD for one in actions],
            [self._link(*pair) for pair in self.graph.transfers],
        )

    def _link(self, source: Action, target: Action) -> int:
        """Between which ranks, by the lower; from the last rank to the first, the last of all."""
        ends = [self.graph.order.rank_of[one.stage] for one in (source, target)]
        return min(ends) if abs(ends[0] - ends[1]) == 1 else len(self.graph.order.ranks) - 1


@cache
def _clock(ranks: int, schedule: str, microbatches: int, chunks: int) -> _Clock:
    if schedule:
        order = SCHEDULES[schedule](ranks, microbatches, chunks)
    else:
        order = one_f_one_b(1, microbatches)
    return _Clock(scheduled(order, Protocol.EAGER), order.held())
