"""What a step would gain if something were better: it is put on the clock again with that changed.

No share of a time says what is gained where something becomes faster: what was hidden beside it may
decide then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from synth.step.simulation.predicting import Sources, StepPrediction
from synth.step.simulation.sources import scale_sources


@dataclass(frozen=True)
class Gain:
    """A change, and the seconds of a step with it."""

    what: str
    seconds: float


def simulate_gains(
    found: StepPrediction, sources: Sources, again: Callable[[Sources], StepPrediction]
) -> Iterator[Gain]:
    """The changes, each by itself; ``again`` is the step from other seconds."""
    for what, changed in (
        ("compute 10 % faster", scale_sources(sources, computing=1 / 1.1)),
        ("compute 25 % faster", scale_sources(sources, computing=1 / 1.25)),
        ("links twice as fast", scale_sources(sources, links=0.5)),
        ("nothing waits for communication", scale_sources(sources, links=0.0)),
    ):
        yield Gain(what, again(changed).seconds)
    if len(found.ranks) > 1:
        busy = (found.seconds - one.idle_seconds for one in found.ranks)
        yield Gain("no rank is ever idle", max(busy))
