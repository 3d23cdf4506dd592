"""The primitives that a step may have, by what they do.

A name that stands in no list is refused, as nobody could say how it is cut, nor what it costs.
What works element by element stands apart, as most that is asked of a primitive has one answer
for all of these.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ARITHMETIC = _words(
    "add add_any sub mul div rem max min neg abs sign floor ceil round exp exp2 expm1 log "
    "log1p tanh sin cos tan logistic sqrt rsqrt cbrt pow integer_pow square erf erfc erf_inv "
    "atan2 sinh cosh asin acos atan asinh acosh atanh lgamma digamma polygamma zeta igamma "
    "igammac bessel_i0e bessel_i1e eq ne lt le gt ge eq_to le_to lt_to and or xor not "
    "shift_left shift_right_logical shift_right_arithmetic population_count is_finite "
    "nextafter reduce_precision select_n clamp"
)
"""One result for each element, by some arithmetic."""

MOVED = _words(
    "copy stop_gradient convert_element_type bitcast_convert_type transpose reshape squeeze "
    "rev broadcast_in_dim slice dynamic_slice dynamic_update_slice split concatenate stack "
    "unstack tile pad gather scatter iota optimization_barrier"
)
"""Data that is moved, converted, or written as it is: no arithmetic."""

REDUCED = _words(
    "reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or argmax argmin cumsum "
    "cummax cumprod cummin cumlogsumexp reduce_window_max reduce_window_min reduce_window_sum "
    "select_and_scatter_add scatter-add scatter-sub scatter-mul scatter-min scatter-max sort "
    "top_k approx_top_k"
)
"""Several elements put together, or compared with each other."""

RANDOM = _words("random_bits random_wrap random_unwrap random_seed random_split random_fold_in")
"""Made from keys, which have no layout: always whole."""

MULTIPLIED = frozenset(("dot_general", "ragged_dot_general", "conv_general_dilated"))
"""Sums of products: nearly all of the work of a step."""

REPEATED = "scan"
"""The one primitive that is kept with a body."""

KNOWN = ARITHMETIC | MOVED | REDUCED | RANDOM | MULTIPLIED | {REPEATED}
"""All that a step may have when the calls are replaced."""

WHOLE = _words("cholesky triangular_solve lu qr eigh svd reduce_xor clz")
"""No rule cuts these, but every runtime computes them: a step may ask for them replicated."""

REPLICATED = "replicated"
"""What a step says of a primitive that is not known, and that every device is to do whole."""
