"""What the verb ``plan`` answers for a model: plans of a whole step, the fastest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self, assert_never

from pydantic import Field

from hierarchies import InputError
from synth.ask.answers.machine_parts import LevelInFull, PricesName
from synth.ask.answers.parts import (
    AnswerPart,
    Number,
    Positive,
    ReplyModel,
    Seconds,
    TextFile,
    Whole,
)
from synth.ask.answers.ranked import matrix_of
from synth.ask.answers.training.gained import ProgramOfPlan, describe_gain
from synth.ask.answers.training.least_memory import LeastMemory
from synth.ask.answers.training.plans import (
    MoreSeconds,
    PlanOfFront,
    PlanOfStep,
    RowsOfPlan,
    thin_front,
)
from synth.ask.answers.training.sent import CollectiveOfStep
from synth.ask.answers.training.simulated import MeasuredOfStep, MomentOfStep, RankOfStep
from synth.collective.emit import Files
from synth.search.space import BestFound, Found, Infeasible, NoneFound, Optimal
from synth.step.search.explaining import PlanningResult
from synth.step.search.finalists import Finalist
from synth.step.search.gaining import CollectiveGain
from synth.step.search.hints import MemorySaving
from synth.step.search.job import PlanningProblem
from synth.step.search.links import PlacedRecipe
from synth.step.search.resolution import Difference, compare_seconds
from synth.step.sharding import plan_text
from synth.step.simulation.spans import list_spans

_ROWS, _ROWS_OF_OTHERS = 1_000, 1_600
"""Of timelines: at most so many of each plan, and so many of all but the first together."""


class RefusedPlans(AnswerPart):
    """Plans that cannot be."""

    because: str = Field(description="Why.")
    plans: Whole = Field(description="Number of plans.")


class UnsupportedFramework(AnswerPart):
    """A framework that cannot say the best plan."""

    framework: str = Field(description="Which.")
    because: str = Field(description="Why.")


SearchVerdict = Literal["optimal", "best-found", "infeasible", "none-found"]


def _search_verdict(found: Found[PlacedRecipe]) -> tuple[SearchVerdict, float | None]:
    match found:
        case Optimal():
            return "optimal", None
        case BestFound():
            return "best-found", found.gap
        case Infeasible():
            return "infeasible", None
        case NoneFound():
            return "none-found", None
    assert_never(found)


class StepPlanReply(ReplyModel):
    """Plans of a whole training step on a machine, the fastest first."""

    model: str = Field(description="Model.")
    system: str = Field(description="The machine, as it was asked for.")
    levels: list[LevelInFull] = Field(min_length=1, description="Outermost first.")
    devices: Positive = Field(description="Number of them.")
    prices: PricesName = Field(description="Basis of communication prices.")
    device: str = Field(description="Accelerator whose rates are used.")
    device_bytes: Positive = Field(description="The memory of one.")
    peak_flops_per_second: Number = Field(description="The data sheet's, of what is multiplied.")
    dtype: str = Field(description="The element type that most is multiplied in.")
    samples: Positive = Field(description="Samples per step.")
    tokens: Whole = Field(description="Tokens per step; 0 if samples are not text.")
    sizes: dict[str, Whole] = Field(description="Sizes that differ from the model's.")
    computed_in: str = Field(description="The flag --dtype.")
    optimizer: str = Field(description="Optimizer.")
    pins: str = Field(description="Pinned decisions.")
    proved: SearchVerdict = Field(
        description="Of composed seconds: optimal, nothing searched is faster; best-found;"
        " infeasible, nothing fits; or none-found, nothing was met that fits."
    )
    above: Number | None = Field(
        description="Of a best that was found only: so far above what no plan can beat, all"
        " devices multiplying at their peak, at most; else null."
    )
    plans: list[PlanOfStep] = Field(description="The fastest first; none if nothing fits.")
    advised: Whole | None = Field(
        description="Which to take, its number, from 0: of those tied with the first one that"
        " leaves a tenth of the memory, if any does, with the fewest axes, laid out as frameworks"
        " do it, with nothing computed again, with a fifth of the memory free, that may take least"
        " longer than the first, and the least memory. It is what is written. Null if nothing fits."
    )
    front: list[PlanOfFront] = Field(
        description="Pareto front in seconds and bytes of plans that fit; the fastest first."
    )
    least_seconds: Seconds = Field(description="Lower bound: all devices compute all the time.")
    considered: Whole = Field(description="Recipes times placements.")
    fitting: Whole = Field(description="Number of plans that fit in memory.")
    priced: Whole = Field(description="Number of plans that no bound ruled out.")
    usual_seconds: Seconds | None = Field(
        description="Expected of the best where axes lie as frameworks lay them out; null: none."
    )
    usual_more: MoreSeconds | None = Field(
        description="How much longer that takes than the first, simulated; null where the first"
        " lies as frameworks lay axes out, or no plan does."
    )
    nearest: LeastMemory | None = Field(description="If nothing fits; else null.")
    refused: list[RefusedPlans] = Field(description="Plans that cannot be, and why.")
    asked_why_not: str = Field(description="The pins of the plan beside these.")
    why_not: PlanOfStep | None = Field(description="The best with those pins; null if none fits.")
    why_not_nearest: LeastMemory | None = Field(
        description="If nothing with those pins fits: what needs the least memory; else null."
    )
    assumed: str = Field(
        description="Of batch normalisation, or of the tokens of experts; else empty."
    )
    complete: bool = Field(description="False if a better plan may be missing.")
    programs: list[ProgramOfPlan] = Field(
        description="What of the best gains by a program of ours, the most first."
    )
    sent: list[CollectiveOfStep] = Field(
        description="What the busiest rank of the best sends, what takes the most time first."
    )
    perhaps_saved_seconds: Seconds = Field(
        description="Time the first would save if all programs worth measuring, which tie with the"
        " runtime's defaults, are as fast as predicted."
    )
    files: list[TextFile] = Field(description="The best as frameworks take it, a folder for each.")
    not_said: list[UnsupportedFramework] = Field(description="The frameworks that cannot, and why.")

    @property
    def best(self) -> PlanOfStep:
        """The plan to be taken; there must be one."""
        return self.plans[self.advised or 0]

    @classmethod
    def of(cls, asked: PlanContext, found: PlanningResult, why_not: PlanningResult | None) -> Self:
        """All that is to be said of plans of a step."""
        job, search = asked.job, found.search
        system, device = job.system, job.device
        proved, above = _search_verdict(found.verdict(device.memory_bytes))
        advised = found.advised(device.memory_bytes) if found.finalists else None
        differences = [compare_seconds(found.likely[0], one) for one in found.likely]
        rest = _ROWS_OF_OTHERS // max(2, len(found.finalists) - 1 + (why_not is not None))
        beside = []
        if why_not and why_not.finalists:
            first = (found.likely or why_not.likely)[0]
            than_first = compare_seconds(first, why_not.likely[0])
            beside = [asked.plan(why_not.finalists[0], why_not, than_first, rest)]
        return cls.like(
            asked,
            model=job.model,
            sizes=dict(job.changes),
            computed_in=job.spelling.dtype,
            optimizer=job.spelling.optimizer,
            levels=LevelInFull.of_all(system),
            devices=system.devices,
            prices=system.prices,
            device=device.name,
            device_bytes=round(device.memory_bytes),
            peak_flops_per_second=device.peak(asked.dtype),
            proved=proved,
            above=above,
            plans=[
                asked.plan(one, found, than_first, _ROWS if number == advised else rest)
                for number, (one, than_first) in enumerate(
                    zip(found.finalists, differences, strict=True)
                )
            ],
            advised=advised,
            front=[PlanOfFront.of(one) for one in thin_front(list(found.front))],
            least_seconds=found.least_seconds,
            considered=search.plans,
            fitting=search.fitting,
            priced=search.priced,
            usual_seconds=found.usual.seconds if found.usual else None,
            usual_more=(
                MoreSeconds.of(compare_seconds(found.likely[0], found.laid_out))
                if found.laid_out
                else None
            ),
            nearest=LeastMemory.of(found, device.memory_bytes, asked.freed),
            why_not_nearest=(LeastMemory.of(why_not, device.memory_bytes) if why_not else None),
            refused=[RefusedPlans(because=why, plans=count) for why, count in found.refused],
            why_not=next(iter(beside), None),
            assumed=job.assumed,
            complete=asked.complete,
            files=[
                TextFile(name=name, text=text if isinstance(text, str) else text.decode())
                for name, text in (asked.written.files if asked.written else {}).items()
            ],
            programs=asked.written.programs if asked.written else [],
            sent=[CollectiveOfStep.of(one) for one in asked.written.sent] if asked.written else [],
            perhaps_saved_seconds=(
                sum(one.perhaps_saved_seconds for one in asked.written.sent) if asked.written else 0
            ),
            not_said=[
                UnsupportedFramework(framework=name, because=str(why))
                for name, why in (asked.written.refused if asked.written else {}).items()
            ],
        )


@dataclass(frozen=True)
class PlanOutputs:
    """The best plan as files, who cannot say it, programs that gain, and all that it sends."""

    files: Files
    refused: Mapping[str, InputError]
    programs: list[ProgramOfPlan]
    sent: Sequence[CollectiveGain]


@dataclass(frozen=True)
class PlanContext:
    """What plans were asked for, and what is known of the step without one."""

    job: PlanningProblem
    system: str
    flops: int
    dtype: str
    samples: int
    tokens: int
    pins: str
    asked_why_not: str
    written: PlanOutputs | None
    gaining: Callable[[Finalist], Sequence[CollectiveGain]]
    freed: Sequence[MemorySaving] = ()
    profile: str = ""
    complete: bool = True

    def plan(
        self, one: Finalist, among: PlanningResult, than_first: Difference, most: int
    ) -> PlanOfStep:
        """A plan, with what the search had expected of it, and how much longer it takes.

        Its timeline has at most so many rows.
        """
        run, seconds, rows = one.found, one.found.seconds, one.rows
        busiest, moment = run.ranks[run.busiest], run.ranks[run.fullest].moment
        alone = one.candidate.alone
        composed = (plan.seconds for plan in among.looked_at if plan.candidate.alone == alone)
        peak = self.job.system.devices * self.job.device.peak(self.dtype)
        return PlanOfStep(
            plan=plan_text(self.job.step, one.plan) if rows else str(one.candidate.recipe),
            axes=dict(one.candidate.recipe.axes),
            placement=matrix_of(one.placement),
            by_framework=one.by_framework,
            seconds=seconds,
            more=MoreSeconds.of(than_first),
            tied=not than_first.told,
            composed_seconds=rows.seconds if rows else next(composed),
            tokens_per_second=self.tokens / seconds,
            utilisation=self.flops / seconds / peak,
            compute_seconds=busiest.compute_seconds,
            exposed_seconds=max(0.0, busiest.exposed_seconds),
            idle_seconds=busiest.idle_seconds,
            memory=MomentOfStep.of(moment),
            ranks=[
                RankOfStep.of(run, rank, rows)
                for rank, rows in zip(run.ranks, list_spans(run, most), strict=True)
            ],
            measured=MeasuredOfStep.of(
                self.profile, one.kinds, run, one.candidate.recipe.microbatches
            ),
            gap=seconds / among.least_seconds - 1,
            bucket_bytes=one.candidate.recipe.bucket_bytes,
            bucket_saved_seconds=one.saved_seconds,
            programs=[describe_gain(gain) for gain in self.gaining(one)],
            rows=RowsOfPlan.of(one) if rows else None,
        )
