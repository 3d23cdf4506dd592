"""Executes a part of an operation, with what enters by its number: as Offset says, in numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from equations.executed import execute
from synth.step.factors import Index, Offset, OperationPart

Array = Any


def execute_part(
    part: OperationPart, operands: Sequence[Array], sizes: Mapping[str, int], at: Sequence[int]
) -> list[Array]:
    """What the device at these coordinates computes."""
    operation, offset = part.operation, part.offset
    told = operation.parameter
    if offset is None:
        return execute(operation.primitive, told, operands)
    place = dict(zip(sizes, at, strict=True))
    number = 0
    for axis in offset.axes:
        number = number * sizes[axis] + place[axis]
    first = number * offset.extent
    match offset.index:
        case Index.OFFSET:
            (made,) = execute(operation.primitive, told, operands)
            return [made + np.asarray(first, made.dtype)]
        case Index.LOOK_UP:
            return [_looked_up(part, offset, operands, number)]
        case Index.PADDING:
            (array,) = map(np.asarray, operands)
            places = first + np.arange(array.shape[offset.entry])
            shape = [1] * array.ndim
            shape[offset.entry] = -1
            kept = np.where(places.reshape(shape) < offset.size, array, np.zeros_like(array))
            return execute(operation.primitive, told, [kept])
        case Index.DROP:
            indices = _own(part, offset, np.asarray(operands[1]), first)
            indices = _clipped_elsewhere(part, offset, indices, np.shape(operands[0]))
            dropping = {**told, "mode": "fill_or_drop"}
            return execute(operation.primitive, dropping, [operands[0], indices, *operands[2:]])


def _own(part: OperationPart, offset: Offset, indices: Array, first: int) -> Array:
    """Indices into the part; what is not its own is far outside."""
    indices = indices.copy()
    column = indices[..., offset.entry]
    if part.operation.parameter["mode"] == "clip":
        column = np.clip(column, 0, offset.size - 1)
    column = column - first
    mine = (column >= 0) & (column < offset.extent)
    indices[..., offset.entry] = np.where(mine, column, 10**6)
    return indices


def _looked_up(
    part: OperationPart, offset: Offset, operands: Sequence[Array], number: int
) -> Array:
    """What is not the part's own is zero; what is outside of the whole, filled in by part 0."""
    told = part.operation.parameter
    table, indices = map(np.asarray, operands)
    own = _own(part, offset, indices, number * offset.extent)
    if told["mode"] != "fill_or_drop":
        own = _clipped_elsewhere(part, offset, own, table.shape)
        zero = {**told, "mode": "fill_or_drop", "fill_value": 0}
        return execute("gather", zero, [table, own])[0]
    zero = {**told, "fill_value": 0}
    found = execute("gather", zero, [table, own])[0]
    if number:
        return found
    inside = indices.copy()
    column = inside[..., offset.entry]
    outside = (column < 0) | (column >= offset.size)
    inside[..., offset.entry] = np.where(outside, 10**6, 0)
    filled = execute("gather", told, [table, inside])[0]
    missing = execute("gather", {**told, "fill_value": 0}, [np.ones_like(table), inside])[0] == 0
    return np.where(missing, filled, found)


def _clipped_elsewhere(
    part: OperationPart, offset: Offset, indices: Array, shape: Sequence[int]
) -> Array:
    """In the mode that clips, the other entries of an index are clipped, not only this one."""
    told: dict[str, Any] = dict(part.operation.parameter)
    if told["mode"] != "clip":
        return indices
    numbers = dict(told["dimension_numbers"])
    places = numbers.get("start_index_map", numbers.get("scatter_dims_to_operand_dims"))
    sizes = told.get("slice_sizes", (1,) * len(shape))
    found = indices.copy()
    for entry, dimension in enumerate(places):
        if entry != offset.entry:
            last = shape[dimension] - sizes[dimension]
            found[..., entry] = np.clip(found[..., entry], 0, last)
    return found
