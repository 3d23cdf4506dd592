"""BERT (Devlin et al. 2018): an encoder for masked tokens and next sentence prediction.

Layers are post-norm. Every token has a target; ``masked`` is 1 for tokens that count in the loss,
and 0 for all others.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

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
    token_shapes,
    two_layers,
    two_layers_shapes,
)
from synth.step.zoo.sizes import Bert

gelu = partial(jax.nn.gelu, approximate=False)


def bert(name: str, sizes: Bert, how: ModelOptions) -> Model:
    """Returns the model with the sum of both losses of the paper."""
    width = sizes.width
    layer_shapes = {
        "attention": attention_shapes(width, sizes.heads),
        "attention_norm": norm_shapes(width),
        "mlp": two_layers_shapes(width, 4 * width),
        "mlp_norm": norm_shapes(width),
    }
    square = {"weight": shape_struct(width, width), "bias": shape_struct(width)}
    parameters = {
        "embedding": shape_struct(sizes.vocabulary, width),
        "positions": shape_struct(sizes.sequence, width),
        "sentences": shape_struct(2, width),
        "embedding_norm": norm_shapes(width),
        "layers": stack_layers(sizes.layers, layer_shapes, how),
        "pooled": square,
        "follows": {"weight": shape_struct(width, 2), "bias": shape_struct(2)},
        "guess": {**square, "norm": norm_shapes(width), "last": shape_struct(sizes.vocabulary)},
    }
    batch = {
        **{key: token_shapes(how, sizes.sequence) for key in ("tokens", "sentences", "targets")},
        "masked": shape_struct(how.batch, sizes.sequence),
        "follows": shape_struct(how.batch, dtype="int32"),
    }

    def layer(x: Array, weights: Tree) -> Array:
        seen = attention(x, weights["attention"], causal=False)
        x = layer_norm(x + seen, weights["attention_norm"])
        return layer_norm(x + two_layers(x, weights["mlp"], gelu), weights["mlp_norm"])

    def loss(parameters: Tree, batch: Tree) -> Array:
        weights = cast_to(how, parameters)
        x = weights["embedding"][batch["tokens"]] + weights["positions"]
        x = layer_norm(x + weights["sentences"][batch["sentences"]], weights["embedding_norm"])
        x = repeat_layer(layer, x, weights["layers"], how)
        first = jnp.tanh(_linear(x[:, 0], weights["pooled"]))
        second = cross_entropy(_linear(first, weights["follows"]), batch["follows"])
        guess = layer_norm(gelu(_linear(x, weights["guess"])), weights["guess"]["norm"])
        logits = guess @ weights["embedding"].T + weights["guess"]["last"]
        return second + cross_entropy(logits, batch["targets"], batch["masked"])

    return Model(name, parameters, batch, loss)


def _linear(x: Array, weights: Tree) -> Array:
    return x @ weights["weight"] + weights["bias"]
