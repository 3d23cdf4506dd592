"""One plan of a whole step: what it is on the clock, and how it stands to others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self, TypeVar

from pydantic import Field

from synth.ask.answers.parts import AnswerPart, Axes, Matrix, Number, Seconds, Whole, optional_key
from synth.ask.answers.training.simulated import MeasuredOfStep, MomentOfStep, RankOfStep
from synth.step.search.finalists import Finalist
from synth.step.search.links import ComposedPlan
from synth.step.search.resolution import Difference

T = TypeVar("T")
MOST_OF_FRONT = 20

Signed = Annotated[float, Field(allow_inf_nan=False)]


class SourceOfError(AnswerPart):
    """What one source of error lets a difference be."""

    what: str = Field(description="A kind of computing, links of a level, or the clock itself.")
    less_seconds: Seconds = Field(description="How much less it may be.")
    more_seconds: Seconds = Field(description="How much more it may be.")


class MoreSeconds(AnswerPart):
    """How much longer than the first a plan takes; below 0, how much less."""

    seconds: Signed = Field(description="Simulated difference.")
    interval: list[Signed] = Field(
        min_length=2, max_length=2, description="Its range within the prediction's uncertainty."
    )
    sources: list[SourceOfError] = Field(
        description="Sources of uncertainty that the two do not share."
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


ROWS = "rows.plan"
"""The file of a plan that was chosen operation by operation."""


class RowsOfPlan(AnswerPart):
    """How the rows of a plan were chosen, operation by operation."""

    recipe: str = Field(description="The recipe along whose axes they were chosen.")
    sums: Seconds = Field(description="Seconds of these rows in sequence.")
    sums_gap: Number = Field(description="Upper limit of the relative gap to the best sums.")
    recipe_sums: Seconds = Field(description="Seconds of the recipe in sequence.")

    @classmethod
    def of(cls, finalist: Finalist) -> Self:
        rows, recipe = finalist.rows, str(finalist.candidate.recipe)
        assert rows is not None
        return cls(
            recipe=recipe,
            sums=rows.seconds,
            sums_gap=rows.gap,
            recipe_sums=rows.recipe_seconds,
        )


class PlanOfStep(AnswerPart):
    """A plan, simulated."""

    plan: str = Field(description="Plan, as simulate, shard and train read it.")
    axes: Axes = Field(description="Sizes by name, in the order of the placement.")
    placement: Matrix = Field(description="One row an axis, one column a level.")
    by_framework: bool = Field(description="Whether this is frameworks' own order of axes.")
    seconds: Seconds = Field(description="Seconds of a step.")
    more: MoreSeconds = Field(description="Difference from the first plan.")
    tied: bool = Field(description="Whether it ties with the first.")
    composed_seconds: Seconds = Field(description="Estimate of the search.")
    tokens_per_second: Number = Field(
        description="Tokens per second of all devices; 0 if samples are not text."
    )
    utilisation: Number = Field(description="Share of all devices' peak spent on matrix products.")
    compute_seconds: Seconds = Field(description="Seconds in which the busiest rank computes.")
    exposed_seconds: Seconds = Field(
        description="Exposed communication: seconds in which it only communicates."
    )
    idle_seconds: Seconds = Field(description="Bubble: seconds in which it waits for other stages.")
    memory: MomentOfStep = Field(description="Memory of the rank that needs the most.")
    ranks: list[RankOfStep] = Field(
        min_length=1,
        description="Of the pipeline, with what each does; its streams only of the busiest.",
    )
    measured: MeasuredOfStep | None = optional_key("With a profile, what of computing it measured.")
    gap: Signed = Field(
        description="How far above what no plan can beat by rates: 0.2 is a fifth; less than 0"
        " where a profile measured less than rates say."
    )
    bucket_bytes: Whole = Field(
        description="Bytes of a gradient bucket, at most; 0 if each gradient is reduced by itself."
    )
    bucket_saved_seconds: Seconds = Field(
        description="Time that its gradient buckets save; 0 where that is within the prediction's"
        " uncertainty, or where buckets are pinned."
    )
    programs: list[str] = Field(
        description="What its seconds take by a program of ours, or by a line of the environment,"
        " and gains 0.1 % of the step or more; all else goes by the runtime's own choice."
    )
    rows: RowsOfPlan | None = optional_key(
        f"If it was chosen operation by operation: then ``plan`` is in full, as the file {ROWS}."
    )

    @property
    def recipe(self) -> str:
        """The plan as a recipe, or the one along whose axes its rows were chosen."""
        return self.rows.recipe if self.rows else self.plan

    @property
    def title(self) -> str:
        """The plan in one line."""
        return f"rows of single operations, along {self.recipe}" if self.rows else self.plan


class PlanOfFront(AnswerPart):
    """A plan that no other beats both in seconds and in memory, as the search prices it."""

    plan: str = Field(description="Plan, as simulate reads it.")
    placement: Matrix = Field(description="One row an axis, one column a level.")
    seconds: Seconds = Field(description="Estimated seconds of a step.")
    bytes: Whole = Field(description="Estimated bytes of the fullest device.")

    @classmethod
    def of(cls, one: ComposedPlan) -> Self:
        return cls(
            plan=str(one.candidate.recipe),
            placement=[list(row) for row in one.candidate.rows],
            seconds=one.seconds,
            bytes=round(one.size_bytes),
        )


def thin_front(front: Sequence[T]) -> Sequence[T]:
    """At most ``MOST_OF_FRONT``, both ends among them, evenly by their places."""
    last = len(front) - 1
    if last < MOST_OF_FRONT:
        return front
    return [front[round(at * last / (MOST_OF_FRONT - 1))] for at in range(MOST_OF_FRONT)]
