"""The verb that writes a training step sharded by a plan as a file, and tries it in processes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from math import isfinite
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import Discriminator, Field, Tag

from grammar.tensors.operations import ShardedStep, Step
from hierarchies import InputError
from synth.ask.answers.parts import (
    AnswerPart,
    Axes,
    Matrix,
    Number,
    Positive,
    ReplyModel,
    TextFile,
    discriminate_by,
)
from synth.ask.questions.fields import CostLimit, Flag
from synth.ask.questions.flags import Measure, OptionalMachine
from synth.ask.questions.named_texts import NamedText
from synth.ask.reply import Outcome, Reply, reply
from synth.ask.training.configured import (
    ConfiguredReply,
    Framework,
    check_configured,
    check_model_and_machine,
    configure_framework,
)
from synth.ask.training.machines import StepOnMachineQuestion
from synth.ask.training.plans import StepWithPlan
from synth.ask.training.redistributions import (
    MemoryByRole,
    Redistributions,
    memory_by_role,
    redistributions_of,
)
from synth.collective.ranking.request import Watcher
from synth.step.emit import Programs, add_statement, programs_for, write
from synth.step.models import own_function
from synth.step.sharding import (
    Plan,
)
from synth.step.trials import (
    SingleDeviceRun,
    StepDifference,
    TrialSettings,
    Values,
    check,
    compare_runs,
    draw_inputs,
    run_in_jax,
    run_own_function,
    run_text,
    split_stacks,
)
from synth.step.trials import run_trial as trained_in

MODEL_CLASSES = 8
"""Classes and tokens in the batches of a trial: models of the zoo have at least as many."""
_RUNTIMES = ("jax", "torch")
"""The runtimes that the whole step is written for."""

TEXT_CLASSES = 2
"""Of a step of which only the text is known."""


class TrainQuestion(StepOnMachineQuestion):
    """Cut a training step by a plan, as a file for JAX or PyTorch; --check trains with it here."""

    system: Annotated[
        OptionalMachine,
        Flag("System to run on", ": it has as many devices as the axes multiply to"),
    ] = None
    runtime: Annotated[
        Literal["jax", "torch"] | Framework,
        Flag(
            "What the file is for: jax or torch",
            f"; or {', '.join(get_args(Framework))}: configurations of frameworks with models of"
            " their own, for SYSTEM",
        ),
    ] = "jax"
    overlap: Annotated[
        Literal["none", "gradients"],
        Flag(
            "What the file sends beside compute: none; gradients: what a step makes, as soon as it"
            " is made (torch; XLA orders what it sends itself)"
        ),
    ] = "none"
    check: Annotated[
        bool,
        CostLimit.HERE,
        Flag("Train some steps in local processes and compare with one device"),
    ] = False
    backend: Annotated[Literal["gloo"], Flag("Backend of communication: gloo")] = "gloo"
    steps: Annotated[int, Field(ge=1, le=100), Flag("Number of steps to compare")] = 3
    processes: Annotated[
        int | None,
        Field(ge=1, le=64),
        Flag(
            "Number of processes",
            ": one for each device; of jax also fewer, with several each, and one for stages",
        ),
    ] = None
    timeout_seconds: Annotated[Measure, Flag("Timeout in seconds", spelled="--timeout")] = Field(
        default=120.0, gt=0, strict=False
    )

    def check_runtime(self) -> None:
        """Raises InputError for what is said of a step written out beside a framework's own.

        And where what is made cannot be sent beside compute.
        """
        if self.runtime in _RUNTIMES:
            self.overlaps()
            return
        check_model_and_machine(self)
        mine = set(TrainQuestion.model_fields) - set(StepOnMachineQuestion.model_fields)
        for name in sorted(mine - {"runtime"}):
            if getattr(self, name) != TrainQuestion.model_fields[name].default:
                problem = f"{name} beside --runtime {self.runtime}"
                raise InputError(problem, where=name, hint="leave it out: the framework does it")

    def check_step(self, step: Step | ShardedStep | None) -> None:
        self.check_runtime()
        if self.runtime in _RUNTIMES:
            super().check_step(step)
        else:
            self.check_recipe()
            check_configured(self, self.runtime)

    def overlaps(self) -> bool:
        """Whether what is made is sent beside compute. Raises InputError where it cannot be."""
        if self.overlap == "none":
            return False
        if self.runtime == "jax":
            hint = "leave it out, or ask for --runtime torch"
            problem = "jax is told no order of what is sent: XLA finds one"
            raise InputError(problem, where="--overlap", hint=hint)
        if self.system is not None:
            hint = "leave it out, or SYSTEM"
            raise InputError("programs for a machine are waited for", where="--overlap", hint=hint)
        return True


_Files = Annotated[list[TextFile], Field(min_length=1)]
_Loss = Annotated[float | None, Field(allow_inf_nan=False)]
_Deviation = Annotated[Number | None, Field(description="Null if a value is not a number.")]


class StepRow(AnswerPart):
    """One step on one device and on many."""

    loss_alone: _Loss = Field(description="Loss on one device; null if there is none.")
    loss_sharded: _Loss = Field(description="On all of them.")
    difference: _Deviation = Field(
        description="The largest difference of a parameter, relative to the largest "
        "element of its array."
    )
    rounding: _Deviation = Field(
        description="The same for the step on one device against itself in higher precision."
    )

    @classmethod
    def of(cls, row: StepDifference) -> Self:
        numbers = {name: getattr(row, name) for name in cls.model_fields}
        return cls(
            **{
                name: None if number is None or not isfinite(number) else number
                for name, number in numbers.items()
            }
        )


class TrialReport(AnswerPart):
    """Steps that were trained in processes, beside those of one."""

    alone: str = Field(min_length=1, description="Reference of the comparison.")
    processes: Positive = Field(description="Number of them.")
    steps: list[StepRow] = Field(min_length=1, description="Each of them.")
    equal: bool = Field(description="Whether rounding explains all differences.")
    unlike: list[str] = Field(description="Arrays with larger differences, the largest first.")


class TrainReply(ReplyModel):
    """A training step cut by a plan."""

    name: str = Field(description="Name of the step.")
    plan: str = Field(description="The plan.")
    axes: Axes = Field(description="The axes and their sizes.")
    devices: Positive = Field(description="The product of the axes.")
    runtime: Literal["jax", "torch"] = Field(description="Runtime of the file.")
    held: MemoryByRole = Field(description="Bytes that one device holds.")
    redistributions: list[Redistributions] = Field(description="Largest first.")
    placement: Matrix | None = Field(
        description="Placement: a row for each axis, a column for each level; null "
        "without a machine."
    )
    ranks_by_axes: bool = Field(
        description="Whether a launcher must be told that ranks count along the axes."
    )
    programs: dict[str, str] = Field(
        description="By module, the programs of requests that take several steps on the machine."
    )
    check: TrialReport | None = Field(
        description="Null unless requested; then the files were not executed."
    )
    files: _Files = Field(description="The step of every device, and modules that it needs.")


TrainAnswer = Annotated[
    Annotated[TrainReply, Tag("")] | Annotated[ConfiguredReply, Tag("framework")],
    Discriminator(discriminate_by("framework")),
]


def train_step(question: TrainQuestion, watcher: Watcher) -> Reply:
    """The step as every device does it; and, if asked, whether devices do what one does."""
    question.check_runtime()
    if question.runtime not in _RUNTIMES:
        return configure_framework(question, question.runtime)
    step = question.step()
    found = question.planned(step)
    plan = found.plan
    made_by = f"collsynth {version('collsynth')}"
    programs = _programs(question, plan, made_by)
    text = write(
        question.runtime,
        found.step,
        found.program,
        plan.sizes,
        found.text,
        made_by,
        programs,
        schedule=plan,
        overlap=question.overlaps(),
    )
    modules = programs.modules if programs else {}
    files = {f"{step.name}_{question.runtime}.py": text}
    files |= {f"{name}.py": module for name, module in modules.items()}
    seen = None
    if question.check:
        seen = _try_training(question, step, found, files, watcher)
        files[next(iter(files))] = add_statement(text, _statement(question.runtime, seen))
    answer = TrainReply.like(
        plan,
        name=step.name,
        plan=found.text,
        runtime=question.runtime,
        held=memory_by_role(found),
        redistributions=redistributions_of(found.program, plan),
        placement=programs.placement if programs else None,
        ranks_by_axes=programs is not None and programs.reordered,
        programs=programs.texts if programs else {},
        check=seen,
        files=files,
    )
    return reply(answer, Outcome.OK if seen is None or seen.equal else Outcome.NO)


def _programs(question: TrainQuestion, plan: Plan, made_by: str) -> Programs | None:
    """What finds programs on the machine, if one is given.

    Raises InputError for a machine of another size, and for stages in JAX, where a program would
    have to be for the devices of one stage.
    """
    machine = question.placed(dict(plan.axes))
    if machine is None:
        return None
    if question.runtime == "jax" and plan.order is not None:
        hint = "ask for --runtime torch, or leave SYSTEM out"
        raise InputError("stages in JAX call no programs for a machine", where="SYSTEM", hint=hint)
    return programs_for(question.runtime, machine.system, machine.placement, plan.parts, made_by)


def _try_training(
    question: TrainQuestion,
    step: Step,
    planned: StepWithPlan,
    files: Mapping[str, str],
    watcher: Watcher,
) -> TrialReport:
    """By the step as it was before the plan: what one device does knows nothing of it."""
    world, ready = planned.plan.devices, planned.step
    order = planned.plan.order
    stages = 1 if order is None else order.stages
    trial = TrialSettings(
        question.runtime,
        question.processes or (1 if question.runtime == "jax" and stages > 1 else world),
        question.steps,
        question.timeout_seconds,
    )
    check(trial, world, sum(value.type.bytes for value in step.graph.inputs), stages)
    inputs = draw_inputs(
        step, trial.steps, TEXT_CLASSES if question.source() is None else MODEL_CLASSES
    )
    with tempfile.TemporaryDirectory(prefix="collsynth-") as place:
        given = split_stacks(ready, inputs)
        sharded = trained_in(files, world, given, trial, Path(place), watcher.go_on)
    alone = _train_alone(question, step, inputs, trial)
    axes = dict(planned.plan.axes)
    found = compare_runs(ready, planned.program, axes, alone.of(ready), sharded)
    return TrialReport.like(found, alone=alone.what, processes=trial.processes, steps=found.rows)


def _statement(runtime: str, seen: TrialReport) -> str:
    """What the heading of a file says of its trial: it was this file, at these sizes."""
    steps = f"{len(seen.steps)} step{'s' if len(seen.steps) > 1 else ''}"
    processes = f"{seen.processes} process{'es' if seen.processes > 1 else ''}"
    compared_with = f"compared with {seen.alone}"
    result = "equal within rounding" if seen.equal else f"NOT equal: {', '.join(seen.unlike)}"
    return (
        f"Executed when it was written, at its own sizes: {steps} by {processes} of {runtime}"
        f" {version(runtime)}, {compared_with}: {result}."
    )


def _train_alone(
    question: TrainQuestion, step: Step, inputs: Values, trial: TrialSettings
) -> SingleDeviceRun:
    """The steps on one device, by the model's own function where this process has it."""
    source = question.source()
    if source is not None:
        return run_in_jax(step, (source, question.sizes, question.spelling()), inputs, trial.steps)
    assert isinstance(question.model, NamedText)
    function = own_function(question.model.text)
    if function is None:
        return run_text(step, inputs, trial)
    return run_own_function(step, function, inputs, trial)
