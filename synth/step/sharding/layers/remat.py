"""Recomputes layers: only the inputs of each layer are kept, and the rest is recomputed.

The forward loop stacks the values that the backward loop reads. After the rewrite it stacks only
its carried inputs, and the backward loop repeats the forward body, without results that are never
read. The step computes the same values (gradient checkpointing, Chen et al. 2016).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from grammar.tensors.operations import Graph, Operand, Operation, Step, Value
from grammar.tensors.sharding import Type
from hierarchies import InputError
from synth.step.sharding.plan import scan_operands_of
from synth.step.trace.pruning import prune


def rematerialise(step: Step) -> Step:
    """Returns the step that keeps only the inputs of each layer.

    A step that was traced with rematerialisation is returned unchanged. Raises InputError if the
    step has no loop of layers.
    """
    graph = step.graph
    has_layers = False
    for at, first in enumerate(graph.operations):
        for later, second in enumerate(graph.operations[at + 1 :], at + 1):
            if _reads_back(first, second):
                forward, backward = _recompute_loops(first, second)
                operations = list(graph.operations)
                operations[at], operations[later] = forward, backward
                graph = prune(replace(graph, operations=tuple(operations)))
                return rematerialise(replace(step, graph=graph))
            has_layers = has_layers or follows(first, second)
    if not has_layers:
        hint = "put the layers in a loop, or trace unrolled layers with remat"
        raise InputError(f"{step.name} has no loop of layers to recompute", where="plan", hint=hint)
    return step


def follows(first: Operation, second: Operation) -> bool:
    """Whether the second loop runs backward over the layers of the first."""
    if first.body is None or second.body is None:
        return False
    parameters = (first.parameter, second.parameter)
    lengths = {str(parameter["length"]) for parameter in parameters}
    directions = {str(parameter["reverse"]) for parameter in parameters}
    is_opposite = len(lengths) == 1 and len(directions) == 2
    return is_opposite and bool({*first.results} & {*second.operands})


def _reads_back(first: Operation, second: Operation) -> bool:
    """Whether a loop stacks values other than inputs of its body for its backward loop."""
    if not follows(first, second):
        return False
    assert first.body is not None
    inputs = {value.name for value in first.body.inputs}
    return any(value.name not in inputs for _, value in _stacks(first, second))


def _stacks(first: Operation, second: Operation) -> list[tuple[Value, Value]]:
    """Returns the first loop's stacks that the second loop reads, each with its slice's value."""
    assert first.body is not None
    carried = scan_operands_of(first.parameter).carried
    stacked = zip(first.results[carried:], first.body.outputs[carried:], strict=True)
    return [
        (stack, out)
        for stack, out in stacked
        if stack in second.operands and isinstance(out, Value)
    ]


def _recompute_loops(first: Operation, second: Operation) -> tuple[Operation, Operation]:
    """Returns a forward loop that stacks its carried inputs, and a loop that recomputes."""
    assert first.body is not None
    divided = scan_operands_of(first.parameter)
    carried = first.body.inputs[divided.constants : divided.constants + divided.carried]
    length = int(str(first.parameter["length"]))
    stacks = tuple(
        Value(f"{value.name}.in", Type(value.type.dtype, (length, *value.type.shape)))
        for value in first.results[: divided.carried]
    )
    forward = replace(
        first,
        results=(*first.results, *stacks),
        body=replace(first.body, outputs=(*first.body.outputs, *carried)),
    )
    return forward, _backward_loop(first, second, stacks)


def _backward_loop(first: Operation, second: Operation, stacks: tuple[Value, ...]) -> Operation:
    assert first.body is not None
    assert second.body is not None
    ahead, back = scan_operands_of(first.parameter), scan_operands_of(second.parameter)
    made = dict(_stacks(first, second))
    kept = back.constants + back.carried
    inner = {value.name: Value(f"{value.name}.again", value.type) for value in first.body.inputs}
    names: dict[str, Operand] = dict(inner)
    for operation in first.body.operations:
        names |= {
            value.name: Value(f"{value.name}.again", value.type) for value in operation.results
        }
    substitutes: dict[str, Operand] = {}
    scanned, slices = [], []
    for outer, value in zip(second.operands[kept:], second.body.inputs[kept:], strict=True):
        if isinstance(outer, Value) and outer in made:
            substitutes[value.name] = names[made[outer].name]
        else:
            scanned.append(outer)
            slices.append(value)
    scans_from = ahead.constants + ahead.carried
    forward_inputs = list(inner.values())
    operations = [
        *(_rename(operation, names, names) for operation in first.body.operations),
        *(_rename(operation, substitutes, {}) for operation in second.body.operations),
    ]
    body = Graph(
        (
            *forward_inputs[: ahead.constants],
            *second.body.inputs[:kept],
            *slices,
            *forward_inputs[scans_from:],
            *forward_inputs[ahead.constants : scans_from],
        ),
        tuple(operations),
        tuple(substitutes.get(str(output), output) for output in second.body.outputs),
    )
    operands = (
        *first.operands[: ahead.constants],
        *second.operands[:kept],
        *scanned,
        *first.operands[scans_from:],
        *stacks,
    )
    count = ahead.constants + back.constants
    parameters = tuple((k, count if k == "num_consts" else v) for k, v in second.parameters)
    return replace(second, operands=operands, parameters=parameters, body=body)


def _rename(
    operation: Operation, read: Mapping[str, Operand], made: Mapping[str, Operand]
) -> Operation:
    results = (made.get(value.name, value) for value in operation.results)
    return replace(
        operation,
        operands=tuple(read.get(str(operand), operand) for operand in operation.operands),
        results=tuple(value for value in results if isinstance(value, Value)),
    )
