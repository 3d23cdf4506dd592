"""The answer of ``plan`` for several values of its keys: the advised plan of each combination."""

from __future__ import annotations

from pydantic import Field

from synth.ask.answers.parts import (
    AnswerPart,
    Axes,
    Matrix,
    Number,
    Positive,
    ReplyModel,
    Seconds,
    Whole,
)


class SweptPlan(AnswerPart):
    """The advised plan of one combination of values; null where there is none."""

    values: dict[str, str] = Field(description="The values of the swept keys.")
    problem: str = Field(description="Why the combination has no plan; empty if it has one.")
    system: str | None = Field(description="The machine; null if the question cannot be used.")
    devices: Positive | None = Field(description="Number of them; null with the system.")
    plan: str | None = Field(description="The advised plan, as `simulate` takes it.")
    axes: Axes | None = Field(description="Sizes of its axes.")
    placement: Matrix | None = Field(description="Its placement.")
    seconds: Seconds | None = Field(description="Simulated seconds of a step.")
    samples: Positive | None = Field(description="Samples per step; null with the system.")
    tokens_per_second: Number | None = Field(description="0 if samples are not text.")
    utilisation: Number | None = Field(description="Model FLOPs over the peak of all devices.")
    bytes: Whole | None = Field(description="Memory of the fullest device.")
    gap: Number | None = Field(description="By what share it exceeds a lower bound of all plans.")
    complete: bool = Field(description="False if a better plan may be missing.")


class PlanSweepReply(ReplyModel):
    """The advised plans of all combinations of values, in the order of the values."""

    swept: dict[str, list[str]] = Field(min_length=1, description="The values of each swept key.")
    rows: list[SweptPlan] = Field(description="Combinations; the last key varies fastest.")
    complete: bool = Field(description="False if a combination or a better plan may be missing.")
