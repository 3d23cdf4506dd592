"""Law F4: Shardy's factors of the same equations, where they can be compared, are ours."""

from __future__ import annotations

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
pytest.importorskip("jaxlib.mlir.passmanager", reason="this jaxlib runs no compiler passes")

from equations.cases import Case, cases
from equations.shardy import ours, theirs
from synth.step.factors import factors_of

CASES = [case for case in cases() if not case.operation.primitive.startswith("random")]
NO_RULE = {
    "erf",
    "erfc",
    "erf_inv",
    "square",
    "copy",
    "add of a row",
    "sub of a column",
    "mul of row and column",
    "stop_gradient",
    "clamp",
    "iota",
    "iota of floats",
    "top_k",
    "ragged_dot_general",
    "ragged_dot_general contracting",
    "select_and_scatter_add",
    "scatter-add clipped",
    "scatter-add in batches",
    "scatter-add of pairs clipped",
    *(f"scatter-{how} clipped" for how in ("sub", "mul", "min", "max")),
    "scatter-max in batches",
    *("sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "bessel_i1e"),
    *("lgamma", "digamma", "polygamma", "zeta", "nextafter", "optimization_barrier"),
    *("stack", "stack last", "stack of bools"),
}
"""Equations without a rule, or of which none of the operations they become reads all operands."""

TILED = "windows that tile: Shardy says permutation, which is communication"
REPEATED = "lowered to a broadcast to more dimensions, and a reshape"
SLICED = "lowered to slices, which keep the dimension, and reshapes"
ONLY_OURS = {
    "unstack": ({"(2) -> 1"}, SLICED),
    "tile": ({"(0) -> 0", "(-) -> 1"}, REPEATED),
    "tile of one": ({"(1) -> 1", "(-) -> 0"}, REPEATED),
    "scatter-sub": ({"(-, 0, 0) -> - reduced"}, "Shardy knows the sum of an addition only"),
    "conv_general_dilated of patches": ({"(1, -) -> 1", "(2, -) -> 2"}, TILED),
    "conv_general_dilated by one": ({"(1, -) -> 1", "(2, -) -> 2"}, TILED),
    "reduce_window_max": ({"(1) -> 1"}, TILED),
    "reduce_window_min": ({"(1) -> 1"}, TILED),
    "reduce_window_sum": ({"(1) -> 1"}, TILED),
}
CANDIDATES = "candidates of the parts are put together: needs communication"
ONLY_THEIRS = {
    "unstack": ({"(2) -> 2"}, SLICED),
    "tile": ({"(1) -> 3", "(0) -> 1"}, REPEATED),
    "tile of one": ({"(1) -> 3"}, REPEATED),
    "reduce_and of integers": ({"(1) -> - reduced"}, "and of bits is no partial minimum"),
    "reduce_or of integers": ({"(1) -> - reduced"}, "or of bits is no partial maximum"),
    "approx_top_k": ({"(1) -> -"}, CANDIDATES),
    "approx_top_k of the least": ({"(0) -> -"}, CANDIDATES),
    "scatter-mul": ({"(-, 0, 0) -> - reduced"}, "there is no partial product"),
    "bitcast_convert_type narrower": ({"(0) -> 0", "(1) -> 1"}, "ours is made whole"),
    "dynamic_update_slice": ({"(1, -, -, -) -> 1"}, "what is updated may be another part's"),
    "reduce_prod": ({"(1) -> - reduced"}, "there is no partial product"),
    "argmax": ({"(1) -> - reduced"}, "pairs of value and place are reduced: needs communication"),
    "argmin": ({"(0) -> - reduced"}, "as argmax"),
    "conv_general_dilated of batches": ({"(3, 2) -> - reduced"}, "of groups, only groups"),
    "scatter": ({"(0, -, -) -> 0"}, "indices may be equal: which is last is not defined"),
}


@pytest.fixture(scope="module")
def compared() -> dict[str, tuple[set[str], set[str]]]:
    """Of every equation that has a rule: our factors and theirs."""
    found = {}
    for case in CASES:
        if (other := theirs(case.operation)) is not None:
            found[case.name] = (spelled(case), set(map(str, other)))
    return found


def spelled(case: Case) -> set[str]:
    return {str(ours(case.operation, factor)) for factor in factors_of(case.operation)}


def test_factors_are_shardys(compared: dict[str, tuple[set[str], set[str]]]) -> None:
    for name, (mine, others) in compared.items():
        assert mine - others == ONLY_OURS.get(name, (set(), ""))[0], name
        assert others - mine == ONLY_THEIRS.get(name, (set(), ""))[0], name


def test_enough_can_be_compared(compared: dict[str, tuple[set[str], set[str]]]) -> None:
    assert sum(len(mine & others) for mine, others in compared.values()) >= 129
    assert {case.name for case in CASES} - compared.keys() <= NO_RULE
