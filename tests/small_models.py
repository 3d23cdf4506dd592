"""Small models of many kinds, as functions of arrays: what random plans and traces are put to.

Most are a step of some optimizer, so that derivatives are there as well. Sizes are multiples of 4,
so that two axes of two cut any dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Function = Callable[..., Any]


@dataclass(frozen=True)
class SmallModel:
    """A function, the types of its arguments, and whether it may be computed in float64."""

    function: Function
    types: tuple[str, ...]
    widens: bool = True


def descent(loss: Function, rate: float = 0.5) -> Function:
    """One step of gradient descent on the first argument."""

    def step(weights: Any, *data: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(weights, *data)
        return value, weights - rate * gradient

    return step


# -- images


def _normalized(x: Any, axes: Any) -> Any:
    return (x - x.mean(axes, keepdims=True)) / jnp.sqrt(x.var(axes, keepdims=True) + 1e-3)


def _convolved(x: Any, w: Any, strides: int = 1, groups: int = 1) -> Any:
    numbers, both = ("NHWC", "HWIO", "NHWC"), (strides, strides)
    return lax.conv_general_dilated(
        x, w, both, "SAME", dimension_numbers=numbers, feature_group_count=groups
    )


def convolutions(w: Any, x: Any) -> Any:
    y = jax.nn.gelu(_normalized(_convolved(x, w), (0, 1, 2)))
    pooled = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return (pooled.mean((1, 2)) ** 2).sum()


def depthwise(w: Any, x: Any) -> Any:
    y = _normalized(_convolved(x, w, groups=4).reshape(4, 4, 4, 2, 2), (1, 2, 4))
    y = y.reshape(4, 4, 4, 4)
    summed = lax.reduce_window(y, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    up = jnp.repeat(jnp.repeat(summed, 2, 1), 2, 2)
    return jnp.abs(up - y).sum()


# -- attention


def _rotated(x: Any) -> Any:
    """Rotary embeddings as they are usually spelled."""
    length, size = x.shape[-2:]
    angles = jnp.arange(length)[:, None] / 100 ** (jnp.arange(0, size, 2) / size)
    sin, cos = (jnp.repeat(f(angles), 2, -1) for f in (jnp.sin, jnp.cos))
    turned = jnp.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
    return x * cos + turned * sin


def rotary_attention(w: Any, x: Any) -> Any:
    q, k, v = (jnp.einsum("bsd,dhe->bhse", x, one) for one in w)
    scores = jnp.einsum("bhqe,bhke->bhqk", _rotated(q), _rotated(k)) / 2
    mask = jnp.tril(jnp.ones((4, 4), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
    return (jnp.einsum("bhqk,bhke->bqhe", weights, v) ** 2).mean()


def grouped_attention(w: Any, x: Any) -> Any:
    """Four heads of queries to two of keys, in a window, with a soft cap."""
    q = (x @ w).reshape(4, 4, 4, 4)
    k = jnp.tile(x.reshape(4, 4, 2, 4), (1, 1, 2, 1))
    v = jnp.repeat(x.reshape(4, 4, 2, 4), 2, 2)
    scores = 5 * jnp.tanh(jnp.einsum("bqhe,bkhe->bhqk", q, k) / 5)
    ago = jnp.arange(4)[:, None] - jnp.arange(4)
    bias = -jnp.abs(ago) * 2.0 ** -jnp.arange(4.0)[:, None, None]
    seen = jnp.where((ago >= 0) & (ago < 2), scores + bias, -jnp.inf)
    return (jnp.einsum("bhqk,bkhe->bqhe", jax.nn.softmax(seen), v) ** 2).sum()


def linear_attention(w: Any, x: Any) -> Any:
    q, k = jax.nn.elu(x @ w[0]) + 1, jax.nn.elu(x @ w[1]) + 1
    state = jnp.cumsum(k[..., :, None] * x[..., None, :], 1)
    total = jnp.cumsum(k, 1)
    made = jnp.einsum("bsd,bsde->bse", q, state) / (q * total).sum(-1, keepdims=True)
    return jnp.log(jnp.cosh(made)).sum()


def cached_attention(cache: Any, x: Any, at: Any) -> Any:
    """One token, and the cache of those before it."""
    cache = lax.dynamic_update_slice(cache, x[:, None], (jnp.int32(0), at[0], jnp.int32(0)))
    scores = jnp.einsum("bd,bsd->bs", x, cache)
    weights = jax.nn.softmax(jnp.where(jnp.arange(8) <= at[0], scores, -1e9))
    recent = lax.dynamic_slice(cache, (jnp.int32(0), at[1], jnp.int32(0)), (4, 4, 8))
    return cache, jnp.einsum("bs,bsd->bd", weights, cache), recent.mean(1)


# -- experts


def experts_by_capacity(w: Any, x: Any, router: Any) -> Any:
    probabilities = jax.nn.softmax(x @ router)
    best, chosen = lax.top_k(probabilities, 2)
    dispatch = jax.nn.one_hot(chosen, 4).sum(1)
    place = jnp.cumsum(dispatch, 0) * dispatch
    kept = (place <= 4) * dispatch
    each = jnp.einsum("te,td,edf->tef", kept, x, w)
    return (each * probabilities[..., None]).sum() + (best**2).sum()


def experts_by_sorting(w: Any, x: Any, router: Any) -> Any:
    chosen = jnp.argmax(x @ router, -1)
    order = jnp.argsort(chosen)
    sizes = jnp.bincount(chosen, length=4)
    made = lax.ragged_dot(x[order], w, sizes.astype(jnp.int32))
    return (jnp.zeros_like(made).at[order].set(made, unique_indices=True) * x).sum()


# -- loops


def lstm(w: Any, x: Any) -> Any:
    def cell(state: Any, token: Any) -> Any:
        hidden, cell = state
        i, f, g, o = jnp.split(jnp.concatenate([hidden, token], -1) @ w, 4, -1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    (_, last), every = lax.scan(cell, (jnp.zeros((4, 4)), x[0]), x)
    return (every**2).mean() + last.sum()


def state_space(w: Any, x: Any) -> Any:
    """A diagonal state space, by an associative scan."""
    decay = jax.nn.sigmoid(x @ w)

    def joined(one: Any, other: Any) -> Any:
        return one[0] * other[0], one[1] * other[0] + other[1]

    _, states = lax.associative_scan(joined, (decay, (1 - decay) * x), axis=1)
    return (states * x).sum()


def remade(w: Any, x: Any) -> Any:
    @jax.checkpoint
    def layer(y: Any, one: Any) -> Any:
        return y + lax.optimization_barrier(jax.nn.silu(y @ one)) @ one.T

    y, norms = lax.scan(lambda c, one: (layer(c, one), (c**2).sum()), x, w)
    return (y**2).mean() + norms.sum()


# -- by indices, sorts, whole numbers, booleans


def graph_network(w: Any, x: Any, edges: Any) -> Any:
    sent = jax.nn.relu(x[edges[0]] @ w)
    added = jax.ops.segment_sum(sent, edges[1], 8)
    largest = jnp.zeros_like(x).at[edges[1]].max(sent)
    scaled = x * jnp.ones_like(x).at[edges[0]].multiply(1 + lax.stop_gradient(sent))
    return (added * largest).sum() + scaled.mean()


def embedding(table: Any, tokens: Any, weights: Any) -> Any:
    looked = jnp.take(table, tokens, axis=0, fill_value=0)
    scores = jnp.einsum("bsd,vd->bsv", looked, table) * weights[..., None]
    picked = jnp.take_along_axis(jax.nn.log_softmax(scores), tokens[..., None], -1)
    return -(picked[..., 0] * (tokens != 3)).sum() / (tokens != 3).sum()


def sorted_numbers(x: Any, y: Any) -> Any:
    order = jnp.argsort(x, -1, descending=True)
    middle = jnp.median(x, -1)
    both = jnp.lexsort((y[0], jnp.round(x[0])))
    return (
        x[jnp.arange(4)[:, None], order],
        middle,
        both,
        lax.approx_max_k(y, 2),
        jnp.quantile(y, 0.3),
    )


def histograms(x: Any, edges: Any, counts: Any) -> Any:
    ordered = jnp.sort(edges)
    places = jnp.searchsorted(ordered, x.ravel())
    return places, jnp.histogram(x, bins=4, range=(-1, 1))[0], jnp.bincount(counts, length=8)


def whole_numbers(a: Any, b: Any) -> Any:
    mixed = (a * 31 + b) ^ (a << 3) ^ (b >> 1)
    hashed = (mixed * jnp.int32(-1640531527)) & 7
    return (
        hashed,
        a % 3,
        a // b,
        lax.population_count(mixed),
        jnp.cumsum(a, 1),
        mixed.sum(0),
        a.min(),
    )


def booleans(x: Any, y: Any) -> Any:
    near = jnp.abs(x - y) < 0.5
    both = near & (x > 0) | (y < -1)
    first = jnp.argmax(both, 1)
    return both.any(0), near.all(1), first, ~near ^ both, jnp.where(both, x, y).max(0), both.sum()


def special_functions(x: Any, y: Any) -> Any:
    positive = jax.nn.softplus(x) + 0.5
    angles = jnp.arctan2(jnp.sinh(x), jnp.cosh(y)) + jnp.arcsinh(x)
    logs = jax.scipy.special.gammaln(positive) + jax.scipy.special.digamma(positive)
    spread = jax.scipy.special.erfinv(jnp.tanh(x) * 0.9) + jnp.log1p(jnp.exp(-jnp.abs(y)))
    return (
        angles,
        logs.sum(0),
        spread.max(1),
        jnp.logaddexp(x, y).mean(),
        jnp.sinc(y),
    )


def losses(logits: Any, labels: Any, target: Any) -> Any:
    smooth = jax.nn.one_hot(labels, 8) * 0.9 + 0.1 / 8
    logs = jax.nn.log_softmax(logits)
    focal = -((1 - jnp.exp(logs)) ** 2 * smooth * logs).sum(-1)
    gap = jnp.abs(logits - target)
    huber = jnp.where(gap < 1, gap**2 / 2, gap - 0.5)
    contrast = jax.nn.logsumexp(logits @ target.T, -1) - (logits * target).sum(-1)
    return (
        focal.mean()
        + huber.sum()
        + contrast.max()
        + jnp.select([gap > 1, gap > 2], [gap, 2 * gap]).sum()
    )


def dropout(w: Any, x: Any) -> Any:
    first, second = jax.random.split(jax.random.PRNGKey(3))
    kept = jax.random.bernoulli(first, 0.8, x.shape)
    noise = jax.random.normal(second, x.shape)
    return (jnp.where(kept, x / 0.8, 0) @ w + 0.1 * noise[:, :4]).sum()


def raw_keys(w: Any, x: Any, seeds: Any) -> Any:
    """A key for each sample, raw ones among them, and their words as numbers."""
    keys = jax.vmap(jax.random.fold_in)(jax.vmap(jax.random.PRNGKey)(seeds), seeds)
    noise = jax.vmap(lambda key: jax.random.uniform(jax.random.split(key, 3)[1], (8,)))(keys)
    words = jax.random.key_data(jax.random.split(jax.random.key(5), 4)) ^ keys
    return (((x + noise) @ w) * (words[:, :1] >> 8).astype(jnp.float32)).sum() / 2**24


# -- optimizers that work on matrices


def _gradient(w: Any, x: Any, y: Any) -> Any:
    return jax.grad(lambda one: ((jnp.tanh(x @ one) - y) ** 2).mean())(w)


def adafactor(w: Any, x: Any, y: Any, rows: Any, columns: Any) -> Any:
    square = _gradient(w, x, y) ** 2 + 1e-3
    rows = 0.9 * rows**2 + 0.1 * square.mean(1)
    columns = 0.9 * columns**2 + 0.1 * square.mean(0)
    update = _gradient(w, x, y) * lax.rsqrt(rows / rows.mean() + 1e-3)[:, None]
    update *= lax.rsqrt(columns + 1e-3)
    size = jnp.sqrt((update**2).mean())
    return w - 0.1 * update / jnp.maximum(1.0, size), rows, columns


def muon(w: Any, x: Any, y: Any, moment: Any) -> Any:
    moment = 0.9 * moment + _gradient(w, x, y)
    direction = moment / (jnp.linalg.norm(moment) + 1e-3)
    for _ in range(2):
        square = direction @ direction.T
        direction = 3.4 * direction + (-4.7 * square + 2.0 * square @ square) @ direction
    return w - 0.1 * direction, moment


def shampoo(w: Any, x: Any, y: Any, left: Any) -> Any:
    """The inverse root of a matrix by coupled Newton iterations, as there are no eigenvalues."""
    gradient = _gradient(w, x, y)
    left = left @ left.T + gradient @ gradient.T + 0.1 * jnp.eye(8)
    scale = jnp.trace(left)
    whole, root = left / scale, jnp.eye(8)
    for _ in range(2):
        turn = 1.5 * jnp.eye(8) - 0.5 * whole
        whole, root = turn @ turn @ whole, root @ turn
    return w - 0.1 * root @ gradient / jnp.sqrt(scale), left


def lion(w: Any, x: Any, y: Any, moment: Any) -> Any:
    gradient = _gradient(w, x, y)
    gradient *= jnp.minimum(1.0, 0.1 / jnp.sqrt((gradient**2).sum()))
    update = jnp.sign(0.9 * moment + 0.1 * gradient)
    return w - 0.1 * (update + 0.01 * w), 0.99 * moment + 0.01 * gradient, jnp.diag(w @ w.T)


MATRICES = ("f32[8,4]", "f32[8,8]", "f32[8,4]")
MODELS: Mapping[str, SmallModel] = {
    "convolutions": SmallModel(descent(convolutions), ("f32[3,3,4,4]", "f32[4,4,4,4]")),
    "depthwise": SmallModel(descent(depthwise), ("f32[3,3,1,4]", "f32[4,4,4,4]")),
    "rotary attention": SmallModel(descent(rotary_attention), ("f32[3,8,2,4]", "f32[4,4,8]")),
    "grouped attention": SmallModel(descent(grouped_attention), ("f32[8,16]", "f32[4,4,8]")),
    "linear attention": SmallModel(descent(linear_attention), ("f32[2,8,8]", "f32[4,4,8]")),
    "cached attention": SmallModel(cached_attention, ("f32[4,8,8]", "f32[4,8]", "i32[2]")),
    "experts by capacity": SmallModel(
        descent(experts_by_capacity), ("f32[4,8,4]", "f32[8,8]", "f32[8,4]")
    ),
    "experts by sorting": SmallModel(
        descent(experts_by_sorting), ("f32[4,8,8]", "f32[8,8]", "f32[8,4]")
    ),
    "lstm": SmallModel(descent(lstm), ("f32[8,16]", "f32[3,4,4]")),
    "state space": SmallModel(descent(state_space), ("f32[8,8]", "f32[4,4,8]")),
    "remade": SmallModel(descent(remade), ("f32[2,8,4]", "f32[4,8]")),
    "graph network": SmallModel(descent(graph_network), ("f32[4,4]", "f32[8,4]", "i32[2,12]")),
    "embedding": SmallModel(descent(embedding), ("f32[8,4]", "i32[4,4]", "f32[4,4]")),
    "sorted numbers": SmallModel(sorted_numbers, ("f32[4,8]", "f32[4,8]")),
    "histograms": SmallModel(histograms, ("f32[4,4]", "f32[8]", "i32[8]")),
    "whole numbers": SmallModel(whole_numbers, ("i32[4,8]", "i32[4,8]")),
    "booleans": SmallModel(booleans, ("f32[4,8]", "f32[4,8]")),
    "special functions": SmallModel(special_functions, ("f32[4,8]", "f32[4,8]")),
    "losses": SmallModel(descent(losses), ("f32[4,8]", "i32[4]", "f32[4,8]")),
    "dropout": SmallModel(descent(dropout), ("f32[8,4]", "f32[4,8]"), widens=False),
    "raw keys": SmallModel(descent(raw_keys), ("f32[8,4]", "f32[4,8]", "i32[4]"), widens=False),
    "adafactor": SmallModel(adafactor, (*MATRICES, "f32[8]", "f32[4]")),
    "muon": SmallModel(muon, (*MATRICES, "f32[8,4]")),
    "shampoo": SmallModel(shampoo, (*MATRICES, "f32[8,8]")),
    "lion": SmallModel(lion, (*MATRICES, "f32[8,4]")),
}
