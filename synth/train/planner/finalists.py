"""A plan on the clock in full, as the verb ``simulate`` has it: every task, and proved programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from grammar.tensors.operations import Step
from hierarchies import InputError, Placement, System, row_major
from hierarchies.devices import Device
from synth.compute import NOTHING, Estimate, Section, together
from synth.plan.request import Noting, Request, Watcher
from synth.search.forks import Crew, forked
from synth.train.orders import HALVES, SCHEDULES
from synth.train.planner.links import Candidate, Composed
from synth.train.plans import Plan, Program, Recipe, apply, plan_of, prepared
from synth.train.plans.plan import PIPE
from synth.train.plans.stages import ONCE
from synth.train.profiles import Kinds, Known, Profile, known
from synth.train.resharding.seconds import Answers
from synth.train.simulation import Device as Tasks
from synth.train.simulation import Overlap, Predicted, Runtime, Sources, predicted
from synth.train.simulation.groups import Grouping, scores_in
from synth.train.simulation.predicting import grouped, in_order, written
from synth.train.simulation.sources import Network, Rooflines, sources
from synth.train.simulation.stretching import WRITTEN, stretched

RUNTIME = Runtime(Overlap(sends=True, prefetch=1))
"""Gradients are sent as soon as they are made, parameters put together a layer ahead."""


@dataclass(frozen=True)
class Finalist:
    """A candidate, its plan of the step, where it lies, and that on the clock.

    ``products`` and ``between``: what the busiest rank computes, products of matrices and the rest.
    ``saved_seconds``: what it would take longer with each gradient's sum by itself. ``kinds``: how
    many kinds of local work a profile has, if there is one.
    """

    candidate: Candidate
    plan: Plan
    placement: Placement
    by_framework: bool
    found: Predicted
    products: Estimate
    between: Estimate
    saved_seconds: float = 0.0
    kinds: Kinds | None = None

    @property
    def size_bytes(self) -> int:
        """Of the rank that needs the most memory."""
        return self.found.ranks[self.found.fullest].moment.size_bytes


@dataclass
class Taken:
    """Plans that are simulated, in the order in which they come, until enough of them fit. Mutable.

    ``looked_at`` are all that came, ``refused`` why some cannot be, ``nearest`` the least memory of
    those that do not fit. Where one needs more memory on the clock than was expected, others of its
    kind do, too, and are passed over. What comes of some that are wanted ``beside`` them is
    ``told``, whether they fit or not.
    """

    memory_bytes: float
    refused: Counter[str]
    simulated: list[Finalist] = field(default_factory=list)
    looked_at: list[Composed] = field(default_factory=list)
    nearest: tuple[Candidate, float] | None = None
    beside: Sequence[Composed] = ()
    told: list[Finalist | InputError] = field(default_factory=list)
    _excess: dict[_Kind, float] = field(default_factory=dict)

    def simulate(
        self,
        coming: Iterator[Composed],
        k: int,
        simulated: Callable[[Composed], Finalist | InputError],
        watcher: Watcher,
        known: Callable[[], int] = lambda: 0,
        crew: Crew | None = None,
        *,
        at_once: bool = False,
    ) -> bool:
        """Until there are ``k``, several at once if there may be several processes.

        ``known`` grows where what is ``coming`` is learned of, which forks are to know; they begin
        ``at_once`` where that is said. Done by a ``crew`` if that is not all of the watcher's.
        False if it was stopped before.
        """
        begun: list[_Begun] = []
        noting = _OnceSimulated(crew or watcher, self.simulated)
        wanted = self._to_simulate(coming, k, begun)
        for last in forked(simulated, wanted, noting, known=known, at_once=at_once):
            one, beside = begun.pop(0)
            if beside:
                self.told.append(last)
            else:
                self._take(one, last)
            watcher.judged(len(self.simulated), k)
        return not noting.stopped

    def _to_simulate(
        self, coming: Iterator[Composed], k: int, begun: list[_Begun]
    ) -> Iterator[Composed | None]:
        """As many as are needed if all fit, then those beside them, begun while somebody waits to
        hear which fit; those that ``begun`` are noted there until taken.
        """
        fitting, beside = self._fitting(coming), iter(self.beside)
        while len(self.simulated) < k:
            waiting = sum(not other for _, other in begun)
            one = None if len(self.simulated) + waiting >= k else next(fitting, None)
            if one is None and not waiting:
                break
            other = one is None
            one = one or next(beside, None)
            begun += [(one, other)] if one else []
            yield one
        for one in beside:
            begun.append((one, True))
            yield one

    def _fitting(self, coming: Iterator[Composed]) -> Iterator[Composed]:
        for one in coming:
            self.looked_at.append(one)
            if self._fits(one):
                yield one

    def _fits(self, one: Composed) -> bool:
        return one.size_bytes * self._excess.get(_kind(one), 1.0) <= self.memory_bytes

    def _take(self, one: Composed, last: Finalist | InputError) -> None:
        """What was simulated beside one that did not fit may be one that is passed over."""
        if not self._fits(one):
            return
        if isinstance(last, InputError):
            self.refused[last.problem] += 1
        elif last.size_bytes <= self.memory_bytes:
            self.simulated.append(last)
        else:
            self._excess[_kind(one)] = last.size_bytes / one.size_bytes
            if self.nearest is None or last.size_bytes < self.nearest[1]:
                self.nearest = one.candidate, last.size_bytes


class _OnceSimulated(Noting):
    """Goes on until something is simulated, then for as long as the watcher says."""

    def __init__(self, watcher: Crew, simulated: Sequence[Finalist]) -> None:
        super().__init__(watcher)
        self._simulated = simulated

    def go_on(self) -> bool:
        return not self._simulated or super().go_on()


_Begun = tuple[Composed, bool]
"""What is simulated, and whether it is beside the others."""

_Kind = tuple[tuple[tuple[str, int], ...], int, bool]


def _kind(one: Composed) -> _Kind:
    """Plans that are off in memory by about as much: their axes, ZeRO, and what is done again."""
    recipe = one.candidate.recipe
    return recipe.axes, recipe.zero, recipe.remat


def rooflines_of(step: Step, plan: Plan, device: Device) -> Rooflines:
    """What sections of a plan take on a device; scores of attention are never in memory."""
    return Rooflines(device, scores_in(apply(step, plan), plan.parts))


def known_of(step: Step, plan: Plan, profile: Profile | None) -> Known:
    """What a profile has of a plan of a step. Raises InputError as ``known`` does."""
    if profile is None:
        return _NOTHING_KNOWN
    return known(profile, prepared(step, plan), apply(step, plan), plan.parts)


_NOTHING_KNOWN = Known({}, Kinds(0, 0))


def on_clock(
    step: Step,
    plan: Plan,
    computing: Callable[[Section], Estimate],
    network: Network,
    measured: Known = _NOTHING_KNOWN,
) -> Predicted:
    """A plan of a step on the clock, as finalists are."""
    return predicted(*_told(step, plan, computing, network, measured))


def _told(
    step: Step,
    plan: Plan,
    computing: Callable[[Section], Estimate],
    network: Network,
    measured: Known,
) -> tuple[Step, Plan, Program, Sources, Runtime, Grouping]:
    program = apply(step, plan)
    grouping = grouped(plan, program, RUNTIME, measured.seconds)
    return prepared(step, plan), plan, program, sources(computing, network), RUNTIME, grouping


def layers_of(recipe: Recipe, layers: int) -> int:
    """How many layers of the step are written out for it."""
    written = _written(recipe, layers)
    return sum(written) if written is not None else layers


def _written(recipe: Recipe, layers: int) -> tuple[int, ...] | None:
    """The layers of the stages that are written out for all; None where these differ."""
    stages = recipe.stages
    each = recipe.layers or (layers // stages,) * stages
    if stages <= WRITTEN or sum(each) != layers or len({*each[1:-1]}) > 1:
        return None
    return each[0], *each[1 : WRITTEN - 1], each[-1]


def _short(recipe: Recipe, layers: int) -> Recipe | None:
    """The recipe of a few stages that stand for all; None where these differ."""
    if (few := _written(recipe, layers)) is None:
        return None
    axes = tuple((name, WRITTEN if name == PIPE else size) for name, size in recipe.axes)
    schedule = "zero-bubble-h1" if recipe.schedule in HALVES else "1f1b"
    return replace(recipe, axes=axes, schedule=schedule, chunks=1, layers=few)


def simulated(
    step: Step,
    one: Candidate,
    answers: Answers,
    device: Device,
    profile: Profile | None = None,
) -> Finalist:
    """The step by a candidate on the clock, with what the planner ``answers`` on the system.

    Raises InputError for a plan that is not one of the step.
    """
    told = _Told(one, answers, device, profile)
    return told.finalist(told.predicted(step, one.recipe))


def finalist(
    step_of: Callable[[int], Step],
    layers: int,
    one: Candidate,
    answers: Answers,
    device: Device,
    profile: Profile | None = None,
) -> Finalist:
    """The same; ``step_of`` gives the step with so many layers.

    Of a long pipeline those of a few stages are written out, and stand for those between.
    """
    recipe = one.recipe
    if (short := _short(recipe, layers)) is not None:
        told = _Told(one, answers, device, profile)
        few = told.written(step_of(sum(short.layers)), short)
        if (longer := stretched(few, recipe.stages)) is not None:
            order = SCHEDULES[recipe.schedule](one.ranks, recipe.microbatches, recipe.chunks)
            handing = told.network.handing
            return told.finalist(in_order(longer, order, recipe.microbatches, handing, RUNTIME))
    return simulated(step_of(layers), one, answers, device, profile)


def asked(
    step_of: Callable[[int], Step], layers: int, one: Candidate, answers: Answers
) -> list[Request]:
    """What the planner will be asked for by a candidate's ``finalist``, each once.

    Raises InputError as that does.
    """
    short = _short(one.recipe, layers)
    step = step_of(sum(short.layers) if short else layers)
    network = Network(answers, Placement(answers.system.hierarchy, one.axes, one.rows))
    found: dict[Request, None] = {}

    def sending(*how: Any) -> float:
        found.update(dict.fromkeys(network.redistributor.requests(*how)))
        return 0.0

    plan = plan_of(step, short or one.recipe)
    free = Sources(lambda section: 0.0, sending, network.handing)
    written(prepared(step, plan), plan, apply(step, plan), free, RUNTIME)
    return [*found]


@dataclass
class _Told:
    """A step on the clock; and of each of its sections how much of it are products of matrices.

    These are ``known`` by the seconds of the whole, as ``times_done`` finds them again.
    """

    candidate: Candidate
    answers: Answers
    device: Device
    profile: Profile | None
    known: dict[float, tuple[Estimate, Estimate]] = field(default_factory=dict)
    plan: Plan = field(init=False)
    measured: Known = field(init=False)

    @cached_property
    def placement(self) -> Placement:
        """Where its axes lie."""
        one = self.candidate
        return Placement(self.answers.system.hierarchy, one.axes, one.rows)

    @cached_property
    def network(self) -> Network:
        """What is sent takes so long."""
        return Network(self.answers, self.placement)

    def finalist(self, found: Predicted) -> Finalist:
        """What was put on the clock, as a finalist."""
        one = self.candidate
        by_itself = by_framework(one, self.answers.system)
        computed = self._of(found, one.recipe.microbatches)
        kinds = self.measured.kinds if self.profile else None
        return Finalist(one, self.plan, self.placement, by_itself, found, *computed, kinds=kinds)

    def predicted(self, step: Step, recipe: Recipe) -> Predicted:
        """A step by a recipe."""
        return predicted(*self._by(step, recipe))

    def written(self, step: Step, recipe: Recipe) -> Tasks:
        """What its device does."""
        return written(*self._by(step, recipe))

    def _by(
        self, step: Step, recipe: Recipe
    ) -> tuple[Step, Plan, Program, Sources, Runtime, Grouping]:
        self.plan = plan_of(step, recipe)
        self.measured = known_of(step, self.plan, self.profile)
        return _told(step, self.plan, self._computing(step), self.network, self.measured)

    def _computing(self, step: Step) -> Callable[[Section], Estimate]:
        rooflines = rooflines_of(step, self.plan, self.device)

        def computing(section: Section) -> Estimate:
            whole = rooflines(section)
            self.known[whole.seconds] = rooflines.parts(section)
            return whole

        return computing

    def _of(self, run: Predicted, microbatches: int) -> tuple[Estimate, Estimate]:
        """What the busiest rank computes, divided as all that is computed in a step."""
        done = times_done(run, microbatches, self.known)
        passes = [[one.times(often) for one in self.known[took]] for took, often in done.items()]
        both = [together(each) for each in zip(*passes, strict=True)] or [NOTHING, NOTHING]
        whole = sum(one.seconds for one in both)
        share = run.ranks[run.busiest].compute_seconds / whole if whole else 0.0
        products, between = (one.times(share) for one in both)
        return products, between


def times_done(run: Predicted, microbatches: int, known: Container[float]) -> Counter[float]:
    """How often in a step, over all stages, each section is done of whose seconds some are known.

    A section is found again by its seconds, which are its tasks'.
    """
    found = Counter[float]()
    for task in run.device.tasks:
        if task.seconds in known and not task.request:
            found[task.seconds] += 1 if task.place.when in ONCE else microbatches
    return found


def by_framework(one: Candidate, system: System) -> bool:
    """Whether its axes lie as frameworks lay them out by themselves."""
    usual = _usual(system.hierarchy, one.axes)
    return usual is not None and usual.matrix == one.rows


_usual = lru_cache(row_major)
"""The same for all recipes of the same axes."""
