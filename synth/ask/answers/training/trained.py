"""What the verb answers that cuts a training step by a plan and tries it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import isfinite
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag

from grammar.tensors.operations import Step
from grammar.tensors.sharding import Type, part_shape
from synth.ask.answers.parts import (
    AnswerPart,
    Axes,
    Matrix,
    Number,
    Positive,
    ReplyModel,
    TextFile,
    Whole,
    discriminate_by,
)
from synth.ask.answers.training.configured import ConfiguredReply
from synth.step.emit import Programs
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
from synth.step.trials import StepDifference, TrialComparison
from synth.step.work import length_of

_Files = Annotated[list[TextFile], Field(min_length=1)]
_Loss = Annotated[float | None, Field(allow_inf_nan=False)]
_Deviation = Annotated[Number | None, Field(description="Null where something is no number.")]


class Redistributions(AnswerPart):
    """What is sent in one way: along some axes, or from stage to stage."""

    what: str = Field(min_length=1, description="The collective, and over which axes.")
    times: Positive = Field(description="How often in a step, in loops as often as they go round.")
    bytes: Whole = Field(
        description="What a device must send or receive at least, of all stages and microbatches."
    )


class MemoryByRole(AnswerPart):
    """What one device holds between steps."""

    parameter: Whole = Field(description="Parameters, in bytes.")
    moment: Whole = Field(description="State of the optimizer, in bytes.")


class StepRow(AnswerPart):
    """One step on one device and on many."""

    loss_alone: _Loss = Field(description="On one device; null where there is none.")
    loss_sharded: _Loss = Field(description="On all of them.")
    difference: _Deviation = Field(
        description="The largest of a parameter, as a share of its array's largest element."
    )
    rounding: _Deviation = Field(
        description="The same between the step on one device and itself in wider numbers."
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
    unlike: list[str] = Field(description="The arrays of which it does not, the worst first.")


class TrainReply(ReplyModel):
    """A training step cut by a plan."""

    name: str = Field(description="Name of the step.")
    plan: str = Field(description="The plan.")
    axes: Axes = Field(description="The axes and their sizes.")
    devices: Positive = Field(description="The product of the axes.")
    runtime: Literal["jax", "torch"] = Field(description="Runtime of the file.")
    held: MemoryByRole = Field(description="Bytes that one device holds.")
    redistributions: list[Redistributions] = Field(description="The most bytes first.")
    placement: Matrix | None = Field(
        description="How the axes lie: one row an axis, one column a level; null on no machine."
    )
    ranks_by_axes: bool = Field(
        description="Whether a launcher must be told that ranks count along the axes."
    )
    programs: dict[str, str] = Field(
        description="By module: what a machine's requests are carried out by, if not in one step."
    )
    check: TrialReport | None = Field(
        description="Null unless asked for: the files were not executed then."
    )
    files: _Files = Field(description="What every device does, and modules that it needs.")

    @classmethod
    def of(
        cls,
        step: Step,
        program: StepProgram,
        plan: Plan,
        *,
        text: str,
        runtime: str,
        files: Mapping[str, str],
        programs: Programs | None,
        check: TrialReport | None,
    ) -> Self:
        return cls.like(
            name=step.name,
            plan=text,
            axes=plan.axes,
            devices=plan.devices,
            runtime=runtime,
            held=MemoryByRole(**_memory_by_role(step, program, plan)),
            redistributions=_redistributions_of(program, plan),
            placement=programs.placement if programs else None,
            ranks_by_axes=programs is not None and programs.reordered,
            programs=programs.texts if programs else {},
            check=check,
            files=files,
        )


TrainAnswer = Annotated[
    Annotated[TrainReply, Tag("")] | Annotated[ConfiguredReply, Tag("framework")],
    Discriminator(discriminate_by("framework")),
]


def trial_report_of(alone: str, processes: int, found: TrialComparison) -> TrialReport:
    """What was compared, as an answer has it."""
    return TrialReport.like(found, alone=alone, processes=processes, steps=found.rows)


def _memory_by_role(step: Step, program: StepProgram, plan: Plan) -> dict[str, int]:
    """By a device of the stage that holds most, of each role."""
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
    return {role: max(of.values(), default=0) for role, of in found.items()}


def _redistributions_of(program: StepProgram, plan: Plan) -> list[Redistributions]:
    """On all stages together, of all microbatches."""
    times: Counter[str] = Counter()
    least: Counter[str] = Counter()
    places = program.places or (InstructionPlace(EVERYWHERE, StepPhase.BEFORE),) * len(
        program.instructions
    )
    for one, place in zip(program.instructions, places, strict=True):
        once = place.when in (StepPhase.BEFORE, StepPhase.AFTER)
        _count(one, plan, 1 if once else plan.microbatches, times, least)
    order = sorted(times, key=lambda what: (-least[what], what))
    return [Redistributions(what=what, times=times[what], bytes=least[what]) for what in order]


def _count(
    one: LocalOperation | RedistributedValue | SentValue,
    plan: Plan,
    often: int,
    times: Counter[str],
    least: Counter[str],
) -> None:
    match one:
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
