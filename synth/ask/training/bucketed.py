"""The verb for users of plain DDP: the gradient buckets with which a step ends first."""

from __future__ import annotations

from importlib.metadata import version
from math import gcd
from typing import Annotated, Literal, Self

from pydantic import Field

from grammar.tensors.operations import ShardedStep, Step
from grammar.tensors.parser import parse_step
from hierarchies import Axis, InputError, System, placements
from synth.ask.answers.machine_parts import LevelInBrief, NcclPart, PricesName
from synth.ask.answers.parts import (
    AnswerPart,
    Number,
    OneFile,
    Positive,
    ReplyModel,
    Seconds,
    SignedInterval,
)
from synth.ask.answers.training.simulated import SecondsSource
from synth.ask.questions.fields import Flag
from synth.ask.questions.question import MachineQuestion
from synth.ask.reply import Reply, reply
from synth.ask.training.machines import Accelerator, accelerator_of
from synth.ask.training.simulated import size_of
from synth.ask.training.traces import SHAPE, ModelQuestion
from synth.collective.ranking.request import Watcher
from synth.step.bucketing import (
    AXIS,
    SCRIPT_NAME,
    BucketComparison,
    PolicyResult,
    build_replica,
    compare_policies,
)
from synth.step.bucketing import FillPolicy as FillPolicy
from synth.step.bucketing import write_script as script_of
from synth.step.bucketing.clock import Bucket


class BucketsQuestion(ModelQuestion, MachineQuestion):
    """Find the buckets of gradients with which DDP is fastest; -o for two lines in its script."""

    batch: Annotated[int, SHAPE, Field(ge=1), Flag("Samples per step, over all devices")] = 256
    device: Accelerator = None

    def checked(self) -> System:
        """The machine. Raises InputError for one of one device, and one that is not even."""
        system = self.machine().check_even()
        if system.devices < 2:
            raise InputError(f"{system.name} has one device", where="SYSTEM", hint="two or more")
        return system

    def check_step(self, step: Step | ShardedStep | None) -> None:
        system = self.checked()
        accelerator_of(system, self.device)
        if self.source() is not None:
            self.check_batch(self.batch, system.devices)
        elif isinstance(step, Step):
            self.check_batch(size_of(step)[0], system.devices)

    def check_batch(self, samples: int, devices: int) -> None:
        """Raises InputError where not every device has as many samples."""
        if samples % devices:
            alike = devices * max(1, round(samples / devices))
            kept = self.source() is None
            hint = f"as many for each: {'trace it with ' if kept else ''}--batch {alike}"
            where = "MODEL" if kept else "--batch"
            raise InputError(f"{samples} samples for {devices} devices", where=where, hint=hint)


_Filling = Annotated[FillPolicy, Field(strict=False)]


class BucketOfGradients(AnswerPart):
    """Gradients that are summed as one."""

    first: str = Field(description="Parameter of the bucket's first gradient.")
    last: str = Field(description="Parameter of its last gradient.")
    tensors: Positive = Field(description="Total number.")
    elements: Positive = Field(description="Number of elements in all of them.")
    bytes: Positive = Field(description="Bytes of all of them.")
    begin_seconds: Seconds = Field(description="Start of its reduction.")
    end_seconds: Seconds = Field(description="End of its reduction.")

    @classmethod
    def of(cls, found: BucketComparison, bucket: Bucket) -> Self:
        backward = found.replica.backward
        upto = backward.upto_elements
        return cls.like(
            bucket,
            first=backward.gradients[bucket.first].name,
            last=backward.gradients[bucket.last - 1].name,
            tensors=bucket.last - bucket.first,
            elements=upto[bucket.last] - upto[bucket.first],
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
    saved_seconds: SignedInterval = Field(
        description="Range in which DDP's default takes longer in 9 of 10 cases."
    )
    against_default: Literal["faster", "same", "slower"] = Field(
        description="Compared with DDP's default; same: a tie."
    )
    buckets: list[BucketOfGradients] = Field(min_length=1, description="In order.")

    @classmethod
    def of(cls, found: BucketComparison, policy: PolicyResult) -> Self:
        saved = policy.saved
        direction: Literal["faster", "slower"] = "faster" if saved.seconds > 0 else "slower"
        return cls.like(
            policy.timed,
            filling=policy.filling,
            gap=max(0.0, policy.timed.seconds / found.least.seconds - 1),
            saved_seconds=saved,
            against_default=direction if saved.is_clear else "same",
            buckets=[BucketOfGradients.of(found, bucket) for bucket in policy.timed.buckets],
        )


class StepLowerBounds(AnswerPart):
    """What a step takes at least, whatever the buckets."""

    seconds: Seconds = Field(description="The maximum of the other bounds.")
    compute_seconds: Seconds = Field(description="All compute.")
    communication_seconds: Seconds = Field(description="The first gradient, then reductions only.")
    chain_seconds: Seconds = Field(description="Time until the last gradient, and its reduction.")


class BucketsReply(ReplyModel):
    """Buckets of gradients for DDP, beside its own; and the file that gives them to it."""

    name: str = Field(description="Name of the step.")
    system: str = Field(description="The machine's name.")
    levels: list[LevelInBrief] = Field(min_length=1, description="Outermost first.")
    prices: PricesName = Field(description="Basis of communication prices.")
    nccl: NcclPart | None = Field(description="Version of NCCL or RCCL; null for other runtimes.")
    device: str = Field(description="Accelerator whose rates are used.")
    devices: Positive = Field(description="Number of devices, each a replica.")
    samples: Positive = Field(description="Samples per step, over all devices.")
    gradients: Positive = Field(description="Number of gradients.")
    bytes: Positive = Field(description="Bytes of all gradients on each device.")
    dtype: str = Field(description="Their element type.")
    compute_source: SecondsSource = Field(
        description="Source of compute seconds, the least certain one."
    )
    compute_seconds: Seconds = Field(description="Seconds until the backward pass ends.")
    update_seconds: Seconds = Field(description="Seconds of the optimizer after all reductions.")
    least: StepLowerBounds = Field(description="Lower bounds for any buckets.")
    cap_mib: Positive = Field(description="The best bucket_cap_mb for all buckets.")
    ways: list[WayToFill] = Field(min_length=1, description="DDP's default first, ours last.")
    files: OneFile = Field(description="Module that a training script imports.")


def find_buckets(question: BucketsQuestion, watcher: Watcher) -> Reply:
    """The model on all devices of a machine, each a replica, and buckets beside DDP's own."""
    system = question.checked()
    device = accelerator_of(system, question.device)
    step = question.read(parse_step, gcd(question.batch, system.devices))
    samples, _ = size_of(step)
    question.check_batch(samples, system.devices)
    [placement] = placements(system.hierarchy, (Axis(AXIS, system.devices),))
    found = compare_policies(build_replica(step, system, placement, device))
    script = script_of(found, step.name, f"collsynth {version('collsynth')}")
    backward = found.replica.backward
    answer = BucketsReply.like(
        found,
        found.replica,
        backward,
        system.hierarchy,
        name=step.name,
        system=system.name,
        prices=system.prices,
        nccl=NcclPart.of(system),
        device=device.name,
        samples=samples,
        compute_source=found.replica.how,
        gradients=len(backward.gradients),
        bytes=backward.upto_bytes[-1],
        ways=[WayToFill.of(found, policy) for policy in found.ways],
        files={SCRIPT_NAME: script},
    )
    return reply(answer)
