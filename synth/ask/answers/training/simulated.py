"""The answer of the verb that simulates a training step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import Field

from hierarchies.devices import Device
from synth.ask.answers.machine_parts import LevelInBrief, NcclPart, PricesName
from synth.ask.answers.parts import (
    AnswerPart,
    Axes,
    Interval,
    Matrix,
    Number,
    Positive,
    ReplyModel,
    Seconds,
    TextFile,
    Whole,
    optional_key,
)
from synth.ask.answers.ranked import LAID_OUT_BY, LaidOutBy
from synth.compute.runtimes import IDEAL, find_factor
from synth.step.profiles import Kinds
from synth.step.schedules import TransferProtocol
from synth.step.simulation.kinds import BufferKind as BufferKind
from synth.step.simulation.memory import MemorySnapshot
from synth.step.simulation.pipeline import PASSES as PASSES
from synth.step.simulation.predicting import PipelineRank, StepPrediction, local_seconds
from synth.step.simulation.simulation import Activity as Activity
from synth.step.simulation.simulation import RequestSummary, StepTimelineRow

SecondsSource = Literal["measured", "fitted", "roofline"]
Limit = Literal["computing", "communication", "idle"]
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


def share_of(part: float, whole: float) -> float:
    """Return a part of a whole as a share, from 0 to 1."""
    return min(1.0, max(0.0, part / whole)) if whole else 0.0


class CollectiveOfRank(AnswerPart):
    """All that a rank sends by one request."""

    request: str = Field(description="Request and its axes.")
    times: Whole = Field(description="Calls in a step.")
    seconds: Seconds = Field(description="Seconds of all calls.")
    exposed_seconds: Seconds = Field(description="Exposed part of it.")
    hidden: _Share = Field(description="Hidden share of it.")

    @classmethod
    def of(cls, summary: RequestSummary) -> Self:
        return cls.like(
            summary,
            exposed_seconds=max(0.0, summary.exposed_seconds),
            hidden=min(1.0, max(0.0, summary.hidden)),
        )


class BytesOfKind(AnswerPart):
    """What some of the memory is used for."""

    what: Annotated[BufferKind, Field(strict=False)] = Field(
        description="Parameters, gradients, activations, and so on."
    )
    bytes: Whole = Field(description="At the largest moment.")


class NamedBytes(AnswerPart):
    """Some of the largest values in memory."""

    name: str = Field(description="A value of the step, or which pass keeps or makes it.")
    bytes: Whole = Field(description="At the largest moment.")


class MomentOfStep(AnswerPart):
    """The moment at which a device needs the most memory."""

    seconds: Seconds = Field(description="When.")
    bytes: Whole = Field(description="How much.")
    kinds: list[BytesOfKind] = Field(description="Bytes by kind, the largest first.")
    largest: list[NamedBytes] = Field(description="The largest of all.")

    @classmethod
    def of(cls, snapshot: MemorySnapshot) -> Self:
        kinds = sorted(snapshot.by_kind, key=lambda pair: -pair[1])
        return cls.like(snapshot, kinds=kinds)


class RowOfStep(AnswerPart):
    """Something that a rank does."""

    stream: str = Field(description="Compute, what is sent over some axes, or passes.")
    name: str = Field(description="What it is.")
    kind: Annotated[Activity, Field(strict=False)] = Field(
        description="Which kind of pass, computing or communication; several: not all the same."
    )
    begin_seconds: Seconds = Field(description="Start.")
    end_seconds: Seconds = Field(description="End.")
    parts: dict[Annotated[Activity, Field(strict=False)], _Share] = optional_key(
        "Of several as one: which part of that time is of which kind.", {}
    )

    @classmethod
    def of(cls, row: StepTimelineRow) -> Self:
        return cls.like(row, parts={kind: round(part, 4) for kind, part in row.parts})


class RankOfStep(AnswerPart):
    """What the devices of one rank of the pipeline do: the three add up to the step."""

    stages: list[Whole] = Field(description="Its stages; none where there is no pipeline.")
    compute_seconds: Seconds = Field(description="Seconds in which it computes.")
    exposed_seconds: Seconds = Field(
        description="Exposed communication: seconds in which it only communicates."
    )
    idle_seconds: Seconds = Field(description="Bubble: seconds in which it waits for other stages.")
    idle_share: _Share = Field(description="Bubble as a share of the step.")
    memory: MomentOfStep = Field(description="The most memory that it needs.")
    rows: list[RowOfStep] = Field(
        description="Its timeline; of very many rows the longest, or some of them as one."
    )

    @classmethod
    def of(cls, found: StepPrediction, rank: PipelineRank, rows: Iterable[StepTimelineRow]) -> Self:
        return cls.like(
            rank,
            exposed_seconds=max(0.0, rank.exposed_seconds),
            idle_share=share_of(rank.idle_seconds, found.seconds),
            memory=rank.moment,
            rows=rows,
        )


class MeasuredOfStep(AnswerPart):
    """How much of what is computed goes by a profile; the rest is by the roofline."""

    profile: str = Field(min_length=1, description="The profile, as it is called in the question.")
    share: _Share = Field(description="The measured part of the local seconds of all ranks.")
    measured_kinds: Whole = Field(description="How many kinds of local work the profile has.")
    kinds: Whole = Field(description="Of how many that the step has.")

    @classmethod
    def of(
        cls, profile: str, kinds: Kinds | None, found: StepPrediction, microbatches: int
    ) -> Self | None:
        """That of a step on the clock; None without a profile."""
        if kinds is None:
            return None
        whole, measured = local_seconds(found, microbatches)
        return cls(
            profile=profile,
            share=share_of(measured, whole),
            measured_kinds=kinds.measured,
            kinds=kinds.whole,
        )


class SpeedOfCompute(AnswerPart):
    """How fast a framework computes on a device, beside the device's best kernels."""

    framework: str = Field(min_length=1, description="The framework.")
    factor: Number = Field(description="Ratio of its seconds of compute to the best kernels'.")
    low: Number = Field(description="Lower end of the range of four fifths of the steps.")
    high: Number = Field(description="Upper end of that range.")
    steps: Whole = Field(description="Number of published steps behind the factor; 0: it is 1.")
    source: str = Field(description="Source of the steps; empty without any.")

    @classmethod
    def of(cls, device: Device, framework: str) -> Self | None:
        """Return that of a framework; None if the question names none, or the ideal one."""
        if framework in ("", IDEAL):
            return None
        found = find_factor(device, framework)
        if found is None:
            return cls(framework=framework, factor=1.0, low=1.0, high=1.0, steps=0, source="")
        return cls.like(found, framework=framework)


class GainOfStep(AnswerPart):
    """What a step would take if something were better."""

    what: str = Field(description="The only change.")
    seconds: Seconds = Field(description="Seconds of a step then.")
    gain: float = Field(description="Speed-up: 0.1 means a tenth more steps per time.")


PUBLISHED_IN_FP8 = 0.68, 1.13
"""The range of ratios of published to predicted seconds of steps in FP8 (``results/precision``).

Most steps are faster than predicted: on Hopper the rate of attention is that of an older kernel,
and frameworks fuse some passes that quantize.
"""


class MachineOfSimulation(AnswerPart):
    """The machine, and its accelerators."""

    system: str = Field(description="Its name.")
    levels: list[LevelInBrief] = Field(min_length=1, description="Outermost first.")
    placement: Matrix = Field(description="One row an axis, one column a level.")
    prices: PricesName = Field(description="Basis of communication prices.")
    nccl: NcclPart | None = Field(description="Version of NCCL or RCCL; null for other runtimes.")
    device: str = Field(description="Accelerator whose rates are used.")
    device_bytes: Positive = Field(description="The memory of one.")
    peak_flops_per_second: Number = Field(description="The data sheet's, of what is multiplied.")
    dtype: str = Field(description="The element type that most is multiplied in.")
    precision: str = Field(description="Of products of weights, if not that of dtype; or empty.")
    laid_out_by: LaidOutBy = LAID_OUT_BY


class SimulateReply(ReplyModel):
    """A training step on the clock: seconds, memory, what waits for what, and what would help."""

    name: str = Field(description="Name of the step.")
    plan: str = Field(description="Plan.")
    axes: Axes = Field(description="Sizes by name, in the order of the placement.")
    devices: Positive = Field(description="The product of the axes.")
    microbatches: Positive = Field(description="Microbatches per step.")
    machine: MachineOfSimulation = Field(description="Where it runs.")
    protocol: Annotated[TransferProtocol, Field(strict=False)] = Field(
        description="When transfers between stages may start."
    )
    compute_source: SecondsSource = Field(
        description="Source of compute seconds, the least certain one."
    )
    measured: MeasuredOfStep | None = optional_key("With a profile, what of computing it measured.")
    speed: SpeedOfCompute | None = optional_key("With a framework, how fast it computes.")
    seconds: Seconds = Field(description="Seconds of a step.")
    interval: Interval = Field(description="Its range for fast or slow compute.")
    samples: Positive = Field(description="Samples per step.")
    tokens: Whole = Field(description="Tokens per step; 0 if samples are not text.")
    tokens_per_second: Number = Field(
        description="Tokens per second of all devices; 0 if samples are not text."
    )
    flops: Whole = Field(description="FLOPs of a step's matrix products, without recomputation.")
    utilisation: Number = Field(
        description="These FLOPs per second as a share of all devices' peak."
    )
    limit: Limit = Field(description="What the busiest rank spends the most time on.")
    busiest: Whole = Field(description="The rank that is idle least.")
    idle_share: _Share = Field(description="The part of all ranks' time that is bubble.")
    sent: list[CollectiveOfRank] = Field(
        description="Communication of the busiest rank, the most exposed first."
    )
    handed_bytes: Whole = Field(description="Bytes sent between stages, per device and microbatch.")
    memory: MomentOfStep = Field(description="Memory of the rank that needs the most.")
    fullest: Whole = Field(description="That rank.")
    fits: bool = Field(description="Whether it fits in the device's memory.")
    gains: list[GainOfStep] = Field(
        description="Changes that would help, the largest effect first."
    )
    ranks: list[RankOfStep] = Field(min_length=1, description="Of the pipeline; one without.")
    files: list[TextFile] = Field(
        description="The timeline for ui.perfetto.dev; the collectives as a job, if there are any."
    )
