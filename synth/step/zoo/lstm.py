"""An LSTM language model (Hochreiter and Schmidhuber 1997): time is a loop, too.

The four gates are one matrix ``[d, 4, d]``: a fused ``[d, 4d]`` could not be cut between devices.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from synth.step.zoo.models import (
    Model,
    ModelOptions,
    Tree,
    cast_to,
    cross_entropy,
    repeat_layer,
    shape_struct,
    stack_layers,
    token_shapes,
)
from synth.step.zoo.sizes import Lstm


def lstm(name: str, sizes: Lstm, how: ModelOptions) -> Model:
    """The loss of every token but the first, as the batch's ``targets`` say."""
    width = sizes.width
    gates = shape_struct(width, 4, width)
    one = {"read": gates, "kept": gates, "bias": shape_struct(4, width)}
    parameters = {
        "embedding": shape_struct(sizes.vocabulary, width),
        "layers": stack_layers(sizes.layers, one, how),
        "last": {
            "weight": shape_struct(width, sizes.vocabulary),
            "bias": shape_struct(sizes.vocabulary),
        },
    }
    batch = {name: token_shapes(how, sizes.sequence) for name in ("tokens", "targets")}

    def loss(parameters: Tree, batch: Tree) -> Array:
        weights = cast_to(how, parameters)
        x = repeat_layer(_layer, weights["embedding"][batch["tokens"]], weights["layers"], how)
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
