"""Lists the redistributions and sends of a sharded step, with how often they run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grammar.tensors.operations import (
    PASSES,
    REDISTRIBUTE,
    SEND,
    Graph,
    Operation,
    ShardedStep,
    Value,
)
from synth.step.redistribution import MoveKind, ShardingMove
from synth.step.sharded_step.meanings import (
    Meaning,
    Meanings,
    ends_of,
    find_meanings,
    input_meanings,
)
from synth.step.sharding.plan import TIME
from synth.step.work import length_of


@dataclass(frozen=True)
class StepMove:
    """One move of one value, ``times`` per step: once for each iteration of the loops around it.

    In the passes of microbatches it runs once per microbatch, on the part of that microbatch.
    """

    value: Value
    move: ShardingMove
    times: int
    meaning: Meaning
    line: str


def list_step_moves(sharded: ShardedStep) -> tuple[StepMove, ...]:
    """Returns every move in the order of the text; the moves of a loop are at the loop's place."""
    step = sharded.step
    return tuple(_moves(step.graph, input_meanings(step), ends_of(step), times_of(sharded)))


def times_of(sharded: ShardedStep) -> tuple[int, ...]:
    """Returns how often each operation runs in a step: in passes once per microbatch."""
    if not sharded.places:
        return (1,) * len(sharded.step.graph.operations)
    microbatches = sharded.sizes.get(TIME, 1)
    return tuple(microbatches if place.when in PASSES else 1 for place in sharded.places)


@dataclass(frozen=True)
class PipelineTransfer:
    """A value sent from each device of a stage to its counterpart, ``times`` per step."""

    value: Value
    source: int
    target: int
    when: str
    times: int


def list_transfers(sharded: ShardedStep) -> tuple[PipelineTransfer, ...]:
    """Returns all sends between stages, in the order of the text."""
    placed = zip(sharded.step.graph.operations, sharded.places, times_of(sharded), strict=False)
    return tuple(
        PipelineTransfer(send.results[0], at.stage, int(str(send.parameter["to"])), at.when, times)
        for send, at, times in placed
        if send.primitive == SEND
    )


def move_of(operation: Operation) -> ShardingMove:
    """Reads the move of a redistribution from its text, without checking that it is legal."""
    [before], [after] = operation.operands, operation.results
    assert isinstance(before, Value), operation
    assert before.sharding is not None, operation
    assert after.sharding is not None, operation
    over = operation.parameter["over"]
    assert isinstance(over, tuple), operation
    how = MoveKind(operation.parameter["by"])
    return ShardingMove(how, tuple(map(str, over)), before.sharding, after.sharding)


def _moves(
    graph: Graph, inputs: Meanings, ends: dict[str, str], counts: Sequence[int]
) -> Iterator[StepMove]:
    known = find_meanings(graph, inputs, ends)
    for operation, times in zip(graph.operations, counts, strict=True):
        if operation.primitive == REDISTRIBUTE:
            [value] = operation.operands
            assert isinstance(value, Value), operation
            meaning = known.get(value.name, Meaning("value", ""))
            yield StepMove(value, move_of(operation), times, meaning, operation.line)
        if operation.body is not None:
            yield from _body_moves(operation, operation.body, known, times)


def _body_moves(loop: Operation, body: Graph, known: Meanings, times: int) -> Iterator[StepMove]:
    """Yields the moves of a body, whose inputs and outputs mean the same as outside the loop."""
    inputs = {
        inner.name: known[str(outer)]
        for inner, outer in zip(body.inputs, loop.operands, strict=True)
        if str(outer) in known
    }
    ends = {
        str(inner): known[outer.name].label
        for inner, outer in zip(body.outputs, loop.results, strict=True)
        if outer.name in known
    }
    counts = (times * length_of(loop),) * len(body.operations)
    yield from _moves(body, inputs, ends, counts)
