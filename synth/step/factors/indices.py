"""An operation as an Einstein sum: which index each dimension runs over.

A rule of the table names indices, one for each dimension of every operand and result, None where
none may be cut. ``dot_general`` of a product of matrices is ``(i k), (k j) -> (i j)``. Factors
follow: an index in no result is contracted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grammar.tensors.operations import Operation
from grammar.tensors.sharding import ReductionKind
from synth.step.factors.factor import Cut, Factor, Index
from synth.step.factors.parameters import type_of

Names = tuple[str | None, ...]
"""The index that each dimension of one value runs over."""


@dataclass(frozen=True)
class Note:
    """What is peculiar to an index: see Factor. ``size`` if it is not that of the dimensions."""

    size: int | None = None
    cut: Cut | None = None
    index: Index | None = None
    partial: tuple[int, ...] = ()


@dataclass(frozen=True)
class Indices:
    """The indices of an operation, the kind of its contracted ones, and notes on some."""

    operands: Sequence[Names]
    results: Sequence[Names]
    contracted: ReductionKind = ReductionKind.SUM
    notes: Mapping[str, Note] = field(default_factory=dict)

    def factors(self, operation: Operation) -> tuple[Factor, ...]:
        """A factor for each index that can be cut in two or more, in the order of their names here.

        None on keys, which are always replicated; no sums of booleans.
        """
        values = (*operation.operands, *operation.results)
        if any(value.dtype == "key" for value in map(type_of, values)):
            return ()
        names = dict.fromkeys(
            name for names in (*self.operands, *self.results) for name in names if name is not None
        )
        found = (self._factor(operation, name) for name in names)
        return tuple(one for one in found if one.size > 1 and _is_summable(operation, one))

    def _factor(self, operation: Operation, name: str) -> Factor:
        note = self.notes.get(name, Note())
        operands = tuple(_place(names, name) for names in self.operands)
        results = tuple(_place(names, name) for names in self.results)
        values = (*operation.operands, *operation.results)
        places = zip(values, (*operands, *results), strict=True)
        sizes = {type_of(value).shape[at] for value, at in places if at is not None}
        assert note.size is not None or len(sizes) == 1, (operation, name, sizes)
        contracted = None if any(place is not None for place in results) else self.contracted
        size = note.size if note.size is not None else sizes.pop()
        return Factor(name, size, operands, results, contracted, note.partial, note.cut, note.index)


def all_of(shape: Sequence[int]) -> Names:
    """An index of its own for each dimension."""
    return tuple(f"dimension {at}" for at in range(len(shape)))


def none_of(shape: Sequence[int]) -> Names:
    """No dimension may be cut."""
    return (None,) * len(shape)


def _place(names: Names, name: str) -> int | None:
    return names.index(name) if name in names else None


def _is_summable(operation: Operation, factor: Factor) -> bool:
    dtypes = {result.type.dtype for result in operation.results}
    return factor.contracted is not ReductionKind.SUM or "bool" not in dtypes
