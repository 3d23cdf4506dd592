"""All that an operation may do along one axis."""

from __future__ import annotations

from grammar.tensors.operations import Operation
from synth.step.factors.factor import Row, row
from synth.step.factors.flat import flat_rows
from synth.step.factors.forms import by_form
from synth.step.factors.partials import partials
from synth.step.factors.table import factors


@by_form
def rows(operation: Operation) -> tuple[Row, ...]:
    """Every legal row: all replicated, one for each factor, those of partial operands.

    ``dot_general`` with a batch, a left, a right and a contracting dimension has 1 + 4 + 2.
    Raises InputError as ``factors`` does.
    """
    found = factors(operation)
    whole = Row((None,) * len(operation.operands), (None,) * len(operation.results))
    return (whole, *map(row, found), *partials(operation))


@by_form
def every_row(operation: Operation) -> tuple[Row, ...]:
    """The same, and then those along an axis that cuts values flat."""
    return (*rows(operation), *flat_rows(operation))
