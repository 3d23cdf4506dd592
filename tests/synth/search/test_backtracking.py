"""Backtracking on puzzles that are small enough to try everything."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from puzzles import Row, Stopping, rows
from synth.search.backtracking import backtrack
from synth.search.space import BestFound, Budget, Infeasible, Optimal

HILL = Row(
    alone=((0, 9, 1), (0, 9, 1), (0, 9, 1)),
    beside=((0, 9, 9), (9, 0, 9), (9, 9, 0)),
    most=9,
)
"""From 222 to 000 one must pass what is much dearer."""


def best(row: Row) -> float:
    every = [row.price(state) for state in row.states()]
    return min((one for one in every if not isinstance(one, Infeasible)), default=inf)


@given(rows(), st.integers(0, 9))
def test_backtracking_without_a_limit_reaches_the_best(row: Row, seed: int) -> None:
    found = backtrack(row, inf, 60, Budget(seed=seed))
    if best(row) < inf and not isinstance(row.price(row.initial()), Infeasible):
        assert isinstance(found, Optimal | BestFound)
        assert found.seconds == row.price(found.state) == best(row)


@pytest.mark.parametrize(("alpha", "seconds"), [(1.0, 3.0), (20.0, 0.0)])
def test_what_is_kept_decides_which_hills_are_crossed(alpha: float, seconds: float) -> None:
    found = backtrack(HILL, alpha, 30)
    assert isinstance(found, Optimal | BestFound)
    assert found.seconds == seconds


@given(rows(), st.integers(1, 20))
def test_a_budget_is_kept(row: Row, evaluations: int) -> None:
    observer = Stopping(10**6)
    backtrack(row, 1.5, 5, Budget(evaluations), observer)
    assert len(observer.told) <= evaluations
    stopped = Stopping(evaluations - 1)
    backtrack(row, 1.5, 5, Budget(evaluations), stopped)
    assert len(stopped.told) <= evaluations
