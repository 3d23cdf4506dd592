"""Rows with partial operands: which operands may be partial, and the partial results that follow.

A sum commutes with linear operations: ``-(a + b) = -a + -b``. A maximum commutes with operations
that are monotone and defined everywhere: ``exp(max(a, b)) = max(exp(a), exp(b))``. ``log`` is not
defined everywhere: a part may be negative although the maximum is not. A primitive without a rule
is an error, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from grammar.tensors.operations import Operation
from grammar.tensors.sharding import AxisSharding, ReductionKind, is_float
from synth.primitives.factor import Row
from synth.primitives.parameters import read_number, read_word

SUM, MAX, MIN = ReductionKind.SUM, ReductionKind.MAX, ReductionKind.MIN
ORDERED = (MAX, MIN)
MIRROR = {MAX: MIN, MIN: MAX}
ALL_SUBSETS = 4
"""The most operands whose subsets all become rows.

With more operands (a long concatenate) only each operand alone and all together do.
"""

PartialRule = Callable[[Operation], Iterator[Row]]


def _row(operation: Operation, partial: Mapping[int, AxisSharding], result: AxisSharding) -> Row:
    """Returns a row with some partial operands, others replicated, and equal results."""
    operands = tuple(partial.get(at) for at in range(len(operation.operands)))
    return Row(operands, (result,) * len(operation.results))


def _wraps(operation: Operation) -> bool:
    """Returns whether arithmetic wraps around, as integers do, and therefore keeps no order.

    This matters even for small numbers: padding around a block of a minimum is the largest number.
    """
    return not all(is_float(value.type.dtype) for value in operation.results)


def through_rule(kinds: Sequence[ReductionKind], *places: int) -> PartialRule:
    """Returns a rule: one of these operands (default: first) is partial, and so are the results."""

    def rule(operation: Operation) -> Iterator[Row]:
        for place in places or (0,):
            for kind in kinds:
                yield _row(operation, {place: kind}, kind)

    return rule


def sums_rule(*places: int) -> PartialRule:
    """Returns a rule: these operands (default: all) are partial sums, and so are the results."""

    def rule(operation: Operation) -> Iterator[Row]:
        chosen = places or range(len(operation.operands))
        yield _row(operation, dict.fromkeys(chosen, SUM), SUM)

    return rule


def extremes_rule(*places: int, kinds: Sequence[ReductionKind] = ORDERED) -> PartialRule:
    """Returns a rule: any subset of these operands are maxima (minima), and so are the results.

    By default all operands.
    """

    def rule(operation: Operation) -> Iterator[Row]:
        for chosen in _subsets(places or range(len(operation.operands))):
            for kind in kinds:
                yield _row(operation, dict.fromkeys(chosen, kind), kind)

    return rule


def _subsets(places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    counts = range(1, len(places) + 1) if len(places) <= ALL_SUBSETS else (1, len(places))
    for count in counts:
        yield from combinations(places, count)


def shift_rule(*places: int) -> PartialRule:
    """Returns a rule: a replicated value may be added to an extreme, except of integers."""

    def rule(operation: Operation) -> Iterator[Row]:
        if not _wraps(operation):
            yield from through_rule(ORDERED, *places)(operation)

    return rule


def mirror_rule(place: int) -> PartialRule:
    """Returns a rule: the operand is negated, so a maximum becomes a minimum."""

    def rule(operation: Operation) -> Iterator[Row]:
        if not _wraps(operation):
            for kind in ORDERED:
                yield _row(operation, {place: kind}, MIRROR[kind])

    return rule


def select_rows(operation: Operation) -> Iterator[Row]:
    """Yields rows of select_n: a replicated predicate; values are all sums, or any are maxima."""
    values = range(1, len(operation.operands))
    yield from sums_rule(*values)(operation)
    yield from extremes_rule(*values)(operation)


def divide_rows(operation: Operation) -> Iterator[Row]:
    """Yields rows of div: the numerator may be a sum, except of integers, whose division rounds."""
    if is_float(operation.operands[0].type.dtype):
        yield from through_rule((SUM,))(operation)


def convert_rows(operation: Operation) -> Iterator[Row]:
    """Yields rows of casts: of sums to floats, up to rounding; of maxima if order is preserved."""
    before, after = operation.operands[0].type.dtype, operation.results[0].type.dtype
    if is_float(after) and not before.startswith("u"):
        yield from through_rule((SUM,))(operation)
    if _keeps_order(before, after):
        yield from through_rule(ORDERED)(operation)


def _keeps_order(before: str, after: str) -> bool:
    """Returns whether a cast never wraps around: to floats, or to integers that are wide enough."""
    if after in ("bool", *WITHOUT_INFINITY) or before == after:
        return before == after
    if is_float(after) or before == "bool":
        return True
    if after.startswith("u"):
        return before.startswith("u") and int(before[1:]) <= int(after[1:])
    if is_float(before):
        return int(after[1:]) >= WHOLE_BITS
    return int(before[1:]) + before.startswith("u") <= int(after[1:])


WHOLE_BITS = 32
"""Casts of floats to integers of at least this many bits saturate; narrower casts may wrap."""
WITHOUT_INFINITY = ("f8_e4m3fn",)
"""Floats whose overflow gives NaN, which has no order."""


def odd_power_rows(operation: Operation) -> Iterator[Row]:
    """Yields rows of positive odd powers, which are monotone, except of wrapping integers."""
    power = read_number(operation, "y")
    if power % 2 and power > 0 and not _wraps(operation):
        yield from through_rule(ORDERED)(operation)


def gather_rows(operation: Operation) -> Iterator[Row]:
    """Yields rows of gather, which only moves data; none if it fills, as each part would add it."""
    if read_word(operation, "mode") != "fill_or_drop":
        yield from through_rule(tuple(ReductionKind))(operation)


def sort_rows(operation: Operation) -> Iterator[Row]:
    """Yields rows of sort: keys are replicated, so parts sort alike; payloads may be partial."""
    keys = read_number(operation, "num_keys")
    for chosen in _subsets(range(keys, len(operation.operands))):
        for kind in ReductionKind:
            partial = tuple(kind if at in chosen else None for at in range(len(operation.operands)))
            yield Row(partial, partial)


def extreme_rule(kind: ReductionKind) -> PartialRule:
    """Returns the rule of max: a maximum or minimum with a replicated value, or two maxima."""

    def rule(operation: Operation) -> Iterator[Row]:
        yield from through_rule(ORDERED, 0, 1)(operation)
        yield _row(operation, {0: kind, 1: kind}, kind)

    return rule


MOVEMENT_RULES = (through_rule(tuple(ReductionKind)),)
MONOTONE_RULES = (through_rule(ORDERED),)
LINEAR_RULES = (through_rule((SUM,)),)
PRODUCT_RULES = (through_rule((SUM,), 0, 1),)
ADDITION_RULES = (sums_rule(), shift_rule(0, 1))
JOIN_RULES = (sums_rule(), extremes_rule())
UPDATE_RULES = (sums_rule(0, 1), extremes_rule(0, 1))
SCATTER_SUM_RULES = (sums_rule(0, 2), shift_rule(0))
MAX_RULES = (through_rule((MAX,)),)
MIN_RULES = (through_rule((MIN,)),)
