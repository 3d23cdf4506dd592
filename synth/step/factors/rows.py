"""All that an operation may do along one axis."""

from __future__ import annotations

from grammar.tensors.operations import Operation
from synth.step.factors.factor import Row, row_of
from synth.step.factors.flat import flat_rows
from synth.step.factors.forms import cache_by_form
from synth.step.factors.partials import partial_rows
from synth.step.factors.table import factors_of


@cache_by_form
def list_rows(operation: Operation) -> tuple[Row, ...]:
    """Every legal row: all replicated, one for each factor, those of partial operands.

    ``dot_general`` with a batch, a left, a right and a contracting dimension has 1 + 4 + 2.
    Raises InputError as ``factors_of`` does.
    """
    found = factors_of(operation)
    whole = Row((None,) * len(operation.operands), (None,) * len(operation.results))
    return (whole, *map(row_of, found), *partial_rows(operation))


@cache_by_form
def list_all_rows(operation: Operation) -> tuple[Row, ...]:
    """The same, and then those along an axis that cuts values flat."""
    return (*list_rows(operation), *flat_rows(operation))
