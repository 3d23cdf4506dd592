"""What the verb answers that cuts a training step by a plan and tries it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import isfinite
from typing import Annotated, Literal, Self

from pydantic import Field

from grammar.tensors.operations import Step
from grammar.tensors.sharding import Type, part_shape
from synth.train.plans import Done, Moved, Program
from synth.train.trials import Compared, Row
from synth.verbs.answers.parts import Axes, Number, Part, Positive, Reply, TextFile, Whole

_Files = Annotated[list[TextFile], Field(min_length=1)]
_Loss = Annotated[float | None, Field(allow_inf_nan=False)]
_Apart = Annotated[Number | None, Field(description="Null where something is no number.")]


class Redistributions(Part):
    """What is sent along some axes in one way."""

    what: str = Field(min_length=1, description="The collective, and over which axes.")
    times: Positive = Field(description="How often in a step, in loops as often as they go round.")
    bytes: Whole = Field(description="What a device must send or receive at least, all together.")


class HeldByRole(Part):
    """What one device holds between steps."""

    parameter: Whole = Field(description="Parameters, in bytes.")
    moment: Whole = Field(description="What the optimizer keeps, in bytes.")


class StepRow(Part):
    """One step on one device and on many."""

    loss_alone: _Loss = Field(description="On one device; null where there is none.")
    loss_sharded: _Loss = Field(description="On all of them.")
    difference: _Apart = Field(
        description="The largest of a parameter, as a share of its array's largest element."
    )
    rounding: _Apart = Field(
        description="The same between the step on one device and itself in wider numbers."
    )

    @classmethod
    def of(cls, row: Row) -> Self:
        given = {
            name: value for name in cls.model_fields if (value := getattr(row, name)) is not None
        }
        return cls.like(
            **{name: given[name] if isfinite(given.get(name, 0.0)) else None for name in given},
            **dict.fromkeys(set(cls.model_fields) - set(given)),
        )


class Tried(Part):
    """Steps that were trained in processes, beside those of one."""

    alone: str = Field(min_length=1, description="What the steps are compared with.")
    processes: Positive = Field(description="How many there were.")
    steps: list[StepRow] = Field(min_length=1, description="Each of them.")
    equal: bool = Field(description="Whether rounding explains all differences.")
    unlike: list[str] = Field(description="The arrays of which it does not, the worst first.")


class TrainReply(Reply):
    """A training step cut by a plan."""

    name: str = Field(description="What the step is called.")
    plan: str = Field(description="The plan.")
    axes: Axes = Field(description="The axes and their sizes.")
    devices: Positive = Field(description="The product of the axes.")
    runtime: Literal["jax", "torch"] = Field(description="What the file is for.")
    held: HeldByRole = Field(description="By one device.")
    redistributions: list[Redistributions] = Field(description="The most bytes first.")
    programs: dict[str, str] = Field(
        description="By module: what a machine's requests are carried out by, if not in one step."
    )
    check: Tried | None = Field(description="Null unless asked for.")
    files: _Files = Field(description="What every device does, and modules that it needs.")

    @classmethod
    def of(
        cls,
        step: Step,
        program: Program,
        sizes: Mapping[str, int],
        *,
        plan: str,
        runtime: str,
        devices: int,
        files: Mapping[str, str],
        programs: Mapping[str, str],
        check: Tried | None,
    ) -> Self:
        return cls.like(
            name=step.name,
            plan=plan,
            axes=dict(sizes),
            devices=devices,
            runtime=runtime,
            held=HeldByRole(**_held(step, program, sizes)),
            redistributions=_sent(program, sizes),
            programs=dict(programs),
            check=check,
            files=[TextFile(name=name, text=text) for name, text in files.items()],
        )


def tried(alone: str, processes: int, found: Compared) -> Tried:
    """What was compared, as an answer has it."""
    return Tried.like(
        alone=alone,
        processes=processes,
        steps=[StepRow.of(row) for row in found.rows],
        equal=found.equal,
        unlike=list(found.unlike),
    )


def _held(step: Step, program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    found = {"parameter": 0, "moment": 0}
    for value, role, sharding in zip(step.graph.inputs, step.roles, program.inputs, strict=True):
        if role in found:
            found[role] += Type(value.type.dtype, part_shape(value.type, sharding, sizes)).bytes
    return found


def _sent(program: Program, sizes: Mapping[str, int]) -> list[Redistributions]:
    times: Counter[str] = Counter()
    least: Counter[str] = Counter()
    _count(program, sizes, 1, times, least)
    order = sorted(times, key=lambda what: (-least[what], what))
    return [Redistributions(what=what, times=times[what], bytes=least[what]) for what in order]


def _count(
    program: Program,
    sizes: Mapping[str, int],
    often: int,
    times: Counter[str],
    least: Counter[str],
) -> None:
    for one in program.instructions:
        match one:
            case Moved(value, path):
                for move in path.requests(sizes):
                    what = f"{move.how.value} over {', '.join(move.axes)}"
                    times[what] += often
                    least[what] += often * int(move.least(sizes) * value.type.bytes)
            case Done(operation, _, Program() as body):
                length = int(str(operation.parameter["length"]))
                _count(body, sizes, often * length, times, least)
