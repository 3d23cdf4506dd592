"""The executor of single operations agrees with jax, and arrays laid on devices mean the array."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from equations.cases import cases
from equations.executed import ELEMENTWISE, NUMPY, by_jax, execute
from equations.laid_out import equal, fractions, laid, meant
from grammar.tensors.sharding import ReductionKind, shardings

CASES = cases()
HERE = [case for case in CASES if case.operation.primitive in {*ELEMENTWISE, *NUMPY}]
SIZES = {"a": 2, "b": 3}


def test_names_of_cases_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", HERE[::3], ids=lambda case: case.name)
def test_numpy_agrees_with_jax(case) -> None:
    draws = np.random.default_rng(1)
    operands = case.drawn(draws)
    told = case.operation.parameter
    name = case.operation.primitive
    expected = by_jax(name, told, operands)
    found = execute(name, told, operands)
    assert [one.shape for one in found] == [one.type.shape for one in case.operation.results]
    assert all(equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("kind", list(ReductionKind))
def test_intact_layouts_denote_the_array_and_damaged_ones_do_not(kind: ReductionKind) -> None:
    draws = np.random.default_rng(2)
    whole = fractions(draws, (6, 12), np.float32)
    for sharding in shardings(2, tuple(SIZES), (kind,)):
        parts = laid(whole, sharding, SIZES, draws)
        assert meant(parts, sharding, SIZES, whole)
        far = -100 if kind is ReductionKind.MIN else 100
        worse = {at: one + np.float32(far * (at == (1, 2))) for at, one in parts.items()}
        assert not meant(worse, sharding, SIZES, whole)
