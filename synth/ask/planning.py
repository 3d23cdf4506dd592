"""The verbs that plan: one collective, a range of sizes, a whole job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Self

from pydantic import Field, model_validator

from grammar import Goal
from hierarchies import MOST_AXES, InputError, System, error_context
from synth.ask.answers import judge
from synth.ask.answers.degraded import CostReply, UnevenReply
from synth.ask.answers.planning import JobReply, PlanReply, SystemsRankedReply
from synth.ask.answers.ranked import RankingReply, SweepReply
from synth.ask.questions import notations
from synth.ask.questions.collectives import Collectives, job_of_collectives
from synth.ask.questions.fields import CostLimit, File, Flag
from synth.ask.questions.flags import (
    AcrossGroups,
    Algorithm,
    Axes,
    Bytes,
    Collapse,
    Figure,
    MaxSteps,
    Measure,
    OneOrMoreBytes,
    OnePlacement,
    OptionalReducedAxes,
    ReducedAxes,
    RequestedGoal,
    Segments,
    Stripes,
)
from synth.ask.questions.named_texts import NameOrText, job_of, system_of
from synth.ask.questions.question import (
    FaultyQuestion,
    MachineQuestion,
    PricedQuestion,
    Question,
    axes_of,
    matrix_of,
    segment_counts,
)
from synth.ask.reply import Outcome, Reply, reply, reply_of_search
from synth.ask.training.planned import StepPlanQuestion, plan_step
from synth.collective.algorithms.algorithms import Choice
from synth.collective.degraded import uneven_answers
from synth.collective.degraded.comparison import compare_machines
from synth.collective.degraded.ranking import check_uneven
from synth.collective.ranking.advice import fix_placement, rank_with_advice
from synth.collective.ranking.library import Library
from synth.collective.ranking.request import QuietWatcher, Request, UnrankedWatcher, Watcher
from synth.collective.ranking.sizes import check_range, sweep
from synth.collective.semantics.programs import Language
from synth.collective.workload.files import parse_sizes
from synth.collective.workload.job import Workload
from synth.collective.workload.planner import SearchSettings, plan_job
from synth.collective.workload.shapes import StateSharding, Training, TransformerShape
from synth.collective.workload.transformer import transformer_job
from synth.search.forks import map_in_forks

MOST_SYSTEMS = 1024


class RankedQuestion(FaultyQuestion, PricedQuestion):
    """A collective over some axes, and how programs for it are looked for.

    Or several collectives: then they are a job, which needs one placement for all.
    """

    axes: Axes
    reduce: Annotated[
        OptionalReducedAxes,
        Flag(
            "Axes of the request",
            ", separated by commas. Again for each further collective of a job, "
            "with its own --bytes, --times, --hidden and --request after it",
        ),
    ] = None
    bytes: OneOrMoreBytes = 2**30
    k: Annotated[int, CostLimit.K, Flag("Number of answers", spelled="-k")] = 10
    max_steps: MaxSteps = 5
    algorithm: Algorithm = Choice.AUTO
    placement: OnePlacement = None
    per_placement: Annotated[bool, Flag("Rank programs within each placement")] = False
    across: AcrossGroups = False
    collapse: Collapse = True
    request: RequestedGoal = Goal.ALL_REDUCE
    segments: Segments = "auto"
    stripes: Stripes = True
    exact: Annotated[bool, Flag("Rank programs that tie separately")] = False
    explain: Annotated[bool, Flag("Explain every answer in words")] = False
    collectives: Collectives = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        """Refuse neither and both. Raises InputError."""
        if not self.collectives and self.reduce is None:
            hint = 'name the axes, as in ["data"], or list several collectives'
            raise InputError("nothing to reduce over is given", where="reduce", hint=hint)
        if len(self.collectives) == 1:
            hint = "give its reduce, bytes and request themselves"
            raise InputError("a list of one collective", where="collectives", hint=hint)
        for key in ("reduce", "bytes", "request") if self.collectives else ():
            if getattr(self, key) != type(self).model_fields[key].default:
                hint = f"each of them has its own {key}"
                raise InputError(f"{key} beside several collectives", where=key, hint=hint)
        return self

    def job(self) -> Workload:
        """The job that several collectives are, as a job file would say it.

        Raises InputError for what no job may be, and for what is asked of one collective only.
        """
        for flag, given in (("--per-placement", self.per_placement), ("--explain", self.explain)):
            if given:
                hint = "leave it out, or ask for one collective"
                raise InputError("several collectives share a placement", where=flag, hint=hint)
        return job_of_collectives(self.axes, self.collectives)

    def asked(self) -> Request:
        """The question as the planner's request; of a range of sizes, at its largest.

        Raises InputError for what makes no sense.
        """
        if isinstance(self.bytes, tuple):
            check_range(*self.bytes)
            if self.per_placement:
                raise InputError(
                    "a range of sizes is asked for every placement",
                    where="--per-placement",
                    hint="give one size, or one --placement",
                )
        return Request(
            axes=axes_of(self.axes),
            over=tuple(self.reduce or ()),
            payload_bytes=self.bytes if isinstance(self.bytes, int) else max(self.bytes),
            k=self.k,
            language=Language(self.max_steps, self.across, self.request),
            choice=self.algorithm,
            collapse=self.collapse,
            placement=matrix_of(self.placement) if self.placement is not None else None,
            per_placement=self.per_placement,
            segments=segment_counts(self.segments),
            stripes=self.stripes,
            exact=self.exact,
        )


class TopQuestion(RankedQuestion, MachineQuestion):
    """Rank programs for a collective, proved, fastest first; or find a placement for several."""

    def asked_of(self, system: System) -> Request:
        """The request of one collective on the placement that is kept. Raises as "
        "``fix_placement``."""
        return fix_placement(system, self.asked())

    def uneven(self) -> Request:
        """The request of one collective to a machine that lacks devices.

        Raises InputError for what is not looked for there.
        """
        if isinstance(self.bytes, tuple):
            problem = "a range of sizes on a machine that lacks devices"
            raise InputError(problem, where="--bytes", hint="give one")
        if self.across:
            problem = "--across on a machine that lacks devices"
            raise InputError(problem, hint="its groups are explicit: leave it out")
        asked = self.asked()
        check_uneven(asked)
        return asked

    @property
    def system_name(self) -> str:
        """What the system is called in the question."""
        return str(getattr(self.system, "name", self.system))


class SweepQuestion(RankedQuestion):
    """Put the question of top to several systems, and compare their best answers."""

    systems: Annotated[
        list[NameOrText],
        CostLimit.SYSTEMS,
        Flag(
            "Catalogue names, name:N or name:AxB, or files", spelled="SYSTEM...", file=File.SYSTEMS
        ),
    ] = Field(min_length=1, max_length=MOST_SYSTEMS)
    k: Annotated[int, CostLimit.K, Flag("Number of answers for each system", spelled="-k")] = 10
    explain: bool = False  # asked with ``rank_programs``, whose table has room for reasons

    def tops(self) -> list[TopQuestion]:
        """The question put to each of the systems."""
        given = {name: getattr(self, name) for name in RankedQuestion.model_fields}
        return [TopQuestion(system=system, **given) for system in self.systems]


class CostQuestion(MachineQuestion):
    """Tell what it costs that something is missing or slower, and what to do about it."""

    axes: Annotated[Axes, Flag("Axes of the whole machine", ", as in data=32")]
    reduce: ReducedAxes
    bytes: Bytes = 2**30
    max_steps: MaxSteps = 5
    algorithm: Algorithm = Choice.AUTO
    placement: OnePlacement = None
    request: RequestedGoal = Goal.ALL_REDUCE
    segments: Segments = "auto"
    stripes: Stripes = True

    def asked(self) -> Request:
        """The question as the planner's request. Raises InputError for what makes no sense."""
        shared = RankedQuestion.model_fields.keys() & type(self).model_fields
        return RankedQuestion(k=1, **{name: getattr(self, name) for name in shared}).asked()


class JobPlanQuestion(Question):
    """What is asked of the one placement for all collectives of a job, and of their programs."""

    job: Annotated[
        NameOrText | None,
        CostLimit.TEXT,
        Flag("Job file, or the name of a shipped job", file=File.JOB),
    ] = None
    max_steps: MaxSteps = 5
    algorithm: Algorithm = Choice.AUTO
    across: AcrossGroups = False
    collapse: Collapse = True
    segments: Segments = "auto"
    stripes: Stripes = True
    placement: OnePlacement = None


class PlanQuestion(MachineQuestion, StepPlanQuestion, JobPlanQuestion):
    """Plan a model's whole training step; or find the one placement for a job's collectives."""

    k: Annotated[int, CostLimit.K, Flag("Number of plans or placements to list", spelled="-k")] = 5

    @model_validator(mode="after")
    def _a_model_or_a_job(self) -> Self:
        """Refuse neither and both, and what is about the other. Raises InputError."""
        if (self.model is None) == (self.job is None):
            hint = "--model llama3-70b for a whole step, or --job FILE for its collectives alone"
            problem = "a model and a job" if self.job else "neither a model nor a job is given"
            raise InputError(problem, where="model", hint=hint)
        about, other = ("job", StepPlanQuestion) if self.job else ("model", JobPlanQuestion)
        for name, field in other.model_fields.items():
            if getattr(self, name) != field.get_default(call_default_factory=True):
                hint = f"leave it out: it says nothing of a {about}"
                raise InputError(f"{name} beside a {about}", where=name, hint=hint)
        return self


class JobQuestion(Question):
    """Derive a job file for plan: what a transformer's training step communicates."""

    axes: Annotated[
        dict[str, str | Figure],
        Field(max_length=MOST_AXES),
        Flag("Sizes", ", as in data=any,tensor=1|2|4|8,pipeline=4", notation=notations.OPEN_AXES),
    ]
    layers: Annotated[Figure, Flag("Layers of the transformer")]
    hidden: Annotated[Figure, Flag("Width of the model")]
    heads: Annotated[Figure, Flag("Attention heads")]
    vocabulary: Annotated[Figure, Flag("Size of the vocabulary")]
    sequence: Annotated[Figure, Flag("Tokens per sequence")]
    name: Annotated[str, Flag("Name of the job")] = "transformer"
    micro_batch: Annotated[Figure, Flag("Sequences per micro-batch")] = 1
    batch: Annotated[Figure | None, Flag("Sequences per step, over all devices")] = None
    micro_batches: Annotated[Figure | None, Flag("Micro-batches per step on each device")] = None
    kv_heads: Annotated[Figure, Flag("Key and value heads, if fewer")] = 0
    feed_forward: Annotated[
        Figure, Flag("Width of the feed-forward network, unless 4 x hidden")
    ] = 0
    gated: Annotated[bool, Flag("A gated network, as in Llama", also={"classic": False})] = False
    classic: bool = True
    experts: Annotated[Figure, Flag("Experts per layer")] = 0
    experts_per_token: Annotated[Figure, Flag("Experts per token")] = 2
    sharding: Annotated[
        StateSharding,
        Field(strict=False),
        Flag("none, optimizer, fsdp or hsdp"),
    ] = StateSharding.NONE
    sequence_parallel: bool = True
    recompute: Annotated[bool, Flag("Recompute activations")] = False
    memory_GB: Annotated[  # noqa: N815 - the unit
        Measure | None, Flag("GB per device for the training state", spelled="--memory")
    ] = Field(default=None, strict=False)
    most_bubble: Measure | None = Field(default=None, strict=False)

    def job(self) -> Workload:
        """The job. Raises InputError for numbers that make no transformer."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        shape = {one.name: given[one.name] for one in fields(TransformerShape) if one.name in given}
        training = {one.name: given[one.name] for one in fields(Training) if one.name in given}
        sizes = {name: parse_sizes(_parse_whole(size)) for name, size in self.axes.items()}
        return transformer_job(
            TransformerShape(**shape), Training(**training), sizes, name=self.name
        )


def search_settings(question: PlanQuestion | RankedQuestion) -> SearchSettings:
    """How programs for a job are looked for. Raises InputError for what makes no sense."""
    return SearchSettings(
        question.k,
        Language(question.max_steps, question.across),
        question.algorithm,
        question.collapse,
        segment_counts(question.segments),
        question.stripes,
        None if question.placement is None else matrix_of(question.placement),
    )


def _parse_whole(size: str | int) -> str | int:
    return int(size) if isinstance(size, str) and size.isdecimal() else size


def rank_programs(
    question: TopQuestion, watcher: Watcher, known: Callable[[Language], Library] | None = None
) -> Reply:
    """The ranked, proved programs; for a range of sizes, which is best from which size on.

    Of several collectives the one placement for all, as ``plan`` answers.
    ``known``: gives programs of a language searched before; used for questions of one size.
    """
    system = question.machine()
    if question.collectives:
        return _plan_job(system, question.job(), question, watcher)
    if system.missing:
        return _rank_uneven(system, question, watcher)
    if isinstance(question.bytes, tuple):
        request = question.asked_of(system)
        return reply_with_outcome(SweepReply.of(sweep(system, request, *question.bytes, watcher)))
    request = question.asked()
    report = rank_with_advice(system, request, watcher, known(request.language) if known else None)
    return reply_with_outcome(RankingReply.of(report, question.explain))


def sweep_systems(question: SweepQuestion, watcher: Watcher) -> Reply:
    """The same question put to several systems.

    Several at once where there may be several processes; ranges of sizes one after the other, as
    each has many sizes to be asked at once, and one system may take longer than all others.
    """
    unranked = UnrankedWatcher(watcher)

    def answered(one: TopQuestion) -> Reply:
        with error_context(one.system_name):
            return rank_programs(one, unranked)

    at_once = watcher if isinstance(question.bytes, int) else QuietWatcher(watcher, processes=1)
    replies = map_in_forks(answered, question.tops(), at_once)
    systems = [judge("top").validate_python(one.body) for one in replies]
    complete = all(one.complete for one in systems) and len(systems) == len(question.systems)
    return reply_with_outcome(SystemsRankedReply.like(systems=systems, complete=complete))


def reply_with_outcome(
    found: RankingReply | SweepReply | UnevenReply | PlanReply | SystemsRankedReply,
) -> Reply:
    """A reply with its outcome: PARTIAL if work was left out, else NO if z3 refutes any answer."""
    others = found.elsewhere if isinstance(found, RankingReply) else []
    answers = (*found.answers, *(one.answer for one in others))
    refuted = any(one.proof == "refuted" for one in answers)
    return reply_of_search(found, Outcome.NO if refuted else Outcome.OK)


def plan(question: PlanQuestion, watcher: Watcher) -> Reply:
    """Plans of a model's step; or the placement on which a job's collectives expose least."""
    if question.job is None:
        name = str(getattr(question.system, "name", question.system))
        return plan_step(question, question.machine(), name, question.k, watcher)
    return _plan_job(question.machine(), job_of(question.job), question, watcher)


def _plan_job(
    system: System, job: Workload, question: PlanQuestion | TopQuestion, watcher: Watcher
) -> Reply:
    return reply_with_outcome(
        PlanReply.of(plan_job(system.check_even(), job, search_settings(question), watcher))
    )


def derive_job(question: JobQuestion, watcher: Watcher) -> Reply:
    """A job file for ``plan``, from the shape of a transformer and how it is trained."""
    return reply(JobReply.of(question.job()))


def price_faults(question: CostQuestion, watcher: Watcher) -> Reply:
    """A request on the healthy machine and on what is left of it."""
    whole = question.priced(system_of(question.system))
    found = compare_machines(
        whole.healthy, question.machine(), question.asked(), UnrankedWatcher(watcher)
    )
    return reply_of_search(CostReply.of(found))


def _rank_uneven(system: System, question: TopQuestion, watcher: Watcher) -> Reply:
    """The ranking of a machine that lacks devices."""
    report = uneven_answers(system, question.uneven(), watcher)
    return reply_with_outcome(UnevenReply.of(report))
