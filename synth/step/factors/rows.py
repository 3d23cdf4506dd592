"""All rows of an operation along one axis."""

from __future__ import annotations

from grammar.tensors.operations import Operation
from synth.step.factors.factor import Row, row_of
from synth.step.factors.flat import flat_rows
from synth.step.factors.forms import cache_by_form
from synth.step.factors.partials import partial_rows
from synth.step.factors.table import factors_of


@cache_by_form
def list_rows(operation: Operation) -> tuple[Row, ...]:
    """Returns the replicated row, a row for each factor, and those of partial operands.

    ``dot_general`` with a batch, a left, a right and a contracting dimension has 1 + 4 + 2.
    Raises InputError as ``factors_of`` does.
    """
    factors = factors_of(operation)
    whole = Row((None,) * len(operation.operands), (None,) * len(operation.results))
    return (whole, *map(row_of, factors), *partial_rows(operation))


@cache_by_form
def list_all_rows(operation: Operation) -> tuple[Row, ...]:
    """Returns ``list_rows``, followed by the rows along an axis that cuts values flat."""
    return (*list_rows(operation), *flat_rows(operation))
