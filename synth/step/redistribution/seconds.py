"""Seconds of a redistribution on a machine: the planner's answers to its requests.

The bytes of a path are only a lower bound; its seconds depend on the machine. So the paths of the
least bytes and those of the fewest requests are both priced, and the fastest is chosen: a small
value is not worth four requests that save a third of its bytes. The answer to a request is a proved
program with its price; point-to-point transfers are priced link by link. Local moves are not
priced. Paths are compared by what would run: the program if the answer advises it, else the
library's default.
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
"""A request's goal, its bytes, and where its axes are placed."""


@dataclass(frozen=True)
class PricedCommunication:
    """A communication and the planner's best answer, or the price of a transfer."""

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
        """Seconds of what the answer advises to run."""
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
        """Seconds of all requests, one after the other; local moves are not counted."""
        return sum(request.seconds for request in self.requests)

    @property
    def run_seconds(self) -> float:
        """Seconds of what the answers advise to run."""
        return sum(request.run_seconds for request in self.requests)


class RequestAnswers:
    """The best answers to requests on a system; ``max_steps``, ``segments`` and ``stripes`` are the
    planner's.

    An answer depends on where the axes of a request are placed, not on their names. So answers are
    cached for all placements; they contain the names of the first. ``libraries`` may be shared with
    others who use the same languages.
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
        """Returns the best answer to a request on one placement."""
        key = _key(request)
        if key not in self._known:
            self.ask([request], Watcher())
        return self._known[key]

    def ask(self, several: Iterable[Request], crew: WorkControl) -> None:
        """Finds the best answers to requests on one placement each, until ``crew`` stops it.

        Searches run in the processes of ``crew``; ``several`` is read when one of them is free.
        Each program of a language is proved once.
        """
        unknown: dict[_Key, Request] = {}
        requests = self._list_unknown(several, unknown)
        priced = [*map_in_forks(self._search, requests, crew, known=self._count_trees)]
        groups: dict[tuple[Goal, Choice], list[tuple[_Key, DistinctAnswer[CandidatePrograms]]]] = {}
        for (key, request), best in zip(unknown.items(), priced, strict=False):
            groups.setdefault((request.goal, request.choice), []).append((key, best))
        for (goal, choice), members in groups.items():
            answer_requests = [AnswerRequest(1, best, key[1]) for key, best in members]
            simulator, library = self._simulator(choice), self._library(goal)
            answers, *_ = make_answers(simulator, answer_requests, _ProofWatcher(crew), library)
            self._known.update(zip((key for key, _ in members), answers, strict=True))

    def _list_unknown(
        self, requests: Iterable[Request], unknown: dict[_Key, Request]
    ) -> Iterator[Request]:
        """Yields requests without an answer, each once, and adds them to ``unknown``.

        It loads the programs of each first, so that forked processes inherit them.
        """
        for request in requests:
            key = _key(request)
            if key not in self._known and key not in unknown:
                unknown[key] = request
                digits = _reduction(self.system, request).tree.digits
                self._library(request.goal).paths(len(digits))
                yield request

    def _count_trees(self) -> int:
        """Returns the number of trees whose programs are known, in all languages."""
        return sum(library.known() for library in self._libraries.values())

    def _search(self, request: Request) -> DistinctAnswer[CandidatePrograms]:
        """Returns the best program for a request."""
        library, simulator = self._library(request.goal), self._simulator(request.choice)
        how = request.payload_bytes, self._segments
        search = CandidateSearch(library, simulator, *how, stripes=self._stripes)
        [best] = search.distinct(_reduction(self.system, request), 1)
        return best

    def _library(self, goal: Goal) -> Library:
        language = Language(self._max_steps, goal=goal)
        return self._libraries.setdefault(goal, Library(language))

    def _simulator(self, choice: Choice) -> Simulator:
        return self._simulators.setdefault(choice, Simulator(self.system, choice))


class _ProofWatcher(Watcher):
    """Proves with the processes of another control, but does not stop when that should stop.

    Programs that were found are worth proving.
    """

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
    """Returns size and stride of each axis of a request on each level."""
    assert request.placement is not None
    names = [axis.name for axis in request.axes]
    return tuple(
        tuple(
            (column[at], prod(column[at + 1 :])) for column in zip(*request.placement, strict=True)
        )
        for at in map(names.index, request.over)
    )


class Redistributor:
    """Prices redistributions on one placement of a system.

    Shardings do not use the axes ``without``. Raises InputError for a placement on another machine.
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
        """Returns the fastest of the paths with the least bytes or the fewest requests.

        Among equals the one with the least bytes. Raises InputError as ``find_path`` does.
        """
        priced = [self.along(path, value) for path in self._paths(value, source, target, allowed)]
        return min(priced, key=lambda redistribution: redistribution.run_seconds)

    def requests(self, value: Type, source: Sharding, target: Sharding) -> Iterator[Request]:
        """Yields the requests that must be answered to find the fastest path."""
        for path in self._paths(value, source, target, allow_all):
            for communication in list_communications(path, value, self.placement):
                if isinstance(communication.request, Request):
                    yield communication.request

    def _paths(
        self, value: Type, source: Sharding, target: Sharding, allowed: MoveFilter
    ) -> Iterator[RedistributionPath]:
        """Returns the paths whose sequence of collective requests differs, fewest bytes first."""
        paths = [
            path
            for first in CostPriority
            for path in find_paths(value, source, target, self.sizes, allowed, first)
        ]
        distinct = {path.requests(self.sizes): path for path in reversed(paths)}
        return reversed(distinct.values())

    def along(self, path: RedistributionPath, value: Type) -> Redistribution:
        """Returns a path with the answers to its requests."""
        communications = list_communications(path, value, self.placement)
        return Redistribution(path, tuple(map(self._price, communications)))

    def _price(self, communication: Communication) -> PricedCommunication:
        match communication.request:
            case PointToPoint() as transfer:
                return PricedCommunication(communication, price_transfer(transfer, self.system))
            case request:
                return PricedCommunication(communication, self._answers.best(request))
