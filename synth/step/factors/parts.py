"""One device's part of an operation: its types, parameters, and how its number enters.

Most parts have the parameters of the whole. Shapes among parameters are cut, too (``reshape`` of a
block has another ``new_sizes``); some primitives also need the number of the part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from grammar.tensors.operations import Literal, Operand, Operation, Parameter, Value
from grammar.tensors.sharding import Sharding, Type, part_shape
from synth.primitives.factor import Factor, Index, Offset
from synth.primitives.parameters import parse_numbers, read_entry
from synth.primitives.rules.indexed import NUMBERS
from synth.step.factors.flat import SUM_PRIMITIVE, count_elements, flat_parameters
from synth.step.factors.several_axes import OperationSharding


@dataclass(frozen=True)
class OperationPart:
    """The operation that each device runs, the same on all devices but for the offset."""

    operation: Operation
    offset: Offset | None = None


def part_of(
    operation: Operation, how: OperationSharding, sizes: Mapping[str, int]
) -> OperationPart:
    """Returns the part of an operation that a device computes, given the shardings."""
    counts = {factor: prod(sizes[axis] for axis in axes) for factor, axes in how.factors.items()}
    extents = {factor: factor.size // parts for factor, parts in counts.items()}
    part = replace(
        operation,
        operands=tuple(_parts(operation.operands, how.operands, sizes)),
        results=tuple(
            _part(*pair, sizes) for pair in zip(operation.results, how.results, strict=True)
        ),
        parameters=part_parameters(operation, extents),
    )
    if any(sharding.flat for sharding in (*how.operands, *how.results)):
        return _flat_part(operation, part, how, sizes)
    offsets = (
        _offset(operation, factor, axes, counts[factor])
        for factor, axes in how.factors.items()
        if factor.index is not None
    )
    return OperationPart(part, next(offsets, None))


def _flat_part(
    operation: Operation, part: Operation, how: OperationSharding, sizes: Mapping[str, int]
) -> OperationPart:
    whole = replace(operation, parameters=part.parameters)
    cut = flat_parameters(whole, how.operands, how.results, sizes)
    part = replace(part, parameters=cut.parameters)
    if operation.primitive != SUM_PRIMITIVE:
        return OperationPart(part)
    flat, size = how.operands[0], count_elements(operation, how.operands, sizes)
    extent = -(-size // prod(sizes[axis] for axis in flat.flat))
    return OperationPart(part, Offset(Index.PADDING, flat.flat, flat.lead, extent, size))


def part_parameters(
    operation: Operation, extents: Mapping[Factor, int]
) -> tuple[tuple[str, Parameter], ...]:
    """Returns the parameters of a part that has the given ``extents`` of factors."""
    parameters = dict(operation.parameters)
    for factor, extent in extents.items():
        if factor.cut is not None:
            name = factor.cut.parameter
            value = parameters.get(name, operation.parameter[name])
            parameters[name] = _divide_parameter(value, factor.cut.entry, extent, factor.size)
    return tuple(parameters.items())


def _divide_parameter(value: Parameter, at: int | None, extent: int, size: int) -> Parameter:
    def share(number: int) -> int:
        assert number * extent % size == 0, (number, extent, size)
        return number * extent // size

    if at is None:
        assert isinstance(value, int), value
        return share(value)
    numbers = list(parse_numbers(value))
    numbers[at] = share(numbers[at])
    return tuple(numbers)


def _offset(operation: Operation, factor: Factor, axes: tuple[str, ...], parts: int) -> Offset:
    assert factor.index is not None
    at = _entry(operation, factor)
    return Offset(factor.index, axes, at, factor.size // parts, factor.size)


def _entry(operation: Operation, factor: Factor) -> int:
    """Returns which entry of an index refers to the dimension that is cut."""
    match factor.index:
        case Index.LOOK_UP:
            key = "start_index_map"
        case Index.DROP:
            key = "scatter_dims_to_operand_dims"
        case _:
            return 0
    place = factor.operands[0]
    assert place is not None, factor
    return read_entry(operation, NUMBERS, key).index(place)


def _parts(
    operands: Sequence[Operand], how: Sequence[Sharding], sizes: Mapping[str, int]
) -> Sequence[Operand]:
    return [
        operand if isinstance(operand, Literal) else _part(operand, sharding, sizes)
        for operand, sharding in zip(operands, how, strict=True)
    ]


def _part(value: Value, sharding: Sharding, sizes: Mapping[str, int]) -> Value:
    return Value(value.name, Type(value.type.dtype, part_shape(value.type, sharding, sizes)))
