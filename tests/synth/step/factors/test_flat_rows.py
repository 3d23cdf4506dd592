"""Rows of what is cut flat: executed in parts, with padding that no result may depend on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from equations.executed import DTYPES, execute
from equations.parts import execute_part
from grammar.tensors.operations import Operation, Value
from grammar.tensors.sharding import Flat, ReductionKind, Sharding, Type
from hierarchies import InputError
from synth.primitives import PRIMITIVES, is_elementwise
from synth.step.factors import list_all_rows, list_rows, match_rows, part_of, shard_operation

SHAPE = (2, 3, 5)
TOLD: dict[str, tuple[tuple[str, Any], ...]] = {
    "convert_element_type": (("new_dtype", "f64"), ("weak_type", False)),
    "integer_pow": (("y", 3),),
}
ONE = ("sqrt", "neg", "exp", "square", "integer_pow", "convert_element_type")
TWO = ("add", "sub", "mul", "div", "max", "add_any")


def operation(name: str, *shapes: tuple[int, ...], result: tuple[int, ...] = SHAPE) -> Operation:
    operands = tuple(Value(f"x{at}", Type("f64", shape)) for at, shape in enumerate(shapes))
    return Operation(name, operands, (Value("y", Type("f64", result)),), TOLD.get(name, ()))


def filling() -> Operation:
    told = (("shape", SHAPE), ("broadcast_dimensions", ()))
    operand = Value("x0", Type("f64", ()))
    return Operation("broadcast_in_dim", (operand,), (Value("y", Type("f64", SHAPE)),), told)


def adding(axes: tuple[int, ...]) -> Operation:
    kept = tuple(size for at, size in enumerate(SHAPE) if at not in axes)
    operand = Value("x0", Type("f64", SHAPE))
    return Operation("reduce_sum", (operand,), (Value("y", Type("f64", kept)),), (("axes", axes),))


CASES = [
    *(operation(name, SHAPE) for name in ONE),
    *(operation(name, SHAPE, SHAPE) for name in TWO),
    *(operation(name, SHAPE, ()) for name in TWO),
    operation("mul", (), SHAPE),
    operation("clamp", (), SHAPE, ()),
    filling(),
    adding((0, 1, 2)),
    adding((1, 2)),
    adding((2,)),
]


def pieces(whole: np.ndarray, lie: object, count: int) -> list[np.ndarray]:
    """The parts along one axis; padding is nothing that a result could go well with."""
    if not isinstance(lie, Flat):
        return [whole] * count
    block = whole.reshape(*whole.shape[: lie.lead], -1)
    more = [(0, 0)] * lie.lead + [(0, -block.shape[-1] % count)]
    return np.split(np.pad(block, more, constant_values=777.0), count, lie.lead)


def together(parts: list[np.ndarray], lie: object, shape: tuple[int, ...]) -> np.ndarray:
    if lie is ReductionKind.SUM:
        return np.asarray(sum(parts))
    assert isinstance(lie, Flat)
    block = np.concatenate(parts, lie.lead)
    elements = int(np.prod(shape[lie.lead :]))
    return block[..., :elements].reshape(shape)


def flat(one: Operation) -> list:
    return [row for row in list_all_rows(one) if row not in list_rows(one)]


@pytest.mark.parametrize("parts", [2, 3, 7])
@pytest.mark.parametrize("one", CASES, ids=str)
def test_every_row_in_parts_is_the_whole(one: Operation, parts: int) -> None:
    draw = np.random.default_rng(1)
    whole = [draw.uniform(0.5, 2, value.type.shape) for value in one.operands]
    (wanted,) = execute(one.primitive, one.parameter, whole)
    assert flat(one)
    for row in flat(one):
        sizes = {"data": parts}
        mine = part_of(one, shard_operation(one, {"data": row}, sizes), sizes)
        cut = [pieces(array, lie, parts) for array, lie in zip(whole, row.operands, strict=True)]
        made = []
        for at in range(parts):
            (array,) = execute_part(mine, [array[at] for array in cut], sizes, (at,))
            assert np.shape(array) == mine.operation.results[0].type.shape
            made.append(np.asarray(array))
        found = together(made, row.results[0], np.shape(wanted))
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_all_that_works_element_by_element_has_rows_and_nothing_else() -> None:
    for name in filter(is_elementwise, PRIMITIVES):
        assert len(flat(operation(name, SHAPE))) == len(SHAPE), name
    assert not flat(operation("add", (1, 3, 5), SHAPE))  # it repeats a dimension
    transposed = Value("y", Type("f64", SHAPE[::-1]))
    told = (("permutation", (2, 1, 0)),)
    assert not flat(Operation("transpose", adding(()).operands, (transposed,), told))
    assert not flat(adding((0,)))
    filled = Value("y", Type("f64", SHAPE))
    shape = (("shape", SHAPE), ("broadcast_dimensions", (2,)))
    assert not flat(
        Operation("broadcast_in_dim", (Value("x", Type("f64", (5,))),), (filled,), shape)
    )


def test_values_flat_by_other_axes_are_refused() -> None:
    sizes = {"data": 2, "seq": 3}
    one, bare = operation("add", SHAPE, SHAPE), Sharding(((),) * 3)
    lies = [bare.laid("data", Flat(0)).laid("seq", Flat(0)), bare.laid("seq", Flat(0))]
    lies.append(lies[1].laid("data", Flat(0)))
    assert match_rows(one, [lies[0]] * 2, [lies[0]], sizes).rows
    for other in lies[1:]:
        with pytest.raises(InputError, match="flat over different axes"):
            match_rows(one, [lies[0], other], [lies[0]], sizes)
    with pytest.raises(InputError, match="flattened block"):
        bare.laid("data", Flat(0)).laid("seq", Flat(1))


def test_element_types_keep_their_width() -> None:
    """A cast of a flat value is of as many elements."""
    one = operation("convert_element_type", SHAPE)
    [row, *_] = flat(one)
    mine = part_of(one, shard_operation(one, {"data": row}, {"data": 4}), {"data": 4})
    assert mine.operation.results[0].type == Type("f64", (8,))
    assert DTYPES["f64"] == np.float64
