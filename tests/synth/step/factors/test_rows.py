"""Laws F1 and F3: every row executed, alone in 2 and 3 parts, and with each other over two axes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from equations.cases import Case, cases
from equations.executed import execute
from equations.laid_out import laid, meant
from equations.parts import execute_part
from exhaustive import Sample, sampled
from grammar.tensors.operations import Literal
from hierarchies import InputError
from synth.step.factors import (
    OperationSharding,
    Row,
    list_rows,
    match_rows,
    part_of,
    shard_operation,
)

CASES = cases()
BOTH = {"a": 2, "b": 3}


def legal(case: Case, by_axis: dict[str, Row], sizes: dict[str, int]) -> OperationSharding | None:
    """The types, unless the axes do not divide, or may not come together."""
    try:
        return shard_operation(case.operation, by_axis, sizes)
    except InputError:
        return None


def is_right(case: Case, how: OperationSharding, sizes: dict[str, int]) -> bool:
    """Executed on every device, and put together: is it the whole?"""
    draws = np.random.default_rng(len(how.rows))
    operation = case.operation
    whole = case.drawn(draws)
    expected = execute(operation.primitive, operation.parameter, whole)
    operands = [
        laid(one, how_, sizes, draws) for one, how_ in zip(whole, how.operands, strict=True)
    ]
    todo = part_of(operation, how, sizes)
    shapes = [() if isinstance(one, Literal) else one.type.shape for one in todo.operation.operands]
    made = {}
    for at in product(*map(range, sizes.values())):
        mine = [one[at] for one in operands]
        assert [np.shape(one) for one in mine] == shapes, case.name
        made[at] = execute_part(todo, mine, sizes, at)
        found = [tuple(np.shape(one)) for one in made[at]]
        assert found == [one.type.shape for one in todo.operation.results], case.name
    return all(
        meant({at: one[number] for at, one in made.items()}, how.results[number], sizes, result)
        for number, result in enumerate(expected)
    )


DELICATE = (
    "neg",
    "sub",
    "reduce_and",
    "convert_element_type of bool",
    "pad by zero",
    "reshape by gcd",
    "iota",
    "scatter-add",
    "scatter unique",
    "gather filled",
    "gather of pairs",
    "conv_general_dilated in groups",
    "reduce_window_max overlapping",
    "reduce_or of integers",
    "scatter-max clipped",
    "scatter-mul clipped",
    "tile",
    "stack",
    "approx_top_k",
)
"""Equations whose rows have something peculiar."""


@pytest.mark.parametrize("name", DELICATE)
def test_delicate_rows(name: str) -> None:
    case = next(one for one in CASES if one.name == name)
    for row in list_rows(case.operation):
        how = shard_operation(case.operation, {"a": row}, {"a": 2})
        assert is_right(case, how, {"a": 2}), str(row)


@sampled(20, seed=3, parts=2)
def test_every_row_in_two_and_in_three_parts(sample: Sample) -> None:
    checks = 0
    for case in sample(CASES):
        for row, parts in product(list_rows(case.operation), (2, 3)):
            sizes = {"a": parts}
            how = legal(case, {"a": row}, sizes)
            if how is None:
                assert row.factor is not None
                assert row.factor.size % parts
                continue
            assert is_right(case, how, sizes), (case.name, str(row), parts)
            assert dict(match_rows(case.operation, how.operands, how.results, sizes).rows) in (
                {"a": row},
                {},
            )
            checks += 1
    sample.note("checks", checks)


@sampled(8, seed=4, parts=4)
def test_rows_of_two_axes_combine_freely(sample: Sample) -> None:
    checks = 0
    for case in sample(CASES):
        legal_rows = list_rows(case.operation)
        for one, other in product(legal_rows, repeat=2):
            for order in (("a", "b"), ("b", "a")):
                by_axis = dict(zip(order, (one, other), strict=True))
                how = legal(case, by_axis, BOTH)
                if how is None:
                    continue
                assert is_right(case, how, BOTH), (case.name, str(one), str(other), order)
                assert (
                    match_rows(case.operation, how.operands, how.results, BOTH).factors
                    == how.factors
                )
                checks += 1
    sample.note("checks", checks)
