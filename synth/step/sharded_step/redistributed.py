"""All redistributions of a sharded step: which value, by which move, how often."""

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
    """One move of one value, ``times`` a step: in loops as often as they go round.

    In the passes of microbatches it is once for each, of that one's part.
    """

    value: Value
    move: ShardingMove
    times: int
    meaning: Meaning
    line: str


def list_step_moves(sharded: ShardedStep) -> tuple[StepMove, ...]:
    """Every move in the order of the text, those of loops where the loop is."""
    step = sharded.step
    return tuple(_moves(step.graph, input_meanings(step), ends_of(step), times_of(sharded)))


def times_of(sharded: ShardedStep) -> tuple[int, ...]:
    """How often each operation is done in a step: those of passes once for each microbatch."""
    microbatches = sharded.sizes.get(TIME, 1)
    return tuple(microbatches if one.when in PASSES else 1 for one in sharded.places) or (1,) * len(
        sharded.step.graph.operations
    )


@dataclass(frozen=True)
class PipelineTransfer:
    """A value that goes from each device of a stage to its twin on another, so often a step."""

    value: Value
    source: int
    target: int
    when: str
    times: int


def list_transfers(sharded: ShardedStep) -> tuple[PipelineTransfer, ...]:
    """All that is sent between stages, in the order of the text."""
    found = zip(sharded.step.graph.operations, sharded.places, times_of(sharded), strict=False)
    return tuple(
        PipelineTransfer(one.results[0], at.stage, int(str(one.parameter["to"])), at.when, times)
        for one, at, times in found
        if one.primitive == SEND
    )


def move_of(operation: Operation) -> ShardingMove:
    """The move of a redistribution, as the text says it: whether it may be is not asked."""
    [before], [after] = operation.operands, operation.results
    assert isinstance(before, Value), operation
    assert before.sharding is not None, operation
    assert after.sharding is not None, operation
    over = operation.parameter["over"]
    assert isinstance(over, tuple), operation
    how = MoveKind(operation.parameter["by"])
    return ShardingMove(how, tuple(map(str, over)), before.sharding, after.sharding)


def _moves(
    graph: Graph, inputs: Meanings, ends: dict[str, str], each: Sequence[int]
) -> Iterator[StepMove]:
    known = find_meanings(graph, inputs, ends)
    for operation, times in zip(graph.operations, each, strict=True):
        if operation.primitive == REDISTRIBUTE:
            [value] = operation.operands
            assert isinstance(value, Value), operation
            meaning = known.get(value.name, Meaning("value", ""))
            yield StepMove(value, move_of(operation), times, meaning, operation.line)
        if operation.body is not None:
            yield from _body_meanings(operation, operation.body, known, times)


def _body_meanings(loop: Operation, body: Graph, known: Meanings, times: int) -> Iterator[StepMove]:
    """Inputs of a body are slices of what they are outside, or the same; so are its outputs."""
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
    each = (times * length_of(loop),) * len(body.operations)
    yield from _moves(body, inputs, ends, each)
