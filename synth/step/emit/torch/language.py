"""PyTorch: a step as plain collectives over process groups, its primitives as torch calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import ascii_letters

from grammar.tensors.sharding import ReductionKind, Type
from synth.step.emit.language import PrimitiveCall, TargetLanguage, Writer
from synth.step.emit.moves import find_senders, spell_neutral
from synth.step.emit.spelling import parse_entries, spell_tuple, spell_words
from synth.step.emit.torch.indexed import INDEXED
from synth.step.emit.torch.random import RANDOM, wrap_to_32_bits
from synth.step.emit.torch.special import SPECIAL
from synth.step.emit.whole import TORCH_WHOLE
from synth.step.factors.parameters import (
    parse_numbers,
    read_entry,
    read_number,
    read_numbers,
    read_pairs,
    split_words,
)
from synth.step.redistribution import MoveKind, ShardingMove

DTYPES: Mapping[str, str] = {
    "bool": "torch.bool",
    **{f"i{bits}": f"torch.int{bits}" for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("u32", "key"), "torch.int64"),
    "u8": "torch.uint8",
    **{f"f{bits}": f"torch.float{bits}" for bits in (16, 32, 64)},
    "bf16": "torch.bfloat16",
    "f8_e4m3fn": "torch.float8_e4m3fn",
    "f8_e5m2": "torch.float8_e5m2",
}
"""Torch computes little with other unsigned numbers; for u32 and keys see ``random.py``."""

_INFIX = {"add": "+", "add_any": "+", "sub": "-", "mul": "*", "eq": "==", "ne": "!=", "lt": "<"}
_INFIX |= {"le": "<=", "gt": ">", "ge": ">=", "and": "&", "or": "|", "xor": "^"}
_INFIX |= {"shift_left": "<<", "shift_right_arithmetic": ">>"}
_UNARY = {
    name: name for name in split_words("exp expm1 log log1p tanh sin cos tan sqrt rsqrt abs sign")
}
_UNARY |= {name: name for name in split_words("floor ceil erf erfc exp2 square")}
_UNARY |= {"logistic": "sigmoid", "erf_inv": "erfinv", "is_finite": "isfinite"}
_BINARY = {"rem": "fmod", "max": "maximum", "min": "minimum"}


def _div(call: PrimitiveCall) -> str:
    left, right = call.plain
    if _is_float(call.made.dtype):
        return f"{left} / {right}"
    return f'torch.div({left}, {right}, rounding_mode="trunc")'


def _round(call: PrimitiveCall) -> str:
    if call.operation.parameter["rounding_method"] == "to_nearest_even":
        return f"torch.round({call.operands[0]})"
    return "torch.sign({0}) * torch.floor(torch.abs({0}) + 0.5)".format(*call.operands)


def _select(call: PrimitiveCall) -> str:
    which, selected, *others = call.operands
    for at, case in enumerate(others, 1):
        chosen = which if call.dtype() == "bool" else f"{which} == {at}"
        selected = f"torch.where({chosen}, {case}, {selected})"
    return selected


def _convert(call: PrimitiveCall) -> str:
    """PyTorch leaves undefined what a float outside the range of integers becomes; JAX does not."""
    text, dtype, made = call.operands[0], call.spell("new_dtype"), call.made.dtype
    if made == "bool" or _is_float(made) or not _is_float(call.dtype()):
        return f"{text}.to({dtype})"
    ends = f", 0, {_neutral(ReductionKind.MIN, made)}" if made.startswith("u") else ""
    return f"to_whole({text}, {dtype}{ends})"


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("f", "bf"))


def _reshape(call: PrimitiveCall) -> str:
    return f"{call.operands[0]}.reshape({call.made.shape})"


def _broadcast(call: PrimitiveCall) -> str:
    shape = call.made.shape
    places = read_numbers(call.operation, "broadcast_dimensions")
    spread = [1] * len(shape)
    for size, place in zip(call.shape(), places, strict=True):
        spread[place] = size
    return f"{call.operands[0]}.reshape({tuple(spread)}).expand({shape})"


def _slice(call: PrimitiveCall) -> str:
    starts, limits = (read_numbers(call.operation, f"{end}_indices") for end in ("start", "limit"))
    steps = (1,) * len(starts)
    if "strides" in call.operation.parameter:
        steps = read_numbers(call.operation, "strides")
    ranges = [
        ":"
        if (start, limit, step) == (0, size, 1)
        else f"{start}:{limit}" + f":{step}" * (step > 1)
        for start, limit, step, size in zip(starts, limits, steps, call.shape(), strict=True)
    ]
    return f"{call.operands[0]}[{', '.join(ranges)}]"


def _dynamic_slice(call: PrimitiveCall) -> str:
    operand, *starts = call.operands
    return f"dynamic_slice({operand}, {spell_tuple(starts)}, {call.spell('slice_sizes')})"


def _dynamic_update_slice(call: PrimitiveCall) -> str:
    operand, update, *starts = call.operands
    return f"dynamic_update_slice({operand}, {update}, {spell_tuple(starts)})"


def _iota(call: PrimitiveCall) -> str:
    shape, along = call.made.shape, read_number(call.operation, "dimension")
    spread = tuple(size if at == along else 1 for at, size in enumerate(shape))
    made = f"torch.arange({shape[along]}, dtype={call.spell('dtype')})"
    if call.offset is not None:
        made = f"({made} + number({spell_words(call.offset.axes)}) * {call.offset.extent})"
    return made if len(shape) == 1 else f"{made}.reshape({spread}).expand({shape})"


def _reduce(name: str) -> Callable[[PrimitiveCall], str]:
    def write(call: PrimitiveCall) -> str:
        axes = read_numbers(call.operation, "axes")
        dtype = f", dtype={DTYPES[call.made.dtype]}" if name == "sum" else ""
        return f"{call.operands[0]}.{name}({axes}{dtype})" if axes else call.operands[0]

    return write


def _logic(name: str, of_bits: str) -> Writer:
    """Torch reduces booleans logically, but has no reduction of the bits of integers."""

    def write(call: PrimitiveCall) -> str:
        if call.made.dtype == "bool":
            return _reduce(name)(call)
        return f'reduce_bits({call.operands[0]}, {call.spell("axes")}, "{of_bits}")'

    return write


def _product(call: PrimitiveCall) -> str:
    product = call.operands[0]
    for axis in sorted(read_numbers(call.operation, "axes"), reverse=True):
        product += f".prod({axis}, dtype={DTYPES[call.made.dtype]})"
    return product


def _arg_extreme(name: str) -> Writer:
    def write(call: PrimitiveCall) -> str:
        (axis,) = read_numbers(call.operation, "axes")
        # Torch has no argmax of booleans.
        operand = call.operands[0] + (".to(torch.uint8)" if call.dtype() == "bool" else "")
        return f"{operand}.{name}({axis}).to({call.spell('index_dtype')})"

    return write


def _cumulative(name: str, values: str) -> Writer:
    def write(call: PrimitiveCall) -> str:
        axis = read_number(call.operation, "axis")
        flip = f".flip({axis})" if call.operation.parameter["reverse"] else ""
        return f"{call.operands[0]}{flip}.{name}({axis}){values.format(dtype=_dtype(call))}{flip}"

    return write


def _dtype(call: PrimitiveCall) -> str:
    return DTYPES[call.made.dtype]


def _sort(call: PrimitiveCall) -> str:
    keys, along = call.spell("num_keys"), call.spell("dimension")
    return f"sort_together({spell_tuple(call.operands)}, {along}, {keys})"


def _einsum(letters: Sequence[Sequence[int]], call: PrimitiveCall, operands: Sequence[str]) -> str:
    spelled = ["".join(ascii_letters[index] for index in indices) for indices in letters]
    wanted = DTYPES[call.made.dtype]
    given = [
        text if call.dtype(at) == call.made.dtype else f"{text}.to({wanted})"
        for at, text in enumerate(operands)
    ]
    return f'torch.einsum("{",".join(spelled[:-1])}->{spelled[-1]}", {", ".join(given)})'


def _dot_letters(
    dots: tuple[tuple[tuple[int, ...], ...], ...], ranks: Sequence[int]
) -> list[list[int]]:
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


def _dots(value: object) -> tuple[tuple[tuple[int, ...], ...], ...]:
    assert isinstance(value, tuple)
    return tuple(tuple(parse_numbers(numbers) for numbers in pair) for pair in value)


def _dot_general(call: PrimitiveCall) -> str:
    numbers_ = _dots(call.operation.parameter["dimension_numbers"])
    letters = _dot_letters(numbers_, [len(call.shape(0)), len(call.shape(1))])
    return _einsum(letters, call, call.operands)


def _ragged_dot_general(call: PrimitiveCall) -> str:
    """A product for each group of rows: consecutive rows, or a stack if rows are summed."""
    left, right, groups = call.operands
    entries = parse_entries(call.operation.parameter["ragged_dot_dimension_numbers"])
    dots = _dots(entries["dot_dimension_numbers"])
    (ragged,) = parse_numbers(entries["lhs_ragged_dimensions"])
    group = parse_numbers(entries.get("rhs_group_dimensions", ()))
    if len(call.operation.operands[2].type.shape) != 1 or ragged in dots[1][0]:  # type: ignore[union-attr]
        raise call.refused("with groups of their own for each batch")
    rank = len(call.shape(1)) - len(group)
    if group:
        dots = tuple(
            (pair[0], tuple(at - sum(place < at for place in group) for at in pair[1]))
            for pair in dots
        )
    letters = _dot_letters(dots, [len(call.shape(0)), rank])
    spelled = ["".join(ascii_letters[index] for index in indices) for indices in letters]
    equation = f'"{spelled[0]},{spelled[1]}->{spelled[2]}"'
    if ragged in dots[0][0]:
        other = dots[0][1][dots[0][0].index(ragged)]
        return f"product_of_groups({equation}, {left}, {right}, {groups}, {ragged}, {other})"
    result = letters[2].index(letters[0][ragged])
    arguments = f"{groups}, {ragged}, {group[0]}, {result}"
    return f"products_by_group({equation}, {left}, {right}, {arguments})"


def _convolution(call: PrimitiveCall) -> str:
    specs = ("lhs_spec", "rhs_spec", "out_spec")
    places = tuple(read_entry(call.operation, "dimension_numbers", name) for name in specs)
    names = ("padding", "window_strides", "lhs_dilation", "rhs_dilation")
    arguments = [
        *call.operands,
        f"places={places}",
        *(f"{name}={call.spell(name)}" for name in names),
    ]
    for name in ("feature_group_count", "batch_group_count"):
        if read_number(call.operation, name) != 1:
            arguments.append(f"{name}={call.spell(name)}")
    return f"convolution({', '.join(arguments)})"


def _windows(call: PrimitiveCall) -> str:
    for name in ("base_dilation", "window_dilation"):
        if set(read_numbers(call.operation, name) if name in call.operation.parameter else ()) - {
            1
        }:
            raise call.refused("of dilated windows")
    names = ("window_dimensions", "window_strides", "padding")
    return ", ".join(call.spell(name) for name in names)


def _reduce_window(kind: ReductionKind, name: str) -> Writer:
    def write(call: PrimitiveCall) -> str:
        value = _neutral(kind, call.made.dtype)
        rank = len(call.shape())
        last = tuple(range(-rank, 0))
        return f"windows({call.operands[0]}, {_windows(call)}, {value}).{name}({last})"

    return write


def _neutral(kind: ReductionKind, dtype: str) -> str:
    limits = "torch.iinfo"
    return spell_neutral(kind, dtype, DTYPES, "math", limits)


def _select_and_scatter_add(call: PrimitiveCall) -> str:
    if call.operation.parameter["select_prim"] != "ge":
        raise call.refused("but of the largest of each window")
    source, operand = call.operands
    value = _neutral(ReductionKind.MAX, call.made.dtype)
    return f"maxima_gradient({source}, {operand}, {_windows(call)}, {value})"


def _pad(call: PrimitiveCall) -> str:
    config = read_pairs(call.operation, "padding_config")
    return f"padded({call.operands[0]}, {config}, {call.plain[1]})"


PRIMITIVES: Mapping[str, Writer] = {
    **{name: f"{{p0}} {sign} {{p1}}" for name, sign in _INFIX.items()},
    **{name: f"torch.{function}({{0}})" for name, function in _UNARY.items()},
    **{name: f"torch.{function}({{0}}, {{1}})" for name, function in _BINARY.items()},
    "div": _div,
    "clamp": "torch.minimum(torch.maximum({1}, {0}), {2})",
    "neg": "-{0}",
    "not": "~{0}",
    "copy": "{0}",
    "stop_gradient": "{0}",
    "cbrt": "torch.sign({0}) * torch.abs({0}) ** (1 / 3)",
    "integer_pow": "{0} ** {y}",
    "round": _round,
    "select_n": _select,
    "convert_element_type": _convert,
    "transpose": "{0}.permute({permutation})",
    "reshape": _reshape,
    "squeeze": _reshape,
    "rev": "{0}.flip({dimensions})",
    "broadcast_in_dim": _broadcast,
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "split": "{0}.split({sizes}, {axis})",
    "concatenate": "torch.cat([{all}], {dimension})",
    "stack": "torch.stack([{all}], {axis})",
    "unstack": "{0}.unbind({axis})",
    "tile": "{0}.tile({reps})",
    "pad": _pad,
    "iota": _iota,
    "reduce_sum": _reduce("sum"),
    "reduce_max": _reduce("amax"),
    "reduce_min": _reduce("amin"),
    "reduce_and": _logic("all", "and"),
    "reduce_or": _logic("any", "or"),
    "reduce_prod": _product,
    "argmax": _arg_extreme("argmax"),
    "argmin": _arg_extreme("argmin"),
    "cumsum": _cumulative("cumsum", ".to({dtype})"),
    "cumprod": _cumulative("cumprod", ".to({dtype})"),
    "cummax": _cumulative("cummax", ".values"),
    "cummin": _cumulative("cummin", ".values"),
    "cumlogsumexp": _cumulative("logcumsumexp", ""),
    "sort": _sort,
    "top_k": "largest({0}, {k}, {axis})",
    "dot_general": _dot_general,
    "ragged_dot_general": _ragged_dot_general,
    "conv_general_dilated": _convolution,
    "reduce_window_sum": _reduce_window(ReductionKind.SUM, "sum"),
    "reduce_window_max": _reduce_window(ReductionKind.MAX, "amax"),
    "reduce_window_min": _reduce_window(ReductionKind.MIN, "amin"),
    "select_and_scatter_add": _select_and_scatter_add,
    **INDEXED,
    "optimization_barrier": "{0}",
    **SPECIAL,
    **RANDOM,
    **TORCH_WHOLE,
}
"""How each primitive is written in PyTorch."""

CONTIGUOUS = "{0}.contiguous()"
"""A transposed value is copied into order first, which is this rank's own work."""


def emit_move(text: str, move: ShardingMove, held: Type, sizes: Mapping[str, int]) -> str:
    """Spells one move of a value; ``held`` is the type of a device's part."""
    axes = spell_words(move.axes)
    match move.how:
        case MoveKind.SLICE:
            return f"own_block({text}, {move.enters}, {axes})"
        case MoveKind.MASK:
            return f"only_first({text}, {axes})" if move.kind is ReductionKind.SUM else text
        case MoveKind.WIDEN:
            value = _neutral(move.kind, held.dtype)
            return f"written_around({text}, {move.leaves}, {axes}, {value})"
        case MoveKind.ALL_GATHER:
            return f"all_gather({text}, {move.leaves}, {axes})"
        case MoveKind.ALL_TO_ALL:
            order = spell_words(move.entering)
            more = "" if order == axes else f", {order}"
            return f"all_to_all({text}, {move.enters}, {move.leaves}, {axes}{more})"
        case MoveKind.REDUCE_SCATTER:
            order = spell_words(move.entering)
            kind = _reduce_operation(move.kind, held)
            return f'reduce_scatter({CONTIGUOUS.format(text)}, {move.enters}, {order}, "{kind}")'
        case MoveKind.ALL_REDUCE:
            return (
                f"all_reduce({CONTIGUOUS.format(text)}, {axes}, "
                f'"{_reduce_operation(move.kind, held)}")'
            )
        case MoveKind.PERMUTE:
            ordered, senders = find_senders(move, sizes)
            return f"permute({text}, {spell_words(ordered)}, {senders})"


def _reduce_operation(kind: ReductionKind, held: Type) -> str:
    """How a collective reduces: a sum of 32-bit words, kept in 64 bits, is cut to its 32."""
    return "words" if kind is ReductionKind.SUM and held.dtype == "u32" else kind.value


TORCH = TargetLanguage(
    "PyTorch",
    "step_torch.py.jinja",
    DTYPES,
    "torch.tensor({value}, dtype={dtype})",
    "torch.zeros({shape}, dtype={dtype})",
    "math",
    PRIMITIVES,
    emit_move,
    frozenset(
        split_words(
            """
            argparse base64 json os zlib CAPTURED captured Path math np torch dist NamedTuple Any
            AXES WORLD INPUTS OUTPUTS GROUPS Input coordinates number members make_groups
            group_of places finish by_program own_block only_first written_around all_gather
            flat_of unpadded without_padding
            all_to_all reduce_scatter all_reduce permute repeat flattened parted dynamic_slice
            dynamic_update_slice sort_together largest to_whole
            product_of_groups products_by_group convolution windows maxima_gradient padded
            total_order polygamma population_count leading_zeros reduce_precision lu_factors
            reduce_bits positions gather scatter threefry counted random_bits random_split
            random_fold_in
            itertools re time cache Pass Transfer PASSES TRANSFERS ORDER MICROBATCHES EVERYWHERE
            ONCE AT PARTS LETTERS REPORTS Rank tag step parts_of device_step values constants
            carried slices main drawn part_of
            """
        )
    ),
    finish=wrap_to_32_bits,
    gets_by_shape=True,
    sent=CONTIGUOUS,
    later="{0}, later=True)",
)
