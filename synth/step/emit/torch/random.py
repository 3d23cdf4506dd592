"""JAX's random numbers in PyTorch, bit for bit: words of 32 bits, keys, and Threefry.

PyTorch hardly computes with unsigned integers, so a word of 32 bits is kept in an int64 and cut to
32 bits after operations that may exceed them. A key is an int64, too, its first word in the upper
half: so an array of keys has the same shape as in JAX, and is redistributed like any other. The
bits are those of ``jax_threefry_partitionable``, JAX's default: each depends on its own index.

Threefry-2x32 of 20 rounds: Salmon, Moraes, Dror, Shaw, *Parallel random numbers: as easy as
1, 2, 3* (SC'11), as in ``jax/_src/prng.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

from synth.step.emit.language import PrimitiveCall, Writer
from synth.step.factors.parameters import read_number, split_words

_LEAVE_32_BITS = frozenset(
    split_words("add add_any sub mul neg not shift_left integer_pow reduce_sum reduce_prod cumsum")
) | frozenset(
    split_words(
        "cumprod dot_general ragged_dot_general convert_element_type scatter-add scatter-sub"
    )
)
_LEAVE_32_BITS |= {"scatter-mul"}
_SIGNED = {"u32": "i32", "i32": "i32", "f32": "i32", "f16": "i16", "bf16": "i16", "i16": "i16"}
_SIGNED |= {"f64": "i64", "i64": "i64", "i8": "i8", "u8": "i8", "f8_e4m3fn": "i8", "f8_e5m2": "i8"}
"""For each element type the signed one of as many bits."""
_BITS = {8: "u8", 32: "u32"}
THREEFRY = "fry"


def wrap_to_32_bits(call: PrimitiveCall, text: str) -> str:
    """Cuts the result of an operation on 32-bit words to its 32 bits."""
    if call.made.dtype != "u32" or call.operation.primitive not in _LEAVE_32_BITS:
        return text
    return f"({text}) & 0xFFFFFFFF"


def _bitcast(call: PrimitiveCall) -> str:
    text, given, made = call.operands[0], call.dtype(), call.made.dtype
    if given not in _SIGNED or _SIGNED[given] != _SIGNED.get(made):
        raise call.refused(f"from {given} to {made}")
    text = f"{text}.to(torch.int32)" if given == "u32" else text
    if made == "u32":
        return f"{text}.view(torch.int32).to(torch.int64) & 0xFFFFFFFF"
    return f"{text}.view({call.language.dtypes[made]})"


def _shift_right_logical(call: PrimitiveCall) -> str:
    value, by = call.plain
    if call.made.dtype in ("u8", "u32"):
        return f"{value} >> {by}"
    bits = {"i8": 8, "i16": 16, "i32": 32}.get(call.made.dtype)
    if bits is None:
        raise call.refused(f"of {call.made.dtype}")
    dtype = call.language.dtypes[call.made.dtype]
    return f"(({call.operands[0]}.to(torch.int64) & {2**bits - 1:#x}) >> {by}).to({dtype})"


def _random_bits(call: PrimitiveCall) -> str:
    bits = read_number(call.operation, "bit_width")
    if bits not in _BITS:
        raise call.refused(f"of {bits} bits")
    drawn = f"random_bits({call.operands[0]}, {call.spell('shape')})"
    return drawn if bits == 32 else f"({drawn} & 0xFF).to(torch.uint8)"


def _random_seed(call: PrimitiveCall) -> str:
    _check_kind(call)
    wide = f"{call.operands[0]}.to(torch.int64)"
    return wide if call.dtype() == "i64" else f"{wide} & 0xFFFFFFFF"


def _random_wrap(call: PrimitiveCall) -> str:
    _check_kind(call)
    return "{0}[..., 0] << 32 | {0}[..., 1]".format(*call.operands)


def _check_kind(call: PrimitiveCall) -> None:
    """Raises InputError for keys of another generator."""
    kind = call.operation.parameter.get("impl", THREEFRY)
    if kind != THREEFRY:
        raise call.refused(f"of keys of kind {kind}: Threefry's only")


RANDOM: Mapping[str, Writer] = {
    "bitcast_convert_type": _bitcast,
    "shift_right_logical": _shift_right_logical,
    "random_bits": _random_bits,
    "random_seed": _random_seed,
    "random_wrap": _random_wrap,
    "random_unwrap": "torch.stack([{0} >> 32 & 0xFFFFFFFF, {0} & 0xFFFFFFFF], -1)",
    "random_split": "random_split({0}, {shape})",
    "random_fold_in": "random_fold_in({0}, {1})",
}
