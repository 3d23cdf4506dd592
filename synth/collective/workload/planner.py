"""One placement for a whole job: the placement with the least exposed communication time.

A choice is one size for each axis that the job leaves open, and one placement. Each collective gets
its best program on that choice; its seconds are multiplied by its calls per step and by the share
that compute cannot hide, and the sum ranks the choice. Choices are searched in the order of their
lower bounds, until no bound is below the k-th best sum: exact, though most are never searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from math import prod

from hierarchies import (
    Axis,
    InputError,
    Placement,
    Reduction,
    System,
    check_axes,
    count_placements,
    load,
    placements,
    row_major_placement,
)
from synth.collective.algorithms.algorithms import Choice
from synth.collective.price.intervals import Interval
from synth.collective.price.resolution import PriceEstimate, sum_estimates
from synth.collective.price.segments import SEGMENTS
from synth.collective.price.steps import TICKS_PER_SECOND
from synth.collective.ranking.answers import AnswerRequest, prove_answers
from synth.collective.ranking.candidates import CandidatePrograms
from synth.collective.ranking.distinct import DistinctAnswer
from synth.collective.ranking.oracle import PlacedGoal, ProgramPrices
from synth.collective.ranking.request import Answer, ProvisionalResult, StopFlag, Watcher
from synth.collective.semantics.programs import Language
from synth.collective.workload.assignments import SettledEntry, SettledJob, assignments, settle_job
from synth.collective.workload.job import Workload
from synth.collective.workload.side_effects import SideEffect, find_side_effects


@dataclass(frozen=True)
class SearchSettings:
    """How programs are searched, for all entries of a job alike; ``k`` placements are kept.

    ``placement`` fixes the matrix instead of trying all.
    """

    k: int = 5
    language: Language = field(default_factory=Language)
    choice: Choice = Choice.AUTO
    collapse: bool = True
    segments: tuple[int, ...] = SEGMENTS
    stripes: bool = True
    placement: tuple[tuple[int, ...], ...] | None = None

    def __post_init__(self) -> None:
        if self.k < 1:
            raise InputError(f"k is {self.k}", hint="ask for at least 1 placement")


@dataclass(frozen=True)
class JobPlacement:
    """Sizes of the axes, a placement, and the exposed communication seconds of a step there.

    ``estimate`` splits these seconds, the calls of all entries together, by sources of error.
    """

    axes: tuple[Axis, ...]
    placement: Placement
    exposed_seconds: float
    estimate: PriceEstimate

    @property
    def interval(self) -> Interval | None:
        """The range that measurements give for the seconds; None where unmeasured or unexposed."""
        if not self.estimate.owed:
            return None
        low, high = self.estimate.lowest, self.estimate.highest
        return Interval(low / TICKS_PER_SECOND, high / TICKS_PER_SECOND)


@dataclass(frozen=True)
class PlacedEntry:
    """An entry with its best program on the chosen placement.

    ``alone_placement`` is the best placement for this entry alone, with the same sizes of the axes;
    ``alone_seconds`` is one call there.
    """

    entry: SettledEntry
    answer: Answer
    alone_seconds: float
    alone_placement: Placement

    @property
    def exposed_seconds(self) -> float:
        """Seconds of a step that compute does not hide."""
        return float(self.entry.weight) * self.answer.candidate.seconds

    @property
    def default_exposed_seconds(self) -> float:
        """Exposed seconds of a step if the runtime chooses by itself on this placement."""
        return float(self.entry.weight) * self.answer.baseline_seconds


@dataclass(frozen=True)
class JobPlan:
    """The best placement, its entries, and the next best placements.

    ``ranking`` begins with the chosen placement. ``side_effects`` has, for each entry, what the
    variables that it needs change of the other entries' calls. ``complete`` is False if the search
    was stopped: then a better placement may be missing.
    """

    system: System
    job: SettledJob
    how: SearchSettings
    entries: tuple[PlacedEntry, ...]
    ranking: tuple[JobPlacement, ...]
    placements: int
    of_placements: int
    complete: bool
    side_effects: tuple[tuple[SideEffect, ...], ...] = ()


def plan_job(
    system: System | str,
    job: Workload,
    settings: SearchSettings | None = None,
    watcher: Watcher | None = None,
) -> JobPlan:
    """Returns the placement on which a job's collectives are exposed for the least time, exactly.

    ``system`` may be a catalogue name (``dgx-h100:4``) or the path of a TOML file. Ties go to the
    earlier setting of the axes, then the earlier placement. Raises InputError for a job that does
    not fit the machine.
    """
    machine = load(system) if isinstance(system, str) else system
    return _JobPlanner(machine, job, settings or SearchSettings(), watcher or Watcher()).run()


@dataclass(frozen=True)
class _Choice:
    """Sizes of the axes and a placement; lower bounds of each entry, in ticks, and of the sum."""

    bound: Fraction
    order: int
    job: SettledJob
    placement: Placement
    bounds: tuple[int, ...]


class _JobPlanner:
    """Prices choices. Mutable, one use."""

    def __init__(
        self, system: System, job: Workload, settings: SearchSettings, watcher: Watcher
    ) -> None:
        self._system = system
        self._settings = settings
        self._watcher = watcher
        self._stop_flag = StopFlag(watcher)
        self._programs = ProgramPrices(
            system,
            settings.choice,
            language=settings.language,
            segments=settings.segments,
            stripes=settings.stripes,
            go_on=self._stop_flag.go_on,
            searching=watcher.searching,
        )
        self._jobs = settle_on_placement(system, job, settings.placement)
        self._placement_count = 1
        if settings.placement is None:
            self._placement_count = sum(
                count_placements(system.hierarchy, job.axes) for job in self._jobs
            )

    def run(self) -> JobPlan:
        done = 0
        best: list[tuple[Fraction, int, _Choice]] = []
        choices = self._choices()
        self._presearch(choices[: self._settings.k])
        for choice in choices:
            if done and not self._stop_flag.go_on():
                break
            limit = best[-1][0] if len(best) == self._settings.k else None
            total = self._total(choice, limit)
            if total is not None:
                best = sorted([*best, (total, choice.order, choice)], key=lambda item: item[:2])
                best = best[: self._settings.k]
                self._watcher.ranked(partial(_best_so_far, best))
            done += 1
            self._watcher.placed(done, self._placement_count)
        best = self._put_framework_first(best)
        chosen = best[0][2]
        entries = tuple(self._place_entries(chosen))
        return JobPlan(
            self._system,
            chosen.job,
            self._settings,
            entries,
            tuple(
                JobPlacement(
                    kept.job.axes,
                    kept.placement,
                    float(total) / TICKS_PER_SECOND,
                    self._estimate(kept),
                )
                for total, _, kept in best
            ),
            done,
            self._placement_count,
            not self._stop_flag.stopped and self._programs.complete,
            tuple(find_side_effects(self._programs.simulator, [e.answer for e in entries])),
        )

    def _put_framework_first(
        self, best: list[tuple[Fraction, int, _Choice]]
    ) -> list[tuple[Fraction, int, _Choice]]:
        """The best choices, led by the frameworks' placement unless it is surely slower than the
        best.

        Among choices that tie with the best that placement is the simplest: it needs no setting.
        """
        first = best[0][2]
        placement = row_major_placement(self._system.hierarchy, first.job.axes)
        if (
            placement is None
            or self._settings.placement is not None
            or placement == first.placement
        ):
            return best
        bounds = tuple(self._bound(entry, placement) for entry in first.job.entries)
        usual = _Choice(
            _weigh_estimate(first.job, bounds), first.order, first.job, placement, bounds
        )
        # Without a limit there is always a total: the 0 only satisfies the type checker.
        total = self._total(usual, None) or Fraction(0)
        if self._estimate(first).surely_below(self._estimate(usual)):
            return best
        others = [item for item in best if item[2].placement != placement]
        return [(total, usual.order, usual), *others][: self._settings.k]

    def _choices(self) -> list[_Choice]:
        """All choices, the lowest bound first."""
        choices: list[_Choice] = []
        for job in self._jobs:
            for placement in self._placements(job):
                bounds = tuple(self._bound(entry, placement) for entry in job.entries)
                total = _weigh_estimate(job, bounds)
                choices.append(_Choice(total, len(choices), job, placement, bounds))
        return sorted(choices, key=lambda choice: (choice.bound, choice.order))

    def _placements(self, job: SettledJob) -> Iterable[Placement]:
        """All placements, or only the requested one."""
        if self._settings.placement is None:
            return placements(self._system.hierarchy, job.axes)
        return [Placement(self._system.hierarchy, job.axes, self._settings.placement)]

    def _total(self, choice: _Choice, limit: Fraction | None) -> Fraction | None:
        """The weighted ticks of all entries; None where they exceed the limit."""
        ticks = list(choice.bounds)
        for number, entry in enumerate(choice.job.entries):
            if limit is not None and _weigh_estimate(choice.job, ticks) > limit:
                return None
            if entry.weight:
                ticks[number] = self._best(entry, choice.placement).what.ticks
        total = _weigh_estimate(choice.job, ticks)
        return None if limit is not None and total > limit else total

    def _presearch(self, choices: Sequence[_Choice]) -> None:
        """Searches the programs of the first choices, which no bound can skip, in several
        processes.
        """
        if self._watcher.processes < 2:
            return
        placed = [
            self._placed(entry, choice.placement)
            for choice in choices
            for entry in choice.job.entries
            if entry.weight
        ]
        self._programs.search(placed, self._stop_flag)

    def _estimate(self, choice: _Choice) -> PriceEstimate:
        """The exposed time of a choice, split by sources of error."""
        exposed = [entry for entry in choice.job.entries if entry.weight]
        return sum_estimates(
            (float(entry.weight), self._best(entry, choice.placement).estimate) for entry in exposed
        )

    def _placed(self, entry: SettledEntry, placement: Placement) -> PlacedGoal:
        reduction = Reduction(placement, entry.over, self._settings.collapse)
        return PlacedGoal(entry.goal, entry.payload_bytes, reduction)

    def _bound(self, entry: SettledEntry, placement: Placement) -> int:
        return self._programs.bound_ticks(self._placed(entry, placement))

    def _best(self, entry: SettledEntry, placement: Placement) -> DistinctAnswer[CandidatePrograms]:
        return self._programs.best(self._placed(entry, placement))

    def _place_entries(self, chosen: _Choice) -> Sequence[PlacedEntry]:
        """All entries on a choice; entries of one goal are proved together."""
        entries, place = chosen.job.entries, chosen.placement
        planned: dict[int, PlacedEntry] = {}
        for goal in dict.fromkeys(entry.goal for entry in entries):
            numbers = [number for number, entry in enumerate(entries) if entry.goal is goal]
            wanted = [
                AnswerRequest(n + 1, self._best(entries[n], place), entries[n].payload_bytes)
                for n in numbers
            ]
            programs, stop = self._programs, self._stop_flag
            answers = prove_answers(programs.simulator, wanted, stop, programs.library(goal))
            for number, request, answer in zip(numbers, wanted, answers, strict=True):
                alone = self._best_alone(entries[number], chosen, request.found.what)
                seconds, best_placement = alone.ticks / TICKS_PER_SECOND, alone.reduction.placement
                planned[number] = PlacedEntry(entries[number], answer, seconds, best_placement)
                self._watcher.judged(len(planned), len(entries))
        return [planned[number] for number in range(len(entries))]

    def _best_alone(
        self, entry: SettledEntry, chosen: _Choice, chosen_best: CandidatePrograms
    ) -> CandidatePrograms:
        """The best programs of an entry on the placement that is best for it alone."""
        others = sorted(
            (self._bound(entry, placement), number, placement)
            for number, placement in enumerate(placements(self._system.hierarchy, chosen.job.axes))
        )
        best = chosen_best
        for bound, _, placement in others:
            if bound >= best.ticks or not self._stop_flag.go_on():
                break
            candidate = self._best(entry, placement).what
            best = candidate if candidate.ticks < best.ticks else best
        return best


def settle_on_placement(
    system: System, workload: Workload, placement: tuple[tuple[int, ...], ...] | None
) -> list[SettledJob]:
    """The job with numbers only: for all possible sizes of its axes, or for those of a placement.

    Raises InputError where there are none; nothing is priced.
    """
    jobs = [settle_job(workload, sizes) for sizes in assignments(workload, system.devices)]
    settled = jobs if placement is None else [_set_axis_sizes(placement, jobs)]
    for job in settled:
        check_axes(system.hierarchy, job.axes)
        if placement is not None:
            Placement(system.hierarchy, job.axes, placement)
    return settled


def _set_axis_sizes(matrix: tuple[tuple[int, ...], ...], jobs: Sequence[SettledJob]) -> SettledJob:
    """The job whose axes have the sizes of a placement. Raises InputError if there is none."""
    sizes = [prod(row) for row in matrix]
    for job in jobs:
        if sizes == [axis.size for axis in job.axes]:
            return job
    rows = ", ".join(f"{axis.name} {size}" for axis, size in zip(jobs[0].axes, sizes, strict=False))
    hint = f"one row for each axis, with a product that the job allows; these are {rows}"
    raise InputError("the placement does not fit the job's axes", where="--placement", hint=hint)


def _best_so_far(best: Sequence[tuple[Fraction, int, _Choice]]) -> list[ProvisionalResult]:
    """The best placements so far, as progress reports show them."""
    return [
        ProvisionalResult(
            rank,
            choice.job.axes,
            choice.placement.matrix,
            "",
            float(total) / TICKS_PER_SECOND,
        )
        for rank, (total, _, choice) in enumerate(best, start=1)
    ]


def _weigh_estimate(job: SettledJob, ticks: tuple[int, ...] | list[int]) -> Fraction:
    return sum(
        (entry.weight * entry_ticks for entry, entry_ticks in zip(job.entries, ticks, strict=True)),
        Fraction(0),
    )
