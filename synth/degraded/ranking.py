"""The best programs for the devices that are left, ranked, proved at this size, and replayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from grammar import Collective, Goal
from hierarchies import Axis, InputError, System
from synth.collectives.algorithms import Choice
from synth.degraded.cores import Core, cores
from synth.degraded.lowering import phases, rehearsed
from synth.degraded.programs import GroupProgram, Survivors, level_programs
from synth.plan.library import Labels, Library
from synth.plan.request import Watcher
from synth.price.bound import Bound, bound_of_groups
from synth.price.segments import SEGMENTS, cheapest
from synth.price.step_prices import Simulator
from synth.price.steps import TICKS_PER_SECOND, StepPrice, limiting, total_seconds
from synth.semantics.programs import Language
from synth.semantics.schedule import GroupList
from synth.verify.concrete import GroupStep, prove_groups
from synth.verify.replay import Failure
from synth.verify.symbolic import Refuted, Verdict


@dataclass(frozen=True)
class UnevenRequest:
    """An all-reduce over all devices that are left. Raises InputError for numbers of no use."""

    payload_bytes: int = 2**30
    k: int = 10
    max_steps: int = 5
    choice: Choice = Choice.AUTO
    segments: tuple[int, ...] = SEGMENTS

    def __post_init__(self) -> None:
        if self.k < 1 or self.payload_bytes < 1:
            raise InputError(f"{self.k} answers for {self.payload_bytes} bytes", hint="1 at least")


@dataclass(frozen=True)
class UnevenCandidate:
    """A program of explicit groups with the prices of its phases, of one segment each."""

    ticks: int
    program: GroupProgram
    segments: int
    prices: tuple[StepPrice, ...]

    @property
    def key(self) -> tuple[int, int, str]:
        return self.ticks, len(self.program.steps), self.program.text

    @property
    def seconds(self) -> float:
        return self.ticks / TICKS_PER_SECOND

    @property
    def limited_by(self) -> str:
        return limiting(self.prices, self.segments)


@dataclass(frozen=True)
class UnevenAnswer:
    """A ranked candidate; ``verdict`` is of this size and these groups, not of all."""

    rank: int
    candidate: UnevenCandidate
    verdict: Verdict


@dataclass(frozen=True)
class EvenChoice:
    """What else one could do: run on an even part, without some devices."""

    core: Core
    candidate: UnevenCandidate


@dataclass(frozen=True)
class UnevenReport:
    """Answers, best first, among all ``programs`` of two families; and the choices beside them.

    ``flat_seconds`` is the plain all-reduce in one step and one segment. ``complete`` is False if
    the search was stopped.
    """

    survivors: Survivors
    request: UnevenRequest
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
    system: System,
    axes: Sequence[Axis],
    over: Sequence[str],
    request: UnevenRequest,
    watcher: Watcher | None = None,
) -> UnevenReport:
    """Rank the programs of both families exactly, and prove and replay the best at this size.

    Raises InputError unless there is one axis, of all devices that are left, and it is reduced.
    """
    watcher = watcher or Watcher()
    survivors = Survivors(system)
    axis = _only(axes, over, survivors)
    search = _Search(survivors, request, watcher)
    best, choices = search.run()
    answers = []
    for rank, found in enumerate(best, start=1):
        answers.append(UnevenAnswer(rank, found, judged(found.program, survivors.count)))
        watcher.judged(rank, len(best))
    everyone = [np.array(survivors.devices, dtype=np.int64)]
    return UnevenReport(
        survivors,
        request,
        axis,
        tuple(answers),
        choices,
        search.flat_seconds,
        bound_of_groups(system, everyone, request.payload_bytes, Goal.ALL_REDUCE),
        search.programs,
        search.complete,
    )


def judged(program: GroupProgram, ranks: int) -> Verdict:
    """The verdict of z3 on a program at this size.

    Raises AssertionError if a replay on arrays disagrees with a proof: that is our own bug.
    """
    verdict = prove_groups(program.steps, ranks, chunks=program.chunks)
    failure = rehearsed(program, ranks)
    if failure is not None and not isinstance(verdict, Refuted):
        raise AssertionError(f"{program.text}: {failure}, but {verdict}")
    return verdict


def _only(axes: Sequence[Axis], over: Sequence[str], survivors: Survivors) -> Axis:
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
    """Programs as paths of labels, one label a step, so that programs share the prices of steps.

    ``priced(label, payload_bytes)`` are the prices of a label's phases, for one segment of that
    many bytes; ``program(number)`` is the program of a path.
    """

    paths: Sequence[Labels]
    labels: int
    priced: Callable[[int, float], Sequence[StepPrice]]
    program: Callable[[int], GroupProgram]


class _Search:
    """Prices all programs of both families and keeps the best."""

    def __init__(self, survivors: Survivors, request: UnevenRequest, watcher: Watcher) -> None:
        self._survivors, self._request, self._watcher = survivors, request, watcher
        self._simulator = Simulator(survivors.system, request.choice)
        self._library = Library(Language(request.max_steps), watcher.searching)
        self._stopped = False
        self.flat_seconds = 0.0
        self.programs = 0

    @property
    def complete(self) -> bool:
        return self._library.complete and not self._stopped

    def run(self) -> tuple[list[UnevenCandidate], tuple[EvenChoice, ...]]:
        count, size = self._request.k, self._request.payload_bytes
        if self._survivors.count == 1:
            nothing = GroupProgram((), 1, ())
            return [UnevenCandidate(0, nothing, 1, ())], ()
        levels = self._of_levels()
        self.programs += len(levels.paths)
        self.flat_seconds = total_seconds(levels.priced(0, size))
        found = self._best(levels, count, None, lambda: True)
        limit = found[-1].ticks if len(found) == count else None
        choices = []
        for core in cores(self._survivors):
            if not self._go_on():
                break
            [alone] = self._best(self._on_core(core, ()), 1, None, self._go_on)
            choices.append(EvenChoice(core, alone))
            joined = self._on_core(core, core.ends)
            self.programs += len(joined.paths)
            found += self._best(joined, count, limit, self._go_on)
        unique = {
            one.program.steps: one for one in sorted(found, key=lambda c: c.key, reverse=True)
        }
        ranked = sorted(unique.values(), key=lambda one: one.key)
        return ranked[:count], tuple(choices)

    def _go_on(self) -> bool:
        going = self._watcher.go_on()
        self._stopped = self._stopped or not going
        return going

    def _best(
        self, family: _Family, count: int, limit: int | None, go_on: Callable[[], bool]
    ) -> list[UnevenCandidate]:
        """The best programs of a family, none above the limit."""
        size = self._request.payload_bytes
        works = {
            segments: [
                tuple(price.work for price in family.priced(label, size / segments))
                for label in range(family.labels)
            ]
            for segments in self._request.segments
        }
        made = []
        for one in cheapest(family.paths, works, count, limit, go_on):
            labels, each = family.paths[one.path], size / one.segments
            prices = tuple(price for label in labels for price in family.priced(label, each))
            program = family.program(one.path)
            made.append(UnevenCandidate(one.ticks, program, one.segments, prices))
        return sorted(made, key=lambda candidate: candidate.key)[:count]

    def _of_levels(self) -> _Family:
        """The *levels* family. Each kind of phase is a label; label 0 is the plain all-reduce."""
        programs = list(level_programs(self._survivors))
        labels: dict[_Kind, int] = {}
        paths = []
        for program in programs:
            steps = phases(program, self._survivors.devices, program.chunks)
            assert not isinstance(steps, Failure)
            path = []
            for one in steps:
                assert isinstance(one.among, GroupList)
                kind = one.collective, one.among, one.size_bytes / program.chunks
                path.append(labels.setdefault(kind, len(labels)))
            paths.append(tuple(path))
        kinds = list(labels)

        def priced(label: int, payload_bytes: float) -> Sequence[StepPrice]:
            collective, groups, share = kinds[label]
            return [self._simulator.exchange(collective, groups, share * payload_bytes)]

        return _Family(paths, len(labels), priced, programs.__getitem__)

    def _on_core(self, core: Core, ends: Sequence[GroupStep]) -> _Family:
        """The *core* family: any program on the core's tree, between the steps in ``ends``."""
        depth = len(core.tree.digits)
        paths, alphabet = self._library.paths(depth), self._library.graph(depth).alphabet
        texts = self._library.spellings(core.tree)
        outside = f"{sum(len(hosts) - 1 for hosts in core.hosts)} outside"
        if ends:
            paths = [(len(alphabet), *path, len(alphabet) + 1) for path in paths]
            texts = [*texts, f"reduce {outside} into the {core.text}", f"broadcast to {outside}"]
        steps = [*(core.step(move.instruction) for move in alphabet), *ends]

        def priced(label: int, payload_bytes: float) -> Sequence[StepPrice]:
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
