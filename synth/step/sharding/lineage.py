"""What the values of a step come of, as far as it decides how they are to lie.

Three things are passed on from operands to results: whether a value comes of the *batch*; along
which axes it is *held*, as a weight is that others adapt to; and in which dimensions it *runs* over
what an axis cuts of the batch: over samples, or over tokens. The product of a matrix of samples by
features with a weight runs over samples in its first dimension; the weight's gradient in none.

Casts are told apart by where they go. A parameter that is read as a narrower copy alone is a
*master* copy, state of its optimizer; a gradient is made as narrow as that copy, and *widened*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from grammar.tensors.operations import Graph, Operand, Operation, Step, Value
from grammar.tensors.sharding import dtype_bytes
from synth.step.factors import Factor
from synth.step.sharding.plan import scan_operands_of

Places = frozenset[int]
NOWHERE: Places = frozenset()

_ALIKE = ("add", "sub", "mul", "div", "sqrt", "integer_pow", "convert_element_type", "square")
"""What an optimizer does with a gradient, element by element."""


def narrows(operation: Operation) -> bool:
    """Whether it is a cast to elements of fewer bytes."""
    return _width_change(operation) < 0


def widens(operation: Operation) -> bool:
    """Whether it is a cast to elements of more bytes."""
    return _width_change(operation) > 0


def _width_change(operation: Operation) -> int:
    if operation.primitive != "convert_element_type":
        return 0
    return dtype_bytes(operation.results[0].type.dtype) - dtype_bytes(_dtype(operation))


def _dtype(operation: Operation) -> str:
    [read] = operation.operands
    return read.type.dtype if isinstance(read, Value) else read.dtype


def find_masters(step: Step) -> frozenset[str]:
    """The parameters that a step updates, and else reads as narrower copies alone."""
    changed = find_updated(step)
    found = dict.fromkeys(
        (
            value.name
            for value, role in zip(step.graph.inputs, step.roles, strict=True)
            if role == "parameter"
        ),
        False,
    )
    others = set[str]()
    for one in step.graph.operations:
        made = {value.name for value in one.results}
        for name in {str(operand) for operand in one.operands} & found.keys():
            if narrows(one):
                found[name] = True
            elif not made <= changed:
                others.add(name)
    return frozenset(name for name, copied in found.items() if copied) - others


def find_updated(step: Step) -> set[str]:
    """The gradients, and what is computed of them element by element until parameters are new."""
    makers = {one.name: op for op in step.graph.operations for one in op.results}
    found: set[str] = set()
    for out, _ in step.updates:
        waiting = [step.graph.outputs[out]]
        while waiting:
            one = waiting.pop()
            if not isinstance(one, Value) or one.name in found:
                continue
            found.add(one.name)
            maker = makers.get(one.name)
            if maker is not None and maker.primitive in _ALIKE:
                waiting += [
                    other
                    for other in maker.operands
                    if isinstance(other, Value) and other.type.shape == one.type.shape
                ]
    return found


def find_widened_dtypes(step: Step) -> frozenset[str]:
    """The element types in which gradients are made that are then widened."""
    changed = find_updated(step)
    return frozenset(
        _dtype(one)
        for one in step.graph.operations
        if widens(one) and one.results[0].name in changed and one.results[0].type.shape
    )


@dataclass
class Lineage:
    """By names of values: ``moving`` come of the batch; ``held`` and ``runs`` are by axis, too."""

    axes: Sequence[str]
    moving: set[str] = field(default_factory=set)
    held: set[tuple[str, str]] = field(default_factory=set)
    runs: dict[tuple[str, str], Places] = field(default_factory=dict)

    def moves(self, operands: Iterable[Operand]) -> bool:
        """Whether one of them comes of the batch."""
        return any(str(one) in self.moving for one in operands)

    def of(self, operand: Operand) -> tuple[object, ...]:
        """All that is known of a value; equal for values of which the same is."""
        name = str(operand)
        held = tuple((name, axis) in self.held for axis in self.axes)
        return name in self.moving, held, tuple(self.over(operand, axis) for axis in self.axes)

    def over(self, operand: Operand, axis: str) -> Places:
        """The dimensions that run over what the axis cuts of the batch."""
        return self.runs.get((str(operand), axis), NOWHERE)

    def results(
        self, operation: Operation, factors: Sequence[Factor], axis: str
    ) -> tuple[Places, ...]:
        """The same of each result, whatever row is taken: through the factors of the operation."""
        passed = [
            one
            for one in factors
            if any(
                place is not None and place in self.over(operand, axis)
                for operand, place in zip(operation.operands, one.operands, strict=True)
            )
        ]
        return tuple(
            frozenset(place for one in passed if (place := one.results[at]) is not None)
            for at in range(len(operation.results))
        )

    def done(self, operation: Operation, factors: Sequence[Factor]) -> None:
        """What an operation's results come of."""
        if self.moves(operation.operands):
            self.moving.update(one.name for one in operation.results)
        names = [str(one) for one in operation.operands]
        for axis in self.axes:
            held = any((name, axis) in self.held for name in names)
            if held and not self.moves(operation.operands):
                self.held.update((one.name, axis) for one in operation.results)
            if any((name, axis) in self.runs for name in names):
                places = self.results(operation, factors, axis)
                for value, over in zip(operation.results, places, strict=True):
                    if over:
                        self.runs[value.name, axis] = over

    def inside(self, loop: Operation, body: Graph) -> Lineage:
        """What a body's inputs come of at first; what it carries may come to be of more."""
        divided = scan_operands_of(loop.parameter)
        kept = divided.constants + divided.carried
        found = Lineage(self.axes)
        for at, (inner, outer) in enumerate(zip(body.inputs, loop.operands, strict=True)):
            found._alike(inner, self, outer, -1 if at >= kept else 0)
        return found

    def carried(self, loop: Operation, body: Graph, after: Lineage) -> None:
        """Of a body's inputs: what was carried around comes of what the body makes."""
        divided = scan_operands_of(loop.parameter)
        for at in range(divided.carried):
            self._alike(body.inputs[divided.constants + at], after, body.outputs[at], 0)

    def outside(self, loop: Operation, body: Graph, inner: Lineage) -> None:
        """The results of a loop come of what its body makes."""
        carried = scan_operands_of(loop.parameter).carried
        for at, (value, output) in enumerate(zip(loop.results, body.outputs, strict=True)):
            self._alike(value, inner, output, int(at >= carried))

    def _alike(self, value: Value, other: Lineage, operand: Operand, shift: int) -> None:
        """A value comes of what another does; its dimensions are further on by so many."""
        name = str(operand)
        if name in other.moving:
            self.moving.add(value.name)
        for axis in self.axes:
            if (name, axis) in other.held:
                self.held.add((value.name, axis))
            places = other.over(operand, axis)
            found = frozenset(place + shift for place in places if place + shift >= 0)
            if found:
                self.runs[value.name, axis] = self.over(value, axis) | found
