"""Tracks the origin of the values of a step, as far as their shardings depend on it.

Three facts propagate from operands to results: whether a value depends on the *batch*; along which
axes it is *held*, like a weight to which other values adapt; and which of its dimensions *run* over
the samples or tokens that an axis cuts. The product of a samples-by-features matrix with a weight
runs over samples in its first dimension; the weight's gradient runs over them in no dimension.

Casts are classified by their use. A parameter that is read only as a narrower copy is a *master*
copy, which belongs to the state of the optimizer. Its gradient is computed in the narrow type and
then *widened*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from grammar.tensors.operations import Graph, Operand, Operation, Step, Value
from grammar.tensors.sharding import dtype_bytes
from synth.step.factors import Factor
from synth.step.same import IdentityKey
from synth.step.sharding.plan import scan_operands_of

Places = frozenset[int]
NOWHERE: Places = frozenset()

_ELEMENTWISE = ("add", "sub", "mul", "div", "sqrt", "integer_pow", "convert_element_type", "square")
"""Elementwise primitives with which optimizers compute new parameters from gradients."""


def narrows(operation: Operation) -> bool:
    """Whether an operation is a cast to elements of fewer bytes."""
    return _width_change(operation) < 0


def widens(operation: Operation) -> bool:
    """Whether an operation is a cast to elements of more bytes."""
    return _width_change(operation) > 0


def _width_change(operation: Operation) -> int:
    if operation.primitive != "convert_element_type":
        return 0
    return dtype_bytes(operation.results[0].type.dtype) - dtype_bytes(_dtype(operation))


def _dtype(operation: Operation) -> str:
    [operand] = operation.operands
    return operand.type.dtype if isinstance(operand, Value) else operand.dtype


def find_masters(step: Step) -> frozenset[str]:
    """Returns the parameters that a step reads only as narrower copies, except to update them."""
    updated = find_updated(step)
    narrowed = dict.fromkeys(
        (
            value.name
            for value, role in zip(step.graph.inputs, step.roles, strict=True)
            if role == "parameter"
        ),
        False,
    )
    widely_read = set[str]()
    for operation in step.graph.operations:
        made = {value.name for value in operation.results}
        for name in {str(operand) for operand in operation.operands} & narrowed.keys():
            if narrows(operation):
                narrowed[name] = True
            elif not made <= updated:
                widely_read.add(name)
    return frozenset(name for name, copied in narrowed.items() if copied) - widely_read


def find_updated(step: Step) -> frozenset[str]:
    """Returns gradients, new parameters and moments, and the elementwise results between them."""
    return _find_updated(IdentityKey(step))


@lru_cache(maxsize=16)
def _find_updated(key: IdentityKey[Step]) -> frozenset[str]:
    # Cached because the update, each bucket and the casts of a step all ask for them.
    step = key.one
    makers = {value.name: op for op in step.graph.operations for value in op.results}
    found: set[str] = set()
    for out, _ in step.updates:
        waiting = [step.graph.outputs[out]]
        while waiting:
            value = waiting.pop()
            if not isinstance(value, Value) or value.name in found:
                continue
            found.add(value.name)
            maker = makers.get(value.name)
            if maker is not None and maker.primitive in _ELEMENTWISE:
                waiting += [
                    operand
                    for operand in maker.operands
                    if isinstance(operand, Value) and operand.type.shape == value.type.shape
                ]
    return frozenset(found)


def find_widened_dtypes(step: Step) -> frozenset[str]:
    """Returns the element types in which gradients are computed before they are widened."""
    updated = find_updated(step)
    return frozenset(
        _dtype(operation)
        for operation in step.graph.operations
        if widens(operation)
        and operation.results[0].name in updated
        and operation.results[0].type.shape
    )


@dataclass
class Lineage:
    """Lineage of values by name.

    ``moving``: values that depend on the batch. ``held``: pairs of a value and an axis along which
    it is held. ``runs``: dimensions that run over samples or tokens, by value and axis.
    """

    axes: Sequence[str]
    moving: set[str] = field(default_factory=set)
    held: set[tuple[str, str]] = field(default_factory=set)
    runs: dict[tuple[str, str], Places] = field(default_factory=dict)

    def moves(self, operands: Iterable[Operand]) -> bool:
        """Whether any operand depends on the batch."""
        return any(str(operand) in self.moving for operand in operands)

    def of(self, operand: Operand) -> tuple[object, ...]:
        """Returns the whole lineage of a value as a comparable key."""
        name = str(operand)
        held = tuple((name, axis) in self.held for axis in self.axes)
        return name in self.moving, held, tuple(self.over(operand, axis) for axis in self.axes)

    def over(self, operand: Operand, axis: str) -> Places:
        """Returns the dimensions that run over samples or tokens that the axis cuts."""
        return self.runs.get((str(operand), axis), NOWHERE)

    def results(
        self, operation: Operation, factors: Sequence[Factor], axis: str
    ) -> tuple[Places, ...]:
        """Returns ``over`` of each result by the operation's factors, independent of its row."""
        running = [
            factor
            for factor in factors
            if any(
                place is not None and place in self.over(operand, axis)
                for operand, place in zip(operation.operands, factor.operands, strict=True)
            )
        ]
        return tuple(
            frozenset(place for factor in running if (place := factor.results[at]) is not None)
            for at in range(len(operation.results))
        )

    def done(self, operation: Operation, factors: Sequence[Factor]) -> None:
        """Propagates lineage from an operation's operands to its results."""
        if self.moves(operation.operands):
            self.moving.update(value.name for value in operation.results)
        names = [str(operand) for operand in operation.operands]
        for axis in self.axes:
            held = any((name, axis) in self.held for name in names)
            if held and not self.moves(operation.operands):
                self.held.update((value.name, axis) for value in operation.results)
            if any((name, axis) in self.runs for name in names):
                places = self.results(operation, factors, axis)
                for value, over in zip(operation.results, places, strict=True):
                    if over:
                        self.runs[value.name, axis] = over

    def inside(self, loop: Operation, body: Graph) -> Lineage:
        """Returns the lineage of a body's inputs before carried values are fed back."""
        divided = scan_operands_of(loop.parameter)
        kept = divided.constants + divided.carried
        lineage = Lineage(self.axes)
        for at, (inner, outer) in enumerate(zip(body.inputs, loop.operands, strict=True)):
            lineage._copy(inner, self, outer, -1 if at >= kept else 0)
        return lineage

    def carried(self, loop: Operation, body: Graph, after: Lineage) -> None:
        """Propagates lineage from a body's carried outputs to its carried inputs."""
        divided = scan_operands_of(loop.parameter)
        for at in range(divided.carried):
            self._copy(body.inputs[divided.constants + at], after, body.outputs[at], 0)

    def outside(self, loop: Operation, body: Graph, inner: Lineage) -> None:
        """Propagates lineage from a body's outputs to the results of its loop."""
        carried = scan_operands_of(loop.parameter).carried
        for at, (value, output) in enumerate(zip(loop.results, body.outputs, strict=True)):
            self._copy(value, inner, output, int(at >= carried))

    def _copy(self, value: Value, other: Lineage, operand: Operand, shift: int) -> None:
        """Adds the lineage of an operand in ``other`` to a value, with dimensions shifted."""
        name = str(operand)
        if name in other.moving:
            self.moving.add(value.name)
        for axis in self.axes:
            if (name, axis) in other.held:
                self.held.add((value.name, axis))
            places = other.over(operand, axis)
            shifted = frozenset(place + shift for place in places if place + shift >= 0)
            if shifted:
                self.runs[value.name, axis] = self.over(value, axis) | shifted
