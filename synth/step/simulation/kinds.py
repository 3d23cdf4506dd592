"""What the memory of a step is used for: read from what its values come of and go to.

Inputs are what their roles say. Gradients are what updates begin with: values of a parameter's
shape from which, by elementwise operations alone, what takes its place is made; and what these are
cast, laid out or added up from. What comes of parameters alone, a cast of them or all of them put
together, is a copy. All else is activations, those that the backward pass reads and those that
nobody reads for long.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache

from grammar.tensors.operations import Graph, Operation, Step, Value
from grammar.tensors.primitives import ARITHMETIC, MOVED
from synth.step.same import IdentityKey


class BufferKind(Enum):
    """What a buffer is for."""

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
    """What a value of a kind is once it has been redistributed."""
    match kind:
        case BufferKind.PARAMETERS | BufferKind.COPIES | BufferKind.GATHERED:
            return BufferKind.GATHERED
        case BufferKind.ACTIVATIONS | BufferKind.INPUTS:
            return BufferKind.RECEIVED
        case _:
            return kind


def kinds_of(step: Step) -> Mapping[str, BufferKind]:
    """The kind of each value of a step, those inside of loops apart, by name."""
    return _kinds_of(IdentityKey(step))


@lru_cache(maxsize=2)
def _kinds_of(same: IdentityKey[Step]) -> Mapping[str, BufferKind]:
    """It is asked for by every plan of a step."""
    step = same.one
    given = {
        value.name: _ROLES.get(role, BufferKind.INPUTS)
        for value, role in zip(step.graph.inputs, step.roles, strict=True)
    }
    return _add_copies(step.graph, given) | dict.fromkeys(_gradients(step), BufferKind.GRADIENTS)


def kinds_inside(
    loop: Operation, graph: Graph, kinds: Mapping[str, BufferKind]
) -> Mapping[str, BufferKind]:
    """The same of a loop's body: its operands and results are as outside."""
    given = {
        inner.name: kinds[operand.name]
        for inner, operand in zip(graph.inputs, loop.operands, strict=True)
        if isinstance(operand, Value)
    }
    found = _add_copies(graph, given)
    makers = _makers(graph)
    for output, result in zip(graph.outputs, loop.results, strict=True):
        if isinstance(output, Value) and found[output.name] is BufferKind.ACTIVATIONS:
            kind = found[output.name] = kinds[result.name]
            if kind is BufferKind.GRADIENTS:
                found |= dict.fromkeys(_find_same(output, makers), kind)
    return found


def _add_copies(graph: Graph, given: Mapping[str, BufferKind]) -> dict[str, BufferKind]:
    found = dict.fromkeys(graph.values, BufferKind.ACTIVATIONS) | dict(given)
    copies = (BufferKind.PARAMETERS, BufferKind.COPIES)
    for one in graph.operations:
        values = [found[other.name] for other in one.operands if isinstance(other, Value)]
        if one.primitive in MOVED and values and all(kind in copies for kind in values):
            found |= dict.fromkeys((result.name for result in one.results), BufferKind.COPIES)
    return found


def _gradients(step: Step) -> set[str]:
    """From what comes back as parameters, through elementwise operations of their shape."""
    makers = _makers(step.graph)
    found: set[str] = set()
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
                left += [one for one in maker.operands if isinstance(one, Value)]
            elif not _spreads_scalar(maker):
                found |= _find_same(value, makers)
    return found


def _makers(graph: Graph) -> dict[str, Operation]:
    return {one.name: operation for operation in graph.operations for one in operation.results}


_GRADIENT_PRIMITIVES = (
    "add_any",
    "convert_element_type",
    "copy",
    "reduce_sum",
    "reshape",
    "squeeze",
    "transpose",
)
"""Primitives that yield a gradient from gradients if they keep the number of elements. A
``reduce_sum`` may: JAX sums a bias over a dimension of size 1."""


def _find_same(gradient: Value, makers: Mapping[str, Operation]) -> set[str]:
    """The names of what a gradient is made from and still is: in bf16, laid out, or of one use."""
    found, left = set[str](), [gradient]
    while left:
        one = left.pop()
        found.add(one.name)
        maker = makers.get(one.name)
        if maker is not None and maker.primitive in _GRADIENT_PRIMITIVES:
            values = [other for other in maker.operands if isinstance(other, Value)]
            left += [other for other in values if other.type.elements == one.type.elements]
    return found


def _spreads_scalar(operation: Operation) -> bool:
    """Whether it spreads one number."""
    return all(not isinstance(one, Value) or not one.type.shape for one in operation.operands)
