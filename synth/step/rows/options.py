"""What may be chosen: of an operation a row along each axis, of an input how it lies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

from grammar.tensors.operations import Operation
from grammar.tensors.sharding import (
    AxisSharding,
    ReductionKind,
    Sharding,
    Split,
    Type,
    check_type,
    replicated_sharding,
)
from hierarchies import InputError
from synth.step.factors import OperationSharding, Row, list_rows, shard_operation
from synth.step.sharding.plan import TIME, Rows


@dataclass(frozen=True)
class ShardingOption:
    """One way to do an operation: its rows as a plan says them, and how all then lies."""

    rows: Rows
    how: OperationSharding


def list_options(
    operation: Operation,
    sizes: Mapping[str, int],
    *,
    partial: bool = True,
    in_time: Row | None = None,
) -> tuple[ShardingOption, ...]:
    """Every legal choice of a row for each axis, the major axis slowest, replicated first.

    Along time, if microbatches are among ``sizes``, it is the row that is given, or replicated.

    Of two axes on one factor the one that comes first in ``sizes`` is the major one. Without
    ``partial`` no operand is a partial sum: ``dot_general`` with one index of each sort then has 5
    over one axis and 25 over two, with it 7 and 49. Raises InputError for an operation whose
    factors are not known.
    """
    legal = list_rows(operation)
    usable = [row for row in legal if partial or row.factor is not None or row == legal[0]]
    given = [in_time or legal[0]]
    found = []
    for chosen in product(*(given if axis == TIME else usable for axis in sizes)):
        named = tuple(
            (axis, row) for axis, row in zip(sizes, chosen, strict=True) if row != legal[0]
        )
        how = _type_option(operation, named, sizes)
        if how is not None:
            found.append(ShardingOption(named, how))
    return tuple(found)


def _type_option(
    operation: Operation, named: tuple[tuple[str, Row], ...], sizes: Mapping[str, int]
) -> OperationSharding | None:
    try:
        return shard_operation(operation, dict(named), sizes)
    except InputError:
        return None


def list_shardings(
    value: Type,
    sizes: Mapping[str, int],
    kinds: Iterable[ReductionKind] = (),
    in_time: AxisSharding = None,
) -> tuple[Sharding, ...]:
    """Every way a value may lie, cut by axes in the order of ``sizes``, replicated first.

    Along time it lies as is given.
    """
    each = [*range(len(value.shape)), *kinds]
    found = [replicated_sharding(len(value.shape)).laid(TIME, in_time)]
    for axis in (one for one in sizes if one != TIME):
        found = [
            sharding
            for before in found
            for sharding in (before, *(_shard_along(before, axis, one) for one in each))
        ]
    return tuple(one for one in found if _divides(value, one, sizes))


def _shard_along(before: Sharding, axis: str, one: int | ReductionKind) -> Sharding:
    if isinstance(one, ReductionKind):
        return before.laid(axis, one)
    return before.laid(axis, Split(one))


def _divides(value: Type, one: Sharding, sizes: Mapping[str, int]) -> bool:
    try:
        check_type(value, one, sizes)
    except InputError:
        return False
    return True
