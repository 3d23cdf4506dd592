"""What a model of the zoo is, and the few pieces that several of them are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

Tree = Any
"""Nested dicts and lists of arrays, or of what has a shape and a dtype."""


@dataclass(frozen=True)
class ModelOptions:
    """How a model is written down: ``batch`` samples at once; layers one by one or as a loop.

    ``remat``: of a layer only its input is kept, the rest is computed again. ``dtype``: in which
    numbers it computes; parameters and moments are float32.
    """

    batch: int
    unrolled: bool = False
    remat: bool = False
    dtype: str = "float32"


@dataclass(frozen=True)
class Inference:
    """Shapes of the parameters, of what is kept of all tokens so far, and of new tokens; a pass.

    ``step(parameters, cache, batch)`` gives the parameters, the cache, and what comes next.
    """

    name: str
    parameters: Tree
    cache: Tree
    batch: Tree
    step: Callable[[Tree, Tree, Tree], tuple[Tree, Tree, Array]]


@dataclass(frozen=True)
class Model:
    """Shapes of the parameters and of a batch, and the loss that a step lowers."""

    name: str
    parameters: Tree
    batch: Tree
    loss: Callable[[Tree, Tree], Array]


def shape_struct(*shape: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    """An array that need not exist."""
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


def token_shapes(how: ModelOptions, sequence: int) -> jax.ShapeDtypeStruct:
    """A batch of token numbers."""
    return shape_struct(how.batch, sequence, dtype="int32")


def stack_layers(layers: int, layer: Tree, how: ModelOptions) -> Tree:
    """The parameters of equal layers: stacked for a loop, or in a list; none are an empty one."""
    if how.unrolled or not layers:
        return [layer] * layers
    return jax.tree.map(lambda one: shape_struct(layers, *one.shape), layer)


def repeat_layer(
    layer: Callable[[Array, Tree], Array], x: Array, weights: Tree, how: ModelOptions
) -> Array:
    """One layer after the other, as a loop (``scan``) or written out."""
    one = jax.checkpoint(layer) if how.remat else layer
    if isinstance(weights, list):
        for each in weights:
            x = one(x, each)
        return x
    return lax.scan(lambda carried, each: (one(carried, each), None), x, weights)[0]


def cast_to(how: ModelOptions, tree: Tree) -> Tree:
    """Parameters, or a batch, in the numbers that the model computes in; whole numbers stay."""
    kind = jnp.dtype(how.dtype)

    def one(value: Array) -> Array:
        return value.astype(kind) if jnp.issubdtype(value.dtype, jnp.floating) else value

    return jax.tree.map(one, tree)


def layer_norm(x: Array, weights: Tree) -> Array:
    """To mean 0 and variance 1 over the last dimension, then scaled and shifted."""
    middle = x - x.mean(-1, keepdims=True)
    variance = (middle**2).mean(-1, keepdims=True)
    return middle * lax.rsqrt(variance + 1e-5) * weights["scale"] + weights["shift"]


def norm_shapes(width: int) -> Tree:
    """The parameters of ``layer_norm``."""
    return {"scale": shape_struct(width), "shift": shape_struct(width)}


def cross_entropy(logits: Array, classes: Array, counted: Array | None = None) -> Array:
    """The mean of minus log of what the model gives to the right class, in float32.

    ``counted``: how much each of them counts; all alike if not given.
    """
    logits = logits.astype(jnp.float32)
    logits = logits - lax.stop_gradient(logits.max(-1, keepdims=True))
    right = jnp.take_along_axis(logits, classes[..., None], axis=-1)[..., 0]
    lost = jnp.log(jnp.exp(logits).sum(-1)) - right
    return lost.mean() if counted is None else (lost * counted).sum() / counted.sum()


def attention_shapes(width: int, heads: int) -> Tree:
    """Query, key and value apart, so that heads can be cut: a fused ``[d, 3d]`` cannot."""
    head = width // heads
    into = {name: shape_struct(width, heads, head) for name in ("query", "key", "value")}
    biases = {f"{name}_bias": shape_struct(heads, head) for name in ("query", "key", "value")}
    return {
        **into,
        **biases,
        "out": shape_struct(heads, head, width),
        "out_bias": shape_struct(width),
    }


def attention(x: Array, weights: Tree, *, causal: bool) -> Array:
    """Each token looks at all others, or at those before it, by several heads."""
    return merge_heads(attend(**project(x, weights), causal=causal), weights)


def project(x: Array, weights: Tree) -> dict[str, Array]:
    """Query, key and value of each token and head."""
    return {
        name: jnp.einsum("btd,dhe->bthe", x, weights[name]) + weights[f"{name}_bias"]
        for name in ("query", "key", "value")
    }


def merge_heads(seen: Array, weights: Tree) -> Array:
    """What the heads have seen, as one vector for each token."""
    return jnp.einsum("bthe,hed->btd", seen, weights["out"]) + weights["out_bias"]


def attend(
    query: Array, key: Array, value: Array, *, causal: bool, first: Array | None = None
) -> Array:
    """The softmax of query by key, times value; ``[batch, token, head, element]``.

    ``first``: the place of the first query among the keys, of which those after it are not seen.
    """
    scores = jnp.einsum("bqhe,bkhe->bhqk", query, key) / query.shape[-1] ** 0.5
    scores = scores.astype(jnp.float32)
    if causal:
        shape = scores.shape[-2:]
        before = lax.broadcasted_iota(jnp.int32, shape, 0)
        before = before if first is None else before + first
        mask = before >= lax.broadcasted_iota(jnp.int32, shape, 1)
        scores = jnp.where(mask, scores, -1e30)
    weight = jax.nn.softmax(scores, axis=-1).astype(value.dtype)
    return jnp.einsum("bhqk,bkhe->bqhe", weight, value)


def two_layers_shapes(width: int, hidden: int) -> Tree:
    """The parameters of ``two_layers``."""
    return {
        "up": shape_struct(width, hidden),
        "up_bias": shape_struct(hidden),
        "down": shape_struct(hidden, width),
        "down_bias": shape_struct(width),
    }


def two_layers(x: Array, weights: Tree, bend: Callable[[Array], Array]) -> Array:
    """Wider, bent, and back."""
    return bend(x @ weights["up"] + weights["up_bias"]) @ weights["down"] + weights["down_bias"]
