"""The best programs for the devices that are left, ranked, proved at this size, and replayed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from grammar import Collective, Goal
from hierarchies import Axis, InputError, System
from synth.collectives.algorithms import Choice
from synth.degraded.cores import Core, cores
from synth.degraded.pricing import CorePrices, GroupPricer
from synth.degraded.programs import GroupProgram, Survivors, level_programs
from synth.degraded.replay import compared
from synth.plan.library import Library
from synth.plan.request import Watcher
from synth.price.bound import Bound, bound_of_groups
from synth.price.segments import SEGMENTS, cheapest, price_ticks
from synth.price.steps import TICKS_PER_SECOND, StepPrice, limiting
from synth.semantics.programs import Language
from synth.verify.concrete import prove_groups
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
    """What z3 says of a program at this size.

    Raises AssertionError if arrays disagree with a proof, which is a mistake of ours.
    """
    verdict = prove_groups(program.steps, ranks, chunks=program.chunks)
    failure = compared(program.steps, program.chunks, ranks)
    if (failure is not None) is not isinstance(verdict, Refuted) and failure is not None:
        raise AssertionError(f"{program.text}: {failure}, but {verdict}")
    return verdict


def _only(axes: Sequence[Axis], over: Sequence[str], survivors: Survivors) -> Axis:
    if len(axes) != 1 or list(over) != [axes[0].name] or axes[0].size != survivors.count:
        told = ", ".join(f"{axis.name}={axis.size}" for axis in axes) or "no axis"
        raise InputError(
            f"{told} over {', '.join(over) or 'nothing'} on {survivors.count} devices "
            f"({survivors.told()})",
            hint=f"on a machine that lacks devices: one axis of all that are left, reduced "
            f"over, as in data={survivors.count}",
        )
    return axes[0]


class _Search:
    """Prices all programs of both families and keeps the best."""

    def __init__(self, survivors: Survivors, request: UnevenRequest, watcher: Watcher) -> None:
        self._survivors, self._request, self._watcher = survivors, request, watcher
        self._pricer = GroupPricer(survivors, request.choice)
        self._library = Library(Language(request.max_steps), watcher.searching)
        self._stopped = False
        self.flat_seconds = 0.0
        self.programs = 0

    @property
    def complete(self) -> bool:
        return self._library.complete and not self._stopped

    def run(self) -> tuple[list[UnevenCandidate], tuple[EvenChoice, ...]]:
        if self._survivors.count == 1:
            nothing = GroupProgram((), 1, ())
            return [UnevenCandidate(0, nothing, 1, ())], ()
        found = list(self._of_levels())
        ticks = sorted(one.ticks for one in found)[: self._request.k]
        limit = ticks[-1] if len(ticks) == self._request.k else None
        choices = []
        for core in cores(self._survivors):
            if not self._go_on():
                break
            alphabet = self._library.graph(len(core.tree.digits)).alphabet
            prices = self._pricer.on_core(core, alphabet)
            alone, *_ = self._on_core(prices, 1, joined=False)
            choices.append(EvenChoice(core, alone))
            found += self._on_core(prices, self._request.k, limit, joined=True)
        unique = {
            one.program.steps: one for one in sorted(found, key=lambda c: c.key, reverse=True)
        }
        ranked = sorted(unique.values(), key=lambda one: one.key)
        return ranked[: self._request.k], tuple(choices)

    def _go_on(self) -> bool:
        going = self._watcher.go_on()
        self._stopped = self._stopped or not going
        return going

    def _of_levels(self) -> Iterator[UnevenCandidate]:
        size = self._request.payload_bytes
        for number, program in enumerate(level_programs(self._survivors)):
            steps = self._pricer.program(program)
            self.programs += 1
            tried = []
            for segments in self._request.segments:
                prices = tuple(step.price(size / segments) for step in steps)
                ticks = price_ticks([price.work for price in prices], segments)
                tried.append((ticks, segments, prices))
            if number == 0:
                self.flat_seconds = sum(s.price(size).ticks for s in steps) / TICKS_PER_SECOND
            ticks, segments, prices = min(tried, key=lambda one: one[:2])
            yield UnevenCandidate(ticks, program, segments, prices)

    def _on_core(
        self, prices: CorePrices, count: int, limit: int | None = None, *, joined: bool
    ) -> list[UnevenCandidate]:
        """The best programs on a core, none above the limit, those outside joined or left out."""
        core, size = prices.core, self._request.payload_bytes
        depth = len(core.tree.digits)
        paths, alphabet = self._library.paths(depth), self._library.graph(depth).alphabet
        ends = [core.joined(one) for one in (Collective.REDUCE, Collective.BROADCAST)]
        ends = ends if joined and core.hosts else []
        around = [self._pricer.whole(step) for step in ends]
        self.programs += len(paths) if joined else 0
        works = {
            segments: [
                *(prices.works(move, size / segments) for move in alphabet),
                *((step.price(size / segments).work,) for step in around),
            ]
            for segments in self._request.segments
        }
        labels = len(alphabet)
        given = [(labels, *path, labels + 1) for path in paths] if ends else paths
        texts = self._library.spellings(core.tree)
        made = []
        for one in cheapest(given, works, count, limit, self._go_on):
            moves = [alphabet[label] for label in paths[one.path]]
            each = size / one.segments
            phases = [price for move in moves for price in prices.phases(move, each)]
            steps = tuple(prices.steps[move.instruction] for move in moves)
            said = tuple(texts[label] for label in paths[one.path])
            if ends:
                phases = [around[0].price(each), *phases, around[1].price(each)]
                steps = (ends[0], *steps, ends[1])
                said = (f"reduce {_outside(core)} into the {core.told}", *said,
                        f"broadcast to {_outside(core)}")  # fmt: skip
            program = GroupProgram(steps, max(1, core.tree.devices), said)
            made.append(UnevenCandidate(one.ticks, program, one.segments, tuple(phases)))
        return sorted(made, key=lambda candidate: candidate.key)[:count]


def _outside(core: Core) -> str:
    senders = sum(len(hosts) - 1 for hosts in core.hosts)
    return f"{senders} outside"
