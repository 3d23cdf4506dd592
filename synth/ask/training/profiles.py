"""The verb that measures the local work of a plan on this machine."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from synth.ask.answers.training.profiles import ProfileReply
from synth.ask.questions.fields import CostLimit, Flag
from synth.ask.questions.flags import Measure
from synth.ask.reply import Reply, reply
from synth.ask.training.plans import PlannedQuestion
from synth.ask.training.simulated import products
from synth.collective.ranking.request import Watcher
from synth.step.profiles import ProfileTrial, list_events, measure_events


class ProfileQuestion(PlannedQuestion):
    """Measure the local work of a plan here: equal work once, beside a reference."""

    runtime: Annotated[Literal["jax", "torch"], Flag("Runtime: jax or torch")] = "jax"
    measure: Annotated[
        bool,
        CostLimit.HERE,
        Flag("Only list what would be measured", spelled="--no-measure"),
    ] = True
    processes: Annotated[
        int,
        Field(ge=1, le=64),
        Flag("Processes that measure at once", ": as many as will share the machine"),
    ] = 1
    threads: Annotated[int, Field(ge=1, le=256), Flag("Threads per process")] = 1
    samples: Annotated[int, Field(ge=5, le=1000), Flag("Samples per event, if there is time")] = 15
    seconds: Annotated[
        Measure, Flag("Approximate seconds to measure; at least five samples are taken")
    ] = Field(default=60.0, gt=0, strict=False)
    timeout_seconds: Annotated[Measure, Flag("Timeout in seconds", spelled="--timeout")] = Field(
        default=600.0, gt=0, strict=False
    )


def profile(question: ProfileQuestion, watcher: Watcher) -> Reply:
    """What is measured once of the plan's work; and, unless only that is asked, its seconds."""
    step = question.step()
    found = question.planned(step)
    pairs = list(list_events(question.runtime, found.step, found.program, found.plan.parts))
    seen = None
    if question.measure:
        trial = ProfileTrial(
            question.runtime,
            question.processes,
            question.threads,
            question.samples,
            question.seconds,
            question.timeout_seconds,
        )
        each = (event for _, event in pairs)
        seen = measure_events(each, trial, step.name, found.text, products(step)[1], watcher.go_on)
    return reply(
        ProfileReply.of(found.step, pairs, text=found.text, runtime=question.runtime, profile=seen)
    )
