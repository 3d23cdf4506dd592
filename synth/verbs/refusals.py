"""What can be said against a question at once: before a job is made of it, and without a search.

All of it the verb itself would say, but only when its turn has come.
"""

from __future__ import annotations

from hierarchies import Axis, Reduction, System, placements
from synth.verbs.machines import PlaceQuestion
from synth.verbs.outputs import HandOutQuestion
from synth.verbs.planning import CostQuestion, PlanQuestion, SweepQuestion, TopQuestion
from synth.verbs.programs import CheckQuestion, LowerQuestion
from synth.verbs.questions.named_texts import job_of, system_of
from synth.verbs.questions.question import Question, axes_of
from synth.verbs.training.machines import StepOnMachineQuestion
from synth.verbs.training.plans import check_axes
from synth.workload.assignments import assignments
from synth.workload.job import Job


def check(question: Question) -> None:
    """Raises InputError for axes that do not fit the machine, and for what is not among them."""
    match question:
        case SweepQuestion():
            for one in question.tops():
                check(one)
        case TopQuestion() if question.collectives:
            _check_job(question.machine(), question.job())
        case TopQuestion():
            request, system = question.asked(), question.machine()
            if not system.missing:
                _check_reduction(system, request.axes, request.over)
        case CostQuestion():
            request = question.asked()
            _check_reduction(system_of(question.system), request.axes, request.over)
        case PlanQuestion():
            _check_plan(question)
        case _:
            _check_one_placement(question)


def _check_one_placement(question: Question) -> None:
    match question:
        case PlaceQuestion():
            _check_reduction(system_of(question.system), axes_of(question.axes), ())
        case LowerQuestion():
            question.reduction(system_of(question.system))
        case CheckQuestion():
            question.reduction()
        case HandOutQuestion() if question.answer is None:
            question.chosen()
        case StepOnMachineQuestion() if question.plan is not None:
            recipe = question.recipe()
            if recipe is not None:
                check_axes(dict(recipe.axes))
                question.placed(dict(recipe.axes))


def _check_reduction(system: System, axes: tuple[Axis, ...], over: tuple[str, ...]) -> None:
    first = next(placements(system.hierarchy, axes))
    if over:
        Reduction(first, over)


def _check_plan(question: PlanQuestion) -> None:
    if question.job is None:
        question.pins()
    else:
        _check_job(question.machine(), job_of(question.job))


def _check_job(system: System, job: Job) -> None:
    assignments(job, system.check_even().devices)
