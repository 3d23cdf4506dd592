"""Floating-point operations of one primitive.

A product of matrices counts every multiplication and addition; any other arithmetic counts one
operation for each element produced or reduced; data movement counts nothing.
"""

from __future__ import annotations

from grammar.tensors.operations import Operation
from hierarchies import InputError
from synth.primitives import PRIMITIVES


def flops_of(operation: Operation) -> int:
    """Returns the FLOPs of one operation, executed once. Raises InputError for illegal operands."""
    if operation.primitive not in PRIMITIVES:
        return 0
    try:
        return PRIMITIVES[operation.primitive].flops(operation)
    # A text may have any parameters, so counting may fail in any of these ways.
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        problem = f"{operation.primitive} of such operands and parameters"
        raise InputError(problem, where=operation.line) from None
