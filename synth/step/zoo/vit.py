"""The vision transformer (Dosovitskiy et al. 2020): patches of an image as tokens of an encoder."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from synth.step.zoo.models import (
    Model,
    ModelOptions,
    Tree,
    attention,
    attention_shapes,
    cast_to,
    cross_entropy,
    layer_norm,
    norm_shapes,
    repeat_layer,
    shape_struct,
    stack_layers,
    two_layers,
    two_layers_shapes,
)
from synth.step.zoo.sizes import ViT


def vit(name: str, sizes: ViT, how: ModelOptions) -> Model:
    """Returns a classifier of images ``[sample, row, column, colour]``."""
    width, patch = sizes.width, sizes.patch
    layer_shapes = {
        "attention": attention_shapes(width, sizes.heads),
        "attention_norm": norm_shapes(width),
        "mlp": two_layers_shapes(width, 4 * width),
        "mlp_norm": norm_shapes(width),
    }
    parameters = {
        "patches": {"kernel": shape_struct(patch, patch, 3, width), "bias": shape_struct(width)},
        "class": shape_struct(width),
        "positions": shape_struct((sizes.image // patch) ** 2 + 1, width),
        "layers": stack_layers(sizes.layers, layer_shapes, how),
        "norm": norm_shapes(width),
        "last": {"weight": shape_struct(width, sizes.classes), "bias": shape_struct(sizes.classes)},
    }
    batch = {
        "images": shape_struct(how.batch, sizes.image, sizes.image, 3),
        "classes": shape_struct(how.batch, dtype="int32"),
    }

    def layer(x: Array, weights: Tree) -> Array:
        normed = layer_norm(x, weights["attention_norm"])
        x = x + attention(normed, weights["attention"], causal=False)
        normed = layer_norm(x, weights["mlp_norm"])
        return x + two_layers(normed, weights["mlp"], partial(jax.nn.gelu, approximate=False))

    def loss(parameters: Tree, batch: Tree) -> Array:
        weights = cast_to(how, parameters)
        images = cast_to(how, batch["images"])
        layout = ("NHWC", "HWIO", "NHWC")
        kernel, stride = weights["patches"]["kernel"], (patch, patch)
        x = lax.conv_general_dilated(images, kernel, stride, "VALID", dimension_numbers=layout)
        x = x.reshape(how.batch, -1, width) + weights["patches"]["bias"]
        first = jnp.broadcast_to(weights["class"], (how.batch, 1, width))
        x = jnp.concatenate((first, x), axis=1) + weights["positions"]
        x = layer_norm(repeat_layer(layer, x, weights["layers"], how), weights["norm"])
        logits = x[:, 0] @ weights["last"]["weight"] + weights["last"]["bias"]
        return cross_entropy(logits, batch["classes"])

    return Model(name, parameters, batch, loss)
