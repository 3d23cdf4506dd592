"""Rows with partial operands: which operands may be partial, and which partial results follow.

A sum commutes with linear operations: ``-(a + b) = -a + -b``; a maximum with operations that are
monotone and defined everywhere: ``exp(max(a, b)) = max(exp(a), exp(b))``. ``log`` is not: a part
may be negative although the maximum is not. A primitive without a rule is an error, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from grammar.tensors.operations import Literal, Operation
from grammar.tensors.sharding import AxisSharding, ReductionKind
from synth.step.factors.factor import Row
from synth.step.factors.parameters import read_number, read_word, split_words, type_of

SUM, MAX, MIN = ReductionKind.SUM, ReductionKind.MAX, ReductionKind.MIN
ORDERED = (MAX, MIN)
MIRROR = {MAX: MIN, MIN: MAX}
ALL_SUBSETS = 4
"""The most operands of which all subsets become rows; of more (a long concatenate) only each
operand alone and all together."""

Partials = Callable[[Operation], Iterator[Row]]


def partial_rows(operation: Operation) -> tuple[Row, ...]:
    """Returns the distinct rows along one axis with partial operands and no factor.

    Random keys and sums of booleans have none. A literal is replicated; a zero counts as a sum.
    """
    values = (*operation.operands, *operation.results)
    dtypes = [type_of(value).dtype for value in values]
    if "key" in dtypes:
        return ()
    rows = (
        _fit_literals(operation, row)
        for rule in PARTIALS.get(operation.primitive, ())
        for row in rule(operation)
    )
    legal = (
        row
        for row in rows
        if row is not None
        and any(row.operands)
        and not any(
            sharding is SUM and dtype == "bool"
            for sharding, dtype in zip((*row.operands, *row.results), dtypes, strict=True)
        )
    )
    return tuple(dict.fromkeys(legal))


def _fit_literals(operation: Operation, row: Row) -> Row | None:
    """Replicates literals in a row: zero may stand for a sum, any literal for a max or min."""
    operands = list(row.operands)
    for at, operand in enumerate(operation.operands):
        if isinstance(operand, Literal):
            if operands[at] is SUM and operand.value != 0:
                return None
            operands[at] = None
    return Row(tuple(operands), row.results)


def _row(operation: Operation, partial: Mapping[int, AxisSharding], result: AxisSharding) -> Row:
    """Returns a row with some partial operands, others replicated, and equal results."""
    operands = tuple(partial.get(at) for at in range(len(operation.operands)))
    return Row(operands, (result,) * len(operation.results))


def _wraps(operation: Operation) -> bool:
    """Whether arithmetic wraps around, as that of integers does, and so keeps no order.

    This matters even for small numbers: padding around a block of a minimum is the largest number.
    """
    return not all(_is_float(type_of(value).dtype) for value in operation.results)


def through_rule(kinds: Sequence[ReductionKind], *places: int) -> Partials:
    """One of these operands (default: the first) is partial, and the results are, too."""

    def rule(operation: Operation) -> Iterator[Row]:
        for place in places or (0,):
            for kind in kinds:
                yield _row(operation, {place: kind}, kind)

    return rule


def sums_rule(*places: int) -> Partials:
    """These operands (default: all) are partial sums, and so are the results."""

    def rule(operation: Operation) -> Iterator[Row]:
        chosen = places or range(len(operation.operands))
        yield _row(operation, dict.fromkeys(chosen, SUM), SUM)

    return rule


def extremes_rule(*places: int, kinds: Sequence[ReductionKind] = ORDERED) -> Partials:
    """Any subset of these operands (default: all) are maxima (minima), and so are the results."""

    def rule(operation: Operation) -> Iterator[Row]:
        for chosen in _subsets(places or range(len(operation.operands))):
            for kind in kinds:
                yield _row(operation, dict.fromkeys(chosen, kind), kind)

    return rule


def _subsets(places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    counts = range(1, len(places) + 1) if len(places) <= ALL_SUBSETS else (1, len(places))
    for count in counts:
        yield from combinations(places, count)


def shift_rule(*places: int) -> Partials:
    """A replicated value may be added to a maximum or minimum, except of integers."""

    def rule(operation: Operation) -> Iterator[Row]:
        if not _wraps(operation):
            yield from through_rule(ORDERED, *places)(operation)

    return rule


def mirror_rule(place: int) -> Partials:
    """The operand is negated, so a maximum becomes a minimum."""

    def rule(operation: Operation) -> Iterator[Row]:
        if not _wraps(operation):
            for kind in ORDERED:
                yield _row(operation, {place: kind}, MIRROR[kind])

    return rule


def select_rows(operation: Operation) -> Iterator[Row]:
    """select_n: the predicate is replicated; the values are all sums, or any of them maxima."""
    values = range(1, len(operation.operands))
    yield from sums_rule(*values)(operation)
    yield from extremes_rule(*values)(operation)


def divide_rows(operation: Operation) -> Iterator[Row]:
    """div: the numerator may be a sum, except of integers, whose division rounds."""
    if _is_float(type_of(operation.operands[0]).dtype):
        yield from through_rule((SUM,))(operation)


def convert_rows(operation: Operation) -> Iterator[Row]:
    """Casts of sums to a float, which change only rounding; of maxima if they keep the order."""
    before, after = type_of(operation.operands[0]).dtype, operation.results[0].type.dtype
    if _is_float(after) and not before.startswith("u"):
        yield from through_rule((SUM,))(operation)
    if _keeps_order(before, after):
        yield from through_rule(ORDERED)(operation)


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("f", "bf"))


def _keeps_order(before: str, after: str) -> bool:
    """Whether a cast wraps nothing around: to floats, or to integers that are wide enough."""
    if after in ("bool", *WITHOUT_INFINITY) or before == after:
        return before == after
    if _is_float(after) or before == "bool":
        return True
    if after.startswith("u"):
        return before.startswith("u") and int(before[1:]) <= int(after[1:])
    if _is_float(before):
        return int(after[1:]) >= WHOLE_BITS
    return int(before[1:]) + before.startswith("u") <= int(after[1:])


WHOLE_BITS = 32
"""Casts of floats to integers of at least so many bits saturate; narrower ones may wrap."""
WITHOUT_INFINITY = ("f8_e4m3fn",)
"""Floats in which overflow gives NaN, which has no order."""


def odd_power_rows(operation: Operation) -> Iterator[Row]:
    """Positive odd powers are monotone, except those of integers, which wrap around."""
    power = read_number(operation, "y")
    if power % 2 and power > 0 and not _wraps(operation):
        yield from through_rule(ORDERED)(operation)


def gather_rows(operation: Operation) -> Iterator[Row]:
    """gather only moves data, unless it fills out-of-bounds entries, which each part would add."""
    if read_word(operation, "mode") != "fill_or_drop":
        yield from through_rule(tuple(ReductionKind))(operation)


def sort_rows(operation: Operation) -> Iterator[Row]:
    """sort: keys are replicated, so all parts have the same order, and payloads may be partial."""
    keys = read_number(operation, "num_keys")
    for chosen in _subsets(range(keys, len(operation.operands))):
        for kind in ReductionKind:
            partial = tuple(kind if at in chosen else None for at in range(len(operation.operands)))
            yield Row(partial, partial)


def extreme_rule(kind: ReductionKind) -> Partials:
    """max: of a maximum or minimum with a replicated value, or of two maxima."""

    def rule(operation: Operation) -> Iterator[Row]:
        yield from through_rule(ORDERED, 0, 1)(operation)
        yield _row(operation, {0: kind, 1: kind}, kind)

    return rule


MOVEMENT_RULES = (through_rule(tuple(ReductionKind)),)
MONOTONE_RULES = (through_rule(ORDERED),)
PRODUCT_RULES = (through_rule((SUM,), 0, 1),)
UPDATE_RULES = (sums_rule(0, 1), extremes_rule(0, 1))

PARTIALS: Mapping[str, tuple[Partials, ...]] = {
    **dict.fromkeys(
        split_words("transpose reshape broadcast_in_dim slice split rev squeeze"), MOVEMENT_RULES
    ),
    **dict.fromkeys(
        split_words("copy stop_gradient dynamic_slice unstack tile optimization_barrier"),
        MOVEMENT_RULES,
    ),
    "gather": (gather_rows,),
    "concatenate": (sums_rule(), extremes_rule()),
    "stack": (sums_rule(), extremes_rule()),
    "select_n": (select_rows,),
    "dynamic_update_slice": UPDATE_RULES,
    "scatter": (sums_rule(0, 2), extremes_rule(0, 2)),
    "pad": UPDATE_RULES,
    "add": (sums_rule(), shift_rule(0, 1)),
    "add_any": (sums_rule(), shift_rule(0, 1)),
    "sub": (sums_rule(), shift_rule(0), mirror_rule(1)),
    "neg": (through_rule((SUM,)), mirror_rule(0)),
    **dict.fromkeys(
        split_words("mul dot_general ragged_dot_general conv_general_dilated"), PRODUCT_RULES
    ),
    "div": (divide_rows,),
    "reduce_sum": (through_rule((SUM,)),),
    "cumsum": (through_rule((SUM,)),),
    "cummax": (through_rule((MAX,)),),
    "cummin": (through_rule((MIN,)),),
    "select_and_scatter_add": (through_rule((SUM,)),),
    "scatter-add": (sums_rule(0, 2), shift_rule(0)),
    "scatter-sub": (sums_rule(0, 2), shift_rule(0)),
    "scatter-mul": (through_rule((SUM,)),),
    "scatter-max": (extremes_rule(0, 2, kinds=(MAX,)), through_rule((MIN,))),
    "scatter-min": (extremes_rule(0, 2, kinds=(MIN,)), through_rule((MAX,))),
    "convert_element_type": (convert_rows,),
    **dict.fromkeys(
        split_words("exp exp2 expm1 tanh sinh asinh atan logistic erf cbrt"), MONOTONE_RULES
    ),
    **dict.fromkeys(split_words("floor ceil round sign reduce_precision"), MONOTONE_RULES),
    "integer_pow": (odd_power_rows,),
    "clamp": (through_rule(ORDERED, 1),),
    "max": (extreme_rule(MAX),),
    "min": (extreme_rule(MIN),),
    "reduce_max": (through_rule((MAX,)),),
    "reduce_min": (through_rule((MIN,)),),
    "reduce_window_sum": (through_rule((SUM,)),),
    "reduce_window_max": (through_rule((MAX,)),),
    "reduce_window_min": (through_rule((MIN,)),),
    "sort": (sort_rows,),
}
"""The rules of each primitive; partial operands that no rule admits are an error."""
