"""Predicted seconds before anything has run: rooflines of a device, and prices on a machine.

The seconds of sections follow from the device's rates, with an interval. The seconds of a
redistribution are the sum of the prices of its requests as advised: the runtime's default, or a
proved program that is surely faster. Transfers between stages are priced link by link.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul
from typing import Self

from grammar.tensors.operations import Step
from hierarchies.devices import Device
from synth.compute import Estimate, Section, section_estimate, section_parts
from synth.step.redistribution.seconds import NetworkPrices
from synth.step.sharding import Plan, StepProgram
from synth.step.sharding.expansion import clause_place
from synth.step.simulation.device import occupy_nothing
from synth.step.simulation.groups import find_scores
from synth.step.simulation.pipeline import NEARLY, occupy_no_link
from synth.step.simulation.predicting import Sources, StepPrediction


@dataclass(frozen=True)
class Rooflines:
    """Estimates of sections on a device.

    ``scores``: shapes that are never in memory; ``vocabulary``: sizes of the table of words.
    """

    device: Device
    scores: Collection[tuple[int, ...]] = ()
    vocabulary: Collection[int] = ()

    @classmethod
    def of(
        cls, device: Device, step: Step, plan: Plan, program: StepProgram, *, flash: bool = True
    ) -> Self:
        """Returns the estimates of a plan's sections; ``step`` is prepared for the plan.

        ``flash``: attention scores are never in memory.
        """
        scores = find_scores(program, plan.parts) if flash else frozenset()
        # Products are told apart by the vocabulary only where some run in another precision.
        vocabulary = find_vocabulary(step, plan) if device.precision else frozenset()
        return cls(device, scores, vocabulary)

    def __call__(self, section: Section) -> Estimate:
        return section_estimate(section, self.device, self.scores, self.vocabulary)

    def parts(self, section: Section) -> tuple[Estimate, Estimate, Estimate]:
        """Returns estimates of a section, of its products of matrices, and of the rest of it."""
        return section_parts(section, self.device, self.scores, self.vocabulary)


def find_vocabulary(step: Step, plan: Plan) -> frozenset[int]:
    """Returns the sizes of the vocabulary in products: whole, and as a plan shards it."""
    sizes = set[int]()
    for at, (value, sharding) in enumerate(zip(step.graph.inputs, plan.cuts.inputs, strict=True)):
        place = clause_place(step, "vocabulary", at)
        if place is not None and step.roles[at] == "parameter":
            words = value.type.shape[place]
            axes = sharding.dimensions[place]
            parts = accumulate((plan.sizes[axis] for axis in axes), mul, initial=1)
            sizes.update(words // count for count in parts)
    return frozenset(sizes)


def build_sources(computing: Callable[[Section], Estimate], network: NetworkPrices) -> Sources:
    """Returns sources from both, with the likely seconds of each estimate."""
    return Sources(
        lambda section: computing(section).seconds,
        network.sending,
        network.handing,
        network.occupancy,
        network.handing_occupancy,
    )


def _scale_sources(sources: Sources, computing: float = 1.0, links: float = 1.0) -> Sources:
    """Returns sources whose seconds of computation and of communication are scaled by factors."""
    return replace(
        sources,
        computing=lambda section: computing * sources.computing(section),
        sending=lambda *how: links * sources.sending(*how),
        handing=lambda *how: links * sources.handing(*how),
    )


@dataclass(frozen=True)
class Gain:
    """A change, and the seconds of the step with it."""

    what: str
    seconds: float


def simulate_gains(
    prediction: StepPrediction, sources: Sources, again: Callable[[Sources], StepPrediction]
) -> Iterator[Gain]:
    """Yields the gain of each change alone; ``again`` simulates the step with changed sources."""
    for what, changed in (
        ("compute 10 % faster", _scale_sources(sources, computing=1 / 1.1)),
        ("compute 25 % faster", _scale_sources(sources, computing=1 / 1.25)),
        ("links twice as fast", _scale_sources(sources, links=0.5)),
        ("all communication hidden", _scale_sources(sources, links=0.0)),
    ):
        yield Gain(what, again(changed).seconds)
    alone = replace(sources, occupancy=occupy_nothing, handing_occupancy=occupy_no_link)
    seconds = again(alone).seconds
    if seconds < prediction.seconds * (1 - NEARLY):
        yield Gain("each request alone on its links", seconds)
    if len(prediction.ranks) > 1:
        busy = (prediction.seconds - rank.idle_seconds for rank in prediction.ranks)
        yield Gain("no pipeline bubble", max(busy))
