"""Checks a sharded step from any source: every operation must have a row along each axis.

Sharded steps of plans are correct by construction. Steps that were written or edited by hand are
checked operation by operation before use; errors name the line and the reason. Stages and phases
are checked, too. A stage may read values that it computed or received; a pass may read values of
earlier passes of its microbatch; operations that run once may read only sums over microbatches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grammar.tensors.operations import (
    EVERYWHERE,
    MOVING,
    PASSES,
    PIPELINE_MOMENTS,
    REDISTRIBUTE,
    SEND,
    Graph,
    Literal,
    Operand,
    Operation,
    PipelinePosition,
    ShardedStep,
    Step,
    Value,
)
from grammar.tensors.sharding import ReductionKind, Sharding, replicated_sharding
from hierarchies import InputError
from synth.step.factors import list_rows, match_rows
from synth.step.redistribution import MoveKind, ShardingMove
from synth.step.redistribution.rules import flatten_move, list_moves
from synth.step.sharding.plan import PIPE, TIME, scan_operands_of, stack_sharding

Sizes = Mapping[str, int]


def check_known(step: Step) -> None:
    """Raises InputError for an operation without known factors, with its line.

    A text may have any names and parameters, so an operation is also refused if its parameters are
    not the parameters of JAX's primitive.
    """
    for operation in step.graph.everywhere():
        if operation.body is None and operation.primitive not in MOVING:
            try:
                list_rows(operation)
            except InputError:
                raise
            except _MALFORMED as error:
                problem = f"{operation.primitive} does not accept these operands and parameters"
                hint = "use those of JAX's primitive of that name"
                raise _located_error(operation, problem, hint) from error


# Rules read parameters as JAX writes them; other parameters fail in any of these ways.
_MALFORMED = (AssertionError, AttributeError, LookupError, TypeError, ValueError, ZeroDivisionError)


def check(sharded: ShardedStep) -> None:
    """Raises InputError for an illegal line, with the operation, the problem and its axis.

    The following are illegal: an operation without a row for its shardings, a partial sum where
    none is allowed, axes in different orders, a redistribution that is no single move, a loop whose
    carried values change their sharding, and a value read on a stage that does not have it, or
    before it is computed.
    """
    check_known(sharded.step)
    _check(sharded.step.graph, sharded.sizes)
    _check_places(sharded)


def _check(graph: Graph, sizes: Sizes) -> None:
    for operation in graph.operations:
        if operation.primitive == REDISTRIBUTE:
            _check_move(operation, sizes)
        elif operation.primitive == SEND:
            _check_send(operation)
        elif operation.body is not None:
            _check_loop(operation, operation.body)
            _check(operation.body, sizes)
        else:
            operands = list(map(sharding_of, operation.operands))
            results = list(map(sharding_of, operation.results))
            try:
                match_rows(operation, operands, results, sizes)
            except InputError as error:
                raise _located_error(operation, error.problem, error.hint) from None


def sharding_of(operand: Operand) -> Sharding:
    """Returns the sharding of an operand of a sharded step; a literal is replicated."""
    if isinstance(operand, Literal):
        return replicated_sharding(0)
    assert operand.sharding is not None, operand
    return operand.sharding


def _located_error(operation: Operation, problem: str, hint: str) -> InputError:
    """Returns an error at the line of the user's code, or at the name of the first result."""
    result = operation.results[0].name if operation.results else ""
    return InputError(problem, where=operation.line or result, hint=hint)


def _check_move(operation: Operation, sizes: Sizes) -> None:
    match operation.operands, operation.results, operation.parameter:
        case [[Value() as before], [after], {"by": str(by), "over": tuple(over), **rest}] if (
            before.type == after.type and not rest
        ):
            pass
        case _:
            hint = "as in v1: f32[8] = redistribute(v0) by=all-reduce over=(data)"
            raise _located_error(operation, "a malformed redistribution", hint)
    if TIME in over and by not in _OVER_TIME:
        problem = f"{by} over {TIME} joins microbatches"
        hint = "microbatches run one after the other: sum them"
        raise _located_error(operation, problem, hint)
    names = [how.value for how in MoveKind]
    if by not in names:
        raise _located_error(operation, f"unknown move {by!r}", ", ".join(names))
    kinds = frozenset(
        kind for end in (before, after) for kind, _ in sharding_of(end).partial
    ) or frozenset((ReductionKind.SUM,))
    move = ShardingMove(
        MoveKind(by), tuple(map(str, over)), sharding_of(before), sharding_of(after)
    )
    possible = [
        legal
        for legal in list_moves(sharding_of(before), sizes, kinds)
        if legal.after == sharding_of(after)
    ]
    possible += filter(None, [flatten_move(sharding_of(before), sharding_of(after))])
    if move not in possible:
        known = "; ".join(
            f"by={legal.how.value} over=({','.join(legal.axes)})" for legal in possible
        )
        raise _located_error(
            operation,
            f"{by} over {', '.join(map(str, over))} does not turn {before.spelled} into"
            f" {after.spelled.partition(': ')[2]}",
            known or "use several redistributions in sequence",
        )


_OVER_TIME = [
    how.value for how in (MoveKind.SLICE, MoveKind.MASK, MoveKind.WIDEN, MoveKind.ALL_REDUCE)
]


def _check_send(operation: Operation) -> None:
    match operation.operands, operation.results, operation.parameter:
        case [[Value() as before], [after], {"to": int(to), **rest}] if (
            (before.type, before.sharding) == (after.type, after.sharding) and to >= 0 and not rest
        ):
            pass
        case _:
            hint = "as in v1: f32[8] = send(v0) to=1"
            raise _located_error(operation, "a malformed send", hint)


def _check_loop(loop: Operation, body: Graph) -> None:
    """Raises InputError unless carried values keep their sharding and slices match stacks."""
    divided = scan_operands_of(loop.parameter)
    inner = tuple(map(sharding_of, body.inputs))
    carry = divided.carry(inner)
    made = tuple(map(sharding_of, body.outputs))
    results = (*carry, *map(stack_sharding, made[len(carry) :]))
    pairs = (
        (loop.operands, divided.of_operands(inner)),
        (loop.results, results),
        (body.outputs, (*carry, *made[len(carry) :])),
    )
    for values, shardings in pairs:
        for value, sharding in zip(values, shardings, strict=True):
            if isinstance(value, Value) and sharding_of(value) != sharding:
                raise _located_error(
                    loop,
                    f"{value.spelled} where the body has {value.type.sharded(sharding)}",
                    "constants and carried values have one sharding inside and outside a loop,"
                    " slices that of their stacks",
                )


_SHARED_ROLES = ("batch", "state", "cache")
"""Roles of inputs that every stage has."""


def _check_places(sharded: ShardedStep) -> None:
    """Raises InputError for an operation that its stage cannot run in its phase."""
    if not sharded.places:
        if TIME in sharded.sizes or PIPE in sharded.sizes:
            hint = "write a line such as 'stage 0 forward' above its operations"
            axis = TIME if TIME in sharded.sizes else PIPE
            raise InputError(f"axis {axis} without stages", where=sharded.step.name, hint=hint)
        return
    if TIME not in sharded.sizes:
        problem, hint = "stages without microbatches", f"give the axis {TIME}=4"
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
    """Checks places; ``available``: the phase in which a value becomes available on each stage.

    Inputs whose roles are not in ``_SHARED_ROLES`` are on the first stage that reads them.
    """

    available: dict[str, dict[int, str]]

    def check(self, operation: Operation, at: PipelinePosition) -> None:
        for operand in operation.operands:
            if isinstance(operand, Value):
                self.read(operand, operation, at)
        if at.when in PASSES and at.stage == EVERYWHERE:
            raise _located_error(
                operation, f"{at} has no stage", "a pass belongs to a stage: stage 0 forward"
            )
        stage = self.receiver(operation, at) if operation.primitive == SEND else at.stage
        for value in operation.results:
            if at.when not in PASSES and TIME in sharding_of(value).axes:
                hint = f"only passes make values sharded along {TIME}: replicate it, or sum it"
                raise _located_error(operation, f"{value.spelled} is made {at}", hint)
            self.available[value.name] = {stage: at.when}

    def receiver(self, operation: Operation, at: PipelinePosition) -> int:
        """Returns the stage that receives a value. Raises InputError for an illegal direction."""
        stage = int(str(operation.parameter["to"]))
        wrong_way = at.when in PASSES and (stage > at.stage) is not (at.when == "forward")
        if stage == at.stage or wrong_way:
            hint = "activations go to the next stage, and gradients to the previous one"
            raise _located_error(operation, f"{at} sends to stage {stage}", hint)
        return stage

    def read(self, value: Value, operation: Operation, at: PipelinePosition) -> None:
        places = self.available[value.name]
        if not places:
            places[at.stage] = "before"
        when = places.get(at.stage, places.get(EVERYWHERE))
        if when is None:
            homes = ", ".join(f"stage {stage}" for stage in places)
            hint = f"it is on {homes}: send it with to={at.stage}"
            raise _located_error(operation, f"stage {at.stage} does not have {value}", hint)
        summed = (
            operation.primitive == REDISTRIBUTE
            and operation.parameter["by"] == MoveKind.ALL_REDUCE.value
            and operation.parameter["over"] == (TIME,)
        )
        if summed and at.when != "after":
            raise _located_error(
                operation, f"{value} is summed {at}", "microbatches are summed after their passes"
            )
        if PIPELINE_MOMENTS.index(when) > PIPELINE_MOMENTS.index(at.when):
            raise _located_error(
                operation, f"{value} is made {when} and read {at}", "make it earlier"
            )
        if TIME in sharding_of(value).axes and at.when not in PASSES and not summed:
            hint = f"redistribute it with by=all-reduce over=({TIME})"
            raise _located_error(
                operation, f"{value} belongs to single microbatches and is read {at}", hint
            )
