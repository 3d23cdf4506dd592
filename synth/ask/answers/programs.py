"""What the verbs answer that are about one program: is it right, whom does it join, its price."""

from __future__ import annotations

from math import prod
from typing import Annotated, Self

from pydantic import Field

from synth.ask.answers.machine_parts import LevelInBrief, MachineException, PricesName
from synth.ask.answers.parts import (
    DEFAULTS,
    VERDICT,
    AnswerPart,
    Axes,
    CollectiveName,
    DefaultsPart,
    GoalName,
    Interval,
    LimitedBy,
    Matrix,
    Number,
    OrderedPart,
    Positive,
    PredictedSeconds,
    ProtocolName,
    ReplyModel,
    Seconds,
    StepPricePart,
    VerdictPart,
    Version,
    Whole,
)
from synth.collective.emit.document.schema import (
    Head,
    Padded,
    Payload,
    Pieces,
    ProgramText,
    Segments,
    Steps,
)
from synth.collective.ranking import settings
from synth.collective.semantics.rules import DemandKind


class TreePart(AnswerPart):
    """The tree a program is over."""

    names: list[str] = Field(description="Of its digits, outermost first.")
    sizes: list[Positive] = Field(description="Of its digits.")


class RefusalPart(AnswerPart):
    """Where the rules refuse a program."""

    step: Whole | None = Field(description="Counted from 0; null: the goal is missed.")
    kind: Annotated[DemandKind, Field(strict=False)] = Field(description="Kind of mistake.")
    reason: str = Field(min_length=1, description="In a sentence.")


class ReplayPart(AnswerPart):
    """What was seen when a program was carried out on arrays."""

    devices: Positive = Field(description="Number of them.")
    elements: Positive = Field(description="Number of elements on each device.")
    equal: bool = Field(description="Whether the result is right.")
    reason: str | None = Field(description="What went wrong; else null.")


class CheckReply(ReplyModel, VerdictPart):
    """Whether a program does what is requested, or what goes wrong and where."""

    last = (*VERDICT, "replay")

    request: GoalName = Field(description="Request of the program.")
    given: str = Field(description="The program as it was read.")
    program: str = Field(description="Its canonical spelling.")
    tree: TreePart = Field(description="The tree it is over.")
    valid: bool = Field(description="Derived by the rules, and proved by z3.")
    states: list[list[str]] = Field(description="States before and after each step.")
    refused: RefusalPart | None = Field(description="Why the rules refuse it; else null.")
    replay: ReplayPart | None = Field(description="Null unless it was asked for.")

    @property
    def right(self) -> bool:
        """Whether nothing speaks against the program: a proof, and the replay if there was one."""
        return self.valid and (self.replay is None or self.replay.equal)


class LowerReply(Head, OrderedPart):
    """The schedule of a program for the real devices, as a document."""

    last = (
        *("system", "levels", "axes", "placement", "reduce", "request", "collapse"),
        *("program", "devices", "payload_bytes", "padded_bytes", "pieces", "segments"),
        *("reduction_groups", "steps"),
    )

    schema_version: Version  # type: ignore[assignment]  # never left out
    # A literal takes True, too, as it equals 1.
    version: int = Field(  # type: ignore[assignment]
        ge=1, le=1, description="The version of the document."
    )
    system: str = Field(description="The name of the machine.")
    program: ProgramText
    payload_bytes: Payload
    padded_bytes: Padded
    pieces: Pieces
    segments: Segments
    steps: Steps


class TimeReply(ReplyModel, DefaultsPart):
    """What each step of a program costs and why."""

    last = (
        *DEFAULTS,
        *("interval_seconds", "baseline_interval_seconds"),
        *("bound_seconds", "bound_by", "limited_by"),
    )

    system: str = Field(description="The name of the machine.")
    levels: list[LevelInBrief] = Field(min_length=1, description="Of the machine.")
    axes: Axes = Field(description="Sizes by name; their order is that of the rows.")
    placement: Matrix = Field(description="One row an axis, one column a level.")
    reduce: list[str] = Field(min_length=1, description="The axes that the program is over.")
    prices: PricesName = Field(description="Basis of prices: see --prices.")
    exceptions: list[MachineException] = Field(description="Units that are missing or slower.")
    request: GoalName = Field(description="Request of the program.")
    program: str = Field(description="Its canonical spelling.")
    bytes: Positive = Field(description="The largest buffer of a device.")
    segments: Positive = Field(description="Number of pieces the payload is cut into.")
    steps: list[StepPricePart] = Field(description="Steps of one segment.")
    seconds: PredictedSeconds
    barrier_seconds: Seconds = Field(description="In one segment.")
    baseline_seconds: Seconds = Field(description="Seconds of the default on the same placement.")
    interval_seconds: Interval | None = Field(
        description="Interval of a calibrated system, or null."
    )
    baseline_interval_seconds: Interval | None = Field(
        description="Interval of the default, or null."
    )
    bound_seconds: Seconds = Field(description="Lower bound over all schedules on this placement.")
    bound_by: str = Field(description="The level whose links impose the bound.")
    limited_by: LimitedBy


class CallOfProgram(AnswerPart):
    """A call of a program, of one segment."""

    collective: CollectiveName = Field(description="What it does.")
    members: Positive = Field(description="Number of devices in each group.")
    bytes: Number = Field(description="The larger of a member's buffers before and after.")
    way: str = Field(min_length=1, description="Algorithm of the price: ring, tree, nvls, ...")
    protocol: ProtocolName = Field(description="Protocol.")
    own_way: str = Field(min_length=1, description="Algorithm that the runtime would choose.")
    own_protocol: ProtocolName = Field(description="Protocol.")

    @classmethod
    def of(cls, call: settings.RuntimeCall) -> Self:
        way, protocol = call.way
        own_way, own_protocol = call.own_way
        return cls.like(
            call.price,
            collective=call.price.what,
            members=prod(call.price.members),
            way=way,
            protocol=protocol,
            own_way=own_way,
            own_protocol=own_protocol,
        )


class CallsOfProgram(AnswerPart):
    """The calls of a program, and what is to be set for them to go as priced."""

    own_seconds: Seconds = Field(description="If nothing is set.")
    environment: str = Field(
        description="Variables to set; empty if there are none or none would do."
    )
    each: list[CallOfProgram] = Field(min_length=1, description="Calls of all stripes in turn.")

    @classmethod
    def of(cls, calls: settings.RuntimeCalls) -> Self:
        return cls.like(calls, environment=calls.line)
