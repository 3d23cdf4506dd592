"""A perceptron with dropout: another mask for each step, made of the step's number."""

import jax
import jax.numpy as jnp

KEPT = 0.8


def loss(parameters, batch):
    hidden = jax.nn.relu(batch["features"] @ parameters["first"])
    key = jax.random.fold_in(jax.random.key(7), batch["step"])
    _, drawn = jax.random.split(key)
    hidden = jnp.where(jax.random.bernoulli(drawn, KEPT, hidden.shape), hidden / KEPT, 0)
    return ((hidden @ parameters["second"] - batch["wanted"]) ** 2).mean()


def model():
    numbers = jax.ShapeDtypeStruct
    parameters = {"first": numbers((6, 16), jnp.float32), "second": numbers((16, 4), jnp.float32)}
    batch = {
        "features": numbers((8, 6), jnp.float32),
        "wanted": numbers((8, 4), jnp.float32),
        "step": numbers((), jnp.int32),
    }
    return loss, parameters, batch
