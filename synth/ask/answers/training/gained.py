"""Collectives of a plan: their times, and the gains of our programs."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field

from hierarchies.units import format_bytes
from synth.ask.answers.parts import AnswerPart, GoalName, Positive, Seconds
from synth.collective.ranking.how_to_get import AdviceKind, advise
from synth.collective.ranking.request import programs_text
from synth.step.search.gaining import CollectiveGain


def describe_gain(gain: CollectiveGain) -> str:
    """``reduce-scatter of 16 KiB over data: `` and what it gains by: a line, or a program."""
    sent, how = gain.sent, advise(gain.answer)
    by = how.text if how.by is AdviceKind.ENVIRONMENT else gain.answer.candidate.text
    return f"{sent.goal.value} of {format_bytes(sent.size_bytes)} over {', '.join(sent.over)}: {by}"


class ProgramOfPlan(AnswerPart):
    """A collective of the first plan for which a proved program gains over the runtime's choice."""

    request: GoalName = Field(description="Request.")
    over: list[str] = Field(min_length=1, description="Axes.")
    bytes: Positive = Field(description="The largest buffer of a device.")
    times: Positive = Field(description="Calls in a step.")
    program: str = Field(description="Its steps; those of several stripes separated by ' | '.")
    seconds: Seconds = Field(description="Seconds of a call by algorithms of the runtime.")
    default_seconds: Seconds = Field(description="Seconds with the runtime's default.")
    saved_seconds: Seconds = Field(description="Exposed seconds saved in a step.")
    environment: str = Field(description="The line that makes the runtime choose so; else empty.")
    files: list[str] = Field(
        description="The names of its files: a framework each, and a plan for MSCCL++."
    )
    no_plan: str = Field(description="Why none of these is for MSCCL++; empty if one is.")

    @classmethod
    def of(
        cls, gain: CollectiveGain, environment: str, files: list[str], no_plan: str = ""
    ) -> Self:
        answer = gain.answer
        return cls.like(
            gain,
            gain.sent,
            program=programs_text(str(stripe.part.program) for stripe in answer.stripes),
            seconds=answer.runtime_seconds,
            environment=environment,
            files=files,
            no_plan=no_plan or ("the runtime does it by itself" if environment else ""),
        )


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
    def of(cls, gain: CollectiveGain) -> Self:
        together = gain.sent.times * gain.seconds
        return cls.like(
            gain.sent,
            gain,
            all_seconds=together,
            exposed_seconds=(1 - gain.sent.hidden) * together,
        )
