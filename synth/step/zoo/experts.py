"""A mixture of experts in place of a layer's MLP: a few of many, chosen for each token.

Two ways to bring tokens to experts. *Dispatched*: within each group of tokens, samples or parts of
long ones, every expert has its place for a fixed number of them, filled in their order, and what is
too much passes the experts by (GShard, Lepikhin et al. 2020; rows are looked up, no products with
zeros and ones). What lies by samples then lies by experts behind one all-to-all. *Dropless*: the
tokens of all the batch in the order of their experts, then one ragged product (MegaBlocks, Gale et
al. 2022), and nothing is left out; what is sorted is cut by nothing.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from synth.step.zoo.models import Tree, shape_struct
from synth.step.zoo.sizes import Llama

CAPACITY = 1.0
"""How many times its fair share of a group's tokens an expert takes: balanced, as it is trained to
be, nothing is left out, and none of the work is on empty places."""

GROUP = 4096
"""More tokens than these of a sample are dispatched in several groups, if powers of 2 divide it."""


def mixture_shapes(sizes: Llama) -> Tree:
    """Who is chosen, and SwiGLU of every expert."""
    into = shape_struct(sizes.experts, sizes.width, sizes.hidden)
    down = shape_struct(sizes.experts, sizes.hidden, sizes.width)
    return {
        "router": shape_struct(sizes.width, sizes.experts),
        "gate": into,
        "up": into,
        "down": down,
    }


def mixture(x: Array, weights: Tree, *, sizes: Llama) -> Array:
    """Each token by its chosen experts, their answers weighted by the softmax of their scores."""
    scores, chosen = lax.top_k((x @ weights["router"]).astype(jnp.float32), sizes.chosen)
    share = jax.nn.softmax(scores, axis=-1).astype(x.dtype)
    groups = (-1,) if sizes.dropless else (x.shape[0], _count_groups(x.shape[1]), -1)
    tokens, chosen, share = (one.reshape(*groups, one.shape[-1]) for one in (x, chosen, share))
    way = _route_dropless if sizes.dropless else _dispatch
    return way(tokens, chosen, share, weights).reshape(x.shape)


def _count_groups(length: int) -> int:
    """How many of a sample: a power of 2 that divides it."""
    count = 1
    while length > count * GROUP and length % (2 * count) == 0:
        count *= 2
    return count


def _dispatch(tokens: Array, chosen: Array, share: Array, weights: Tree) -> Array:
    """``[sample, group, token, ...]``; of each expert ``room`` places, each for one choice.

    A choice is a token and which of its experts. Places hold the number of a choice; those that
    are empty hold one more than there are, which is looked up as zero and added to nothing.
    """
    experts, (*groups, count, each) = weights["router"].shape[1], chosen.shape
    room = -(-int(CAPACITY * count * each) // experts)
    flat = chosen.reshape(*groups, count * each)
    order = jnp.argsort(flat, axis=-1)
    taken = (flat[..., None] == jnp.arange(experts)).sum(-2, dtype=jnp.int32)
    first = jnp.cumsum(taken, axis=-1) - taken
    place = first[..., None] + jnp.arange(room, dtype=jnp.int32)
    filled = jnp.arange(room, dtype=jnp.int32) < taken[..., None]
    choice = jnp.take_along_axis(order, place.reshape(*groups, -1), axis=-1, mode="clip")
    choice = jnp.where(filled.reshape(*groups, -1), choice, count * each)
    token = lax.div(choice, each)
    placed = (*groups, experts, room)
    sent = _take_rows(tokens, token).reshape(*placed, -1)
    weight = _take_rows(share.reshape(*groups, count * each), choice).reshape(placed)
    gate = jax.nn.silu(jnp.einsum("bgecd,edh->ebgch", sent, weights["gate"]))
    bent = gate * jnp.einsum("bgecd,edh->ebgch", sent, weights["up"])
    bent = bent * weight.transpose(2, 0, 1, 3)[..., None]
    made = jnp.einsum("ebgch,ehd->ebgcd", bent, weights["down"]).transpose(1, 2, 0, 3, 4)
    return _add_rows(jnp.zeros_like(tokens), token, made.reshape(*groups, experts * room, -1))


def _take_rows(of: Array, at: Array) -> Array:
    """Rows of each group, zeros where there is none."""

    def one(of: Array, at: Array) -> Array:
        return of.at[at].get(mode="fill", fill_value=0)

    return jax.vmap(jax.vmap(one))(of, at)


def _add_rows(to: Array, at: Array, rows: Array) -> Array:
    """Rows added up where they belong, in each group."""

    def one(to: Array, at: Array, rows: Array) -> Array:
        return to.at[at].add(rows, mode="drop")

    return jax.vmap(jax.vmap(one))(to, at, rows)


def _route_dropless(tokens: Array, chosen: Array, share: Array, weights: Tree) -> Array:
    """``[token, ...]``; ``order`` are the choices (token and which of its experts) by expert."""
    experts, each = weights["router"].shape[1], chosen.shape[1]
    order = jnp.argsort(chosen.reshape(-1))
    token = lax.div(order, each)
    sizes = (chosen.reshape(-1)[:, None] == jnp.arange(experts)).sum(0, dtype=jnp.int32)
    sent = tokens[token]
    gate = jax.nn.silu(lax.ragged_dot(sent, weights["gate"], sizes))
    bent = gate * lax.ragged_dot(sent, weights["up"], sizes)
    made = lax.ragged_dot(bent, weights["down"], sizes) * share.reshape(-1)[order][:, None]
    return jnp.zeros_like(tokens).at[token].add(made)
