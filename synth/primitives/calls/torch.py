"""Calls of PyTorch that are not simple expressions."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

from grammar.tensors.sharding import ReductionKind, is_float
from synth.primitives.calls.call import PrimitiveCall, RuntimeSpelling, Writer
from synth.primitives.calls.spelling import parse_entries, spell_tuple, spell_words
from synth.primitives.parameters import (
    Dots,
    parse_dots,
    parse_numbers,
    read_entry,
    read_number,
    read_numbers,
    read_pairs,
)

TORCH_SPELLING = RuntimeSpelling(
    "PyTorch",
    {
        "bool": "torch.bool",
        **{f"i{bits}": f"torch.int{bits}" for bits in (8, 16, 32, 64)},
        **dict.fromkeys(("u32", "key"), "torch.int64"),
        "u8": "torch.uint8",
        **{f"f{bits}": f"torch.float{bits}" for bits in (16, 32, 64)},
        "bf16": "torch.bfloat16",
        "f8_e4m3fn": "torch.float8_e4m3fn",
        "f8_e5m2": "torch.float8_e5m2",
    },
    "torch.tensor({value}, dtype={dtype})",
    "math",
    "torch.iinfo",
)
"""Other unsigned types support few operations in PyTorch; for u32 and keys see ``torch_words``."""


def divide(call: PrimitiveCall) -> str:
    """Writes ``div``."""
    if is_float(call.result.dtype):
        return call.write("{p0} / {p1}")
    return call.write('torch.div({p0}, {p1}, rounding_mode="trunc")')


def round_numbers(call: PrimitiveCall) -> str:
    """Writes ``round``."""
    if call.operation.parameter["rounding_method"] == "to_nearest_even":
        return call.write("torch.round({0})")
    return call.write("torch.sign({0}) * torch.floor(torch.abs({0}) + 0.5)")


def reduce_precision(call: PrimitiveCall) -> str:
    """Writes ``reduce_precision``."""
    exponent = read_number(call.operation, "exponent_bits")
    if (call.result.dtype, exponent) != ("f32", 8):
        raise call.refused(f"of {call.result.dtype} to {exponent} bits of exponent")
    return call.write("reduce_precision({0}, {mantissa_bits})")


def select(call: PrimitiveCall) -> str:
    """Writes ``select_n``."""
    which, selected, *others = call.operands
    for at, case in enumerate(others, 1):
        chosen = which if call.given().dtype == "bool" else f"{which} == {at}"
        selected = f"torch.where({chosen}, {case}, {selected})"
    return selected


def convert(call: PrimitiveCall) -> str:
    """Writes a cast. JAX defines casts of out-of-range floats to integers; PyTorch does not."""
    made = call.result.dtype
    if made == "bool" or is_float(made) or not is_float(call.given().dtype):
        return call.write("{0}.to({new_dtype})")
    ends = f", 0, {call.runtime.neutral(ReductionKind.MIN, made)}" if made.startswith("u") else ""
    return call.write(f"to_whole({{0}}, {{new_dtype}}{ends})")


def broadcast(call: PrimitiveCall) -> str:
    """Writes ``broadcast_in_dim``."""
    shape = call.result.shape
    places = read_numbers(call.operation, "broadcast_dimensions")
    spread = [1] * len(shape)
    for size, place in zip(call.given().shape, places, strict=True):
        spread[place] = size
    return f"{call.operands[0]}.reshape({tuple(spread)}).expand({shape})"


def cut_slice(call: PrimitiveCall) -> str:
    """Writes ``slice``."""
    starts, limits = (read_numbers(call.operation, f"{end}_indices") for end in ("start", "limit"))
    steps = (1,) * len(starts)
    if "strides" in call.operation.parameter:
        steps = read_numbers(call.operation, "strides")
    ranges = [
        ":"
        if (start, limit, step) == (0, size, 1)
        else f"{start}:{limit}" + f":{step}" * (step > 1)
        for start, limit, step, size in zip(starts, limits, steps, call.given().shape, strict=True)
    ]
    return f"{call.operands[0]}[{', '.join(ranges)}]"


def slice_at(call: PrimitiveCall) -> str:
    """Writes ``dynamic_slice``."""
    return call.write(f"dynamic_slice({{0}}, {spell_tuple(call.operands[1:])}, {{slice_sizes}})")


def update_at(call: PrimitiveCall) -> str:
    """Writes ``dynamic_update_slice``."""
    return call.write(f"dynamic_update_slice({{0}}, {{1}}, {spell_tuple(call.operands[2:])})")


def count(call: PrimitiveCall) -> str:
    """Writes ``iota``."""
    shape, along = call.result.shape, read_number(call.operation, "dimension")
    spread = tuple(size if at == along else 1 for at, size in enumerate(shape))
    made = f"torch.arange({shape[along]}, dtype={call.spell('dtype')})"
    if call.offset is not None:
        made = f"({made} + number({spell_words(call.offset.axes)}) * {call.offset.extent})"
    return made if len(shape) == 1 else f"{made}.reshape({spread}).expand({shape})"


def pad(call: PrimitiveCall) -> str:
    """Writes ``pad``."""
    config = read_pairs(call.operation, "padding_config")
    return call.write(f"padded({{0}}, {config}, {{p1}})")


def reduce(name: str, more: str = "") -> Writer:
    """Returns the writer of a reduction by a method of tensors with ``more`` arguments."""
    return lambda call: call.write(
        f"{{0}}.{name}({{axes}}{more})" if call.operation.parameter["axes"] else "{0}"
    )


def reduce_logic(name: str, of_bits: str) -> Writer:
    """Returns the writer of a logical reduction: PyTorch has none of the bits of integers."""
    bits = f'reduce_bits({{0}}, {{axes}}, "{of_bits}")'
    return lambda call: call.write(reduce(name) if call.result.dtype == "bool" else bits)


def reduce_product(call: PrimitiveCall) -> str:
    """Writes ``reduce_prod``."""
    axes = sorted(read_numbers(call.operation, "axes"), reverse=True)
    return "".join((call.operands[0], *(f".prod({axis}, dtype={call.dtype})" for axis in axes)))


def find_extreme(call: PrimitiveCall) -> str:
    """Writes ``argmax`` and ``argmin``."""
    (axis,) = read_numbers(call.operation, "axes")
    # Torch has no argmax of booleans.
    narrow = ".to(torch.uint8)" if call.given().dtype == "bool" else ""
    return call.write(f"{{0}}{narrow}.{{primitive}}({axis}).to({{index_dtype}})")


def accumulate(name: str, values: str = "") -> Writer:
    """Returns the writer of a cumulative reduction; ``values`` selects them in its result."""

    def write(call: PrimitiveCall) -> str:
        flip = ".flip({axis})" if call.operation.parameter["reverse"] else ""
        return call.write(f"{{0}}{flip}.{name}({{axis}}){values}{flip}")

    return write


def sort(call: PrimitiveCall) -> str:
    """Writes ``sort``."""
    operands = spell_tuple(call.operands)
    return call.write(f"sort_together({operands}, {{dimension}}, {{num_keys}})")


def find_top(call: PrimitiveCall) -> str:
    """Writes ``approx_top_k`` as an exact search, a better approximation than was requested."""
    if not read_number(call.operation, "aggregate_to_topk"):
        raise call.refused("of candidates that are not put together")
    smallest = "" if read_number(call.operation, "is_max_k") else ", smallest=True"
    axis = read_number(call.operation, "reduction_dimension") % len(call.given().shape)
    return call.write(f"largest({{0}}, {{k}}, {axis}{smallest})")


def _spell_equation(letters: Sequence[Sequence[int]]) -> str:
    """Returns an equation for ``einsum``: ``"ab,bc->ac"``."""
    left, right, result = ("".join(ascii_letters[at] for at in indices) for indices in letters)
    return f'"{left},{right}->{result}"'


def _dot_letters(dots: Dots, ranks: Sequence[int]) -> list[list[int]]:
    """Numbers the dimensions of both operands and the result for an einsum."""
    (left, right), (batch_left, batch_right) = dots
    first = list(range(ranks[0]))
    second = list(range(ranks[0], sum(ranks)))
    for at, place in zip((*left, *batch_left), (*right, *batch_right), strict=True):
        second[place] = first[at]
    result = [first[at] for at in batch_left]
    result += [index for at, index in enumerate(first) if at not in (*left, *batch_left)]
    result += [index for at, index in enumerate(second) if at not in (*right, *batch_right)]
    return [first, second, result]


def multiply(call: PrimitiveCall) -> str:
    """Writes ``dot_general``."""
    dots = parse_dots(call.operation.parameter["dimension_numbers"])
    letters = _dot_letters(dots, [len(call.given(at).shape) for at in (0, 1)])
    given = [
        text if call.given(at).dtype == call.result.dtype else f"{text}.to({call.dtype})"
        for at, text in enumerate(call.operands)
    ]
    return f"torch.einsum({_spell_equation(letters)}, {', '.join(given)})"


def multiply_groups(call: PrimitiveCall) -> str:
    """Writes a product per group of rows: consecutive rows, or a stack if rows are summed."""
    entries = parse_entries(call.operation.parameter["ragged_dot_dimension_numbers"])
    dots = parse_dots(entries["dot_dimension_numbers"])
    (ragged,) = parse_numbers(entries["lhs_ragged_dimensions"])
    group = parse_numbers(entries.get("rhs_group_dimensions", ()))
    if len(call.given(2).shape) != 1 or ragged in dots[1][0]:
        raise call.refused("with groups of their own for each batch")
    rank = len(call.given(1).shape) - len(group)
    if group:
        (left, right), (batch_left, batch_right) = dots
        right, batch_right = (
            tuple(at - sum(place < at for place in group) for at in places)
            for places in (right, batch_right)
        )
        dots = (left, right), (batch_left, batch_right)
    letters = _dot_letters(dots, [len(call.given().shape), rank])
    equation = _spell_equation(letters)
    if ragged in dots[0][0]:
        other = dots[0][1][dots[0][0].index(ragged)]
        return call.write(f"product_of_groups({equation}, {{all}}, {ragged}, {other})")
    result = letters[2].index(letters[0][ragged])
    return call.write(f"products_by_group({equation}, {{all}}, {ragged}, {group[0]}, {result})")


def convolve(call: PrimitiveCall) -> str:
    """Writes ``conv_general_dilated``."""
    specs = ("lhs_spec", "rhs_spec", "out_spec")
    places = tuple(read_entry(call.operation, "dimension_numbers", name) for name in specs)
    names = ["padding", "window_strides", "lhs_dilation", "rhs_dilation"]
    counts = ("feature_group_count", "batch_group_count")
    names += [name for name in counts if read_number(call.operation, name) != 1]
    arguments = ", ".join(f"{name}={{{name}}}" for name in names)
    return call.write(f"convolution({{all}}, places={places}, {arguments})")


def _windows(call: PrimitiveCall) -> str:
    for name in ("base_dilation", "window_dilation"):
        if set(parse_numbers(call.operation.parameter.get(name, ()))) - {1}:
            raise call.refused("of dilated windows")
    return call.write("{window_dimensions}, {window_strides}, {padding}")


def reduce_windows(name: str, kind: ReductionKind) -> Writer:
    """Returns the writer of a reduction of windows."""

    def write(call: PrimitiveCall) -> str:
        value = call.runtime.neutral(kind, call.result.dtype)
        last = tuple(range(-len(call.given().shape), 0))
        return f"windows({call.operands[0]}, {_windows(call)}, {value}).{name}({last})"

    return write


def scatter_to_maxima(call: PrimitiveCall) -> str:
    """Writes ``select_and_scatter_add``."""
    if call.operation.parameter["select_prim"] != "ge":
        raise call.refused("but of the largest of each window")
    value = call.runtime.neutral(ReductionKind.MAX, call.result.dtype)
    return call.write(f"maxima_gradient({{all}}, {_windows(call)}, {value})")


def solve_triangular(call: PrimitiveCall) -> str:
    """Writes ``triangular_solve``."""
    transposed = bool(read_number(call.operation, "transpose_a"))
    upper = bool(read_number(call.operation, "lower")) == transposed
    arguments = f"upper={upper}, left={{left_side}}, unitriangular={{unit_diagonal}}"
    matrix = "{0}.mT" if transposed else "{0}"
    return call.write(f"torch.linalg.solve_triangular({matrix}, {{1}}, {arguments})")


def decompose_qr(call: PrimitiveCall) -> str:
    """Writes ``qr``."""
    call.check(pivoting=False)
    mode = "complete" if read_number(call.operation, "full_matrices") else "reduced"
    return call.write(f'torch.linalg.qr({{0}}, mode="{mode}")')


def decompose_eigh(call: PrimitiveCall) -> str:
    """Writes ``eigh``."""
    call.check(subset_by_index=None)
    half = "L" if read_number(call.operation, "lower") else "U"
    return call.write(f'torch.linalg.eigh({{0}}, UPLO="{half}")[::-1]')


def decompose_svd(function: str, values_only: str) -> Writer:
    """Returns the writer for either runtime; primitives return the singular values first."""

    def write(call: PrimitiveCall) -> str:
        call.check(subset_by_index=None)
        if not read_number(call.operation, "compute_uv"):
            return call.write(values_only)
        arguments = "{0}, full_matrices={full_matrices}"
        return call.write(f"(lambda u, s, v: (s, u, v))(*{function}({arguments}))")

    return write
