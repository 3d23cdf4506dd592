"""Seconds of a layer's work on one device, forward and backward, by the rooflines of devices."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hierarchies.devices import Device
from results.steps.attention import Attention, attention_estimate
from results.steps.shapes import Plan, Shape
from synth.compute import (
    MatrixProduct,
    bytes_estimate,
    product_estimate,
)

NORMS, RESIDUALS, ROTATED, ACTIVATED = 4, 6, 4, 3
"""How often activations are read or written: by two normalisations, two additions, the rotation of
queries and keys, and the activation, each at its own size."""

SCORED = 6
"""Scores of attention that go to memory: written, masked and normalised, dropped, read again."""

ADDED = 1.0
"""The share of the best rate of a memory that additions of large matrices reach."""

GRADIENT_BYTES = 12
"""A gradient is written with its product's two bytes, read, and added to a sum of four."""

LOGITS_BYTES = 36
"""Logits are read in two bytes and turned to four; their maximum, powers and sum are taken, and the
gradient is written in four and turned to two."""


@dataclass(frozen=True)
class Work:
    """Seconds on a device of one microbatch.

    ``products`` of matrices, with sums of gradients and the loss; ``moved`` is all that is done to
    activations between them, of which implementations fuse more or less.
    """

    products: float = 0.0
    moved: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(self.products + other.products, self.moved + other.moved)

    def __mul__(self, times: float) -> Work:
        return Work(self.products * times, self.moved * times)


def layer(shape: Shape, plan: Plan, device: Device) -> Work:
    """One layer of one microbatch, forward and backward, and again what is done again."""
    rows = plan.micro * shape.sequence
    forward = backward = 0.0
    for depth, columns in _matrices(shape, plan):
        forward += _product(rows, depth, columns, shape, device)
        backward += _product(rows, columns, depth, shape, device)
        backward += _product(depth, rows, columns, shape, device)
    once, twice, scores = _attention(shape, plan, device)
    moved = bytes_estimate(_activations(shape, plan, rows), device).seconds + scores
    weights = shape.layer_parameters // plan.tensor
    gradients = bytes_estimate(GRADIENT_BYTES * weights, device, ADDED).seconds
    again = 1 + plan.again
    return Work(again * (forward + once) + backward + twice + gradients, (again + 2) * moved)


def head(shape: Shape, plan: Plan, device: Device) -> Work:
    """The last matrix, the loss, and back: in sixteen bits where layers are in eight."""
    shape = in_sixteen(shape)
    rows, columns = plan.micro * shape.sequence, max(1, shape.vocab // plan.tensor)
    products = (
        _product(rows, shape.hidden, columns, shape, device)
        + _product(rows, columns, shape.hidden, shape, device)
        + _product(shape.hidden, rows, columns, shape, device)
    )
    logits = bytes_estimate(LOGITS_BYTES * rows * columns, device).seconds
    gradient = bytes_estimate(GRADIENT_BYTES * shape.hidden * columns, device, ADDED).seconds
    return Work(products + logits + gradient)


def in_sixteen(shape: Shape) -> Shape:
    """What is never done in eight bits."""
    return replace(shape, dtype="bf16") if shape.dtype.startswith("f8") else shape


def _matrices(shape: Shape, plan: Plan) -> list[tuple[int, int]]:
    """Depth and columns of the matrices that a device multiplies its activations by."""
    tensor, hidden = plan.tensor, shape.hidden
    keys = (shape.kv_heads or shape.heads) * (hidden // shape.heads)
    ffn = max(1, shape.ffn // tensor)
    return [
        (hidden, max(1, (hidden + 2 * keys) // tensor)),
        (max(1, hidden // tensor), hidden),
        (hidden, ffn * (2 if shape.gated else 1)),
        (ffn, hidden),
    ]


def _product(rows: int, depth: int, columns: int, shape: Shape, device: Device) -> float:
    product = MatrixProduct(rows, columns, depth, dtype=shape.dtype)
    return product_estimate(product, device).seconds


def _attention(shape: Shape, plan: Plan, device: Device) -> tuple[float, float, float]:
    """Seconds forward and backward, and of the scores' bytes where they go to memory."""
    shape = in_sixteen(shape)
    heads = max(1, plan.micro * shape.heads // plan.tensor)
    width, length = shape.hidden // shape.heads, shape.sequence
    if shape.flash:
        sides = (
            Attention(heads, length, length, width, shape.dtype, causal=True, backward=backward)
            for backward in (False, True)
        )
        once, twice = (attention_estimate(one, device).seconds for one in sides)
        return once, twice, 0.0
    product = MatrixProduct(length, length, width, heads, shape.dtype)
    once = 2 * product_estimate(product, device).seconds
    scores = bytes_estimate(SCORED * 2 * heads * length * length, device).seconds
    return once, 2 * once, scores


def _activations(shape: Shape, plan: Plan, rows: int) -> int:
    """Bytes of activations that a layer's forward pass moves beside its products."""
    spread = plan.tensor if plan.spread else 1
    wide = (NORMS + RESIDUALS) * shape.hidden // spread
    ffn = (ACTIVATED if shape.gated else ACTIVATED - 1) * shape.ffn
    return 2 * rows * (wide + (ROTATED * shape.hidden + ffn) // plan.tensor)
