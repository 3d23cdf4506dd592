"""Simulates the gain from faster parts: the step is simulated again with each part changed.

A part's share of the step does not determine its gain, because a faster part may expose the
communication that it hid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from synth.step.simulation.device import occupy_nothing
from synth.step.simulation.pipeline import NEARLY, occupy_no_link
from synth.step.simulation.predicting import Sources, StepPrediction
from synth.step.simulation.sources import scale_sources


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
        ("compute 10 % faster", scale_sources(sources, computing=1 / 1.1)),
        ("compute 25 % faster", scale_sources(sources, computing=1 / 1.25)),
        ("links twice as fast", scale_sources(sources, links=0.5)),
        ("all communication hidden", scale_sources(sources, links=0.0)),
    ):
        yield Gain(what, again(changed).seconds)
    alone = replace(sources, occupancy=occupy_nothing, handing_occupancy=occupy_no_link)
    seconds = again(alone).seconds
    if seconds < prediction.seconds * (1 - NEARLY):
        yield Gain("each request alone on its links", seconds)
    if len(prediction.ranks) > 1:
        busy = (prediction.seconds - rank.idle_seconds for rank in prediction.ranks)
        yield Gain("no pipeline bubble", max(busy))
