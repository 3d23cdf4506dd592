"""Linear programs, solved by the HiGHS that scipy brings, without scipy's other solvers.

``scipy.optimize`` imports all of its solvers, and with them scipy's linear algebra, transforms and
rotations: 0.35 CPU seconds, a third of what a small question takes, where HiGHS itself takes 0.02.
So the extension module is loaded from scipy's folder under its own name, where a later
``import scipy.optimize`` finds it. Its options are those of ``scipy.optimize.linprog`` with
``method="highs"``, so results are the same to the bit. Where a scipy has no such module, as those
before 1.15, ``linprog`` solves.

>>> import numpy as np
>>> found = solve_linear_program(  # least x + 2 y, where x + y >= 3 and x + z = 1
...     np.array([1.0, 2.0, 0.0]),
...     np.array([[-1.0, -1.0, 0.0]]), np.array([-3.0]),
...     np.array([[1.0, 0.0, 1.0]]), np.array([1.0]),
... )
>>> found.values.tolist(), found.marginals.tolist()
([1.0, 2.0, 0.0], [-2.0])
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_HIGHS = "scipy.optimize._highspy._core"


@dataclass(frozen=True)
class LinearOptimum:
    """The variables at an optimum; how it changes as each limit of an inequality is raised."""

    values: Floats
    marginals: Floats


def solve_linear_program(
    costs: Floats, rows: Floats, limits: Floats, equal_rows: Floats, equal_to: Floats
) -> LinearOptimum:
    """Minimises ``costs @ x`` for x >= 0, ``rows @ x <= limits``, ``equal_rows @ x == equal_to``.

    Raises ArithmeticError where no x meets these, or the costs have no least value.
    """
    highs = _load_highs()
    if highs is None:
        return _solve_by_scipy(costs, rows, limits, equal_rows, equal_to)
    program = highs.HighsLp()
    matrix = np.vstack((rows, equal_rows))
    program.num_row_, program.num_col_ = matrix.shape
    program.a_matrix_.num_row_, program.a_matrix_.num_col_ = matrix.shape
    program.a_matrix_.format_ = highs.MatrixFormat.kColwise
    filled = matrix.T != 0.0
    program.a_matrix_.start_ = np.cumsum([0, *filled.sum(axis=1)], dtype=np.int32)
    program.a_matrix_.index_ = filled.nonzero()[1].astype(np.int32)
    program.a_matrix_.value_ = matrix.T[filled]
    program.col_cost_ = costs
    program.col_lower_ = np.zeros(len(costs))
    program.col_upper_ = np.full(len(costs), np.inf)
    program.row_lower_ = np.append(np.full(len(limits), -np.inf), equal_to)
    program.row_upper_ = np.append(limits, equal_to)
    solver = highs._Highs()
    solver.passOptions(_options(highs))
    solver.passModel(program)
    solver.run()
    if solver.getModelStatus() != highs.HighsModelStatus.kOptimal:
        raise ArithmeticError(solver.modelStatusToString(solver.getModelStatus()))
    solution = solver.getSolution()
    return LinearOptimum(np.array(solution.col_value), np.array(solution.row_dual)[: len(limits)])


def _options(highs: Any) -> Any:
    """Returns the options by which ``linprog`` calls HiGHS."""
    options = highs.HighsOptions()
    options.presolve = "on"
    options.highs_debug_level = 0
    options.log_to_console = options.output_flag = False
    options.simplex_strategy = int(highs.simplex_constants.SimplexStrategy.kSimplexStrategyDual)
    return options


def _solve_by_scipy(
    costs: Floats, rows: Floats, limits: Floats, equal_rows: Floats, equal_to: Floats
) -> LinearOptimum:
    import scipy.optimize  # nearly never needed, and slow to import

    found = scipy.optimize.linprog(costs, rows, limits, equal_rows, equal_to, method="highs")
    if found.status:
        raise ArithmeticError(found.message)
    return LinearOptimum(found.x, found.ineqlin.marginals)


@cache
def _load_highs() -> Any:
    """Returns scipy's module of HiGHS; None if this scipy has it elsewhere."""
    if _HIGHS in sys.modules:
        return sys.modules[_HIGHS]
    scipy_spec = find_spec("scipy")
    assert scipy_spec is not None
    folders = [
        str(Path(f, *_HIGHS.split(".")[1:-1])) for f in scipy_spec.submodule_search_locations or ()
    ]
    spec = PathFinder.find_spec(_HIGHS, folders)
    if spec is None or spec.loader is None:
        return None
    module = sys.modules[_HIGHS] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError:
        del sys.modules[_HIGHS]
        return None
    return module
