"""The verbs that plan: one collective, a range of sizes, a whole job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Annotated

from pydantic import Field

from grammar import Goal
from hierarchies import (
    MOST_AXES,
    InputError,
    System,
)
from synth.collectives.algorithms import Choice
from synth.degraded import uneven_answers
from synth.degraded.comparison import cost, uneven_request
from synth.plan.library import Library
from synth.plan.planner import answers
from synth.plan.request import Request, Unranked, Watcher
from synth.plan.sizes import sweep
from synth.semantics.programs import Language
from synth.verbs.answers.bodies import (
    Json,
    plan_json,
    ranking_json,
    sweep_json,
)
from synth.verbs.answers.degraded_bodies import cost_json, uneven_json
from synth.verbs.answers.planning import JobReply
from synth.verbs.limited import Limited
from synth.verbs.named_texts import Given, job_of, system_of
from synth.verbs.questions import (
    Axes,
    Bytes,
    FaultyQuestion,
    Figure,
    MachineQuestion,
    Matrix,
    MaxSteps,
    Measure,
    Names,
    OneOrMoreBytes,
    Question,
    Segments,
    axes_of,
    matrix_of,
    segment_counts,
)
from synth.verbs.reply import Outcome, Reply, reply
from synth.verify.symbolic import Refuted
from synth.workload.files import sizes_of
from synth.workload.job import Job
from synth.workload.planner import How, plan_job
from synth.workload.shapes import Shape, Sharding, Training
from synth.workload.transformer import transformer_job

MOST_SYSTEMS = 1024


class RankedQuestion(FaultyQuestion):
    """A collective over some axes, and how programs for it are looked for."""

    axes: Axes
    reduce: Names
    bytes: OneOrMoreBytes = 2**30
    k: Annotated[int, Limited.K] = 10
    max_steps: MaxSteps = 5
    algorithm: Choice = Field(default=Choice.AUTO, strict=False)
    placement: Matrix | None = None
    per_placement: bool = False
    across: bool = False
    collapse: bool = True
    segments: Segments = "auto"
    stripes: bool = True
    request: Goal = Field(default=Goal.ALL_REDUCE, strict=False)
    explain: bool = False

    def asked(self) -> Request:
        """The question as the planner's request; of a range of sizes, at its largest.

        Raises InputError for what makes no sense.
        """
        if isinstance(self.bytes, tuple) and self.per_placement:
            raise InputError(
                "a range of sizes is asked for every placement",
                where="--per-placement",
                hint="give one size, or one --placement",
            )
        return Request(
            axes=axes_of(self.axes),
            over=tuple(self.reduce),
            payload_bytes=self.bytes if isinstance(self.bytes, int) else max(self.bytes),
            k=self.k,
            language=Language(self.max_steps, self.across, self.request),
            choice=self.algorithm,
            collapse=self.collapse,
            placement=matrix_of(self.placement) if self.placement is not None else None,
            per_placement=self.per_placement,
            segments=segment_counts(self.segments),
            stripes=self.stripes,
        )


class TopQuestion(RankedQuestion, MachineQuestion):
    """The best placements and programs for a collective over some axes."""

    @property
    def system_name(self) -> str:
        """What the system is called in the question."""
        return str(getattr(self.system, "name", self.system))


class SweepQuestion(RankedQuestion):
    """The same of several systems."""

    systems: Annotated[list[Given], Limited.SYSTEMS] = Field(min_length=1, max_length=MOST_SYSTEMS)

    def tops(self) -> list[TopQuestion]:
        """The question put to each of the systems."""
        given = {name: getattr(self, name) for name in RankedQuestion.model_fields}
        return [TopQuestion(system=system, **given) for system in self.systems]


class CostQuestion(MachineQuestion):
    """What it costs that something is missing or slower; axes are those of the whole machine."""

    axes: Axes
    reduce: Names
    bytes: Bytes = 2**30
    max_steps: MaxSteps = 5
    algorithm: Choice = Field(default=Choice.AUTO, strict=False)
    segments: Segments = "auto"
    stripes: bool = True
    request: Goal = Field(default=Goal.ALL_REDUCE, strict=False)

    def asked(self) -> Request:
        """The question as the planner's request. Raises InputError for what makes no sense."""
        return Request(
            axes=axes_of(self.axes),
            over=tuple(self.reduce),
            payload_bytes=self.bytes,
            k=1,
            language=Language(self.max_steps, goal=self.request),
            choice=self.algorithm,
            segments=segment_counts(self.segments),
            stripes=self.stripes,
        )


class PlanQuestion(MachineQuestion):
    """The best placement for a whole job: its text, or the name of a job that is shipped."""

    job: Annotated[Given, Limited.TEXT]
    k: Annotated[int, Limited.K] = 5
    max_steps: MaxSteps = 5
    algorithm: Choice = Field(default=Choice.AUTO, strict=False)
    across: bool = False
    collapse: bool = True
    segments: Segments = "auto"
    stripes: bool = True

    def how(self) -> How:
        """How programs are looked for. Raises InputError for what makes no sense."""
        return How(
            self.k,
            Language(self.max_steps, self.across),
            self.algorithm,
            self.collapse,
            segment_counts(self.segments),
            self.stripes,
        )


class JobQuestion(Question):
    """The collectives of a training step, from the shape of a transformer and how it is trained."""

    axes: Annotated[dict[str, str | Figure], Field(max_length=MOST_AXES)]
    name: str = "transformer"
    layers: Figure
    hidden: Figure
    heads: Figure
    vocabulary: Figure
    kv_heads: Figure = 0
    feed_forward: Figure = 0
    gated: bool = False
    classic: bool = True
    experts: Figure = 0
    experts_per_token: Figure = 2
    sequence: Figure
    micro_batch: Figure = 1
    batch: Figure | None = None
    micro_batches: Figure | None = None
    sharding: Sharding = Field(default=Sharding.NONE, strict=False)
    sequence_parallel: bool = True
    recompute: bool = False
    memory_GB: Measure | None = Field(default=None, strict=False)  # noqa: N815 - the unit
    most_bubble: Measure | None = Field(default=None, strict=False)

    def job(self) -> Job:
        """The job. Raises InputError for numbers that make no transformer."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        shape = {one.name: given[one.name] for one in fields(Shape) if one.name in given}
        training = {one.name: given[one.name] for one in fields(Training) if one.name in given}
        sizes = {name: sizes_of(_whole(size)) for name, size in self.axes.items()}
        return transformer_job(Shape(**shape), Training(**training), sizes, name=self.name)


def _whole(size: str | int) -> str | int:
    return int(size) if isinstance(size, str) and size.isdecimal() else size


def top(
    question: TopQuestion, watcher: Watcher, known: Callable[[Language], Library] | None = None
) -> Reply:
    """The ranked, proved programs; for a range of sizes, which is best from which size on.

    ``known``: what is known already of the programs of a language, for questions of one size.
    """
    system = question.machine()
    if system.missing:
        return _uneven(system, question, watcher)
    if isinstance(question.bytes, tuple):
        return _swept(system, question, question.bytes, watcher)
    request = question.asked()
    report = answers(system, request, watcher, known(request.language) if known else None)
    refuted = any(isinstance(answer.verdict, Refuted) for answer in report.answers)
    return ranking_reply(question, ranking_json(report), refuted)


def sweep_systems(question: SweepQuestion, watcher: Watcher) -> Reply:
    """The same question put to several systems, one after the other."""
    replies: list[Reply] = []
    for one in question.tops():
        if replies and not watcher.go_on():
            break
        try:
            replies.append(top(one, Unranked(watcher)))
        except InputError as error:
            raise error.at(one.system_name) from None
    return swept_reply(replies, len(question.systems))


def swept_reply(replies: Sequence[Reply], of: int | None = None) -> Reply:
    """The answers of several systems as one."""
    bodies = [one.body for one in replies]
    complete = all(body["complete"] for body in bodies) and len(bodies) == (of or len(bodies))
    refuted = any(one.outcome is Outcome.NO for one in replies)
    return reply({"systems": bodies, "complete": complete}, outcome_of(complete, refuted))


def ranking_reply(question: TopQuestion, body: Json, refuted: bool) -> Reply:
    """A ranking, or stretches, as the answer to a question."""
    if not isinstance(question.bytes, tuple):
        body = body | {"explain": question.explain}
    return reply(body, outcome_of(body["complete"], refuted))


def outcome_of(complete: bool, refuted: bool) -> Outcome:
    """How a search ended: z3's no counts before what was left out."""
    if refuted:
        return Outcome.NO
    return Outcome.OK if complete else Outcome.PARTIAL


def plan(question: PlanQuestion, watcher: Watcher) -> Reply:
    """The placement on which a job's collectives are exposed for least time."""
    system = question.machine().check_even()
    found = plan_job(system, job_of(question.job), question.how(), watcher)
    refuted = any(isinstance(one.answer.verdict, Refuted) for one in found.entries)
    return reply(plan_json(found), outcome_of(found.complete, refuted))


def job(question: JobQuestion, watcher: Watcher) -> Reply:
    """A job file for ``plan``, from the shape of a transformer and how it is trained."""
    made = question.job()
    return reply(JobReply.of(made))


def costs(question: CostQuestion, watcher: Watcher) -> Reply:
    """A request on the healthy machine and on what is left of it."""
    whole = system_of(question.system)
    found = cost(whole.healthy, question.machine(), question.asked(), Unranked(watcher))
    return reply(cost_json(found), Outcome.OK if found.complete else Outcome.PARTIAL)


def _uneven(system: System, question: TopQuestion, watcher: Watcher) -> Reply:
    """The ranking of a machine that lacks devices."""
    if isinstance(question.bytes, tuple):
        raise InputError(
            "a range of sizes on a machine that lacks devices", where="--bytes", hint="give one"
        )
    if question.across:
        raise InputError(
            "--across on a machine that lacks devices", hint="its groups are explicit: leave it out"
        )
    asked = question.asked()
    request = uneven_request(asked)
    report = uneven_answers(system, asked.axes, asked.over, request, watcher)
    refuted = any(isinstance(answer.verdict, Refuted) for answer in report.answers)
    return reply(uneven_json(report), outcome_of(report.complete, refuted))


def _swept(
    system: System, question: TopQuestion, sizes: tuple[int, int], watcher: Watcher
) -> Reply:
    found = sweep(system, question.asked(), *sizes, watcher)
    refuted = any(isinstance(answer.verdict, Refuted) for _, answer in found.sizes)
    return ranking_reply(question, sweep_json(found), refuted)
