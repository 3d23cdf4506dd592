"""Splits backward loops over layers in two, so that weight gradients can be computed later.

The backward loop over layers carries the gradient of their inputs and stacks the gradients of their
weights. After the split, the first loop computes the carried values, and stacks the values that the
second loop reads. The second loop computes the rest, for which only the update waits. The step
computes the same values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from grammar.tensors.operations import Graph, Operand, Operation, Step, Value
from grammar.tensors.sharding import Type
from synth.step.sharding.layers.remat import follows
from synth.step.sharding.plan import scan_operands_of
from synth.step.trace.pruning import prune


def split_backward(step: Step) -> Step:
    """Splits each backward loop over layers that computes both kinds of gradients."""
    loops = [operation for operation in step.graph.operations if operation.body is not None]
    back = {
        id(second)
        for at, first in enumerate(loops)
        for second in loops[at + 1 :]
        if follows(first, second)
    }
    operations = [
        half
        for loop in step.graph.operations
        for half in (_split_loop(loop, loop.body) if loop.body and id(loop) in back else [loop])
    ]
    if len(operations) == len(step.graph.operations):
        return step
    return replace(step, graph=prune(replace(step.graph, operations=tuple(operations))))


def _split_loop(loop: Operation, body: Graph) -> list[Operation]:
    """Returns the loop of carried values and the loop of the other stacks; or the loop unsplit."""
    carried = scan_operands_of(loop.parameter).carried
    needed = _find_needed(body, body.outputs[:carried])
    late = [
        operation for operation in body.operations if needed.isdisjoint(_names(operation.results))
    ]
    late_names = {name for operation in late for name in _names(operation.results)}
    stacked = list(zip(loop.results[carried:], body.outputs[carried:], strict=True))
    late_stacks = [(result, out) for result, out in stacked if str(out) in late_names]
    if not late_stacks or not carried:
        return [loop]
    early_stacks = [(result, out) for result, out in stacked if str(out) not in late_names]
    kept = _find_kept(loop, body, late)
    first = replace(
        loop,
        results=(
            *loop.results[:carried],
            *(result for result, _ in early_stacks),
            *(stack for stack, _ in kept),
        ),
        body=replace(
            body,
            operations=tuple(operation for operation in body.operations if operation not in late),
            outputs=(
                *body.outputs[:carried],
                *(out for _, out in early_stacks),
                *(value for _, value in kept),
            ),
        ),
    )
    return [first, _weight_loop(loop, body, late, late_stacks, kept)]


Stacks = list[tuple[Value, Value]]
"""Stacks of a loop, each with its slice's value in the body."""


def _weight_loop(
    loop: Operation,
    body: Graph,
    late: list[Operation],
    late_stacks: list[tuple[Value, Operand]],
    kept: Stacks,
) -> Operation:
    """Returns the loop of the late operations, which carries nothing and scans ``kept`` stacks."""
    divided = scan_operands_of(loop.parameter)
    begin, end = divided.constants, divided.constants + divided.carried
    parameters = tuple((key, 0 if key == "num_carry" else value) for key, value in loop.parameters)
    return replace(
        loop,
        operands=(*loop.operands[:begin], *loop.operands[end:], *(stack for stack, _ in kept)),
        results=tuple(result for result, _ in late_stacks),
        parameters=parameters,
        body=Graph(
            (*body.inputs[:begin], *body.inputs[end:], *(slice_ for _, slice_ in kept)),
            tuple(late),
            tuple(out for _, out in late_stacks),
        ),
    )


def _find_kept(loop: Operation, body: Graph, late: list[Operation]) -> Stacks:
    """Returns stacks of the earlier results and carried inputs that late operations read."""
    divided = scan_operands_of(loop.parameter)
    carried = body.inputs[divided.constants : divided.constants + divided.carried]
    own = {name for operation in late for name in _names(operation.results)}
    available = {value.name for value in body.inputs} - {value.name for value in carried}
    read = dict.fromkeys(
        operand
        for operation in late
        for operand in operation.operands
        if isinstance(operand, Value) and operand.name not in own | available
    )
    length = int(str(loop.parameter["length"]))
    name = loop.results[0].name
    return [
        (Value(f"{name}.{value.name}", Type(value.type.dtype, (length, *value.type.shape))), value)
        for value in read
    ]


def _find_needed(body: Graph, outputs: Iterable[Operand]) -> set[str]:
    """Returns the names of all values on which some outputs depend."""
    needed = _names(outputs)
    for operation in reversed(body.operations):
        if not needed.isdisjoint(_names(operation.results)):
            needed |= _names(operation.operands)
    return needed


def _names(operands: Iterable[Operand]) -> set[str]:
    return {operand.name for operand in operands if isinstance(operand, Value)}
