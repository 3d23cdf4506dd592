"""Floating-point operations of one primitive.

Of a product of matrices every multiplication and addition counts, of anything else one operation
for each element that is made, or put together; data that only moves costs nothing here.
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
"""The most places of a window that are counted along one dimension of a convolution."""


def flops_of(operation: Operation) -> int:
    """Of one operation, done once. Raises InputError for operands that cannot be."""
    if operation.primitive in _PRODUCTS:
        try:
            return _PRODUCTS[operation.primitive](operation)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            problem = f"{operation.primitive} of such operands and parameters"
            raise InputError(problem, where=operation.line) from None
    if operation.primitive in ARITHMETIC:
        return operation.results[0].type.elements
    if operation.primitive in REDUCED:
        return sum(type_of(one).elements for one in operation.operands[:1])
    return 0


def type_of(operand: Operand) -> Type:
    """The type of what is read; a literal has no dimensions."""
    return operand.type if isinstance(operand, Value) else Type(operand.dtype, ())


def _dot(operation: Operation) -> int:
    """Two for each element of the result and each of what is summed over."""
    told: Mapping[str, Any] = operation.parameter
    (summed, _), _ = told["dimension_numbers"]
    left = type_of(operation.operands[0]).shape
    deep: int = prod(left[d] for d in summed)
    return 2 * operation.results[0].type.elements * deep


def _ragged(operation: Operation) -> int:
    """Every row meets the matrix of its group only: the number of groups does not matter."""
    given: Mapping[str, Any] = operation.parameter
    told = dict(given["ragged_dot_dimension_numbers"])
    (_, summed), (_, batch) = told["dot_dimension_numbers"]
    left, right = (type_of(one) for one in operation.operands[:2])
    taken = {*summed, *batch, *told["rhs_group_dimensions"]}
    free = prod(size for d, size in enumerate(right.shape) if d not in taken)
    return 2 * left.elements * free


def _convolution(operation: Operation) -> int:
    """Two for each element of the result, input feature and place of the window inside the input.

    What the window meets outside, or between the elements of a dilated input, are no products.
    """
    told: Mapping[str, Any] = operation.parameter
    numbers = dict(told["dimension_numbers"])
    left, kernel = (type_of(one).shape for one in operation.operands[:2])
    made = operation.results[0].type.shape
    met: int = made[numbers["out_spec"][0]] * made[numbers["out_spec"][1]]
    met *= kernel[numbers["rhs_spec"][1]]
    for at, (low, _) in enumerate(told["padding"]):
        size, window, out = (
            shape[numbers[spec][at + 2]]
            for shape, spec in ((left, "lhs_spec"), (kernel, "rhs_spec"), (made, "out_spec"))
        )
        if window * out > MOST_PLACES:
            raise ValueError("too many to be counted")
        step, apart = told["window_strides"][at], told["lhs_dilation"][at]
        places = (
            o * step + w * told["rhs_dilation"][at] - low for o in range(out) for w in range(window)
        )
        met *= sum(0 <= place < size * apart and place % apart == 0 for place in places)
    return 2 * met


_PRODUCTS: Mapping[str, Callable[[Operation], int]] = {
    "dot_general": _dot,
    "ragged_dot_general": _ragged,
    "conv_general_dilated": _convolution,
}
