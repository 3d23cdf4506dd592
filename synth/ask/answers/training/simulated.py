"""What the verb answers that puts a training step on the clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field

from grammar.tensors.operations import Step
from synth.ask.answers.machine_parts import LevelInBrief, PricesName
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
from synth.ask.answers.training.shards import TargetMachine
from synth.compute import Provenance
from synth.step.profiles import Kinds
from synth.step.schedules import TransferProtocol
from synth.step.sharding import Plan
from synth.step.simulation.gains import Gain
from synth.step.simulation.memory import MemorySnapshot
from synth.step.simulation.pipeline import PASSES
from synth.step.simulation.predicting import PipelineRank, StepPrediction, local_seconds
from synth.step.simulation.simulation import Activity, RequestSummary, StepTimelineRow
from synth.step.simulation.spans import split_communication

MOST_ROWS = 2_000
"""Rows of a timeline in an answer: of more, the longest."""

SecondsSource = Literal["measured", "fitted", "roofline"]
Limit = Literal["computing", "communication", "idle"]
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class CollectiveOfRank(AnswerPart):
    """All that a rank sends by one request."""

    request: str = Field(description="Request and its axes.")
    times: Whole = Field(description="Calls in a step.")
    seconds: Seconds = Field(description="Seconds of all calls.")
    exposed_seconds: Seconds = Field(description="Exposed part of it.")
    hidden: _Share = Field(description="Hidden share of it.")

    @classmethod
    def of(cls, one: RequestSummary) -> Self:
        return cls.like(
            one,
            exposed_seconds=max(0.0, one.exposed_seconds),
            hidden=min(1.0, max(0.0, one.hidden)),
        )


class BytesOfKind(AnswerPart):
    """What some of the memory is used for."""

    what: str = Field(description="Parameters, gradients, activations, and so on.")
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
    def of(cls, one: MemorySnapshot) -> Self:
        kinds = sorted(one.by_kind, key=lambda pair: -pair[1])
        return cls.like(one, kinds=[(kind.value, size) for kind, size in kinds])


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
    def of(cls, one: StepTimelineRow) -> Self:
        return cls.like(one, parts={kind: round(part, 4) for kind, part in one.parts})


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
            idle_share=_share(rank.idle_seconds, found.seconds),
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
            share=_share(measured, whole),
            measured_kinds=kinds.measured,
            kinds=kinds.whole,
        )


class GainOfStep(AnswerPart):
    """What a step would take if something were better."""

    what: str = Field(description="The only change.")
    seconds: Seconds = Field(description="Seconds of a step then.")
    gain: float = Field(description="Speed-up: 0.1 means a tenth more steps per time.")


class MachineOfSimulation(AnswerPart):
    """The machine, and its accelerators."""

    system: str = Field(description="Its name.")
    levels: list[LevelInBrief] = Field(min_length=1, description="Outermost first.")
    placement: Matrix = Field(description="One row an axis, one column a level.")
    prices: PricesName = Field(description="Basis of communication prices.")
    device: str = Field(description="Accelerator whose rates are used.")
    device_bytes: Positive = Field(description="The memory of one.")
    peak_flops_per_second: Number = Field(description="The data sheet's, of what is multiplied.")
    dtype: str = Field(description="The element type that most is multiplied in.")
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
    how: SecondsSource = Field(description="Source of compute seconds, the least certain one.")
    measured: MeasuredOfStep | None = optional_key("With a profile, what of computing it measured.")
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

    @classmethod
    def of(
        cls,
        asked: SimulationContext,
        found: StepPrediction,
        gained: list[Gain],
        files: Mapping[str, str],
    ) -> Self:
        """All that is to be said of a step on the clock."""
        ranks, seconds = found.ranks, found.seconds
        busiest, fullest = ranks[found.busiest], ranks[found.fullest]
        rate = asked.flops / seconds if seconds else 0.0
        peak = asked.peak_flops_per_second
        idle = sum(one.idle_seconds for one in ranks) / len(ranks)
        return cls.like(
            asked,
            asked.plan,
            name=asked.step.name,
            machine=asked.where(),
            plan=asked.text,
            seconds=seconds,
            measured=MeasuredOfStep.of(asked.profile, asked.kinds, found, asked.plan.microbatches),
            tokens_per_second=asked.tokens / seconds if seconds else 0.0,
            utilisation=rate / (asked.plan.devices * peak),
            limit=_limit(busiest),
            busiest=found.busiest,
            idle_share=_share(idle, seconds),
            sent=busiest.sent,
            handed_bytes=max(found.device.handed.values(), default=0),
            memory=fullest.moment,
            fullest=found.fullest,
            fits=fullest.moment.size_bytes <= asked.device_bytes,
            gains=[
                (gain.what, gain.seconds, seconds / gain.seconds - 1 if gain.seconds else 0.0)
                for gain in sorted(gained, key=lambda gain: gain.seconds)
            ],
            ranks=[
                RankOfStep.of(found, rank, _longest_rows(found, number))
                for number, rank in enumerate(ranks)
            ],
            files=files,
        )


@dataclass(frozen=True)
class SimulationContext:
    """What a step was put on the clock with, and what is known of it without a clock."""

    step: Step
    plan: Plan
    text: str
    machine: TargetMachine
    device: str
    device_bytes: int
    peak_flops_per_second: float
    dtype: str
    protocol: TransferProtocol
    how: Provenance
    interval: tuple[float, float]
    samples: int
    tokens: int
    flops: int
    profile: str = ""
    kinds: Kinds | None = None

    def where(self) -> MachineOfSimulation:
        """The machine."""
        return MachineOfSimulation.like(self, **self.machine.told())


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole)) if whole else 0.0


def _limit(rank: PipelineRank) -> Limit:
    parts: dict[Limit, float] = {
        "computing": rank.compute_seconds,
        "communication": rank.exposed_seconds,
        "idle": rank.idle_seconds,
    }
    return max(parts, key=lambda one: parts[one])


def _longest_rows(found: StepPrediction, rank: int) -> list[StepTimelineRow]:
    """The rows of a rank; of very many the longest. Where passes are, what is in them may wait."""
    most = MOST_ROWS // len(found.ranks)
    rows = list(found.passes(rank))
    if len(rows) <= most:
        rows = list(split_communication(found.rows(rank)))
    if len(rows) > most:
        rows = sorted(rows, key=_row_order, reverse=True)[:most]
        rows.sort(key=lambda one: (one.stream, one.begin_seconds))
    return rows


def _row_order(one: StepTimelineRow) -> tuple[bool, float]:
    """Passes before what they are made of, then the longest."""
    return one.stream == PASSES, one.end_seconds - one.begin_seconds
