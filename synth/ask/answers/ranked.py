"""Ranked answers: a placement, a program, its price, its proof, and the runtime's default."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field

from hierarchies import System
from synth.ask.answers.machine_parts import MachineInFull
from synth.ask.answers.parts import (
    DEFAULTS,
    VERDICT,
    AdviceKind,
    AdvicePart,
    AnswerPart,
    Axes,
    CallsOfProgram,
    ChoiceName,
    Complete,
    DecidingRunPart,
    DefaultName,
    DefaultsPart,
    GoalName,
    Interval,
    Json,
    LimitedBy,
    Matrix,
    Number,
    Positive,
    PredictedSeconds,
    Protocol,
    ProtocolName,
    ReplyModel,
    Seconds,
    Share,
    StepPricePart,
    VerdictPart,
    Whole,
    default_keys,
    optional_key,
    verdict_keys,
)
from synth.collective.algorithms.nccl_versions import DEFAULT, parse_version
from synth.collective.price.resolution import PriceEstimate
from synth.collective.ranking import request as planned
from synth.collective.ranking import sizes as by_size
from synth.collective.ranking.explanation import explain_answer
from synth.collective.ranking.how_to_get import advise, default_notice, find_deciding_run
from synth.collective.ranking.request import DefaultComparison as DefaultComparison
from synth.collective.ranking.settings import way_setting


class RankedStripe(VerdictPart):
    """One of the programs that share the payload."""

    program: str = Field(description="Its steps, separated by '; '.")
    share: Share = Field(description="Of the payload.")
    bytes: Positive = Field(
        description="Bytes of its slice; those of all stripes add up to the payload."
    )
    segments: Positive = Field(description="Number of segments of its slice.")
    steps: Whole = Field(description="Total number.")

    @classmethod
    def of(cls, stripe: planned.PricedStripe, payload_bytes: int) -> Self:
        part = stripe.part
        return cls.like(
            part,
            program=str(part.program),
            share=part.size_bytes / payload_bytes,
            steps=len(stripe.prices),
            **verdict_keys(stripe.verdict),
        )


Against = Annotated[DefaultComparison, Field(strict=False)]


class PlacedAnswer(VerdictPart, DefaultsPart):
    """A placement and the programs that run on it, with their price, proof and reasons."""

    last = (
        *DEFAULTS,
        *("bound_seconds", "limited_by", "steps", "stripes"),
        *("interval_seconds", "baseline_interval_seconds", "why"),
        *("against_default", "runtime_seconds", "advice", "worth_measuring", "calls"),
        "unmeasured",
        *("others", "least_seconds"),
        *VERDICT,
    )

    rank: Positive = Field(description="Rank, 1 is the best; of a job, the number of the entry.")
    axes: Axes = Field(description="Sizes by name.")
    placement: Matrix = Field(description="One row an axis, one column a level.")
    program: str = Field(description="Its steps; empty where there is nothing to do.")
    segments: Positive = Field(description="Number of segments of the first stripe's slice.")
    seconds: PredictedSeconds
    barrier_seconds: Seconds = Field(
        description="Seconds of the first stripe's program without segments."
    )
    baseline_seconds: Seconds = Field(description="Seconds of the default on the same placement.")
    speedup: Number = Field(description="baseline_seconds / runtime_seconds.")
    bound_seconds: Seconds = Field(description="Lower bound over all schedules on this placement.")
    limited_by: LimitedBy
    steps: list[StepPricePart] = Field(description="Steps of one segment, for all stripes in turn.")
    stripes: list[RankedStripe] = Field(min_length=1, description="The programs side by side.")
    interval_seconds: Interval | None = Field(
        description="Interval of a calibrated system, or null."
    )
    baseline_interval_seconds: Interval | None = Field(
        description="Interval of the default, or null."
    )
    why: list[str] = Field(min_length=1, description="Sentences: what the prices say.")
    against_default: Against = Field(
        description="As the runtime runs it, within the prediction's uncertainty."
    )
    runtime_seconds: Seconds = Field(description="Seconds as the runtime runs it.")
    advice: AdvicePart = Field(description="How to get it.")
    worth_measuring: DecidingRunPart | None = optional_key(
        "The run that decides, where it ties with the default and may gain."
    )
    calls: CallsOfProgram | None = optional_key(
        "Algorithms of the price, for programs of several calls or segments."
    )
    unmeasured: str | None = optional_key(
        "What of its prices, and of the default's, no row of a calibration measured, in words."
    )
    others: Whole = Field(description="Number of other programs that tie with it.")
    least_seconds: Seconds = Field(description="The least price among it and them.")

    @property
    def is_default(self) -> bool:
        """Whether it is the runtime's own choice, by the same algorithm and protocol."""
        own = self.default.algorithm, self.default.protocol
        return all((step.algorithm, step.protocol) == own for step in self.steps)

    def setting(self, system: MachineInFull) -> str:
        """Return the environment variable of one call; empty for the runtime's default."""
        if self.advice.by is AdviceKind.ENVIRONMENT:
            return self.advice.text
        if self.is_default:
            return ""
        [step] = self.steps
        protocol = step.protocol or Protocol.SIMPLE
        version = parse_version(system.nccl.version) if system.nccl else DEFAULT
        runtime = system.runtime
        return way_setting(
            step.collective, self.defaults, step.algorithm, protocol, runtime, version
        )

    @property
    def default_notice(self) -> str:
        """The notice that the default is to be kept; empty if the answer is surely faster."""
        return default_notice(self.against_default, self.runtime_seconds, self.baseline_seconds)

    @classmethod
    def of(cls, answer: planned.Answer, best: PriceEstimate | None = None, **more: Any) -> Self:
        """An answer; a run is worth it over the default on its placement, or over the ``best``."""
        if found := find_deciding_run(answer, best):
            more["worth_measuring"] = found
        if answer.called and answer.called.each and not answer.plain:
            more["calls"] = answer.called
        if answer.not_measured:
            more["unmeasured"] = answer.not_measured
        candidate, seconds = answer.candidate, answer.runtime_seconds
        payload_bytes = sum(part.size_bytes for part in candidate.parts)
        return cls.like(
            answer,
            candidate,
            candidate.reduction,
            candidate.reduction.placement,
            program=candidate.text,
            speedup=answer.baseline_seconds / seconds if seconds else 1.0,
            bound_seconds=answer.bound.seconds,
            steps=[price for stripe in answer.stripes for price in stripe.prices],
            stripes=[RankedStripe.of(stripe, payload_bytes) for stripe in answer.stripes],
            why=explain_answer(answer),
            advice=advise(answer),
            **default_keys(answer.defaults, answer.baseline_interval),
            **verdict_keys(answer.verdict),
            **more,
        )


class RankedAnswer(PlacedAnswer):
    """An answer beside others."""

    last = (*PlacedAnswer.last, "tied", "against_best_default")

    tied: bool = Field(description="Whether it ties with the first.")
    against_best_default: Against | None = optional_key(
        "Comparison with the fastest default, if that is on another placement."
    )

    @classmethod
    def beside(cls, first: planned.Answer, best: PriceEstimate, answer: planned.Answer) -> Self:
        """An answer, and whether prices tell it from the first, and from the ``best`` default."""
        tied = not first.estimate.told_from(answer.estimate)
        if answer.baseline_estimate == best:
            return cls.of(answer, tied=tied)
        return cls.of(answer, best, tied=tied, against_best_default=answer.against(best))

    @property
    def against_best(self) -> DefaultComparison:
        """What prices can tell of it and the fastest default of all placements."""
        return self.against_best_default or self.against_default


class CollectiveReply(ReplyModel):
    """Differences between the questions."""

    system: MachineInFull = Field(description="The machine.")
    request: GoalName = Field(description="Request.")
    reduce: list[str] = Field(min_length=1, description="The axes it is over.")


def _request_keys(system: System, request: planned.Request) -> Json:
    """Return the keys of a question that rankings and sweeps repeat, except its bytes."""
    return {
        "system": system,
        "request": request.goal,
        **({"laid_out_by": "framework"} if request.by_framework else {}),
    }


class CandidatesConsidered(AnswerPart):
    """What the answers were chosen from."""

    placements: Whole = Field(description="Number of placements examined.")
    of_placements: Whole = Field(description="Total number.")
    programs: Whole = Field(description="Number of programs ranked.")


class FasterPlacement(AnswerPart):
    """Another placement, on which the collective would be faster if nothing else were sent."""

    gain: Number = Field(description="Seconds of the first answer / its seconds.")
    answer: PlacedAnswer = Field(
        description="The best program there; its rank follows the answers'."
    )

    @classmethod
    def of(cls, first: planned.Answer, answer: planned.Answer) -> Self:
        gain = first.candidate.seconds / answer.candidate.seconds
        return cls.like(gain=gain, answer=answer)


LaidOutBy = Literal["framework"]
LAID_OUT_BY: Any = optional_key(
    "Who chose the placement, if nobody asked for one and other axes send what is not said.", ""
)


class RankingReply(CollectiveReply):
    """The best placements and programs for one size, best first."""

    bytes: Positive = Field(description="The largest buffer of a device.")
    algorithm: ChoiceName = Field(description="Algorithms that steps may use.")
    collapse: bool = Field(description="Whether each level is one digit in programs.")
    answers: list[RankedAnswer] = Field(description="Best first.")
    best_default_seconds: Seconds = Field(
        description="Seconds of the fastest default over all placements."
    )
    considered: CandidatesConsidered = Field(description="Candidates considered.")
    complete: Complete
    explain: bool = Field(description="Whether every answer is explained.")
    laid_out_by: LaidOutBy = LAID_OUT_BY
    elsewhere: list[FasterPlacement] = optional_key(
        "Faster placements, if nothing else were sent.", []
    )

    @classmethod
    def of(cls, report: planned.Report, explain: bool) -> Self:
        first, others = report.answers[0], {}
        defaults = (answer.baseline_estimate for answer in report.answers)
        best = min(defaults, key=lambda estimate: estimate.ticks)
        if report.request.by_framework:
            found = [FasterPlacement.of(first, answer) for answer in report.faster_elsewhere]
            others = {"elsewhere": found}
        return cls.like(
            report,
            report.looked,
            report.request,
            **_request_keys(report.system, report.request),
            answers=[RankedAnswer.beside(first, best, answer) for answer in report.answers],
            considered=report.looked,
            explain=explain,
            **others,
        )


class StretchTrial(AnswerPart):
    """What is worth measuring of a stretch, at a size that one would type."""

    bytes: Positive = Field(description="The size.")
    worth_measuring: DecidingRunPart = Field(description="The run that decides there.")

    @classmethod
    def of(cls, answer: planned.Answer) -> Self | None:
        """Of an answer to that size, if it is worth a run."""
        found = find_deciding_run(answer)
        return cls.like(answer, worth_measuring=found) if found else None


class StretchPart(AnswerPart):
    """Neighbouring sizes with the same placement, program, line to set, and gain; or without any.

    Where nothing gains that prices can tell, nor is worth measuring, the default is kept, whatever
    programs the answers have.
    """

    from_bytes: Positive = Field(description="Its smallest size.")
    until_bytes: Positive = Field(description="Its largest size.")
    first: PlacedAnswer = Field(description="The answer at the smallest size.")
    last: PlacedAnswer = Field(description="The answer at the largest size.")
    trial: StretchTrial | None = optional_key("Run worth measuring, if any.")

    @property
    def keeps_default(self) -> bool:
        """Whether there is nothing to set, to run or to know but that."""
        open_ = self.first.against_default in (
            DefaultComparison.SAME,
            DefaultComparison.SLOWER,
        )
        return open_ and self.trial is None


class SizeFigures(AnswerPart):
    """The figures of one size."""

    bytes: Positive = Field(description="The size.")
    seconds: Seconds = Field(description="Seconds of the best answer.")
    runtime_seconds: Seconds = Field(
        description="Seconds of the best answer as the runtime runs it."
    )
    baseline_seconds: Seconds = Field(description="Seconds of the default on its placement.")
    default_name: DefaultName = Field(description="Algorithm of the default.")
    default_protocol: ProtocolName = Field(description="Protocol.")
    against_default: Against = Field(description="Comparison of the best answer with it.")
    bound_seconds: Seconds = Field(description="Lower bound over all schedules there.")
    program: str = Field(description="Steps of the best answer, separated by '; '.")
    worth_measuring: bool = Field(description="Whether a run would decide about a gain.")

    @classmethod
    def of(cls, size_bytes: int, answer: PlacedAnswer) -> Self:
        plain = answer.default
        more = {"default_name": plain.name, "default_protocol": plain.protocol}
        worth = answer.worth_measuring is not None
        return cls.like(answer, bytes=size_bytes, worth_measuring=worth, **more)


class SweepReply(CollectiveReply):
    """From which size on which placement and program is the best."""

    bytes: list[Positive] = Field(min_length=2, max_length=2, description="Both ends.")
    algorithm: ChoiceName = Field(description="Algorithms that steps may use.")
    collapse: bool = Field(description="Whether each level is one digit in programs.")
    stretches: list[StretchPart] = Field(description="Stretches from the smallest size on.")
    sizes: list[SizeFigures] = Field(description="Every size that was asked.")
    complete: Complete
    laid_out_by: LaidOutBy = LAID_OUT_BY

    @property
    def answers(self) -> list[PlacedAnswer]:
        """The answers at the ends of stretches: those between have the same programs."""
        return [end for stretch in self.stretches for end in (stretch.first, stretch.last)]

    @classmethod
    def of(cls, sweep: by_size.Sweep) -> Self:
        return cls.like(
            sweep.request,
            **_request_keys(sweep.system, sweep.request),
            bytes=[sweep.smallest_bytes, sweep.largest_bytes],
            stretches=sweep.stretches,
            sizes=[SizeFigures.of(size, PlacedAnswer.of(answer)) for size, answer in sweep.sizes],
            complete=sweep.complete,
        )


class LeadingAnswer(AnswerPart):
    """One of the best so far: found and priced, and not proved yet."""

    rank: Positive
    axes: Axes
    placement: Matrix
    program: str
    seconds: Seconds
    gap: float | None = optional_key("The share by which it exceeds a bound of all plans.")
    proof: Literal["not yet"]

    @classmethod
    def of(cls, best: planned.ProvisionalResult) -> Self:
        gap = {} if best.gap is None else {"gap": best.gap}
        return cls.like(best, proof="not yet", **gap)


class BestSoFar(AnswerPart):
    """What is shown while work goes on: no answer, and so without the version of one."""

    answers: list[LeadingAnswer]
    complete: Literal[False]
