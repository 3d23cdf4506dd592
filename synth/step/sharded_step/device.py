"""Derives from a sharded step the unsharded step, and the part of one device.

The unsharded step remains after removing shardings and redistributions: a plan inserts nothing
else. All devices run the same program, so the part of one device represents all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from grammar.tensors.operations import (
    EVERYWHERE,
    MOVING,
    SEND,
    Graph,
    Literal,
    Operand,
    Operation,
    ShardedStep,
    Step,
    Value,
)
from grammar.tensors.sharding import Type, part_shape


def unshard(sharded: ShardedStep) -> Step:
    """Returns the step without shardings and moves; with stages, in the order of the text."""
    return replace(sharded.step, graph=_WholeValues().graph(sharded.step.graph))


def to_device_step(sharded: ShardedStep) -> Step:
    """Returns the step with the shapes of one device's parts, including its redistributions.

    Parameters of primitives are unchanged, because FLOPs and bytes depend on shapes only. Use
    ``synth.step.factors.part_of`` for operations to execute.
    """
    return replace(sharded.step, graph=_part(sharded.step.graph, sharded.sizes))


def split_stages(sharded: ShardedStep) -> tuple[ShardedStep, ...]:
    """Returns the sharded step of each stage, with its inputs; a single step without stages."""
    count = 1 + max((place.stage for place in sharded.places), default=0)
    return (sharded,) if count == 1 else tuple(_stage(sharded, at) for at in range(count))


def _stage(sharded: ShardedStep, stage: int) -> ShardedStep:
    step = sharded.step
    pairs = zip(step.graph.operations, sharded.places, strict=True)
    own = [(op, place) for op, place in pairs if place.stage in (stage, EVERYWHERE)]
    made = {value.name for op, _ in own for value in op.results if op.primitive != SEND}
    outside = {name for name in step.graph.values if name not in made}
    read = {str(operand) for op, _ in own for operand in op.operands} & outside
    kept = [at for at, value in enumerate(step.graph.inputs) if value.name in read]
    outs = [at for at, value in enumerate(step.graph.outputs) if str(value) in made]
    graph = Graph(
        tuple(step.graph.inputs[at] for at in kept),
        tuple(op for op, _ in own),
        tuple(step.graph.outputs[at] for at in outs),
    )
    updates = tuple(
        (outs.index(out), kept.index(place))
        for out, place in step.updates
        if out in outs and place in kept
    )
    roles, labels = (tuple(words[at] for at in kept) for words in (step.roles, step.labels))
    return replace(
        sharded,
        step=replace(step, graph=graph, roles=roles, labels=labels, updates=updates),
        places=tuple(place for _, place in own),
    )


@dataclass
class _WholeValues:
    """Unsharded values, by their own names and the names of their redistributions."""

    values: dict[str, Value] = field(default_factory=dict)

    def graph(self, graph: Graph) -> Graph:
        inputs = tuple(map(self.make, graph.inputs))
        operations = []
        for operation in graph.operations:
            if operation.primitive in MOVING:
                source = self.values[str(operation.operands[0])]
                self.values[operation.results[0].name] = source
            else:
                operations.append(self.operation(operation))
        return Graph(inputs, tuple(operations), tuple(map(self.read, graph.outputs)))

    def operation(self, sharded: Operation) -> Operation:
        return replace(
            sharded,
            operands=tuple(map(self.read, sharded.operands)),
            results=tuple(map(self.make, sharded.results)),
            body=None if sharded.body is None else _WholeValues().graph(sharded.body),
        )

    def make(self, value: Value) -> Value:
        self.values[value.name] = replace(value, sharding=None)
        return self.values[value.name]

    def read(self, operand: Operand) -> Operand:
        return operand if isinstance(operand, Literal) else self.values[operand.name]


def _part(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    def part(value: Value) -> Value:
        assert value.sharding is not None, value
        shape = part_shape(value.type, value.sharding, sizes)
        return Value(value.name, Type(value.type.dtype, shape))

    def read(operand: Operand) -> Operand:
        return operand if isinstance(operand, Literal) else part(operand)

    def part_of_operation(operation: Operation) -> Operation:
        return replace(
            operation,
            operands=tuple(map(read, operation.operands)),
            results=tuple(map(part, operation.results)),
            body=None if operation.body is None else _part(operation.body, sizes),
        )

    return Graph(
        tuple(map(part, graph.inputs)),
        tuple(map(part_of_operation, graph.operations)),
        tuple(map(read, graph.outputs)),
    )
