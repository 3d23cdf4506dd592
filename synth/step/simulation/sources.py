"""Seconds before anything ran: rooflines of a device, and prices on a machine.

Sections are as fast as the device's rates say, with an interval. Redistributions take the price of
their requests as advised, one after the other: the runtime's own choice, or a proved program that
surely gains. Bytes go from stage to stage link by link.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from grammar.tensors.sharding import Sharding, Type
from hierarchies import Placement, System
from hierarchies.devices import Device
from synth.collective.semantics.point_to_point import stage_transfer
from synth.compute import Estimate, Section, section_estimate, section_parts
from synth.step.point_to_point import price_transfer
from synth.step.redistribution.seconds import Redistributor, RequestAnswers
from synth.step.sharding.plan import PIPE
from synth.step.simulation.predicting import Sources


@dataclass(frozen=True)
class Rooflines:
    """Estimates of sections on a device."""

    device: Device
    scores: Collection[tuple[int, ...]] = ()

    def __call__(self, section: Section) -> Estimate:
        return section_estimate(section, self.device, self.scores)

    def parts(self, section: Section) -> tuple[Estimate, Estimate]:
        """Estimates of its products of matrices, and of what is between them."""
        return section_parts(section, self.device, self.scores)


@dataclass
class NetworkPrices:
    """Prices of communication on a placement of a machine.

    Redistributions never go over the pipeline axis; values from stage to stage go only over it.
    """

    answers: RequestAnswers
    placement: Placement
    _known: dict[tuple[Type, Sharding, Sharding], float] = field(default_factory=dict)
    _handed: dict[tuple[int, int, int], float] = field(default_factory=dict)

    @classmethod
    def of(cls, system: System, placement: Placement) -> NetworkPrices:
        """Prices on one placement, with answers of its own."""
        return cls(RequestAnswers(system, stripes=False), placement)

    def __post_init__(self) -> None:
        self.redistributor = Redistributor(self.answers, self.placement, without=(PIPE,))

    def sending(self, value: Type, source: Sharding, target: Sharding) -> float:
        """Seconds of the fastest redistribution."""
        key = (value, source, target)
        if key not in self._known:
            self._known[key] = self.redistributor.redistribution(*key).run_seconds
        return self._known[key]

    def handing(self, size: int, source: int, target: int) -> float:
        """Seconds of handing bytes of each device to a stage; stages are on ranks in turn."""
        ranks = {axis.name: axis.size for axis in self.placement.axes}.get(PIPE, 1)
        ends = source % ranks, target % ranks
        if ends[0] == ends[1]:
            return 0.0
        if (size, *ends) not in self._handed:
            transfer = stage_transfer(self.placement, PIPE, *ends, size)
            self._handed[size, *ends] = price_transfer(transfer, self.answers.system).seconds
        return self._handed[size, *ends]


def build_sources(computing: Callable[[Section], Estimate], network: NetworkPrices) -> Sources:
    """Makes sources of both, with the likely seconds of estimates."""
    return Sources(lambda section: computing(section).seconds, network.sending, network.handing)


def scale_sources(sources: Sources, computing: float = 1.0, links: float = 1.0) -> Sources:
    """Multiplies seconds of computing, and those of communication, by factors."""
    return replace(
        sources,
        computing=lambda section: computing * sources.computing(section),
        sending=lambda *how: links * sources.sending(*how),
        handing=lambda *how: links * sources.handing(*how),
    )
