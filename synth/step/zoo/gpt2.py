"""GPT-2 (Radford et al. 2019), and GPT-3, which is larger: a decoder that guesses the next token.

Learned positions, normalisation before each half of a layer, GELU, and the table of tokens used
again as the last matrix. GPT-3's attention to few tokens in every second layer is left out.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from synth.step.zoo.models import (
    How,
    Inference,
    Model,
    Tree,
    attended,
    attention,
    attention_shapes,
    computed_in,
    cross_entropy,
    layer_norm,
    norm_shapes,
    projected,
    put_together,
    repeated,
    shaped,
    stacked,
    tokens,
    two_layers,
    two_layers_shapes,
)
from synth.step.zoo.sizes import Gpt2


def _parameters(sizes: Gpt2, how: How) -> Tree:
    width = sizes.width
    one = {
        "attention": attention_shapes(width, sizes.heads),
        "attention_norm": norm_shapes(width),
        "mlp": two_layers_shapes(width, 4 * width),
        "mlp_norm": norm_shapes(width),
    }
    return {
        "embedding": shaped(sizes.vocabulary, width),
        "positions": shaped(sizes.sequence, width),
        "layers": stacked(sizes.layers, one, how),
        "norm": norm_shapes(width),
    }


def gpt2(name: str, sizes: Gpt2, how: How) -> Model:
    """The loss of every token but the first, as the batch's ``targets`` say."""
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

    return Model(name, _parameters(sizes, how), batch, loss)


def gpt2_inference(name: str, sizes: Gpt2, how: How, new: int) -> Inference:
    """So many new tokens after those whose keys and values are kept: what may come after them.

    With a cache of nothing it reads a prompt; with ``new`` 1 it writes token by token. The cache
    has room for ``sequence`` tokens, samples first, as a batch has.
    """
    shape = (how.batch, sizes.layers, sizes.sequence, sizes.heads, sizes.width // sizes.heads)
    held = {"key": shaped(*shape, dtype=how.dtype), "value": shaped(*shape, dtype=how.dtype)}
    cache = {"attention": held, "length": shaped(dtype="int32")}

    def step(parameters: Tree, cache: Tree, batch: Tree) -> tuple[Tree, Tree, Array]:
        weights, first = computed_in(how, parameters), cache["length"]
        places = lax.dynamic_slice_in_dim(weights["positions"], first, new)
        x = weights["embedding"][batch["tokens"]] + places

        def layer(x: Array, each: tuple[Tree, Array, Array]) -> tuple[Array, Tree]:
            weights, keys, values = each
            normed = layer_norm(x, weights["attention_norm"])
            found = projected(normed, weights["attention"])
            keys = lax.dynamic_update_slice_in_dim(keys, found["key"], first, 1)
            values = lax.dynamic_update_slice_in_dim(values, found["value"], first, 1)
            seen = attended(found["query"], keys, values, causal=True, first=first)
            x = x + put_together(seen, weights["attention"])
            normed = layer_norm(x, weights["mlp_norm"])
            return x + two_layers(normed, weights["mlp"], jax.nn.gelu), (keys, values)

        by_layer = (cache["attention"][one].swapaxes(0, 1) for one in ("key", "value"))
        x, (keys, values) = lax.scan(layer, x, (weights["layers"], *by_layer))
        x = layer_norm(x[:, -1], weights["norm"])
        kept = {"key": keys.swapaxes(0, 1), "value": values.swapaxes(0, 1)}
        logits = (x @ weights["embedding"].T).astype(jnp.float32)
        return parameters, {"attention": kept, "length": first + new}, logits

    return Inference(name, _parameters(sizes, how), cache, {"tokens": tokens(how, new)}, step)
