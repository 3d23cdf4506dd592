"""Whole steps: the loss, its gradients, and the update of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from synth.step.zoo.models import Tree, shape_struct

Loss = Callable[[Tree, Tree], Array]
StepFunction = Callable[[Tree, Tree, Tree], tuple[Tree, Tree, Array]]


@dataclass(frozen=True)
class Optimizer:
    """The moments for given parameters, and the training step for a given loss."""

    moments: Callable[[Tree], Tree]
    step: Callable[[Loss], StepFunction]


def _adamw_moments(parameters: Tree) -> Tree:
    shapes = jax.tree.map(lambda leaf: shape_struct(*leaf.shape), parameters)
    return {"mean": shapes, "square": shapes, "count": shape_struct(dtype="int32")}


def _adamw(loss: Loss, rate: float = 1e-3, decay: float = 0.1) -> StepFunction:
    """Returns a step by Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""

    def step(parameters: Tree, moments: Tree, batch: Tree) -> tuple[Tree, Tree, Array]:
        value, gradients = jax.value_and_grad(loss)(parameters, batch)
        count = moments["count"] + 1
        time = count.astype(jnp.float32)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments["mean"], gradients)
        square = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, moments["square"], gradients)

        def update(parameter: Array, m: Array, v: Array) -> Array:
            m, v = m / (1 - 0.9**time), v / (1 - 0.95**time)
            return parameter - rate * (m / (jnp.sqrt(v) + 1e-8) + decay * parameter)

        new = jax.tree.map(update, parameters, mean, square)
        return new, {"mean": mean, "square": square, "count": count}, value

    return step


def _sgd(loss: Loss, rate: float = 0.1) -> StepFunction:
    """Returns a step by stochastic gradient descent without momentum."""

    def step(parameters: Tree, moments: Tree, batch: Tree) -> tuple[Tree, Tree, Array]:
        value, gradients = jax.value_and_grad(loss)(parameters, batch)
        new = jax.tree.map(lambda parameter, g: parameter - rate * g, parameters, gradients)
        return new, moments, value

    return step


OPTIMIZERS: Mapping[str, Optimizer] = {
    "adamw": Optimizer(_adamw_moments, _adamw),
    "sgd": Optimizer(lambda parameters: {}, _sgd),
}
"""The optimizers by name."""
