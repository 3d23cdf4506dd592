"""What a plan of a step sends: each collective, how often and how long, so that sums are seen."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field

from synth.ask.answers.parts import AnswerPart, GoalName, Positive, Seconds
from synth.step.search.gaining import CollectiveGain


class CollectiveOfStep(AnswerPart):
    """A collective that the busiest rank sends in a step."""

    request: GoalName = Field(description="Request.")
    over: list[str] = Field(min_length=1, description="Axes.")
    bytes: Positive = Field(description="The largest buffer of a device.")
    times: Positive = Field(description="Calls in a step.")
    seconds: Seconds = Field(description="Seconds of a call.")
    all_seconds: Seconds = Field(description="Total: times * seconds.")
    hidden: Annotated[float, Field(ge=0, le=1)] = Field(
        description="The share in which the device computes."
    )
    exposed_seconds: Seconds = Field(description="Exposed: (1 - hidden) * all_seconds.")

    @classmethod
    def of(cls, one: CollectiveGain) -> Self:
        together = one.sent.times * one.seconds
        return cls.like(
            one.sent,
            one,
            all_seconds=together,
            exposed_seconds=(1 - one.sent.hidden) * together,
        )
