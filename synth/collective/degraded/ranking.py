"""The best programs for the present devices, ranked, proved at this size, and replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from math import inf

import numpy as np

from grammar import Collective, Goal
from hierarchies import Axis, InputError, System
from synth.collective.degraded.cores import EvenCore, find_cores
from synth.collective.degraded.lowering import (
    phases_of_program,
    rehearse_on_integers,
    spell_out_pieces,
)
from synth.collective.degraded.programs import GroupProgram, Survivors, level_programs
from synth.collective.price.bound import Bound, bound_of_groups
from synth.collective.price.resolution import PriceEstimate, estimate_as_shown, estimate_price
from synth.collective.price.segments import Choices, PathRanking, cheapest_paths
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import (
    TICKS_PER_SECOND,
    InstructionPrice,
    limiting_resource,
    total_seconds,
)
from synth.collective.ranking.distinct import AnswerGrouping, DistinctAnswer, Member
from synth.collective.ranking.library import Labels, Library
from synth.collective.ranking.request import DefaultComparison, Request, Watcher
from synth.collective.semantics.programs import Language
from synth.collective.semantics.schedule import GroupList
from synth.collective.verify.concrete import GroupStep, prove_groups
from synth.collective.verify.replay import Failure
from synth.collective.verify.symbolic import Refuted, Verdict


@dataclass(frozen=True)
class UnevenCandidate:
    """A program of explicit groups with the prices of its phases, for one segment each."""

    ticks: int
    program: GroupProgram
    segments: int
    prices: tuple[InstructionPrice, ...]

    @property
    def key(self) -> tuple[int, int, str]:
        return self.ticks, len(self.program.steps), self.program.text

    @property
    def seconds(self) -> float:
        return self.ticks / TICKS_PER_SECOND

    @property
    def limited_by(self) -> str:
        return limiting_resource(self.prices, self.segments)


@dataclass(frozen=True)
class UnevenAnswer:
    """A ranked candidate; ``verdict`` holds for this size and these groups only.

    It stands for ``others`` that prices cannot distinguish from it; ``against_default`` compares it
    with the plain all-reduce.
    """

    rank: int
    candidate: UnevenCandidate
    verdict: Verdict
    against_default: DefaultComparison
    others: int = 0


@dataclass(frozen=True)
class EvenChoice:
    """An alternative: a run on an even part of the machine, without some devices."""

    core: EvenCore
    candidate: UnevenCandidate


@dataclass(frozen=True)
class UnevenReport:
    """Answers, best first, among all ``programs`` of two families, and the even alternatives.

    ``flat_seconds`` is the plain all-reduce in one step and one segment. ``complete`` is False if
    the search was stopped.
    """

    survivors: Survivors
    request: Request
    axis: Axis
    answers: tuple[UnevenAnswer, ...]
    choices: tuple[EvenChoice, ...]
    flat_seconds: float
    bound: Bound
    programs: int
    complete: bool

    @property
    def system(self) -> System:
        return self.survivors.system


def uneven_answers(
    system: System, request: Request, watcher: Watcher | None = None
) -> UnevenReport:
    """Ranks the programs of both families exactly; proves and replays the best at this size.

    Raises InputError unless there is one axis, of all present devices, and it is reduced; and as
    ``check_uneven``.
    """
    watcher = watcher or Watcher()
    check_uneven(request)
    survivors = Survivors(system)
    axis = only_axis(request.axes, request.over, survivors)
    search = _FamilySearch(survivors, request, watcher)
    best, choices = search.run()
    answers = []
    for rank, answer in enumerate(best, start=1):
        verdict = judge_program(answer.what.program, survivors.count)
        comparison = _compare_with_plain(system, answer.what, search.flat)
        answers.append(UnevenAnswer(rank, answer.what, verdict, comparison, answer.others))
        watcher.judged(rank, len(best))
    all_devices = [np.array(survivors.devices, dtype=np.int64)]
    return UnevenReport(
        survivors,
        request,
        axis,
        tuple(answers),
        choices,
        total_seconds(search.flat),
        bound_of_groups(system, all_devices, request.payload_bytes, Goal.ALL_REDUCE),
        search.programs,
        search.complete,
    )


def check_uneven(request: Request) -> None:
    """Raises InputError for requests that are not supported on a machine without some devices."""
    if request.goal is not Goal.ALL_REDUCE:
        raise InputError(
            f"{request.goal.value} on a machine that lacks devices",
            hint="only all-reduces are looked for there",
        )
    if request.placement is not None or request.per_placement:
        raise InputError(
            "a placement on a machine that lacks devices", hint="there is one axis, of all devices"
        )


def _compare_with_plain(
    system: System, candidate: UnevenCandidate, flat: Sequence[InstructionPrice]
) -> DefaultComparison:
    """How a candidate compares with the plain all-reduce, within the prices' uncertainty."""
    estimate = estimate_price(system, candidate.ticks, candidate.segments * candidate.prices)
    default = estimate_price(system, sum(price.ticks for price in flat), flat)
    if estimate.surely_below(default):
        return DefaultComparison.FASTER
    return DefaultComparison.SLOWER if default.surely_below(estimate) else DefaultComparison.SAME


def judge_program(program: GroupProgram, ranks: int) -> Verdict:
    """The verdict of z3 on a program at this size.

    Raises AssertionError if a replay on arrays disagrees with a proof: that is our own bug.
    """
    verdict = prove_groups(program.steps, ranks, chunks=program.chunks)
    failure = rehearse_on_integers(program, ranks)
    # z3 may give up, so an Unknown with a failing replay is an error as well.
    if failure is not None and not isinstance(verdict, Refuted):
        raise AssertionError(f"{program.text}: {failure}, but {verdict}")
    return verdict


def only_axis(axes: Sequence[Axis], over: Sequence[str], survivors: Survivors) -> Axis:
    """The only axis, of all present devices. Raises InputError for any other axes."""
    if len(axes) != 1 or list(over) != [axes[0].name] or axes[0].size != survivors.count:
        given = ", ".join(f"{axis.name}={axis.size}" for axis in axes) or "no axis"
        raise InputError(
            f"{given} over {', '.join(over) or 'nothing'} on {survivors.count} devices "
            f"({survivors.units_left()})",
            hint=f"on a machine that lacks devices: one axis of all that are left, reduced "
            f"over, as in data={survivors.count}",
        )
    return axes[0]


_Kind = tuple[Collective, GroupList, float]
"""A collective, its groups, and the largest buffer of a member as a share of the payload."""


@dataclass(frozen=True)
class _Family:
    """Programs as paths of labels, one label per step, so that programs share the prices of steps.

    ``priced(label, payload_bytes)`` are the prices of a label's phases, for one segment of
    ``payload_bytes``; ``program(number)`` is the program of a path.
    """

    paths: Sequence[Labels]
    labels: int
    priced: Callable[[int, float], Sequence[InstructionPrice]]
    program: Callable[[int], GroupProgram]


class _FamilySearch:
    """Prices all programs of both families and keeps the best."""

    def __init__(self, survivors: Survivors, request: Request, watcher: Watcher) -> None:
        self._survivors, self._request, self._watcher = survivors, request, watcher
        self._simulator = Simulator(survivors.system, request.choice)
        self._library = Library(Language(request.language.max_steps), watcher.searching)
        self._stopped = False
        self.flat: Sequence[InstructionPrice] = ()
        self.programs = 0

    @property
    def complete(self) -> bool:
        return self._library.complete and not self._stopped

    def run(self) -> tuple[list[DistinctAnswer[UnevenCandidate]], tuple[EvenChoice, ...]]:
        if self._survivors.count == 1:
            nothing = UnevenCandidate(0, GroupProgram((), 1, ()), 1, ())
            return [DistinctAnswer(nothing, PriceEstimate(0), 0, 0)], ()
        levels = self._level_family()
        self.flat = levels.priced(0, self._request.payload_bytes)
        families, choices = [levels], []
        for core in find_cores(self._survivors):
            if not self._go_on():
                break
            [alone] = self._cheapest(self._core_family(core, ()), 1, None, self._go_on)
            choices.append(EvenChoice(core, alone))
            families.append(self._core_family(core, core.ends))
        self.programs = sum(len(family.paths) for family in families)
        best = (
            self._rank_exactly(families) if self._request.exact else self._rank_distinct(families)
        )
        return best, tuple(choices)

    def _rank_exactly(self, families: Sequence[_Family]) -> list[DistinctAnswer[UnevenCandidate]]:
        """The cheapest programs of all families, each an answer of its own."""
        candidates: list[UnevenCandidate] = []
        for family in families:
            kth = sorted(candidate.ticks for candidate in candidates)[: self._request.k][-1:]
            limit = kth[0] if len(candidates) >= self._request.k else None
            go_on = self._go_on if candidates else lambda: True
            candidates += self._cheapest(family, self._request.k, limit, go_on)
        unique = {
            candidate.program.steps: candidate
            for candidate in sorted(candidates, key=lambda c: c.key, reverse=True)
        }
        ranked = sorted(unique.values(), key=lambda candidate: candidate.key)[: self._request.k]
        return [DistinctAnswer(c, PriceEstimate(c.ticks), 0, c.ticks) for c in ranked]

    def _rank_distinct(self, families: Sequence[_Family]) -> list[DistinctAnswer[UnevenCandidate]]:
        """The answers of all families that prices can distinguish."""
        grouping: AnswerGrouping[UnevenCandidate] = AnswerGrouping()
        rankings = [PathRanking(family.paths, self._phase_works(family)) for family in families]
        orders = [_ranked_paths(number, ranking) for number, ranking in enumerate(rankings)]
        first = True
        for ticks, number, segments, path in merge(*orders):
            if grouping.settle_up_to(self._request.k, ticks) or not (first or self._go_on()):
                break
            first = False
            candidate = self._candidate(families[number], path, segments, ticks)
            estimate = estimate_as_shown(self._survivors.system, ticks, segments * candidate.prices)
            simplicity = (1, segments, len(candidate.program.steps), (candidate.program.text,))
            grouping.add(Member(estimate, simplicity, candidate.program.steps, candidate))
        grouping.settle_up_to(self._request.k, inf)
        return grouping.answers()

    def _phase_works(self, family: _Family) -> dict[int, list[Choices]]:
        """The phases of every label of a family, for each number of segments."""
        size = self._request.payload_bytes
        return {
            segments: [
                (tuple(price.work for price in family.priced(label, size / segments)),)
                for label in range(family.labels)
            ]
            for segments in self._request.segments
        }

    def _candidate(self, family: _Family, path: int, segments: int, ticks: int) -> UnevenCandidate:
        segment_bytes = self._request.payload_bytes / segments
        prices = tuple(
            p for label in family.paths[path] for p in family.priced(label, segment_bytes)
        )
        program = spell_out_pieces(family.program(path), self._survivors.count)
        return UnevenCandidate(ticks, program, segments, prices)

    def _go_on(self) -> bool:
        going = self._watcher.go_on()
        self._stopped = self._stopped or not going
        return going

    def _cheapest(
        self, family: _Family, count: int, limit: int | None, go_on: Callable[[], bool]
    ) -> list[UnevenCandidate]:
        """The best programs of a family, none above the limit."""
        ranking = PathRanking(family.paths, self._phase_works(family))
        candidates = [
            self._candidate(family, priced.path, priced.segments, priced.ticks)
            for priced in cheapest_paths(ranking, count, limit, go_on)
        ]
        return sorted(candidates, key=lambda candidate: candidate.key)[:count]

    def _level_family(self) -> _Family:
        """The *levels* family. Each kind of phase is a label; label 0 is the plain all-reduce."""
        programs = list(level_programs(self._survivors))
        labels: dict[_Kind, int] = {}
        paths = []
        for program in programs:
            steps = phases_of_program(program, self._survivors.devices, program.chunks)
            assert not isinstance(steps, Failure)
            path = []
            for phase in steps:
                assert isinstance(phase.among, GroupList)
                kind = phase.collective, phase.among, phase.size_bytes / program.chunks
                path.append(labels.setdefault(kind, len(labels)))
            paths.append(tuple(path))
        kinds = list(labels)

        def priced(label: int, payload_bytes: float) -> Sequence[InstructionPrice]:
            collective, groups, share = kinds[label]
            return [self._simulator.exchange(collective, groups, share * payload_bytes)]

        return _Family(paths, len(labels), priced, programs.__getitem__)

    def _core_family(self, core: EvenCore, ends: Sequence[GroupStep]) -> _Family:
        """The *core* family: any program on the core's tree, between the steps in ``ends``."""
        depth = len(core.tree.digits)
        paths, alphabet = self._library.paths(depth), self._library.graph(depth).alphabet
        texts = self._library.spellings(core.tree)
        outside = f"{sum(len(hosts) - 1 for hosts in core.hosts)} outside"
        if ends:
            paths = [(len(alphabet), *path, len(alphabet) + 1) for path in paths]
            texts = [*texts, f"reduce {outside} into the {core.text}", f"broadcast to {outside}"]
        steps = [*(core.step(move.instruction) for move in alphabet), *ends]

        def priced(label: int, payload_bytes: float) -> Sequence[InstructionPrice]:
            if label < len(alphabet):
                return self._simulator.move(alphabet[label], core, payload_bytes)
            end = steps[label]
            groups = self._survivors.listed(end)
            return [self._simulator.exchange(end.collective, groups, payload_bytes)]

        def program(number: int) -> GroupProgram:
            labels = paths[number]
            return GroupProgram(
                tuple(steps[label] for label in labels),
                max(1, core.tree.devices),
                tuple(texts[label] for label in labels),
            )

        return _Family(paths, len(steps), priced, program)


def _ranked_paths(number: int, ranking: PathRanking) -> Iterator[tuple[int, int, int, int]]:
    """The paths of a family by price: ticks, the family, the segments, the path."""
    for priced in ranking:
        yield priced.ticks, number, priced.segments, priced.path
