"""The rate of attention as one operation whose scores never go to memory.

Flash attention (Dao et al. 2022) reads queries, keys and values, writes the result, and holds one
tile of the scores at a time.
"""

from __future__ import annotations

from hierarchies.devices import Device
from synth.compute.roofline import UNMEASURED

FORWARD, BACKWARD = 0.6, 0.45
"""Shares of the matrix rate if attention was not measured.

On an A100 version 2 reaches about 0.7 and 0.6 of the peak (arXiv 2307.08691, as remembered), and
less with short or few sequences.
"""

LOW, HIGH = 0.7, 1.6
BACKWARD_PRODUCTS = 5
"""The scores again, and four products for the gradients; the forward pass has two products."""


def attention_rate(device: Device, dtype: str, backward: bool) -> float:
    """Returns FLOPs per second of flash attention: measured, or a share of the matrix rate."""
    peak = device.peak(dtype)
    measured = device.attention_flops_per_second
    if measured:
        return min(peak, measured[backward])
    share = BACKWARD if backward else FORWARD
    return min(peak, share * (device.reached(dtype) or UNMEASURED * peak))
