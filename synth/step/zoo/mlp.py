"""A multi-layer perceptron with ReLU."""

from __future__ import annotations

import jax
from jax import Array

from synth.step.zoo.models import (
    Model,
    ModelOptions,
    Tree,
    cast_to,
    cross_entropy,
    repeat_layer,
    shape_struct,
    stack_layers,
)
from synth.step.zoo.sizes import Mlp


def mlp(name: str, sizes: Mlp, how: ModelOptions) -> Model:
    """Returns a model with ``layers`` matrices, the first from features, the last to classes."""
    width = sizes.width
    square = {"weight": shape_struct(width, width), "bias": shape_struct(width)}
    parameters = {
        "first": {"weight": shape_struct(sizes.features, width), "bias": shape_struct(width)},
        "layers": stack_layers(max(sizes.layers - 2, 0), square, how),
        "last": {"weight": shape_struct(width, sizes.classes), "bias": shape_struct(sizes.classes)},
    }
    batch = {
        "features": shape_struct(how.batch, sizes.features),
        "classes": shape_struct(how.batch, dtype="int32"),
    }

    def layer(x: Array, weights: Tree) -> Array:
        return jax.nn.relu(x @ weights["weight"] + weights["bias"])

    def loss(parameters: Tree, batch: Tree) -> Array:
        weights = cast_to(how, parameters)
        x = layer(cast_to(how, batch["features"]), weights["first"])
        x = repeat_layer(layer, x, weights["layers"], how)
        logits = x @ weights["last"]["weight"] + weights["last"]["bias"]
        return cross_entropy(logits, batch["classes"])

    return Model(name, parameters, batch, loss)
