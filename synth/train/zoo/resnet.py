"""ResNet-50 (He et al. 2015): bottlenecks of three convolutions, around which the input goes.

Normalised by batch as while training: what inference wants, the running means, are no parameters
and are left out. The stride is in the 3x3 convolution, as frameworks have it. Blocks of a stage
that are alike are a loop, unless layers are unrolled.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from synth.train.zoo.models import (
    How,
    Model,
    Tree,
    computed_in,
    cross_entropy,
    norm_shapes,
    repeated,
    shaped,
    stacked,
)
from synth.train.zoo.sizes import ResNet


def resnet(name: str, sizes: ResNet, how: How) -> Model:
    """Images as ``[sample, row, column, colour]``, and their classes."""
    width = sizes.width
    parameters: Tree = {"first": _convolution_shapes(7, 3, width), "stages": []}
    channels = width
    for stage, blocks in enumerate(sizes.blocks):
        inner = width * 2**stage
        down = _block_shapes(channels, inner) | {
            "around": _convolution_shapes(1, channels, 4 * inner)
        }
        channels = 4 * inner
        rest = stacked(blocks - 1, _block_shapes(channels, inner), how)
        parameters["stages"].append({"down": down, "rest": rest})
    parameters["last"] = {"weight": shaped(channels, sizes.classes), "bias": shaped(sizes.classes)}
    batch = {
        "images": shaped(how.batch, sizes.image, sizes.image, 3),
        "classes": shaped(how.batch, dtype="int32"),
    }

    def loss(parameters: Tree, batch: Tree) -> Array:
        weights = computed_in(how, parameters)
        x = jax.nn.relu(_convolved(computed_in(how, batch["images"]), weights["first"], 2))
        edge = ((0, 0), (1, 1), (1, 1), (0, 0))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), edge)
        for stage, one in enumerate(weights["stages"]):
            x = _block(x, one["down"], 1 if stage == 0 else 2)
            x = repeated(_block, x, one["rest"], how)
        logits = x.mean((1, 2)) @ weights["last"]["weight"] + weights["last"]["bias"]
        return cross_entropy(logits, batch["classes"])

    return Model(name, parameters, batch, loss)


def _convolution_shapes(size: int, channels: int, made: int) -> Tree:
    return {"kernel": shaped(size, size, channels, made), "norm": norm_shapes(made)}


def _block_shapes(channels: int, inner: int) -> Tree:
    return {
        "narrow": _convolution_shapes(1, channels, inner),
        "middle": _convolution_shapes(3, inner, inner),
        "wide": _convolution_shapes(1, inner, 4 * inner),
    }


def _block(x: Array, weights: Tree, stride: int = 1) -> Array:
    made = jax.nn.relu(_convolved(x, weights["narrow"]))
    made = jax.nn.relu(_convolved(made, weights["middle"], stride))
    made = _convolved(made, weights["wide"])
    around = _convolved(x, weights["around"], stride) if "around" in weights else x
    return jax.nn.relu(around + made)


def _convolved(x: Array, weights: Tree, stride: int = 1) -> Array:
    """Convolved, and to mean 0 and variance 1 over the batch and all places."""
    size = weights["kernel"].shape[0]
    edge = (size // 2, size // 2)
    layout = ("NHWC", "HWIO", "NHWC")
    x = lax.conv_general_dilated(
        x, weights["kernel"], (stride, stride), (edge, edge), dimension_numbers=layout
    )
    middle = x - x.mean((0, 1, 2))
    variance = (middle**2).mean((0, 1, 2))
    return middle * lax.rsqrt(variance + 1e-5) * weights["norm"]["scale"] + weights["norm"]["shift"]
