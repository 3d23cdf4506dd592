"""Seconds of a redistribution on a machine: the planner's answers to its requests.

The bytes of a path are only a lower bound; its seconds depend on the machine. So the paths with the
fewest bytes and the paths with the fewest requests are both priced, and the fastest is chosen: for
a small value, four requests that save a third of its bytes are slower. The answer to a request is a
proved program with its price; point-to-point transfers are priced link by link. Local moves are not
priced. Paths are compared by the seconds of what would run: the program if the answer advises it,
otherwise the library's default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from grammar.tensors.sharding import Sharding, Type
from hierarchies import InputError, Placement
from synth.collective.price.steps import InstructionPrice, sum_by_name
from synth.collective.price.ways import busy_by_direction
from synth.collective.ranking.how_to_get import busy_as_advised, seconds_as_advised
from synth.collective.ranking.oracle import PlacedGoal, ProgramPrices
from synth.collective.ranking.request import Answer, Request, Watcher
from synth.collective.semantics.point_to_point import PointToPoint, stage_transfer
from synth.step.point_to_point import price_transfer
from synth.step.redistribution.moves import RedistributionPath
from synth.step.redistribution.paths import CostPriority, find_paths
from synth.step.redistribution.requests import Communication, list_communications
from synth.step.sharding.plan import PIPE

Occupancy = tuple[tuple[str, float], ...]
"""The resources that a communication uses, each with the share of its seconds it is busy.

Resources are the two directions of each level's ports, as ``node out``, and ``memory``.
"""


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
        """Seconds of the program or default that the answer advises."""
        match self.answer:
            case InstructionPrice(seconds=seconds):
                return seconds
            case answer:
                return seconds_as_advised(answer)

    @property
    def busy_seconds(self) -> dict[str, float]:
        """Seconds for which ``run_seconds`` keep each resource busy."""
        match self.answer:
            case InstructionPrice() as price:
                return dict(price.work.busy)
            case answer:
                return busy_as_advised(answer)


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
        """Seconds of the programs or defaults that the answers advise."""
        return sum(request.run_seconds for request in self.requests)

    @property
    def occupancy(self) -> Occupancy:
        """Means over the whole redistribution, latencies included."""
        busy = sum_by_name(request.busy_seconds.items() for request in self.requests)
        return _shares_of(busy, self.run_seconds)


def _shares_of(busy: Mapping[str, float], seconds: float) -> Occupancy:
    """Returns the share of ``seconds`` for which each resource is busy, by direction."""
    return tuple((name, min(1.0, of / seconds)) for name, of in busy_by_direction(busy).items())


class NetworkPrices:
    """Prices of redistributions, and of sends between pipeline stages, on a placement of a system.

    Redistributions do not use the axes ``without``: by default the axis of pipeline stages, because
    values are sent between stages unchanged. Raises InputError for a placement on another machine.
    """

    def __init__(
        self, programs: ProgramPrices, placement: Placement, without: tuple[str, ...] = (PIPE,)
    ) -> None:
        if placement.hierarchy != programs.system.hierarchy:
            raise InputError(
                f"the placement is on {placement.hierarchy}, not on {programs.system.hierarchy}",
                hint="one placement of the system's own levels is needed",
            )
        self.system = programs.system
        self.placement = placement
        axes = (axis for axis in placement.axes if axis.name not in without)
        self.sizes = {axis.name: axis.size for axis in axes}
        self._stages = {axis.name: axis.size for axis in placement.axes}.get(PIPE, 1)
        self._programs = programs
        self._sending: dict[tuple[Type, Sharding, Sharding], tuple[float, Occupancy]] = {}
        self._handing: dict[tuple[int, int, int], InstructionPrice] = {}

    def sending(self, value: Type, source: Sharding, target: Sharding) -> float:
        """Returns the seconds of the fastest redistribution, as its answers advise to run it."""
        return self._sent(value, source, target)[0]

    def occupancy(self, value: Type, source: Sharding, target: Sharding) -> Occupancy:
        """Returns what the fastest redistribution keeps busy while it runs."""
        return self._sent(value, source, target)[1]

    def _sent(self, value: Type, source: Sharding, target: Sharding) -> tuple[float, Occupancy]:
        key = value, source, target
        if key not in self._sending:
            fastest = self.redistribution(*key)
            self._sending[key] = fastest.run_seconds, fastest.occupancy
        return self._sending[key]

    def handing(self, size: int, source: int, target: int) -> float:
        """Returns the seconds to send bytes of each device from one pipeline stage to another.

        Stages are assigned to ranks in turn.
        """
        return price.seconds if (price := self._transfer(size, source, target)) else 0.0

    def handing_occupancy(self, size: int, source: int, target: int) -> Occupancy:
        """Returns what a transfer keeps busy: ports out of the source, and into the target."""
        price = self._transfer(size, source, target)
        return _shares_of(price.work.busy, price.seconds) if price else ()

    def _transfer(self, size: int, source: int, target: int) -> InstructionPrice | None:
        key = size, source % self._stages, target % self._stages
        if key[1] == key[2]:
            return None
        if key not in self._handing:
            transfer = stage_transfer(self.placement, PIPE, key[1], key[2], size)
            self._handing[key] = price_transfer(transfer, self.system)
        return self._handing[key]

    def redistribution(self, value: Type, source: Sharding, target: Sharding) -> Redistribution:
        """Returns the fastest of the paths with the fewest bytes or the fewest requests.

        Among equally fast paths, returns the path with the fewest bytes. Raises InputError as
        ``find_path`` does.
        """
        paths = self._paths(value, source, target)
        self._programs.prove(chain(*(self._goals(sent) for _, sent in paths)), Watcher())
        priced = [self._price(path, sent) for path, sent in paths]
        return min(priced, key=lambda redistribution: redistribution.run_seconds)

    def goals(self, value: Type, source: Sharding, target: Sharding) -> Iterator[PlacedGoal]:
        """Yields the goals of the collectives that are priced to find the fastest path."""
        for _, sent in self._paths(value, source, target):
            yield from self._goals(sent)

    def along(self, path: RedistributionPath, value: Type) -> Redistribution:
        """Returns a path with the answers to its requests."""
        return self._price(path, list_communications(path, value, self.placement))

    def _goals(self, communications: Iterable[Communication]) -> Iterator[PlacedGoal]:
        for communication in communications:
            if isinstance(communication.request, Request):
                yield PlacedGoal.of(communication.request, self.system)

    def _price(
        self, path: RedistributionPath, communications: Iterable[Communication]
    ) -> Redistribution:
        priced = []
        for communication in communications:
            answer: Answer | InstructionPrice
            if isinstance(communication.request, PointToPoint):
                answer = price_transfer(communication.request, self.system)
            else:
                placed = PlacedGoal.of(communication.request, self.system)
                answer = self._programs.answer(placed)
            priced.append(PricedCommunication(communication, answer))
        return Redistribution(path, tuple(priced))

    def _paths(
        self, value: Type, source: Sharding, target: Sharding
    ) -> list[tuple[RedistributionPath, Sequence[Communication]]]:
        """Returns the paths whose sequence of requests differs, fewest bytes first."""
        paths = [
            path
            for first in CostPriority
            for path in find_paths(value, source, target, self.sizes, first=first)
        ]
        # Reversed, so that the first of several paths with equal requests is kept.
        distinct = {path.requests(self.sizes): path for path in reversed(paths)}
        return [
            (path, list_communications(path, value, self.placement))
            for path in reversed(distinct.values())
        ]
