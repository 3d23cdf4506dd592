"""Rows that others had and that are wrong: each is no row of ours, and the judge says why not."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from equations.cases import cases
from equations.enumerated import is_right
from equations.executed import execute
from equations.laid_out import laid, meant
from grammar.tensors.operations import Literal, Operation, Value
from grammar.tensors.sharding import AxisSharding, ReductionKind, Sharding, Split, Type
from hierarchies import InputError
from synth.primitives.rules.windows import tiles
from synth.step.factors import list_rows, match_rows

CASES = {case.name: case for case in cases()}
SUM, MAX, MIN = ReductionKind.SUM, ReductionKind.MAX, ReductionKind.MIN
ZERO, ONE = Split(0), Split(1)

Trap = tuple[str, tuple[AxisSharding, ...], tuple[AxisSharding, ...]]
TRAPS: list[Trap] = [
    ("add of a number", (SUM, None), (SUM,)),
    ("add", (SUM, None), (SUM,)),
    ("add", (MAX, MAX), (MAX,)),
    ("add of words", (MAX, None), (MAX,)),
    ("neg of words", (MAX,), (MIN,)),
    ("max with zero", (SUM, None), (SUM,)),
    ("reduce_max", (SUM,), (SUM,)),
    ("integer_pow even", (SUM,), (SUM,)),
    ("integer_pow even", (MAX,), (MAX,)),
    ("mul", (SUM, SUM), (SUM,)),
    ("mul", (MAX, None), (MAX,)),
    ("div", (MAX, None), (MAX,)),
    ("div of integers", (SUM, None), (SUM,)),
    ("floor", (SUM,), (SUM,)),
    ("pow", (MAX, None), (MAX,)),
    ("sqrt", (SUM,), (SUM,)),
    ("sqrt", (MAX,), (MAX,)),
    ("log", (MAX,), (MAX,)),
    ("rsqrt", (MAX,), (MIN,)),
    ("cummax", (MIN,), (MIN,)),
    ("convert_element_type to i32", (SUM,), (SUM,)),
    ("reshape blocks", (ONE,), (ZERO,)),
    ("split", (ONE,), (ONE, ONE)),
    ("cumsum", (ONE,), (ONE,)),
    ("argmax", (ONE,), (MAX,)),
    ("sort", (MAX,), (MAX,)),
    ("scatter-add", (None, ZERO, ZERO), (SUM,)),
    ("scatter-add", (SUM, None, None), (SUM,)),
    ("gather filled", (ZERO, None), (SUM,)),
    ("conv_general_dilated", (ONE, None), (ONE,)),
    ("reduce_window_max overlapping", (ZERO,), (ZERO,)),
    ("dynamic_update_slice", (ONE, None, None, None), (ONE,)),
    ("random_bits", (None,), (ZERO,)),
]


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: f"{trap[0]} {trap[1:]}")
def test_it_is_no_row_and_wrong(trap: Trap) -> None:
    name, before, after = trap
    case = CASES[name]
    same = {(row.operands, row.results) for row in list_rows(case.operation)}
    indexed = {
        (row.operands, row.results)
        for row in list_rows(case.operation)
        if row.factor is not None and row.factor.index is not None
    }
    assert (before, after) not in same - indexed
    assert not is_right(case, before, after)


@pytest.mark.parametrize(("name", "passes"), [("gather clipped", True), ("gather filled", False)])
def test_partial_values_are_looked_up_but_not_where_something_is_filled_in(
    name: str, passes: bool
) -> None:
    """What is filled in would count once for each part."""
    found = {row.operands[0] for row in list_rows(CASES[name].operation) if row.factor is None}
    assert found == {None, *(ReductionKind if passes else ())}


@pytest.mark.parametrize(
    ("size", "window", "stride", "padding", "tile"),
    [
        (12, 2, 2, (0, 0), True),
        (12, 3, 1, (0, 0), False),  # they overlap
        (12, 1, 2, (0, 0), False),  # they leave gaps
        (12, 2, 2, (1, 1), False),  # the first window of each part would be another
        (11, 2, 2, (0, 0), False),  # the last element is in no window
    ],
)
def test_windows_tile_a_dimension_if_every_element_is_in_one(
    size: int, window: int, stride: int, padding: tuple[int, int], tile: bool
) -> None:
    assert tiles(size, window, stride, padding) is tile


def test_contracted_lists_of_axes_in_different_orders_give_a_wrong_product() -> None:
    """As in pytorch#166598: blocks that do not belong together are multiplied."""
    case = CASES["dot_general of integers"]
    sizes = {"a": 2, "b": 3}
    left = Sharding(((), ("a", "b")))
    summed = Sharding(((), ()), ((SUM, "a"), (SUM, "b")))
    draws = np.random.default_rng(0)
    x, w = case.drawn(draws)
    (whole,) = execute("dot_general", case.operation.parameter, [x, w])
    for axes, right in ((("a", "b"), True), (("b", "a"), False)):
        how = [left, Sharding((axes, ()))]
        parts = [laid(one, lie, sizes, draws) for one, lie in zip((x, w), how, strict=True)]
        made = {
            at: execute("dot_general", case.operation.parameter, [one[at] for one in parts])[0]
            for at in product(range(2), range(3))
        }
        assert meant(made, summed, sizes, whole) is right
        if right:
            assert match_rows(case.operation, how, [summed], sizes)
        else:
            with pytest.raises(InputError, match="different orders of axes"):
                match_rows(case.operation, how, [summed], sizes)


def test_whole_numbers_wrap_around_where_the_neutral_element_of_a_minimum_is_written() -> None:
    """A block of a minimum has the largest number around it; 8 more than that is negative."""
    x, y = (Value(name, Type("i32", (4,))) for name in "xy")
    number = Literal(8, "i32")
    for operation in (
        Operation("add", (x, number), (y,)),
        Operation("sub", (x, number), (y,)),
        Operation("neg", (x,), (y,)),
        Operation("integer_pow", (x,), (y,), (("y", 3),)),
    ):
        assert not any({MIN, MAX} & set(row.operands) for row in list_rows(operation))
