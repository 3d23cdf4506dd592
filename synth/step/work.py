"""What a step computes: floating-point operations by primitive, and bytes that live at once.

A loop's body counts as often as it is repeated. Nothing is fused and nothing is cut: it is what the
text of the step says, on one device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat

from grammar.tensors.operations import Graph, Operation, Step
from grammar.tensors.primitives import ARITHMETIC, MOVED, MULTIPLIED, RANDOM, REDUCED, REPEATED
from synth.compute.flops import flops_of

KINDS: Mapping[str, frozenset[str]] = {
    "products": MULTIPLIED,
    "elementwise": ARITHMETIC,
    "reductions": REDUCED,
    "movement": MOVED | RANDOM,
}


@dataclass(frozen=True)
class PrimitiveWork:
    """All that one primitive does in a step: how often it is done, and its operations in all."""

    primitive: str
    kind: str
    times: int
    flops: int


@dataclass(frozen=True)
class Repetition:
    """A loop: how often its body is done in the step, of how many operations, written where."""

    count: int
    operations: int
    line: str


def work_of(step: Step) -> tuple[PrimitiveWork, ...]:
    """The work by primitive, the most first. Raises InputError for operands that cannot be."""
    times: Counter[str] = Counter()
    flops: Counter[str] = Counter()
    for operation, count in count_primitives(step.graph):
        times[operation.primitive] += count
        flops[operation.primitive] += count * flops_of(operation)
    found = (PrimitiveWork(name, _kind_of(name), times[name], flops[name]) for name in times)
    return tuple(sorted(found, key=lambda one: (-one.flops, -one.times, one.primitive)))


def list_repetitions(step: Step) -> tuple[Repetition, ...]:
    """The loops in the order of the text, those inside others after them."""
    return tuple(
        Repetition(
            count * length_of(one),
            sum(1 for _ in one.body.everywhere()) if one.body else 0,
            one.line,
        )
        for one, count in _count_operations(step.graph, repeat(1))
        if one.primitive == REPEATED
    )


def count_primitives(
    graph: Graph, each: Iterable[int] | None = None
) -> Iterator[tuple[Operation, int]]:
    """All operations but the loops themselves, and how often each is done.

    ``each``: how often those of the graph itself are, once unless given.
    """
    every = _count_operations(graph, repeat(1) if each is None else each)
    return ((one, times) for one, times in every if one.primitive != REPEATED)


def length_of(loop: Operation) -> int:
    """How often a loop does its body."""
    return int(str(loop.parameter["length"]))


def peak_bytes(step: Step) -> int:
    """The most bytes of values that live at once, done in the order of the text.

    Parameters, moments and batch apart, and what takes their place: a new parameter is written
    where the old one was. Results that are stacked by a loop live from its begin.
    """
    in_place = {str(step.graph.outputs[out]) for out, _ in step.updates}
    return _peak(step.graph, in_place)


def _peak(graph: Graph, in_place: set[str]) -> int:
    ends = {str(one): len(graph.operations) for one in graph.outputs}
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
        for one in (*operation.operands, *operation.results):
            if ends.get(str(one), 0) <= at:
                held -= living.pop(str(one), 0)
    return most


def _stacked_names(loop: Operation) -> set[str]:
    """What the body writes into the results of the loop, which are counted outside."""
    assert loop.body is not None
    return {str(one) for one in loop.body.outputs}


def _count_operations(graph: Graph, each: Iterable[int]) -> Iterator[tuple[Operation, int]]:
    """All operations, and how often each is done."""
    for operation, times in zip(graph.operations, each, strict=False):
        yield operation, times
        if operation.body is not None:
            yield from _count_operations(operation.body, repeat(times * length_of(operation)))


def _kind_of(primitive: str) -> str:
    return next((kind for kind, names in KINDS.items() if primitive in names), "unknown")
