"""What values of a sharded step are to its user: whose gradient, which parameter, which line.

A step is a graph of primitives, in which nothing is called a gradient. But what comes back as a
parameter has been made, element by element, of that parameter, its moments and its gradient: so
going back from there through what works by element finds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from grammar.tensors.operations import MOVING, Graph, Literal, Operand, Operation, Step, Value
from synth.step.factors.table import ELEMENTWISE


@dataclass(frozen=True)
class Meaning:
    """``role``: that of an input, or ``gradient``, or ``value``; ``label``: the input's.

    What is made of a parameter for the next step is a parameter, too.
    """

    role: str
    label: str


Meanings = Mapping[str, Meaning]


def input_meanings(step: Step) -> dict[str, Meaning]:
    """Inputs are what their roles say."""
    inputs = zip(step.graph.inputs, step.roles, step.labels, strict=True)
    return {value.name: Meaning(role, label) for value, role, label in inputs}


def ends_of(step: Step) -> dict[str, str]:
    """The outputs that are parameters of the next step, and their labels."""
    return {
        str(step.graph.outputs[out]): step.labels[place]
        for out, place in step.updates
        if step.roles[place] == "parameter"
    }


def find_meanings(graph: Graph, inputs: Meanings, ends: Mapping[str, str]) -> dict[str, Meaning]:
    """What is known of a graph's values, of which ``ends`` become parameters with these labels."""
    labels, found = _label_sources(graph, ends), dict(inputs)
    for operation in graph.operations:
        for result in operation.results:
            one = str(operation.operands[0]) if operation.operands else ""
            if operation.primitive in MOVING and one in found:
                found[result.name] = found[one]
            elif result.name in labels:
                touched = operation.primitive in ELEMENTWISE and any(
                    found[str(operand)].role in ("parameter", "moment")
                    for operand in operation.operands
                    if str(operand) in found
                )
                role = "parameter" if touched else "gradient"
                found[result.name] = Meaning(role, labels[result.name])
    return found


def _label_sources(graph: Graph, ends: Mapping[str, str]) -> dict[str, str]:
    """The label of all that an end is made of element by element, back to what makes it anew."""
    makers = {one.name: operation for operation in graph.operations for one in operation.results}
    labels = {name: label for name, label in ends.items() if name in makers}
    left = list(labels)
    while left:
        name = left.pop()
        for operand in _elementwise_operands(makers[name]):
            made = operand.name in makers and not _is_constant(makers[operand.name])
            if made and operand.name not in labels:
                labels[operand.name] = labels[name]
                left.append(operand.name)
    return labels


def _elementwise_operands(operation: Operation) -> Iterator[Value]:
    if operation.primitive in ELEMENTWISE or operation.primitive in MOVING:
        for operand in operation.operands:
            if isinstance(operand, Value) and operand.type.shape == operation.results[0].type.shape:
                yield operand


def _is_constant(operation: Operation) -> bool:
    """One number everywhere, such as a learning rate; or a count."""
    return not any(_rank(one) for one in operation.operands)


def _rank(operand: Operand) -> int:
    return 0 if isinstance(operand, Literal) else len(operand.type.shape)


def find_gradients(step: Step) -> tuple[Value, ...]:
    """Of each parameter that is updated the value in which its gradient is complete.

    That is the last one through which all goes that comes of the gradient: of ``g`` AdamW computes
    ``0.1 g`` and ``g g``, and of these neither is all. A parameter that nothing is added to has
    none.
    """
    known = find_meanings(step.graph, input_meanings(step), ends_of(step))
    by_label: dict[str, list[tuple[Value, Operation]]] = {}
    for operation in step.graph.operations:
        for value in operation.results:
            one = known.get(value.name)
            if one is not None and one.role == "gradient":
                by_label.setdefault(one.label, []).append((value, operation))
    found = map(_find_narrowest, by_label.values())
    return tuple(one for one in found if one is not None)


def _find_narrowest(several: Sequence[tuple[Value, Operation]]) -> Value | None:
    """The last of these, in order, that each other one is made of or goes into."""
    behind: dict[str, set[str]] = {}
    for value, operation in several:
        made_of = {str(one) for one in operation.operands if str(one) in behind}
        behind[value.name] = made_of.union(*(behind[name] for name in made_of))
    for value, _ in reversed(several):
        if all(
            other == value.name or other in behind[value.name] or value.name in behind[other]
            for other in behind
        ):
            return value
    return None
