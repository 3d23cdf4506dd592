"""One plan of a whole step: what it is on the clock, and how it stands to others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self, TypeVar

from pydantic import Field

from synth.train.planner.links import Composed
from synth.train.planner.resolution import Difference
from synth.verbs.answers.parts import Axes, Matrix, Number, Part, Seconds, Whole, sometimes
from synth.verbs.answers.training.simulated import MeasuredOfStep, MomentOfStep, RankOfStep

T = TypeVar("T")
MOST_OF_FRONT = 20

Signed = Annotated[float, Field(allow_inf_nan=False)]


class SourceOfError(Part):
    """What one source of error lets a difference be."""

    what: str = Field(description="A kind of computing, links of a level, or the clock itself.")
    less_seconds: Seconds = Field(description="By how much less it may be.")
    more_seconds: Seconds = Field(description="By how much more.")


class MoreSeconds(Part):
    """How much longer than the first a plan takes; below 0, how much less."""

    seconds: Signed = Field(description="As simulated.")
    interval: list[Signed] = Field(
        min_length=2, max_length=2, description="Between which ends, as far as prices can tell."
    )
    sources: list[SourceOfError] = Field(
        description="Why it is not sure: what the errors of both do not have in common."
    )

    @property
    def told(self) -> bool:
        """Whether it is longer, or shorter, whatever the errors are."""
        return self.interval[0] > 0 or self.interval[1] < 0

    @classmethod
    def of(cls, found: Difference) -> Self:
        return cls(
            seconds=found.seconds,
            interval=[found.low_seconds, found.high_seconds],
            sources=[
                SourceOfError(what=what, less_seconds=-less, more_seconds=more)
                for what, less, more in found.sources
            ],
        )


class PlanOfStep(Part):
    """A plan, simulated."""

    plan: str = Field(description="As simulate, shard and train take it.")
    axes: Axes = Field(description="Sizes by name, in the order of the placement.")
    placement: Matrix = Field(description="One row an axis, one column a level.")
    by_framework: bool = Field(description="Whether frameworks lay the axes out so by themselves.")
    seconds: Seconds = Field(description="Of a step.")
    more: MoreSeconds = Field(description="Than the first.")
    tied: bool = Field(description="Whether prices cannot tell it from the first.")
    composed_seconds: Seconds = Field(description="What the search had expected.")
    tokens_per_second: Number = Field(description="By all devices; 0 where samples are no texts.")
    utilisation: Number = Field(description="Of the peak of all devices, in products of matrices.")
    compute_seconds: Seconds = Field(description="Those in which the busiest rank computes.")
    exposed_seconds: Seconds = Field(description="Those in which it waits for communication.")
    idle_seconds: Seconds = Field(description="Those in which it waits for other stages.")
    memory: MomentOfStep = Field(description="Of the rank that needs the most.")
    ranks: list[RankOfStep] = Field(
        min_length=1,
        description="Of the pipeline, with what each does; its streams only of the busiest.",
    )
    measured: MeasuredOfStep | None = sometimes("With a profile, what of computing it measured.")
    gap: Signed = Field(
        description="How far above what no plan can beat by rates: 0.2 is a fifth; less than 0"
        " where a profile measured less than rates say."
    )
    bucket_bytes: Whole = Field(
        description="What of gradients is summed at once, at most; 0 if each by itself."
    )
    bucket_saved_seconds: Seconds = Field(
        description="How much longer it would wait with each gradient summed by itself; 0 where"
        " that is not more than prices can tell, or where buckets are pinned."
    )
    programs: list[str] = Field(
        description="What its seconds take by a program of ours, or by a line of the environment,"
        " and gains 0.1 % of the step or more; all else goes by the runtime's own choice."
    )


class PlanOfFront(Part):
    """A plan that no other beats both in seconds and in memory, as the search prices it."""

    plan: str = Field(description="As simulate takes it.")
    placement: Matrix = Field(description="One row an axis, one column a level.")
    seconds: Seconds = Field(description="Expected of a step.")
    bytes: Whole = Field(description="Expected of the fullest device.")

    @classmethod
    def of(cls, one: Composed) -> Self:
        return cls(
            plan=str(one.candidate.recipe),
            placement=[list(row) for row in one.candidate.rows],
            seconds=one.seconds,
            bytes=round(one.size_bytes),
        )


def thinned(front: Sequence[T]) -> Sequence[T]:
    """At most ``MOST_OF_FRONT``, both ends among them, evenly by their places."""
    last = len(front) - 1
    if last < MOST_OF_FRONT:
        return front
    return [front[round(at * last / (MOST_OF_FRONT - 1))] for at in range(MOST_OF_FRONT)]
