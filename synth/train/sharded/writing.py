"""A plan's program as a sharded step: its text says all that devices do.

A value that lies in several ways has a name for each: ``v7`` is how it was made, ``v7.1`` and
further ones what redistributions make of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count

from grammar.tensors.operations import (
    REDISTRIBUTE,
    Graph,
    Operand,
    Operation,
    ShardedStep,
    Step,
    Value,
)
from grammar.tensors.sharding import Sharding
from synth.train.plans import Done, Moved, Plan, Program
from synth.train.resharding import Move


def sharded_step(step: Step, plan: Plan, program: Program) -> ShardedStep:
    """The step as devices do it, where ``program`` is what the plan makes of it."""
    written = replace(step, graph=_graph(step.graph, program))
    return ShardedStep(plan.axes, written)


def _graph(graph: Graph, program: Program) -> Graph:
    writer = _Writer({*graph.values})
    inputs = tuple(map(writer.made, graph.inputs, program.inputs))
    for one in program.instructions:
        match one:
            case Done():
                writer.do(one)
            case Moved():
                writer.move(one)
    outputs = tuple(map(writer.read, graph.outputs, program.outputs))
    return Graph(inputs, tuple(writer.operations), outputs)


@dataclass
class _Writer:
    """What is written so far: under which name each value lies in which way."""

    taken: set[str]
    held: dict[tuple[str, Sharding], Value] = field(default_factory=dict)
    lines: dict[str, str] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)

    def made(self, value: Value, sharding: Sharding) -> Value:
        found = replace(value, sharding=sharding)
        self.held[value.name, sharding] = found
        return found

    def read(self, operand: Operand, sharding: Sharding) -> Operand:
        return self.held[operand.name, sharding] if isinstance(operand, Value) else operand

    def do(self, done: Done) -> None:
        operation, how = done.operation, done.how
        operands = tuple(map(self.read, operation.operands, how.operands))
        results = tuple(map(self.made, operation.results, how.results))
        body = operation.body
        if body is not None:
            assert done.body is not None, operation
            body = _graph(body, done.body)
        self.lines.update((one.name, operation.line) for one in results)
        self.operations.append(replace(operation, operands=operands, results=results, body=body))

    def move(self, moved: Moved) -> None:
        before = self.held[moved.value.name, moved.path.source]
        for move in moved.path.moves:
            after = replace(before, name=self._name(moved.value.name), sharding=move.after)
            line = self.lines.get(moved.value.name, "")
            self.operations.append(_redistribution(move, before, after, line))
            before = after
        self.held[moved.value.name, moved.path.target] = before

    def _name(self, of: str) -> str:
        found = next(name for at in count(1) if (name := f"{of}.{at}") not in self.taken)
        self.taken.add(found)
        return found


def _redistribution(move: Move, before: Value, after: Value, line: str) -> Operation:
    told = (("by", move.how.value), ("over", move.axes))
    return Operation(REDISTRIBUTE, (before,), (after,), told, line=line)
