"""The verb that plans a whole step: a model, a batch and a machine come in, plans go out."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Annotated, Literal

from pydantic import Field

from hierarchies import InputError, System
from synth.ask.answers.training.planned import PlanContext, PlanOutputs, StepPlanReply
from synth.ask.answers.training.plans import ROWS
from synth.ask.questions import notations
from synth.ask.questions.fields import Flag
from synth.ask.questions.flags import Figure
from synth.ask.questions.question import Question
from synth.ask.reply import Outcome, Reply, reply_of_search
from synth.ask.training.gaining import programs_of
from synth.ask.training.machines import (
    Accelerator,
    PerhapsProfile,
    accelerator_of,
    profile_of,
)
from synth.ask.training.simulated import products, size_of
from synth.collective.emit import Files
from synth.collective.ranking.request import StoppableWatcher, UnrankedWatcher, Watcher
from synth.step.frameworks import ModelSpec, PlacedSystem, write_configurations
from synth.step.frameworks import TrainingSpec as Training
from synth.step.models import ModelSettings
from synth.step.profiles import check_dtype
from synth.step.search.explaining import list_savings
from synth.step.search.finalists import Finalist
from synth.step.search.job import PlanningProblem
from synth.step.search.pins import Pins
from synth.step.search.planning import Planner
from synth.step.sharding import plan_text
from synth.step.zoo.sizes import apart, sizes_of


class StepPlanQuestion(Question):
    """What is asked of plans of a whole step; all of it is about a model, if there is one."""

    model: Annotated[
        str | None, Flag("A model of the zoo, as llama3-70b: plan its whole training step")
    ] = None
    batch: Annotated[Figure, Field(ge=1), Flag("Samples per step, over all devices")] = 256
    sequence: Annotated[
        Figure | None, Field(ge=1), Flag("Tokens per sample, unless the model's")
    ] = None
    sizes: Annotated[
        dict[str, Figure],
        Field(max_length=16),
        Flag(
            "Sizes that differ from the model's",
            ", as layers=2,vocabulary=512",
            notation=notations.AXES,
        ),
    ] = Field(default_factory=dict)
    dtype: Annotated[
        Literal["bfloat16", "float32"],
        Flag("Data type of compute: bfloat16 with float32 parameters, or float32"),
    ] = "bfloat16"
    optimizer: Annotated[Literal["adamw", "sgd"], Flag("Optimizer: adamw or sgd")] = "adamw"
    device: Accelerator = None
    profile: PerhapsProfile = None
    pin: Annotated[
        str,
        Field(max_length=1024),
        Flag("Pinned decisions of plans", ", as in 'tensor=8 zero=1 schedule=1f1b remat=no'"),
    ] = ""
    explain: Annotated[
        str,
        Field(max_length=1024),
        Flag("Why not? The best plan with other pins", ", as in 'tensor=4', beside the best"),
    ] = ""

    def pins(self) -> tuple[Pins, Pins]:
        """Those of all plans, and of the one that is asked why not. Raises InputError."""
        return Pins.parse(self.pin), Pins.parse(self.explain)

    def changes(self) -> dict[str, int]:
        """Other sizes than the model has."""
        length = {} if self.sequence is None else {"sequence": self.sequence}
        return {**self.sizes, **length}

    def spelling(self) -> ModelSettings:
        """How the model is written down."""
        return ModelSettings(batch=self.batch, dtype=self.dtype, optimizer=self.optimizer)


def plan_step(
    question: StepPlanQuestion, system: System, name: str, k: int, watcher: Watcher
) -> Reply:
    """The fastest plans of a step, simulated; and the best with what was asked for beside them.

    ``name`` is what the system is called in the question.
    """
    assert question.model is not None
    device = accelerator_of(system, question.device)
    profile = profile_of(question.profile, device, system.devices)
    changes = apart(question.model, question.changes(), gcd(question.batch, system.devices))
    job = PlanningProblem(
        question.model, changes, question.spelling(), system.check_even(), device, profile
    )
    flops, dtype = products(job.step)
    if profile and question.profile:
        check_dtype(profile, dtype, question.profile.name)
    planner = Planner(job)
    pins, others = question.pins()
    remembering = StoppableWatcher(watcher)
    found = planner.plans(pins, k, remembering, front=True)
    why_not = None
    if others.said and remembering.go_on():
        both = Pins({**others.said, **pins.said, **others.said})
        why_not = planner.plans(both, 1, UnrankedWatcher(remembering))
    samples, tokens = size_of(job.step)
    written = None
    if found.finalists:
        advised = found.finalists[found.advised(device.memory_bytes)]
        written = _write_outputs(planner, advised, _write_rows(planner, found.finalists))
    asked = PlanContext(
        job,
        name,
        flops,
        dtype,
        samples,
        tokens,
        str(pins),
        str(others),
        written,
        planner.gaining,
        list_savings(job, planner.composer, pins, found),
        question.profile.name if question.profile else "",
        complete=all(one.complete for one in (found, why_not) if one) and not remembering.stopped,
    )
    answer = StepPlanReply.of(asked, found, why_not)
    return reply_of_search(answer, Outcome.OK if answer.plans else Outcome.NO)


def _write_rows(planner: Planner, finalists: Sequence[Finalist]) -> Files:
    """The file of the plan that was chosen operation by operation, if there is one."""
    texts = [plan_text(planner.job.step, one.plan) for one in finalists if one.rows]
    return {ROWS: texts[0]} if texts else {}


def _write_outputs(planner: Planner, best: Finalist, rows: Files) -> PlanOutputs:
    """The best plan as the files of frameworks, with programs for what gains by them."""
    job, sent = planner.job, planner.sending(best)
    if best.rows:
        refused = {"frameworks": InputError("they take recipes", hint="pin zero=0 to have one")}
        return PlanOutputs(rows, refused, [], sent)
    sizes, spelled = sizes_of(job.model, job.changes), job.spelling
    found = write_configurations(
        best.candidate.recipe,
        ModelSpec(job.model, sizes, job.step),
        Training(spelled.batch, getattr(sizes, "sequence", 1), spelled.dtype),
        PlacedSystem(job.system, best.placement),
    )
    programs, files = programs_of(job.system, best.placement, planner.gaining(best), found)
    return PlanOutputs({**found.files, **files, **rows}, found.refused, programs, sent)
