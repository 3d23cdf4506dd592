"""Seconds before anything ran: rooflines of a device, and prices on a machine.

Sections are as fast as the device's rates say, with an interval. Redistributions take the price of
their requests as advised, one after the other: the runtime's own choice, or a proved program that
surely gains. Bytes go from stage to stage link by link.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from hierarchies.devices import Device
from synth.compute import Estimate, Section, section_estimate, section_parts
from synth.step.redistribution.seconds import NetworkPrices
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
