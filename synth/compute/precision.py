"""Precisions of products: the products of weights are multiplied in fewer bits than they are kept.

Frameworks quantize both operands of a product to eight bits and multiply these: all linear layers
of a transformer, but neither attention nor the products with the vocabulary's table (Transformer
Engine, *Low precision training*; Megatron Core, *Low-Precision Training Guide*, read on
2026-11-30). Parameters, their gradients and the values between layers stay as they are.

>>> from hierarchies.devices import device_named
>>> from synth.compute import MatrixProduct, product_estimate
>>> from synth.compute.precision import estimate_quantized, set_precision
>>> h100 = set_precision(device_named("H100 SXM5 80 GB"), "fp8")
>>> product = MatrixProduct(rows=8192, depth=8192, columns=28672)
>>> parts = product_estimate(product, h100), *estimate_quantized(product, h100)
>>> ", ".join(f"{1e6 * part.seconds:.0f} us" for part in parts)
'5591 us, 3168 us, 404 us'
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from hierarchies import InputError
from hierarchies.devices import Device
from synth.compute.products import MatrixProduct
from synth.compute.roofline import Estimate, bytes_estimate, product_estimate

QUANTIZED = ("bf16", "f16")
"""Types of operands that are quantized."""

MULTIPLE = 16
"""Sizes of a product in eight bits are multiples of this number (cuBLAS, as Transformer Engine
requires it)."""

RESULT_BYTES = 2
"""Bytes of an element of a result: it is written in the type of the operands."""


LOW, HIGH = 0.75, 1.55
"""The range of ratios of measured to estimated seconds that holds nine of ten products.

Of FP8 products with all sides of 2,048 and more in NVIDIA's serving tables it is 0.78 to 1.2 on an
H100 and an H200, and 1.0 to 1.5 on a B200 and a GB200 (``results/precision``).
"""


@dataclass(frozen=True)
class Precision:
    """How products of weights are computed.

    ``rate``: the key of the device's matrix rates. ``pass_bytes``: bytes read and written to
    quantize an element of an operand, for each product that reads it. Each operand is read by two
    of the three products of a layer (of the forward pass and of both gradients), in two layouts,
    and both are written in one pass over its two bytes: (2 + 1 + 1) / 2.
    """

    rate: str
    pass_bytes: float


PRECISIONS: Mapping[str, Precision] = {
    # One scale a tensor, of its present maximum: a pass over the operand before it is quantized.
    "fp8": Precision("f8", 3.0),
    # A scale of one byte for each 32 elements of a row and of a column.
    "mxfp8": Precision("mxfp8", 2.0 + 1 / 32),
}
"""Precisions by name: eight bits with a scale a tensor (current scaling), and OCP MX blocks."""


def set_precision(device: Device, name: str | None, dtype: str = QUANTIZED[0]) -> Device:
    """Returns a device that computes products of weights in a precision; None: as they are kept.

    ``dtype``: the type in which a model computes. Raises InputError for a type that is not
    quantized, and for a precision in which the device has no matrix rate.
    """
    if name is None:
        return device
    if dtype not in QUANTIZED:
        hint = "operands are quantized from 16 bits: --dtype bfloat16"
        raise InputError(f"products in {name} of values in {dtype}", where="precision", hint=hint)
    if PRECISIONS[name].rate not in device.matrix_flops_per_second:
        known = [
            key for key, one in PRECISIONS.items() if one.rate in device.matrix_flops_per_second
        ]
        hint = f"it has {', '.join(known)}" if known else "leave the precision out"
        raise InputError(f"{device.name} does not multiply in {name}", where="precision", hint=hint)
    return replace(device, precision=name)


def product_peak(device: Device, dtype: str) -> float:
    """Returns the peak rate of the fastest products of a model that computes in a type."""
    peak = device.peak(dtype)
    if not device.precision:
        return peak
    return max(peak, device.peak(PRECISIONS[device.precision].rate))


def is_quantized(product: MatrixProduct, device: Device, vocabulary: Collection[int]) -> bool:
    """Whether a product is one of weights in fewer bits; ``vocabulary``: sizes of its table."""
    sizes = product.rows, product.columns, product.depth
    return (
        bool(device.precision)
        and product.dtype in QUANTIZED
        and not any(size in vocabulary or size % MULTIPLE for size in sizes)
    )


def estimate_quantized(product: MatrixProduct, device: Device) -> Iterator[Estimate]:
    """Yields the seconds of a product in the device's precision, and of quantizing its operands.

    A pass may take no time: Transformer Engine fuses it with the kernel that makes the operand.
    """
    precision = PRECISIONS[device.precision]
    operands = product.batch * product.depth * (product.rows + product.columns)
    result = product.batch * product.rows * product.columns
    stored = operands + RESULT_BYTES * result
    found = product_estimate(replace(product, dtype=precision.rate, stored_bytes=stored), device)
    least = product.flops / device.peak(precision.rate)
    yield replace(found, low=max(least, LOW * found.seconds), high=HIGH * found.seconds)
    yield replace(bytes_estimate(round(precision.pass_bytes * operands), device), low=0.0)
