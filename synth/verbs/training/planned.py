"""The verb that plans a whole step: a model, a batch and a machine come in, plans go out."""

from __future__ import annotations

from math import gcd
from typing import Annotated, Literal

from pydantic import Field

from hierarchies import System
from synth.plan.request import Remembering, Unranked, Watcher
from synth.search.space import Budget
from synth.train.frameworks import Job as Training
from synth.train.frameworks import Machine, Model, configurations
from synth.train.models import Spelling
from synth.train.planner.finalists import Finalist
from synth.train.planner.job import Job
from synth.train.planner.pins import Pins
from synth.train.planner.planning import Planner
from synth.train.profiles import check_dtype
from synth.train.zoo.sizes import apart, sizes_of
from synth.verbs.answers.training.planned import Asked, Handed, StepPlanReply
from synth.verbs.questions import notations
from synth.verbs.questions.fields import Flag
from synth.verbs.questions.flags import Figure
from synth.verbs.questions.question import Question
from synth.verbs.reply import Outcome, Reply, searched
from synth.verbs.training.gaining import programs_of
from synth.verbs.training.machines import (
    Accelerator,
    PerhapsProfile,
    accelerator_of,
    profile_of,
)
from synth.verbs.training.simulated import products, size_of

SUBSTITUTIONS = 20
"""Plans that are tried where the first redistributes, with --rows."""


class StepPlanQuestion(Question):
    """What is asked of plans of a whole step; all of it is about a model, if there is one."""

    model: Annotated[
        str | None, Flag("A model of the zoo, as llama3-70b: plan its whole training step")
    ] = None
    batch: Annotated[Figure, Field(ge=1), Flag("Samples in a step, of all devices")] = 256
    sequence: Annotated[
        Figure | None, Field(ge=1), Flag("Tokens of a sample, if not as many as the model has")
    ] = None
    sizes: Annotated[
        dict[str, Figure],
        Field(max_length=16),
        Flag("Other sizes than it has", ", as layers=2,vocabulary=512", notation=notations.AXES),
    ] = Field(default_factory=dict)
    dtype: Annotated[
        Literal["bfloat16", "float32"],
        Flag("What it computes in: bfloat16 with parameters in float32, or float32"),
    ] = "bfloat16"
    optimizer: Annotated[Literal["adamw", "sgd"], Flag("What updates it: adamw or sgd")] = "adamw"
    device: Accelerator = None
    profile: PerhapsProfile = None
    pin: Annotated[
        str,
        Field(max_length=1024),
        Flag("What plans must have", ", as in 'tensor=8 zero=1 schedule=1f1b remat=no'"),
    ] = ""
    explain: Annotated[
        str,
        Field(max_length=1024),
        Flag("Why not? The best plan with other pins", ", as in 'tensor=4', beside the best"),
    ] = ""
    rows: Annotated[
        bool,
        Flag("Also look at the first plan operation by operation: rows chosen together"),
    ] = False

    def pins(self) -> tuple[Pins, Pins]:
        """Those of all plans, and of the one that is asked why not. Raises InputError."""
        return Pins.parse(self.pin), Pins.parse(self.explain)

    def changes(self) -> dict[str, int]:
        """Other sizes than the model has."""
        length = {} if self.sequence is None else {"sequence": self.sequence}
        return {**self.sizes, **length}

    def spelling(self) -> Spelling:
        """How the model is written down."""
        return Spelling(batch=self.batch, dtype=self.dtype, optimizer=self.optimizer)


def planned_step(
    question: StepPlanQuestion, system: System, name: str, k: int, watcher: Watcher
) -> Reply:
    """The fastest plans of a step, simulated; and the best with what was asked for beside them.

    ``name`` is what the system is called in the question.
    """
    assert question.model is not None
    device = accelerator_of(system, question.device)
    profile = profile_of(question.profile, device, system.devices)
    changes = apart(question.model, question.changes(), gcd(question.batch, system.devices))
    job = Job(question.model, changes, question.spelling(), system.check_even(), device, profile)
    flops, dtype = products(job.step)
    if profile and question.profile:
        check_dtype(profile, dtype, question.profile.name)
    planner = Planner(job)
    pins, others = question.pins()
    remembering = Remembering(watcher)
    found = planner.plans(pins, k, remembering, front=True)
    why_not = None
    if others.said and remembering.go_on():
        both = Pins({**others.said, **pins.said, **others.said})
        why_not = planner.plans(both, 1, Unranked(remembering))
    samples, tokens = size_of(job.step)
    closer = None
    if question.rows and found.finalists and remembering.go_on():
        closer = planner.finer(found.finalists[0], Budget(SUBSTITUTIONS))
    written = None
    if found.finalists:
        written = _written(planner, found.finalists[found.advised(device.memory_bytes)])
    asked = Asked(
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
        closer,
        planner.freed(pins, found),
        question.profile.name if question.profile else "",
        complete=all(one.complete for one in (found, why_not) if one) and not remembering.stopped,
    )
    answer = StepPlanReply.of(asked, found, why_not)
    return searched(answer, Outcome.OK if answer.plans else Outcome.NO)


def _written(planner: Planner, best: Finalist) -> Handed:
    """The best plan as the files of frameworks, with programs for what gains by them."""
    job = planner.job
    sizes, spelled = sizes_of(job.model, job.changes), job.spelling
    found = configurations(
        best.candidate.recipe,
        Model(job.model, sizes, job.step),
        Training(spelled.batch, getattr(sizes, "sequence", 1), spelled.dtype),
        Machine(job.system, best.placement),
    )
    programs, files = programs_of(job.system, best.placement, planner.gaining(best), found)
    return Handed({**found.files, **files}, found.refused, programs, planner.sending(best))
