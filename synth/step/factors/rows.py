"""All rows of an operation along one axis."""

from __future__ import annotations

from grammar.tensors.operations import Literal, Operation
from grammar.tensors.sharding import ReductionKind
from synth.primitives import PRIMITIVES
from synth.primitives.factor import Row, row_of
from synth.step.factors.flat import flat_rows
from synth.step.factors.forms import cache_by_form
from synth.step.factors.table import factors_of


@cache_by_form
def list_rows(operation: Operation) -> tuple[Row, ...]:
    """Returns the replicated row, a row for each factor, and the rows of partial operands.

    ``dot_general`` with a batch, a left, a right and a contracting dimension has 1 + 4 + 2 rows.
    Raises InputError as ``factors_of`` does.
    """
    factors = factors_of(operation)
    whole = Row((None,) * len(operation.operands), (None,) * len(operation.results))
    return (whole, *map(row_of, factors), *_partial_rows(operation))


@cache_by_form
def list_all_rows(operation: Operation) -> tuple[Row, ...]:
    """Returns ``list_rows``, followed by the rows along an axis that cuts values flat."""
    return (*list_rows(operation), *flat_rows(operation))


@cache_by_form
def find_all_rows(operation: Operation) -> frozenset[Row]:
    """Returns the rows of ``list_all_rows``, to look rows up."""
    return frozenset(list_all_rows(operation))


def _partial_rows(operation: Operation) -> tuple[Row, ...]:
    """Returns the distinct rows along one axis with partial operands and no factor.

    Random keys and sums of booleans have none. A literal is replicated; a zero counts as a sum.
    """
    dtypes = [value.type.dtype for value in operation.values]
    if "key" in dtypes:
        return ()
    rows = (
        _fit_literals(operation, row)
        for rule in PRIMITIVES[operation.primitive].partials
        for row in rule(operation)
    )
    legal = (
        row
        for row in rows
        if row is not None
        and any(row.operands)
        and not any(
            sharding is ReductionKind.SUM and dtype == "bool"
            for sharding, dtype in zip((*row.operands, *row.results), dtypes, strict=True)
        )
    )
    return tuple(dict.fromkeys(legal))


def _fit_literals(operation: Operation, row: Row) -> Row | None:
    """Replicates literals in a row: zero may stand for a sum, any literal for a max or min."""
    operands = list(row.operands)
    for at, operand in enumerate(operation.operands):
        if isinstance(operand, Literal):
            if operands[at] is ReductionKind.SUM and operand.value != 0:
                return None
            operands[at] = None
    return Row(tuple(operands), row.results)
