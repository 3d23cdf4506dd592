"""What a loop does each time: in groups, and what of it the way back need not find in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grammar.tensors.operations import Graph, Operation, Value
from synth.step.sharding import LocalOperation, StepProgram
from synth.step.sharding.plan import scan_operands_of
from synth.step.simulation.groups import Key, LoopBody, OperationGrouping
from synth.step.simulation.kinds import BufferKind, kinds_inside
from synth.step.simulation.remade import find_recomputed


def body_of(
    one: LocalOperation,
    absent: tuple[bool, ...],
    there: tuple[bool, ...] | None,
    kinds: Mapping[str, BufferKind],
    grouping: OperationGrouping,
    inputs: Mapping[str, tuple[Value, ...]],
) -> LoopBody:
    """The body of a loop in groups; loops that do the same have one.

    ``absent`` are inputs of it that are numbers written out; ``there``, those that are in memory
    anyway. None, nothing is made again. ``inputs``: what of those that come in is computed again
    from which parts.
    """
    loop, graph, body = one.operation, one.operation.body, one.body
    assert graph is not None
    assert isinstance(body, StepProgram)
    outside = tuple(kinds.get(str(value)) for value in (*loop.operands, *loop.results))
    key = id(graph), id(body), absent, there, outside, tuple(inputs.items())
    if key not in grouping.bodies:
        grouping.bodies[key] = _body(loop, graph, body, absent, there, kinds, grouping, inputs)
    return grouping.bodies[key]


def _body(
    loop: Operation,
    graph: Graph,
    body: StepProgram,
    absent: Sequence[bool],
    there: Sequence[bool] | None,
    kinds: Mapping[str, BufferKind],
    grouping: OperationGrouping,
    again: Mapping[str, tuple[Value, ...]],
) -> LoopBody:
    carried = scan_operands_of(loop.parameter).carried
    both = list(zip(graph.outputs, body.outputs, strict=True))
    made = [(one.name, lies) for one, lies in both if isinstance(one, Value)]
    fresh: Mapping[Key, tuple[Key, ...]] = {}
    if there is not None:
        inputs = {
            (value.name, lies): 0 if known else grouping.bytes_of(value.type, lies)
            for value, lies, known in zip(graph.inputs, body.inputs, there, strict=True)
        }
        stacked = [(one.name, lies) for one, lies in both[carried:] if isinstance(one, Value)]
        fresh = find_recomputed(body, inputs, stacked, grouping.bytes_of, grouping.sizes)
    read = [*made, *dict.fromkeys(key for roots in fresh.values() for key in roots)]
    written_out = zip(graph.inputs, absent, strict=True)
    constants = [value.name for value, gone in written_out if gone]
    return LoopBody(
        (graph, body),
        tuple((one.name, lies) for one, lies in zip(graph.inputs, body.inputs, strict=True)),
        tuple(item for item, _ in grouping.of(graph, body, read, constants, fresh, again)),
        tuple((str(one), lies) for one, lies in both),
        kinds_inside(loop, graph, kinds),
        fresh,
    )
