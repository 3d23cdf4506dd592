"""ResNet-50 (He et al. 2015): bottleneck blocks of three convolutions with a residual connection.

Batch normalisation is in training mode; running means, which only inference needs, are omitted.
The batch is divided into ``groups``, each normalised by its own samples, as each replica does under
PyTorch's DDP, Horovod or MXNet. With one group the statistics are over all samples, and replicas
must exchange them (``SyncBatchNorm``). The stride is in the 3x3 convolution, as in frameworks.
Equal blocks of a stage are a loop, unless layers are unrolled.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from hierarchies import InputError
from synth.step.zoo.models import (
    Model,
    ModelOptions,
    Tree,
    cast_to,
    cross_entropy,
    norm_shapes,
    repeat_layer,
    shape_struct,
    stack_layers,
)
from synth.step.zoo.sizes import ResNet


def resnet(name: str, sizes: ResNet, how: ModelOptions) -> Model:
    """Returns a classifier of images ``[sample, row, column, colour]``.

    Raises InputError for groups that do not divide the batch.
    """
    if how.batch % sizes.groups:
        problem = f"groups {sizes.groups} do not divide a batch of {how.batch}"
        raise InputError(problem, where=name, hint="as many as there are replicas")
    width = sizes.width
    parameters: Tree = {"first": _convolution_shapes(7, 3, width), "stages": []}
    channels = width
    for stage, blocks in enumerate(sizes.blocks):
        inner = width * 2**stage
        down = _block_shapes(channels, inner) | {
            "around": _convolution_shapes(1, channels, 4 * inner)
        }
        channels = 4 * inner
        rest = stack_layers(blocks - 1, _block_shapes(channels, inner), how)
        parameters["stages"].append({"down": down, "rest": rest})
    parameters["last"] = {
        "weight": shape_struct(channels, sizes.classes),
        "bias": shape_struct(sizes.classes),
    }
    batch = {
        "images": shape_struct(how.batch, sizes.image, sizes.image, 3),
        "classes": shape_struct(how.batch, dtype="int32"),
    }

    def loss(parameters: Tree, batch: Tree) -> Array:
        weights = cast_to(how, parameters)
        images = cast_to(how, batch["images"])
        x = jax.nn.relu(_convolve(images, weights["first"], 2, sizes.groups))
        edge = ((0, 0), (1, 1), (1, 1), (0, 0))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), edge)
        for stage, blocks in enumerate(weights["stages"]):
            x = _block(x, blocks["down"], 1 if stage == 0 else 2, sizes.groups)
            x = repeat_layer(partial(_block, groups=sizes.groups), x, blocks["rest"], how)
        logits = x.mean((1, 2)) @ weights["last"]["weight"] + weights["last"]["bias"]
        return cross_entropy(logits, batch["classes"])

    return Model(name, parameters, batch, loss)


def _convolution_shapes(size: int, channels: int, out: int) -> Tree:
    return {"kernel": shape_struct(size, size, channels, out), "norm": norm_shapes(out)}


def _block_shapes(channels: int, inner: int) -> Tree:
    return {
        "narrow": _convolution_shapes(1, channels, inner),
        "middle": _convolution_shapes(3, inner, inner),
        "wide": _convolution_shapes(1, inner, 4 * inner),
    }


def _block(x: Array, weights: Tree, stride: int = 1, groups: int = 1) -> Array:
    y = jax.nn.relu(_convolve(x, weights["narrow"], groups=groups))
    y = jax.nn.relu(_convolve(y, weights["middle"], stride, groups))
    y = _convolve(y, weights["wide"], groups=groups)
    residual = _convolve(x, weights["around"], stride, groups) if "around" in weights else x
    return jax.nn.relu(residual + y)


def _convolve(x: Array, weights: Tree, stride: int = 1, groups: int = 1) -> Array:
    """Convolves, and normalises over all samples of a group and all positions."""
    size = weights["kernel"].shape[0]
    edge = (size // 2, size // 2)
    layout = ("NHWC", "HWIO", "NHWC")
    x = lax.conv_general_dilated(
        x, weights["kernel"], (stride, stride), (edge, edge), dimension_numbers=layout
    )
    if groups == 1:
        return _normalise(x, weights["norm"])
    apart = x.reshape(groups, x.shape[0] // groups, *x.shape[1:])
    return jax.vmap(_normalise, (0, None))(apart, weights["norm"]).reshape(x.shape)


def _normalise(x: Array, weights: Tree) -> Array:
    centred = x - x.mean((0, 1, 2))
    variance = (centred**2).mean((0, 1, 2))
    return centred * lax.rsqrt(variance + 1e-5) * weights["scale"] + weights["shift"]
