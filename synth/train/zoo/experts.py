"""A mixture of experts in place of a layer's MLP: a few of many, chosen for each token.

Two ways to bring tokens to experts. *One-hot*: products with zeros and ones, every expert takes a
fixed number of tokens and what is too much is left out (GShard, Lepikhin et al. 2020). *Sorted*:
tokens in the order of their experts, then one ragged product (MegaBlocks, Gale et al. 2022),
and nothing is left out.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from synth.train.zoo.models import How, Tree, shaped
from synth.train.zoo.sizes import Llama

MARGIN = 1.25
"""How many times its fair share of the tokens an expert takes, one-hot."""


def mixture_shapes(sizes: Llama) -> Tree:
    """Who is chosen, and SwiGLU of every expert."""
    into = shaped(sizes.experts, sizes.width, sizes.hidden)
    down = shaped(sizes.experts, sizes.hidden, sizes.width)
    return {"router": shaped(sizes.width, sizes.experts), "gate": into, "up": into, "down": down}


def mixture(x: Array, weights: Tree, *, sizes: Llama, how: How) -> Array:
    """Each token by its chosen experts, their answers weighted by the softmax of their scores."""
    tokens = x.reshape(-1, sizes.width)
    scores, chosen = lax.top_k((tokens @ weights["router"]).astype(jnp.float32), sizes.chosen)
    share = jax.nn.softmax(scores, axis=-1).astype(x.dtype)
    way = _one_hot if how.one_hot else _sorted
    return way(tokens, weights, chosen, share).reshape(x.shape)


def _one_hot(tokens: Array, weights: Tree, chosen: Array, share: Array) -> Array:
    """``places[token, expert, place]`` is 1 where a token stands in an expert's buffer."""
    count, experts = tokens.shape[0], weights["router"].shape[1]
    room = -(-int(MARGIN * chosen.size) // experts)
    flat = jax.nn.one_hot(chosen.reshape(-1), experts, dtype=jnp.int32)
    place = ((jnp.cumsum(flat, axis=0) - 1) * flat).sum(-1)
    places = flat[:, :, None] * jax.nn.one_hot(place, room, dtype=jnp.int32)[:, None]
    places = places.reshape(count, -1, experts, room).astype(tokens.dtype)
    sent = jnp.einsum("tcer,td->erd", places, tokens)
    gate = jax.nn.silu(jnp.einsum("erd,edh->erh", sent, weights["gate"]))
    bent = gate * jnp.einsum("erd,edh->erh", sent, weights["up"])
    made = jnp.einsum("erh,ehd->erd", bent, weights["down"])
    return jnp.einsum("tcer,tc,erd->td", places, share, made)


def _sorted(tokens: Array, weights: Tree, chosen: Array, share: Array) -> Array:
    """``order`` are the choices (token and which of its experts) by expert."""
    experts, each = weights["router"].shape[1], chosen.shape[1]
    order = jnp.argsort(chosen.reshape(-1))
    token = lax.div(order, each)
    sizes = (chosen.reshape(-1)[:, None] == jnp.arange(experts)).sum(0, dtype=jnp.int32)
    sent = tokens[token]
    gate = jax.nn.silu(lax.ragged_dot(sent, weights["gate"], sizes))
    bent = gate * lax.ragged_dot(sent, weights["up"], sizes)
    made = lax.ragged_dot(bent, weights["down"], sizes) * share.reshape(-1)[order][:, None]
    return jnp.zeros_like(tokens).at[token].add(made)
