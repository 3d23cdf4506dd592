"""Layers that go back in two loops, so that weight gradients may come later than input gradients.

The loop that goes backward over layers carries the gradient of their inputs and stacks those of
their weights. Written as two, the first does what is carried and stacks what the other reads of it;
the second does the rest, and nobody but the update waits for that. The values are the same.
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
    """The step with each loop that goes back over layers as two, where it makes both gradients."""
    loops = [one for one in step.graph.operations if one.body is not None]
    back = {
        id(second)
        for at, first in enumerate(loops)
        for second in loops[at + 1 :]
        if follows(first, second)
    }
    operations = [
        half
        for one in step.graph.operations
        for half in (_split_loop(one, one.body) if one.body and id(one) in back else [one])
    ]
    if len(operations) == len(step.graph.operations):
        return step
    return replace(step, graph=prune(replace(step.graph, operations=tuple(operations))))


def _split_loop(loop: Operation, body: Graph) -> list[Operation]:
    """The loop that makes what is carried, and that of what it stacks besides; or the loop."""
    carried = scan_operands_of(loop.parameter).carried
    needed = _find_needed(body, body.outputs[:carried])
    late = [one for one in body.operations if needed.isdisjoint(_names(one.results))]
    made_late = {name for one in late for name in _names(one.results)}
    stacked = list(zip(loop.results[carried:], body.outputs[carried:], strict=True))
    later = [(result, out) for result, out in stacked if str(out) in made_late]
    if not later or not carried:
        return [loop]
    sooner = [(result, out) for result, out in stacked if str(out) not in made_late]
    kept = _find_kept(loop, body, late)
    first = replace(
        loop,
        results=(
            *loop.results[:carried],
            *(result for result, _ in sooner),
            *(stack for stack, _ in kept),
        ),
        body=replace(
            body,
            operations=tuple(one for one in body.operations if one not in late),
            outputs=(
                *body.outputs[:carried],
                *(out for _, out in sooner),
                *(one for _, one in kept),
            ),
        ),
    )
    return [first, _weight_loop(loop, body, late, later, kept)]


Stacks = list[tuple[Value, Value]]
"""What a loop stacks, and what of its body that is."""


def _weight_loop(
    loop: Operation,
    body: Graph,
    late: list[Operation],
    later: list[tuple[Value, Operand]],
    kept: Stacks,
) -> Operation:
    """A loop that carries nothing and scans what is ``kept``."""
    divided = scan_operands_of(loop.parameter)
    begin, end = divided.constants, divided.constants + divided.carried
    told = tuple((key, 0 if key == "num_carry" else value) for key, value in loop.parameters)
    return replace(
        loop,
        operands=(*loop.operands[:begin], *loop.operands[end:], *(stack for stack, _ in kept)),
        results=tuple(result for result, _ in later),
        parameters=told,
        body=Graph(
            (*body.inputs[:begin], *body.inputs[end:], *(one for _, one in kept)),
            tuple(late),
            tuple(out for _, out in later),
        ),
    )


def _find_kept(loop: Operation, body: Graph, late: list[Operation]) -> Stacks:
    """What late operations read that earlier ones make, or that is carried in."""
    divided = scan_operands_of(loop.parameter)
    carried = body.inputs[divided.constants : divided.constants + divided.carried]
    own = {name for one in late for name in _names(one.results)}
    there = {value.name for value in body.inputs} - {value.name for value in carried}
    read = dict.fromkeys(
        operand
        for one in late
        for operand in one.operands
        if isinstance(operand, Value) and operand.name not in own | there
    )
    length = int(str(loop.parameter["length"]))
    name = loop.results[0].name
    return [
        (Value(f"{name}.{one.name}", Type(one.type.dtype, (length, *one.type.shape))), one)
        for one in read
    ]


def _find_needed(body: Graph, outputs: Iterable[Operand]) -> set[str]:
    """The names of all that some outputs come of."""
    needed = _names(outputs)
    for one in reversed(body.operations):
        if not needed.isdisjoint(_names(one.results)):
            needed |= _names(one.operands)
    return needed


def _names(several: Iterable[Operand]) -> set[str]:
    return {one.name for one in several if isinstance(one, Value)}
