"""The best program for a goal, a payload and a placement: each is searched and proved once.

Every caller that needs the price of a collective uses this module: redistributions of a step, the
composed seconds of its plans, the placements of a job and the buckets of gradients. A price depends
on where the axes of a goal are placed, not on their names, so placements of one ``price_class``
share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

from grammar import (
    Across,
    Collective,
    Goal,
    Groups,
    InsideGroup,
    Instruction,
    Master,
    Parallel,
    Program,
    ProgramInstruction,
)
from hierarchies import Digit, Placement, Reduction, System, Tree
from hierarchies.fabric import price_class
from synth.cache.codec import Codec
from synth.cache.kept import KeptValues
from synth.collective.algorithms.algorithms import Algorithm, Choice
from synth.collective.algorithms.nccl_versions import NcclVersion
from synth.collective.algorithms.protocols import Protocol
from synth.collective.algorithms.runtimes import CollectiveRuntime
from synth.collective.price.bound import Bound, Cuts, cuts_of
from synth.collective.price.defaults import RuntimeDefaults, defaults
from synth.collective.price.intervals import Interval
from synth.collective.price.resolution import PriceErrorSource, PriceEstimate, estimate_price
from synth.collective.price.segments import SEGMENTS, bound_ticks
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import InstructionPrice, total_seconds
from synth.collective.ranking.answers import AnswerRequest, prove_answers, unproved_answer
from synth.collective.ranking.candidates import CandidatePrograms, CandidateSearch
from synth.collective.ranking.distinct import DistinctAnswer
from synth.collective.ranking.how_to_get import seconds_as_advised
from synth.collective.ranking.library import Library
from synth.collective.ranking.request import (
    Answer,
    Candidate,
    PricedStripe,
    ProgramPart,
    Request,
    Watcher,
)
from synth.collective.ranking.settings import RuntimeCall, RuntimeCalls
from synth.collective.semantics.programs import Language, ShouldContinue, never_stop
from synth.collective.semantics.rules import Derivation
from synth.collective.verify.verdict import Proved
from synth.events.overlap import Lane, PhaseWork
from synth.search.forks import WorkControl, map_in_forks

ANSWERS_KEPT = 2048
"""Number of answers in memory; one takes about 5 kB."""

KEPT = KeptValues[Answer](
    "answer",
    Codec(
        *(Answer, Candidate, ProgramPart, PricedStripe, RuntimeCalls, RuntimeCall, Lane, PhaseWork),
        *(InstructionPrice, PriceEstimate, PriceErrorSource, Interval, Bound, RuntimeDefaults),
        *(CollectiveRuntime, NcclVersion, Algorithm, Protocol, Derivation, Proved, Tree, Digit),
        *(Program, ProgramInstruction, InsideGroup, Parallel, Master, Across),
        *(Instruction, Groups, Collective, Goal),
    ),
    ANSWERS_KEPT,
)
"""Proved answers, without their placement: all placements of a price class share an answer."""

_Key = tuple[Goal, int, object]
"""A goal, its bytes, and where its axes are placed."""


@dataclass(frozen=True)
class PlacedGoal:
    """A goal for a payload over the reduced axes of a placement."""

    goal: Goal
    payload_bytes: int
    reduction: Reduction

    @classmethod
    def of(cls, request: Request, system: System) -> PlacedGoal:
        """Returns the goal of a request, which has a placement."""
        assert request.placement is not None
        placement = Placement(system.hierarchy, request.axes, request.placement)
        reduction = Reduction(placement, request.over, request.collapse)
        return cls(request.goal, request.payload_bytes, reduction)


def never_end() -> bool:
    """Returns True: for searches that are never stopped."""
    return True


class ProgramPrices:
    """The best programs on one system with one choice of algorithms. Mutable: it caches them.

    Proved answers are kept for later questions, unless a search might be stopped early.

    ``segments`` and ``stripes`` are the planner's; ``language`` holds for every goal. Searches end
    early once ``go_on`` returns False, and listing programs once ``searching`` does. ``libraries``
    may be shared with others who use the same languages.
    """

    def __init__(
        self,
        system: System,
        choice: Choice = Choice.AUTO,
        *,
        language: Language | None = None,
        segments: tuple[int, ...] = SEGMENTS,
        stripes: bool = True,
        libraries: dict[Goal, Library] | None = None,
        go_on: Callable[[], bool] = never_end,
        searching: ShouldContinue = never_stop,
    ) -> None:
        self.system = system
        self.choice = choice
        self._language = language or Language()
        self._segments, self._stripes = segments, stripes
        self._go_on, self._searching = go_on, searching
        self._libraries = {} if libraries is None else libraries
        self._best: dict[_Key, DistinctAnswer[CandidatePrograms]] = {}
        self._answers: dict[_Key, Answer] = {}
        self._cuts: dict[tuple[Goal, object], Cuts] = {}
        self._defaults: dict[_Key, RuntimeDefaults] = {}

    @cached_property
    def simulator(self) -> Simulator:
        """Prices of single steps."""
        return Simulator(self.system, self.choice)

    @property
    def complete(self) -> bool:
        """Whether no list of programs was stopped early."""
        return all(library.complete for library in self._libraries.values())

    @property
    def size(self) -> int:
        """The number of goals whose best programs or answers are known."""
        return max(len(self._best), len(self._answers))

    def library(self, goal: Goal) -> Library:
        """Returns the programs for a goal."""
        if goal not in self._libraries:
            language = replace(self._language, goal=goal)
            self._libraries[goal] = Library(language, self._searching)
        return self._libraries[goal]

    def bound_ticks(self, placed: PlacedGoal) -> int:
        """Returns a lower bound, in ticks, on every program."""
        goal, size, class_ = self._key(placed)
        if (goal, class_) not in self._cuts:
            self._cuts[goal, class_] = cuts_of(self.system, placed.reduction, goal)
        return int(bound_ticks(self._cuts[goal, class_].bound(size).seconds))

    def default(self, placed: PlacedGoal) -> RuntimeDefaults:
        """Returns the default of the runtime."""
        key = self._key(placed)
        if key not in self._defaults:
            size, goal = placed.payload_bytes, placed.goal
            self._defaults[key] = defaults(self.simulator, placed.reduction, size, goal)
        return self._defaults[key]

    def best(self, placed: PlacedGoal) -> DistinctAnswer[CandidatePrograms]:
        """Returns the best programs, not proved yet."""
        key = self._key(placed)
        if key not in self._best:
            self._best[key] = self._search(placed)
        best = self._best[key]
        return replace(best, what=replace(best.what, reduction=placed.reduction))

    def advised_seconds(self, placed: PlacedGoal) -> float:
        """Returns the seconds of the advised execution: the best programs, or the default.

        Does not search when no program can surely beat the default, and proves nothing.
        """
        default = self.default(placed).baseline
        ticks = sum(instruction.ticks for instruction in default)
        most = estimate_price(self.system, ticks, default).most_below
        ranked = self.bound_ticks(placed) <= most and self._search_of(placed).distinct(
            placed.reduction, 1, most
        )
        if not ranked:
            return total_seconds(default)
        size, goal = placed.payload_bytes, placed.goal
        return seconds_as_advised(unproved_answer(self.simulator, ranked[0].what, goal, size))

    def answer(self, placed: PlacedGoal) -> Answer:
        """Returns the best answer, proved."""
        key = self._key(placed)
        if key not in self._answers:
            self.prove([placed], Watcher())
        answer = self._answers[key]
        return replace(answer, candidate=replace(answer.candidate, reduction=placed.reduction))

    def search(self, several: Iterable[PlacedGoal], crew: WorkControl) -> dict[_Key, PlacedGoal]:
        """Finds the best programs for goals in the processes of ``crew``, until it stops.

        ``several`` is read when a process is free. Returns the goals whose programs are known then,
        one of each class.
        """
        asked: dict[_Key, PlacedGoal] = {}
        coming = self._list_unknown(several, asked)
        found = [*map_in_forks(self._search, coming, crew, known=self._count_trees)]
        unknown = [key for key in asked if key not in self._best]
        self._best.update(zip(unknown, found, strict=False))
        return {key: placed for key, placed in asked.items() if key in self._best}

    def prove(self, several: Iterable[PlacedGoal], crew: WorkControl) -> None:
        """Finds the best answers to goals as ``search`` does, and proves every answer found."""
        groups: dict[Goal, dict[_Key, AnswerRequest]] = {}
        unknown = (placed for placed in several if not self._recall(placed))
        found = self.search(unknown, crew)
        for key, placed in found.items():
            request = AnswerRequest(1, self._best[key], placed.payload_bytes)
            groups.setdefault(placed.goal, {})[key] = request
        proving = _ProofWatcher(crew)
        for goal, requests in groups.items():
            wanted = [*requests.values()]
            answers = prove_answers(self.simulator, wanted, proving, self.library(goal))
            self._answers.update(zip(requests, answers, strict=True))
        for key, placed in found.items():
            self._keep(placed, self._answers[key])

    def _recall(self, placed: PlacedGoal) -> bool:
        """Whether the answer to a goal is known, in memory or from an earlier question."""
        key = self._key(placed)
        if key not in self._answers and self._whole:
            kept = KEPT.find(self._name(placed))
            if kept is not None:
                candidate = replace(kept.candidate, reduction=placed.reduction)
                self._answers[key] = replace(kept, candidate=candidate)
        return key in self._answers

    def _keep(self, placed: PlacedGoal, answer: Answer) -> None:
        """Keeps an answer if it is proved and no search was or will be stopped."""
        if self._whole and all(isinstance(stripe.verdict, Proved) for stripe in answer.stripes):
            nowhere: Any = None
            candidate = replace(answer.candidate, reduction=nowhere)
            KEPT.keep(self._name(placed), replace(answer, candidate=candidate))

    @cached_property
    def _whole(self) -> bool:
        """Whether no search can be stopped early."""
        return self._go_on is never_end and self._searching is never_stop

    @cached_property
    def _settings(self) -> str:
        """A digest of all that every answer depends on."""
        settings = self.system, self.choice, self._language, self._segments, self._stripes
        return sha256(repr(settings).encode()).hexdigest()

    def _name(self, placed: PlacedGoal) -> str:
        """Returns the key of a kept answer. Its texts have the names of the tree's digits."""
        return f"{self._settings} {self._key(placed)!r} {placed.reduction.tree!r}"

    def _key(self, placed: PlacedGoal) -> _Key:
        return placed.goal, placed.payload_bytes, price_class(self.system, placed.reduction)

    def _list_unknown(
        self, several: Iterable[PlacedGoal], asked: dict[_Key, PlacedGoal]
    ) -> Iterator[PlacedGoal]:
        """Yields goals whose best programs are not known, each once; adds all to ``asked``.

        Loads the programs of each goal first, so that forked processes inherit them.
        """
        for placed in several:
            key = self._key(placed)
            if asked.setdefault(key, placed) is placed and key not in self._best:
                self.library(placed.goal).paths(len(placed.reduction.tree.digits))
                yield placed

    def _count_trees(self) -> int:
        """Returns the number of trees whose programs are known, in all languages."""
        return sum(library.known() for library in self._libraries.values())

    def _search(self, placed: PlacedGoal) -> DistinctAnswer[CandidatePrograms]:
        [best] = self._search_of(placed).distinct(placed.reduction, 1)
        return best

    def _search_of(self, placed: PlacedGoal) -> CandidateSearch:
        return CandidateSearch(
            self.library(placed.goal),
            self.simulator,
            placed.payload_bytes,
            self._segments,
            stripes=self._stripes,
            go_on=self._go_on,
        )


class _ProofWatcher(Watcher):
    """Proves in the processes of another control, but does not stop when that should stop.

    Programs that were already found are worth proving.
    """

    def __init__(self, crew: WorkControl) -> None:
        self._crew = crew

    @property
    def processes(self) -> int:
        return self._crew.processes
