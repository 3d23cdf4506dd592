"""One device's part of an operation: its types, its parameters, and the use of the part's number.

Most parts have the parameters of the whole operation. Shapes among parameters are cut, too
(``reshape`` of a block has another ``new_sizes``). Some primitives also need the part's number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from grammar.tensors.operations import Literal, Operand, Operation, Parameter, Value
from grammar.tensors.sharding import Sharding, Type, part_shape
from synth.primitives.factor import Factor, Index, Offset
from synth.primitives.parameters import parse_numbers, read_entry, read_numbers
from synth.primitives.rules.indexed import NUMBERS
from synth.step.factors.flat import FILL_PRIMITIVE, SUM_PRIMITIVE
from synth.step.factors.forms import cache_by_form
from synth.step.factors.several_axes import OperationSharding


@dataclass(frozen=True)
class OperationPart:
    """The operation that each device runs, identical on all devices except for the offset."""

    operation: Operation
    offset: Offset | None = None


@dataclass(frozen=True)
class _PartForm:
    """The common form of the parts of operations that differ only in the names of their values."""

    operands: tuple[Type, ...]
    results: tuple[Type, ...]
    parameters: tuple[tuple[str, Parameter], ...]
    offset: Offset | None


def part_of(
    operation: Operation, how: OperationSharding, sizes: Mapping[str, int]
) -> OperationPart:
    """Returns the part of an operation that a device computes, given the shardings."""
    forms, key = _part_forms(operation), (how, tuple(sizes.items()))
    if key not in forms:
        forms[key] = _part_form(operation, how, sizes)
    form = forms[key]
    operands = tuple(
        operand if isinstance(operand, Literal) else Value(operand.name, kind)
        for operand, kind in zip(operation.operands, form.operands, strict=True)
    )
    results = tuple(
        Value(value.name, kind) for value, kind in zip(operation.results, form.results, strict=True)
    )
    whole = operation
    part = Operation(
        whole.primitive, operands, results, form.parameters, whole.body, line=whole.line
    )
    return OperationPart(part, form.offset)


@cache_by_form
def _part_forms(operation: Operation) -> dict[object, _PartForm]:
    """Returns the forms of parts known so far, by shardings and sizes of axes."""
    return {}


def _part_form(operation: Operation, how: OperationSharding, sizes: Mapping[str, int]) -> _PartForm:
    counts = {factor: prod(sizes[axis] for axis in axes) for factor, axes in how.factors.items()}
    extents = {factor: factor.size // parts for factor, parts in counts.items()}

    def parts(values: Sequence[Operand], shardings: Sequence[Sharding]) -> tuple[Type, ...]:
        return tuple(
            Type(value.type.dtype, part_shape(value.type, sharding, sizes))
            for value, sharding in zip(values, shardings, strict=True)
        )

    part = _PartForm(
        parts(operation.operands, how.operands),
        parts(operation.results, how.results),
        part_parameters(operation, extents),
        None,
    )
    if any(sharding.flat for sharding in (*how.operands, *how.results)):
        return _flat_part(operation, part, how, sizes)
    offsets = (
        Offset(factor.index, axes, _entry(operation, factor), extents[factor], factor.size)
        for factor, axes in how.factors.items()
        if factor.index is not None
    )
    return replace(part, offset=next(offsets, None))


def _flat_part(
    operation: Operation, part: _PartForm, how: OperationSharding, sizes: Mapping[str, int]
) -> _PartForm:
    parameters, offset = dict(part.parameters), None
    if operation.primitive == FILL_PRIMITIVE:
        parameters["shape"] = part.results[0].shape
    if operation.primitive == SUM_PRIMITIVE:
        flat = how.operands[0]
        kept = (axis for axis in read_numbers(operation, "axes") if axis < flat.lead)
        parameters["axes"] = (*kept, flat.lead)
        block = part_shape(operation.operands[0].type, flat.unflattened(), sizes)
        size = prod(block[flat.lead :])
        extent = -(-size // prod(sizes[axis] for axis in flat.flat))
        offset = Offset(Index.PADDING, flat.flat, flat.lead, extent, size)
    return replace(part, parameters=tuple(parameters.items()), offset=offset)


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


def _entry(operation: Operation, factor: Factor) -> int:
    """Returns the entry of an index that refers to the cut dimension."""
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
