"""Seconds before anything ran: rooflines of a device, and the planner's prices on a machine.

Sections are as fast as the device's rates say, with an interval; redistributions take what the
planner advises for their requests, one after the other, as the runtime runs it: its own choice, or
a proved program that surely gains; bytes go from stage to stage link by link.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from grammar.tensors.sharding import Sharding, Type
from hierarchies import Placement, System
from hierarchies.devices import Device
from synth.collective.semantics.point_to_point import stage_transfer
from synth.compute import TYPICAL, Estimate, RooflineRates, Section, section_estimate, section_parts
from synth.step.point_to_point import price_transfer
from synth.step.redistribution.seconds import Redistributor, RequestAnswers
from synth.step.sharding.plan import PIPE
from synth.step.simulation.predicting import Sources


@dataclass(frozen=True)
class Rooflines:
    """Estimates of sections on a device."""

    device: Device
    scores: Collection[tuple[int, ...]] = ()
    rates: RooflineRates = TYPICAL

    def __call__(self, section: Section) -> Estimate:
        return section_estimate(section, self.device, self.rates, self.scores)

    def parts(self, section: Section) -> tuple[Estimate, Estimate]:
        """Its products of matrices, and what is between them, by rates."""
        return section_parts(section, self.device, self.rates, self.scores)


@dataclass
class NetworkPrices:
    """Prices of what is sent on a placement of a machine.

    Redistributions never go over the axis of stages, and values from stage to stage over it only.
    """

    answers: RequestAnswers
    placement: Placement
    _known: dict[tuple[Type, Sharding, Sharding], float] = field(default_factory=dict)
    _handed: dict[tuple[int, int, int], float] = field(default_factory=dict)

    @classmethod
    def of(cls, system: System, placement: Placement) -> NetworkPrices:
        """Of one placement alone."""
        return cls(RequestAnswers(system, stripes=False), placement)

    def __post_init__(self) -> None:
        self.redistributor = Redistributor(self.answers, self.placement, without=(PIPE,))

    def sending(self, value: Type, source: Sharding, target: Sharding) -> float:
        """Seconds of the fastest path."""
        key = (value, source, target)
        if key not in self._known:
            self._known[key] = self.redistributor.redistribution(*key).run_seconds
        return self._known[key]

    def handing(self, size: int, source: int, target: int) -> float:
        """Seconds of so many bytes of every device, stages being on ranks in turn."""
        ranks = {axis.name: axis.size for axis in self.placement.axes}.get(PIPE, 1)
        ends = source % ranks, target % ranks
        if ends[0] == ends[1]:
            return 0.0
        if (size, *ends) not in self._handed:
            sent = stage_transfer(self.placement, PIPE, *ends, size)
            self._handed[size, *ends] = price_transfer(sent, self.answers.system).seconds
        return self._handed[size, *ends]


def build_sources(computing: Callable[[Section], Estimate], network: NetworkPrices) -> Sources:
    """What is likely of both."""
    return Sources(lambda section: computing(section).seconds, network.sending, network.handing)


def scale_sources(one: Sources, computing: float = 1.0, links: float = 1.0) -> Sources:
    """The same with all seconds of one kind so many times as long."""
    return replace(
        one,
        computing=lambda section: computing * one.computing(section),
        sending=lambda *how: links * one.sending(*how),
        handing=lambda *how: links * one.handing(*how),
    )
