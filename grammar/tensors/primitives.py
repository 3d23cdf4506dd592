"""The primitives that a step may have, by what they do.

A primitive in no list is refused, as neither its shardings nor its cost are known. Elementwise
primitives have their own list, as most questions about them have the same answer.
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
"""Elementwise arithmetic: one result for each element."""

MOVED = _words(
    "copy stop_gradient convert_element_type bitcast_convert_type transpose reshape squeeze "
    "rev broadcast_in_dim slice dynamic_slice dynamic_update_slice split concatenate stack "
    "unstack tile pad gather scatter iota optimization_barrier"
)
"""Data is moved, converted, or written, without arithmetic."""

REDUCED = _words(
    "reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or argmax argmin cumsum "
    "cummax cumprod cummin cumlogsumexp reduce_window_max reduce_window_min reduce_window_sum "
    "select_and_scatter_add scatter-add scatter-sub scatter-mul scatter-min scatter-max sort "
    "top_k approx_top_k"
)
"""Elements are combined, or compared with each other."""

RANDOM = _words("random_bits random_wrap random_unwrap random_seed random_split random_fold_in")
"""Computed from keys, which are never divided: always replicated."""

MULTIPLIED = frozenset(("dot_general", "ragged_dot_general", "conv_general_dilated"))
"""Sums of products: nearly all of the work of a step."""

REPEATED = "scan"
"""The one primitive that is kept with a body."""

KNOWN = ARITHMETIC | MOVED | REDUCED | RANDOM | MULTIPLIED | {REPEATED}
"""All primitives that a step may have after calls are inlined."""

WHOLE = _words("cholesky triangular_solve lu qr eigh svd reduce_xor clz")
"""No rule divides these, but every runtime has them: a step may ask for them replicated."""

REPLICATED = "replicated"
"""Marks an unknown primitive that every device is to compute whole."""
