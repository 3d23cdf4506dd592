"""Seconds of a redistribution on a machine: the planner's answers to its requests.

Bytes that must be sent bound a path from below; how long it takes the machine says. So the paths
of the least bytes and those of the fewest requests are both answered, and the fastest is taken: a
small value is not worth four requests that save a third of its bytes. Every request has its
answer, a proved program with its price; what goes point to point is priced link by link. Local
moves are not priced. Which is the fastest is asked of what runs: a program where the answer
advises it, else the runtime's own choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from grammar import Goal
from grammar.tensors.sharding import Sharding, Type
from hierarchies import InputError, Placement, Reduction, System
from synth.collective.algorithms.algorithms import Choice
from synth.collective.price.segments import SEGMENTS
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import InstructionPrice
from synth.collective.ranking.candidates import CandidatePrograms, CandidateSearch
from synth.collective.ranking.distinct import DistinctAnswer
from synth.collective.ranking.how_to_get import seconds_as_advised
from synth.collective.ranking.library import Library
from synth.collective.ranking.planner import AnswerRequest, make_answers
from synth.collective.ranking.request import Answer, Request, Watcher
from synth.collective.semantics.point_to_point import PointToPoint
from synth.collective.semantics.programs import Language
from synth.search.forks import WorkControl, map_in_forks
from synth.step.point_to_point import price_transfer
from synth.step.redistribution.moves import RedistributionPath
from synth.step.redistribution.paths import CostPriority, MoveFilter, allow_all, find_paths
from synth.step.redistribution.requests import Communication, list_communications

_Key = tuple[Goal, int, object]
"""Of a request: what is asked for, its bytes, and where its axes lie."""


@dataclass(frozen=True)
class PricedCommunication:
    """A communication and what the planner says: its best program, or the price of a transfer."""

    communication: Communication
    answer: Answer | InstructionPrice

    @property
    def seconds(self) -> float:
        match self.answer:
            case InstructionPrice(seconds=seconds):
                return seconds
            case answer:
                return answer.candidate.seconds

    @property
    def run_seconds(self) -> float:
        """What it takes to do as the answer advises."""
        match self.answer:
            case InstructionPrice(seconds=seconds):
                return seconds
            case answer:
                return seconds_as_advised(answer)


@dataclass(frozen=True)
class Redistribution:
    """A path on a machine, with the answer to each of its requests."""

    path: RedistributionPath
    requests: tuple[PricedCommunication, ...]

    @property
    def seconds(self) -> float:
        """One request after the other; what is local is not counted."""
        return sum(one.seconds for one in self.requests)

    @property
    def run_seconds(self) -> float:
        """The same of what is advised."""
        return sum(one.run_seconds for one in self.requests)


class RequestAnswers:
    """The best answers to requests on a system; ``max_steps``, ``segments`` and ``stripes`` are the
    planner's.

    An answer depends on where the axes lie that a request is over, not on what they or others are
    called. So what was asked before is kept for all placements; the first one's names stand in it.
    ``libraries`` are those of such languages, which others may know, too.
    """

    def __init__(
        self,
        system: System,
        *,
        max_steps: int = Language.max_steps,
        segments: tuple[int, ...] = SEGMENTS,
        stripes: bool = True,
        libraries: dict[Goal, Library] | None = None,
    ) -> None:
        self.system = system
        self._max_steps = max_steps
        self._segments, self._stripes = segments, stripes
        self._known: dict[_Key, Answer] = {}
        self._libraries = {} if libraries is None else libraries
        self._simulators: dict[Choice, Simulator] = {}

    def best(self, request: Request) -> Answer:
        """The best answer to a request on one placement."""
        key = _key(request)
        if key not in self._known:
            self.ask([request], Watcher())
        return self._known[key]

    def ask(self, several: Iterable[Request], crew: WorkControl) -> None:
        """Find the best answers to requests on one placement each, as long as there may go on.

        By as many processes as there may be; each is asked for when one is free to begin it. Each
        program of a language is proved once.
        """
        unknown: dict[_Key, Request] = {}
        coming = self._unknown(several, unknown)
        priced = [*map_in_forks(self._searched, coming, crew, known=self._programs)]
        alike: dict[tuple[Goal, Choice], list[tuple[_Key, DistinctAnswer[CandidatePrograms]]]] = {}
        for (key, one), best in zip(unknown.items(), priced, strict=False):
            alike.setdefault((one.goal, one.choice), []).append((key, best))
        for (goal, choice), some in alike.items():
            wanted = [AnswerRequest(1, best, key[1]) for key, best in some]
            told = self._simulator(choice), wanted, _ProofWatcher(crew), self._library(goal)
            keys = (key for key, _ in some)
            self._known.update(zip(keys, make_answers(*told)[0], strict=True))

    def _unknown(
        self, several: Iterable[Request], unknown: dict[_Key, Request]
    ) -> Iterator[Request]:
        """Those that are not, each once, which are noted; forks are to know all programs."""
        for one in several:
            key = _key(one)
            if key not in self._known and key not in unknown:
                unknown[key] = one
                self._library(one.goal).paths(len(_reduction(self.system, one).tree.digits))
                yield one

    def _programs(self) -> int:
        """Of how many trees the programs are known, in all languages."""
        return sum(one.known() for one in self._libraries.values())

    def _searched(self, request: Request) -> DistinctAnswer[CandidatePrograms]:
        """The best program for a request."""
        library, simulator = self._library(request.goal), self._simulator(request.choice)
        how = request.payload_bytes, self._segments
        search = CandidateSearch(library, simulator, *how, stripes=self._stripes)
        [found] = search.distinct(_reduction(self.system, request), 1)
        return found

    def _library(self, goal: Goal) -> Library:
        language = Language(self._max_steps, goal=goal)
        return self._libraries.setdefault(goal, Library(language))

    def _simulator(self, choice: Choice) -> Simulator:
        return self._simulators.setdefault(choice, Simulator(self.system, choice))


class _ProofWatcher(Watcher):
    """By as many processes as another: what was found is proved, though that is to stop."""

    def __init__(self, crew: WorkControl) -> None:
        self._crew = crew

    @property
    def processes(self) -> int:
        return self._crew.processes


def _key(request: Request) -> _Key:
    return request.goal, request.payload_bytes, _placement_key(request)


def _reduction(system: System, request: Request) -> Reduction:
    assert request.placement is not None
    placement = Placement(system.hierarchy, request.axes, request.placement)
    return Reduction(placement, request.over, request.collapse)


def _placement_key(request: Request) -> object:
    """Of each axis that a request is over, and each level: its size there and its stride."""
    assert request.placement is not None
    names = [axis.name for axis in request.axes]
    return tuple(
        tuple(
            (column[at], prod(column[at + 1 :])) for column in zip(*request.placement, strict=True)
        )
        for at in map(names.index, request.over)
    )


class Redistributor:
    """Answers redistributions on one placement of a system.

    Types do not lie on axes ``without``. Raises InputError for a placement on another machine.
    """

    def __init__(
        self, answers: RequestAnswers, placement: Placement, *, without: tuple[str, ...] = ()
    ) -> None:
        if placement.hierarchy != answers.system.hierarchy:
            raise InputError(
                f"the placement is on {placement.hierarchy}, not on {answers.system.hierarchy}",
                hint="one placement of the system's own levels is needed",
            )
        self.system = answers.system
        self.placement = placement
        axes = (axis for axis in placement.axes if axis.name not in without)
        self.sizes = {axis.name: axis.size for axis in axes}
        self._answers = answers

    def redistribution(
        self, value: Type, source: Sharding, target: Sharding, allowed: MoveFilter = allow_all
    ) -> Redistribution:
        """The fastest of the paths of the least bytes, and of those of the fewest requests.

        Of equal ones the one of the least bytes. Raises InputError as ``path_between`` does.
        """
        found = [self.along(path, value) for path in self._paths(value, source, target, allowed)]
        return min(found, key=lambda one: one.run_seconds)

    def requests(self, value: Type, source: Sharding, target: Sharding) -> Iterator[Request]:
        """All that the planner is asked for to find the fastest. Raises InputError likewise."""
        for path in self._paths(value, source, target, allow_all):
            for one in list_communications(path, value, self.placement):
                if isinstance(one.request, Request):
                    yield one.request

    def _paths(
        self, value: Type, source: Sharding, target: Sharding, allowed: MoveFilter
    ) -> Iterator[RedistributionPath]:
        """Those that ask for other requests than others do."""
        paths = [
            path
            for first in CostPriority
            for path in find_paths(value, source, target, self.sizes, allowed, first)
        ]
        unlike = {path.requests(self.sizes): path for path in reversed(paths)}
        return reversed(unlike.values())

    def along(self, path: RedistributionPath, value: Type) -> Redistribution:
        """The answers to the requests of one path."""
        asked = list_communications(path, value, self.placement)
        return Redistribution(path, tuple(map(self._answered, asked)))

    def _answered(self, one: Communication) -> PricedCommunication:
        if isinstance(one.request, PointToPoint):
            return PricedCommunication(one, price_transfer(one.request, self.system))
        return PricedCommunication(one, self._answers.best(one.request))
