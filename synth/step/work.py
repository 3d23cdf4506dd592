"""Work of a step on one device: FLOPs by primitive, and the peak of live bytes.

The body of a loop counts once per repetition. Nothing is fused or sharded: the operations are
those of the step's text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat

from grammar.tensors.operations import REPEATED, Graph, Operation, Step
from synth.compute.flops import flops_of
from synth.primitives import WorkKind, kind_of


@dataclass(frozen=True)
class PrimitiveWork:
    """The work of one primitive in a step: how often it runs, and its total FLOPs."""

    primitive: str
    kind: str
    times: int
    flops: int


@dataclass(frozen=True)
class Repetition:
    """A loop: how often its body runs in a step, the number of operations in it, and its line."""

    count: int
    operations: int
    line: str


def work_of(step: Step) -> tuple[PrimitiveWork, ...]:
    """Returns the work by primitive, most FLOPs first. Raises InputError for illegal operands."""
    times: Counter[str] = Counter()
    flops: Counter[str] = Counter()
    for operation, count in count_primitives(step.graph):
        times[operation.primitive] += count
        flops[operation.primitive] += count * flops_of(operation)
    works = (PrimitiveWork(name, _kind_of(name), times[name], flops[name]) for name in times)
    return tuple(sorted(works, key=lambda work: (-work.flops, -work.times, work.primitive)))


def list_repetitions(step: Step) -> tuple[Repetition, ...]:
    """Returns the loops in the order of the text; a nested loop follows the loop around it."""
    return tuple(
        Repetition(
            count * length_of(loop),
            sum(1 for _ in loop.body.everywhere()) if loop.body else 0,
            loop.line,
        )
        for loop, count in _count_operations(step.graph, repeat(1))
        if loop.primitive == REPEATED
    )


def count_primitives(
    graph: Graph, counts: Iterable[int] | None = None
) -> Iterator[tuple[Operation, int]]:
    """Yields all operations except loops, and how often each runs.

    ``counts`` is how often each operation of the graph itself runs; once by default.
    """
    counted = _count_operations(graph, repeat(1) if counts is None else counts)
    return ((operation, times) for operation, times in counted if operation.primitive != REPEATED)


def length_of(loop: Operation) -> int:
    """Returns how often a loop runs its body."""
    return int(str(loop.parameter["length"]))


def peak_bytes(step: Step) -> int:
    """Returns the largest number of bytes of values alive at once, in the order of the text.

    Inputs are not counted, nor are outputs that replace them: a new parameter overwrites the old
    parameter in place. Results that a loop stacks are alive from the start of the loop.
    """
    in_place = {str(step.graph.outputs[out]) for out, _ in step.updates}
    return _peak(step.graph, in_place)


def _peak(graph: Graph, in_place: set[str]) -> int:
    ends = {str(output): len(graph.operations) for output in graph.outputs}
    for at, operation in enumerate(graph.operations):
        for operand in operation.operands:
            ends[str(operand)] = max(ends.get(str(operand), 0), at)
    living: dict[str, int] = {}
    most = held = 0
    for at, operation in enumerate(graph.operations):
        for result in operation.results:
            if result.name not in in_place:
                living[result.name] = result.type.bytes
                held += result.type.bytes
        inside = 0 if operation.body is None else _peak(operation.body, _stacked_names(operation))
        most = max(most, held + inside)
        for value in (*operation.operands, *operation.results):
            if ends.get(str(value), 0) <= at:
                held -= living.pop(str(value), 0)
    return most


def _stacked_names(loop: Operation) -> set[str]:
    """Returns values that the body writes into the loop's results; they are counted outside."""
    assert loop.body is not None
    return {str(output) for output in loop.body.outputs}


def _count_operations(graph: Graph, counts: Iterable[int]) -> Iterator[tuple[Operation, int]]:
    """Yields all operations, and how often each runs."""
    # Not strict: ``counts`` may be an endless ``repeat``.
    for operation, times in zip(graph.operations, counts, strict=False):
        yield operation, times
        if operation.body is not None:
            yield from _count_operations(operation.body, repeat(times * length_of(operation)))


def _kind_of(primitive: str) -> str:
    kind = kind_of(primitive)
    return str((WorkKind.MOVEMENT if kind is WorkKind.RANDOM else kind).value)
