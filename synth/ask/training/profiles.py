"""The verb that measures the local work of a plan on this machine."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from pydantic import Field

from synth.ask.answers.parts import (
    AnswerPart,
    Number,
    Positive,
    ReplyModel,
    Seconds,
    TextFile,
    Whole,
)
from synth.ask.questions.fields import CostLimit, Flag
from synth.ask.questions.flags import Measure
from synth.ask.reply import Reply, reply
from synth.ask.training.plans import PlannedQuestion
from synth.ask.training.simulated import products
from synth.collective.ranking.request import Watcher
from synth.step.profiles import (
    Profile,
    ProfileEvent,
    ProfileTrial,
    list_events,
    measure_events,
    profile_text,
)


class ProfileQuestion(PlannedQuestion):
    """Measure the local work of a plan here: equal work once, beside a reference."""

    runtime: Annotated[Literal["jax", "torch"], Flag("Runtime: jax or torch")] = "jax"
    measure: Annotated[
        bool,
        CostLimit.HERE,
        Flag("Only list what would be measured", spelled="--no-measure"),
    ] = True
    processes: Annotated[
        int,
        Field(ge=1, le=64),
        Flag("Processes that measure at once", ": as many as will share the machine"),
    ] = 1
    threads: Annotated[int, Field(ge=1, le=256), Flag("Threads per process")] = 1
    samples: Annotated[int, Field(ge=5, le=1000), Flag("Samples per event, if there is time")] = 15
    seconds: Annotated[
        Measure, Flag("Approximate seconds to measure; at least five samples are taken")
    ] = Field(default=60.0, gt=0, strict=False)
    timeout_seconds: Annotated[Measure, Flag("Timeout in seconds", spelled="--timeout")] = Field(
        default=600.0, gt=0, strict=False
    )

    def trial(self) -> ProfileTrial:
        """How it is measured."""
        return ProfileTrial(
            self.runtime,
            self.processes,
            self.threads,
            self.samples,
            self.seconds,
            self.timeout_seconds,
        )


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


def profile(question: ProfileQuestion, watcher: Watcher) -> Reply:
    """What is measured once of the plan's work; and, unless only that is asked, its seconds."""
    step = question.step()
    found = question.planned(step)
    pairs = list(list_events(question.runtime, found.step, found.program, found.plan.parts))
    seen = None
    if question.measure:
        events, dtype = (event for _, event in pairs), products(step)[1]
        seen = measure_events(events, question.trial(), step.name, found.text, dtype, watcher.go_on)
    times = Counter(event.key for _, event in pairs)
    rows = [
        _row(event, times[event.key], seen)
        for event in {event.key: event for _, event in pairs}.values()
    ]
    answer = ProfileReply.like(
        question,
        name=step.name,
        plan=found.text,
        operations=sum(len(block.of) for block, _ in pairs),
        blocks=len(pairs),
        events=sorted(rows, key=lambda row: (-(row.seconds or 0.0), -row.flops, row.key)),
        where=seen and MeasurementPlace.like(seen, seen.where),
        files={f"{step.name}_{question.runtime}.profile": profile_text(seen)} if seen else {},
    )
    return reply(answer)


def _row(event: ProfileEvent, times: int, profile: Profile | None) -> EventRow:
    measured = profile and profile.by_key[event.key]
    return EventRow.like(
        event,
        times=times,
        bytes=event.moved_bytes,
        seconds=measured and measured.seconds,
        spread=measured and measured.spread,
    )
