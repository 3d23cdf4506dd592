"""Decoders: Llama 3 (Grattafiori et al. 2024), with experts Mixtral 8x7B (Jiang et al. 2024).

Llama has rotary positions, grouped-query attention, RMS normalisation, SwiGLU, no biases, and a
last matrix of its own. In Mixtral, the best two of eight experts process each token. What other
decoders compute differently is in the ``form`` of their sizes (``synth.step.zoo.forms``).

Layers without experts that come before the others (DeepSeek) are not in the loop of layers. They
are always recomputed: on the first stage of a pipeline the most microbatches are in flight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import floor, log2
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from synth.step.zoo.experts import feed_forward, mixture, mixture_shapes, mlp_shapes
from synth.step.zoo.forms import Latent
from synth.step.zoo.models import (
    Model,
    ModelOptions,
    Scores,
    Tree,
    attend,
    cast_to,
    cross_entropy,
    layer_norm,
    norm_shapes,
    repeat_layer,
    shape_struct,
    stack_layers,
    token_shapes,
)
from synth.step.zoo.sizes import Decoder


def decoder(name: str, sizes: Decoder, how: ModelOptions) -> Model:
    """Returns the model with the cross entropy of all tokens and the batch's ``targets``."""
    form, dense = sizes.form, _dense(sizes)
    batch = {name: token_shapes(how, sizes.sequence) for name in ("tokens", "targets")}

    def loss(parameters: Tree, batch: Tree) -> Array:
        weights = cast_to(how, parameters)
        x = weights["embedding"][batch["tokens"]]
        if form.scaled_embedding:
            x = x * jnp.asarray(sizes.width**0.5, x.dtype)
        if form.embedding_norm:
            x = _norm(x, weights["embedding_norm"], sizes)
        first = weights.get("dense", [])
        x = repeat_layer(partial(_layer, sizes=dense), x, first, replace(how, remat=True))
        layers = _add_positions(weights["layers"], sizes)
        x = repeat_layer(partial(_layer, sizes=sizes), x, layers, how)
        return cross_entropy(_logits(x, weights, sizes), batch["targets"])

    return Model(name, _parameters(sizes, how), batch, loss)


def _parameters(sizes: Decoder, how: ModelOptions) -> Tree:
    form, width = sizes.form, sizes.width
    parameters = {
        "embedding": shape_struct(sizes.vocabulary, width),
        "layers": stack_layers(sizes.layers, _layer_shapes(sizes), how),
        "norm": _norm_shapes(sizes, width),
    }
    if form.embedding_norm:
        parameters["embedding_norm"] = _norm_shapes(sizes, width)
    if not form.tied:
        parameters["last"] = shape_struct(width, sizes.vocabulary)
    if form.last_bias:
        parameters["last_bias"] = shape_struct(sizes.vocabulary)
    if sizes.dense_layers:
        parameters["dense"] = [_layer_shapes(_dense(sizes))] * sizes.dense_layers
    return parameters


def _dense(sizes: Decoder) -> Decoder:
    """Returns the sizes of the layers without experts."""
    return replace(sizes, experts=1, hidden=sizes.dense_hidden or sizes.hidden)


def _logits(x: Array, weights: Tree, sizes: Decoder) -> Array:
    form = sizes.form
    last = weights["embedding"].T if form.tied else weights["last"]
    logits = _norm(x, weights["norm"], sizes) @ last
    if form.last_bias:
        logits = logits + weights["last_bias"]
    return form.logit_cap * jnp.tanh(logits / form.logit_cap) if form.logit_cap else logits


def _add_positions(layers: Tree, sizes: Decoder) -> Tree:
    """Adds the window and the rotary base of each layer to its weights, if layers differ in them.

    The last of every ``full_every`` layers attends to all tokens.
    """
    form = sizes.form
    if not form.full_every:
        return layers
    count = sizes.layers
    whole = [(at + 1) % form.full_every == 0 for at in range(count)]
    added: dict[str, list[Any]] = {}
    if sizes.reach:
        added["window"] = [sizes.sequence if full else sizes.reach for full in whole]
    if form.local_rope_base:
        added["base"] = [sizes.rope_base if full else form.local_rope_base for full in whole]
    if isinstance(layers, list):
        return [
            {**layer, **{name: values[at] for name, values in added.items()}}
            for at, layer in enumerate(layers)
        ]
    kinds = {"window": np.int32, "base": np.float32}
    return {**layers, **{name: np.array(values, kinds[name]) for name, values in added.items()}}


def _layer(x: Array, weights: Tree, *, sizes: Decoder) -> Array:
    form = sizes.form
    between = partial(mixture, sizes=sizes) if sizes.experts > 1 else feed_forward
    if form.parallel:
        normed = _norm(x, weights["attention_norm"], sizes)
        seen = _attention(normed, weights, sizes)
        if form.parallel == "two-norms":
            normed = _norm(x, weights["mlp_norm"], sizes)
        return x + seen + between(normed, weights["mlp"], form=form)
    before, after = form.norm_places != "after", form.norm_places != "before"
    normed = _norm(x, weights["attention_norm"], sizes) if before else x
    seen = _attention(normed, weights, sizes)
    x = x + (_norm(seen, weights["attention_after"], sizes) if after else seen)
    normed = _norm(x, weights["mlp_norm"], sizes) if before else x
    made = between(normed, weights["mlp"], form=form)
    return x + (_norm(made, weights["mlp_after"], sizes) if after else made)


def _layer_shapes(sizes: Decoder) -> Tree:
    form, width = sizes.form, sizes.width
    names = ["attention_norm", "mlp_norm"][: 1 if form.parallel == "one-norm" else 2]
    norms = names if form.norm_places != "after" else []
    if form.norm_places != "before":
        norms = [*norms, "attention_after", "mlp_after"]
    return {
        **_attention_shapes(sizes),
        **{name: _norm_shapes(sizes, width) for name in norms},
        "mlp": mlp_shapes(sizes) if sizes.experts == 1 else mixture_shapes(sizes),
    }


def _attention_shapes(sizes: Decoder) -> Tree:
    """Returns the shapes of the matrices of attention, and of its biases, norms and sinks."""
    form, width, head = sizes.form, sizes.width, sizes.head
    keys, group, latent = sizes.key_heads, sizes.heads // sizes.key_heads, form.latent
    into = {"query": (keys, group, head), "key": (keys, head), "value": (keys, sizes.value_head)}
    ranks = dict.fromkeys(into, width)
    shapes: dict[str, Tree] = {}
    if latent is not None:
        into["key"] = (keys, latent.plain_width)
        ranks |= {"key": latent.key_rank, "value": latent.key_rank}
        shapes["key_down"] = shape_struct(width, latent.key_rank + latent.rotary_width)
        shapes["key_down_norm"] = _norm_shapes(sizes, latent.key_rank)
        if latent.query_rank:
            ranks["query"] = latent.query_rank
            shapes["query_down"] = shape_struct(width, latent.query_rank)
            shapes["query_down_norm"] = _norm_shapes(sizes, latent.query_rank)
    shapes |= {name: shape_struct(ranks[name], *shape) for name, shape in into.items()}
    shapes["out"] = shape_struct(keys, group, sizes.value_head, width)
    if form.attention_bias:
        shapes |= {f"{name}_bias": shape_struct(*shape) for name, shape in into.items()}
    if form.output_bias:
        shapes["out_bias"] = shape_struct(width)
    if form.head_norm == "head":
        shapes |= {"query_scale": shape_struct(head), "key_scale": shape_struct(head)}
    if form.head_norm == "all":
        shapes |= {f"{name}_norm": shape_struct(*into[name]) for name in ("query", "key")}
    if form.sinks:
        shapes["sinks"] = shape_struct(keys, group)
    return shapes


def _norm_shapes(sizes: Decoder, width: int) -> Tree:
    return norm_shapes(width) if sizes.form.norm.startswith("layer") else shape_struct(width)


def _norm(x: Array, weights: Tree, sizes: Decoder) -> Array:
    kind, epsilon = sizes.form.norm, sizes.form.norm_epsilon
    if kind == "layer-plus-one":
        weights = {**weights, "scale": weights["scale"] + 1}
    if kind.startswith("layer"):
        return layer_norm(x, weights, epsilon)
    return _rms_norm(x, weights + 1 if kind == "rms-plus-one" else weights, epsilon)


def _rms_norm(x: Array, scale: Array, epsilon: float, axes: int | tuple[int, ...] = -1) -> Array:
    # The mean of squares loses too much in bfloat16.
    wide = x.astype(jnp.float32)
    wide = wide * lax.rsqrt((wide**2).mean(axes, keepdims=True) + epsilon)
    return wide.astype(x.dtype) * scale


def _attention(x: Array, weights: Tree, sizes: Decoder) -> Array:
    """Computes grouped-query attention: a group of query heads shares a head of keys and values."""
    form = sizes.form
    base = weights.get("base", sizes.rope_base)
    project = _project_latent if form.latent is not None else _project
    query, key, value = project(x, weights, sizes, base)
    window = weights.get("window", 0 if form.full_every else sizes.reach)
    by_head = {"sinks": weights["sinks"]} if form.sinks else {}
    if form.positions == "alibi":
        slopes = alibi_slopes(sizes.heads).reshape(sizes.key_heads, -1)
        by_head["slopes"] = jnp.asarray(slopes, jnp.float32)

    def attend_group(query: Array, by_head: Mapping[str, Array]) -> Array:
        divisor = 1 / form.score_scale if form.score_scale else 0.0
        how = Scores(True, window=window, divisor=divisor, cap=form.score_cap, **by_head)
        return attend(query, key, value, how)

    heads = jax.vmap(attend_group, in_axes=(3, 1), out_axes=3)(query, by_head)
    result = jnp.einsum("btgqe,gqed->btd", heads, weights["out"])
    return result + weights["out_bias"] if form.output_bias else result


def _project(x: Array, weights: Tree, sizes: Decoder, base: Any) -> tuple[Array, Array, Array]:
    """Returns queries ``[b, t, key head, group, e]``, keys and values ``[b, t, key head, e]``."""

    def project(name: str, into: str, axes: tuple[int, ...]) -> Array:
        made = jnp.einsum(into, x, weights[name])
        if f"{name}_bias" in weights:
            made = made + weights[f"{name}_bias"]
        if f"{name}_scale" in weights:
            scale = weights[f"{name}_scale"]
            scale = scale + 1 if sizes.form.norm == "rms-plus-one" else scale
            made = _rms_norm(made, scale, sizes.form.norm_epsilon)
        if f"{name}_norm" in weights:
            made = _rms_norm(made, weights[f"{name}_norm"], sizes.form.norm_epsilon, axes)
        return made

    query = _rotate_share(project("query", "btd,dgqe->btgqe", (-3, -2, -1)), sizes, base)
    key = project("key", "btd,dge->btge", (-2, -1))
    key = _rotate_share(key[:, :, :, None], sizes, base)
    value = project("value", "btd,dge->btge", ())
    return query, key[:, :, :, 0], value


def _project_latent(
    x: Array, weights: Tree, sizes: Decoder, base: Any
) -> tuple[Array, Array, Array]:
    """Returns the same by way of a few numbers of a token, which a cache would keep."""
    latent = sizes.form.latent
    assert isinstance(latent, Latent)
    source = x
    if latent.query_rank:
        source = _norm(x @ weights["query_down"], weights["query_down_norm"], sizes)
    query = jnp.einsum("btr,rgqe->btgqe", source, weights["query"])
    plain, rotary = query[..., : latent.plain_width], query[..., latent.plain_width :]
    query = jnp.concatenate((plain, _rotate(rotary, base)), axis=-1)
    down = x @ weights["key_down"]
    rotary = _rotate(down[:, :, None, latent.key_rank :], base)
    kept = _norm(down[..., : latent.key_rank], weights["key_down_norm"], sizes)
    key = jnp.einsum("btr,rge->btge", kept, weights["key"])
    rotary = jnp.broadcast_to(rotary, (*key.shape[:-1], latent.rotary_width))
    value = jnp.einsum("btr,rge->btge", kept, weights["value"])
    return query, jnp.concatenate((key, rotary), axis=-1), value


def alibi_slopes(heads: int) -> np.ndarray:
    """Returns the slope of each head (ALiBi, Press et al. 2022, and its code for other numbers).

    >>> alibi_slopes(6).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    """
    whole = 2 ** floor(log2(heads))
    first = 2.0 ** (-8 / whole * np.arange(1, whole + 1))
    between = 2.0 ** (-4 / whole * np.arange(1, 2 * (heads - whole), 2))
    return np.concatenate((first, between))


def _rotate_share(x: Array, sizes: Decoder, base: Any) -> Array:
    """Rotates the first elements of a head, by default all; none with other positions."""
    form = sizes.form
    rotated = int(sizes.head * form.rotary_share)
    if form.positions != "rotary":
        return x
    if rotated == sizes.head:
        return _rotate(x, base)
    return jnp.concatenate((_rotate(x[..., :rotated], base), x[..., rotated:]), axis=-1)


def _rotate(x: Array, base: Any) -> Array:
    """Rotates pairs of elements by an angle that grows with the position (``[b, t, ..., e]``).

    Elements of the first half are paired with elements of the second half, as in the published
    checkpoints of Hugging Face. Models that pair neighbours (DeepSeek, GLM-4) compute the same with
    the rows of their weights in another order.
    """
    length, half = x.shape[1], x.shape[-1] // 2
    rate = base ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = jnp.arange(length, dtype=jnp.float32)[:, None] * rate
    angle = angle.reshape(1, length, *[1] * (x.ndim - 3), half)
    sine, cosine = jnp.sin(angle).astype(x.dtype), jnp.cos(angle).astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate((a * cosine - b * sine, b * cosine + a * sine), axis=-1)
