"""Mixture of experts in place of a layer's MLP: a few of the experts process each token.

There are two ways to route tokens. *Dispatched*: in each group of tokens, a sample or a part of a
long sample, every expert has a fixed capacity, which is filled in the order of tokens; overflowing
tokens skip the expert (GShard, Lepikhin et al. 2020, but with gathers instead of one-hot products).
One all-to-all turns a sharding by samples into a sharding by experts. *Dropless*: all tokens of the
batch are sorted by expert and go through one ragged product (MegaBlocks, Gale et al. 2022), so no
token is dropped; the sorted dimension cannot be sharded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from synth.step.zoo.forms import Form
from synth.step.zoo.models import Tree, shape_struct
from synth.step.zoo.sizes import Decoder

ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "silu": jax.nn.silu,
    "gelu": partial(jax.nn.gelu, approximate=False),
    "gelu-tanh": partial(jax.nn.gelu, approximate=True),
    "relu": jax.nn.relu,
    "relu2": lambda x: jnp.square(jax.nn.relu(x)),
}
CLIP = 7.0
"""The limit of gpt-oss, whose activation is ``clipped-swiglu`` (its ``swiglu_limit``)."""

CAPACITY = 1.0
"""The capacity of an expert, in multiples of its fair share of a group's tokens.

With a balanced router, the goal of its training, no token is dropped, and no work is wasted on
padding.
"""

GROUP = 4096
"""Longer samples are dispatched in several groups, if powers of 2 divide their length."""


def mlp_shapes(sizes: Decoder, *experts: int, hidden: int | None = None) -> Tree:
    """Returns the shapes of an MLP, or of that of each of ``experts``."""
    form, wide = sizes.form, hidden or sizes.hidden
    into = shape_struct(*experts, sizes.width, wide)
    shapes = {"up": into, "down": shape_struct(*experts, wide, sizes.width)}
    if form.gated:
        shapes["gate"] = into
    if form.mlp_bias:
        shapes |= {
            f"{name}_bias": shape_struct(*experts, shapes[name].shape[-1]) for name in shapes
        }
    return shapes


def feed_forward(x: Array, weights: Tree, *, form: Form) -> Array:
    """Applies an MLP to each token."""

    def into(name: str) -> Array:
        made = x @ weights[name]
        return made + weights[f"{name}_bias"] if form.mlp_bias else made

    result = _activate(into, form) @ weights["down"]
    return result + weights["down_bias"] if form.mlp_bias else result


def _activate(into: Callable[[str], Array], form: Form) -> Array:
    """Returns the hidden elements of an MLP; ``into`` multiplies its input by a named matrix."""
    if form.activation == "clipped-swiglu":
        gate, up = jnp.minimum(into("gate"), CLIP), jnp.clip(into("up"), -CLIP, CLIP)
        return (up + 1) * (gate * jax.nn.sigmoid(1.702 * gate))
    act = ACTIVATIONS[form.activation]
    return act(into("gate")) * into("up") if form.gated else act(into("up"))


def mixture_shapes(sizes: Decoder) -> Tree:
    """Returns the shapes of the router and of every expert's MLP; and of the shared one."""
    router = sizes.form.router
    shapes = {
        "router": shape_struct(sizes.width, sizes.experts),
        **mlp_shapes(sizes, sizes.experts),
    }
    if router.bias:
        shapes["router_bias"] = shape_struct(sizes.experts)
    if router.correction:
        shapes["correction"] = shape_struct(sizes.experts)
    if sizes.shared_hidden:
        shapes["shared"] = mlp_shapes(sizes, hidden=sizes.shared_hidden)
    return shapes


def mixture(x: Array, weights: Tree, *, sizes: Decoder, form: Form) -> Array:
    """Sums the results of each token's chosen experts, weighted by the router's scores.

    The shared experts, which process every token, are added.
    """
    scores, chosen = _choose(x, weights, sizes)
    share = scores.astype(x.dtype)
    groups = (-1,) if sizes.dropless else (x.shape[0], _count_groups(x.shape[1]), -1)
    tokens, chosen, share = (a.reshape(*groups, a.shape[-1]) for a in (x, chosen, share))
    route = _route_dropless if sizes.dropless else _dispatch
    result = route(tokens, chosen, share, weights, form).reshape(x.shape)
    if sizes.shared_hidden:
        result = result + feed_forward(x, weights["shared"], form=form)
    return result


def _choose(x: Array, weights: Tree, sizes: Decoder) -> tuple[Array, Array]:
    """Returns the scores of each token's chosen experts, in float32, and these experts."""
    router = sizes.form.router
    logits = x @ weights["router"]
    if router.bias:
        logits = logits + weights["router_bias"]
    logits = logits.astype(jnp.float32)
    if router.scores == "chosen-softmax":
        best, chosen = lax.top_k(logits, sizes.chosen)
        return jax.nn.softmax(best, axis=-1), chosen
    if router.scores == "softmax":
        scores = jax.nn.softmax(logits, axis=-1)
    else:
        scores = jax.nn.sigmoid(logits)
    ranked = lax.stop_gradient(scores)
    if router.correction:
        ranked = ranked + lax.stop_gradient(weights["correction"].astype(jnp.float32))
    if router.groups > 1:
        ranked = _mask_groups(ranked, sizes)
    chosen = lax.top_k(ranked, sizes.chosen)[1]
    share = jnp.take_along_axis(scores, chosen, axis=-1)
    if router.normalised:
        share = share / (share.sum(-1, keepdims=True) + 1e-20)
    return share * router.scale, chosen


def _mask_groups(ranked: Array, sizes: Decoder) -> Array:
    """Returns the scores of experts, with those outside of the best groups set to -1."""
    router = sizes.form.router
    by_group = ranked.reshape(*ranked.shape[:-1], router.groups, -1)
    best = lax.top_k(by_group, router.group_best)[0].sum(-1)
    kept = lax.top_k(best, router.chosen_groups)[1]
    inside = (kept[..., None] == jnp.arange(router.groups)).sum(-2, dtype=jnp.int32) > 0
    return jnp.where(inside[..., None], by_group, -1.0).reshape(ranked.shape)


def _count_groups(length: int) -> int:
    """Returns the number of groups of a sample: a power of 2 that divides its length."""
    count = 1
    while length > count * GROUP and length % (2 * count) == 0:
        count *= 2
    return count


def _dispatch(tokens: Array, chosen: Array, share: Array, weights: Tree, form: Form) -> Array:
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

    def into(name: str) -> Array:
        made = jnp.einsum("bgecd,edh->ebgch", sent, weights[name])
        return made + weights[f"{name}_bias"][:, None, None, None] if form.mlp_bias else made

    hidden = _activate(into, form)
    weight = weight.transpose(2, 0, 1, 3)[..., None]
    hidden = hidden * weight
    result = jnp.einsum("ebgch,ehd->ebgcd", hidden, weights["down"])
    if form.mlp_bias:
        result = result + weights["down_bias"][:, None, None, None] * weight
    result = result.transpose(1, 2, 0, 3, 4)
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


def _route_dropless(tokens: Array, chosen: Array, share: Array, weights: Tree, form: Form) -> Array:
    """Routes ``[token, ...]`` without dropping: ``order`` sorts the choices by expert."""
    experts, top = weights["router"].shape[1], chosen.shape[1]
    order = jnp.argsort(chosen.reshape(-1))
    token = lax.div(order, top)
    sizes = (chosen.reshape(-1)[:, None] == jnp.arange(experts)).sum(0, dtype=jnp.int32)
    sent = tokens[token]
    hidden = _activate(lambda name: lax.ragged_dot(sent, weights[name], sizes), form)
    result = lax.ragged_dot(hidden, weights["down"], sizes) * share.reshape(-1)[order][:, None]
    return jnp.zeros_like(tokens).at[token].add(result)
