"""An LSTM language model (Hochreiter and Schmidhuber 1997): time is a loop, too.

The four gates are one matrix ``[d, 4, d]``: a fused ``[d, 4d]`` could not be cut between devices.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from synth.step.zoo.models import (
    How,
    Model,
    Tree,
    computed_in,
    cross_entropy,
    repeated,
    shaped,
    stacked,
    tokens,
)
from synth.step.zoo.sizes import Lstm


def lstm(name: str, sizes: Lstm, how: How) -> Model:
    """The loss of every token but the first, as the batch's ``targets`` say."""
    width = sizes.width
    gates = shaped(width, 4, width)
    one = {"read": gates, "kept": gates, "bias": shaped(4, width)}
    parameters = {
        "embedding": shaped(sizes.vocabulary, width),
        "layers": stacked(sizes.layers, one, how),
        "last": {"weight": shaped(width, sizes.vocabulary), "bias": shaped(sizes.vocabulary)},
    }
    batch = {name: tokens(how, sizes.sequence) for name in ("tokens", "targets")}

    def loss(parameters: Tree, batch: Tree) -> Array:
        weights = computed_in(how, parameters)
        x = repeated(_layer, weights["embedding"][batch["tokens"]], weights["layers"], how)
        logits = x @ weights["last"]["weight"] + weights["last"]["bias"]
        return cross_entropy(logits, batch["targets"])

    return Model(name, parameters, batch, loss)


def _layer(x: Array, weights: Tree) -> Array:
    """All steps of time, each with what the one before has made and kept."""
    read = jnp.einsum("btd,dge->tbge", x, weights["read"]) + weights["bias"]

    def cell(before: tuple[Array, Array], at: Array) -> tuple[tuple[Array, Array], Array]:
        made, kept = before
        gates = at + jnp.einsum("bd,dge->bge", made, weights["kept"])
        into, forget, out = (jax.nn.sigmoid(gates[:, gate]) for gate in range(3))
        kept = forget * kept + into * jnp.tanh(gates[:, 3])
        made = out * jnp.tanh(kept)
        return (made, kept), made

    nothing = jnp.zeros((x.shape[0], x.shape[-1]), x.dtype)
    return lax.scan(cell, (nothing, nothing), read)[1].swapaxes(0, 1)
