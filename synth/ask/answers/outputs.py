"""The answers of the verbs that emit programs as files for runtimes, or run them here."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from itertools import pairwise
from math import isfinite
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag

from grammar.tensors.sharding import ReductionKind
from synth.ask.answers.degraded import GroupStepPart
from synth.ask.answers.parts import (
    AnswerPart,
    AnyFile,
    BinaryFile,
    GoalName,
    Json,
    NonEmptyText,
    Number,
    OneFile,
    OperationName,
    Positive,
    PredictedSeconds,
    ReplyModel,
    Seconds,
    TextFile,
    discriminate_by,
    optional_key,
    to_json,
)
from synth.collective.degraded.handing import PricedGroupProgram
from synth.collective.emit.nccl_tuner import describe_covered
from synth.collective.emit.package import PackageEntry
from synth.collective.emit.source import EmitSource, Files, kept_default
from synth.collective.emit.targets import target_of
from synth.collective.ranking.request import programs_text
from synth.collective.run import TrialResult
from synth.collective.semantics.schedule import pad_length, slice_ends

GROUPS_FORMAT, GROUPS_VERSION = "collsynth-groups", 1
"""Where reductions do not add: who cannot tell must not add."""


def _file(name: str, content: str | bytes) -> TextFile | BinaryFile:
    """As text, or in base64 if it is no text."""
    if isinstance(content, str):
        return TextFile(name=name, text=content)
    return BinaryFile(name=name, base64=b64encode(content).decode())


class PayloadStripe(AnswerPart):
    """One of the programs that share the payload."""

    program: str = Field(description="Its steps.")
    bytes: Positive = Field(
        description="Bytes of its slice; those of all stripes add up to the payload."
    )
    segments: Positive = Field(description="Number of segments of its slice.")

    @classmethod
    def all_of(cls, source: EmitSource) -> list[Self]:
        """The schedules that share the payload: what each carries out, on how much of it."""
        return [cls.like(schedule, program=str(schedule.program)) for schedule in source.schedules]


class EmittedReply(ReplyModel):
    """A program in the words of a runtime or tool."""

    target: str = Field(description="Runtime or tool.")
    system: str = Field(description="The name of the machine.")
    program: str = Field(description="Its steps; those of several stripes separated by ' | '.")
    op: OperationName = Field(description="The reduction operation.")
    proof: Literal["proved", "unknown"] = Field(description="Verdict of z3.")
    segments: Positive = Field(description="1 for targets that cannot overlap.")
    stripes: list[PayloadStripe] = Field(min_length=1, description="The programs side by side.")
    seconds: PredictedSeconds
    notes: list[NonEmptyText] = optional_key(
        "That the default is to be kept, if no gain is sure, and the sizes that its rows cover.", []
    )
    files: list[AnyFile] = Field(min_length=1, description="Files to save.")

    @classmethod
    def of(cls, source: EmitSource, target: str, files: Files) -> Self:
        row = target_of(target)
        notes = [] if row.places else [*kept_default(source)]
        notes += [describe_covered(source)] * row.by_size
        return cls.like(
            source,
            source.schedule,
            target=target,
            system=source.system.name,
            program=programs_text(str(schedule.program) for schedule in source.schedules),
            proof="proved" if source.proved else "unknown",
            stripes=PayloadStripe.all_of(source),
            files=[_file(name, content) for name, content in files.items()],
            **({"notes": notes} if notes else {}),
        )


class EmittedGroupsReply(ReplyModel):
    """A program of explicit groups, for a machine that lacks devices."""

    target: Literal["json"] = Field(description="The target that can list groups.")
    system: str = Field(description="The name of the machine.")
    program: str = Field(description="Its steps in words.")
    op: OperationName = Field(description="The reduction operation.")
    proof: Literal["proved"] = Field(description="Verdict of z3.")
    proved_for: Positive = Field(description="Number of devices of the proof.")
    files: OneFile = Field(description="Files to save.")


class EmittedEntry(AnswerPart):
    """One of the collectives of a plan."""

    name: str = Field(description="Name in the job.")
    request: GoalName = Field(description="Request.")
    program: str = Field(description="Its steps; those of several stripes separated by ' | '.")
    proof: Literal["proved", "unknown"] = Field(description="Verdict of z3.")
    seconds: PredictedSeconds

    @classmethod
    def of(cls, entry: PackageEntry) -> Self:
        source = entry.source
        return cls.like(
            source,
            source.schedule,
            name=entry.name,
            program=programs_text(str(schedule.program) for schedule in source.schedules),
            proof="proved" if source.proved else "unknown",
        )


class EmittedPlanReply(ReplyModel):
    """All collectives of a plan in the words of a runtime or tool."""

    target: str = Field(description="Runtime or tool.")
    system: str = Field(description="The name of the machine.")
    entries: list[EmittedEntry] = Field(min_length=1, description="Entries of the plan.")
    files: list[AnyFile] = Field(min_length=1, description="Files to save in one folder.")

    @classmethod
    def of(cls, entries: Sequence[PackageEntry], target: str, files: Files) -> Self:
        return cls.like(
            target=target,
            system=entries[0].source.system.name,
            entries=entries,
            files=[_file(name, content) for name, content in files.items()],
        )


EmitReply = Annotated[
    Annotated[EmittedReply, Tag("")]
    | Annotated[EmittedGroupsReply, Tag("proved_for")]
    | Annotated[EmittedPlanReply, Tag("entries")],
    Discriminator(discriminate_by("proved_for", "entries")),
]


class ResultCheck(AnswerPart):
    """How a result compares with what it should be; null where a backend cannot tell."""

    equal: bool | None = Field(description="Whether the result is right up to rounding.")
    error: Number | None = Field(description="Largest error as a multiple of the rounding bound.")
    bitwise_equal: bool | None = Field(
        description="Whether all devices hold identical bits where required."
    )

    @classmethod
    def of(cls, seen: TrialResult) -> Self:
        """An infinite or NaN error becomes None, as JSON has neither."""
        finite = seen.error is not None and isfinite(seen.error)
        return cls.like(seen, error=seen.error if finite else None)


class RunReply(ReplyModel):
    """What was seen when a program ran here, beside what was predicted for its system."""

    system: str = Field(description="The name of the given machine.")
    request: GoalName = Field(description="Request of the program.")
    op: OperationName = Field(description="The reduction operation.")
    program: str = Field(description="Its steps.")
    backend: str = Field(description="Backend that ran it.")
    devices: Positive = Field(description="Number of them.")
    bytes: Positive = Field(description="Bytes as run, in whole elements.")
    padded_bytes: Positive = Field(description="With the padding at the end of each slice.")
    segments: Positive = Field(description="Number of segments of the first slice.")
    stripes: list[PayloadStripe] = Field(description="Side by side; none of explicit groups.")
    dtype: str = Field(description="Element type.")
    check: ResultCheck | None = Field(description="Null unless requested.")
    measured_seconds: Seconds = Field(description="The median, on processes of this machine.")
    measured_plain_seconds: Seconds = Field(description="Measured seconds of the plain collective.")
    predicted_seconds: Seconds = Field(description="Predicted seconds on the given system.")
    predicted_plain_seconds: Seconds = Field(
        description="Predicted seconds of the plain collective."
    )


def groups_document(handed: PricedGroupProgram, op: ReductionKind = ReductionKind.SUM) -> Json:
    """Return the program as data: steps over groups of ranks, chunks of each rank, device ids."""
    return {
        "format": GROUPS_FORMAT,
        "version": GROUPS_VERSION,
        "system": handed.system,
        "devices": list(handed.devices),
        **({} if op is ReductionKind.SUM else {"op": op.value}),
        "program": handed.program.text,
        "bytes": handed.payload_bytes,
        "chunks": handed.program.chunks,
        "segments": handed.segments,
        "proved_for": len(handed.devices),
        "steps": [to_json(GroupStepPart.of(step)) for step in handed.program.steps],
    }


def padded_bytes(source: EmitSource, seen: TrialResult) -> int:
    """Return the payload's bytes with padding: each stripe's slice is padded to whole pieces.

    If the goal has pieces, as for an all-gather, each piece is sliced and padded separately.
    """
    schedules = source.schedules
    each = source.schedule.pieces if source.schedule.goal.in_pieces else 1
    cuts = (
        0,
        *slice_ends([schedule.payload_bytes for schedule in schedules], -(-seen.bytes // each)),
    )
    segments = [stripe.segments for stripe in seen.stripes]
    segments = segments or [seen.segments or schedule.segments for schedule in schedules]
    return sum(
        each * pad_length(end - begin, schedule.pieces // each * cut)
        for schedule, cut, (begin, end) in zip(schedules, segments, pairwise(cuts), strict=True)
    )
