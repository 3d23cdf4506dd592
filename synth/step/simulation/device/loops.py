"""Groups the body of a loop, and decides which of its results are recomputed instead of kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grammar.tensors.operations import Graph, Operation, Value
from synth.step.sharding import LocalOperation, StepProgram
from synth.step.sharding.plan import scan_operands_of
from synth.step.sharding.program import Key
from synth.step.simulation.groups import LoopBody, OperationGrouping
from synth.step.simulation.kinds import BufferKind, kinds_inside
from synth.step.simulation.remade import find_recomputed


def body_of(
    instruction: LocalOperation,
    absent: tuple[bool, ...],
    there: tuple[bool, ...] | None,
    kinds: Mapping[str, BufferKind],
    grouping: OperationGrouping,
    inputs: Mapping[str, tuple[Value, ...]],
) -> LoopBody:
    """Groups the body of a loop; the result is cached for equal loops.

    ``absent``: which inputs are literals. ``there``: which inputs are kept in any case; None if
    nothing is recomputed. ``inputs``: recomputed inputs, with the parts they are computed from.
    """
    loop, graph, body = instruction.operation, instruction.operation.body, instruction.body
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
    recomputed: Mapping[str, tuple[Value, ...]],
) -> LoopBody:
    carried = scan_operands_of(loop.parameter).carried
    outputs = list(zip(graph.outputs, body.outputs, strict=True))
    made = [(value.name, sharding) for value, sharding in outputs if isinstance(value, Value)]
    fresh: Mapping[Key, tuple[Key, ...]] = {}
    if there is not None:
        inputs = {
            (value.name, sharding): 0 if known else grouping.bytes_of(value.type, sharding)
            for value, sharding, known in zip(graph.inputs, body.inputs, there, strict=True)
        }
        stacked = [
            (value.name, sharding)
            for value, sharding in outputs[carried:]
            if isinstance(value, Value)
        ]
        fresh = find_recomputed(body, inputs, stacked, grouping.bytes_of, grouping.sizes)
    read = [*made, *dict.fromkeys(key for roots in fresh.values() for key in roots)]
    literals = zip(graph.inputs, absent, strict=True)
    constants = [value.name for value, is_absent in literals if is_absent]
    return LoopBody(
        (graph, body),
        tuple(
            (value.name, sharding)
            for value, sharding in zip(graph.inputs, body.inputs, strict=True)
        ),
        tuple(item for item, _ in grouping.of(graph, body, read, constants, fresh, recomputed)),
        tuple((str(value), sharding) for value, sharding in outputs),
        kinds_inside(loop, graph, kinds),
        fresh,
    )
