"""JAX's random numbers in PyTorch, bit for bit: words of 32 bits, keys, and Threefry.

PyTorch supports few operations on unsigned integers, so a 32-bit word is kept in an int64 and
truncated to 32 bits after operations that may exceed them. A key is also an int64, with its first
word in the upper half. An array of keys therefore has the same shape as in JAX, and is
redistributed like any other array. The bits are those of ``jax_threefry_partitionable``, JAX's
default: each depends on its own index.

Threefry-2x32 of 20 rounds: Salmon, Moraes, Dror, Shaw, *Parallel random numbers: as easy as
1, 2, 3* (SC'11), as in ``jax/_src/prng.py``.
"""

from __future__ import annotations

from synth.primitives.calls.call import PrimitiveCall
from synth.primitives.parameters import read_number

_SIGNED = {"u32": "i32", "i32": "i32", "f32": "i32", "f16": "i16", "bf16": "i16", "i16": "i16"}
_SIGNED |= {"f64": "i64", "i64": "i64", "i8": "i8", "u8": "i8", "f8_e4m3fn": "i8", "f8_e5m2": "i8"}
"""The signed type of equal width for each element type."""
THREEFRY = "fry"


def reinterpret(call: PrimitiveCall) -> str:
    """Writes ``bitcast_convert_type``."""
    text, given, made = call.operands[0], call.given().dtype, call.result.dtype
    if given not in _SIGNED or _SIGNED[given] != _SIGNED.get(made):
        raise call.refused(f"from {given} to {made}")
    text = f"{text}.to(torch.int32)" if given == "u32" else text
    if made == "u32":
        return f"{text}.view(torch.int32).to(torch.int64) & 0xFFFFFFFF"
    return f"{text}.view({call.dtype})"


def shift_right(call: PrimitiveCall) -> str:
    """Writes ``shift_right_logical``."""
    value, by = call.plain
    if call.result.dtype in ("u8", "u32"):
        return f"{value} >> {by}"
    bits = {"i8": 8, "i16": 16, "i32": 32}.get(call.result.dtype)
    if bits is None:
        raise call.refused(f"of {call.result.dtype}")
    return f"(({call.operands[0]}.to(torch.int64) & {2**bits - 1:#x}) >> {by}).to({call.dtype})"


def draw_bits(call: PrimitiveCall) -> str:
    """Writes ``random_bits``."""
    bits = read_number(call.operation, "bit_width")
    if bits not in (8, 32):
        raise call.refused(f"of {bits} bits")
    drawn = call.write("random_bits({0}, {shape})")
    return drawn if bits == 32 else f"({drawn} & 0xFF).to(torch.uint8)"


def make_key(call: PrimitiveCall) -> str:
    """Writes ``random_seed``."""
    _check_kind(call)
    wide = f"{call.operands[0]}.to(torch.int64)"
    return wide if call.given().dtype == "i64" else f"{wide} & 0xFFFFFFFF"


def wrap_key(call: PrimitiveCall) -> str:
    """Writes ``random_wrap``."""
    _check_kind(call)
    return call.write("{0}[..., 0] << 32 | {0}[..., 1]")


def _check_kind(call: PrimitiveCall) -> None:
    """Raises InputError for keys of another generator."""
    kind = call.operation.parameter.get("impl", THREEFRY)
    if kind != THREEFRY:
        raise call.refused(f"of keys of kind {kind}: Threefry's only")
