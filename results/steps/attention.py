"""Seconds of attention as one operation of a known shape, for layers that no step was traced of."""

from __future__ import annotations

from dataclasses import dataclass

from grammar.tensors.sharding import dtype_bytes
from hierarchies import InputError
from hierarchies.devices import Device
from synth.compute import Estimate
from synth.compute.attention import BACKWARD_PRODUCTS, HIGH, LOW, attention_rate


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


def attention_estimate(one: Attention, device: Device) -> Estimate:
    """Seconds of flash attention. Raises InputError for a type that the device has no rate for."""
    peak = device.peak(one.dtype)
    rate = attention_rate(device, one.dtype, one.backward)
    least = max(one.flops / peak, one.bytes / device.memory_bytes_per_second)
    seconds = max(one.flops / rate, least) + device.launch_seconds
    return Estimate(seconds, max(least, LOW * seconds), HIGH * seconds, "roofline")
