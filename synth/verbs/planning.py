"""The verbs that plan: one collective, a range of sizes, a whole job."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated

from pydantic import Field

from grammar import Goal
from hierarchies import (
    MOST_AXES,
    InputError,
    System,
)
from synth.algorithms import Choice
from synth.bodies import (
    plan_json,
    ranking_json,
    sweep_json,
)
from synth.costing import cost, uneven_request
from synth.job import Job
from synth.job_files import sizes_of, write
from synth.jobplan import How, plan_job
from synth.models import transformer_job
from synth.plan import answers
from synth.programs import Language
from synth.proof import Refuted
from synth.request import Request, Watcher
from synth.shapes import Shape, Sharding, Training
from synth.sweep import sweep
from synth.uneven import uneven_answers
from synth.uneven_bodies import cost_json, uneven_json
from synth.verbs.asking import (
    Axes,
    Bytes,
    MachineQuestion,
    Matrix,
    Names,
    OneOrMoreBytes,
    Question,
    Segments,
    axes_of,
    matrix_of,
    segment_counts,
)
from synth.verbs.reply import Outcome, Reply, reply
from synth.verbs.texts import Given, job_of, system_of


class TopQuestion(MachineQuestion):
    """The best placements and programs for a collective over some axes."""

    axes: Axes
    reduce: Names
    bytes: OneOrMoreBytes = 2**30
    k: int = 10
    max_steps: int = 5
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


class CostQuestion(MachineQuestion):
    """What it costs that something is missing or slower; axes are those of the whole machine."""

    axes: Axes
    reduce: Names
    bytes: Bytes = 2**30
    max_steps: int = 5
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

    job: Given
    k: int = 5
    max_steps: int = 5
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

    axes: Annotated[dict[str, str | int], Field(max_length=MOST_AXES)]
    name: str = "transformer"
    layers: int
    hidden: int
    heads: int
    vocabulary: int
    kv_heads: int = 0
    feed_forward: int = 0
    gated: bool = False
    classic: bool = True
    experts: int = 0
    experts_per_token: int = 2
    sequence: int
    micro_batch: int = 1
    batch: int | None = None
    micro_batches: int | None = None
    sharding: Sharding = Field(default=Sharding.NONE, strict=False)
    sequence_parallel: bool = True
    recompute: bool = False
    memory_GB: float | None = Field(default=None, strict=False)  # noqa: N815 - the unit
    most_bubble: float | None = Field(default=None, strict=False)

    def job(self) -> Job:
        """The job. Raises InputError for numbers that make no transformer."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        shape = {one.name: given[one.name] for one in fields(Shape) if one.name in given}
        training = {one.name: given[one.name] for one in fields(Training) if one.name in given}
        sizes = {name: sizes_of(_whole(size)) for name, size in self.axes.items()}
        return transformer_job(Shape(**shape), Training(**training), sizes, name=self.name)


def _whole(size: str | int) -> str | int:
    return int(size) if isinstance(size, str) and size.isdecimal() else size


def top(question: TopQuestion, watcher: Watcher) -> Reply:
    """The ranked, proved programs; for a range of sizes, which is best from which size on."""
    system = question.machine()
    if system.missing:
        return _uneven(system, question, watcher)
    if isinstance(question.bytes, tuple):
        return _swept(system, question.asked(), question.bytes, watcher)
    report = answers(system, question.asked(), watcher)
    outcome = Outcome.OK if report.complete else Outcome.PARTIAL
    if any(isinstance(answer.verdict, Refuted) for answer in report.answers):
        outcome = Outcome.NO
    return reply(ranking_json(report) | {"explain": question.explain}, outcome)


def plan(question: PlanQuestion, watcher: Watcher) -> Reply:
    """The placement on which a job's collectives are exposed for least time."""
    system = question.machine().check_even()
    found = plan_job(system, job_of(question.job), question.how(), watcher)
    outcome = Outcome.OK if found.complete else Outcome.PARTIAL
    if any(isinstance(one.answer.verdict, Refuted) for one in found.entries):
        outcome = Outcome.NO
    return reply(plan_json(found), outcome)


def job(question: JobQuestion, watcher: Watcher) -> Reply:
    """A job file for ``plan``, from the shape of a transformer and how it is trained."""
    made = question.job()
    return reply({"job": made.name, "files": [{"name": "job.toml", "text": write(made)}]})


def costs(question: CostQuestion, watcher: Watcher) -> Reply:
    """A request on the healthy machine and on what is left of it."""
    whole = system_of(question.system)
    found = cost(whole.healthy, question.machine(), question.asked(), watcher)
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
    outcome = Outcome.OK if report.complete else Outcome.PARTIAL
    return reply(uneven_json(report), Outcome.NO if refuted else outcome)


def _swept(system: System, request: Request, sizes: tuple[int, int], watcher: Watcher) -> Reply:
    found = sweep(system, request, *sizes, watcher)
    verdicts = [answer.verdict for _, answer in found.sizes]
    outcome = Outcome.OK if found.complete else Outcome.PARTIAL
    if any(isinstance(verdict, Refuted) for verdict in verdicts):
        outcome = Outcome.NO
    return reply(sweep_json(found), outcome)
