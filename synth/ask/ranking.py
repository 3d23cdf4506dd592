"""The verbs that rank programs: of a collective or of several, on machines and with faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Self

from pydantic import Field, TypeAdapter, model_validator

from grammar import Goal
from hierarchies import (
    InputError,
    Placement,
    Reduction,
    System,
    error_context,
    placements,
)
from synth.ask.answers.degraded import CostReply, UnevenReply
from synth.ask.answers.planning import PlanReply, SystemsRankedReply, TopReply
from synth.ask.answers.ranked import RankingReply, SweepReply
from synth.ask.questions.collectives import Collectives, job_of_collectives
from synth.ask.questions.fields import CostLimit, File, Flag
from synth.ask.questions.flags import (
    AcrossGroups,
    Algorithm,
    Axes,
    Bytes,
    Collapse,
    MaxSteps,
    OneOrMoreBytes,
    OnePlacement,
    OptionalReducedAxes,
    ReducedAxes,
    RequestedGoal,
    Segments,
    Stripes,
)
from synth.ask.questions.named_texts import NameOrText, system_of
from synth.ask.questions.question import (
    FaultyQuestion,
    MachineQuestion,
    PricedQuestion,
    Question,
    axes_of,
    matrix_of,
    segment_counts,
)
from synth.ask.reply import Outcome, Reply, reply_of_search
from synth.collective.algorithms.algorithms import Choice
from synth.collective.degraded import Survivors, uneven_answers
from synth.collective.degraded.comparison import compare_machines, fit_request
from synth.collective.degraded.ranking import check_uneven, only_axis
from synth.collective.ranking.advice import fix_placement, rank_with_advice
from synth.collective.ranking.library import Library
from synth.collective.ranking.request import QuietWatcher, Request, UnrankedWatcher, Watcher
from synth.collective.ranking.sizes import check_range, sweep
from synth.collective.semantics.programs import Language
from synth.collective.workload.assignments import assignments
from synth.collective.workload.job import Workload
from synth.collective.workload.planner import SearchSettings, plan_job, settle_on_placement
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
        return self.fill(
            Request,
            axes=axes_of(self.axes),
            over=tuple(self.reduce or ()),
            payload_bytes=self.bytes if isinstance(self.bytes, int) else max(self.bytes),
            language=Language(self.max_steps, self.across, self.request),
            choice=self.algorithm,
            placement=matrix_of(self.placement) if self.placement is not None else None,
            segments=segment_counts(self.segments),
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

    def check_early(self) -> None:
        system = self.machine()
        if self.collectives:
            check_job(system, self.job(), search_settings(self))
        elif system.missing:
            asked = self.uneven()
            only_axis(asked.axes, asked.over, Survivors(system))
        else:
            request = self.asked()
            _check_request(system, request)
            fix_placement(system, request)

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

    def check_early(self) -> None:
        for question in self.tops():
            with error_context(question.system_name):
                question.check_early()


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

    def check_early(self) -> None:
        whole, request = self.priced(system_of(self.system)).healthy, self.asked()
        _check_request(whole, request)
        fit_request(whole, self.machine(), request)


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


def _check_request(system: System, request: Request) -> None:
    """Raises InputError for axes or a placement that the system has not."""
    if request.placement is not None:
        first = Placement(system.hierarchy, request.axes, request.placement)
    else:
        first = next(placements(system.hierarchy, request.axes))
    Reduction(first, request.over, request.collapse)


def check_job(system: System, job: Workload, settings: SearchSettings) -> None:
    """Raises InputError for a job that no placement fits."""
    even = system.check_even()
    if settings.placement is None:
        assignments(job, even.devices)
    else:
        settle_on_placement(even, job, settings.placement)


def search_settings(question: JobPlanQuestion | RankedQuestion) -> SearchSettings:
    """Returns the settings of the search for a job's programs. Raises InputError for bad ones."""
    return question.fill(
        SearchSettings,
        language=Language(question.max_steps, question.across),
        choice=question.algorithm,
        segments=segment_counts(question.segments),
        placement=None if question.placement is None else matrix_of(question.placement),
    )


def rank_programs(
    question: TopQuestion, watcher: Watcher, known: Callable[[Language], Library] | None = None
) -> Reply:
    """The ranked, proved programs; for a range of sizes, which is best from which size on.

    Of several collectives the one placement for all, as ``plan`` answers.
    ``known``: gives programs of a language searched before; used for questions of one size.
    """
    system = question.machine()
    if question.collectives:
        return answer_job(system, question.job(), search_settings(question), watcher)
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

    def answered(top: TopQuestion) -> Reply:
        with error_context(top.system_name):
            return rank_programs(top, unranked)

    at_once = watcher if isinstance(question.bytes, int) else QuietWatcher(watcher, processes=1)
    replies = map_in_forks(answered, question.tops(), at_once)
    model: TypeAdapter[Any] = TypeAdapter(TopReply)
    systems = [model.validate_python(found.body) for found in replies]
    complete = all(system.complete for system in systems) and len(systems) == len(question.systems)
    return reply_with_outcome(SystemsRankedReply.like(systems=systems, complete=complete))


def reply_with_outcome(
    found: RankingReply | SweepReply | UnevenReply | PlanReply | SystemsRankedReply,
) -> Reply:
    """Returns a reply with its outcome: PARTIAL if incomplete, else NO if z3 refutes an answer."""
    others = found.elsewhere if isinstance(found, RankingReply) else []
    answers = (*found.answers, *(placement.answer for placement in others))
    refuted = any(answer.proof == "refuted" for answer in answers)
    return reply_of_search(found, Outcome.NO if refuted else Outcome.OK)


def answer_job(system: System, job: Workload, settings: SearchSettings, watcher: Watcher) -> Reply:
    """Returns the one placement for all collectives of a job, with their programs."""
    return reply_with_outcome(PlanReply.of(plan_job(system.check_even(), job, settings, watcher)))


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
