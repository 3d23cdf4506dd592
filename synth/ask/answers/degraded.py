"""Answers about machines with missing or slower parts."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field

from grammar import Goal
from synth.ask.answers.parts import (
    AnswerPart,
    Axes,
    ChoiceName,
    Complete,
    LimitedBy,
    Matrix,
    Number,
    Positive,
    PredictedSeconds,
    Seconds,
    StepPricePart,
    VerdictPart,
    Whole,
    verdict_keys,
)
from synth.ask.answers.ranked import LAID_OUT_BY, Against, CollectiveReply, LaidOutBy
from synth.collective import degraded
from synth.collective.degraded import UnevenReport
from synth.collective.degraded.comparison import Cost
from synth.collective.degraded.ranking import EvenChoice
from synth.collective.ranking import request as planned
from synth.collective.verify import concrete

Ranks = list[Whole]
GroupCollective = Literal["all-reduce", "reduce-scatter", "all-gather", "reduce", "broadcast"]


class RemainingMachine(AnswerPart):
    """What is left of a machine."""

    left: str = Field(min_length=1, description="In words.")
    devices: list[Whole] = Field(min_length=1, description="The ids of its devices, by rank.")


class GroupStepPart(AnswerPart):
    """A step over explicit groups of ranks."""

    collective: GroupCollective = Field(description="Collective of every group.")
    groups: list[Ranks] = Field(min_length=1, description="Ranks; the first is the root.")
    pieces: list[list[list[Whole]]] | None = Field(
        description="For each group and member of a reduce-scatter, the chunks it keeps; else null."
    )

    @classmethod
    def of(cls, step: concrete.GroupStep) -> Self:
        pieces = step.pieces
        return cls.like(
            step,
            collective=step.collective.value,
            pieces=pieces and [list(map(sorted, kept)) for kept in pieces],
        )


class UnevenAnswerPart(VerdictPart):
    """A program of explicit groups."""

    rank: Positive = Field(description="Rank; 1 is the best.")
    axes: Axes = Field(description="The one axis, of all devices that are left.")
    program: str = Field(description="Its steps in words.")
    chunks: Positive = Field(description="Number of pieces the payload is cut into.")
    segments: Positive = Field(description="Number of segments each chunk is pipelined in.")
    seconds: PredictedSeconds
    speedup: Number = Field(description="flat_seconds / seconds.")
    against_default: Against = Field(
        description="Range of the speed-up within the prediction's uncertainty."
    )
    limited_by: LimitedBy
    steps: list[StepPricePart] = Field(description="Steps of one segment.")
    group_steps: list[GroupStepPart] = Field(description="Groups of all steps.")
    proved_for: Positive = Field(description="Number of devices of the proof.")
    others: Whole = Field(description="Number of other programs that tie with it.")

    @classmethod
    def of(cls, answer: degraded.UnevenAnswer, report: UnevenReport) -> Self:
        candidate, flat = answer.candidate, report.flat_seconds
        return cls.like(
            answer,
            candidate,
            candidate.program,
            axes=[report.axis],
            program=candidate.program.text,
            speedup=flat / candidate.seconds if candidate.seconds else 1.0,
            steps=candidate.prices,
            group_steps=candidate.program.steps,
            proved_for=report.axis.size,
            **verdict_keys(answer.verdict),
        )


class EvenMachine(AnswerPart):
    """One of the largest even machines inside, by itself."""

    machine: str = Field(description="In words.")
    devices: Positive = Field(description="Number of them.")
    program: str = Field(description="Its best program.")
    segments: Positive = Field(description="Number of pieces the payload is cut into.")
    seconds: PredictedSeconds

    @classmethod
    def of(cls, choice: EvenChoice) -> Self:
        return cls.like(
            choice.candidate,
            machine=choice.core.text,
            devices=len(choice.core.ranks),
            program=choice.candidate.program.text,
        )


class ProgramsConsidered(AnswerPart):
    """What the answers were chosen from."""

    programs: Whole = Field(description="Number of programs ranked.")


class UnevenReply(CollectiveReply):
    """The best programs of explicit groups for a machine that lacks devices."""

    bytes: Positive = Field(description="Bytes that each device has to reduce.")
    algorithm: ChoiceName = Field(description="Algorithms that steps may use.")
    uneven: RemainingMachine = Field(description="Devices that are left.")
    answers: list[UnevenAnswerPart] = Field(description="Best first.")
    choices: list[EvenMachine] = Field(description="The largest even machines inside.")
    flat_seconds: Seconds = Field(description="The plain all-reduce in one step.")
    bound_seconds: Seconds = Field(description="Lower bound over all schedules.")
    bound_by: str = Field(description="The level whose links impose the bound.")
    considered: ProgramsConsidered = Field(description="Candidates considered.")
    complete: Complete

    @classmethod
    def of(cls, report: UnevenReport) -> Self:
        survivors = report.survivors
        return cls.like(
            report,
            report.request,
            request=Goal.ALL_REDUCE,
            reduce=[report.axis.name],
            uneven=RemainingMachine.like(survivors, left=survivors.units_left()),
            answers=[UnevenAnswerPart.of(answer, report) for answer in report.answers],
            bound_seconds=report.bound.seconds,
            bound_by=report.bound.level,
            considered=report,
        )


class BestAnswer(VerdictPart):
    """The best answer on one machine, in few words."""

    axes: Axes = Field(description="Sizes by name.")
    placement: Matrix | None = Field(description="Null where groups are explicit.")
    program: str = Field(description="Its steps.")
    seconds: PredictedSeconds
    baseline_seconds: Seconds = Field(description="Of the default.")
    bound_seconds: Seconds = Field(description="Lower bound over all schedules.")

    @classmethod
    def of(cls, answer: planned.Answer) -> Self:
        candidate = answer.candidate
        return cls.like(
            answer,
            candidate,
            candidate.reduction,
            candidate.reduction.placement,
            program=candidate.text,
            bound_seconds=answer.bound.seconds,
            **verdict_keys(answer.verdict),
        )

    @classmethod
    def of_uneven(cls, report: UnevenReport) -> Self:
        [answer, *_] = report.answers
        return cls.like(
            answer.candidate,
            axes=[report.axis],
            placement=None,
            program=answer.candidate.program.text,
            baseline_seconds=report.flat_seconds,
            bound_seconds=report.bound.seconds,
            **verdict_keys(answer.verdict),
        )


class BusyLink(AnswerPart):
    """A link, and how much of the time it is busy."""

    link: str = Field(description="Which.")
    busy_share: float = Field(ge=0, allow_inf_nan=False, description="Of the time.")


class FollowedProgram(AnswerPart):
    """One program followed link by link."""

    program: str = Field(description="Its steps.")
    segments: Positive = Field(description="Number of segments of the payload.")
    healthy_seconds: Seconds = Field(description="Figures of the machine as described.")
    seconds: Seconds = Field(description="Figures of the machine with its faults.")
    busiest: list[BusyLink] = Field(description="The links that are busy most.")


class CostReply(CollectiveReply):
    """What it costs that something is missing or slower."""

    bytes: Positive = Field(description="The largest buffer of a device.")
    healthy: BestAnswer = Field(description="Figures of the machine as described.")
    same_program_seconds: Seconds | None = Field(
        description="Its program on the machine as it is; null where devices are missing."
    )
    best: BestAnswer = Field(description="Figures of the machine with its faults.")
    lost_seconds: float = Field(allow_inf_nan=False, description="The difference.")
    choices: list[EvenMachine] = Field(description="The largest even machines inside.")
    followed: FollowedProgram | None = Field(description="Null where devices are missing.")
    complete: Complete
    laid_out_by: LaidOutBy = LAID_OUT_BY

    @classmethod
    def of(cls, cost: Cost) -> Self:
        before, now = cost.healthy, cost.now
        by_framework = isinstance(now, planned.Report) and now.request.by_framework
        return cls.like(
            cost,
            before,
            before.candidate.reduction,
            same_program_seconds=cost.same_seconds,
            best=BestAnswer.of_uneven(now) if isinstance(now, UnevenReport) else now.answers[0],
            lost_seconds=cost.seconds - before.candidate.seconds,
            choices=now.choices if isinstance(now, UnevenReport) else [],
            **({"laid_out_by": "framework"} if by_framework else {}),
        )
