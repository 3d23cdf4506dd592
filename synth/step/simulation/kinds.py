"""Determines the use of each value in memory, from its origin and its readers.

The kind of an input is determined by its role. A gradient has the shape of a parameter, and the new
parameter is computed from it by elementwise operations alone. Values from which gradients are cast,
reshaped or summed are also gradients. A value computed from parameters alone, such as a cast or a
gather of them, is a copy. All other values are activations, whether or not the backward pass reads
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache

from grammar.tensors.operations import Graph, Operation, Step, Value
from synth.primitives import ARITHMETIC, MOVED
from synth.step.same import IdentityKey


class BufferKind(Enum):
    """The use of a buffer."""

    PARAMETERS = "parameters"
    MOMENTS = "optimizer state"
    GRADIENTS = "gradients"
    COPIES = "copies of parameters"
    GATHERED = "gathered parameters"
    ACTIVATIONS = "activations"
    RECEIVED = "redistributed activations"
    INPUTS = "batch and state"
    WORKING = "working memory of a pass"


_ROLES = {"parameter": BufferKind.PARAMETERS, "moment": BufferKind.MOMENTS}


def moved_kind(kind: BufferKind) -> BufferKind:
    """Returns the kind of a value after it is redistributed."""
    match kind:
        case BufferKind.PARAMETERS | BufferKind.COPIES | BufferKind.GATHERED:
            return BufferKind.GATHERED
        case BufferKind.ACTIVATIONS | BufferKind.INPUTS:
            return BufferKind.RECEIVED
        case _:
            return kind


def kinds_of(step: Step) -> Mapping[str, BufferKind]:
    """Returns the kind of each value of a step by name, except for values inside loops."""
    return _kinds_of(IdentityKey(step))


@lru_cache(maxsize=2)
def _kinds_of(same: IdentityKey[Step]) -> Mapping[str, BufferKind]:
    """Cached because every plan of a step needs it."""
    step = same.one
    given = {
        value.name: _ROLES.get(role, BufferKind.INPUTS)
        for value, role in zip(step.graph.inputs, step.roles, strict=True)
    }
    return _add_copies(step.graph, given) | dict.fromkeys(_gradients(step), BufferKind.GRADIENTS)


def kinds_inside(
    loop: Operation, graph: Graph, kinds: Mapping[str, BufferKind]
) -> Mapping[str, BufferKind]:
    """Returns the kinds inside a loop's body, given those of the loop's operands and results."""
    given = {
        inner.name: kinds[operand.name]
        for inner, operand in zip(graph.inputs, loop.operands, strict=True)
        if isinstance(operand, Value)
    }
    kinds_within = _add_copies(graph, given)
    makers = _makers(graph)
    for output, result in zip(graph.outputs, loop.results, strict=True):
        if isinstance(output, Value) and kinds_within[output.name] is BufferKind.ACTIVATIONS:
            kind = kinds_within[output.name] = kinds[result.name]
            if kind is BufferKind.GRADIENTS:
                kinds_within |= dict.fromkeys(_find_same(output, makers), kind)
    return kinds_within


def _add_copies(graph: Graph, given: Mapping[str, BufferKind]) -> dict[str, BufferKind]:
    kinds = dict.fromkeys(graph.values, BufferKind.ACTIVATIONS) | dict(given)
    copies = (BufferKind.PARAMETERS, BufferKind.COPIES)
    for operation in graph.operations:
        values = [
            kinds[operand.name] for operand in operation.operands if isinstance(operand, Value)
        ]
        if operation.primitive in MOVED and values and all(kind in copies for kind in values):
            kinds |= dict.fromkeys((result.name for result in operation.results), BufferKind.COPIES)
    return kinds


def _gradients(step: Step) -> set[str]:
    """Finds gradients: walks from new parameters back through elementwise operations."""
    makers = _makers(step.graph)
    gradients: set[str] = set()
    seen: set[str] = set()
    for out, place in step.updates:
        output = step.graph.outputs[out]
        left = [output] if isinstance(output, Value) and step.roles[place] == "parameter" else []
        shape = step.graph.inputs[place].type.shape
        while left:
            value = left.pop()
            maker = makers.get(value.name)
            if value.name in seen or maker is None or value.type.shape != shape:
                continue
            seen.add(value.name)
            if maker.primitive in ARITHMETIC and maker.primitive != "add_any":
                left += [operand for operand in maker.operands if isinstance(operand, Value)]
            elif not _spreads_scalar(maker):
                gradients |= _find_same(value, makers)
    return gradients


def _makers(graph: Graph) -> dict[str, Operation]:
    return {value.name: operation for operation in graph.operations for value in operation.results}


_GRADIENT_PRIMITIVES = (
    "add_any",
    "convert_element_type",
    "copy",
    "reduce_sum",
    "reshape",
    "squeeze",
    "transpose",
)
"""Primitives that yield a gradient from gradients if they keep the number of elements.
``reduce_sum`` may: JAX sums a bias over a dimension of size 1."""


def _find_same(gradient: Value, makers: Mapping[str, Operation]) -> set[str]:
    """Returns the names of the values from which a gradient is cast, reshaped or summed."""
    names, left = set[str](), [gradient]
    while left:
        value = left.pop()
        names.add(value.name)
        maker = makers.get(value.name)
        if maker is not None and maker.primitive in _GRADIENT_PRIMITIVES:
            values = [operand for operand in maker.operands if isinstance(operand, Value)]
            left += [one for one in values if one.type.elements == value.type.elements]
    return names


def _spreads_scalar(operation: Operation) -> bool:
    """Whether all operands are scalars."""
    return all(not isinstance(one, Value) or not one.type.shape for one in operation.operands)
