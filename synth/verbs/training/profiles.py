"""The verb that measures the local work of a plan on this machine."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from synth.plan.request import Watcher
from synth.train.profiles import Trial, events, measured
from synth.verbs.answers.training.profiles import ProfileReply
from synth.verbs.questions.fields import Flag, Limited
from synth.verbs.questions.flags import Measure
from synth.verbs.reply import Reply, reply
from synth.verbs.training.plans import PlannedQuestion
from synth.verbs.training.simulated import products


class ProfileQuestion(PlannedQuestion):
    """Measure the local work of a plan here: equal work once, beside a reference."""

    runtime: Annotated[Literal["jax", "torch"], Flag("What does it: jax or torch")] = "jax"
    measure: Annotated[
        bool,
        Limited.HERE,
        Flag("Only say what would be measured", spelled="--no-measure"),
    ] = True
    processes: Annotated[
        int,
        Field(ge=1, le=64),
        Flag("How many processes measure at once", ": as many as will share the machine"),
    ] = 1
    threads: Annotated[int, Field(ge=1, le=256), Flag("How many threads each of them has")] = 1
    samples: Annotated[
        int, Field(ge=5, le=1000), Flag("How often each event is measured, if there is time")
    ] = 15
    seconds: Annotated[
        Measure, Flag("About how long to measure; five samples are taken anyway")
    ] = Field(default=60.0, gt=0, strict=False)
    timeout_seconds: Annotated[
        Measure, Flag("Seconds after which all are ended", spelled="--timeout")
    ] = Field(default=600.0, gt=0, strict=False)


def profile(question: ProfileQuestion, watcher: Watcher) -> Reply:
    """What is measured once of the plan's work; and, unless only that is asked, its seconds."""
    step = question.step()
    found = question.planned(step)
    pairs = list(events(question.runtime, found.step, found.program, found.plan.parts))
    seen = None
    if question.measure:
        trial = Trial(
            question.runtime,
            question.processes,
            question.threads,
            question.samples,
            question.seconds,
            question.timeout_seconds,
        )
        each = (event for _, event in pairs)
        seen = measured(each, trial, step.name, found.text, products(step)[1], watcher.go_on)
    return reply(
        ProfileReply.of(found.step, pairs, text=found.text, runtime=question.runtime, profile=seen)
    )
