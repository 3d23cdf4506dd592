"""What the values of a step come of, as far as it decides how they are to lie.

Three things are passed on from operands to results: whether a value comes of the *batch*; along
which axes it is *held*, as a weight is that others adapt to; and in which dimensions it *runs* over
what an axis cuts of the batch: over samples, or over tokens. The product of a matrix of samples by
features with a weight runs over samples in its first dimension; the weight's gradient in none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from grammar.tensors.operations import Graph, Operand, Operation, Value
from synth.train.factors import Factor
from synth.train.plans.plan import loop_of

Places = frozenset[int]
NOWHERE: Places = frozenset()


@dataclass
class Lineage:
    """By names of values: ``moving`` come of the batch; ``held`` and ``runs`` are by axis, too."""

    moving: set[str] = field(default_factory=set)
    held: set[tuple[str, str]] = field(default_factory=set)
    runs: dict[tuple[str, str], Places] = field(default_factory=dict)

    def moves(self, operands: Iterable[Operand]) -> bool:
        """Whether one of them comes of the batch."""
        return any(str(one) in self.moving for one in operands)

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
        names = {str(one) for one in operation.operands}
        for axis in {axis for name, axis in self.held if name in names}:
            if not self.moves(operation.operands):
                self.held.update((one.name, axis) for one in operation.results)
        for axis in {axis for name, axis in self.runs if name in names}:
            places = self.results(operation, factors, axis)
            for value, over in zip(operation.results, places, strict=True):
                if over:
                    self.runs[value.name, axis] = over

    def inside(self, loop: Operation, body: Graph) -> Lineage:
        """What a body's inputs come of at first; what it carries may come to be of more."""
        divided = loop_of(loop.parameter)
        kept = divided.constants + divided.carried
        found = Lineage()
        for at, (inner, outer) in enumerate(zip(body.inputs, loop.operands, strict=True)):
            found._alike(inner, self, outer, -1 if at >= kept else 0)
        return found

    def carried(self, loop: Operation, body: Graph, after: Lineage) -> None:
        """Of a body's inputs: what was carried around comes of what the body makes."""
        divided = loop_of(loop.parameter)
        for at in range(divided.carried):
            self._alike(body.inputs[divided.constants + at], after, body.outputs[at], 0)

    def outside(self, loop: Operation, body: Graph, inner: Lineage) -> None:
        """The results of a loop come of what its body makes."""
        carried = loop_of(loop.parameter).carried
        for at, (value, output) in enumerate(zip(loop.results, body.outputs, strict=True)):
            self._alike(value, inner, output, int(at >= carried))

    def _alike(self, value: Value, other: Lineage, operand: Operand, shift: int) -> None:
        """A value comes of what another does; its dimensions are further on by so many."""
        name = str(operand)
        if name in other.moving:
            self.moving.add(value.name)
        self.held.update((value.name, axis) for one, axis in other.held if one == name)
        for (one, axis), places in list(other.runs.items()):
            found = frozenset(place + shift for place in places if place + shift >= 0)
            if one == name and found:
                self.runs[value.name, axis] = self.over(value, axis) | found
