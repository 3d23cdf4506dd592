"""The types of models of the zoo, and building blocks that several models share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

Tree = Any
"""Nested dicts and lists of arrays, or of values with a shape and a dtype."""


@dataclass(frozen=True)
class ModelOptions:
    """How a model is written: with ``batch`` samples, and layers ``unrolled`` or in a loop.

    ``remat``: only the input of a layer is kept, and the rest is recomputed. ``dtype``: the type of
    activations and computation; parameters and moments are float32.
    """

    batch: int
    unrolled: bool = False
    remat: bool = False
    dtype: str = "float32"


@dataclass(frozen=True)
class Inference:
    """Shapes of the parameters, of the cache of earlier tokens, and of new tokens; and the pass.

    ``step(parameters, cache, batch)`` returns the parameters, the cache, and the next logits.
    """

    name: str
    parameters: Tree
    cache: Tree
    batch: Tree
    step: Callable[[Tree, Tree, Tree], tuple[Tree, Tree, Array]]


@dataclass(frozen=True)
class Model:
    """Shapes of the parameters and of a batch, and the loss that is minimised."""

    name: str
    parameters: Tree
    batch: Tree
    loss: Callable[[Tree, Tree], Array]


def shape_struct(*shape: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    """Returns the shape of an array without allocating it."""
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


def token_shapes(how: ModelOptions, sequence: int) -> jax.ShapeDtypeStruct:
    """Returns the shape of a batch of token ids."""
    return shape_struct(how.batch, sequence, dtype="int32")


def stack_layers(layers: int, layer: Tree, how: ModelOptions) -> Tree:
    """Returns parameters of equal layers: stacked for a loop, else in a list (empty for none)."""
    if how.unrolled or not layers:
        return [layer] * layers
    return jax.tree.map(lambda leaf: shape_struct(layers, *leaf.shape), layer)


def repeat_layer(
    layer: Callable[[Array, Tree], Array], x: Array, weights: Tree, how: ModelOptions
) -> Array:
    """Applies one layer after the other, in a loop (``scan``) or unrolled."""
    run = jax.checkpoint(layer) if how.remat else layer
    if isinstance(weights, list):
        for layer_weights in weights:
            x = run(x, layer_weights)
        return x
    return lax.scan(lambda carried, slices: (run(carried, slices), None), x, weights)[0]


def cast_to(how: ModelOptions, tree: Tree) -> Tree:
    """Casts parameters, or a batch, to the type of the computation; integers stay."""
    kind = jnp.dtype(how.dtype)

    def cast(value: Array) -> Array:
        return value.astype(kind) if jnp.issubdtype(value.dtype, jnp.floating) else value

    return jax.tree.map(cast, tree)


def layer_norm(x: Array, weights: Tree, epsilon: float = 1e-5) -> Array:
    """Normalises the last dimension to mean 0 and variance 1, then scales and shifts."""
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return centred * lax.rsqrt(variance + epsilon) * weights["scale"] + weights["shift"]


def norm_shapes(width: int) -> Tree:
    """Returns the shapes of the parameters of ``layer_norm``."""
    return {"scale": shape_struct(width), "shift": shape_struct(width)}


def cross_entropy(logits: Array, classes: Array, counted: Array | None = None) -> Array:
    """Returns the mean cross entropy of logits and classes, in float32.

    ``counted``: the weight of each class in the mean, equal by default.
    """
    logits = logits.astype(jnp.float32)
    logits = logits - lax.stop_gradient(logits.max(-1, keepdims=True))
    right = jnp.take_along_axis(logits, classes[..., None], axis=-1)[..., 0]
    losses = jnp.log(jnp.exp(logits).sum(-1)) - right
    return losses.mean() if counted is None else (losses * counted).sum() / counted.sum()


def attention_shapes(width: int, heads: int) -> Tree:
    """Returns shapes with separate query, key and value; a fused ``[d, 3d]`` could not be cut."""
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
    """Returns multi-head attention of each token to all tokens, or (``causal``) to earlier ones."""
    return merge_heads(attend(**project(x, weights), how=Scores(causal)), weights)


def project(x: Array, weights: Tree) -> dict[str, Array]:
    """Returns query, key and value of each token and head."""
    return {
        name: jnp.einsum("btd,dhe->bthe", x, weights[name]) + weights[f"{name}_bias"]
        for name in ("query", "key", "value")
    }


def merge_heads(heads: Array, weights: Tree) -> Array:
    """Projects the outputs of all heads to one vector for each token."""
    return jnp.einsum("bthe,hed->btd", heads, weights["out"]) + weights["out_bias"]


def attend(query: Array, key: Array, value: Array, how: Scores) -> Array:
    """Returns the weights of keys for each query, times value; ``[batch, token, head, element]``.

    The weights are the softmax of query times key, divided by the root of a head's elements.
    ``how`` masks these scores, and changes them or the softmax where a model does. ``value`` may
    have fewer elements in a head than ``query`` and ``key``.
    """
    scores = jnp.einsum("bqhe,bkhe->bhqk", query, key) / (how.divisor or query.shape[-1] ** 0.5)
    scores = how.change(scores.astype(jnp.float32))
    if how.causal:
        shape = scores.shape[-2:]
        before = lax.broadcasted_iota(jnp.int32, shape, 0)
        before = before if how.first is None else before + how.first
        mask = before >= lax.broadcasted_iota(jnp.int32, shape, 1)
        scores = jnp.where(how.narrow(mask), scores, -1e30)
    weight = (how.softmax or jax.nn.softmax)(scores, axis=-1).astype(value.dtype)
    return jnp.einsum("bhqk,bkhe->bqhe", weight, value)


def two_layers_shapes(width: int, hidden: int) -> Tree:
    """Returns the shapes of the parameters of ``two_layers``."""
    return {
        "up": shape_struct(width, hidden),
        "up_bias": shape_struct(hidden),
        "down": shape_struct(hidden, width),
        "down_bias": shape_struct(width),
    }


def two_layers(x: Array, weights: Tree, act: Callable[[Array], Array]) -> Array:
    """Applies two linear layers with an activation function between them."""
    return act(x @ weights["up"] + weights["up_bias"]) @ weights["down"] + weights["down_bias"]


@dataclass(frozen=True)
class Scores:
    """How the scores of attention, float32 ``[batch, head, query, key]``, become weights of keys.

    ``causal``: later keys are masked; ``first`` is the position of the first query among the keys,
    0 by default. ``window``: keys further back than so many tokens are masked; 0: none is.
    ``divisor``: of the scores, by default the root of a head's elements. ``cap``: scores become
    ``cap * tanh(score / cap)``. ``slopes``: of each head, times the position of the key (ALiBi);
    ``sinks``: a logit of each head beside those of the keys.
    """

    causal: bool
    first: Array | None = None
    window: Array | int = 0
    divisor: float = 0.0
    cap: float = 0.0
    slopes: Array | None = None
    sinks: Array | None = None

    def change(self, scores: Array) -> Array:
        """Returns the scores, capped and with a bias by the position of the key."""
        if self.cap:
            scores = self.cap * jnp.tanh(scores / self.cap)
        if self.slopes is not None:
            place = lax.broadcasted_iota(jnp.float32, scores.shape[-2:], 1)
            scores = scores + self.slopes[:, None, None] * place
        return scores

    def narrow(self, mask: Array) -> Array:
        """Returns the mask without the keys before the window."""
        if isinstance(self.window, int) and not self.window:
            return mask
        query, key = (lax.broadcasted_iota(jnp.int32, mask.shape, axis) for axis in (0, 1))
        query = query if self.first is None else query + self.first
        return mask & (query - key < self.window)

    @property
    def softmax(self) -> Callable[..., Array] | None:
        """A softmax that has the sinks in its sum; None for the usual one."""
        return None if self.sinks is None else self._softmax_with_sinks

    def _softmax_with_sinks(self, scores: Array, axis: int) -> Array:
        assert self.sinks is not None
        sinks = self.sinks.astype(jnp.float32)[:, None, None]
        largest = lax.stop_gradient(jnp.maximum(scores.max(axis, keepdims=True), sinks))
        powers = jnp.exp(scores - largest)
        return powers / (powers.sum(axis, keepdims=True) + jnp.exp(sinks - largest))


def attend_after(query: Array, key: Array, value: Array, first: Array) -> Array:
    """Returns causal attention of queries that begin at position ``first`` of the keys."""
    return attend(query, key, value, Scores(causal=True, first=first))
