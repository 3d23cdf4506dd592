"""A multi-layer perceptron: matrices, and what is below zero cut off between them."""

from __future__ import annotations

import jax
from jax import Array

from synth.step.zoo.models import (
    How,
    Model,
    Tree,
    computed_in,
    cross_entropy,
    repeated,
    shaped,
    stacked,
)
from synth.step.zoo.sizes import Mlp


def mlp(name: str, sizes: Mlp, how: How) -> Model:
    """``layers`` matrices: the first from the features, the last to the classes."""
    width = sizes.width
    square = {"weight": shaped(width, width), "bias": shaped(width)}
    parameters = {
        "first": {"weight": shaped(sizes.features, width), "bias": shaped(width)},
        "layers": stacked(max(sizes.layers - 2, 0), square, how),
        "last": {"weight": shaped(width, sizes.classes), "bias": shaped(sizes.classes)},
    }
    batch = {
        "features": shaped(how.batch, sizes.features),
        "classes": shaped(how.batch, dtype="int32"),
    }

    def layer(x: Array, weights: Tree) -> Array:
        return jax.nn.relu(x @ weights["weight"] + weights["bias"])

    def loss(parameters: Tree, batch: Tree) -> Array:
        weights = computed_in(how, parameters)
        x = layer(computed_in(how, batch["features"]), weights["first"])
        x = repeated(layer, x, weights["layers"], how)
        logits = x @ weights["last"]["weight"] + weights["last"]["bias"]
        return cross_entropy(logits, batch["classes"])

    return Model(name, parameters, batch, loss)
