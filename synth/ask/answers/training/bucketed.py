"""What the verb answers that finds buckets of gradients for DDP."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field

from synth.ask.answers.machine_parts import LevelInBrief, PricesName
from synth.ask.answers.parts import (
    AnswerPart,
    Number,
    OneFile,
    Positive,
    ReplyModel,
    Seconds,
)
from synth.ask.answers.training.simulated import SecondsSource
from synth.step.bucketing import SCRIPT_NAME, BucketComparison, FillPolicy, PolicyResult
from synth.step.bucketing.clock import Bucket

_Filling = Annotated[FillPolicy, Field(strict=False)]
_Signed = Annotated[float, Field(allow_inf_nan=False)]


class BucketOfGradients(AnswerPart):
    """Gradients that are summed as one."""

    first: str = Field(description="The gradient that is made first of its own: its parameter.")
    last: str = Field(description="The one that is made last.")
    tensors: Positive = Field(description="Total number.")
    elements: Positive = Field(description="Number of elements in all of them.")
    bytes: Positive = Field(description="Bytes of all of them.")
    begin_seconds: Seconds = Field(description="Start of its reduction.")
    end_seconds: Seconds = Field(description="End of its reduction.")

    @classmethod
    def of(cls, found: BucketComparison, one: Bucket) -> Self:
        backward = found.replica.backward
        upto = backward.upto_elements
        return cls.like(
            one,
            first=backward.gradients[one.first].name,
            last=backward.gradients[one.last - 1].name,
            tensors=one.last - one.first,
            elements=upto[one.last] - upto[one.first],
        )


class WayToFill(AnswerPart):
    """Buckets filled in one way, on the clock."""

    filling: _Filling = Field(description="Policy that fills buckets.")
    seconds: Seconds = Field(description="Seconds of a step.")
    exposed_seconds: Seconds = Field(
        description="Part of it in which the optimizer waits for reductions."
    )
    summing_seconds: Seconds = Field(description="Seconds of all reductions, hidden ones included.")
    gap: Number = Field(description="Share by which a step exceeds the lower bound.")
    saved_seconds: list[_Signed] = Field(
        min_length=2,
        max_length=2,
        description="Range in which DDP's default takes longer in 9 of 10 cases.",
    )
    against_default: Literal["faster", "same", "slower"] = Field(
        description="Compared with DDP's default; same: a tie."
    )
    buckets: list[BucketOfGradients] = Field(min_length=1, description="In order.")

    @classmethod
    def of(cls, found: BucketComparison, one: PolicyResult) -> Self:
        saved = one.saved
        told: Literal["faster", "slower"] = "faster" if saved.seconds > 0 else "slower"
        return cls.like(
            one.timed,
            filling=one.filling,
            gap=max(0.0, one.timed.seconds / found.least.seconds - 1),
            saved_seconds=[saved.low_seconds, saved.high_seconds],
            against_default=told if saved.told else "same",
            buckets=[BucketOfGradients.of(found, bucket) for bucket in one.timed.buckets],
        )


class StepLowerBounds(AnswerPart):
    """What a step takes at least, whatever the buckets."""

    seconds: Seconds = Field(description="The most of the others.")
    compute_seconds: Seconds = Field(description="All that is computed.")
    communication_seconds: Seconds = Field(description="The first gradient, then sums only.")
    chain_seconds: Seconds = Field(description="Time until the last gradient, and its reduction.")


class BucketsReply(ReplyModel):
    """Buckets of gradients for DDP, beside its own; and the file that gives them to it."""

    name: str = Field(description="Name of the step.")
    system: str = Field(description="The machine's name.")
    levels: list[LevelInBrief] = Field(min_length=1, description="Outermost first.")
    prices: PricesName = Field(description="Basis of communication prices.")
    device: str = Field(description="Accelerator whose rates are used.")
    devices: Positive = Field(description="Number of devices, each a replica.")
    samples: Positive = Field(description="Samples per step, over all devices.")
    gradients: Positive = Field(description="Number of gradients.")
    bytes: Positive = Field(description="Bytes of all gradients on each device.")
    dtype: str = Field(description="Their element type.")
    how: SecondsSource = Field(description="Source of compute seconds, the least certain one.")
    compute_seconds: Seconds = Field(description="Seconds until the backward pass ends.")
    update_seconds: Seconds = Field(description="Seconds of the optimizer after all reductions.")
    least: StepLowerBounds = Field(description="Lower bounds for any buckets.")
    cap_mib: Positive = Field(description="The best bucket_cap_mb for all buckets alike.")
    ways: list[WayToFill] = Field(min_length=1, description="DDP's default first, ours last.")
    files: OneFile = Field(description="Module that a training script imports.")

    @classmethod
    def of(cls, name: str, samples: int, found: BucketComparison, device: str, script: str) -> Self:
        backward, system = found.replica.backward, found.replica.sums.system
        return cls.like(
            found.replica,
            backward,
            name=name,
            system=system.name,
            levels=system.hierarchy.levels,
            prices=system.prices,
            device=device,
            devices=system.devices,
            samples=samples,
            gradients=len(backward.gradients),
            bytes=backward.upto_bytes[-1],
            least=found.least,
            cap_mib=found.cap_mib,
            ways=[WayToFill.of(found, policy) for policy in found.ways],
            files={SCRIPT_NAME: script},
        )
