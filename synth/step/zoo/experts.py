"""Mixture of experts in place of a layer's MLP: a few of the experts process each token.

There are two ways to route tokens. *Dispatched*: in each group of tokens, a sample or a part of a
long sample, every expert has a fixed capacity, which is filled in the order of tokens; overflowing
tokens skip the expert (GShard, Lepikhin et al. 2020, but with gathers instead of one-hot products).
One all-to-all turns a sharding by samples into a sharding by experts. *Dropless*: all tokens of the
batch are sorted by expert and go through one ragged product (MegaBlocks, Gale et al. 2022), so no
token is dropped; the sorted dimension cannot be sharded.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from synth.step.zoo.models import Tree, shape_struct
from synth.step.zoo.sizes import Llama

CAPACITY = 1.0
"""The capacity of an expert, in multiples of its fair share of a group's tokens.

With a balanced router, the goal of its training, no token is dropped, and no work is wasted on
padding.
"""

GROUP = 4096
"""Longer samples are dispatched in several groups, if powers of 2 divide their length."""


def mixture_shapes(sizes: Llama) -> Tree:
    """Returns the shapes of the router and of every expert's SwiGLU."""
    into = shape_struct(sizes.experts, sizes.width, sizes.hidden)
    down = shape_struct(sizes.experts, sizes.hidden, sizes.width)
    return {
        "router": shape_struct(sizes.width, sizes.experts),
        "gate": into,
        "up": into,
        "down": down,
    }


def mixture(x: Array, weights: Tree, *, sizes: Llama) -> Array:
    """Sums the results of each token's chosen experts, weighted by the softmax of their scores."""
    scores, chosen = lax.top_k((x @ weights["router"]).astype(jnp.float32), sizes.chosen)
    share = jax.nn.softmax(scores, axis=-1).astype(x.dtype)
    groups = (-1,) if sizes.dropless else (x.shape[0], _count_groups(x.shape[1]), -1)
    tokens, chosen, share = (a.reshape(*groups, a.shape[-1]) for a in (x, chosen, share))
    route = _route_dropless if sizes.dropless else _dispatch
    return route(tokens, chosen, share, weights).reshape(x.shape)


def _count_groups(length: int) -> int:
    """Returns the number of groups of a sample: a power of 2 that divides its length."""
    count = 1
    while length > count * GROUP and length % (2 * count) == 0:
        count *= 2
    return count


def _dispatch(tokens: Array, chosen: Array, share: Array, weights: Tree) -> Array:
    """Dispatches ``[sample, group, token, ...]`` to ``room`` slots of each expert.

    A choice is a pair of a token and one of its experts. Slots hold the index of a choice. Empty
    slots hold an index out of bounds, which reads as zero and is dropped on writes.
    """
    experts, (*groups, count, top) = weights["router"].shape[1], chosen.shape
    room = -(-int(CAPACITY * count * top) // experts)
    flat = chosen.reshape(*groups, count * top)
    order = jnp.argsort(flat, axis=-1)
    load = (flat[..., None] == jnp.arange(experts)).sum(-2, dtype=jnp.int32)
    first = jnp.cumsum(load, axis=-1) - load
    place = first[..., None] + jnp.arange(room, dtype=jnp.int32)
    filled = jnp.arange(room, dtype=jnp.int32) < load[..., None]
    choice = jnp.take_along_axis(order, place.reshape(*groups, -1), axis=-1, mode="clip")
    choice = jnp.where(filled.reshape(*groups, -1), choice, count * top)
    token = lax.div(choice, top)
    placed = (*groups, experts, room)
    sent = _take_rows(tokens, token).reshape(*placed, -1)
    weight = _take_rows(share.reshape(*groups, count * top), choice).reshape(placed)
    gate = jax.nn.silu(jnp.einsum("bgecd,edh->ebgch", sent, weights["gate"]))
    hidden = gate * jnp.einsum("bgecd,edh->ebgch", sent, weights["up"])
    hidden = hidden * weight.transpose(2, 0, 1, 3)[..., None]
    result = jnp.einsum("ebgch,ehd->ebgcd", hidden, weights["down"]).transpose(1, 2, 0, 3, 4)
    return _add_rows(jnp.zeros_like(tokens), token, result.reshape(*groups, experts * room, -1))


def _take_rows(of: Array, at: Array) -> Array:
    """Gathers rows in each group, zeros for indices out of bounds."""

    def take(of: Array, at: Array) -> Array:
        return of.at[at].get(mode="fill", fill_value=0)

    return jax.vmap(jax.vmap(take))(of, at)


def _add_rows(to: Array, at: Array, rows: Array) -> Array:
    """Adds rows at their indices in each group, dropping indices out of bounds."""

    def add(to: Array, at: Array, rows: Array) -> Array:
        return to.at[at].add(rows, mode="drop")

    return jax.vmap(jax.vmap(add))(to, at, rows)


def _route_dropless(tokens: Array, chosen: Array, share: Array, weights: Tree) -> Array:
    """Routes ``[token, ...]`` without dropping: ``order`` sorts the choices by expert."""
    experts, top = weights["router"].shape[1], chosen.shape[1]
    order = jnp.argsort(chosen.reshape(-1))
    token = lax.div(order, top)
    sizes = (chosen.reshape(-1)[:, None] == jnp.arange(experts)).sum(0, dtype=jnp.int32)
    sent = tokens[token]
    gate = jax.nn.silu(lax.ragged_dot(sent, weights["gate"], sizes))
    hidden = gate * lax.ragged_dot(sent, weights["up"], sizes)
    result = lax.ragged_dot(hidden, weights["down"], sizes) * share.reshape(-1)[order][:, None]
    return jnp.zeros_like(tokens).at[token].add(result)
