"""The choices of a search: rows of an operation along each axis, and shardings of an input."""

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
    """One choice for an operation: its rows as in a plan, and the shardings that follow."""

    rows: Rows
    how: OperationSharding


def list_options(
    operation: Operation,
    sizes: Mapping[str, int],
    *,
    partial: bool = True,
    in_time: Row | None = None,
) -> tuple[ShardingOption, ...]:
    """Returns every legal choice of a row for each axis; the major axis varies slowest.

    Replicated options come first. Along time, if ``sizes`` has microbatches, the row is
    ``in_time``, or replicated.

    If two axes cut one factor, the first in ``sizes`` is major. Without ``partial`` no operand is a
    partial sum: ``dot_general`` with one index of each kind then has 5 options over one axis and 25
    over two; with ``partial`` it has 7 and 49. Raises InputError for an operation without known
    factors.
    """
    legal = list_rows(operation)
    usable = [row for row in legal if partial or row.factor is not None or row == legal[0]]
    of_time = [in_time or legal[0]]
    options = []
    for chosen in product(*(of_time if axis == TIME else usable for axis in sizes)):
        named = tuple(
            (axis, row) for axis, row in zip(sizes, chosen, strict=True) if row != legal[0]
        )
        how = _type_option(operation, named, sizes)
        if how is not None:
            options.append(ShardingOption(named, how))
    return tuple(options)


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
    """Returns every sharding of a value, with axes in the order of ``sizes``, replicated first.

    Along time, all of them have the sharding ``in_time``.
    """
    choices: list[AxisSharding] = [*map(Split, range(len(value.shape))), *kinds]
    shardings = [replicated_sharding(len(value.shape)).laid(TIME, in_time)]
    for axis in sizes:
        if axis != TIME:
            shardings = [
                sharding
                for before in shardings
                for sharding in (before, *(before.laid(axis, choice) for choice in choices))
            ]
    return tuple(sharding for sharding in shardings if _divides(value, sharding, sizes))


def _divides(value: Type, sharding: Sharding, sizes: Mapping[str, int]) -> bool:
    try:
        check_type(value, sharding, sizes)
    except InputError:
        return False
    return True
