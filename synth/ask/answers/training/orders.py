"""What the verb answers that looks at pipeline schedules."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field

from synth.ask.answers.parts import (
    AnswerPart,
    OneFile,
    Positive,
    ReplyModel,
    Seconds,
    Whole,
)
from synth.step.schedules import (
    CommSchedule,
    Durations,
    PipelineSchedule,
    ScheduleTimeline,
    TransferProtocol,
    Transfers,
    to_csv,
)

_Idle = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class ActionOfOrder(AnswerPart):
    """One pass of one microbatch on one stage."""

    action: str = Field(description="In PyTorch's notation: stage, F, B, I or W, microbatch.")
    begin_seconds: Seconds = Field(description="Start.")
    end_seconds: Seconds = Field(description="End.")


class RankOfOrder(AnswerPart):
    """What one rank of a pipeline does."""

    stages: list[Whole] = Field(min_length=1, description="Its stages.")
    held: Positive = Field(
        description="Maximal number of microbatches, stage by stage, whose activations it holds."
    )
    waiting: Whole = Field(
        description="Maximal number of pending weight gradients (I done, W not)."
    )
    idle_share: _Idle = Field(description="Share of the time in which it is in a bubble.")
    actions: list[ActionOfOrder] = Field(min_length=1, description="In order.")


class OrderReply(ReplyModel):
    """A pipeline schedule on a clock."""

    schedule: str | None = Field(description="Its name; null for an order given as text.")
    stages: Positive = Field(description="Stages of the model.")
    microbatches: Positive = Field(description="Microbatches per step.")
    forward_seconds: Seconds = Field(description="Seconds of a microbatch on all stages of a rank.")
    backward_seconds: Seconds = Field(description="Seconds of its backward pass, both halves.")
    weight_seconds: Seconds = Field(description="Part of it for weight gradients.")
    transfer_seconds: Seconds = Field(description="Seconds of a transfer between ranks.")
    protocol: Annotated[TransferProtocol, Field(strict=False)] = Field(
        description="When a transfer between ranks may start."
    )
    communication: bool = Field(
        description="Whether the order has sends and receives, where transfers then are."
    )
    seconds: Seconds = Field(description="Seconds until all is done.")
    idle_share: _Idle = Field(description="Bubble as a share of all ranks' time.")
    ranks: list[RankOfOrder] = Field(
        min_length=1, description="Actions of each rank, rank 0 first."
    )
    files: OneFile = Field(description="The CSV for PyTorch's _PipelineScheduleRuntime.")

    @classmethod
    def of(
        cls,
        name: str | None,
        chosen: PipelineSchedule | CommSchedule,
        found: ScheduleTimeline,
        durations: Durations,
        transfers: Transfers,
    ) -> Self:
        order = chosen.order if isinstance(chosen, CommSchedule) else chosen
        text = chosen.csv() if isinstance(chosen, CommSchedule) else to_csv(chosen)
        stages = [sorted({action.stage for action in row}) for row in order.ranks]
        actions = [
            [(str(span.action), span.begin_seconds, span.end_seconds) for span in row]
            for row in found.ranks
        ]
        return cls.like(
            order,
            found,
            durations,
            transfers,
            schedule=name,
            weight_seconds=durations.weight,
            transfer_seconds=transfers.seconds,
            communication=isinstance(chosen, CommSchedule),
            ranks=zip(
                stages, order.held(), order.waiting(), found.idle_shares, actions, strict=True
            ),
            files={"order.csv": text},
        )
