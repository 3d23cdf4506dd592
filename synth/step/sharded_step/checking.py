"""Checks a sharded step from any source: every operation must have a row along each axis.

Sharded steps of plans are correct by construction. Those that were written or edited by hand are
checked operation by operation before they are used; errors name the line and the reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from grammar.tensors.operations import (
    MOVING,
    REDISTRIBUTE,
    SEND,
    Graph,
    Literal,
    Operand,
    Operation,
    ShardedStep,
    Step,
    Value,
)
from grammar.tensors.sharding import ReductionKind, Sharding, replicated_sharding
from hierarchies import InputError
from synth.step.factors import list_rows, match_rows
from synth.step.redistribution import MoveKind, ShardingMove
from synth.step.redistribution.rules import flatten_move, list_moves
from synth.step.sharded_step.places import check_places
from synth.step.sharding.plan import TIME, scan_operands_of, stack_sharding

Sizes = Mapping[str, int]


def check_known(step: Step) -> None:
    """Raises InputError for an operation without known factors, with its line.

    A text may have any names and parameters, so an operation whose parameters are not those of
    JAX's primitive is refused, too.
    """
    for operation in step.graph.everywhere():
        if operation.body is None and operation.primitive not in MOVING:
            try:
                list_rows(operation)
            except InputError:
                raise
            except _MALFORMED as error:
                raise InputError(
                    f"{operation.primitive} of such operands and parameters",
                    where=_line_of(operation),
                    hint="they are those that JAX's primitive of that name has",
                ) from error


_MALFORMED = (AssertionError, AttributeError, LookupError, TypeError, ValueError, ZeroDivisionError)


def check(sharded: ShardedStep) -> None:
    """Raises InputError for an illegal line, with the operation, the problem and its axis.

    Illegal are an operation without a row for its shardings, a partial sum where none is allowed,
    axes in different orders, a redistribution that is no single move, a loop whose carried values
    change their sharding, and a value read on a stage that does not have it, or before it is made.
    """
    check_known(sharded.step)
    _check(sharded.step.graph, sharded.sizes)
    check_places(sharded)


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
                raise InputError(
                    error.problem, where=_line_of(operation), hint=error.hint
                ) from None


def sharding_of(operand: Operand) -> Sharding:
    """Returns the sharding of an operand of a sharded step; a literal is replicated."""
    if isinstance(operand, Literal):
        return replicated_sharding(0)
    assert operand.sharding is not None, operand
    return operand.sharding


def _line_of(operation: Operation) -> str:
    """Returns the line of the user's code, else the name of the first result."""
    result = operation.results[0].name if operation.results else ""
    return operation.line or result


def _check_move(operation: Operation, sizes: Sizes) -> None:
    where = _line_of(operation)
    match operation.operands, operation.results, operation.parameter:
        case [[Value() as before], [after], {"by": str(by), "over": tuple(over), **rest}] if (
            before.type == after.type and not rest
        ):
            pass
        case _:
            hint = "as in v1: f32[8] = redistribute(v0) by=all-reduce over=(data)"
            raise InputError("a redistribution of another form", where=where, hint=hint)
    if TIME in over and by not in _OVER_TIME:
        problem = f"{by} over {TIME} brings microbatches together"
        raise InputError(
            problem, where=where, hint="they are done one after the other: sum them up"
        )
    names = [how.value for how in MoveKind]
    if by not in names:
        raise InputError(f"no move is called {by!r}", where=where, hint=", ".join(names))
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
        raise InputError(
            f"{by} over {', '.join(map(str, over))} does not make {before.spelled} lie as"
            f" {after.spelled.partition(': ')[2]}",
            where=where,
            hint=known or "several redistributions one after the other do",
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
            raise InputError("a send of another form", where=_line_of(operation), hint=hint)


def _check_loop(loop: Operation, body: Graph) -> None:
    """Raises InputError unless carried values keep their sharding, and slices that of stacks."""
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
                raise InputError(
                    f"{value.spelled} where the body has {value.type.sharded(sharding)}",
                    where=_line_of(loop),
                    hint="constants, and what is carried, lie in a loop as outside, slices as"
                    " their stacks",
                )
