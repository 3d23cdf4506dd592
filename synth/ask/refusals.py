"""What can be said against a question at once: before a job is made of it, and without a search.

All of it the verb itself would say, but only when its turn has come.
"""

from __future__ import annotations

from grammar import Goal, canonicalize, instructions, parse
from hierarchies import Placement, Reduction, System, Tree, error_context, placements
from hierarchies.importers import KINDS, check_beginnings
from synth.ask.answers.given import EarlierAnswer
from synth.ask.comparing import DiffQuestion, read_kept_answers
from synth.ask.export import derive_text
from synth.ask.importing import ImportQuestion
from synth.ask.machines import CountQuestion, GraphQuestion, PlaceQuestion, SystemsQuestion
from synth.ask.measured import CalibrateQuestion, LogsQuestion
from synth.ask.outputs import ALL, EmitInputQuestion, EmitQuestion, RunQuestion, emit_program
from synth.ask.planning import (
    CostQuestion,
    JobQuestion,
    PlanQuestion,
    SweepQuestion,
    TopQuestion,
    search_settings,
)
from synth.ask.programs import CheckQuestion, LowerQuestion, TimeQuestion
from synth.ask.questions.named_texts import job_of, system_of
from synth.ask.questions.question import Question, axes_of, matrix_of
from synth.ask.training.orders import OrderQuestion
from synth.ask.training.refusals import check_plans, check_training
from synth.ask.training.traces import ModelQuestion
from synth.collective.degraded import Survivors
from synth.collective.degraded.comparison import fit_request
from synth.collective.degraded.ranking import only_axis
from synth.collective.emit import target_of
from synth.collective.ranking.advice import fix_placement
from synth.collective.ranking.request import Request, Watcher
from synth.collective.run import check_trial
from synth.collective.semantics.programs import Language
from synth.collective.semantics.truth_tables import check_depth
from synth.collective.workload.assignments import assignments
from synth.collective.workload.job import Workload
from synth.collective.workload.planner import settle_on_placement

_MOST_READ = 2**18
"""Longer texts, in characters, are read by the worker alone."""
_MOST_WRITTEN = 64
_MOST_STRIPES = 4
"""For more devices, or in more segments or stripes, a program is written for its target by the
worker alone: up to these it takes 0.2 s.
"""
_MOST_DIGITS = 6
"""Of larger trees states are more than some KiB, and programs are derived by the worker alone."""


def check(question: Question) -> None:
    """Raises InputError for what the verb would refuse before it begins to search."""
    match question:
        case SweepQuestion():
            for one in question.tops():
                with error_context(one.system_name):
                    check(one)
        case TopQuestion():
            _check_top(question)
        case CostQuestion():
            whole = question.priced(system_of(question.system)).healthy
            request = question.asked()
            _check_request(whole, request)
            fit_request(whole, question.machine(), request)
        case PlanQuestion() if question.job is None:
            check_plans(question, question.machine())
        case PlanQuestion():
            assert question.job is not None
            _check_job(question, job_of(question.job))
        case JobQuestion():
            question.job()
        case ModelQuestion():
            check_training(question)
        case OrderQuestion():
            question.check()
        case _:
            _check_program(question)


def _check_program(question: Question) -> None:
    match question:
        case CheckQuestion():
            found = question.reduction()
            tree = found if isinstance(found, Tree) else found.tree
            check_depth(len(tree.digits))
            instructions(canonicalize(parse(question.program), tree), tree, question.request)
        case LowerQuestion():
            system = system_of(question.system)
            if isinstance(question, TimeQuestion):
                system = question.changed(system)
            _check_derived(question.program, question.reduction(system), question.request)
        case EmitInputQuestion():
            _check_emit_input(question)
        case _:
            _check_machine(question)


def _check_machine(question: Question) -> None:
    match question:
        case SystemsQuestion() | GraphQuestion() if question.system is not None:
            question.changed(system_of(question.system))
        case PlaceQuestion():
            system = system_of(question.system).check_even()
            _check_placement(system, question.axes, question.placement)
        case CountQuestion():
            Language(question.max_steps, question.across, question.request)
        case _:
            _check_files(question)


def _check_files(question: Question) -> None:
    match question:
        case ImportQuestion():
            texts = question.texts()
            if question.kind not in KINDS or _is_short(*texts.values()):
                question.draft()
            else:
                check_beginnings(question.kind, texts)
        case CalibrateQuestion() if question.plan:
            question.check_alone()
            question.tests(system_of(question.system))
        case LogsQuestion():
            if _is_short(*(file.text for file in question.files)):
                question.matched(system_of(question.system))
            else:
                question.check_logs()
        case DiffQuestion():
            read_kept_answers(question)


def _is_short(*texts: str) -> bool:
    return sum(map(len, texts)) <= _MOST_READ


def _check_top(question: TopQuestion) -> None:
    system = question.machine()
    if question.collectives:
        _check_job(question, question.job())
    elif system.missing:
        asked = question.uneven()
        only_axis(asked.axes, asked.over, Survivors(system))
    else:
        request = question.asked()
        _check_request(system, request)
        fix_placement(system, request)


def _check_request(system: System, request: Request) -> None:
    if request.placement is not None:
        first = Placement(system.hierarchy, request.axes, request.placement)
    else:
        first = next(placements(system.hierarchy, request.axes))
    Reduction(first, request.over, request.collapse)


def _check_placement(system: System, axes: dict[str, int], matrix: list[list[int]] | None) -> None:
    named = axes_of(axes)
    next(placements(system.hierarchy, named))
    if matrix is not None:
        Placement(system.hierarchy, named, matrix_of(matrix))


def _check_job(question: PlanQuestion | TopQuestion, job: Workload) -> None:
    system, placement = question.machine().check_even(), search_settings(question).placement
    if placement is None:
        assignments(job, system.devices)
    else:
        settle_on_placement(system, job, placement)


def _check_emit_input(question: EmitInputQuestion) -> None:
    if isinstance(question, EmitQuestion):
        target_of(question.target)
    if question.groups() is not None:
        return
    if question.entry == ALL and isinstance(question, EmitQuestion):
        question.planned()
        return
    chosen = question.chosen()
    if isinstance(question, EmitQuestion) and _is_quickly_written(chosen):
        emit_program(question, Watcher())
        return
    for one in chosen.slices:
        _check_derived(one.program, chosen.reduction, chosen.goal)
    if isinstance(question, RunQuestion):
        devices = chosen.system.devices
        check_trial(question.backend, devices, question.trial(chosen.payload_bytes))


def _is_quickly_written(chosen: EarlierAnswer) -> bool:
    """Whether to write a program for a target takes no longer than to look at it."""
    segments = sum(one.segments for one in chosen.beside) or chosen.segments
    few = max(chosen.system.devices, segments) <= _MOST_WRITTEN
    return few and len(chosen.beside) <= _MOST_STRIPES


def _check_derived(program: str, reduction: Reduction, goal: Goal) -> None:
    """Raises InputError for a text that is no program; on a small tree, too, for a wrong one."""
    if len(reduction.tree.digits) <= _MOST_DIGITS:
        derive_text(program, reduction, goal)
    else:
        check_depth(len(reduction.tree.digits))
        canonicalize(parse(program), reduction.tree)
