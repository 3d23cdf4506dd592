"""Seconds of a redistribution on a machine: the planner's answers to its requests.

Bytes that must be sent bound a path from below; how long it takes the machine says. So the paths
of the least bytes and those of the fewest requests are both answered, and the fastest is taken: a
small value is not worth four requests that save a third of its bytes. Every request has its
answer, a proved program with its price; what goes point to point is priced link by link. Local
moves are not priced.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from grammar import Goal
from grammar.tensors.sharding import Sharding, Type
from hierarchies import InputError, Placement, System
from synth.collectives.algorithms import Choice
from synth.plan.library import Library
from synth.plan.planner import answers
from synth.plan.request import Answer, Request
from synth.price.segments import SEGMENTS
from synth.price.step_prices import Simulator
from synth.price.steps import StepPrice
from synth.semantics.point_to_point import PointToPoint
from synth.semantics.programs import Language
from synth.train.point_to_point import priced_transfer
from synth.train.resharding.moves import Path
from synth.train.resharding.paths import Allowed, First, every_move, paths_between
from synth.train.resharding.requests import Communication, communications


@dataclass(frozen=True)
class Answered:
    """A communication and what the planner says: its best program, or the price of a transfer."""

    communication: Communication
    answer: Answer | StepPrice

    @property
    def seconds(self) -> float:
        match self.answer:
            case StepPrice(seconds=seconds):
                return seconds
            case answer:
                return answer.candidate.seconds


@dataclass(frozen=True)
class Redistribution:
    """A path on a machine, with the answer to each of its requests."""

    path: Path
    requests: tuple[Answered, ...]

    @property
    def seconds(self) -> float:
        """One request after the other; what is local is not counted."""
        return sum(one.seconds for one in self.requests)


class Answers:
    """The best answers to requests on a system; ``max_steps``, ``segments`` and ``stripes`` are the
    planner's.

    An answer depends on where the axes lie that a request is over, not on what they or others are
    called. So what was asked before is kept for all placements; the first one's names stand in it.
    """

    def __init__(
        self,
        system: System,
        *,
        max_steps: int = Language.max_steps,
        segments: tuple[int, ...] = SEGMENTS,
        stripes: bool = True,
    ) -> None:
        self.system = system
        self._max_steps = max_steps
        self._segments, self._stripes = segments, stripes
        self._known: dict[tuple[Goal, int, object], Answer] = {}
        self._libraries: dict[Goal, Library] = {}
        self._simulators: dict[Choice, Simulator] = {}

    def best(self, request: Request) -> Answer:
        """The best answer to a request on one placement."""
        key = request.goal, request.payload_bytes, _lying(request)
        if key not in self._known:
            language = replace(request.language, max_steps=self._max_steps)
            library = self._libraries.setdefault(request.goal, Library(language))
            asked = replace(
                request, k=1, language=language, segments=self._segments, stripes=self._stripes
            )
            choice = asked.choice
            simulator = self._simulators.setdefault(choice, Simulator(self.system, choice))
            found = answers(self.system, asked, library=library, simulator=simulator)
            [self._known[key]] = found.answers
        return self._known[key]


def _lying(request: Request) -> object:
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
        self, answers: Answers, placement: Placement, *, without: tuple[str, ...] = ()
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
        self, value: Type, source: Sharding, target: Sharding, allowed: Allowed = every_move
    ) -> Redistribution:
        """The fastest of the paths of the least bytes, and of those of the fewest requests.

        Of equal ones the one of the least bytes. Raises InputError as ``path_between`` does.
        """
        paths = [
            path
            for first in First
            for path in paths_between(value, source, target, self.sizes, allowed, first)
        ]
        unlike = {path.requests(self.sizes): path for path in reversed(paths)}
        found = [self.along(path, value) for path in reversed(unlike.values())]
        return min(found, key=lambda one: one.seconds)

    def along(self, path: Path, value: Type) -> Redistribution:
        """The answers to the requests of one path."""
        asked = communications(path, value, self.placement)
        return Redistribution(path, tuple(map(self._answered, asked)))

    def _answered(self, one: Communication) -> Answered:
        if isinstance(one.request, PointToPoint):
            return Answered(one, priced_transfer(one.request, self.system))
        return Answered(one, self._answers.best(one.request))
