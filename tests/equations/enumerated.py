"""The judge of the table: every type of every value of an equation, executed in two parts.

A combination says of each operand and each result how it lies along one axis: replicated, cut in
a dimension, partial. It is right if the parts, computed from parts of the operands, mean the whole
results, in draws that vary signs, fractions, scalars and indices. A row that is not right is
wrong; a combination that is right and no row is missing, and someone should know why.

The judge cuts shapes among parameters by its own list (``variants``). What only the number of a
part makes right it cannot know: such rows are executed as they say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any
from zlib import crc32

import numpy as np

from equations.cases import Case
from equations.executed import execute
from equations.laid_out import along, means
from equations.parts import execute_part
from grammar.tensors.operations import Literal, Operand, Operation, Value
from grammar.tensors.sharding import AxisSharding, ReductionKind, Split
from synth.step.factors import Row, list_rows, part_of, shard_operation

Array = Any
Told = Mapping[str, Any]
Combination = tuple[tuple[AxisSharding, ...], tuple[AxisSharding, ...]]
DRAWS, PARTS, AXIS = 6, 2, "a"
MORE = 18
"""So many more draws of what is right and no row: a predicate is one bit of luck a draw."""


@dataclass(frozen=True)
class Found:
    """Of one equation: how many combinations, which rows are wrong, which right ones no row."""

    combinations: int
    rows: int
    wrong: frozenset[Combination]
    missing: frozenset[Combination]


def lies_of(value: Operand) -> list[AxisSharding]:
    """Every way a value may lie along an axis of two."""
    if isinstance(value, Literal) or value.type.dtype == "key":
        return [None]
    cut = [Split(at) for at, size in enumerate(value.type.shape) if size % PARTS == 0]
    return [
        None,
        *cut,
        *(k for k in ReductionKind if value.type.dtype != "bool" or k is not ReductionKind.SUM),
    ]


def enumerated(case: Case, table: Sequence[Row] | None = None) -> Found:
    """All combinations of an equation, against its rows."""
    operation = case.operation
    legal = list_rows(operation) if table is None else table
    known = {(row.operands, row.results) for row in legal}
    implied = set(_implied(known, operation))
    operands = list(product(*map(lies_of, operation.operands)))
    results = list(product(*map(lies_of, operation.results)))
    tried = [
        *(Tried(one, set(results), told) for one in operands for told in variants(operation)),
        *(Tried(row.operands, {row.results}, row=row) for row in legal),
    ]
    for seed in range(DRAWS + MORE):
        if seed == DRAWS:
            own = {(one.before, after) for one in tried if one.row for after in one.right}
            found = {(one.before, after) for one in tried for after in one.right}
            for one in tried:
                one.right -= {after for after in one.right if (one.before, after) in implied}
        tried = [one for one in tried if one.right]
        _narrow(case, tried, np.random.default_rng([seed, crc32(case.name.encode())]))
    missing = {(one.before, after) for one in tried for after in one.right}
    wrong = (known - own) | (implied - found)
    count = len(operands) * len(results)
    return Found(count, len(legal), frozenset(wrong), frozenset(missing))


def is_right(case: Case, before: tuple[AxisSharding, ...], after: tuple[AxisSharding, ...]) -> bool:
    """One combination, in as many draws; not as the table says."""
    tried = [Tried(before, {after}, told) for told in variants(case.operation)]
    for seed in range(DRAWS):
        _narrow(case, tried, np.random.default_rng([seed, crc32(case.name.encode())]))
    return any(one.right for one in tried)


@dataclass
class Tried:
    """Operands that lie so, what the parts compute of them, and which results were right so far.

    The parts are told ``told``, or compute what a row of the table says.
    """

    before: tuple[AxisSharding, ...]
    right: set[tuple[AxisSharding, ...]]
    told: Told | None = None
    row: Row | None = None


def _narrow(case: Case, tried: Sequence[Tried], draws: np.random.Generator) -> None:
    """Keep what is right in one more draw."""
    operation = case.operation
    whole = case.drawn(draws)
    expected = execute(operation.primitive, operation.parameter, whole)
    parts = [
        {lie: along(one, lie, PARTS, draws) for lie in lies_of(value)}
        for one, value in zip(whole, operation.operands, strict=True)
    ]
    for one in tried:
        if not one.right:
            continue
        devices = [
            [parts[at][lie][device] for at, lie in enumerate(one.before)] for device in range(PARTS)
        ]
        made = _made(operation, one, devices)
        one.right = {after for after in one.right if _is(made, after, expected)}


def _made(
    operation: Operation, tried: Tried, devices: Sequence[Sequence[Array]]
) -> list[list[Array]] | None:
    """Each result on all devices; None if the parts do not fit together."""
    try:
        if tried.row is not None:
            how = shard_operation(operation, {AXIS: tried.row}, {AXIS: PARTS})
            todo = part_of(operation, how, {AXIS: PARTS})
            found = [execute_part(todo, one, {AXIS: PARTS}, (d,)) for d, one in enumerate(devices)]
        else:
            assert tried.told is not None
            found = [execute(operation.primitive, tried.told, one) for one in devices]
    except (TypeError, ValueError, IndexError, ZeroDivisionError):
        return None
    return [list(one) for one in zip(*found, strict=True)]


def _is(
    made: list[list[Array]] | None, after: tuple[AxisSharding, ...], expected: Sequence[Array]
) -> bool:
    if made is None:
        return False
    each = zip(made, after, expected, strict=True)
    return all(means(parts, lie, whole) for parts, lie, whole in each)


def _implied(known: Iterable[Combination], operation: Operation) -> Iterator[Combination]:
    """The rows, and what follows as a replicated value is read as a maximum (minimum) of equals."""

    def operand(value: Operand, lie: AxisSharding) -> list[AxisSharding]:
        return [lie, None] if lie in (ReductionKind.MAX, ReductionKind.MIN) else [lie]

    def result(value: Value, lie: AxisSharding) -> list[AxisSharding]:
        if lie is None and value.type.dtype != "key":
            return [None, ReductionKind.MAX, ReductionKind.MIN]
        return [lie]

    for before, after in known:
        operands = map(operand, operation.operands, before)
        results = map(result, operation.results, after)
        yield from product(product(*operands), product(*results))


def variants(operation: Operation) -> list[Told]:
    """The parameters as they are, and with one entry of one shape among them cut in two."""
    told = dict(operation.parameters)
    found = [told]
    for name in CUT.get(operation.primitive, ()):
        value = told[name]
        if isinstance(value, int):
            found.append({**told, name: value // PARTS})
            continue
        for at, size in enumerate(value):
            if size > 1 and size % PARTS == 0:
                found.append({**told, name: (*value[:at], size // PARTS, *value[at + 1 :])})
    return found


CUT: Mapping[str, Sequence[str]] = {
    "broadcast_in_dim": ("shape",),
    "reshape": ("new_sizes",),
    "iota": ("shape",),
    "slice": ("limit_indices",),
    "dynamic_slice": ("slice_sizes",),
    "gather": ("slice_sizes",),
    "split": ("sizes",),
    "conv_general_dilated": ("feature_group_count", "batch_group_count"),
    "random_bits": ("shape",),
}
