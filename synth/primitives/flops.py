"""FLOPs of matrix products: every multiplication and every addition counts."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from grammar.tensors.operations import Operation

MOST_PLACES = 10**6
"""The most window places counted along one dimension of a convolution."""


def count_dot(operation: Operation) -> int:
    """Returns two FLOPs for each element of the result and each index summed over."""
    parameters: Mapping[str, Any] = operation.parameter
    (summed, _), _ = parameters["dimension_numbers"]
    left = operation.operands[0].type.shape
    deep: int = prod(left[d] for d in summed)
    return 2 * operation.results[0].type.elements * deep


def count_ragged_dot(operation: Operation) -> int:
    """Returns FLOPs for any number of groups, because every row meets one group's matrix."""
    parameters: Mapping[str, Any] = operation.parameter
    numbers = dict(parameters["ragged_dot_dimension_numbers"])
    (_, summed), (_, batch) = numbers["dot_dimension_numbers"]
    left, right = (operand.type for operand in operation.operands[:2])
    taken = {*summed, *batch, *numbers["rhs_group_dimensions"]}
    free = prod(size for d, size in enumerate(right.shape) if d not in taken)
    return 2 * left.elements * free


def count_convolution(operation: Operation) -> int:
    """Returns two FLOPs for each result element, input feature and window place in the input.

    Places outside the input, or between the elements of a dilated input, are not multiplied.
    """
    parameters: Mapping[str, Any] = operation.parameter
    numbers = dict(parameters["dimension_numbers"])
    left, kernel = (operand.type.shape for operand in operation.operands[:2])
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
