"""The table of primitives: one row per primitive, with all facts about it."""

from __future__ import annotations

from functools import partial

from synth.primitives.arithmetic import ARITHMETIC_ROWS, LAX
from synth.primitives.calls import jax, torch, torch_indexed, torch_random
from synth.primitives.flops import count_convolution, count_dot, count_ragged_dot
from synth.primitives.primitive import Primitive, WorkKind
from synth.primitives.rules import indexed, partials, plain, products, windows
from synth.primitives.rules.partials import (
    JOIN_RULES,
    LINEAR_RULES,
    MAX,
    MAX_RULES,
    MIN,
    MIN_RULES,
    MOVEMENT_RULES,
    PRODUCT_RULES,
    SCATTER_SUM_RULES,
    SUM,
    UPDATE_RULES,
    extremes_rule,
    sums_rule,
)

_ALONG_AXIS = plain.except_named("axis")

_layout = partial(Primitive, kind=WorkKind.MOVEMENT, partials=MOVEMENT_RULES)
_movement = partial(Primitive, kind=WorkKind.MOVEMENT)
_product = partial(Primitive, kind=WorkKind.PRODUCT, partials=PRODUCT_RULES)
_reduction = partial(Primitive, kind=WorkKind.REDUCTION)
_dimensions = partial(_reduction, jax="lax.{primitive}({0}, {axes})")
_extreme = partial(_reduction, jax="lax.{primitive}({0}, {axes}[0], {index_dtype})")
_accumulation = partial(
    _reduction, rule=_ALONG_AXIS, jax="lax.{primitive}({0}, {axis}, reverse={reverse})"
)
_window = partial(_reduction, rule=windows.reduce_window)
_scatter = partial(_reduction, jax=jax.scatter)
_random = partial(Primitive, rule=plain.no_factors, kind=WorkKind.RANDOM)
_replicated = partial(Primitive, rule=None, kind=WorkKind.UNKNOWN)

ROWS = (
    *ARITHMETIC_ROWS,
    _product(
        "dot_general",
        products.dot_general,
        jax.multiply("{dimension_numbers}"),
        torch.multiply,
        count_flops=count_dot,
        overflows=True,
    ),
    _product(
        "ragged_dot_general",
        products.ragged_dot_general,
        jax.multiply("lax.RaggedDotDimensionNumbers({ragged_dot_dimension_numbers})"),
        torch.multiply_groups,
        count_flops=count_ragged_dot,
        overflows=True,
    ),
    _product(
        "conv_general_dilated",
        products.convolution,
        jax.convolve,
        torch.convolve,
        count_flops=count_convolution,
    ),
    _layout("copy", plain.elementwise, "{0}", "{0}"),
    _layout("stop_gradient", plain.elementwise, LAX, "{0}", is_view=True),
    _layout("optimization_barrier", plain.elementwise, LAX, "{0}", is_view=True),
    _movement(
        "convert_element_type",
        plain.elementwise,
        "lax.convert_element_type({0}, {new_dtype})",
        torch.convert,
        partials=(partials.convert_rows,),
        overflows=True,
    ),
    _movement(
        "bitcast_convert_type",
        plain.same_width,
        "lax.bitcast_convert_type({0}, {new_dtype})",
        torch_random.reinterpret,
        is_view=True,
    ),
    _layout(
        "transpose",
        plain.transpose,
        "lax.transpose({0}, {permutation})",
        "{0}.permute({permutation})",
    ),
    _layout(
        "reshape",
        plain.reshape,
        "lax.reshape({0}, {new_sizes})",
        "{0}.reshape({result.shape})",
        is_view=True,
    ),
    _layout(
        "squeeze",
        plain.squeeze,
        "lax.squeeze({0}, {dimensions})",
        "{0}.reshape({result.shape})",
        is_view=True,
    ),
    _layout(
        "rev",
        plain.except_named("dimensions"),
        "lax.rev({0}, {dimensions})",
        "{0}.flip({dimensions})",
    ),
    _layout(
        "broadcast_in_dim",
        plain.broadcast_in_dim,
        "lax.broadcast_in_dim({0}, {shape}, {broadcast_dimensions})",
        torch.broadcast,
    ),
    _layout("slice", plain.slice_, jax.cut_slice, torch.cut_slice),
    _layout(
        "dynamic_slice",
        plain.dynamic_slice,
        "lax.dynamic_slice({0}, [{1+}], {slice_sizes})",
        torch.slice_at,
    ),
    _movement(
        "dynamic_update_slice",
        plain.dynamic_update_slice,
        "lax.dynamic_update_slice({0}, {1}, [{2+}])",
        torch.update_at,
        partials=UPDATE_RULES,
    ),
    _layout(
        "split",
        _ALONG_AXIS,
        "lax.split({0}, {sizes}, {axis})",
        "{0}.split({sizes}, {axis})",
        is_sequence=True,
    ),
    _movement(
        "concatenate",
        plain.except_named("dimension"),
        "lax.concatenate([{all}], {dimension})",
        "torch.cat([{all}], {dimension})",
        partials=JOIN_RULES,
    ),
    _movement(
        "stack",
        plain.stack,
        "jnp.stack([{all}], {axis})",
        "torch.stack([{all}], {axis})",
        partials=JOIN_RULES,
    ),
    _layout(
        "unstack",
        plain.unstack,
        "jnp.unstack({0}, axis={axis})",
        "{0}.unbind({axis})",
        is_sequence=True,
    ),
    _layout("tile", plain.tile, "lax.tile({0}, {reps})", "{0}.tile({reps})"),
    _movement(
        "pad", plain.pad, "lax.pad({0}, {1}, {padding_config})", torch.pad, partials=UPDATE_RULES
    ),
    _movement(
        "gather", indexed.gather, jax.gather, torch_indexed.gather, partials=(partials.gather_rows,)
    ),
    _movement(
        "scatter",
        indexed.scatter,
        jax.scatter,
        torch_indexed.scatter("set"),
        partials=(sums_rule(0, 2), extremes_rule(0, 2)),
    ),
    _movement("iota", plain.iota, jax.count, torch.count),
    _dimensions(
        "reduce_sum",
        plain.reduce(SUM),
        torch=torch.reduce("sum", ", dtype={made}"),
        partials=LINEAR_RULES,
        overflows=True,
    ),
    _dimensions("reduce_max", plain.reduce(MAX), torch=torch.reduce("amax"), partials=MAX_RULES),
    _dimensions("reduce_min", plain.reduce(MIN), torch=torch.reduce("amin"), partials=MIN_RULES),
    _dimensions("reduce_and", plain.reduce_logic(MIN), torch=torch.reduce_logic("all", "and")),
    _dimensions("reduce_or", plain.reduce_logic(MAX), torch=torch.reduce_logic("any", "or")),
    _dimensions("reduce_prod", plain.reduce(None), torch=torch.reduce_product, overflows=True),
    _extreme("argmax", plain.reduce(None), torch=torch.find_extreme),
    _extreme("argmin", plain.reduce(None), torch=torch.find_extreme),
    _accumulation(
        "cumsum",
        torch=torch.accumulate("cumsum", ".to({made})"),
        partials=LINEAR_RULES,
        overflows=True,
    ),
    _accumulation("cumprod", torch=torch.accumulate("cumprod", ".to({made})"), overflows=True),
    _accumulation("cummax", torch=torch.accumulate("cummax", ".values"), partials=MAX_RULES),
    _accumulation("cummin", torch=torch.accumulate("cummin", ".values"), partials=MIN_RULES),
    _accumulation("cumlogsumexp", torch=torch.accumulate("logcumsumexp")),
    _reduction(
        "sort",
        plain.except_named("dimension"),
        "lax.sort([{all}], dimension={dimension}, is_stable={is_stable}, num_keys={num_keys})",
        torch.sort,
        partials=(partials.sort_rows,),
        is_sequence=True,
    ),
    _reduction(
        "top_k",
        _ALONG_AXIS,
        "lax.top_k({0}, {k}, axis={axis})",
        "largest({0}, {k}, {axis})",
        is_sequence=True,
    ),
    _reduction(
        "approx_top_k",
        plain.except_named("reduction_dimension"),
        jax.find_top,
        torch.find_top,
        is_sequence=True,
    ),
    _window(
        "reduce_window_sum",
        jax=jax.reduce_windows("lax.add", SUM),
        torch=torch.reduce_windows("sum", SUM),
        partials=LINEAR_RULES,
    ),
    _window(
        "reduce_window_max",
        jax=jax.reduce_windows("lax.max", MAX),
        torch=torch.reduce_windows("amax", MAX),
        partials=MAX_RULES,
    ),
    _window(
        "reduce_window_min",
        jax=jax.reduce_windows("lax.min", MIN),
        torch=torch.reduce_windows("amin", MIN),
        partials=MIN_RULES,
    ),
    _reduction(
        "select_and_scatter_add",
        windows.select_and_scatter_add,
        jax.scatter_to_maxima,
        torch.scatter_to_maxima,
        partials=LINEAR_RULES,
    ),
    _scatter(
        "scatter-add",
        indexed.scatter_onto(SUM),
        torch=torch_indexed.scatter("add"),
        partials=SCATTER_SUM_RULES,
        overflows=True,
    ),
    _scatter(
        "scatter-sub",
        indexed.scatter_onto(SUM),
        torch=torch_indexed.scatter("sub"),
        partials=SCATTER_SUM_RULES,
        overflows=True,
    ),
    _scatter(
        "scatter-mul",
        indexed.scatter_onto(None),
        torch=torch_indexed.scatter("prod"),
        partials=LINEAR_RULES,
        overflows=True,
    ),
    _scatter(
        "scatter-max",
        indexed.scatter_onto(MAX),
        torch=torch_indexed.scatter("amax"),
        partials=(extremes_rule(0, 2, kinds=(MAX,)), *MIN_RULES),
    ),
    _scatter(
        "scatter-min",
        indexed.scatter_onto(MIN),
        torch=torch_indexed.scatter("amin"),
        partials=(extremes_rule(0, 2, kinds=(MIN,)), *MAX_RULES),
    ),
    _random("random_bits", jax=jax.draw_bits, torch=torch_random.draw_bits),
    _random("random_seed", jax=jax.make_key, torch=torch_random.make_key),
    _random("random_wrap", jax=jax.wrap_key, torch=torch_random.wrap_key),
    _random(
        "random_unwrap",
        jax="jax.random.key_data({0})",
        torch="torch.stack([{0} >> 32 & 0xFFFFFFFF, {0} & 0xFFFFFFFF], -1)",
    ),
    _random("random_split", jax=jax.split_key, torch="random_split({0}, {shape})"),
    _random("random_fold_in", jax=jax.fold_in, torch="random_fold_in({all})"),
    _replicated(
        "cholesky",
        jax="lax.linalg.cholesky({0}, symmetrize_input=False)",
        torch="torch.linalg.cholesky({0})",
    ),
    _replicated("triangular_solve", jax=jax.solve_triangular, torch=torch.solve_triangular),
    _replicated("lu", jax="lax.linalg.lu({0})", torch="lu_factors({0})", is_sequence=True),
    _replicated(
        "qr",
        jax="lax.linalg.qr({0}, full_matrices={full_matrices}, pivoting={pivoting})",
        torch=torch.decompose_qr,
        is_sequence=True,
    ),
    _replicated("eigh", jax=jax.decompose_eigh, torch=torch.decompose_eigh, is_sequence=True),
    _replicated(
        "svd",
        jax=torch.decompose_svd(
            "lax.linalg.svd",
            "[lax.linalg.svd({0}, full_matrices={full_matrices}, compute_uv=False)]",
        ),
        torch=torch.decompose_svd("torch.linalg.svd", "[torch.linalg.svdvals({0})]"),
        is_sequence=True,
    ),
    _replicated(
        "reduce_xor", jax="lax.{primitive}({0}, {axes})", torch='reduce_bits({0}, {axes}, "xor")'
    ),
    _replicated(
        "clz", jax=LAX, torch=lambda call: f"leading_zeros({call.operands[0]}, {call.bits})"
    ),
)

PRIMITIVES: dict[str, Primitive] = {row.name: row for row in ROWS}
"""The rows by name. A step may use these primitives, and loops, after calls are inlined."""


def is_elementwise(name: str) -> bool:
    """Returns whether each element of the results depends only on the same element of operands."""
    return name in PRIMITIVES and PRIMITIVES[name].rule is plain.elementwise


def is_view(name: str) -> bool:
    """Returns whether a primitive renames the same bytes, which takes no time."""
    return name in PRIMITIVES and PRIMITIVES[name].is_view


def kind_of(name: str) -> WorkKind:
    """Returns the kind of work of a primitive."""
    return PRIMITIVES[name].kind if name in PRIMITIVES else WorkKind.UNKNOWN


def names_of(kind: WorkKind) -> frozenset[str]:
    """Returns the primitives with this kind of work."""
    return frozenset(row.name for row in PRIMITIVES.values() if row.kind is kind)


ARITHMETIC = names_of(WorkKind.ARITHMETIC)
MOVED = names_of(WorkKind.MOVEMENT)
MULTIPLIED = names_of(WorkKind.PRODUCT)
REPLICATED_ONLY = frozenset(row.name for row in PRIMITIVES.values() if row.rule is None)
"""Primitives that no rule divides but every runtime has: a step may request them replicated."""
