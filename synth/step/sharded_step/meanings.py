"""Finds the meaning of a sharded step's values: parameters and their gradients.

A step is a graph of primitives, which marks no value as a gradient. But each new parameter is
computed, element by element, from the old parameter, its moments and its gradient. Gradients are
therefore found by walking back from the outputs through elementwise operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from grammar.tensors.operations import MOVING, Graph, Operation, Step, Value
from synth.primitives import is_elementwise


@dataclass(frozen=True)
class Meaning:
    """``role``: the role of an input, or ``gradient``, or ``value``; ``label``: the input's label.

    The new value of a parameter is a parameter, too.
    """

    role: str
    label: str


Meanings = Mapping[str, Meaning]


def input_meanings(step: Step) -> dict[str, Meaning]:
    """Returns the meanings of inputs, by their roles and labels."""
    inputs = zip(step.graph.inputs, step.roles, step.labels, strict=True)
    return {value.name: Meaning(role, label) for value, role, label in inputs}


def ends_of(step: Step) -> dict[str, str]:
    """Returns the labels of outputs that are parameters of the next step, by name."""
    return {
        str(step.graph.outputs[out]): step.labels[place]
        for out, place in step.updates
        if step.roles[place] == "parameter"
    }


def find_meanings(graph: Graph, inputs: Meanings, ends: Mapping[str, str]) -> dict[str, Meaning]:
    """Returns the known meanings of a graph's values; ``ends`` has the labels of new parameters."""
    labels, meanings = _label_sources(graph, ends), dict(inputs)
    for operation in graph.operations:
        for result in operation.results:
            source = str(operation.operands[0]) if operation.operands else ""
            if operation.primitive in MOVING and source in meanings:
                meanings[result.name] = meanings[source]
            elif result.name in labels:
                is_updated = is_elementwise(operation.primitive) and any(
                    meanings[str(operand)].role in ("parameter", "moment")
                    for operand in operation.operands
                    if str(operand) in meanings
                )
                role = "parameter" if is_updated else "gradient"
                meanings[result.name] = Meaning(role, labels[result.name])
    return meanings


def _label_sources(graph: Graph, ends: Mapping[str, str]) -> dict[str, str]:
    """Returns the labels of all values from which ends are computed element by element."""
    makers = {result.name: op for op in graph.operations for result in op.results}
    labels = {name: label for name, label in ends.items() if name in makers}
    pending = list(labels)
    while pending:
        name = pending.pop()
        for operand in _elementwise_operands(makers[name]):
            made = operand.name in makers and not _is_constant(makers[operand.name])
            if made and operand.name not in labels:
                labels[operand.name] = labels[name]
                pending.append(operand.name)
    return labels


def _elementwise_operands(operation: Operation) -> Iterator[Value]:
    if is_elementwise(operation.primitive) or operation.primitive in MOVING:
        for operand in operation.operands:
            if isinstance(operand, Value) and operand.type.shape == operation.results[0].type.shape:
                yield operand


def _is_constant(operation: Operation) -> bool:
    """Returns whether an operation has only scalar operands, such as a learning rate or a count."""
    return not any(isinstance(value, Value) and value.type.shape for value in operation.operands)


def find_gradients(step: Step) -> tuple[Value, ...]:
    """Returns for each updated parameter the value that holds its complete gradient.

    This is the last value through which the entire gradient passes: from ``g`` AdamW computes ``0.1
    g`` and ``g g``, neither of which is the whole gradient. A parameter without an update has none.
    """
    known = find_meanings(step.graph, input_meanings(step), ends_of(step))
    by_label: dict[str, list[tuple[Value, Operation]]] = {}
    for operation in step.graph.operations:
        for value in operation.results:
            meaning = known.get(value.name)
            if meaning is not None and meaning.role == "gradient":
                by_label.setdefault(meaning.label, []).append((value, operation))
    gradients = map(_find_bottleneck, by_label.values())
    return tuple(gradient for gradient in gradients if gradient is not None)


def _find_bottleneck(values: Sequence[tuple[Value, Operation]]) -> Value | None:
    """Returns the last value that every other value depends on, or is needed for."""
    ancestors: dict[str, set[str]] = {}
    for value, operation in values:
        direct = {str(operand) for operand in operation.operands if str(operand) in ancestors}
        ancestors[value.name] = direct.union(*(ancestors[name] for name in direct))
    for value, _ in reversed(values):
        if all(
            other == value.name or other in ancestors[value.name] or value.name in ancestors[other]
            for other in ancestors
        ):
            return value
    return None
