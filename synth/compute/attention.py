"""Attention as one operation: its scores never go to memory, so it is no sum of its parts.

Flash attention (Dao et al. 2022) reads queries, keys and values, writes the result, and holds a
tile of the scores at a time. Who knows that operations of a step are one such declares it.
"""

from __future__ import annotations

from dataclasses import dataclass

from grammar.tensors.sharding import dtype_bytes
from hierarchies import InputError
from hierarchies.devices import Device
from synth.compute.roofline import TYPICAL, UNMEASURED, Estimate, RooflineRates

FORWARD, BACKWARD = 0.6, 0.45
"""Shares of the matrix rate where attention was not measured: on an A100 version 2 reaches about
0.7 and 0.6 of the peak (arXiv 2307.08691, as remembered), less with short or few sequences."""

LOW, HIGH = 0.7, 1.6
BACKWARD_PRODUCTS = 5
"""The scores once more, and four products for the gradients; forward there are two."""


@dataclass(frozen=True)
class Attention:
    """``heads`` in all (times batch) of queries x width with keys x width, on one device.

    ``causal``: half of the scores are left out. Raises InputError for a size below 1.
    """

    heads: int
    queries: int
    keys: int
    width: int
    dtype: str = "bf16"
    causal: bool = False
    backward: bool = False

    def __post_init__(self) -> None:
        if min(self.heads, self.queries, self.keys, self.width) < 1:
            raise InputError(f"an attention of no size: {self}", hint="all sizes are 1 at least")

    @property
    def flops(self) -> float:
        products = BACKWARD_PRODUCTS if self.backward else 2
        whole = 2.0 * products * self.heads * self.queries * self.keys * self.width
        return whole / 2 if self.causal else whole

    @property
    def bytes(self) -> int:
        """Queries, keys, values and the result; backward those, and the gradient of each."""
        once = 2 * self.heads * (self.queries + self.keys) * self.width * dtype_bytes(self.dtype)
        return 2 * once if self.backward else once


def attention_estimate(one: Attention, device: Device, rates: RooflineRates = TYPICAL) -> Estimate:
    """Seconds of flash attention. Raises InputError for a type that the device has no rate for."""
    peak = device.peak(one.dtype)
    rate = attention_rate(device, one.dtype, one.backward)
    least = max(one.flops / peak, one.bytes / device.memory_bytes_per_second)
    seconds = max(one.flops / rate, least) + device.launch_seconds
    return Estimate(seconds, max(least, LOW * seconds), HIGH * seconds, rates.how)


def attention_rate(device: Device, dtype: str, backward: bool) -> float:
    """Operations in a second of flash attention: as measured, or a share of the matrix rate."""
    peak = device.peak(dtype)
    measured = device.attention_flops_per_second
    if measured:
        return min(peak, measured[backward])
    share = BACKWARD if backward else FORWARD
    return min(peak, share * (device.reached(dtype) or UNMEASURED * peak))
