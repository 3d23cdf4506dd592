"""Seconds of local work from a device's rates: its matrix units, its memory, and launches.

A product of matrices is cut into tiles, and each tile is computed by one processor. 1,024 tiles on
132 processors take eight rounds, not 7.8, and the last row of tiles costs as much as the others
(tile and wave quantisation; NVIDIA's guide to matrix multiplication). If there are few tiles, the
depth is split, or the tiles are smaller and less efficient. A product takes the longer of two
times: its rounds at the reached rate, or the transfer of its bytes. Every other operation takes the
time of its bytes. Each operation waits for its launch.

Rates are the best ever measured (``hierarchies.devices``); ordinary sizes reach a share of them,
with the interval that contains measured rows. Laws: seconds grow with every size, and are never
below operations/peak nor bytes/memory rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

from grammar.tensors.operations import REPEATED, Operation
from hierarchies import InputError
from hierarchies.devices import Device
from synth.compute.products import MatrixProduct, product_of
from synth.primitives import WorkKind, is_view, kind_of

Provenance = Literal["measured", "roofline"]

SMALLER = 0.7
"""The share of the rate that a tile of half the side reaches: as many reads for half the work."""

SPLITS = tuple(2**power for power in range(8))
"""The numbers of parts into which libraries split the depth of a product.

The gradient of a convolution's weights has few tiles and sums over all pixels of a batch.
"""

_PARTIAL_BYTES = 4
UNMEASURED = 0.8
"""The share of the peak assumed for unmeasured devices: measured shares are from 0.51 to 0.9."""

UNMEASURED_MEMORY = 0.9


@dataclass(frozen=True)
class Estimate:
    """Seconds of one operation, with a range that holds nine of ten cases, and its provenance.

    ``how``: ``measured`` on a device of this kind, or ``roofline``: from rates.
    """

    seconds: float
    low: float
    high: float
    how: Provenance

    def times(self, factor: float) -> Estimate:
        """Returns the estimate multiplied by a factor."""
        ends = (factor * self.seconds, factor * self.low, factor * self.high)
        return Estimate(*ends, self.how)


PRODUCT_SHARE, PRODUCT_LOW, PRODUCT_HIGH = 0.87, 0.8, 1.25
MEMORY_SHARE, MEMORY_LOW, MEMORY_HIGH = 0.7, 0.6, 2.2
"""The shares of the best measured rates that products, and all other operations, usually reach.

``LOW`` and ``HIGH`` are the ranges of ratios of measured to estimated seconds. The shares are the
median over large products of one model on an A100 and an H100, checked on other rows of
``tests/synth/compute/matmuls.csv``. On both devices, an addition reaches all of the memory's rate,
an activation 0.6 and a normalisation 0.4.
"""


def estimate_operation(operation: Operation, device: Device) -> Estimate:
    """Returns the seconds of one operation on one device's part; its types are of that part.

    Raises InputError for a loop (estimate its body instead), for an element type without a rate on
    the device, and for operands that do not fit the operation.
    """
    if operation.primitive == REPEATED:
        hint = "ask for the operations of its body"
        raise InputError("a loop is no single operation", where=operation.line, hint=hint)
    if is_view(operation.primitive):
        return Estimate(0.0, 0.0, 0.0, "roofline")
    if kind_of(operation.primitive) is WorkKind.PRODUCT:
        return product_estimate(product_of(operation), device)
    return bytes_estimate(sum(value.type.bytes for value in operation.values), device)


def product_estimate(product: MatrixProduct, device: Device) -> Estimate:
    """Returns the seconds of a product of matrices."""
    peak = device.peak(product.dtype)
    rate = min(peak, PRODUCT_SHARE * (device.reached(product.dtype) or UNMEASURED * peak))
    least = max(product.flops / peak, product.bytes / device.memory_bytes_per_second)
    moved = _memory_seconds(product.bytes, device)
    seconds = max(_compute_seconds(product, device, rate), moved)
    return _estimate_between(seconds, least, PRODUCT_LOW, PRODUCT_HIGH, device)


def bytes_estimate(size: int, device: Device, share: float = MEMORY_SHARE) -> Estimate:
    """Returns the seconds of work that reads and writes ``size`` bytes and computes little.

    ``share``: of the best measured rate of the memory.
    """
    least = size / device.memory_bytes_per_second
    seconds = max(_memory_seconds(size, device) / share, least)
    return _estimate_between(seconds, least, MEMORY_LOW, MEMORY_HIGH, device)


def _compute_seconds(product: MatrixProduct, device: Device, rate: float) -> float:
    """Returns seconds by the fastest tiling; parts of a split depth go to memory and are added."""
    usual, small = device.tile, device.smallest_tile
    share = SMALLER if small < usual else 1.0
    tilings = (
        (rows, columns, efficiency, splits)
        for rows, columns, efficiency in (
            (usual, usual, 1.0),
            (small, usual, share),
            (usual, small, share),
        )
        for splits in SPLITS
    )
    result = product.batch * product.rows * product.columns
    return min(
        _rounded_operations(product, device, rows, columns, splits) / (efficiency * rate)
        + (_memory_seconds(2 * splits * _PARTIAL_BYTES * result, device) if splits > 1 else 0.0)
        for rows, columns, efficiency, splits in tilings
    )


def _rounded_operations(
    product: MatrixProduct, device: Device, rows: int, columns: int, splits: int
) -> float:
    """Returns the operations if all processors are busy as long as the last."""
    tiles = product.batch * ceil(product.rows / rows) * ceil(product.columns / columns) * splits
    busy = ceil(tiles / device.multiprocessors) * device.multiprocessors
    return 2.0 * busy * rows * columns * product.depth / splits


def _memory_seconds(size: int, device: Device) -> float:
    """Returns seconds at the best measured rate of the memory."""
    assumed = UNMEASURED_MEMORY * device.memory_bytes_per_second
    return size / (device.reached_bytes_per_second or assumed)


def _estimate_between(
    seconds: float, least: float, low: float, high: float, device: Device
) -> Estimate:
    launched = seconds + device.launch_seconds
    return Estimate(launched, max(least, low * launched), high * launched, "roofline")
