"""What a step computes: floating-point operations by primitive, and bytes that live at once.

Of a product of matrices every multiplication and addition counts, of anything else one operation
for each element that is made, or put together; data that only moves costs nothing here. A loop's
body counts as often as it is repeated. Nothing is fused and nothing is cut: it is what the text
of the step says, on one device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from grammar.tensors.operations import Graph, Operand, Operation, Step, Value
from grammar.tensors.sharding import Type
from hierarchies import InputError
from synth.train.jaxpr.primitives import ARITHMETIC, MOVED, MULTIPLIED, RANDOM, REDUCED, REPEATED

KINDS: Mapping[str, frozenset[str]] = {
    "products": MULTIPLIED,
    "elementwise": ARITHMETIC,
    "reductions": REDUCED,
    "movement": MOVED | RANDOM,
}


MOST_PLACES = 10**6
"""The most places of a window that are counted along one dimension of a convolution."""


@dataclass(frozen=True)
class Work:
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


def work_of(step: Step) -> tuple[Work, ...]:
    """The work by primitive, the most first. Raises InputError for operands that cannot be."""
    times: Counter[str] = Counter()
    flops: Counter[str] = Counter()
    for operation, count in _done(step.graph, 1):
        if operation.primitive != REPEATED:
            times[operation.primitive] += count
            flops[operation.primitive] += count * flops_of(operation)
    found = (Work(name, _kind(name), times[name], flops[name]) for name in times)
    return tuple(sorted(found, key=lambda one: (-one.flops, -one.times, one.primitive)))


def repetitions(step: Step) -> tuple[Repetition, ...]:
    """The loops in the order of the text, those inside others after them."""
    return tuple(
        Repetition(
            count * length_of(one),
            sum(1 for _ in one.body.everywhere()) if one.body else 0,
            one.line,
        )
        for one, count in _done(step.graph, 1)
        if one.primitive == REPEATED
    )


def flops_of(operation: Operation) -> int:
    """Of one operation, done once. Raises InputError for operands that cannot be."""
    if operation.primitive in _PRODUCTS:
        try:
            return _PRODUCTS[operation.primitive](operation)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            problem = f"{operation.primitive} of such operands and parameters"
            raise InputError(problem, where=operation.line) from None
    if operation.primitive in ARITHMETIC:
        return operation.results[0].type.elements
    if operation.primitive in REDUCED:
        return sum(_type(one).elements for one in operation.operands[:1])
    return 0


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
        inside = 0 if operation.body is None else _peak(operation.body, _stacked(operation))
        most = max(most, held + inside)
        for one in (*operation.operands, *operation.results):
            if ends.get(str(one), 0) <= at:
                held -= living.pop(str(one), 0)
    return most


def _stacked(loop: Operation) -> set[str]:
    """What the body writes into the results of the loop, which are counted outside."""
    assert loop.body is not None
    return {str(one) for one in loop.body.outputs}


def _done(graph: Graph, times: int) -> Iterator[tuple[Operation, int]]:
    """All operations, and how often each is done."""
    for operation in graph.operations:
        yield operation, times
        if operation.body is not None:
            yield from _done(operation.body, times * length_of(operation))


def _kind(primitive: str) -> str:
    return next((kind for kind, names in KINDS.items() if primitive in names), "unknown")


def _type(operand: Operand) -> Type:
    return operand.type if isinstance(operand, Value) else Type(operand.dtype, ())


def _dot(operation: Operation) -> int:
    """Two for each element of the result and each of what is summed over."""
    told: Mapping[str, Any] = operation.parameter
    (summed, _), _ = told["dimension_numbers"]
    left = _type(operation.operands[0]).shape
    deep: int = prod(left[d] for d in summed)
    return 2 * operation.results[0].type.elements * deep


def _ragged(operation: Operation) -> int:
    """Every row meets the matrix of its group only: the number of groups does not matter."""
    given: Mapping[str, Any] = operation.parameter
    told = dict(given["ragged_dot_dimension_numbers"])
    (_, summed), (_, batch) = told["dot_dimension_numbers"]
    left, right = (_type(one) for one in operation.operands[:2])
    taken = {*summed, *batch, *told["rhs_group_dimensions"]}
    free = prod(size for d, size in enumerate(right.shape) if d not in taken)
    return 2 * left.elements * free


def _convolution(operation: Operation) -> int:
    """Two for each element of the result, input feature and place of the window inside the input.

    What the window meets outside, or between the elements of a dilated input, are no products.
    """
    told: Mapping[str, Any] = operation.parameter
    numbers = dict(told["dimension_numbers"])
    left, kernel = (_type(one).shape for one in operation.operands[:2])
    made = operation.results[0].type.shape
    met: int = made[numbers["out_spec"][0]] * made[numbers["out_spec"][1]]
    met *= kernel[numbers["rhs_spec"][1]]
    for at, (low, _) in enumerate(told["padding"]):
        size, window, out = (
            shape[numbers[spec][at + 2]]
            for shape, spec in ((left, "lhs_spec"), (kernel, "rhs_spec"), (made, "out_spec"))
        )
        if window * out > MOST_PLACES:
            raise ValueError("too many to be counted")
        step, apart = told["window_strides"][at], told["lhs_dilation"][at]
        places = (
            o * step + w * told["rhs_dilation"][at] - low for o in range(out) for w in range(window)
        )
        met *= sum(0 <= place < size * apart and place % apart == 0 for place in places)
    return 2 * met


_PRODUCTS: Mapping[str, Callable[[Operation], int]] = {
    "dot_general": _dot,
    "ragged_dot_general": _ragged,
    "conv_general_dilated": _convolution,
}
