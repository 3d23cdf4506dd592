"""Estimates to compare with: operations over the peak, and calculon's method.

Calculon (Isaev et al., SC'23; calculon-ai/calculon, Apache-2.0) takes rooflines with an efficiency
by size: of matrix products by their Gflop, of memory by its megabytes, of a network one.
A short version of our own of that method with the efficiencies of its files for A100 and H100; it
adds computing and moving, and hides no communication.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hierarchies.devices import Device
from results.steps.rows import Row
from results.steps.shapes import even_stages

Steps = Sequence[tuple[float, float]]
MATRIX: Steps = ((128, 0.95), (16, 0.9), (1, 0.6), (0, 0.1))
MEMORY: Steps = ((100, 0.9), (10, 0.75), (1, 0.6), (0, 0.3))
"""From so many Gflop, or MB, on: the share of the rate."""


@dataclass(frozen=True)
class Tiers:
    """A node's network and that between nodes: bytes a second and device, shares, seconds."""

    inside: float
    inside_share: float
    between: float
    between_share: float
    inside_latency: float
    between_latency: float
    node: int = 8


A100 = Tiers(300e9, 0.65, 25e9, 0.9, 1e-5, 2e-5)
H100 = Tiers(450e9, 0.6, 50e9, 0.9, 1e-6, 2e-6)


def over_peak(row: Row, device: Device) -> float:
    """6 N operations for every token, at the peak of all devices."""
    flops = 6.0 * row.shape.parameters * row.shape.sequence * row.plan.sequences
    return flops / row.plan.devices / device.peak(row.shape.dtype)


def calculon(row: Row, device: Device) -> float:
    """The step by calculon's method."""
    shape, plan = row.shape, row.plan
    tiers = H100 if "H100" in device.name else A100
    rows = plan.micro * shape.sequence
    layer = _layer(row, device)
    head = 3 * _product(rows, shape.hidden, shape.vocab / plan.tensor, row, device)
    tensor = 0.0
    if plan.tensor > 1:
        ring = 2 * (plan.tensor - 1) / plan.tensor * 2 * rows * shape.hidden
        tensor = (4 + 2 * plan.again) * _sent(ring, plan.tensor, tiers)
    stages = [
        count * (layer + tensor) + has_head * head for count, has_head in even_stages(shape, plan)
    ]
    hop = 0.0
    if plan.pipe > 1:
        hop = 2 * _sent(2 * rows * shape.hidden / plan.tensor, plan.data * plan.tensor + 1, tiers)
    ticks = plan.micros + (plan.pipe - 1) / plan.chunks
    held = shape.parameters / plan.pipe / plan.tensor
    once = 0.0
    if plan.data > 1:
        share = 2 * (plan.data - 1) / plan.data
        once = _sent(share * 2 * held, plan.data * plan.tensor, tiers)
    if plan.sharded == 3:
        once *= plan.micros * 1.5
    update = 16 * held / (plan.data if plan.sharded else 1)
    return ticks * (max(stages) + hop) + once + _moved(update, device)


def _layer(row: Row, device: Device) -> float:
    shape, plan = row.shape, row.plan
    rows, tensor = plan.micro * shape.sequence, plan.tensor
    ffn = shape.ffn * (2 if shape.gated else 1)
    heads = plan.micro * shape.heads / tensor
    width = shape.hidden / shape.heads
    matrices = (
        _product(rows, shape.hidden, 3 * shape.hidden / tensor, row, device)
        + _product(rows, shape.hidden / tensor, shape.hidden, row, device)
        + _product(rows, shape.hidden, ffn / tensor, row, device)
        + _product(rows, shape.ffn / tensor, shape.hidden, row, device)
        + 2 * _product(heads * shape.sequence, width, shape.sequence, row, device)
    )
    scores = 0.0 if shape.flash else 6 * 2 * heads * shape.sequence**2
    spread = tensor if plan.spread else 1
    wide = 2 * rows * (10 * shape.hidden / spread + 3 * shape.ffn / tensor)
    return (3 + plan.again) * (matrices + _moved(wide + scores, device))


def _product(rows: float, depth: float, columns: float, row: Row, device: Device) -> float:
    flops = 2 * rows * depth * columns
    rate = device.peak(row.shape.dtype) * _share(flops / 1e9, MATRIX)
    size = 2 * (rows * depth + depth * columns + rows * columns)
    return flops / rate + _moved(size, device)


def _moved(size: float, device: Device) -> float:
    return size / (device.memory_bytes_per_second * _share(size / 1e6, MEMORY))


def _sent(size: float, span: int, tiers: Tiers) -> float:
    if span <= tiers.node:
        return tiers.inside_latency + size / (tiers.inside * tiers.inside_share)
    return tiers.between_latency + size / (tiers.between * tiers.between_share)


def _share(size: float, steps: Steps) -> float:
    return next(share for least, share in steps if size >= least)
