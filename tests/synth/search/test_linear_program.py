"""Linear programs: the same as by scipy's own function, to the bit, without its other solvers."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.search import linear_program
from synth.search.linear_program import LinearOptimum, solve_linear_program

LOADS = st.integers(1, 12).flatmap(
    lambda programs: st.lists(
        st.lists(st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 0.7, 1.0]), min_size=4, max_size=4),
        min_size=programs,
        max_size=programs,
    )
)


def solve_mix(loads: np.ndarray, costs: np.ndarray) -> LinearOptimum:
    """Shares that sum to 1 and minimise the busiest resource plus the costs."""
    programs, resources = loads.shape
    return solve_linear_program(
        np.append(costs, 1.0),
        np.hstack([loads.T, -np.ones((resources, 1))]),
        np.zeros(resources),
        np.append(np.ones(programs), 0.0)[None, :],
        np.ones(1),
    )


@given(LOADS, st.booleans())
def test_results_are_those_of_linprog_to_the_bit(rows: list[list[float]], costly: bool) -> None:
    """Many optima tie here: the vertex is that of the same solver with the same options."""
    loads = np.array(rows)
    costs = loads.sum(axis=1) / 8 if costly else np.zeros(len(loads))
    found = solve_mix(loads, costs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear_program, "_load_highs", lambda: None)
        judged = solve_mix(loads, costs)
    assert found.values.tolist() == judged.values.tolist()
    assert found.marginals.tolist() == judged.marginals.tolist()


@pytest.mark.parametrize("loaded", [True, False])
@pytest.mark.parametrize(
    ("cost", "limit"), [(1.0, -1.0), (-1.0, 1.0)], ids=["infeasible", "unbounded"]
)
def test_what_has_no_optimum_is_an_error(
    loaded: bool, cost: float, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not loaded:
        monkeypatch.setattr(linear_program, "_load_highs", lambda: None)
    none = np.zeros((0, 2))
    with pytest.raises(ArithmeticError):
        solve_linear_program(
            np.array([cost, 0.0]), np.array([[0.0, 1.0]]), np.array([limit]), none, np.zeros(0)
        )


def test_scipy_s_other_solvers_are_not_imported_and_find_the_same_module_later() -> None:
    code = (
        "import sys, numpy as np\n"
        "from synth.search.linear_program import solve_linear_program as solve\n"
        "one = np.ones((1, 1))\n"
        "assert solve(one[0], one, one[0], one, one[0]).values.tolist() == [1.0]\n"
        "assert 'scipy.optimize' not in sys.modules\n"
        "highs = sys.modules['scipy.optimize._highspy._core']\n"
        "from scipy.optimize import linprog\n"
        "from scipy.optimize._highspy import _core\n"
        "assert _core is highs\n"
        "assert linprog([1.0], one, [1.0], one, [1.0]).x.tolist() == [1.0]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
