"""Combines a row for each of several axes into the shardings of an operation's values.

Rows of different axes combine freely. The product of the axes on one factor must divide its size.
Two axes on one factor must have the same order in every operand and result: with contracted
dimensions cut by ``[a,b]`` and ``[b,a]`` a device would multiply blocks that do not match.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from grammar.tensors.operations import Operation
from grammar.tensors.sharding import ReductionKind, Sharding, check_type, replicated_sharding
from hierarchies import InputError
from synth.primitives.factor import Factor, Row, spell_shardings
from synth.step.factors.forms import cache_by_form
from synth.step.factors.rows import list_all_rows, list_rows

MOST_SHOWN = 8
"""The number of rows that an error message lists if no row fits."""


@dataclass(frozen=True)
class OperationSharding:
    """Shardings of an operation's operands and results, and a row for each axis, major first."""

    operands: tuple[Sharding, ...]
    results: tuple[Sharding, ...]
    rows: tuple[tuple[str, Row], ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """The hash, cached because parts of operations are looked up by their shardings."""
        return hash((self.operands, self.results, self.rows))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without the hash, which differs between processes."""
        return OperationSharding, (self.operands, self.results, self.rows)

    @cached_property
    def factors(self) -> dict[Factor, tuple[str, ...]]:
        """The factors that are cut, with their axes, major to minor."""
        factors: dict[Factor, tuple[str, ...]] = {}
        for axis, row in self.rows:
            if row.factor is not None:
                factors[row.factor] = (*factors.get(row.factor, ()), axis)
        return factors


def shard_operation(
    operation: Operation, by_axis: Mapping[str, Row], sizes: Mapping[str, int]
) -> OperationSharding:
    """Returns the shardings that follow from a row for each axis; other axes replicate.

    Of two axes on one factor, the first in the mapping is major. Raises InputError if axes do not
    divide a factor, if two factors need the number of the part, or if a value would be partial of
    two kinds.
    """
    cache = _cache_of(operation)
    key = tuple(by_axis.items()), tuple(sizes.items())
    if key not in cache:
        cache[key] = _shard_operation(operation, by_axis, sizes)
    return cache[key]


@cache_by_form
def _cache_of(operation: Operation) -> dict[object, OperationSharding]:
    """Returns the shardings known so far, by rows along axes and sizes of axes."""
    return {}


def _shard_operation(
    operation: Operation, by_axis: Mapping[str, Row], sizes: Mapping[str, int]
) -> OperationSharding:
    operands = [replicated_sharding(len(shape)) for shape in operation.shapes]
    results = [replicated_sharding(len(result.type.shape)) for result in operation.results]
    for axis, row in by_axis.items():
        operands = [base.laid(axis, new) for base, new in zip(operands, row.operands, strict=True)]
        results = [base.laid(axis, new) for base, new in zip(results, row.results, strict=True)]
    how = OperationSharding(tuple(operands), tuple(results), tuple(by_axis.items()))
    _check_axes(operation, how, sizes)
    _check_values(operation, how, sizes)
    return how


def match_rows(
    operation: Operation,
    operands: Sequence[Sharding],
    results: Sequence[Sharding],
    sizes: Mapping[str, int],
) -> OperationSharding:
    """Returns the rows by which these operand shardings produce these result shardings.

    Raises InputError with the operation, its line and the axis if there is no such row, if two
    axes on one factor have different orders, and as ``shard_operation`` does.
    """
    shardings = (*operands, *results)
    flat = dict.fromkeys(sharding.flat for sharding in shardings if sharding.flat)
    legal = list_all_rows(operation) if flat else list_rows(operation)
    for value, sharding in zip(operation.values, shardings, strict=True):
        whole = replicated_sharding(len(sharding.dimensions))
        check_type(value.type, whole, sizes, where=operation.line)  # Rank only; more below.
    if len(flat) > 1:
        spelled = " and ".join(f"({','.join(axes)})" for axes in flat)
        raise InputError(
            f"{operation.primitive} has values that are sharded flat over different "
            f"axes: {spelled}",
            where=operation.line,
            hint="use the same axes in one order for all operands and results, or "
            "gather them first",
        )
    by_axis = {
        axis: _match_row(operation, legal, axis, operands, results)
        for axis in dict.fromkeys(axis for sharding in shardings for axis in sharding.axes)
    }
    cut = dict.fromkeys(row.factor for row in by_axis.values() if row.factor is not None)
    orders = [_order(operation, factor, by_axis, shardings) for factor in cut]
    partial = [axis for axis, row in by_axis.items() if row.factor is None]
    in_order = [*(axis for axes in orders for axis in axes), *partial]
    how = shard_operation(operation, {axis: by_axis[axis] for axis in in_order}, sizes)
    assert (how.operands, how.results) == (tuple(operands), tuple(results)), (how, shardings)
    return how


def _match_row(
    operation: Operation,
    legal: Iterable[Row],
    axis: str,
    operands: Sequence[Sharding],
    results: Sequence[Sharding],
) -> Row:
    before = tuple(sharding.along(axis) for sharding in operands)
    after = tuple(sharding.along(axis) for sharding in results)
    legal = list(legal)
    for row in legal:
        if (row.operands, row.results) == (before, after):
            return row
    alternatives = [row for row in legal if row.operands == before] or legal
    shown = "; ".join(map(str, alternatives[:MOST_SHOWN])) + (
        "; ..." if len(alternatives) > MOST_SHOWN else ""
    )
    raise InputError(
        f"{operation.primitive} cannot take {spell_shardings(before)} to {spell_shardings(after)} "
        f"along axis {axis!r}",
        where=operation.line,
        hint=f"{_masking_hint(operation, before)}redistribute first; legal rows: {shown}",
    )


def _masking_hint(operation: Operation, before: Sequence[object]) -> str:
    """Returns a hint that a replicated value added to a partial sum would count once per part."""
    sums = operation.primitive in (
        "add",
        "add_any",
        "sub",
        "scatter-add",
        "scatter-sub",
        "select_n",
    )
    if sums and ReductionKind.SUM in before and None in before:
        return (
            "a replicated value would count once for each part: zero it on all but the first, or "
        )
    return ""


def _order(
    operation: Operation,
    factor: Factor,
    by_axis: Mapping[str, Row],
    shardings: Sequence[Sharding],
) -> tuple[str, ...]:
    """Returns the axes on a factor, in the order that all values share."""
    cutting = {axis for axis, row in by_axis.items() if row.factor == factor}
    orders = {
        axes for sharding in shardings for axes in sharding.dimensions if cutting.intersection(axes)
    }
    if len(orders) == 1:
        return orders.pop()
    spelled = " and ".join(sorted(f"({','.join(axes)})" for axes in orders))
    raise InputError(
        f"{operation.primitive} has {factor.name!r} cut in different orders of axes: {spelled}",
        where=operation.line,
        hint="use one order of axes for all operands and results",
    )


def _check_axes(operation: Operation, how: OperationSharding, sizes: Mapping[str, int]) -> None:
    for factor, axes in how.factors.items():
        for axis in axes:
            if axis not in sizes:
                hint = f"the axes are {', '.join(sizes)}"
                raise InputError(f"no axis {axis!r}", where=operation.line, hint=hint)
        parts = prod(sizes[axis] for axis in axes)
        if factor.size % parts:
            over = " x ".join(f"{axis}={sizes[axis]}" for axis in axes)
            raise InputError(
                f"{over} cuts {factor.name!r} of {operation.primitive}"
                f" in {parts} parts, of size {factor.size} ({_places(factor)})",
                where=operation.line,
                hint="the product of the axes on a factor must divide its size",
            )
    needing_number = [factor for factor in how.factors if factor.index is not None]
    if len(needing_number) > 1:
        names = " and ".join(f"{each.name!r} by {how.factors[each][0]}" for each in needing_number)
        raise InputError(
            f"{operation.primitive} is cut in {names}, and both depend on the position of a part",
            where=operation.line,
            hint="shard only one of them",
        )


def _places(factor: Factor) -> str:
    """Returns the first dimension of a factor: ``dimension 0 of operand 1``."""
    for word, places in (("operand", factor.operands), ("result", factor.results)):
        for at, place in enumerate(places):
            if place is not None:
                return f"dimension {place} of {word} {at}"
    raise AssertionError(factor)


def _check_values(operation: Operation, how: OperationSharding, sizes: Mapping[str, int]) -> None:
    for value, sharding in zip(operation.values, (*how.operands, *how.results), strict=True):
        check_type(value.type, sharding, sizes, where=operation.line)
        kinds = sorted({kind.value for kind, _ in sharding.partial})
        if len(kinds) > 1:
            raise InputError(
                f"{operation.primitive} has a value {value.type.sharded(sharding)}, "
                f"partial in two kinds, {' and '.join(kinds)}",
                where=operation.line,
                hint="the result depends on which kind is reduced first: reduce one of them before",
            )
