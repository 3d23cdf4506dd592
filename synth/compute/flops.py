"""Floating-point operations of one primitive.

A product of matrices counts every multiplication and addition; any other arithmetic counts one
operation for each element produced or reduced; data movement counts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from grammar.tensors.operations import Operand, Operation, Value
from grammar.tensors.primitives import ARITHMETIC, REDUCED
from grammar.tensors.sharding import Type
from hierarchies import InputError

MOST_PLACES = 10**6
"""The most window places counted along one dimension of a convolution."""


def flops_of(operation: Operation) -> int:
    """FLOPs of one operation, executed once. Raises InputError for operands that do not fit it."""
    if operation.primitive in _PRODUCTS:
        try:
            return _PRODUCTS[operation.primitive](operation)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            problem = f"{operation.primitive} of such operands and parameters"
            raise InputError(problem, where=operation.line) from None
    if operation.primitive in ARITHMETIC:
        return operation.results[0].type.elements
    if operation.primitive in REDUCED:
        return sum(type_of(operand).elements for operand in operation.operands[:1])
    return 0


def type_of(operand: Operand) -> Type:
    """The type of an operand; a literal has no dimensions."""
    return operand.type if isinstance(operand, Value) else Type(operand.dtype, ())


def _dot(operation: Operation) -> int:
    """Two for each element of the result and each index summed over."""
    parameters: Mapping[str, Any] = operation.parameter
    (summed, _), _ = parameters["dimension_numbers"]
    left = type_of(operation.operands[0]).shape
    deep: int = prod(left[d] for d in summed)
    return 2 * operation.results[0].type.elements * deep


def _ragged(operation: Operation) -> int:
    """Every row meets only the matrix of its group, so the number of groups does not matter."""
    parameters: Mapping[str, Any] = operation.parameter
    numbers = dict(parameters["ragged_dot_dimension_numbers"])
    (_, summed), (_, batch) = numbers["dot_dimension_numbers"]
    left, right = (type_of(operand) for operand in operation.operands[:2])
    taken = {*summed, *batch, *numbers["rhs_group_dimensions"]}
    free = prod(size for d, size in enumerate(right.shape) if d not in taken)
    return 2 * left.elements * free


def _convolution(operation: Operation) -> int:
    """Two for each element of the result, input feature and window place inside the input.

    Places outside the input, or between the elements of a dilated input, are not multiplied.
    """
    parameters: Mapping[str, Any] = operation.parameter
    numbers = dict(parameters["dimension_numbers"])
    left, kernel = (type_of(operand).shape for operand in operation.operands[:2])
    result = operation.results[0].type.shape
    met: int = result[numbers["out_spec"][0]] * result[numbers["out_spec"][1]]
    met *= kernel[numbers["rhs_spec"][1]]
    for at, (low, _) in enumerate(parameters["padding"]):
        size, window, outputs = (
            shape[numbers[spec][at + 2]]
            for shape, spec in ((left, "lhs_spec"), (kernel, "rhs_spec"), (result, "out_spec"))
        )
        if window * outputs > MOST_PLACES:
            raise ValueError("too many to be counted")
        step, apart = parameters["window_strides"][at], parameters["lhs_dilation"][at]
        places = (
            o * step + w * parameters["rhs_dilation"][at] - low
            for o in range(outputs)
            for w in range(window)
        )
        met *= sum(0 <= place < size * apart and place % apart == 0 for place in places)
    return 2 * met


_PRODUCTS: Mapping[str, Callable[[Operation], int]] = {
    "dot_general": _dot,
    "ragged_dot_general": _ragged,
    "conv_general_dilated": _convolution,
}
