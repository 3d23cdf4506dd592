"""Calls of ``jax.lax`` that are not simple expressions."""

from __future__ import annotations

from collections.abc import Sequence

from grammar.tensors.sharding import ReductionKind
from synth.primitives.calls.call import PrimitiveCall, RuntimeSpelling, Writer
from synth.primitives.calls.spelling import spell_words
from synth.primitives.factor import Index
from synth.primitives.parameters import read_entry, read_numbers

JAX_SPELLING = RuntimeSpelling(
    "JAX",
    {
        "bool": "jnp.bool_",
        **{f"i{bits}": f"jnp.int{bits}" for bits in (8, 16, 32, 64)},
        **{f"u{bits}": f"jnp.uint{bits}" for bits in (8, 16, 32, 64)},
        **{f"f{bits}": f"jnp.float{bits}" for bits in (16, 32, 64)},
        "bf16": "jnp.bfloat16",
        "f8_e4m3fn": "jnp.float8_e4m3fn",
        "f8_e5m2": "jnp.float8_e5m2",
        "key": "jax.dtypes.prng_key",
    },
    "{dtype}({value})",
    "jnp",
    "jnp.iinfo",
)

_WINDOWS = "{window_dimensions}, {window_strides}, {padding}{?base_dilation}{?window_dilation}"


def cut_slice(call: PrimitiveCall) -> str:
    """Writes ``slice``."""
    strides = "{strides}" if "strides" in call.operation.parameter else "None"
    return call.write(f"lax.slice({{0}}, {{start_indices}}, {{limit_indices}}, {strides})")


def count(call: PrimitiveCall) -> str:
    """Writes ``iota``."""
    iota = call.write("lax.broadcasted_iota({dtype}, {shape}, {dimension})")
    if call.offset is None:
        return iota
    number = f"number({spell_words(call.offset.axes)})"
    return f"{iota} + ({number} * {call.offset.extent}).astype({call.spell('dtype')})"


def round_numbers(call: PrimitiveCall) -> str:
    """Writes ``round``."""
    method = str(call.operation.parameter["rounding_method"]).upper()
    return f"lax.round({call.operands[0]}, lax.RoundingMethod.{method})"


def multiply(numbers: str) -> Writer:
    """Returns the writer of a product, with these numbers and keywords before its precision."""
    return lambda call: call.write(
        f"lax.{{primitive}}({{all}}, {numbers}{_precision(call)}{{?preferred_element_type}})"
    )


def _precision(call: PrimitiveCall) -> str:
    given = call.operation.parameter.get("precision")
    if given is None:
        return ""
    precisions = (given,) if isinstance(given, str) else given
    assert isinstance(precisions, tuple)
    names = [f"lax.Precision.{str(precision).upper()}" for precision in precisions]
    return f", precision={names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'}"


def convolve(call: PrimitiveCall) -> str:
    """Writes ``conv_general_dilated``."""
    names = ("window_strides", "padding", "lhs_dilation", "rhs_dilation")
    arguments = [f"{name}={{{name}}}" for name in names]
    arguments.append("dimension_numbers=lax.ConvDimensionNumbers({dimension_numbers})")
    for name in ("feature_group_count", "batch_group_count"):
        if call.operation.parameter[name] != 1:
            arguments.append(f"{name}={{{name}}}")
    return call.write(multiply(", ".join(arguments)))


def reduce_windows(combine: str, kind: ReductionKind) -> Writer:
    """Returns the writer of a reduction of windows."""

    def write(call: PrimitiveCall) -> str:
        first = f"{call.dtype}({call.runtime.neutral(kind, call.result.dtype)})"
        return call.write(f"lax.reduce_window({{0}}, {first}, {combine}, {_WINDOWS})")

    return write


def scatter_to_maxima(call: PrimitiveCall) -> str:
    """Writes ``select_and_scatter_add``."""
    if call.operation.parameter["select_prim"] != "ge":
        raise call.refused("but of the largest of each window")
    return call.write(f"maxima_gradient({{0}}, {{1}}, {_WINDOWS})")


def gather(call: PrimitiveCall) -> str:
    """Writes ``gather``."""
    arguments = "{all}, lax.GatherDimensionNumbers({dimension_numbers}), {slice_sizes}"
    if call.offset is None:
        return call.write(f"lax.gather({arguments}, mode={_mode(call)}{{?fill_value}})")
    fill = ""
    if call.operation.parameter["mode"] == "fill_or_drop":
        fill = call.keyword("fill_value") or ", fill_value=None"
    starts = read_entry(call.operation, "dimension_numbers", "start_index_map")
    sizes = read_numbers(call.operation, "slice_sizes")
    own = _index_own(call, [call.given().shape[at] - sizes[at] for at in starts])
    return call.write(f"look_up({arguments}, {own}{fill})")


def _index_own(call: PrimitiveCall, last: Sequence[int]) -> str:
    """Spells how an index finds this part's own entries: see ``own`` in the template.

    ``last``: for each entry, the start of the last window.
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


def scatter(call: PrimitiveCall) -> str:
    """Writes ``scatter`` and ``scatter-add``."""
    operand, indices, updates = call.operands
    mode = _mode(call)
    if call.offset is not None:
        assert call.offset.index is Index.DROP
        indices = f"own({indices}, {_index_own(call, _find_last(call))})"
        mode = "lax.GatherScatterMode.FILL_OR_DROP"
    numbers = f"lax.ScatterDimensionNumbers({call.spell('dimension_numbers')})"
    unique = ", unique_indices=True" if call.operation.parameter["unique_indices"] else ""
    name = call.operation.primitive.replace("-", "_")
    return f"lax.{name}({operand}, {indices}, {updates}, {numbers}, mode={mode}{unique})"


def _find_last(call: PrimitiveCall) -> list[int]:
    """Returns for each entry of a scatter's index the start of the last window."""
    names = ("update_window_dims", "inserted_window_dims", "operand_batching_dims")
    places, *others = (read_entry(call.operation, "dimension_numbers", name) for name in names)
    shape, update = call.given().shape, call.given(2).shape
    kept = [at for at in range(len(shape)) if not any(at in other for other in others)]
    sizes = dict(zip(kept, (update[place] for place in places), strict=True))
    starts = read_entry(call.operation, "dimension_numbers", "scatter_dims_to_operand_dims")
    return [shape[at] - sizes.get(at, 1) for at in starts]


def find_top(call: PrimitiveCall) -> str:
    """Writes ``approx_top_k``."""
    function = "approx_max_k" if call.operation.parameter["is_max_k"] else "approx_min_k"
    names = ("k", "reduction_dimension", "recall_target", "reduction_input_size_override")
    arguments = ", ".join(f"{{{name}}}" for name in (*names, "aggregate_to_topk"))
    return call.write(f"lax.{function}({{0}}, {arguments})")


def solve_triangular(call: PrimitiveCall) -> str:
    """Writes ``triangular_solve``."""
    names = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    arguments = ", ".join(f"{name}={{{name}}}" for name in names)
    return call.write(f"lax.linalg.triangular_solve({{all}}, {arguments})")


def decompose_eigh(call: PrimitiveCall) -> str:
    """Writes ``eigh``."""
    call.check(subset_by_index=None)
    arguments = "symmetrize_input=False, lower={lower}, sort_eigenvalues={sort_eigenvalues}"
    return call.write(f"lax.linalg.eigh({{0}}, {arguments})")


def draw_bits(call: PrimitiveCall) -> str:
    """Writes ``random_bits``."""
    return _map_elements(call, "key", "jax.random.bits", ", {shape}, jnp.uint{bit_width}")


def split_key(call: PrimitiveCall) -> str:
    """Writes ``random_split``."""
    return _map_elements(call, "key", "jax.random.split", ", {shape}")


def fold_in(call: PrimitiveCall) -> str:
    """Writes ``random_fold_in``."""
    function = "jax.random.fold_in"
    if call.result.shape:
        function = f"jnp.vectorize({function})"
    return call.write(f"{function}({{all}})")


def make_key(call: PrimitiveCall) -> str:
    """Writes ``random_seed``."""
    return _map_elements(call, "seed", "jax.random.key", _generator(call))


def wrap_key(call: PrimitiveCall) -> str:
    """Writes ``random_wrap``."""
    return f"jax.random.wrap_key_data({call.operands[0]}{_generator(call)})"


def _generator(call: PrimitiveCall) -> str:
    """Returns the keyword argument that selects a key's generator, empty for JAX's default."""
    kind = str(call.operation.parameter.get("impl", "fry"))
    if kind not in _GENERATORS:
        raise call.refused(f"of keys of kind {kind}")
    return _GENERATORS[kind] and f', impl="{_GENERATORS[kind]}"'


_GENERATORS = {"fry": "", "rbg": "rbg", "urbg": "unsafe_rbg"}


def _map_elements(call: PrimitiveCall, element: str, function: str, more: str) -> str:
    """Applies a function to every element of the operand: functions of ``jax.random`` take one key.

    ``element`` names the parameter of the lambda expression that ``vmap`` maps; ``more`` are the
    other arguments.
    """
    operand, rank = call.operands[0], len(call.given().shape)
    more = call.write(more)
    if not rank:
        return f"{function}({operand}{more})"
    return (
        f"{'jax.vmap(' * rank}lambda {element}: {function}({element}{more}){')' * rank}({operand})"
    )
