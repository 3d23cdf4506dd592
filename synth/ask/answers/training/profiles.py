"""What the verb answers that measures the local work of a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import Field

from grammar.tensors.operations import Step
from synth.ask.answers.parts import (
    AnswerPart,
    Number,
    Positive,
    ReplyModel,
    Seconds,
    TextFile,
    Whole,
)
from synth.step.profiles import OperationBlock, Profile, ProfileEvent, profile_text


class EventRow(AnswerPart):
    """Work that a device does without a break, which is measured once."""

    key: str = Field(min_length=1, description="Key that equal work shares.")
    name: str = Field(min_length=1, description="Its first and last operation, and whose line.")
    times: Positive = Field(description="Occurrences in the step, counting loops once.")
    operations: Positive = Field(description="Number of operations.")
    flops: Whole = Field(description="Its floating-point operations.")
    bytes: Whole = Field(description="Bytes that its operations read and write, one by one.")
    seconds: Seconds | None = Field(description="The median; null if not measured.")
    spread: Number | None = Field(
        description="Interquartile range of its samples as a share of the median."
    )


class MeasurementPlace(AnswerPart):
    """What the seconds hold for."""

    processor: str = Field(description="The processor's name.")
    cores: Positive = Field(description="Number of them.")
    device: str = Field(description="The GPU's name, or cpu.")
    versions: dict[str, str] = Field(description="Versions of Python and of the runtime.")
    threads: Positive = Field(description="Threads per process.")
    processes: Positive = Field(description="Processes that measured at once.")
    date: str = Field(description="The day.")
    drift: Annotated[Number, Field(description="How far the reference moved, as a share.")]


class ProfileReply(ReplyModel):
    """The local work of a plan: what is measured once, and what was measured."""

    name: str = Field(description="Name of the step.")
    plan: str = Field(description="The plan.")
    runtime: Literal["jax", "torch"] = Field(description="Runtime.")
    operations: Positive = Field(description="Operations of the step, counting loops once.")
    blocks: Positive = Field(description="Operations one after the other, nothing sent between.")
    events: Annotated[
        list[EventRow], Field(min_length=1, description="Blocks that differ, the longest first.")
    ]
    where: MeasurementPlace | None = Field(description="Null if nothing was measured.")
    files: list[TextFile] = Field(description="The profile, if it was measured.")

    @classmethod
    def of(
        cls,
        step: Step,
        pairs: Iterable[tuple[OperationBlock, ProfileEvent]],
        *,
        text: str,
        runtime: str,
        profile: Profile | None,
    ) -> Self:
        found = list(pairs)
        times = Counter(event.key for _, event in found)
        rows = [
            _row(event, times[event.key], profile)
            for event in {event.key: event for _, event in found}.values()
        ]
        return cls.like(
            name=step.name,
            plan=text,
            runtime=runtime,
            operations=sum(len(block.of) for block, _ in found),
            blocks=len(found),
            events=sorted(rows, key=lambda row: (-(row.seconds or 0.0), -row.flops, row.key)),
            where=profile and MeasurementPlace.like(profile, profile.where),
            files={f"{step.name}_{runtime}.profile": profile_text(profile)} if profile else {},
        )


def _row(event: ProfileEvent, times: int, profile: Profile | None) -> EventRow:
    measured = None if profile is None else profile.by_key[event.key]
    return EventRow.like(
        event,
        times=times,
        bytes=event.moved_bytes,
        seconds=measured and measured.seconds,
        spread=measured and measured.spread,
    )
