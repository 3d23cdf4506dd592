"""Predicted seconds before anything has run: rooflines of a device, and prices on a machine.

The seconds of sections follow from the device's rates, with an interval. The seconds of a
redistribution are the sum of the prices of its requests as advised: the runtime's default, or a
proved program that is surely faster. Transfers between stages are priced link by link.
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
        """Returns estimates of a section's products of matrices, and of the rest of it."""
        return section_parts(section, self.device, self.scores)


def build_sources(computing: Callable[[Section], Estimate], network: NetworkPrices) -> Sources:
    """Returns sources from both, with the likely seconds of each estimate."""
    return Sources(
        lambda section: computing(section).seconds,
        network.sending,
        network.handing,
        network.occupancy,
        network.handing_occupancy,
    )


def scale_sources(sources: Sources, computing: float = 1.0, links: float = 1.0) -> Sources:
    """Returns sources whose seconds of computation and of communication are scaled by factors."""
    return replace(
        sources,
        computing=lambda section: computing * sources.computing(section),
        sending=lambda *how: links * sources.sending(*how),
        handing=lambda *how: links * sources.handing(*how),
    )
