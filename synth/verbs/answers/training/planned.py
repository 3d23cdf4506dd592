"""What the verb ``plan`` answers for a model: plans of a whole step, the fastest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self, TypeVar, assert_never

from pydantic import Field

from hierarchies import InputError
from synth.emit import Files
from synth.plan.request import programs_text
from synth.search.space import BestFound, Found, Infeasible, NoneFound, Optimal
from synth.train.planner.finalists import Finalist
from synth.train.planner.gaining import Sending
from synth.train.planner.hints import Freed
from synth.train.planner.links import Candidate, Composed
from synth.train.planner.operations.finer import Finer
from synth.train.planner.planning import Job, Planned
from synth.train.planner.resolution import Difference, difference
from synth.train.simulation.spans import spans
from synth.verbs.answers.machine_parts import LevelInFull, PricesName
from synth.verbs.answers.parts import (
    Axes,
    GoalName,
    Matrix,
    Number,
    Part,
    Positive,
    Reply,
    Seconds,
    TextFile,
    Whole,
)
from synth.verbs.answers.ranked import matrix_of
from synth.verbs.answers.training.operations import RowsOfOperations
from synth.verbs.answers.training.sent import SentInStep
from synth.verbs.answers.training.simulated import MomentOfStep, RankOfStep

T = TypeVar("T")
MOST_OF_FRONT = 20
_ROWS, _ROWS_OF_OTHERS = 1_000, 1_600
"""Of timelines: at most so many of each plan, and so many of all but the first together."""

Signed = Annotated[float, Field(allow_inf_nan=False)]


class SourceOfError(Part):
    """What one source of error lets a difference be."""

    what: str = Field(description="A kind of computing, links of a level, or the clock itself.")
    less_seconds: Seconds = Field(description="By how much less it may be.")
    more_seconds: Seconds = Field(description="By how much more.")


class MoreSeconds(Part):
    """How much longer than the first a plan takes; below 0, how much less."""

    seconds: Signed = Field(description="As simulated.")
    interval: list[Signed] = Field(
        min_length=2, max_length=2, description="Between which ends, as far as prices can tell."
    )
    sources: list[SourceOfError] = Field(
        description="Why it is not sure: what the errors of both do not have in common."
    )

    @property
    def told(self) -> bool:
        """Whether it is longer, or shorter, whatever the errors are."""
        return self.interval[0] > 0 or self.interval[1] < 0

    @classmethod
    def of(cls, found: Difference) -> Self:
        return cls(
            seconds=found.seconds,
            interval=[found.low_seconds, found.high_seconds],
            sources=[
                SourceOfError(what=what, less_seconds=-less, more_seconds=more)
                for what, less, more in found.sources
            ],
        )


ROWS = "rows.plan"
"""A plan in full, as simulate, shard and train take it."""


class PlanOfStep(Part):
    """A plan, simulated."""

    plan: str = Field(description="As simulate, shard and train take it.")
    axes: Axes = Field(description="Sizes by name, in the order of the placement.")
    placement: Matrix = Field(description="One row an axis, one column a level.")
    by_framework: bool = Field(description="Whether frameworks lay the axes out so by themselves.")
    seconds: Seconds = Field(description="Of a step.")
    more: MoreSeconds = Field(description="Than the first.")
    tied: bool = Field(description="Whether prices cannot tell it from the first.")
    composed_seconds: Seconds = Field(description="What the search had expected.")
    tokens_per_second: Number = Field(description="By all devices; 0 where samples are no texts.")
    utilisation: Number = Field(description="Of the peak of all devices, in products of matrices.")
    compute_seconds: Seconds = Field(description="Those in which the busiest rank computes.")
    exposed_seconds: Seconds = Field(description="Those in which it waits for communication.")
    idle_seconds: Seconds = Field(description="Those in which it waits for other stages.")
    memory: MomentOfStep = Field(description="Of the rank that needs the most.")
    ranks: list[RankOfStep] = Field(
        min_length=1,
        description="Of the pipeline, with what each does; its streams only of the busiest.",
    )
    gap: Number = Field(description="How far above what no plan can beat: 0.2 is a fifth.")
    bucket_bytes: Whole = Field(
        description="What of gradients is summed at once, at most; 0 if each by itself."
    )
    bucket_saved_seconds: Seconds = Field(
        description="How much longer it would wait with each gradient summed by itself; 0 where"
        " that is not more than prices can tell, or where buckets are pinned."
    )


class PlanOfFront(Part):
    """A plan that no other beats both in seconds and in memory, as the search prices it."""

    plan: str = Field(description="As simulate takes it.")
    placement: Matrix = Field(description="One row an axis, one column a level.")
    seconds: Seconds = Field(description="Expected of a step.")
    bytes: Whole = Field(description="Expected of the fullest device.")

    @classmethod
    def of(cls, one: Composed) -> Self:
        return cls(
            plan=str(one.candidate.recipe),
            placement=[list(row) for row in one.candidate.rows],
            seconds=one.seconds,
            bytes=round(one.size_bytes),
        )


class FreedMemory(Part):
    """A change with which a plan would need less memory."""

    what: str = Field(description="A pin that is left out, more devices, fewer tokens.")
    bytes: Whole = Field(description="Of the fullest device then, at least.")
    freed_bytes: Whole = Field(description="How much less that is.")


class LeastMemory(Part):
    """The plan that needs the least memory, where none fits."""

    plan: str = Field(description="As simulate takes it.")
    bytes: Whole = Field(description="Of the fullest device.")
    excess_bytes: Whole = Field(description="How much of that is too much.")
    freed: list[FreedMemory] = Field(description="What would help, the most first.")

    @classmethod
    def of(cls, found: Planned, memory_bytes: float, helps: Sequence[Freed] = ()) -> Self | None:
        """None where something fits."""
        if found.nearest is None:
            return None
        candidate, size = found.nearest
        return cls(
            plan=str(candidate.recipe),
            bytes=round(size),
            excess_bytes=max(0, round(size - memory_bytes)),
            freed=[
                FreedMemory(
                    what=one.what,
                    bytes=round(one.size_bytes),
                    freed_bytes=round(one.freed_bytes),
                )
                for one in helps
            ],
        )


class RefusedPlans(Part):
    """Plans that cannot be."""

    because: str = Field(description="Why.")
    plans: Whole = Field(description="Of how many that is so.")


class NotSaid(Part):
    """A framework that cannot say the best plan."""

    framework: str = Field(description="Which.")
    because: str = Field(description="Why.")


class ProgramOfPlan(Part):
    """A collective of the first plan for which a proved program gains over the runtime's choice."""

    request: GoalName = Field(description="What is done.")
    over: list[str] = Field(min_length=1, description="Over which axes.")
    bytes: Positive = Field(description="The largest buffer of a device.")
    times: Positive = Field(description="How often in a step.")
    program: str = Field(description="Its steps; of several stripes all, with ' | ' between.")
    seconds: Seconds = Field(description="What it takes once, by algorithms of the runtime.")
    default_seconds: Seconds = Field(description="What the runtime's own choice takes.")
    saved_seconds: Seconds = Field(description="Of a step, of what nothing is computed beside.")
    environment: str = Field(description="The line that makes the runtime choose so; else empty.")
    files: list[str] = Field(
        description="The names of its files: a framework each, and a plan for MSCCL++."
    )
    no_plan: str = Field(description="Why none of these is for MSCCL++; empty if one is.")

    @classmethod
    def of(cls, gain: Sending, environment: str, files: list[str], no_plan: str = "") -> Self:
        answer = gain.answer
        return cls.like(
            gain,
            gain.sent,
            request=gain.sent.goal,
            bytes=gain.sent.size_bytes,
            program=programs_text(str(stripe.part.program) for stripe in answer.stripes),
            seconds=answer.runtime_seconds,
            environment=environment,
            files=files,
            no_plan=no_plan or ("the runtime does it by itself" if environment else ""),
        )


Proved = Literal["optimal", "best-found", "infeasible", "none-found"]


def _proved(found: Found[Candidate]) -> tuple[Proved, float | None]:
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


class StepPlanReply(Reply):
    """Plans of a whole training step on a machine, the fastest first."""

    model: str = Field(description="What is trained.")
    system: str = Field(description="The machine, as it was asked for.")
    levels: list[LevelInFull] = Field(min_length=1, description="Outermost first.")
    devices: Positive = Field(description="How many it has.")
    prices: PricesName = Field(description="What prices of communication follow.")
    device: str = Field(description="The accelerator by whose rates seconds are reckoned.")
    device_bytes: Positive = Field(description="The memory of one.")
    peak_flops_per_second: Number = Field(description="The data sheet's, of what is multiplied.")
    dtype: str = Field(description="The element type that most is multiplied in.")
    samples: Positive = Field(description="In a step.")
    tokens: Whole = Field(description="In a step; 0 where samples are no texts.")
    sizes: dict[str, Whole] = Field(description="What is other than the model has it.")
    computed_in: str = Field(description="The flag --dtype.")
    optimizer: str = Field(description="What updates it.")
    pins: str = Field(description="What plans must have.")
    search: Literal["grid", "annealing"] = Field(description="How plans were looked for.")
    proved: Proved = Field(
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
        " do it, with nothing computed again, and the least memory. It is what is written. Null if"
        " nothing fits."
    )
    front: list[PlanOfFront] = Field(
        description="Of those that fit, which none beats in seconds and bytes; the fastest first."
    )
    least_seconds: Seconds = Field(description="What no plan can beat: all compute, always.")
    considered: Whole = Field(description="Recipes times placements.")
    fitting: Whole = Field(description="Those that fit in memory.")
    priced: Whole = Field(description="Those that no bound ruled out, put on the clock.")
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
    rows: RowsOfOperations | None = Field(description="If --rows is asked; else null.")
    assumed: str = Field(
        description="What is assumed of the tokens of a model with experts; else empty."
    )
    complete: bool = Field(description="False if a better plan may be missing.")
    programs: list[ProgramOfPlan] = Field(
        description="What of the best gains by a program of ours, the most first."
    )
    sent: list[SentInStep] = Field(
        description="What the busiest rank of the best sends, what takes the most time first."
    )
    files: list[TextFile] = Field(description="The best as frameworks take it, a folder for each.")
    not_said: list[NotSaid] = Field(description="The frameworks that cannot, and why.")

    @property
    def best(self) -> PlanOfStep:
        """The plan to be taken; there must be one."""
        return self.plans[self.advised or 0]

    @classmethod
    def of(cls, asked: Asked, found: Planned, why_not: Planned | None) -> Self:
        """All that is to be said of plans of a step."""
        job, search = asked.job, found.search
        system, device = job.system, job.device
        proved, above = _proved(found.verdict(device.memory_bytes))
        advised = found.advised(device.memory_bytes) if found.finalists else None
        differences = [difference(found.likely[0], one) for one in found.likely]
        rest = _ROWS_OF_OTHERS // max(2, len(found.finalists) - 1 + (why_not is not None))
        beside = []
        if why_not and why_not.finalists:
            first = (found.likely or why_not.likely)[0]
            than_first = difference(first, why_not.likely[0])
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
            front=[PlanOfFront.of(one) for one in thinned(list(found.front))],
            least_seconds=found.least_seconds,
            considered=search.plans,
            fitting=len(search.fitting),
            priced=search.priced,
            usual_seconds=found.usual.seconds if found.usual else None,
            usual_more=(
                MoreSeconds.of(difference(found.likely[0], found.laid_out))
                if found.laid_out
                else None
            ),
            nearest=LeastMemory.of(found, device.memory_bytes, asked.freed),
            why_not_nearest=(LeastMemory.of(why_not, device.memory_bytes) if why_not else None),
            refused=[RefusedPlans(because=why, plans=count) for why, count in found.refused],
            rows=RowsOfOperations.of(asked.finer) if asked.finer else None,
            why_not=next(iter(beside), None),
            assumed=job.assumed,
            complete=found.complete,
            files=[
                TextFile(name=name, text=text if isinstance(text, str) else text.decode())
                for name, text in asked.files.items()
            ],
            programs=asked.written.programs if asked.written else [],
            sent=[SentInStep.of(one) for one in asked.written.sent] if asked.written else [],
            not_said=[
                NotSaid(framework=name, because=str(why))
                for name, why in (asked.written.refused if asked.written else {}).items()
            ],
        )


def thinned(front: Sequence[T]) -> Sequence[T]:
    """At most ``MOST_OF_FRONT``, both ends among them, evenly by their places."""
    last = len(front) - 1
    if last < MOST_OF_FRONT:
        return front
    return [front[round(at * last / (MOST_OF_FRONT - 1))] for at in range(MOST_OF_FRONT)]


@dataclass(frozen=True)
class Handed:
    """The best plan as files, who cannot say it, programs that gain, and all that it sends."""

    files: Files
    refused: Mapping[str, InputError]
    programs: list[ProgramOfPlan]
    sent: Sequence[Sending]


@dataclass(frozen=True)
class Asked:
    """What plans were asked for, and what is known of the step without one."""

    job: Job
    system: str
    flops: int
    dtype: str
    samples: int
    tokens: int
    pins: str
    asked_why_not: str
    written: Handed | None
    search: Literal["grid", "annealing"] = "grid"
    finer: Finer | None = None
    freed: Sequence[Freed] = ()

    @property
    def files(self) -> Files:
        """The best as frameworks take it, and a better plan in full if there is one."""
        text = self.finer.text if self.finer else ""
        return {**(self.written.files if self.written else {}), **({ROWS: text} if text else {})}

    def plan(self, one: Finalist, among: Planned, than_first: Difference, most: int) -> PlanOfStep:
        """A plan, with what the search had expected of it, and how much longer it takes.

        Its timeline has at most so many rows.
        """
        run, seconds = one.found, one.found.seconds
        busiest, moment = run.ranks[run.busiest], run.ranks[run.fullest].moment
        alone = one.candidate.alone
        composed = next(each.seconds for each in among.looked_at if each.candidate.alone == alone)
        peak = self.job.system.devices * self.job.device.peak(self.dtype)
        return PlanOfStep(
            plan=str(one.candidate.recipe),
            axes=dict(one.candidate.recipe.axes),
            placement=matrix_of(one.placement),
            by_framework=one.by_framework,
            seconds=seconds,
            more=MoreSeconds.of(than_first),
            tied=not than_first.told,
            composed_seconds=composed,
            tokens_per_second=self.tokens / seconds,
            utilisation=self.flops / seconds / peak,
            compute_seconds=busiest.compute_seconds,
            exposed_seconds=max(0.0, busiest.exposed_seconds),
            idle_seconds=busiest.idle_seconds,
            memory=MomentOfStep.of(moment),
            ranks=[
                RankOfStep.of(run, rank, rows)
                for rank, rows in zip(run.ranks, spans(run, most), strict=True)
            ],
            gap=seconds / among.least_seconds - 1,
            bucket_bytes=one.candidate.recipe.bucket_bytes,
            bucket_saved_seconds=one.saved_seconds,
        )
