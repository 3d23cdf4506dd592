"""Checks the stages and phases of the operations of a sharded step.

A stage may read what it made or was sent; a pass what earlier passes of its microbatch made; and
operations that run once only sums over microbatches.
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
    """Raises InputError for an operation that its stage cannot run in its phase."""
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
    judge = _PlaceJudge(
        {
            value.name: {EVERYWHERE: "before"} if role in _SHARED_ROLES else {}
            for value, role in inputs
        }
    )
    for operation, at in zip(sharded.step.graph.operations, sharded.places, strict=True):
        judge.check(operation, at)


@dataclass
class _PlaceJudge:
    """``available`` has the phase in which each value becomes available on each stage.

    Other inputs than those of ``_SHARED_ROLES`` are on the first stage that reads them.
    """

    available: dict[str, dict[int, str]]

    def check(self, operation: Operation, at: PipelinePosition) -> None:
        for operand in operation.operands:
            if isinstance(operand, Value):
                self.read(operand, operation, at)
        if at.when in PASSES and at.stage == EVERYWHERE:
            raise _place_error(
                operation, f"{at} is on no stage", "a pass is of one: stage 0 forward"
            )
        stage = self.receiver(operation, at) if operation.primitive == SEND else at.stage
        for value in operation.results:
            if at.when not in PASSES and TIME in _axes(value):
                hint = f"cut along {TIME} is what passes make: let it be whole, or sum it up"
                raise _place_error(operation, f"{value.spelled} is made {at}", hint)
            self.available[value.name] = {stage: at.when}

    def receiver(self, operation: Operation, at: PipelinePosition) -> int:
        """Returns the stage to which a value is sent. Raises InputError against the pass."""
        stage = int(str(operation.parameter["to"]))
        wrong_way = at.when in PASSES and (stage > at.stage) is not (at.when == "forward")
        if stage == at.stage or wrong_way:
            hint = "activations go up the stages, and gradients come down"
            raise _place_error(operation, f"{at} sends to stage {stage}", hint)
        return stage

    def read(self, value: Value, operation: Operation, at: PipelinePosition) -> None:
        places = self.available[value.name]
        if not places:
            places[at.stage] = "before"
        when = places.get(at.stage, places.get(EVERYWHERE))
        if when is None:
            homes = ", ".join(f"stage {stage}" for stage in places)
            hint = f"it is on {homes}: send it to={at.stage}"
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
    result = operation.results[0].name if operation.results else ""
    return InputError(problem, where=operation.line or result, hint=hint)
