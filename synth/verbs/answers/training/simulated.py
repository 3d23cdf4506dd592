"""What the verb answers that puts a training step on the clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field

from grammar.tensors.operations import Step
from synth.compute import How
from synth.train.orders import Protocol
from synth.train.plans import Plan
from synth.train.profiles import Kinds
from synth.train.simulation.gains import Gain
from synth.train.simulation.memory import Moment
from synth.train.simulation.pipeline import PASSES
from synth.train.simulation.predicting import Predicted, Rank, local_seconds
from synth.train.simulation.simulation import Doing, Row, Sent
from synth.train.simulation.spans import told_apart
from synth.verbs.answers.machine_parts import LevelInBrief, PricesName
from synth.verbs.answers.parts import (
    Axes,
    Interval,
    Matrix,
    Number,
    Part,
    Positive,
    Reply,
    Seconds,
    TextFile,
    Whole,
    sometimes,
)
from synth.verbs.answers.ranked import LAID_OUT_BY, LaidOutBy
from synth.verbs.answers.training.shards import Machine

MOST_ROWS = 2_000
"""Rows of a timeline in an answer: of more, the longest."""

HowKnown = Literal["measured", "fitted", "roofline"]
Limit = Literal["computing", "communication", "idle"]
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class SentOnClock(Part):
    """All that a rank sends by one request."""

    request: str = Field(description="What is done, over which axes.")
    times: Whole = Field(description="How often in a step.")
    seconds: Seconds = Field(description="Of all of them.")
    exposed_seconds: Seconds = Field(description="What of that nothing is computed beside.")
    hidden: _Share = Field(description="The other part, as a share.")

    @classmethod
    def of(cls, one: Sent) -> Self:
        return cls.like(
            one,
            exposed_seconds=max(0.0, one.exposed_seconds),
            hidden=min(1.0, max(0.0, one.hidden)),
        )


class BytesOfKind(Part):
    """What some of the memory is used for."""

    what: str = Field(description="Parameters, gradients, activations, and so on.")
    bytes: Whole = Field(description="At the largest moment.")


class NamedBytes(Part):
    """Some of the largest values in memory."""

    name: str = Field(description="A value of the step, or which pass keeps or makes it.")
    bytes: Whole = Field(description="At the largest moment.")


class MomentOfStep(Part):
    """The moment at which a device needs the most memory."""

    seconds: Seconds = Field(description="When.")
    bytes: Whole = Field(description="How much.")
    kinds: list[BytesOfKind] = Field(description="By what it is used for, the most first.")
    largest: list[NamedBytes] = Field(description="The largest of all.")

    @classmethod
    def of(cls, one: Moment) -> Self:
        kinds = sorted(one.by_kind, key=lambda pair: -pair[1])
        return cls.like(
            one,
            bytes=one.size_bytes,
            kinds=[BytesOfKind(what=kind.value, bytes=size) for kind, size in kinds],
            largest=[NamedBytes(name=name, bytes=size) for name, size in one.largest],
        )


class RowOfStep(Part):
    """Something that a rank does."""

    stream: str = Field(description="Compute, what is sent over some axes, or passes.")
    name: str = Field(description="What it is.")
    kind: Annotated[Doing, Field(strict=False)] = Field(
        description="Which kind of pass, computing or communication; several: not all the same."
    )
    begin_seconds: Seconds = Field(description="When it begins.")
    end_seconds: Seconds = Field(description="When it ends.")
    parts: dict[Annotated[Doing, Field(strict=False)], _Share] = sometimes(
        "Of several as one: which part of that time is of which kind.", {}
    )

    @classmethod
    def of(cls, one: Row) -> Self:
        return cls.like(one, parts={kind: round(part, 4) for kind, part in one.parts})


class RankOfStep(Part):
    """What the devices of one rank of the pipeline do: the three add up to the step."""

    stages: list[Whole] = Field(description="Its stages; none where there is no pipeline.")
    compute_seconds: Seconds = Field(description="Those in which it computes.")
    exposed_seconds: Seconds = Field(description="Those in which it waits for communication.")
    idle_seconds: Seconds = Field(description="Those in which it waits for other stages.")
    idle_share: _Share = Field(description="The same as a share of the step: its bubble.")
    memory: MomentOfStep = Field(description="The most memory that it needs.")
    rows: list[RowOfStep] = Field(
        description="Its timeline; of very many rows the longest, or some of them as one."
    )

    @classmethod
    def of(cls, found: Predicted, rank: Rank, rows: Iterable[Row]) -> Self:
        return cls.like(
            rank,
            exposed_seconds=max(0.0, rank.exposed_seconds),
            idle_share=_share(rank.idle_seconds, found.seconds),
            memory=MomentOfStep.of(rank.moment),
            rows=[RowOfStep.of(one) for one in rows],
        )


class MeasuredOfStep(Part):
    """How much of what is computed goes by a profile; the rest is by the roofline."""

    profile: str = Field(min_length=1, description="The profile, as it is called in the question.")
    share: _Share = Field(description="The measured part of the local seconds of all ranks.")
    measured_kinds: Whole = Field(description="How many kinds of local work the profile has.")
    kinds: Whole = Field(description="Of how many that the step has.")

    @classmethod
    def of(
        cls, profile: str, kinds: Kinds | None, found: Predicted, microbatches: int
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


class GainOfStep(Part):
    """What a step would take if something were better."""

    what: str = Field(description="What is changed, and nothing else.")
    seconds: Seconds = Field(description="Of a step then.")
    gain: float = Field(description="By how much faster: 0.1 is a tenth more steps in a time.")


class Where(Part):
    """The machine, and its accelerators."""

    system: str = Field(description="Its name.")
    levels: list[LevelInBrief] = Field(min_length=1, description="Outermost first.")
    placement: Matrix = Field(description="One row an axis, one column a level.")
    prices: PricesName = Field(description="What prices of communication follow.")
    device: str = Field(description="The accelerator by whose rates seconds are reckoned.")
    device_bytes: Positive = Field(description="The memory of one.")
    peak_flops_per_second: Number = Field(description="The data sheet's, of what is multiplied.")
    dtype: str = Field(description="The element type that most is multiplied in.")
    laid_out_by: LaidOutBy = LAID_OUT_BY


class SimulateReply(Reply):
    """A training step on the clock: seconds, memory, what waits for what, and what would help."""

    name: str = Field(description="What the step is called.")
    plan: str = Field(description="What cuts it.")
    axes: Axes = Field(description="Sizes by name, in the order of the placement.")
    devices: Positive = Field(description="The product of the axes.")
    microbatches: Positive = Field(description="Of a step.")
    machine: Where = Field(description="Where it runs.")
    protocol: Annotated[Protocol, Field(strict=False)] = Field(
        description="When transfers between stages may start."
    )
    how: HowKnown = Field(description="How seconds of computing are known, of the least known.")
    measured: MeasuredOfStep | None = sometimes("With a profile, what of computing it measured.")
    seconds: Seconds = Field(description="Of a step.")
    interval: Interval = Field(description="Between which that is, as computing is fast or slow.")
    samples: Positive = Field(description="In a step.")
    tokens: Whole = Field(description="In a step; 0 where samples are no texts.")
    tokens_per_second: Number = Field(description="By all devices; 0 where samples are no texts.")
    flops: Whole = Field(description="Of a step's products of matrices, none done twice.")
    utilisation: Number = Field(description="Those in the time, against the peak of all devices.")
    limit: Limit = Field(description="What the busiest rank spends the most time on.")
    busiest: Whole = Field(description="The rank that is idle least.")
    idle_share: _Share = Field(description="The part of all ranks' time that is bubble.")
    sent: list[SentOnClock] = Field(description="By the busiest rank; the most exposed first.")
    handed_bytes: Whole = Field(description="From stage to stage, of one device and microbatch.")
    memory: MomentOfStep = Field(description="Of the rank that needs the most.")
    fullest: Whole = Field(description="That rank.")
    fits: bool = Field(description="Whether that is in the device's memory.")
    gains: list[GainOfStep] = Field(description="What would help, the most first.")
    ranks: list[RankOfStep] = Field(min_length=1, description="Of the pipeline; one without.")
    files: list[TextFile] = Field(
        description="The timeline for ui.perfetto.dev; the collectives as a job, if there are any."
    )

    @classmethod
    def of(cls, asked: Asked, found: Predicted, gained: list[Gain], files: list[TextFile]) -> Self:
        """All that is to be said of a step on the clock."""
        ranks, seconds = found.ranks, found.seconds
        busiest, fullest = ranks[found.busiest], ranks[found.fullest]
        rate = asked.flops / seconds if seconds else 0.0
        peak = asked.peak_flops_per_second
        idle = sum(one.idle_seconds for one in ranks) / len(ranks)
        return cls.like(
            asked,
            name=asked.step.name,
            axes=dict(asked.plan.axes),
            devices=asked.plan.devices,
            microbatches=asked.plan.microbatches,
            machine=asked.where(),
            plan=asked.text,
            seconds=seconds,
            measured=MeasuredOfStep.of(asked.profile, asked.kinds, found, asked.plan.microbatches),
            tokens_per_second=asked.tokens / seconds if seconds else 0.0,
            utilisation=rate / (asked.plan.devices * peak),
            limit=_limit(busiest),
            busiest=found.busiest,
            idle_share=_share(idle, seconds),
            sent=[SentOnClock.of(one) for one in busiest.sent],
            handed_bytes=max(found.device.handed.values(), default=0),
            memory=MomentOfStep.of(fullest.moment),
            fullest=found.fullest,
            fits=fullest.moment.size_bytes <= asked.device_bytes,
            gains=[
                GainOfStep(
                    what=one.what,
                    seconds=one.seconds,
                    gain=seconds / one.seconds - 1 if one.seconds else 0.0,
                )
                for one in sorted(gained, key=lambda one: one.seconds)
            ],
            ranks=[
                RankOfStep.of(found, one, _longest(found, number))
                for number, one in enumerate(ranks)
            ],
            files=files,
        )


@dataclass(frozen=True)
class Asked:
    """What a step was put on the clock with, and what is known of it without a clock."""

    step: Step
    plan: Plan
    text: str
    machine: Machine
    device: str
    device_bytes: int
    peak_flops_per_second: float
    dtype: str
    protocol: Protocol
    how: How
    interval: tuple[float, float]
    samples: int
    tokens: int
    flops: int
    profile: str = ""
    kinds: Kinds | None = None

    def where(self) -> Where:
        """The machine."""
        return Where.like(self, **self.machine.told())


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole)) if whole else 0.0


def _limit(rank: Rank) -> Limit:
    parts: dict[Limit, float] = {
        "computing": rank.compute_seconds,
        "communication": rank.exposed_seconds,
        "idle": rank.idle_seconds,
    }
    return max(parts, key=lambda one: parts[one])


def _longest(found: Predicted, rank: int) -> list[Row]:
    """The rows of a rank; of very many the longest. Where passes are, what is in them may wait."""
    most = MOST_ROWS // len(found.ranks)
    rows = list(found.passes(rank))
    if len(rows) <= most:
        rows = list(told_apart(found.rows(rank)))
    if len(rows) > most:
        rows = sorted(rows, key=_order, reverse=True)[:most]
        rows.sort(key=lambda one: (one.stream, one.begin_seconds))
    return rows


def _order(one: Row) -> tuple[bool, float]:
    """Passes before what they are made of, then the longest."""
    return one.stream == PASSES, one.end_seconds - one.begin_seconds
