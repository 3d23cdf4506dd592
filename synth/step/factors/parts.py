"""What one part of an operation computes: types, parameters, and what it does by its number.

Most parts are told what the whole is. Some have shapes among their parameters, which are cut, too
(``reshape`` of a block has another ``new_sizes``); of three primitives the part's number enters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from grammar.tensors.operations import Literal, Operand, Operation, Parameter, Value
from grammar.tensors.sharding import Sharding, Type, part_shape
from synth.step.factors.factor import Factor, Index
from synth.step.factors.flat import SUM_PRIMITIVE, count_elements, flat_parameters
from synth.step.factors.indexed import NUMBERS
from synth.step.factors.parameters import parse_numbers, read_entry
from synth.step.factors.several_axes import OperationSharding


@dataclass(frozen=True)
class Offset:
    """What enters by the part's number, the mixed-radix one of a device's coordinates on ``axes``.

    A part has ``extent`` of the ``size`` positions, from number x extent on.

    * ``OFFSET`` (iota): number x extent is added to each result. * ``LOOK_UP`` (gather): of each
    index the given ``read_entry`` is first clipped to 0 .. size - 1 if the mode is to clip; then
    number x extent is taken off. Where it is then outside the part the result is zero, but where
    some entry is outside the whole and the mode is to fill, it is what is filled in on part 0 and
    zero on all others. Other entries are read as the mode says. * ``DROP`` (scatters): the same,
    and what is outside the part is not written. * ``PADDING`` (sums of what is flat): number x
    extent is the place of its first element along dimension ``read_entry``; those from ``size`` on
    are padding.
    """

    index: Index
    axes: tuple[str, ...]
    entry: int
    extent: int
    size: int


@dataclass(frozen=True)
class OperationPart:
    """The operation that each device does, alike on all but for the offset."""

    operation: Operation
    offset: Offset | None = None


def part_of(
    operation: Operation, how: OperationSharding, sizes: Mapping[str, int]
) -> OperationPart:
    """What a device computes of an operation whose values lie so."""
    cut = {factor: prod(sizes[axis] for axis in axes) for factor, axes in how.factors.items()}
    extents = {factor: factor.size // parts for factor, parts in cut.items()}
    done = replace(
        operation,
        operands=tuple(_parts(operation.operands, how.operands, sizes)),
        results=tuple(
            _part(*one, sizes) for one in zip(operation.results, how.results, strict=True)
        ),
        parameters=part_parameters(operation, extents),
    )
    if any(one.flat for one in (*how.operands, *how.results)):
        return _flat_part(operation, done, how, sizes)
    offsets = (
        _offset(operation, factor, axes, cut[factor])
        for factor, axes in how.factors.items()
        if factor.index is not None
    )
    return OperationPart(done, next(offsets, None))


def _flat_part(
    operation: Operation, done: Operation, how: OperationSharding, sizes: Mapping[str, int]
) -> OperationPart:
    told = replace(operation, parameters=done.parameters)
    cut = flat_parameters(told, how.operands, how.results, sizes)
    done = replace(done, parameters=cut.parameters)
    if operation.primitive != SUM_PRIMITIVE:
        return OperationPart(done)
    flat, size = how.operands[0], count_elements(operation, how.operands, sizes)
    extent = -(-size // prod(sizes[axis] for axis in flat.flat))
    return OperationPart(done, Offset(Index.PADDING, flat.flat, flat.lead, extent, size))


def part_parameters(
    operation: Operation, extents: Mapping[Factor, int]
) -> tuple[tuple[str, Parameter], ...]:
    """The parameters of a part that has so many positions of each of these factors."""
    told = dict(operation.parameters)
    for factor, extent in extents.items():
        if factor.cut is not None:
            name = factor.cut.parameter
            value = told.get(name, operation.parameter[name])
            told[name] = _divide_parameter(value, factor.cut.entry, extent, factor.size)
    return tuple(told.items())


def _divide_parameter(value: Parameter, at: int | None, extent: int, size: int) -> Parameter:
    def share(one: int) -> int:
        assert one * extent % size == 0, (one, extent, size)
        return one * extent // size

    if at is None:
        assert isinstance(value, int), value
        return share(value)
    found = list(parse_numbers(value))
    found[at] = share(found[at])
    return tuple(found)


def _offset(operation: Operation, factor: Factor, axes: tuple[str, ...], parts: int) -> Offset:
    assert factor.index is not None
    at = _entry(operation, factor)
    return Offset(factor.index, axes, at, factor.size // parts, factor.size)


def _entry(operation: Operation, factor: Factor) -> int:
    """Which entry of an index says where in the dimension that is cut."""
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
