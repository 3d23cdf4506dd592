"""What the verb ``plan`` answers for a model: plans of a whole step, the fastest first."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from synth.ask.answers.machine_parts import LevelInFull, PricesName
from synth.ask.answers.parts import (
    AnswerPart,
    Number,
    Positive,
    ReplyModel,
    Seconds,
    TextFile,
    Whole,
)
from synth.ask.answers.training.gained import CollectiveOfStep, ProgramOfPlan
from synth.ask.answers.training.plans import (
    LeastMemory,
    MoreSeconds,
    PlanOfFront,
    PlanOfStep,
    RowsOfOperations,
)


class RefusedPlans(AnswerPart):
    """Plans that cannot be."""

    because: str = Field(description="Why.")
    plans: Whole = Field(description="Number of plans.")


class UnsupportedFramework(AnswerPart):
    """A framework that cannot say the best plan."""

    framework: str = Field(description="Which.")
    because: str = Field(description="Why.")


SearchVerdict = Literal["optimal", "best-found", "infeasible", "none-found"]


class StepPlanReply(ReplyModel):
    """Plans of a whole training step on a machine, the fastest first."""

    model: str = Field(description="Model.")
    system: str = Field(description="The machine, as it was asked for.")
    levels: list[LevelInFull] = Field(min_length=1, description="Outermost first.")
    devices: Positive = Field(description="Number of them.")
    prices: PricesName = Field(description="Basis of communication prices.")
    device: str = Field(description="Accelerator whose rates are used.")
    device_bytes: Positive = Field(description="The memory of one.")
    peak_flops_per_second: Number = Field(description="The data sheet's, of what is multiplied.")
    dtype: str = Field(description="The element type that most is multiplied in.")
    samples: Positive = Field(description="Samples per step.")
    tokens: Whole = Field(description="Tokens per step; 0 if samples are not text.")
    sizes: dict[str, Whole] = Field(description="Sizes that differ from the model's.")
    computed_in: str = Field(description="The flag --dtype.")
    optimizer: str = Field(description="Optimizer.")
    pins: str = Field(description="Pinned decisions.")
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
        description="Which to take, its number, from 0: of those tied with the first one that"
        " leaves a tenth of the memory, if any does, with the fewest axes, laid out as frameworks"
        " do it, with nothing computed again, with a fifth of the memory free, that may take least"
        " longer than the first, and the least memory. It is what is written. Null if nothing fits."
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
    refused: list[RefusedPlans] = Field(description="Plans that cannot be, and why.")
    asked_why_not: str = Field(description="The pins of the plan beside these.")
    why_not: PlanOfStep | None = Field(description="The best with those pins; null if none fits.")
    why_not_nearest: LeastMemory | None = Field(
        description="If nothing with those pins fits: what needs the least memory; else null."
    )
    rows: RowsOfOperations | None = Field(description="If --rows is asked; else null.")
    assumed: str = Field(
        description="Of batch normalisation, or of the tokens of experts; else empty."
    )
    complete: bool = Field(description="False if a better plan may be missing.")
    programs: list[ProgramOfPlan] = Field(
        description="What of the best gains by a program of ours, the most first."
    )
    sent: list[CollectiveOfStep] = Field(
        description="What the busiest rank of the best sends, what takes the most time first."
    )
    perhaps_saved_seconds: Seconds = Field(
        description="Time the first would save if all programs worth measuring, which tie with the"
        " runtime's defaults, are as fast as predicted."
    )
    files: list[TextFile] = Field(description="The best as frameworks take it, a folder for each.")
    not_said: list[UnsupportedFramework] = Field(description="The frameworks that cannot, and why.")

    @property
    def best(self) -> PlanOfStep:
        """The plan to be taken; there must be one."""
        return self.plans[self.advised or 0]
