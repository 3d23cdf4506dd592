"""Judges where and when the operations of a sharded step are done.

A stage reads what it made or was sent; a pass what was done before it, of the same microbatch; and
what is done once nothing of microbatches but their sums.
"""

from __future__ import annotations

from dataclasses import dataclass

from grammar.tensors.operations import (
    EVERYWHERE,
    PASSES,
    PIPELINE_MOMENTS,
    REDISTRIBUTE,
    SEND,
    Operation,
    PipelinePosition,
    ShardedStep,
    Value,
)
from hierarchies import InputError
from synth.step.redistribution import MoveKind
from synth.step.sharding.plan import PIPE, TIME

_SHARED_ROLES = ("batch", "state", "cache")
"""Roles of inputs that every stage has."""


def check_places(sharded: ShardedStep) -> None:
    """Raise InputError for a line that a stage cannot do where it stands, or not then."""
    if not sharded.places:
        if TIME in sharded.sizes or PIPE in sharded.sizes:
            hint = "a line as 'stage 0 forward' above the operations that it does"
            axis = TIME if TIME in sharded.sizes else PIPE
            raise InputError(f"axis {axis} and no stages", where=sharded.step.name, hint=hint)
        return
    if TIME not in sharded.sizes:
        problem, hint = "stages without microbatches", f"an axis as {TIME}=4"
        raise InputError(problem, where=sharded.step.name, hint=hint)
    inputs = zip(sharded.step.graph.inputs, sharded.step.roles, strict=True)
    judged = _PlaceJudge(
        {one.name: {EVERYWHERE: "before"} if role in _SHARED_ROLES else {} for one, role in inputs}
    )
    for operation, at in zip(sharded.step.graph.operations, sharded.places, strict=True):
        judged.do(operation, at)


@dataclass
class _PlaceJudge:
    """Since when each stage has each value; an input of which no stage is said is where it is read
    first.
    """

    there: dict[str, dict[int, str]]

    def do(self, operation: Operation, at: PipelinePosition) -> None:
        for operand in operation.operands:
            if isinstance(operand, Value):
                self.read(operand, operation, at)
        if at.when in PASSES and at.stage == EVERYWHERE:
            raise _place_error(
                operation, f"{at} is on no stage", "a pass is of one: stage 0 forward"
            )
        stage = self.sent(operation, at) if operation.primitive == SEND else at.stage
        for value in operation.results:
            if at.when not in PASSES and TIME in _axes(value):
                hint = f"cut along {TIME} is what passes make: let it be whole, or sum it up"
                raise _place_error(operation, f"{value.spelled} is made {at}", hint)
            self.there[value.name] = {stage: at.when}

    def sent(self, operation: Operation, at: PipelinePosition) -> int:
        """The stage where a value is then; in passes it is above or below, as passes go."""
        stage = int(str(operation.parameter["to"]))
        wrong_way = at.when in PASSES and (stage > at.stage) is not (at.when == "forward")
        if stage == at.stage or wrong_way:
            hint = "activations go up the stages, and gradients come down"
            raise _place_error(operation, f"{at} sends to stage {stage}", hint)
        return stage

    def read(self, value: Value, operation: Operation, at: PipelinePosition) -> None:
        places = self.there[value.name]
        if not places:
            places[at.stage] = "before"
        when = places.get(at.stage, places.get(EVERYWHERE))
        if when is None:
            had = ", ".join(f"stage {one}" for one in places)
            hint = f"it is on {had}: send it to={at.stage}"
            raise _place_error(operation, f"stage {at.stage} does not have {value}", hint)
        summed = (
            operation.primitive == REDISTRIBUTE
            and operation.parameter["by"] == MoveKind.ALL_REDUCE.value
            and operation.parameter["over"] == (TIME,)
        )
        if summed and at.when != "after":
            raise _place_error(
                operation, f"{value} is summed up {at}", "microbatches are, after them"
            )
        if PIPELINE_MOMENTS.index(when) > PIPELINE_MOMENTS.index(at.when):
            raise _place_error(operation, f"{value} is made {when} and read {at}", "make it before")
        if TIME in _axes(value) and at.when not in PASSES and not summed:
            hint = f"redistribute it by=all-reduce over=({TIME})"
            raise _place_error(operation, f"{value} is of each microbatch and read {at}", hint)


def _axes(value: Value) -> tuple[str, ...]:
    assert value.sharding is not None, value
    return tuple(value.sharding.axes)


def _place_error(operation: Operation, problem: str, hint: str) -> InputError:
    made = operation.results[0].name if operation.results else ""
    return InputError(problem, where=operation.line or made, hint=hint)
