"""State of the values of a graph while a plan is completed, operation after operation.

It has the shardings in which values are made and read so far, the shardings that are wished for at
the end, and whether a wish is firm. It also decides where partial sums are completed.
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
"""Primitives that pass a wish on from the result to the operands."""

SUM_PRIMITIVES = (*LAYOUT_PRIMITIVES, "reduce_sum")
"""Linear primitives that commute with a sum over devices, and take almost no time."""

Wishes = dict[tuple[str, str], AxisSharding]
"""The sharding that a value should have along an axis at the end, by its name and the axis."""


@dataclass(frozen=True)
class Rules:
    """The sizes of all axes, and which rules apply along them.

    ``held`` has pairs of an input's index and an axis: the weight and its gradient keep their
    sharding along the axis; other weights are only stored in their sharding. Along ``scatters``
    axes, completed sums of gradients are cut as wished. Along ``kept`` axes, narrower copies of
    stored values are gathered immediately, otherwise before they are read. ``narrow``: sums are
    completed before they are widened, otherwise after.
    """

    sizes: Mapping[str, int]
    held: frozenset[tuple[int, str]] = frozenset()
    scatters: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    narrow: bool = False

    @cached_property
    def holding(self) -> frozenset[str]:
        """The axes along which any input is held."""
        return frozenset(axis for _, axis in self.held)


@dataclass
class KnownValues:
    """The shardings of the values of a graph so far.

    ``batch`` are the axes that cut the batch, ``firm`` the wishes of held values; ``nested`` is set
    for a graph inside a loop.
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
        operands = (operand for op in self.graph.operations for operand in op.operands)
        self.readers = Counter(
            value.name for value in (*operands, *self.graph.outputs) if isinstance(value, Value)
        )
        self.reader = {str(value): op for op in self.graph.operations for value in op.operands}
        for operation in reversed(self.graph.operations):
            if operation.primitive in WISH_PRIMITIVES:
                self._wish_back(operation)

    def _wish_back(self, operation: Operation) -> None:
        name = operation.results[0].name
        for axis in self.rules.sizes:
            if (name, axis) not in self.wishes and (name, axis) not in self.firm:
                continue
            wish = self.wishes.get((name, axis))
            row = next((row for row in list_all_rows(operation) if row.results == (wish,)), None)
            for operand, cut in zip(operation.operands, row.operands if row else (), strict=False):
                if not isinstance(operand, Value) or type(cut) is not type(wish):
                    continue
                if (name, axis) in self.firm and (operand.name, axis) not in self.wishes:
                    self.firm.add((operand.name, axis))
                if cut is not None:
                    self.wishes.setdefault((operand.name, axis), cut)

    def sharding(self, operand: Operand) -> Sharding:
        """Returns the sharding in which an operand is read."""
        return self.read[operand.name] if isinstance(operand, Value) else replicated_sharding(0)

    def made_as(self, operand: Operand) -> Sharding:
        """Returns the sharding in which an operand is made, before a partial sum is completed."""
        return self.made[operand.name] if isinstance(operand, Value) else replicated_sharding(0)

    def make(self, value: Value, sharding: Sharding) -> None:
        """Records a new value, and completes a partial sum with several readers once for all.

        Over microbatches every sum outside loops is completed: as soon as it is made, or after the
        layout changes and widening casts that follow it.
        """
        self.made[value.name] = self.read[value.name] = sharding
        for _, axis in sharding.partial:
            if self._is_completed(value, axis):
                completed = self.completed(value, axis)
                self.read[value.name] = self.read[value.name].laid(axis, completed)
        if self.read[value.name].flat != sharding.flat:
            self._flatten(value)

    def _flatten(self, value: Value) -> None:
        """Cuts a value flat along all axes with a flat wish, in their order, which sets padding.

        The value may remain a partial sum along some of these axes, and cut by tokens along others.
        """
        sharding = self.read[value.name].unflattened()
        for axis in self.rules.sizes:
            wish = self.wishes.get((value.name, axis))
            if isinstance(wish, Flat) and not isinstance(sharding.along(axis), ReductionKind):
                sharding = sharding.laid(axis, wish)
        self.read[value.name] = sharding

    def _is_completed(self, value: Value, axis: str) -> bool:
        """Whether a partial sum is completed as soon as it is made."""
        reader = self.reader.get(value.name)
        narrow = self.rules.narrow and reader is not None and widens(reader)
        if axis == TIME:
            return not self.nested and (narrow or not self._is_passed_on(value))
        return self.readers[value.name] > 1 or narrow

    def _is_passed_on(self, value: Value) -> bool:
        """Whether a partial sum's only reader can work on addends, and does not round them."""
        reader = self.reader.get(value.name)
        if (
            self.readers[value.name] != 1
            or reader is None
            or reader.primitive not in SUM_PRIMITIVES
        ):
            return False
        return reader.results[0].name in self.reader and not narrows(reader)

    def completed(self, value: Value, axis: str) -> AxisSharding:
        """Returns the sharding of a completed sum: by samples or tokens, as wished, or whole."""
        for place in sorted(self.lineage.over(value, axis)):
            if value.type.shape[place] % self._parts(value, place, axis) == 0:
                return Split(place)
        return self.wishes.get((value.name, axis)) if axis in self.rules.scatters else None

    def _parts(self, value: Value, place: int, axis: str) -> int:
        """Returns the number of parts of a dimension if this axis also cut it."""
        others = self.read[value.name].dimensions[place] if value.name in self.read else ()
        return prod(self.rules.sizes[cutting] for cutting in {*others, axis})

    def beside(self, value: Value) -> list[Sharding]:
        """Returns the shardings of operands of equal type that a value's only reader combines.

        Casts between the value and that reader are skipped.
        """
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
            self.sharding(operand)
            for operand in reader.operands
            if str(operand) in self.read
            and isinstance(operand, Value)
            and operand.type == value.type
        ]
