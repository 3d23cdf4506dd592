"""The verb that cuts a training step by a plan: as a file, and tried in processes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from grammar.tensors.operations import Step
from hierarchies import InputError, within
from synth.plan.request import Watcher
from synth.train.emit import Programs, programs_for, write
from synth.train.plans import Plan, Program, apply, parse_recipe, plan_of
from synth.train.trials import Trial, as_text, check, compared, drawn, in_jax
from synth.train.trials import trained as trained_in
from synth.verbs.answers.training.trained import TrainReply, Tried, tried
from synth.verbs.questions.fields import File, Flag, Limited
from synth.verbs.questions.flags import Measure, PerhapsMachine
from synth.verbs.questions.named_texts import NamedText, system_of
from synth.verbs.reply import Outcome, Reply, reply
from synth.verbs.traces import ModelQuestion

FEW = 8
"""Classes and tokens in the batches of a trial: models of the zoo have at least as many."""
LEAST = 2
"""Of a step of which only the text is known."""


class TrainQuestion(ModelQuestion):
    """Cut a training step by a plan, as a file for JAX or PyTorch; --check trains with it here."""

    system: Annotated[
        PerhapsMachine,
        Flag("Where it is to run", ": it has as many devices as the axes multiply to"),
    ] = None
    plan: Annotated[
        str,
        Field(max_length=2**16),
        Flag(
            "The plan",
            ", as 'data=2 tensor=2; batch over data; weights over tensor as Megatron; zero=1';"
            " or a file, or -",
            file=File.PLAN,
        ),
    ]
    runtime: Annotated[Literal["jax", "torch"], Flag("What the file is for: jax or torch")] = "jax"
    check: Annotated[
        bool, Limited.HERE, Flag("Train some steps in processes here, and compare with one device")
    ] = False
    backend: Annotated[Literal["gloo"], Flag("What processes send by: gloo")] = "gloo"
    steps: Annotated[int, Field(ge=1, le=100), Flag("How many steps are compared")] = 3
    processes: Annotated[
        int | None,
        Field(ge=1, le=64),
        Flag("How many processes", ": one for each device; of jax also fewer, with several each"),
    ] = None
    timeout_seconds: Annotated[
        Measure, Flag("Seconds after which all are ended", spelled="--timeout")
    ] = Field(default=120.0, gt=0, strict=False)


def trained(question: TrainQuestion, watcher: Watcher) -> Reply:
    """The step as every device does it; and, if asked, whether devices do what one does."""
    step = question.step()
    with within("--plan"):
        recipe = parse_recipe(question.plan)
        plan = plan_of(step, recipe)
    made_by = f"collsynth {version('collsynth')}"
    programs = _programs(question, plan, made_by)
    program = apply(step, plan)
    text = write(question.runtime, step, program, plan.sizes, str(recipe), made_by, programs)
    modules = programs.modules if programs else {}
    files = {f"{step.name}_{question.runtime}.py": text}
    files |= {f"{name}.py": module for name, module in modules.items()}
    found = _tried(question, step, plan, program, files, watcher) if question.check else None
    answer = TrainReply.of(
        step,
        program,
        plan.sizes,
        plan=str(recipe),
        runtime=question.runtime,
        devices=prod(plan.sizes.values()),
        files=files,
        programs=programs.texts if programs else {},
        check=found,
    )
    return reply(answer, Outcome.OK if found is None or found.equal else Outcome.NO)


def _programs(question: TrainQuestion, plan: Plan, made_by: str) -> Programs | None:
    """What finds programs on the machine, if one is given. Raises InputError for another one."""
    if question.system is None:
        return None
    system, world = system_of(question.system), prod(plan.sizes.values())
    if system.devices != world:
        problem = f"the axes multiply to {world} devices, and {system.name} has {system.devices}"
        raise InputError(problem, where="--plan", hint="give axes that multiply to as many")
    return programs_for(question.runtime, system, plan, made_by)


def _tried(
    question: TrainQuestion,
    step: Step,
    plan: Plan,
    program: Program,
    files: Mapping[str, str],
    watcher: Watcher,
) -> Tried:
    world = prod(plan.sizes.values())
    trial = Trial(
        question.runtime,
        question.processes or world,
        question.steps,
        question.timeout_seconds,
    )
    check(trial, world, sum(value.type.bytes for value in step.graph.inputs))
    inputs = drawn(step, trial.steps, LEAST if isinstance(question.model, NamedText) else FEW)
    with tempfile.TemporaryDirectory(prefix="collsynth-") as place:
        sharded = trained_in(files, world, inputs, trial, Path(place), watcher.go_on)
    if isinstance(question.model, NamedText):
        alone = as_text(step, inputs, trial)
    else:
        model = (question.model, question.sizes, question.spelling())
        alone = in_jax(step, model, inputs, trial.steps)
    found = compared(step, program, plan.sizes, alone, sharded)
    return tried(alone.what, trial.processes, found)
