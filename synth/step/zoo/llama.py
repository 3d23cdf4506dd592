"""Llama 3 (Grattafiori et al. 2024), and with experts Mixtral 8x7B (Jiang et al. 2024).

It has rotary positions, grouped-query attention, RMS normalisation, SwiGLU, no biases, and a last
matrix of its own. In Mixtral, the best two of eight experts process each token.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from synth.step.zoo.experts import mixture, mixture_shapes
from synth.step.zoo.models import (
    Model,
    ModelOptions,
    Tree,
    attend,
    cast_to,
    cross_entropy,
    repeat_layer,
    shape_struct,
    stack_layers,
    token_shapes,
)
from synth.step.zoo.sizes import Llama


def llama(name: str, sizes: Llama, how: ModelOptions) -> Model:
    """Returns the model with the cross entropy of all tokens and the batch's ``targets``."""
    width, head = sizes.width, sizes.width // sizes.heads
    layer_shapes = {
        "query": shape_struct(width, sizes.key_heads, sizes.heads // sizes.key_heads, head),
        "key": shape_struct(width, sizes.key_heads, head),
        "value": shape_struct(width, sizes.key_heads, head),
        "out": shape_struct(sizes.key_heads, sizes.heads // sizes.key_heads, head, width),
        "attention_norm": shape_struct(width),
        "mlp": _mlp_shapes(sizes) if sizes.experts == 1 else mixture_shapes(sizes),
        "mlp_norm": shape_struct(width),
    }
    parameters = {
        "embedding": shape_struct(sizes.vocabulary, width),
        "layers": stack_layers(sizes.layers, layer_shapes, how),
        "norm": shape_struct(width),
        "last": shape_struct(width, sizes.vocabulary),
    }
    batch = {name: token_shapes(how, sizes.sequence) for name in ("tokens", "targets")}
    feed_forward = _swiglu if sizes.experts == 1 else partial(mixture, sizes=sizes)

    def layer(x: Array, weights: Tree) -> Array:
        x = x + _attention(_rms_norm(x, weights["attention_norm"]), weights, sizes.rope_base)
        return x + feed_forward(_rms_norm(x, weights["mlp_norm"]), weights["mlp"])

    def loss(parameters: Tree, batch: Tree) -> Array:
        weights = cast_to(how, parameters)
        x = repeat_layer(layer, weights["embedding"][batch["tokens"]], weights["layers"], how)
        return cross_entropy(_rms_norm(x, weights["norm"]) @ weights["last"], batch["targets"])

    return Model(name, parameters, batch, loss)


def _mlp_shapes(sizes: Llama) -> Tree:
    into = shape_struct(sizes.width, sizes.hidden)
    return {"gate": into, "up": into, "down": shape_struct(sizes.hidden, sizes.width)}


def _swiglu(x: Array, weights: Tree) -> Array:
    return (jax.nn.silu(x @ weights["gate"]) * (x @ weights["up"])) @ weights["down"]


def _rms_norm(x: Array, scale: Array) -> Array:
    # The mean of squares loses too much in bfloat16.
    wide = x.astype(jnp.float32)
    wide = wide * lax.rsqrt((wide**2).mean(-1, keepdims=True) + 1e-5)
    return wide.astype(x.dtype) * scale


def _attention(x: Array, weights: Tree, base: float) -> Array:
    """Computes grouped-query attention: a group of query heads shares a head of keys and values."""
    query = _rotate(jnp.einsum("btd,dgqe->btgqe", x, weights["query"]), base)
    key = _rotate(jnp.einsum("btd,dge->btge", x, weights["key"])[:, :, :, None], base)
    value = jnp.einsum("btd,dge->btge", x, weights["value"])
    heads = jax.vmap(partial(attend, causal=True), in_axes=(3, None, None), out_axes=3)(
        query, key[:, :, :, 0], value
    )
    return jnp.einsum("btgqe,gqed->btd", heads, weights["out"])


def _rotate(x: Array, base: float) -> Array:
    """Rotates pairs of elements by an angle that grows with the position (``[b, t, ..., e]``).

    Elements of the first half are paired with elements of the second half, as in the published
    checkpoints of Hugging Face.
    """
    length, half = x.shape[1], x.shape[-1] // 2
    rate = base ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = jnp.arange(length, dtype=jnp.float32)[:, None] * rate
    angle = angle.reshape(1, length, *[1] * (x.ndim - 3), half)
    sine, cosine = jnp.sin(angle).astype(x.dtype), jnp.cos(angle).astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate((a * cosine - b * sine, b * cosine + a * sine), axis=-1)
