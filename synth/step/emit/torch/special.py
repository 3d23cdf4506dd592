"""Special functions, bits and total orders of floats in PyTorch."""

from __future__ import annotations

from collections.abc import Mapping

from synth.step.emit.language import PrimitiveCall, Writer
from synth.step.factors.parameters import read_number, split_words

_SAME_NAMES = split_words(
    "sinh cosh asin acos atan asinh acosh atanh lgamma digamma nextafter atan2 pow"
)
_OTHER_NAMES = {
    "bessel_i0e": "special.i0e",
    "bessel_i1e": "special.i1e",
    "igamma": "special.gammainc",
    "igammac": "special.gammaincc",
    "zeta": "special.zeta",
}
_ORDERS = {"eq_to": "==", "le_to": "<=", "lt_to": "<"}
_BINARY = split_words("nextafter atan2 pow igamma igammac zeta")


def _call_function(name: str, function: str) -> Writer:
    return f"torch.{function}({{0}}, {{1}})" if name in _BINARY else f"torch.{function}({{0}})"


def _reduce_precision(call: PrimitiveCall) -> str:
    exponent, mantissa = (
        read_number(call.operation, f"{name}_bits") for name in ("exponent", "mantissa")
    )
    if (call.made.dtype, exponent) != ("f32", 8):
        raise call.refused(f"of {call.made.dtype} to {exponent} bits of exponent")
    return f"reduce_precision({call.operands[0]}, {mantissa})"


def _approx_top_k(call: PrimitiveCall) -> str:
    """Exact, which is a better approximation than was requested."""
    if not read_number(call.operation, "aggregate_to_topk"):
        raise call.refused("of candidates that are not put together")
    smallest = "" if read_number(call.operation, "is_max_k") else ", smallest=True"
    axis = read_number(call.operation, "reduction_dimension") % len(call.shape())
    return f"largest({call.operands[0]}, {call.spell('k')}, {axis}{smallest})"


SPECIAL: Mapping[str, Writer] = {
    **{name: _call_function(name, name) for name in _SAME_NAMES},
    **{name: _call_function(name, function) for name, function in _OTHER_NAMES.items()},
    **{name: f"total_order({{0}}) {sign} total_order({{1}})" for name, sign in _ORDERS.items()},
    "polygamma": "polygamma({0}, {1})",
    "population_count": lambda call: f"population_count({call.operands[0]}, {call.bits})",
    "reduce_precision": _reduce_precision,
    "approx_top_k": _approx_top_k,
}
