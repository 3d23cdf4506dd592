"""GPT-2 (Radford et al. 2019), and its larger successor GPT-3: a decoder-only language model.

It has learned positions, pre-norm layers and GELU, and the last matrix is the token embedding.
GPT-3's sparse attention in every second layer is omitted.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from synth.step.zoo.models import (
    Inference,
    Model,
    ModelOptions,
    Tree,
    attend_after,
    attention,
    attention_shapes,
    cast_to,
    cross_entropy,
    layer_norm,
    merge_heads,
    norm_shapes,
    project,
    repeat_layer,
    shape_struct,
    stack_layers,
    token_shapes,
    two_layers,
    two_layers_shapes,
)
from synth.step.zoo.sizes import Gpt2


def _parameters(sizes: Gpt2, how: ModelOptions) -> Tree:
    width = sizes.width
    layer = {
        "attention": attention_shapes(width, sizes.heads),
        "attention_norm": norm_shapes(width),
        "mlp": two_layers_shapes(width, 4 * width),
        "mlp_norm": norm_shapes(width),
    }
    return {
        "embedding": shape_struct(sizes.vocabulary, width),
        "positions": shape_struct(sizes.sequence, width),
        "layers": stack_layers(sizes.layers, layer, how),
        "norm": norm_shapes(width),
    }


def gpt2(name: str, sizes: Gpt2, how: ModelOptions) -> Model:
    """Returns the model with the cross entropy of all tokens and the batch's ``targets``."""
    batch = {name: token_shapes(how, sizes.sequence) for name in ("tokens", "targets")}

    def layer(x: Array, weights: Tree) -> Array:
        normed = layer_norm(x, weights["attention_norm"])
        x = x + attention(normed, weights["attention"], causal=True)
        normed = layer_norm(x, weights["mlp_norm"])
        return x + two_layers(normed, weights["mlp"], jax.nn.gelu)

    def loss(parameters: Tree, batch: Tree) -> Array:
        weights = cast_to(how, parameters)
        x = weights["embedding"][batch["tokens"]] + weights["positions"]
        x = repeat_layer(layer, x, weights["layers"], how)
        x = layer_norm(x, weights["norm"])
        return cross_entropy(x @ weights["embedding"].T, batch["targets"])

    return Model(name, _parameters(sizes, how), batch, loss)


def gpt2_inference(name: str, sizes: Gpt2, how: ModelOptions, new: int) -> Inference:
    """Returns a pass over ``new`` tokens after the cached tokens, with the next token's logits.

    With an empty cache it processes a prompt; with ``new`` 1 it generates token by token. The cache
    has room for ``sequence`` tokens; its first dimension is samples, as in a batch.
    """
    shape = (how.batch, sizes.layers, sizes.sequence, sizes.heads, sizes.width // sizes.heads)
    kept = {
        "key": shape_struct(*shape, dtype=how.dtype),
        "value": shape_struct(*shape, dtype=how.dtype),
    }
    cache = {"attention": kept, "length": shape_struct(dtype="int32")}

    def step(parameters: Tree, cache: Tree, batch: Tree) -> tuple[Tree, Tree, Array]:
        weights, first = cast_to(how, parameters), cache["length"]
        places = lax.dynamic_slice_in_dim(weights["positions"], first, new)
        x = weights["embedding"][batch["tokens"]] + places

        def layer(x: Array, slices: tuple[Tree, Array, Array]) -> tuple[Array, Tree]:
            weights, keys, values = slices
            normed = layer_norm(x, weights["attention_norm"])
            now = project(normed, weights["attention"])
            keys = lax.dynamic_update_slice_in_dim(keys, now["key"], first, 1)
            values = lax.dynamic_update_slice_in_dim(values, now["value"], first, 1)
            heads = attend_after(now["query"], keys, values, first)
            x = x + merge_heads(heads, weights["attention"])
            normed = layer_norm(x, weights["mlp_norm"])
            return x + two_layers(normed, weights["mlp"], jax.nn.gelu), (keys, values)

        by_layer = (cache["attention"][name].swapaxes(0, 1) for name in ("key", "value"))
        x, (keys, values) = lax.scan(layer, x, (weights["layers"], *by_layer))
        x = layer_norm(x[:, -1], weights["norm"])
        kept = {"key": keys.swapaxes(0, 1), "value": values.swapaxes(0, 1)}
        logits = (x @ weights["embedding"].T).astype(jnp.float32)
        return parameters, {"attention": kept, "length": first + new}, logits

    return Inference(name, _parameters(sizes, how), cache, {"tokens": token_shapes(how, new)}, step)
