"""The verb that shards a training step by a plan, over axes, on a machine if one is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Annotated, Literal, Self

from pydantic import Field

from grammar.tensors.operations import ShardedStep, Step, Value
from grammar.tensors.parser import parse_either
from grammar.tensors.sharding import ReductionKind, Type, part_shape
from hierarchies import InputError
from synth.ask.answers.machine_parts import LevelInBrief, NcclPart, PricesName
from synth.ask.answers.parts import (
    AnswerPart,
    Axes,
    Matrix,
    Number,
    OneFile,
    Positive,
    ReplyModel,
    Seconds,
    Whole,
)
from synth.ask.answers.ranked import LAID_OUT_BY, LaidOutBy
from synth.ask.reply import Reply, reply
from synth.ask.training.machines import StepOnMachineQuestion, TargetMachine
from synth.ask.training.plans import check_axes
from synth.collective.ranking.request import Answer, Watcher
from synth.step.redistribution import MoveKind
from synth.step.sharded_step import (
    PipelineTransfer,
    StepMove,
    StepRequest,
    check,
    list_shares,
    list_step_requests,
    list_transfers,
    local_moves,
    to_device_step,
    unsharded_share,
    write_sharded_step,
)
from synth.step.sharded_step.machine import choose_fastest_paths
from synth.step.sharding.plan import TIME


class ShardQuestion(StepOnMachineQuestion):
    """Shard a training step by a plan: its types, what it sends, bytes and operations a device."""

    def read_short(self) -> Step | ShardedStep:
        return self.read(parse_either)

    def check_step(self, step: Step | ShardedStep | None) -> None:
        if isinstance(step, ShardedStep):
            self.check_sharded()
        elif step is not None or self.plan is not None or self.source() is not None:
            super().check_step(step)  # a long text without a plan may be of a step that is sharded

    def check_sharded(self) -> None:
        """Raises InputError for what is said beside a step that is sharded already."""
        for flag, value in (("--plan", self.plan), ("--axes", self.axes)):
            if value is not None:
                hint = "it says its axes and how all values lie: change its text"
                raise InputError("this step is sharded already", where=flag, hint=hint)


RoleName = Literal["parameter", "moment", "state", "batch"]
HowName = Annotated[MoveKind, Field(strict=False)]
Operator = Annotated[ReductionKind, Field(strict=False)]


class InputOfStep(AnswerPart):
    """A value that a step takes in, and how it lies."""

    label: str = Field(description="Name given by the user.")
    role: RoleName = Field(description="What it is.")
    type: str = Field(description="Its type, with the axes that cut it: f32[8@data,16].")
    bytes: Whole = Field(description="Bytes of the whole value.")
    device_bytes: Whole = Field(description="Bytes of one device's part.")

    @classmethod
    def of(cls, value: Value, part: Value, label: str, role: str) -> Self:
        kind = value.spelled.removeprefix(f"{value.name}: ")
        return cls.like(
            label=label,
            role=role,
            type=kind,
            bytes=value.type.bytes,
            device_bytes=part.type.bytes,
        )


class BytesOfStep(AnswerPart):
    """What a step holds in memory, in bytes."""

    parameter: Whole = Field(description="Parameters.")
    gradient: Whole = Field(description="Their gradients, each where it is complete.")
    moment: Whole = Field(description="State of the optimizer.")
    state: Whole = Field(description="Counters, and constant arrays.")
    batch: Whole = Field(description="A batch.")
    values: Whole = Field(
        description="Peak of all other values, including gradients, without fusion."
    )


class MovedValue(AnswerPart):
    """A value that a request is made for."""

    name: str = Field(description="Its name in the text of the sharded step.")
    role: Literal["parameter", "gradient", "moment", "state", "batch", "value"] = Field(
        description="Its role; value: an intermediate value."
    )
    label: str = Field(description="Label; for a gradient that of its parameter; may be empty.")
    line: str = Field(
        description="Source line of the operation that computes it; empty if unknown."
    )
    before: str = Field(description="Its type before.")
    after: str = Field(description="Its type after.")
    times: Whole = Field(description="Calls in a step, counting each iteration of loops.")

    @classmethod
    def of(cls, moved: StepMove) -> Self:
        kind = moved.value.type
        return cls.like(
            moved,
            moved.meaning,
            name=moved.value.name,
            before=kind.sharded(moved.move.before),
            after=kind.sharded(moved.move.after),
        )


class RequestOfStep(AnswerPart):
    """A collective, or a permute, that a sharded step asks for once or more."""

    request: HowName = Field(description="Request.")
    reduction: Operator | None = Field(description="Reduction that combines parts, or null.")
    axes: list[str] = Field(min_length=1, description="Axes, taken together.")
    bytes: Positive = Field(description="The largest buffer of a device, as top's --bytes.")
    least_bytes: Number = Field(
        description="Lower bound of bytes that one device sends or receives, per call."
    )
    times: Whole = Field(description="Calls in a step.")
    values: list[MovedValue] = Field(min_length=1, description="For which values.")
    seconds: Seconds | None = Field(description="Seconds of a call; null without a machine.")
    program: str | None = Field(
        description="The fastest program on the machine; null for a permute or without a machine."
    )

    @classmethod
    def of(cls, request: StepRequest) -> Self:
        answer = None if request.answered is None else request.answered.answer
        return cls.like(
            request,
            values=request.moved,
            program=answer.candidate.text if isinstance(answer, Answer) else None,
        )


class LocalMoves(AnswerPart):
    """Redistributions that send nothing."""

    move: HowName = Field(
        description="Slice, mask, widen; or another over axes of size 1, or microbatches."
    )
    times: Whole = Field(description="Calls in a step.")


class RequestTotal(AnswerPart):
    """All that a step sends by one kind of request over some axes."""

    request: HowName = Field(description="Request.")
    axes: list[str] = Field(min_length=1, description="Axes.")
    times: Whole = Field(description="Calls in a step.")
    least_bytes: Number = Field(
        description="Lower bound of bytes that one device sends or receives."
    )
    seconds: Seconds | None = Field(description="Seconds in sequence; null without a machine.")

    @classmethod
    def all_of(cls, requests: Sequence[StepRequest]) -> list[Self]:
        """Largest first."""
        groups: dict[tuple[MoveKind, tuple[str, ...]], list[StepRequest]] = {}
        for request in requests:
            groups.setdefault((request.how, request.axes), []).append(request)
        found = [
            cls.like(
                request=how,
                axes=axes,
                times=sum(request.times for request in several),
                least_bytes=float(sum(request.least_bytes * request.times for request in several)),
                seconds=_seconds(several),
            )
            for (how, axes), several in groups.items()
        ]
        return sorted(found, key=lambda request: -request.least_bytes)


def _seconds(requests: Sequence[StepRequest]) -> float | None:
    """All of them, one after the other; None without a machine."""
    found = [request.seconds * request.times for request in requests if request.seconds is not None]
    return sum(found) if len(found) == len(requests) else None


class MachineOfStep(AnswerPart):
    """Where the step runs, and how its axes lie there."""

    system: str = Field(description="Its name.")
    levels: list[LevelInBrief] = Field(min_length=1, description="Outermost first.")
    placement: Matrix = Field(description="One row an axis, one column a level.")
    prices: PricesName = Field(description="Basis of prices.")
    nccl: NcclPart | None = Field(description="Version of NCCL or RCCL; null for other runtimes.")
    seconds: Seconds = Field(
        description="Seconds of all requests of a step in sequence, without "
        "transfers between stages."
    )
    laid_out_by: LaidOutBy = LAID_OUT_BY

    @classmethod
    def of(cls, machine: TargetMachine, requests: Sequence[StepRequest]) -> Self:
        return cls.like(seconds=_seconds(requests), **machine.keys)


class StageOfStep(AnswerPart):
    """What each device of a stage holds and computes."""

    stage: Whole = Field(description="Its number, from 0.")
    device: BytesOfStep = Field(
        description="Bytes on each device; values are those of one microbatch."
    )
    flops: Whole = Field(description="Floating-point operations of a step, of all microbatches.")


class StageTransferPart(AnswerPart):
    """A value that goes from each device of a stage to its twin on another, point to point."""

    request: Literal["send"] = Field(description="Request.")
    name: str = Field(description="Its name where it arrives.")
    type: str = Field(description="Its type.")
    source: Whole = Field(description="The stage that it comes from.")
    target: Whole = Field(description="The stage that it goes to.")
    when: Literal["before", "forward", "backward", "weight", "after"] = Field(
        description="In which pass of each microbatch, or once before or after them."
    )
    bytes: Whole = Field(description="Bytes that one device sends, per call.")
    times: Positive = Field(description="Calls in a step.")

    @classmethod
    def of(cls, transfer: PipelineTransfer, sizes: Mapping[str, int]) -> Self:
        kind, lies = transfer.value.type, transfer.value.sharding
        assert lies is not None, transfer
        return cls.like(
            transfer,
            request="send",
            name=transfer.value.name,
            type=kind.sharded(lies),
            bytes=Type(kind.dtype, part_shape(kind, lies, sizes)).bytes,
        )


class ShardReply(ReplyModel):
    """A sharded training step: types, redistributions, and what a device holds and computes."""

    name: str = Field(description="Name of the step.")
    axes: Axes = Field(description="Sizes by name, in the order of the placement.")
    devices: Positive = Field(description="The product of the axes.")
    plan: str | None = Field(description="Plan; null for a text that was already sharded.")
    inputs: list[InputOfStep] = Field(description="Shardings of the inputs.")
    whole: BytesOfStep = Field(description="Bytes on one device that computes the whole step.")
    device: BytesOfStep = Field(
        description="Bytes on each of these devices; with stages, on the fullest device."
    )
    flops: Whole = Field(description="Floating-point operations of a step, on one device.")
    device_flops: Whole = Field(
        description="Floating-point operations of each of these devices; with "
        "stages, of the busiest."
    )
    microbatches: Positive = Field(description="Number of microbatches; 1 without.")
    stages: list[StageOfStep] = Field(description="Each stage; empty where there is one.")
    transfers: list[StageTransferPart] = Field(description="Transfers between stages.")
    requests: list[RequestOfStep] = Field(description="Requests, the most bytes first.")
    sent: list[RequestTotal] = Field(description="Totals by kind and axes, the most bytes first.")
    local: list[LocalMoves] = Field(description="Redistributions that send nothing, by kind.")
    machine: MachineOfStep | None = Field(description="Where it runs; null if none was given.")
    files: OneFile = Field(description="The text of the sharded step.")

    @classmethod
    def of(cls, sharded: ShardedStep, plan: str | None, machine: TargetMachine | None) -> Self:
        """All that is to be said of a sharded step, on a machine or on none."""
        step, whole, stages = sharded.step, unsharded_share(sharded), list_shares(sharded)
        sizes = {axis: size for axis, size in sharded.axes if axis != TIME}
        own = to_device_step(replace(sharded, axes=((TIME, 1), *sizes.items())))
        network = None if machine is None else machine.network
        requests = list_step_requests(sharded, network)
        inputs = zip(step.graph.inputs, own.graph.inputs, step.labels, step.roles, strict=True)
        return cls.like(
            name=step.name,
            axes=sizes,
            devices=prod(sizes.values()),
            plan=plan,
            inputs=[InputOfStep.of(*values) for values in inputs],
            whole=whole.held,
            device=max((share.held for share in stages), key=lambda held: held.all),
            flops=whole.flops,
            device_flops=max(share.flops for share in stages),
            microbatches=sharded.sizes.get(TIME, 1),
            stages=[
                (number, share.held, share.flops)
                for number, share in enumerate(stages)
                if len(stages) > 1
            ],
            transfers=[
                StageTransferPart.of(transfer, sharded.sizes)
                for transfer in list_transfers(sharded)
            ],
            requests=requests,
            sent=RequestTotal.all_of(requests),
            local=local_moves(sharded).most_common(),
            machine=machine and MachineOfStep.of(machine, requests),
            files={f"{step.name}.sharded": str(sharded)},
        )


def shard(question: ShardQuestion, watcher: Watcher) -> Reply:
    """A step cut by a plan; or one that was sharded before, which is checked."""
    given = question.read(parse_either)
    if isinstance(given, ShardedStep):
        question.check_sharded()
        axes = {axis: size for axis, size in given.axes if axis != TIME}
        check_axes(axes)
        check(given)
        return reply(ShardReply.of(given, None, question.placed(axes)))
    return _shard_by_plan(question, given)


def _shard_by_plan(question: ShardQuestion, step: Step) -> Reply:
    """By its plan, with the redistributions that are fastest on the machine."""
    found = question.planned(step)
    program, machine = found.program, question.placed(dict(found.plan.axes))
    if machine is not None:
        program = choose_fastest_paths(program, machine.network)
    sharded = write_sharded_step(found.step, found.plan, program)
    return reply(ShardReply.of(sharded, found.text, machine))
