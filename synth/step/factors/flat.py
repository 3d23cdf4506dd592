"""Rows of operations on flat values: elementwise operations, fills, and sums of all elements.

Every other operation needs a dimension that flattening removes, so its operands are gathered first.
"""

from __future__ import annotations

from collections.abc import Iterator

from grammar.tensors.operations import Operation
from grammar.tensors.sharding import Flat, ReductionKind
from synth.primitives import is_elementwise
from synth.primitives.factor import Row
from synth.primitives.parameters import read_numbers
from synth.step.factors.forms import cache_by_form

FILL_PRIMITIVE = "broadcast_in_dim"
SUM_PRIMITIVE = "reduce_sum"


@cache_by_form
def flat_rows(operation: Operation) -> tuple[Row, ...]:
    """Returns the rows along an axis that cuts values flat, one per number of lead dimensions.

    All operands and results of an elementwise operation share one flat sharding; scalars are
    replicated. A sum over every flattened dimension gives a partial sum; padding adds nothing.
    """
    return tuple(_rows(operation))


def _rows(operation: Operation) -> Iterator[Row]:
    if operation.primitive == SUM_PRIMITIVE:
        [shape] = operation.shapes
        reduced = read_numbers(operation, "axes")
        for lead in range(len(shape)):
            if set(range(lead, len(shape))) <= set(reduced):
                yield Row((Flat(lead),), (ReductionKind.SUM,))
        return
    shapes = {value.type.shape for value in operation.results}
    if (
        not (is_elementwise(operation.primitive) or operation.primitive == FILL_PRIMITIVE)
        or len(shapes) != 1
    ):
        return
    [result] = shapes
    if all(shape in ((), result) for shape in operation.shapes):
        for lead in range(len(result)):
            if operation.primitive != FILL_PRIMITIVE or operation.shapes == [()]:
                operands = tuple(Flat(lead) if shape else None for shape in operation.shapes)
                yield Row(operands, (Flat(lead),) * len(operation.results))
