"""The answer of the verb ``plan`` for a model: plans of a whole step, the fastest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self, TypeVar

from pydantic import Field

from hierarchies import LevelInFull
from synth.ask.answers.machine_parts import NcclPart, PricesName
from synth.ask.answers.parts import (
    AnswerPart,
    Axes,
    Matrix,
    Number,
    Positive,
    ReplyModel,
    Seconds,
    Signed,
    SignedInterval,
    TextFile,
    Whole,
    optional_key,
)
from synth.ask.answers.training.gained import CollectiveOfStep, ProgramOfPlan
from synth.ask.answers.training.simulated import (
    MeasuredOfStep,
    MomentOfStep,
    RankOfStep,
    SpeedOfCompute,
)
from synth.step.search.explaining import PlanningResult
from synth.step.search.finalists import Finalist
from synth.step.search.hints import MemorySaving
from synth.step.search.links import ComposedPlan
from synth.step.search.resolution import Difference

T = TypeVar("T")
MOST_OF_FRONT = 20


class SourceOfError(AnswerPart):
    """What one source of error lets a difference be."""

    what: str = Field(description="A kind of computing, links of a level, or the clock itself.")
    less_seconds: Seconds = Field(description="How much less it may be.")
    more_seconds: Seconds = Field(description="How much more it may be.")


class MoreSeconds(AnswerPart):
    """How much longer than the first a plan takes; below 0, how much less."""

    seconds: Signed = Field(description="Simulated difference.")
    interval: SignedInterval = Field(description="Its range within the prediction's uncertainty.")
    sources: list[SourceOfError] = Field(
        description="Sources of uncertainty that the two do not share."
    )

    @property
    def is_clear(self) -> bool:
        """Whether it is longer, or shorter, whatever the errors are."""
        return self.interval[0] > 0 or self.interval[1] < 0

    @classmethod
    def of(cls, found: Difference) -> Self:
        return cls.like(
            found,
            interval=found,
            sources=[(what, -less, more) for what, less, more in found.sources],
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
    def of(cls, finalist: Finalist) -> Self | None:
        """None for a plan that is a recipe."""
        rows = finalist.rows
        if rows is None:
            return None
        return cls(
            recipe=str(finalist.candidate.recipe),
            sums=rows.seconds,
            sums_gap=rows.gap,
            recipe_sums=rows.recipe_seconds,
        )


class UnsupportedFramework(AnswerPart):
    """A framework that does not run a plan."""

    framework: str = Field(description="Which.")
    reason: str = Field(description="Why.")


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
    runs_on: list[str] = Field(
        description="Frameworks that run exactly this plan, as their files say; none: nobody does."
    )
    refusals: list[UnsupportedFramework] = Field(
        description="Frameworks that do not: they refuse it, or would run another plan, and why."
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
    def of(cls, plan: ComposedPlan) -> Self:
        candidate, size = plan.candidate, round(plan.size_bytes)
        return cls.like(plan, plan=str(candidate.recipe), placement=candidate.rows, bytes=size)


def thin_front(front: Sequence[T]) -> Sequence[T]:
    """At most ``MOST_OF_FRONT``, both ends among them, evenly by their places."""
    last = len(front) - 1
    if last < MOST_OF_FRONT:
        return front
    return [front[round(at * last / (MOST_OF_FRONT - 1))] for at in range(MOST_OF_FRONT)]


class FreedMemory(AnswerPart):
    """A change with which a plan would need less memory."""

    what: str = Field(description="A pin that is left out, more devices, fewer tokens.")
    bytes: Whole = Field(description="Lower bound of the bytes of the fullest device then.")
    freed_bytes: Whole = Field(description="Bytes saved.")


class LeastMemory(AnswerPart):
    """The plan that needs the least memory, where none fits."""

    plan: str = Field(description="Plan, as simulate reads it.")
    bytes: Whole = Field(description="Bytes of the fullest device.")
    excess_bytes: Whole = Field(description="Excess over the device's memory.")
    freed: list[FreedMemory] = Field(
        description="Changes that would help, the largest effect first."
    )

    @classmethod
    def of(
        cls, found: PlanningResult, memory_bytes: float, helps: Sequence[MemorySaving] = ()
    ) -> Self | None:
        """None where something fits."""
        if found.nearest is None:
            return None
        candidate, size = found.nearest
        return cls.like(
            plan=str(candidate.recipe),
            bytes=round(size),
            excess_bytes=max(0, round(size - memory_bytes)),
            freed=[
                (saving.what, round(saving.size_bytes), round(saving.freed_bytes))
                for saving in helps
            ],
        )


class RefusedPlans(AnswerPart):
    """Plans that are impossible."""

    reason: str = Field(description="Why.")
    plans: Whole = Field(description="Number of plans.")


SearchVerdict = Literal["optimal", "best-found", "infeasible", "none-found"]


class StepPlanReply(ReplyModel):
    """Plans of a whole training step on a machine, the fastest first."""

    model: str = Field(description="Model.")
    system: str = Field(description="The machine, as it was asked for.")
    levels: list[LevelInFull] = Field(min_length=1, description="Outermost first.")
    devices: Positive = Field(description="Number of them.")
    prices: PricesName = Field(description="Basis of communication prices.")
    nccl: NcclPart | None = Field(description="Version of NCCL or RCCL; null for other runtimes.")
    device: str = Field(description="Accelerator whose rates are used.")
    device_bytes: Positive = Field(description="The memory of one.")
    peak_flops_per_second: Number = Field(description="The data sheet's, of what is multiplied.")
    dtype: str = Field(description="The element type that most is multiplied in.")
    samples: Positive = Field(description="Samples per step.")
    tokens: Whole = Field(description="Tokens per step; 0 if samples are not text.")
    sizes: dict[str, Whole] = Field(description="Sizes that differ from the model's.")
    computed_in: str = Field(description="The flag --dtype.")
    precision: str = Field(description="Of products of weights, if not that of --dtype; or empty.")
    speed: SpeedOfCompute | None = optional_key("With a framework, how fast it computes.")
    optimizer: str = Field(description="Optimizer.")
    pins: str = Field(description="Pinned decisions.")
    framework: str = Field(
        description="The framework that has to run the plans; ideal: none has to; empty: advised"
        " plans are of any."
    )
    proved: SearchVerdict = Field(
        description="Of composed seconds: optimal, nothing searched is faster; best-found;"
        " infeasible, nothing fits; or none-found, nothing was met that fits."
    )
    above: Number | None = Field(
        description="Of a best that was found only: so far above what no plan can beat, all"
        " devices multiplying at their peak, at most; else null."
    )
    plans: list[PlanOfStep] = Field(description="The fastest first; none if nothing fits.")
    advised: Whole | None = Field(
        description="Which to take, its number, from 0: of those that a framework runs (of all, if"
        " the framework is ideal) and that tie with the first of these one that leaves a tenth of"
        " the memory, if any does, with the fewest axes, laid out as frameworks do it, with nothing"
        " computed again, with a fifth of the memory free, that may take least longer than the"
        " first, and the least memory. It is what is written. Null if nothing fits, or if no"
        " framework runs what does."
    )
    front: list[PlanOfFront] = Field(
        description="Pareto front in seconds and bytes of plans that fit; the fastest first."
    )
    least_seconds: Seconds = Field(description="Lower bound: all devices compute all the time.")
    considered: Whole = Field(description="Recipes times placements.")
    fitting: Whole = Field(description="Number of plans that fit in memory.")
    priced: Whole = Field(description="Number of plans that no bound ruled out.")
    usual_seconds: Seconds | None = Field(
        description="Expected of the best where axes lie as frameworks lay them out; null: none."
    )
    usual_more: MoreSeconds | None = Field(
        description="How much longer that takes than the first, simulated; null where the first"
        " lies as frameworks lay axes out, or no plan does."
    )
    nearest: LeastMemory | None = Field(description="If nothing fits; else null.")
    refused: list[RefusedPlans] = Field(description="Impossible plans, and why.")
    why_not_pins: str = Field(description="Pins of --why-not; empty without it.")
    why_not: PlanOfStep | None = Field(description="The best with those pins; null if none fits.")
    why_not_nearest: LeastMemory | None = Field(
        description="If nothing with those pins fits: what needs the least memory; else null."
    )
    assumed: str = Field(
        description="Of batch normalisation, or of the tokens of experts; else empty."
    )
    complete: bool = Field(description="False if a better plan may be missing.")
    programs: list[ProgramOfPlan] = Field(
        description="Collectives of the advised plan that gain by a program, the "
        "largest gain first."
    )
    sent: list[CollectiveOfStep] = Field(
        description="Communication of the busiest rank of the advised plan, the longest first."
    )
    perhaps_saved_seconds: Seconds = Field(
        description="Time the first would save if all programs worth measuring, which tie with the"
        " runtime's defaults, are as fast as predicted."
    )
    files: list[TextFile] = Field(
        description="The advised plan as files for frameworks, a folder for each."
    )
    unsupported: list[UnsupportedFramework] = Field(
        description="Frameworks that cannot express the advised plan, and why."
    )

    @property
    def best(self) -> PlanOfStep:
        """The plan to be taken; there must be one."""
        return self.plans[self.advised or 0]
