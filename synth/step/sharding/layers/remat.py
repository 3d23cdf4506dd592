"""Layers done again: of each layer only what comes in is kept, and the rest is computed again.

The loop that goes forward stacks what the one that goes backward reads. Written so that it stacks
what it carries in, the backward loop does the forward body once more, of which what nobody reads
is left out. The values are the same (gradient checkpointing, Chen et al. 2016).
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
    """The step that keeps of each layer what comes in. Raises InputError if it has no loop for it.

    A step that was traced so is left as it is.
    """
    graph = step.graph
    found = False
    for at, first in enumerate(graph.operations):
        for later, second in enumerate(graph.operations[at + 1 :], at + 1):
            if _reads_back(first, second):
                forward, backward = _recompute_loops(first, second)
                operations = list(graph.operations)
                operations[at], operations[later] = forward, backward
                graph = prune(replace(graph, operations=tuple(operations)))
                return rematerialise(replace(step, graph=graph))
            found = found or follows(first, second)
    if not found:
        hint = "it is for layers in a loop; trace layers one by one with remat"
        raise InputError(f"{step.name} has no loop of layers to do again", where="plan", hint=hint)
    return step


def find_saved(step: Step) -> tuple[Value, ...]:
    """What loops keep for loops later in the step: their stacks. By name, in order."""
    loops = [one for one in step.graph.operations if one.body is not None]
    return tuple(
        value
        for at, first in enumerate(loops)
        for value in first.results[scan_operands_of(first.parameter).carried :]
        if any(value in second.operands for second in loops[at + 1 :])
    )


def follows(first: Operation, second: Operation) -> bool:
    """Whether a loop goes back over the layers of another."""
    if first.body is None or second.body is None:
        return False
    parameters = (first.parameter, second.parameter)
    lengths = {str(one["length"]) for one in parameters}
    ways = {str(one["reverse"]) for one in parameters}
    return len(lengths) == 1 and len(ways) == 2 and bool({*first.results} & {*second.operands})


def _reads_back(first: Operation, second: Operation) -> bool:
    """Whether a loop stacks more for the loop back than what it carries in."""
    if not follows(first, second):
        return False
    assert first.body is not None
    return any(one.name not in _inputs(first.body) for _, one in _stacks(first, second))


def _inputs(body: Graph) -> frozenset[str]:
    return frozenset(one.name for one in body.inputs)


def _stacks(first: Operation, second: Operation) -> list[tuple[Value, Value]]:
    """What the first loop stacks for the second, and what of its body that is."""
    assert first.body is not None
    carried = scan_operands_of(first.parameter).carried
    stacked = zip(first.results[carried:], first.body.outputs[carried:], strict=True)
    return [
        (stack, out)
        for stack, out in stacked
        if stack in second.operands and isinstance(out, Value)
    ]


def _recompute_loops(first: Operation, second: Operation) -> tuple[Operation, Operation]:
    """The loop forward that stacks what it carries in, and the loop back that does it again."""
    assert first.body is not None
    divided = scan_operands_of(first.parameter)
    brought = first.body.inputs[divided.constants : divided.constants + divided.carried]
    length = int(str(first.parameter["length"]))
    stacks = tuple(
        Value(f"{one.name}.in", Type(one.type.dtype, (length, *one.type.shape)))
        for one in first.results[: divided.carried]
    )
    forward = replace(
        first,
        results=(*first.results, *stacks),
        body=replace(first.body, outputs=(*first.body.outputs, *brought)),
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
        names |= {one.name: Value(f"{one.name}.again", one.type) for one in operation.results}
    read: dict[str, Operand] = {}
    scanned, slices = [], []
    for outer, value in zip(second.operands[kept:], second.body.inputs[kept:], strict=True):
        if isinstance(outer, Value) and outer in made:
            read[value.name] = names[made[outer].name]
        else:
            scanned.append(outer)
            slices.append(value)
    behind = ahead.constants + ahead.carried
    of_body = list(inner.values())
    operations = [
        *(_rename(one, names, names) for one in first.body.operations),
        *(_rename(one, read, {}) for one in second.body.operations),
    ]
    body = Graph(
        (
            *of_body[: ahead.constants],
            *second.body.inputs[:kept],
            *slices,
            *of_body[behind:],
            *of_body[ahead.constants : behind],
        ),
        tuple(operations),
        tuple(read.get(str(one), one) for one in second.body.outputs),
    )
    operands = (
        *first.operands[: ahead.constants],
        *second.operands[:kept],
        *scanned,
        *first.operands[behind:],
        *stacks,
    )
    count = ahead.constants + back.constants
    told = tuple((k, count if k == "num_consts" else v) for k, v in second.parameters)
    return replace(second, operands=operands, parameters=told, body=body)


def _rename(one: Operation, read: Mapping[str, Operand], made: Mapping[str, Operand]) -> Operation:
    results = (made.get(value.name, value) for value in one.results)
    return replace(
        one,
        operands=tuple(read.get(str(operand), operand) for operand in one.operands),
        results=tuple(value for value in results if isinstance(value, Value)),
    )
