"""The two steps that a sharded one stands for: the whole, and what one device does of it.

The whole is what is left without types and redistributions: a plan puts in nothing else. All
devices do alike, so one stands for all.
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
    """The step that a sharded one was made of; in stages, in the order of its text."""
    return replace(sharded.step, graph=_WholeValues().graph(sharded.step.graph))


def to_device_step(sharded: ShardedStep) -> Step:
    """The step with the shapes of one device's parts; redistributions are still in it.

    Parameters of primitives are left as they are: to count operations and bytes takes shapes only.
    ``synth.step.factors.part_of`` has what to execute.
    """
    return replace(sharded.step, graph=_part(sharded.step.graph, sharded.sizes))


def split_stages(sharded: ShardedStep) -> tuple[ShardedStep, ...]:
    """What a device of each stage does, of what it reads; alone what one without stages does."""
    count = 1 + max((one.stage for one in sharded.places), default=0)
    return (sharded,) if count == 1 else tuple(_stage(sharded, at) for at in range(count))


def _stage(sharded: ShardedStep, stage: int) -> ShardedStep:
    step = sharded.step
    both = zip(step.graph.operations, sharded.places, strict=True)
    own = [(one, at) for one, at in both if at.stage in (stage, EVERYWHERE)]
    made = {value.name: value for one, _ in own for value in one.results if one.primitive != SEND}
    inside = {name for name in step.graph.values if name not in made}
    read = {str(operand) for one, _ in own for operand in one.operands} & inside
    kept = [at for at, value in enumerate(step.graph.inputs) if value.name in read]
    outs = [at for at, value in enumerate(step.graph.outputs) if str(value) in made]
    graph = Graph(
        tuple(step.graph.inputs[at] for at in kept),
        tuple(one for one, _ in own),
        tuple(step.graph.outputs[at] for at in outs),
    )
    updates = tuple(
        (outs.index(out), kept.index(place))
        for out, place in step.updates
        if out in outs and place in kept
    )
    roles, labels = (tuple(some[at] for at in kept) for some in (step.roles, step.labels))
    return replace(
        sharded,
        step=replace(step, graph=graph, roles=roles, labels=labels, updates=updates),
        places=tuple(at for _, at in own),
    )


def part_type(value: Value, sizes: Mapping[str, int]) -> Type:
    """What one device holds of a value of a sharded step."""
    assert value.sharding is not None, value
    return Type(value.type.dtype, part_shape(value.type, value.sharding, sizes))


@dataclass
class _WholeValues:
    """Values by the names that they and their redistributions have."""

    values: dict[str, Value] = field(default_factory=dict)

    def graph(self, graph: Graph) -> Graph:
        inputs = tuple(map(self.made, graph.inputs))
        operations = []
        for one in graph.operations:
            if one.primitive in MOVING:
                self.values[one.results[0].name] = self.values[str(one.operands[0])]
            else:
                operations.append(self.operation(one))
        return Graph(inputs, tuple(operations), tuple(map(self.read, graph.outputs)))

    def operation(self, one: Operation) -> Operation:
        return replace(
            one,
            operands=tuple(map(self.read, one.operands)),
            results=tuple(map(self.made, one.results)),
            body=None if one.body is None else _WholeValues().graph(one.body),
        )

    def made(self, value: Value) -> Value:
        self.values[value.name] = replace(value, sharding=None)
        return self.values[value.name]

    def read(self, operand: Operand) -> Operand:
        return operand if isinstance(operand, Literal) else self.values[operand.name]


def _part(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    def part(value: Value) -> Value:
        return Value(value.name, part_type(value, sizes))

    def read(operand: Operand) -> Operand:
        return operand if isinstance(operand, Literal) else part(operand)

    def done(operation: Operation) -> Operation:
        return replace(
            operation,
            operands=tuple(map(read, operation.operands)),
            results=tuple(map(part, operation.results)),
            body=None if operation.body is None else _part(operation.body, sizes),
        )

    return Graph(
        tuple(map(part, graph.inputs)),
        tuple(map(done, graph.operations)),
        tuple(map(read, graph.outputs)),
    )
