"""What one device does of a sharded step: the same operations on parts.

All devices do alike, so one stands for all. Parameters of primitives are left as they are: to count
operations and bytes takes shapes only. ``synth.train.factors.part`` has what to execute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from grammar.tensors.operations import Graph, Literal, Operand, Operation, ShardedStep, Step, Value
from grammar.tensors.sharding import Type, part_shape


def on_one_device(sharded: ShardedStep) -> Step:
    """The step with the shapes of one device's parts; redistributions are still in it."""
    return replace(sharded.step, graph=_graph(sharded.step.graph, sharded.sizes))


def part_type(value: Value, sizes: Mapping[str, int]) -> Type:
    """What one device holds of a value of a sharded step."""
    assert value.sharding is not None, value
    return Type(value.type.dtype, part_shape(value.type, value.sharding, sizes))


def _graph(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    def part(value: Value) -> Value:
        return Value(value.name, part_type(value, sizes))

    def read(operand: Operand) -> Operand:
        return operand if isinstance(operand, Literal) else part(operand)

    def done(operation: Operation) -> Operation:
        return replace(
            operation,
            operands=tuple(map(read, operation.operands)),
            results=tuple(map(part, operation.results)),
            body=None if operation.body is None else _graph(operation.body, sizes),
        )

    return Graph(
        tuple(map(part, graph.inputs)),
        tuple(map(done, graph.operations)),
        tuple(map(read, graph.outputs)),
    )
