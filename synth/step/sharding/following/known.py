"""What is known of the values of a graph while a plan is completed, operation after operation.

How each is read and made so far; how it is wished to lie in the end, and whether that is firm; and
where a sum is completed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from grammar.tensors.operations import Graph, Operand, Operation, Value
from grammar.tensors.sharding import (
    AxisSharding,
    Flat,
    ReductionKind,
    Sharding,
    Split,
    replicated_sharding,
)
from synth.step.factors import list_all_rows
from synth.step.sharding.lineage import Lineage, narrows, widens
from synth.step.sharding.plan import TIME

LAYOUT_PRIMITIVES = ("transpose", "reshape", "squeeze", "copy", "convert_element_type")
WISH_PRIMITIVES = (
    *LAYOUT_PRIMITIVES,
    "broadcast_in_dim",
    *("add", "add_any", "sub", "mul", "div", "neg", "sqrt", "rsqrt", "integer_pow", "square"),
)
"""Through these a wish is passed on, from the result to the operands."""

SUM_PRIMITIVES = (*LAYOUT_PRIMITIVES, "reduce_sum")
"""What may be done to parts of a sum, as it is to the sum, and takes next to no time."""

Wishes = dict[tuple[str, str], AxisSharding]
"""How a value is to lie along an axis in the end, by its name and the axis."""


@dataclass(frozen=True)
class Rules:
    """The axes, and along which of them what is done; ``held`` are inputs by place, and an axis.

    A weight that is held stays as it lies along the axis, and so does its gradient; one that is not
    is only stored so. Along ``scatters`` completed sums of gradients are cut as they are wished.
    Narrower copies of what is stored are made whole at once along ``kept``, else where they are
    read. ``narrow``: sums that are widened are completed before that, else after.
    """

    sizes: Mapping[str, int]
    held: frozenset[tuple[int, str]] = frozenset()
    scatters: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    narrow: bool = False

    @cached_property
    def holding(self) -> frozenset[str]:
        """The axes along which some input is held."""
        return frozenset(axis for _, axis in self.held)


@dataclass
class KnownValues:
    """How the values of a graph are read so far.

    ``batch`` are the axes that cut the batch, ``firm`` the wishes of what is held; ``nested`` is a
    graph inside a loop.
    """

    graph: Graph
    rules: Rules
    batch: frozenset[str]
    lineage: Lineage
    wishes: Wishes
    firm: set[tuple[str, str]]
    nested: bool = False
    read: dict[str, Sharding] = field(default_factory=dict)
    made: dict[str, Sharding] = field(default_factory=dict)

    def __post_init__(self) -> None:
        operands = (one for op in self.graph.operations for one in op.operands)
        self.readers = Counter(
            one.name for one in (*operands, *self.graph.outputs) if isinstance(one, Value)
        )
        self.reader = {str(one): op for op in self.graph.operations for one in op.operands}
        for operation in reversed(self.graph.operations):
            if operation.primitive in WISH_PRIMITIVES:
                self._wish_back(operation)

    def _wish_back(self, operation: Operation) -> None:
        name = operation.results[0].name
        for axis in self.rules.sizes:
            if (name, axis) not in self.wishes and (name, axis) not in self.firm:
                continue
            wish = self.wishes.get((name, axis))
            row = next((one for one in list_all_rows(operation) if one.results == (wish,)), None)
            for operand, lie in zip(operation.operands, row.operands if row else (), strict=False):
                if not isinstance(operand, Value) or type(lie) is not type(wish):
                    continue
                if (name, axis) in self.firm and (operand.name, axis) not in self.wishes:
                    self.firm.add((operand.name, axis))
                if lie is not None:
                    self.wishes.setdefault((operand.name, axis), lie)

    def lies(self, operand: Operand) -> Sharding:
        """How an operand is read."""
        return self.read[operand.name] if isinstance(operand, Value) else replicated_sharding(0)

    def made_as(self, operand: Operand) -> Sharding:
        """How it is made, which may be as parts of a sum that is read whole."""
        return self.made[operand.name] if isinstance(operand, Value) else replicated_sharding(0)

    def make(self, value: Value, sharding: Sharding) -> None:
        """A sum of which there are several readers is completed, once for all of them.

        Over microbatches every sum is, and none inside a loop: as soon as it is made, or, where it
        is only moved about or cast to wider numbers, behind that.
        """
        self.made[value.name] = self.read[value.name] = sharding
        for _, axis in sharding.partial:
            if self._all_at_once(value, axis):
                completed = self.completed(value, axis)
                self.read[value.name] = self.read[value.name].laid(axis, completed)
        if self.read[value.name].flat != sharding.flat:
            self._flatten(value)

    def _flatten(self, value: Value) -> None:
        """Cut it flat along all axes that it is wished to be, in their order: others pad otherwise.

        It may be a sum along some of these only, and cut by tokens along others.
        """
        found = self.read[value.name].unflattened()
        for axis in self.rules.sizes:
            wish = self.wishes.get((value.name, axis))
            if isinstance(wish, Flat) and not isinstance(found.along(axis), ReductionKind):
                found = found.laid(axis, wish)
        self.read[value.name] = found

    def _all_at_once(self, value: Value, axis: str) -> bool:
        only = self.reader.get(value.name)
        narrow = self.rules.narrow and only is not None and widens(only)
        if axis == TIME:
            return not self.nested and (narrow or not self._passed_on(value))
        return self.readers[value.name] > 1 or narrow

    def _passed_on(self, value: Value) -> bool:
        """Whether its only reader does what may be done to parts of a sum, and rounds no more."""
        reader = self.reader.get(value.name)
        if (
            self.readers[value.name] != 1
            or reader is None
            or reader.primitive not in SUM_PRIMITIVES
        ):
            return False
        return reader.results[0].name in self.reader and not narrows(reader)

    def completed(self, value: Value, axis: str) -> AxisSharding:
        """How a sum is to lie once it is completed: by samples or tokens, as wished, or whole."""
        for place in sorted(self.lineage.over(value, axis)):
            if value.type.shape[place] % self._parts(value, place, axis) == 0:
                return Split(place)
        return self.wishes.get((value.name, axis)) if axis in self.rules.scatters else None

    def _parts(self, value: Value, place: int, axis: str) -> int:
        """In how many parts a dimension would be cut, if by this axis, too."""
        others = self.read[value.name].dimensions[place] if value.name in self.read else ()
        return prod(self.rules.sizes[one] for one in {*others, axis})

    def beside(self, value: Value) -> list[Sharding]:
        """How that lies which a value's only reader, casts aside, puts it together with."""
        reader = self.reader.get(value.name)
        while (
            reader is not None
            and reader.primitive == "convert_element_type"
            and self.readers[value.name] == 1
        ):
            value = reader.results[0]
            reader = self.reader.get(value.name)
        if reader is None or self.readers[value.name] > 1 or reader.body is not None:
            return []
        return [
            self.lies(one)
            for one in reader.operands
            if str(one) in self.read and isinstance(one, Value) and one.type == value.type
        ]
