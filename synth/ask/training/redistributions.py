"""The memory of devices under a plan, and its redistributions by kind and number."""

from __future__ import annotations

from collections import Counter

from pydantic import Field

from grammar.tensors.sharding import Type, part_shape
from synth.ask.answers.parts import (
    AnswerPart,
    Positive,
    Whole,
)
from synth.ask.training.plans import StepWithPlan
from synth.step.sharding import (
    InstructionPlace,
    LocalOperation,
    Plan,
    RedistributedValue,
    SentValue,
    StepPhase,
    StepProgram,
)
from synth.step.sharding.program import EVERYWHERE
from synth.step.work import length_of


class Redistributions(AnswerPart):
    """What is sent in one way: along some axes, or from stage to stage."""

    what: str = Field(min_length=1, description="The collective, and over which axes.")
    times: Positive = Field(description="Calls in a step, counting each iteration of loops.")
    bytes: Whole = Field(
        description="Lower bound of bytes that a device sends or receives, over all "
        "stages and microbatches."
    )


class MemoryByRole(AnswerPart):
    """What one device holds between steps."""

    parameter: Whole = Field(description="Parameters, in bytes.")
    moment: Whole = Field(description="State of the optimizer, in bytes.")


def memory_by_role(planned: StepWithPlan) -> MemoryByRole:
    """By a device of the stage that holds most, of each role."""
    step, program, plan = planned.step, planned.program, planned.plan
    found: dict[str, Counter[int]] = {"parameter": Counter(), "moment": Counter()}
    homes = program.homes or (0,) * len(program.inputs)
    for value, role, lies, home in zip(
        step.graph.inputs, step.roles, program.inputs, homes, strict=True
    ):
        if role in found:
            rank = 0 if plan.order is None else plan.order.rank_of[home]
            found[role][rank] += Type(
                value.type.dtype, part_shape(value.type, lies, plan.parts)
            ).bytes
    return MemoryByRole(**{role: max(of.values(), default=0) for role, of in found.items()})


def redistributions_of(program: StepProgram, plan: Plan) -> list[Redistributions]:
    """On all stages together, of all microbatches."""
    times: Counter[str] = Counter()
    least: Counter[str] = Counter()
    places = program.places or (InstructionPlace(EVERYWHERE, StepPhase.BEFORE),) * len(
        program.instructions
    )
    for instruction, place in zip(program.instructions, places, strict=True):
        once = place.when in (StepPhase.BEFORE, StepPhase.AFTER)
        _count(instruction, plan, 1 if once else plan.microbatches, times, least)
    order = sorted(times, key=lambda what: (-least[what], what))
    return [Redistributions(what=what, times=times[what], bytes=least[what]) for what in order]


def _count(
    instruction: LocalOperation | RedistributedValue | SentValue,
    plan: Plan,
    often: int,
    times: Counter[str],
    least: Counter[str],
) -> None:
    match instruction:
        case RedistributedValue(value, path):
            for move in path.requests(plan.sizes):
                what = f"{move.how.value} over {', '.join(move.axes)}"
                times[what] += often
                least[what] += often * int(move.least_bytes(value.type, plan.parts))
        case SentValue(value, lies):
            what = "point-to-point between stages"
            times[what] += often
            part = Type(value.type.dtype, part_shape(value.type, lies, plan.parts))
            least[what] += often * part.bytes
        case LocalOperation(operation, _, StepProgram() as body):
            for inner in body.instructions:
                _count(inner, plan, often * length_of(operation), times, least)
