"""What a row costs along an axis: of what is held, of how sums are completed, of the batch, of all.

Where it costs the same, results that samples or tokens no longer cut, or that are not as wished.
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
"""These make much of little: they look ahead at how that lies with which it is put together."""

LOOKUP_PRIMITIVES = ("gather", "scatter-add")
"""These need not have all that they look up or add to, and then make parts of sums."""


def count_sent_bytes(before: AxisSharding, after: AxisSharding, parts: int) -> float:
    """Of the whole value, what one device must send or receive along an axis: design section 5."""
    share = (parts - 1) / parts
    match before, after:
        case (ReductionKind(), None):
            return 2 * share
        case (ReductionKind(), Split() | Flat()):
            return share
        case (Split() | Flat(), None):
            return share
        case (Flat(one), Flat(other)) if one != other:
            return share
        case (Flat(), Split()) | (Split(), Flat()):
            return share
        case (Split(one), Split(other)) if one != other:
            return share / parts
    return 0.0


def count_uncut(row: Row, over: Sequence[frozenset[int]], kept: bool) -> int:
    """How many results could be cut by samples or tokens and are not, nor are sums that will be.

    A flat result does not count: the plan asks for it.
    """
    return sum(
        bool(places)
        and not isinstance(lie, Flat)
        and lie not in (*((ReductionKind.SUM,) if kept else ()), *map(Split, places))
        for lie, places in zip(row.results, over, strict=True)
    )


def needs_masks(known: KnownValues, operation: Operation, row: Row, axis: str) -> Iterator[bool]:
    """Of each operand whether it would be made a part of a sum that it need not be."""
    added_to = row.factor.partial if row.factor is not None else ()
    gradients = operation.primitive == "add_any" and ReductionKind.SUM in [
        known.lies(one).along(axis) for one in operation.operands
    ]
    for at, (operand, lie) in enumerate(zip(operation.operands, row.operands, strict=True)):
        if isinstance(operand, Value) and at not in added_to and not gradients:
            yield isinstance(lie, ReductionKind) and known.lies(operand).along(axis) is not lie


def price_row(
    known: KnownValues, operation: Operation, row: Row, axis: str, over: Sequence[frozenset[int]]
) -> tuple[float, ...]:
    """What is held, then how sums are completed, then what comes of the batch, then bytes.

    ``over``: the dimensions of each result that run over what the axis cuts of the batch.
    """
    shared = axis in known.rules.holding
    held, first, total, local, unlike = 0.0, 0.0, 0.0, 0, 0
    for operand, lie in zip(operation.operands, row.operands, strict=True):
        if isinstance(operand, Literal):
            continue
        before = known.lies(operand).along(axis)
        cost = _redistribution_bytes(known, before, lie, axis) * operand.type.bytes
        total += cost
        local += before != lie
        if isinstance(before, ReductionKind):
            fit = (before, known.completed(operand, axis), *((None,) if shared else ()))
            unlike += lie not in fit
        if operand.name in known.lineage.moving and axis in known.batch:
            first += cost
        if (operand.name, axis) in known.lineage.held:
            held += cost
    if operation.primitive in (*GROWING_PRIMITIVES, *LOOKUP_PRIMITIVES):
        first += _reader_bytes(known, operation, row.results[0], axis, over[0])
    names, narrow = [one.name for one in operation.results], narrows(operation)
    before = known.lies(operation.operands[0]).along(axis) if narrow else None
    away = [
        name
        for name, lie in zip(names, row.results, strict=True)
        if known.wishes.get((name, axis), before if narrow else None) != lie
    ]
    firm = sum(
        (name, axis) in known.firm and ((name, axis) in known.wishes or _gathers(operation, row))
        for name in away
    )
    if axis in known.batch and not known.lineage.moves(operation.operands):
        return (firm, held, len(away), total, local)
    partial = sum(isinstance(one, ReductionKind) for one in row.results)
    cheap, away_from = (first, total), count_uncut(row, over, kept=not total)
    order = (*cheap, away_from) if shared else (away_from, *cheap)
    return (firm, held, unlike, *order, local, partial)


def _redistribution_bytes(
    known: KnownValues, before: AxisSharding, after: AxisSharding, axis: str
) -> float:
    """Over microbatches sums cost nothing outside loops, and all else cannot be."""
    share = count_sent_bytes(before, after, known.rules.sizes[axis])
    if axis != TIME or not share:
        return share
    return 0.0 if before is ReductionKind.SUM and after is None and not known.nested else inf


def _gathers(operation: Operation, row: Row) -> bool:
    """Whether an update would go on with a part of what is to be whole in the end."""
    return operation.primitive in WISH_PRIMITIVES and isinstance(row.results[0], Split | Flat)


def _reader_bytes(
    known: KnownValues, operation: Operation, lie: AxisSharding, axis: str, over: frozenset[int]
) -> float:
    """What it would cost a result to lie as what its only reader puts it together with.

    If that is not known, sums that come of the batch will be completed: to be cut by samples or
    tokens, if they may be; of what is looked up to be whole. (What is added up may be a
    gradient, and stay a sum.)
    """
    value, grows = operation.results[0], operation.primitive in GROWING_PRIMITIVES
    beside = [one.along(axis) for one in known.beside(value)] if grows else []
    looks = operation.primitive in LOOKUP_PRIMITIVES and axis in known.batch
    if not beside and looks and isinstance(lie, ReductionKind):
        beside = [*map(Split, over)] or [None] * (not grows)
    costs = [_redistribution_bytes(known, lie, other, axis) for other in beside if lie != other]
    return value.type.bytes * min(costs, default=0.0) if lie not in beside else 0.0
