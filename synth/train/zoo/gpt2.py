"""GPT-2 (Radford et al. 2019), and GPT-3, which is larger: a decoder that guesses the next token.

Learned positions, normalisation before each half of a layer, GELU, and the table of tokens used
again as the last matrix. GPT-3's attention to few tokens in every second layer is left out.
"""

from __future__ import annotations

import jax
from jax import Array

from synth.train.zoo.models import (
    How,
    Model,
    Tree,
    attention,
    attention_shapes,
    computed_in,
    cross_entropy,
    layer_norm,
    norm_shapes,
    repeated,
    shaped,
    stacked,
    tokens,
    two_layers,
    two_layers_shapes,
)
from synth.train.zoo.sizes import Gpt2


def gpt2(name: str, sizes: Gpt2, how: How) -> Model:
    """The loss of every token but the first, as the batch's ``targets`` say."""
    width = sizes.width
    one = {
        "attention": attention_shapes(width, sizes.heads),
        "attention_norm": norm_shapes(width),
        "mlp": two_layers_shapes(width, 4 * width),
        "mlp_norm": norm_shapes(width),
    }
    parameters = {
        "embedding": shaped(sizes.vocabulary, width),
        "positions": shaped(sizes.sequence, width),
        "layers": stacked(sizes.layers, one, how),
        "norm": norm_shapes(width),
    }
    batch = {name: tokens(how, sizes.sequence) for name in ("tokens", "targets")}

    def layer(x: Array, weights: Tree) -> Array:
        normed = layer_norm(x, weights["attention_norm"])
        x = x + attention(normed, weights["attention"], causal=True)
        normed = layer_norm(x, weights["mlp_norm"])
        return x + two_layers(normed, weights["mlp"], jax.nn.gelu)

    def loss(parameters: Tree, batch: Tree) -> Array:
        weights = computed_in(how, parameters)
        x = weights["embedding"][batch["tokens"]] + weights["positions"]
        x = repeated(layer, x, weights["layers"], how)
        x = layer_norm(x, weights["norm"])
        return cross_entropy(x @ weights["embedding"].T, batch["targets"])

    return Model(name, parameters, batch, loss)
