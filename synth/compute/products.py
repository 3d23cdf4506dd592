"""A product of matrices by its sizes, which determine its seconds.

``dot_general`` with batch, convolutions and ragged products are all equivalent to products of
rows x depth with depth x columns; a device computes the result tile by tile for any indices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from grammar.tensors.operations import Operation
from grammar.tensors.sharding import dtype_bytes
from hierarchies import InputError
from synth.compute.flops import flops_of


@dataclass(frozen=True)
class MatrixProduct:
    """``batch`` products of (rows, depth) with (depth, columns), of elements of one type.

    ``stored_bytes``: the bytes of operands and result if these are not the matrices themselves.
    Windows of a convolution overlap, so each element is in several rows. Raises InputError for a
    size below 1.
    """

    rows: int
    columns: int
    depth: int
    batch: int = 1
    dtype: str = "bf16"
    stored_bytes: int = 0

    def __post_init__(self) -> None:
        if min(self.rows, self.columns, self.depth, self.batch) < 1:
            raise InputError(f"a product of no size: {self}", hint="all sizes are 1 at least")

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.rows * self.columns * self.depth

    @property
    def bytes(self) -> int:
        """The bytes read and written once."""
        if self.stored_bytes:
            return self.stored_bytes
        sides = self.rows * self.depth + self.depth * self.columns + self.rows * self.columns
        return self.batch * sides * dtype_bytes(self.dtype)


def product_of(operation: Operation) -> MatrixProduct:
    """Returns the sizes of ``dot_general``, ``ragged_dot_general`` or ``conv_general_dilated``.

    Raises InputError for operands that cannot be multiplied.
    """
    flops = flops_of(operation)
    result = operation.results[0].type
    left, right = (operand.type for operand in operation.operands[:2])
    parameters: Mapping[str, Any] = operation.parameter
    batch = columns = 1
    stored = 0
    if operation.primitive == "dot_general":
        (_, summed), (_, shared) = parameters["dimension_numbers"]
        batch = prod(right.shape[d] for d in shared)
        taken = {*summed, *shared}
        columns = prod(size for d, size in enumerate(right.shape) if d not in taken)
    elif operation.primitive == "conv_general_dilated":
        batch = int(parameters["feature_group_count"])
        columns = result.shape[dict(parameters["dimension_numbers"])["out_spec"][1]] // batch
        stored = left.bytes + right.bytes + result.bytes
    else:
        columns = max(1, flops // (2 * left.elements))
    rows = result.elements // (batch * columns)
    if not flops or not rows:
        raise InputError(f"{operation.primitive} of no size", where=operation.line)
    depth = max(1, flops // (2 * batch * rows * columns))
    return MatrixProduct(rows, columns, depth, batch, left.dtype, stored)
