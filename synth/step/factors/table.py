"""The table of primitives: for each the rule that names its indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from grammar.tensors.operations import Operation
from grammar.tensors.primitives import ARITHMETIC, RANDOM, REPLICATED, WHOLE
from grammar.tensors.sharding import ReductionKind
from hierarchies import InputError
from hierarchies.errors import suggest_nearest
from synth.step.factors import indexed, plain, products, windows
from synth.step.factors.factor import Factor
from synth.step.factors.forms import cache_by_form
from synth.step.factors.indices import Indices

Rule = Callable[[Operation], Indices]

ELEMENTWISE = ARITHMETIC | {
    "convert_element_type",
    "stop_gradient",
    "copy",
    "optimization_barrier",
}
"""Primitives that compute each element of their results from the same element of operands."""

TABLE: Mapping[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, plain.elementwise),
    "bitcast_convert_type": plain.same_width,
    "transpose": plain.transpose,
    "rev": plain.except_named("dimensions"),
    "squeeze": plain.squeeze,
    "broadcast_in_dim": plain.broadcast_in_dim,
    "reshape": plain.reshape,
    "iota": plain.iota,
    "reduce_sum": plain.reduce(ReductionKind.SUM),
    "reduce_max": plain.reduce(ReductionKind.MAX),
    "reduce_min": plain.reduce(ReductionKind.MIN),
    "reduce_and": plain.reduce_logic(ReductionKind.MIN),
    "reduce_or": plain.reduce_logic(ReductionKind.MAX),
    "reduce_prod": plain.reduce(None),
    "argmax": plain.reduce(None),
    "argmin": plain.reduce(None),
    "cumsum": plain.except_named("axis"),
    "cumprod": plain.except_named("axis"),
    "cummax": plain.except_named("axis"),
    "cummin": plain.except_named("axis"),
    "cumlogsumexp": plain.except_named("axis"),
    "sort": plain.except_named("dimension"),
    "top_k": plain.except_named("axis"),
    "approx_top_k": plain.except_named("reduction_dimension"),
    "split": plain.except_named("axis"),
    "concatenate": plain.except_named("dimension"),
    "stack": plain.stack,
    "unstack": plain.unstack,
    "tile": plain.tile,
    "slice": plain.slice_,
    "dynamic_slice": plain.dynamic_slice,
    "dynamic_update_slice": plain.dynamic_update_slice,
    "pad": plain.pad,
    "dot_general": products.dot_general,
    "ragged_dot_general": products.ragged_dot_general,
    "conv_general_dilated": products.convolution,
    "reduce_window_sum": windows.reduce_window,
    "reduce_window_max": windows.reduce_window,
    "reduce_window_min": windows.reduce_window,
    "select_and_scatter_add": windows.select_and_scatter_add,
    "gather": indexed.gather,
    "scatter-add": indexed.scatter_onto(ReductionKind.SUM),
    "scatter-sub": indexed.scatter_onto(ReductionKind.SUM),
    "scatter-mul": indexed.scatter_onto(None),
    "scatter-max": indexed.scatter_onto(ReductionKind.MAX),
    "scatter-min": indexed.scatter_onto(ReductionKind.MIN),
    "scatter": indexed.scatter,
    **dict.fromkeys(RANDOM, plain.no_factors),
}


@cache_by_form
def factors_of(operation: Operation) -> tuple[Factor, ...]:
    """Returns the factors of an operation.

    Raises InputError, with the user's line, for a primitive that is not in the table. A primitive
    of ``WHOLE``, which runtimes can compute, has no factors if the step has ``replicated=true``,
    and every device computes it; other primitives refuse that parameter.
    """
    is_marked = REPLICATED in operation.parameter
    if operation.primitive in TABLE and not is_marked:
        return TABLE[operation.primitive](operation).factors(operation)
    if operation.primitive in WHOLE and operation.parameter.get(REPLICATED) is True:
        return ()
    if operation.primitive in TABLE:
        raise InputError(
            f"{operation.primitive} has {REPLICATED}=, and has rules to be cut by",
            where=operation.line,
            hint=f"leave that out, and a plan may replicate it; {_REPLICATED_HINT}",
        )
    if operation.body is not None:
        raise InputError(
            f"{operation.primitive} repeats a body", where=operation.line, hint="cut its operations"
        )
    if operation.primitive in WHOLE:
        hint = f"for every device to do it whole, write {REPLICATED}=true behind its operands"
    else:
        hint = f"{suggest_nearest(operation.primitive, TABLE)}; {_REPLICATED_HINT}"
    raise InputError(
        f"no factors are known of the primitive {operation.primitive!r}",
        where=operation.line,
        hint=hint,
    )


_REPLICATED_HINT = (
    f"{REPLICATED}=true is said of {', '.join(sorted(WHOLE))}, which runtimes compute whole"
)
