"""An operation as an Einstein sum: the index that each dimension iterates over.

A rule of the table names an index for each dimension of every operand and result, None if the
dimension cannot be cut. A product of matrices is ``(i k), (k j) -> (i j)``. Factors follow from the
names: an index in no result is contracted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grammar.tensors.operations import Operation
from grammar.tensors.sharding import ReductionKind
from synth.primitives.factor import Cut, Factor, Index

Names = tuple[str | None, ...]
"""The index that each dimension of one value iterates over."""


@dataclass(frozen=True)
class Note:
    """Properties of an index, as in Factor. ``size`` is set unless it is the dimensions' size."""

    size: int | None = None
    cut: Cut | None = None
    index: Index | None = None
    partial: tuple[int, ...] = ()


@dataclass(frozen=True)
class Indices:
    """The indices of an operation, the kind of contracted indices, and notes on special indices."""

    operands: Sequence[Names]
    results: Sequence[Names]
    contracted: ReductionKind = ReductionKind.SUM
    notes: Mapping[str, Note] = field(default_factory=dict)

    def factors(self, operation: Operation) -> tuple[Factor, ...]:
        """Returns a factor for each index that can be cut, in the order of their names.

        Operations on random keys have none, since keys are always replicated. Booleans have no
        partial sums.
        """
        if any(value.type.dtype == "key" for value in operation.values):
            return ()
        names = dict.fromkeys(
            name for names in (*self.operands, *self.results) for name in names if name is not None
        )
        factors = (self._factor(operation, name) for name in names)
        return tuple(
            factor for factor in factors if factor.size > 1 and _is_summable(operation, factor)
        )

    def _factor(self, operation: Operation, name: str) -> Factor:
        note = self.notes.get(name, Note())
        operands = tuple(_place(names, name) for names in self.operands)
        results = tuple(_place(names, name) for names in self.results)
        places = zip(operation.values, (*operands, *results), strict=True)
        sizes = {value.type.shape[at] for value, at in places if at is not None}
        assert note.size is not None or len(sizes) == 1, (operation, name, sizes)
        contracted = None if any(place is not None for place in results) else self.contracted
        size = note.size if note.size is not None else sizes.pop()
        return Factor(name, size, operands, results, contracted, note.partial, note.cut, note.index)


def all_of(shape: Sequence[int]) -> Names:
    """Names a separate index for each dimension."""
    return tuple(f"dimension {at}" for at in range(len(shape)))


def none_of(shape: Sequence[int]) -> Names:
    """Names no index: no dimension can be cut."""
    return (None,) * len(shape)


def _place(names: Names, name: str) -> int | None:
    return names.index(name) if name in names else None


def _is_summable(operation: Operation, factor: Factor) -> bool:
    dtypes = {result.type.dtype for result in operation.results}
    return factor.contracted is not ReductionKind.SUM or "bool" not in dtypes
