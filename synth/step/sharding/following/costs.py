"""Costs of rows along one axis, as tuples that are compared lexicographically.

The bytes of held values come first, then the completion of sums, then the bytes of the batch, then
all bytes. Ties are broken by the number of results that are no longer cut by samples or tokens, and
by unfulfilled wishes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from grammar.tensors.operations import Literal, Operation, Value
from grammar.tensors.sharding import AxisSharding, Flat, ReductionKind, Split
from synth.step.factors import Row
from synth.step.sharding.following.known import WISH_PRIMITIVES, KnownValues
from synth.step.sharding.lineage import narrows
from synth.step.sharding.plan import TIME

GROWING_PRIMITIVES = ("broadcast_in_dim", "scatter-add")
"""Primitives whose results are larger than their operands: the cost looks ahead to the readers."""

LOOKUP_PRIMITIVES = ("gather", "scatter-add")
"""Primitives that can use a part of the table they read or add to, with partial sums as results."""


def count_sent_bytes(before: AxisSharding, after: AxisSharding, parts: int) -> float:
    """Returns the share of a value's bytes that a device must send or receive along an axis."""
    share = (parts - 1) / parts
    match before, after:
        case (ReductionKind(), None):
            return 2 * share
        case (ReductionKind(), Split() | Flat()):
            return share
        case (Split() | Flat(), None):
            return share
        case (Flat(lead), Flat(other)) if lead != other:
            return share
        case (Flat(), Split()) | (Split(), Flat()):
            return share
        case (Split(dimension), Split(other)) if dimension != other:
            return share / parts
    return 0.0


def count_uncut(row: Row, over: Sequence[frozenset[int]], kept: bool) -> int:
    """Counts results that could be cut by samples or tokens but are not.

    Flat results do not count, because the plan requires them; nor do partial sums if ``kept``.
    """
    return sum(
        bool(places)
        and not isinstance(sharding, Flat)
        and sharding not in (*((ReductionKind.SUM,) if kept else ()), *map(Split, places))
        for sharding, places in zip(row.results, over, strict=True)
    )


def needs_masks(known: KnownValues, operation: Operation, row: Row, axis: str) -> Iterator[bool]:
    """Yields, for each operand, whether a row would needlessly turn it into a partial sum."""
    added_to = row.factor.partial if row.factor is not None else ()
    adds_gradients = operation.primitive == "add_any" and ReductionKind.SUM in [
        known.sharding(operand).along(axis) for operand in operation.operands
    ]
    for at, (operand, target) in enumerate(zip(operation.operands, row.operands, strict=True)):
        if isinstance(operand, Value) and at not in added_to and not adds_gradients:
            source = known.sharding(operand).along(axis)
            yield isinstance(target, ReductionKind) and source is not target


def price_row(
    known: KnownValues, operation: Operation, row: Row, axis: str, over: Sequence[frozenset[int]]
) -> tuple[float, ...]:
    """Returns the cost of a row: held values, completion of sums, the batch, then all bytes.

    ``over`` has the dimensions of each result that run over samples or tokens along the axis.
    """
    shared = axis in known.rules.holding
    held, batch, total, changed, miscompleted = 0.0, 0.0, 0.0, 0, 0
    for operand, target in zip(operation.operands, row.operands, strict=True):
        if isinstance(operand, Literal):
            continue
        before = known.sharding(operand).along(axis)
        cost = _redistribution_bytes(known, before, target, axis) * operand.type.bytes
        total += cost
        changed += before != target
        if isinstance(before, ReductionKind):
            fitting = (before, known.completed(operand, axis), *((None,) if shared else ()))
            miscompleted += target not in fitting
        if operand.name in known.lineage.moving and axis in known.batch:
            batch += cost
        if (operand.name, axis) in known.lineage.held:
            held += cost
    if operation.primitive in (*GROWING_PRIMITIVES, *LOOKUP_PRIMITIVES):
        batch += _reader_bytes(known, operation, row.results[0], axis, over[0])
    names, narrow = [value.name for value in operation.results], narrows(operation)
    before = known.sharding(operation.operands[0]).along(axis) if narrow else None
    unfulfilled = [
        name
        for name, target in zip(names, row.results, strict=True)
        if known.wishes.get((name, axis), before if narrow else None) != target
    ]
    firm = sum(
        (name, axis) in known.firm and ((name, axis) in known.wishes or _stays_cut(operation, row))
        for name in unfulfilled
    )
    if axis in known.batch and not known.lineage.moves(operation.operands):
        return (firm, held, len(unfulfilled), total, changed)
    partial = sum(isinstance(target, ReductionKind) for target in row.results)
    sent, uncut = (batch, total), count_uncut(row, over, kept=not total)
    order = (*sent, uncut) if shared else (uncut, *sent)
    return (firm, held, miscompleted, *order, changed, partial)


def _redistribution_bytes(
    known: KnownValues, before: AxisSharding, after: AxisSharding, axis: str
) -> float:
    """Returns the share of bytes of a redistribution along an axis.

    Along time, sums outside loops are free; other redistributions are impossible (``inf``).
    """
    share = count_sent_bytes(before, after, known.rules.sizes[axis])
    if axis != TIME or not share:
        return share
    return 0.0 if before is ReductionKind.SUM and after is None and not known.nested else inf


def _stays_cut(operation: Operation, row: Row) -> bool:
    """Whether an update would continue on a part of a value that must end up whole."""
    return operation.primitive in WISH_PRIMITIVES and isinstance(row.results[0], Split | Flat)


def _reader_bytes(
    known: KnownValues, operation: Operation, made: AxisSharding, axis: str, over: frozenset[int]
) -> float:
    """Returns the bytes to redistribute a result to the sharding of its reader's other operands.

    If that sharding is unknown, partial sums of the batch will be completed: cut by samples or
    tokens if possible, otherwise whole for a gather. (The result of a scatter-add may be a
    gradient, which stays a partial sum.)
    """
    value, grows = operation.results[0], operation.primitive in GROWING_PRIMITIVES
    targets = [other.along(axis) for other in known.beside(value)] if grows else []
    looks_up = operation.primitive in LOOKUP_PRIMITIVES and axis in known.batch
    if not targets and looks_up and isinstance(made, ReductionKind):
        targets = [*map(Split, over)] or [None] * (not grows)
    costs = [_redistribution_bytes(known, made, target, axis) for target in targets]
    return value.type.bytes * min(costs, default=0.0) if made not in targets else 0.0
