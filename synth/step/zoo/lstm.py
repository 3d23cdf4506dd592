"""An LSTM language model (Hochreiter and Schmidhuber 1997), with a loop over time in each layer.

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
    """Returns the model with the cross entropy of all tokens and the batch's ``targets``."""
    width = sizes.width
    gates = shape_struct(width, 4, width)
    layer = {"read": gates, "kept": gates, "bias": shape_struct(4, width)}
    parameters = {
        "embedding": shape_struct(sizes.vocabulary, width),
        "layers": stack_layers(sizes.layers, layer, how),
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
    """Scans a layer over time; each cell reads the output and the state of the previous cell."""
    read = jnp.einsum("btd,dge->tbge", x, weights["read"]) + weights["bias"]

    def cell(before: tuple[Array, Array], at: Array) -> tuple[tuple[Array, Array], Array]:
        output, state = before
        gates = at + jnp.einsum("bd,dge->bge", output, weights["kept"])
        into, forget, out = (jax.nn.sigmoid(gates[:, gate]) for gate in range(3))
        state = forget * state + into * jnp.tanh(gates[:, 3])
        output = out * jnp.tanh(state)
        return (output, state), output

    zeros = jnp.zeros((x.shape[0], x.shape[-1]), x.dtype)
    return lax.scan(cell, (zeros, zeros), read)[1].swapaxes(0, 1)
