"""The verb ``plan``: a model's whole training step, or the one placement for a job."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Discriminator, Tag, model_validator

from hierarchies import InputError
from synth.ask.answers.parts import discriminate_by
from synth.ask.answers.planning import PlanReply
from synth.ask.answers.training.planned import StepPlanReply
from synth.ask.answers.training.swept import PlanSweepReply
from synth.ask.questions.fields import CostLimit, Flag
from synth.ask.questions.named_texts import job_of
from synth.ask.questions.question import MachineQuestion
from synth.ask.ranking import JobPlanQuestion, answer_job, check_job, search_settings
from synth.ask.reply import Reply
from synth.ask.training.planned import StepPlanQuestion, plan_step
from synth.ask.training.swept import sweep_plans
from synth.collective.ranking.request import Watcher

PlanAnswer = Annotated[
    Annotated[PlanReply, Tag("")]
    | Annotated[StepPlanReply, Tag("plans")]
    | Annotated[PlanSweepReply, Tag("swept")],
    Discriminator(discriminate_by("plans", "swept")),
]


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

    def check_early(self) -> None:
        if self.job is None:
            self.check_plans(self.machine())
        else:
            check_job(self.machine(), job_of(self.job), search_settings(self))


def plan(question: PlanQuestion, watcher: Watcher) -> Reply:
    """Plans of a model's step; or the placement on which a job's collectives expose least.

    Of swept values, the advised plan of each combination.
    """
    if question.sweep:
        return sweep_plans(question, plan, watcher)
    if question.job is None:
        name = str(getattr(question.system, "name", question.system))
        return plan_step(question, question.machine(), name, question.k, watcher)
    settings = search_settings(question)
    return answer_job(question.machine(), job_of(question.job), settings, watcher)
