"""JAX: a step inside ``shard_map``, primitives as calls of ``jax.lax``, loops by ``lax.scan``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grammar.tensors.sharding import ReductionKind, Sharding, Type
from synth.step.emit.language import PrimitiveCall, TargetLanguage, Writer
from synth.step.emit.moves import find_senders, spell_neutral
from synth.step.emit.spelling import spell_words, trim_uncut
from synth.step.emit.whole import JAX_RANDOM, JAX_WHOLE
from synth.step.factors import Index
from synth.step.factors.parameters import read_entry, read_numbers, split_words
from synth.step.redistribution import MoveKind, ShardingMove

DTYPES: Mapping[str, str] = {
    "bool": "jnp.bool_",
    **{f"i{bits}": f"jnp.int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"jnp.uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"jnp.float{bits}" for bits in (16, 32, 64)},
    "bf16": "jnp.bfloat16",
    "f8_e4m3fn": "jnp.float8_e4m3fn",
    "f8_e5m2": "jnp.float8_e5m2",
    "key": "jax.dtypes.prng_key",
}

_INFIX = {"add": "+", "add_any": "+", "sub": "-", "mul": "*", "eq": "==", "ne": "!=", "lt": "<"}
_INFIX |= {"le": "<=", "gt": ">", "ge": ">=", "and": "&", "or": "|", "xor": "^"}
_UNARY = split_words(
    "exp exp2 expm1 log log1p logistic tanh sin cos tan sqrt rsqrt cbrt abs sign floor ceil erf"
    " erfc erf_inv square stop_gradient is_finite sinh cosh asin acos atan asinh acosh atanh lgamma"
    " digamma bessel_i0e bessel_i1e population_count optimization_barrier"
)
_BINARY = split_words("div rem pow atan2 nextafter polygamma zeta igamma igammac")
_ORDERS = split_words("eq_to le_to lt_to")
_SHIFTS = split_words("shift_left shift_right_logical shift_right_arithmetic")
_REDUCTIONS = split_words("reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or")
_SCATTERS = split_words("add sub mul min max")
_CUMULATIVE = split_words("cumsum cumprod cummax cummin cumlogsumexp")


def _slice(call: PrimitiveCall) -> str:
    strides = call.spell("strides") if "strides" in call.operation.parameter else "None"
    limits = f"{call.spell('start_indices')}, {call.spell('limit_indices')}"
    return f"lax.slice({call.operands[0]}, {limits}, {strides})"


def _dynamic_slice(call: PrimitiveCall) -> str:
    operand, *starts = call.operands
    return f"lax.dynamic_slice({operand}, [{', '.join(starts)}], {call.spell('slice_sizes')})"


def _dynamic_update_slice(call: PrimitiveCall) -> str:
    operand, update, *starts = call.operands
    return f"lax.dynamic_update_slice({operand}, {update}, [{', '.join(starts)}])"


def _iota(call: PrimitiveCall) -> str:
    arguments = f"{call.spell('dtype')}, {call.spell('shape')}, {call.spell('dimension')}"
    iota = f"lax.broadcasted_iota({arguments})"
    if call.offset is None:
        return iota
    return f"{iota} + ({_number(call)} * {call.offset.extent}).astype({call.spell('dtype')})"


def _number(call: PrimitiveCall) -> str:
    assert call.offset is not None
    return f"number({spell_words(call.offset.axes)})"


def _round(call: PrimitiveCall) -> str:
    method = str(call.operation.parameter["rounding_method"]).upper()
    return f"lax.round({call.operands[0]}, lax.RoundingMethod.{method})"


def _precision(call: PrimitiveCall) -> str:
    given = call.operation.parameter.get("precision")
    if given is None:
        return ""
    precisions = (given,) if isinstance(given, str) else given
    assert isinstance(precisions, tuple)
    names = [f"lax.Precision.{str(precision).upper()}" for precision in precisions]
    return f", precision={names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'}"


def _dot_general(call: PrimitiveCall) -> str:
    more = _precision(call) + call.keyword("preferred_element_type")
    return f"lax.dot_general({', '.join(call.operands)}, {call.spell('dimension_numbers')}{more})"


def _ragged_dot_general(call: PrimitiveCall) -> str:
    numbers = f"lax.RaggedDotDimensionNumbers({call.spell('ragged_dot_dimension_numbers')})"
    more = _precision(call) + call.keyword("preferred_element_type")
    return f"lax.ragged_dot_general({', '.join(call.operands)}, {numbers}{more})"


def _convolution(call: PrimitiveCall) -> str:
    names = ("window_strides", "padding", "lhs_dilation", "rhs_dilation")
    arguments = [f"{name}={call.spell(name)}" for name in names]
    arguments.append(
        f"dimension_numbers=lax.ConvDimensionNumbers({call.spell('dimension_numbers')})"
    )
    for name in ("feature_group_count", "batch_group_count"):
        if call.operation.parameter[name] != 1:
            arguments.append(f"{name}={call.spell(name)}")
    more = _precision(call) + call.keyword("preferred_element_type")
    return f"lax.conv_general_dilated({', '.join((*call.operands, *arguments))}{more})"


def _windows(call: PrimitiveCall) -> str:
    names = ("window_dimensions", "window_strides", "padding")
    dilations = ("base_dilation", "window_dilation")
    arguments = [call.spell(name) for name in names]
    arguments += [
        f"{name}={call.spell(name)}" for name in dilations if name in call.operation.parameter
    ]
    return ", ".join(arguments)


def _reduce_window(combine: str, kind: ReductionKind) -> Writer:
    def write(call: PrimitiveCall) -> str:
        dtype = call.made.dtype
        first = f"{DTYPES[dtype]}({spell_neutral(kind, dtype, DTYPES, 'jnp', 'jnp.iinfo')})"
        return f"lax.reduce_window({call.operands[0]}, {first}, {combine}, {_windows(call)})"

    return write


def _select_and_scatter_add(call: PrimitiveCall) -> str:
    if call.operation.parameter["select_prim"] != "ge":
        raise call.refused("but of the largest of each window")
    source, operand = call.operands
    return f"maxima_gradient({source}, {operand}, {_windows(call)})"


def _gather(call: PrimitiveCall) -> str:
    operand, indices = call.operands
    mode = _mode(call)
    arguments = f"lax.GatherDimensionNumbers({call.spell('dimension_numbers')})"
    arguments += f", {call.spell('slice_sizes')}"
    if call.offset is None:
        fill = call.keyword("fill_value")
        return f"lax.gather({operand}, {indices}, {arguments}, mode={mode}{fill})"
    fill = ""
    if call.operation.parameter["mode"] == "fill_or_drop":
        fill = call.keyword("fill_value") or ", fill_value=None"
    starts = read_entry(call.operation, "dimension_numbers", "start_index_map")
    sizes = read_numbers(call.operation, "slice_sizes")
    own = _index_own(call, [call.shape()[at] - sizes[at] for at in starts])
    return f"look_up({operand}, {indices}, {arguments}, {own}{fill})"


def _index_own(call: PrimitiveCall, last: Sequence[int]) -> str:
    """Spells how an index finds this part's own entries: see ``own`` in the template.

    ``last``: for each entry where the last window begins.
    """
    offset = call.offset
    assert offset is not None
    clip: object = None
    if call.operation.parameter["mode"] == "clip":
        clip = tuple(offset.size - 1 if at == offset.entry else end for at, end in enumerate(last))
    return (
        f"{offset.entry}, {offset.extent}, {offset.size}, {spell_words(offset.axes)}, clip={clip}"
    )


def _mode(call: PrimitiveCall) -> str:
    return f"lax.GatherScatterMode.{str(call.operation.parameter['mode']).upper()}"


def _scatter(name: str) -> Writer:
    def write(call: PrimitiveCall) -> str:
        operand, indices, updates = call.operands
        mode = _mode(call)
        if call.offset is not None:
            assert call.offset.index is Index.DROP
            indices = f"own({indices}, {_index_own(call, _find_last(call))})"
            mode = "lax.GatherScatterMode.FILL_OR_DROP"
        numbers = f"lax.ScatterDimensionNumbers({call.spell('dimension_numbers')})"
        unique = ", unique_indices=True" if call.operation.parameter["unique_indices"] else ""
        return f"lax.{name}({operand}, {indices}, {updates}, {numbers}, mode={mode}{unique})"

    return write


def _find_last(call: PrimitiveCall) -> list[int]:
    """For each entry of a scatter's index where the last window begins."""
    names = ("update_window_dims", "inserted_window_dims", "operand_batching_dims")
    places, *others = (read_entry(call.operation, "dimension_numbers", name) for name in names)
    kept = [at for at in range(len(call.shape())) if not any(at in other for other in others)]
    sizes = dict(zip(kept, (call.shape(2)[place] for place in places), strict=True))
    starts = read_entry(call.operation, "dimension_numbers", "scatter_dims_to_operand_dims")
    return [call.shape()[at] - sizes.get(at, 1) for at in starts]


def _approx_top_k(call: PrimitiveCall) -> str:
    function = "approx_max_k" if call.operation.parameter["is_max_k"] else "approx_min_k"
    names = ("k", "reduction_dimension", "recall_target", "reduction_input_size_override")
    arguments = ", ".join(map(call.spell, (*names, "aggregate_to_topk")))
    return f"lax.{function}({call.operands[0]}, {arguments})"


PRIMITIVES: Mapping[str, Writer] = {
    **{name: f"{{p0}} {sign} {{p1}}" for name, sign in _INFIX.items()},
    **{name: f"lax.{name}({{0}})" for name in _UNARY},
    **{name: f"lax.{name}({{0}}, {{1}})" for name in (*_BINARY, *_SHIFTS)},
    **{name: f"lax.{name}_p.bind({{0}}, {{1}})" for name in _ORDERS},
    **{name: f"lax.{name}({{0}}, {{axes}})" for name in _REDUCTIONS},
    **{name: f"lax.{name}({{0}}, {{axis}}, reverse={{reverse}})" for name in _CUMULATIVE},
    "max": "jnp.maximum({0}, {p1})",
    "min": "jnp.minimum({0}, {p1})",
    "clamp": "lax.clamp({all})",
    "neg": "-{0}",
    "not": "~{0}",
    "copy": "{0}",
    "integer_pow": "lax.integer_pow({0}, {y})",
    "round": _round,
    "select_n": "lax.select_n({all})",
    "convert_element_type": "lax.convert_element_type({0}, {new_dtype})",
    "bitcast_convert_type": "lax.bitcast_convert_type({0}, {new_dtype})",
    "reduce_precision": "lax.reduce_precision({0}, {exponent_bits}, {mantissa_bits})",
    "transpose": "lax.transpose({0}, {permutation})",
    "reshape": "lax.reshape({0}, {new_sizes})",
    "squeeze": "lax.squeeze({0}, {dimensions})",
    "rev": "lax.rev({0}, {dimensions})",
    "broadcast_in_dim": "lax.broadcast_in_dim({0}, {shape}, {broadcast_dimensions})",
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "split": "lax.split({0}, {sizes}, {axis})",
    "concatenate": "lax.concatenate([{all}], {dimension})",
    "stack": "jnp.stack([{all}], {axis})",
    "unstack": "jnp.unstack({0}, axis={axis})",
    "tile": "lax.tile({0}, {reps})",
    "pad": "lax.pad({0}, {1}, {padding_config})",
    "iota": _iota,
    "argmax": "lax.argmax({0}, {axes}[0], {index_dtype})",
    "argmin": "lax.argmin({0}, {axes}[0], {index_dtype})",
    "sort": "lax.sort([{all}], dimension={dimension}, is_stable={is_stable}, num_keys={num_keys})",
    "top_k": "lax.top_k({0}, {k}, axis={axis})",
    "approx_top_k": _approx_top_k,
    "dot_general": _dot_general,
    "ragged_dot_general": _ragged_dot_general,
    "conv_general_dilated": _convolution,
    "reduce_window_sum": _reduce_window("lax.add", ReductionKind.SUM),
    "reduce_window_max": _reduce_window("lax.max", ReductionKind.MAX),
    "reduce_window_min": _reduce_window("lax.min", ReductionKind.MIN),
    "select_and_scatter_add": _select_and_scatter_add,
    "gather": _gather,
    **{f"scatter-{name}": _scatter(f"scatter_{name}") for name in _SCATTERS},
    "scatter": _scatter("scatter"),
    **JAX_RANDOM,
    **JAX_WHOLE,
}
"""How each primitive is written in JAX."""

_REDUCES = {ReductionKind.SUM: "psum", ReductionKind.MAX: "pmax", ReductionKind.MIN: "pmin"}


def emit_move(text: str, move: ShardingMove, held: Type, sizes: Mapping[str, int]) -> str:
    """Spells one move of a value; ``held`` is the type of a device's part."""
    axes = spell_words(move.axes)
    match move.how:
        case MoveKind.SLICE:
            return f"own_block({text}, {move.enters}, {axes})"
        case MoveKind.MASK:
            return f"only_first({text}, {axes})" if move.kind is ReductionKind.SUM else text
        case MoveKind.WIDEN:
            value = spell_neutral(move.kind, held.dtype, DTYPES, "jnp", "jnp.iinfo")
            return f"written_around({text}, {move.leaves}, {axes}, {value})"
        case MoveKind.ALL_GATHER:
            return f"lax.all_gather({text}, {axes}, axis={move.leaves}, tiled=True)"
        case MoveKind.ALL_TO_ALL:
            return _emit_all_to_all(text, move)
        case MoveKind.REDUCE_SCATTER:
            return _emit_reduce_scatter(text, move, held)
        case MoveKind.ALL_REDUCE:
            return _emit_reduction(text, move, held)
        case MoveKind.PERMUTE:
            ordered, senders = find_senders(move, sizes)
            pairs = [(sender, at) for at, sender in enumerate(senders)]
            return f"lax.ppermute({text}, {spell_words(ordered)}, {pairs})"


def _emit_all_to_all(text: str, move: ShardingMove) -> str:
    order = move.entering
    dimensions = f"{move.enters}, {move.leaves}"
    exchanged = f"lax.all_to_all({text}, {spell_words(order)}, {dimensions}, tiled=True)"
    if order == move.axes:
        return exchanged
    return f"reordered({exchanged}, {move.leaves}, {spell_words(order)}, {spell_words(move.axes)})"


def _emit_reduce_scatter(text: str, move: ShardingMove, held: Type) -> str:
    """JAX has no scatter of maxima: they are all-reduced, and each device takes its block."""
    axes = spell_words(move.entering)
    if move.kind is not ReductionKind.SUM:
        return f"own_block({_emit_reduction(text, move, held)}, {move.enters}, {axes})"
    return f"lax.psum_scatter({text}, {axes}, scatter_dimension={move.enters}, tiled=True)"


def _emit_reduction(text: str, move: ShardingMove, held: Type) -> str:
    name, axes = _REDUCES[move.kind], spell_words(move.axes)
    if held.dtype == "bool":
        return f"lax.{name}({text}.astype(jnp.int32), {axes}).astype(bool)"
    return f"lax.{name}({text}, {axes})"


def spell_partition(sharding: Sharding) -> str:
    """The PartitionSpec of a sharding, without its partial axes.

    A flat value is an array of the pieces of all devices end to end: ``laid_flat`` in the template.
    """
    return f"P({', '.join(map(_spell_entry, trim_uncut(sharding)))})"


def _spell_entry(axes: tuple[str, ...]) -> str:
    """The entry of one dimension in a PartitionSpec."""
    if not axes:
        return "None"
    return f'"{axes[0]}"' if len(axes) == 1 else spell_words(axes)


JAX = TargetLanguage(
    "JAX",
    "step_jax.py.jinja",
    DTYPES,
    "{dtype}({value})",
    "jnp.zeros({shape}, {dtype})",
    "jnp",
    PRIMITIVES,
    emit_move,
    frozenset(
        split_words(
            """
            argparse base64 json os zlib CAPTURED captured
            Path partial math np jax jnp lax Mesh NamedSharding P Any
            AXES WORLD INPUTS OUTPUTS Input mesh number by_program own_block only_first
            written_around flat_of unpadded without_padding laid_flat
            reordered flattened parted own look_up
            maxima_gradient repeat device_step sharded_step
            re time deque Pass Transfer Lies PASSES TRANSFERS LIES ORDER MICROBATCHES EVERYWHERE
            ONCE AT PARTS LETTERS meshes jitted Runner step extent
            values constants carried slices main drawn placed parts
            """
        )
    ),
    apart="lax.optimization_barrier({0})",
)
