"""Arrays that a model closes over: emitted files have their values, and compute with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")

import jax
import jax.numpy as jnp
from jax import lax

from emitted_steps import called, emitted, first_inputs
from grammar.tensors.operations import Step
from grammar.tensors.parser import parse_step
from ranks_in_threads import in_threads
from synth.step.emit import write
from synth.step.sharding import apply, parse_recipe, plan_of, prepare_step
from synth.step.trace.tracing import trace_step
from synth.step.trials import split_stacks

RUNTIMES = ("jax", "torch")
MASK = np.tril(np.ones((8, 8)))  # float64, which JAX makes float32
PLACES = np.arange(8)
KEY = jax.random.key(5)
WORDS = jax.random.PRNGKey(9)
CHOICE = np.array([True, False] * 4)
TABLE = jnp.asarray(np.linspace(-3, 3, 64).reshape(8, 8), jnp.bfloat16)
STACK = np.linspace(-1, 1, 4 * 8).reshape(4, 8).astype(np.float32)


def scanned(x: Any) -> Any:
    """A mask and a key inside a loop, and a stack that it scans."""

    def layer(carried: Any, row: Any) -> tuple[Any, None]:
        kept = jax.random.bernoulli(jax.random.fold_in(KEY, 1), 0.5, (8,))
        return jnp.where(kept, carried @ MASK + row, carried), None

    return lax.scan(layer, x, STACK)[0]


LOSSES = {
    "mask": lambda x: x * MASK,
    "whole numbers": lambda x: x + jnp.asarray(PLACES) + PLACES[:, None],
    "booleans": lambda x: jnp.where(CHOICE, x, -x),
    "half precision": lambda x: x + TABLE.astype(jnp.float32),
    "words": lambda x: x + (jnp.asarray(WORDS)[0] + jnp.uint32(3)).astype(jnp.float32),
    "a key": lambda x: x * jax.random.bernoulli(KEY, 0.5, x.shape),
    "an old key": lambda x: x * jax.random.bernoulli(WORDS, 0.5, x.shape),
    "two keys": lambda x: x * jax.random.uniform(KEY, x.shape) + jax.random.uniform(KEY, (8,)),
    "inside a loop": scanned,
}
BATCH = jax.ShapeDtypeStruct((8, 8), jnp.float32)


def step_of(loss: Any) -> Step:
    return trace_step("own", lambda p, m, b: (p, m, loss(b)), ({}, {}, BATCH))


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", LOSSES)
def test_a_file_computes_what_the_function_does(name: str, runtime: str) -> None:
    step = parse_step(str(step_of(LOSSES[name])))
    assert step.constants
    names = emitted(runtime, step)
    given = first_inputs(step) | {key: np.asarray(x) for key, x in plain(names).items()}
    found = called(runtime, names, [given[one.name] for one in step.graph.inputs])
    wanted = LOSSES[name](jnp.asarray(given["batch"]))
    np.testing.assert_allclose(found[0], wanted, rtol=1e-5, atol=1e-6)


def plain(names: dict[str, Any]) -> dict[str, Any]:
    """The arrays of a file as numpy has them."""
    found = {}
    for key, array in names["captured"]().items():
        narrow = str(array.dtype) == "torch.bfloat16"
        found[key] = array.float().numpy().astype(jnp.bfloat16) if narrow else array
    return found


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_file_of_a_model_that_closes_over_nothing_has_no_word_of_it(runtime: str) -> None:
    step = trace_step("own", lambda p, m, b: (p, m, b.sum()), ({}, {}, BATCH))
    text = write_alone(runtime, step)
    assert "captured()" not in text
    assert "zlib" not in text


def write_alone(runtime: str, step: Step) -> str:
    plan = plan_of(step, parse_recipe("data=2; batch over data"))
    return write(runtime, step, apply(step, plan), plan.sizes)


def layered(parameters: Any, x: Any) -> Any:
    """Four layers, each with a row of its own that the model closes over."""

    def layer(carried: Any, one: Any) -> tuple[Any, None]:
        weight, row = one
        return jnp.tanh(carried @ weight + row), None

    return (lax.scan(layer, x @ jnp.asarray(MASK), (parameters, STACK))[0] ** 2).mean()


def test_stages_have_the_values_of_their_own_layers() -> None:
    def whole(parameters: Any, moments: Any, x: Any) -> Any:
        loss, gradient = jax.value_and_grad(layered)(parameters, x)
        return parameters - 0.1 * gradient, moments, loss

    weights = jax.ShapeDtypeStruct((4, 8, 8), jnp.float32)
    step = trace_step("own", whole, (weights, {}, BATCH))
    recipe = "data=1 pipe=2; schedule 1f1b, 2 microbatches"
    plan = plan_of(step, parse_recipe(recipe))
    ready = prepare_step(step, plan)
    stack = b"".join(data for name, data in ready.constants if name.endswith((".0", ".1")))
    assert stack == STACK.tobytes()
    assert parse_step(str(ready)) == ready
    text = write("torch", ready, apply(step, plan), plan.sizes, schedule=plan)
    given = first_inputs(step)
    found = in_threads(text, split_stacks(ready, given), 2)
    wanted = whole(given["parameter"], {}, given["batch"])
    np.testing.assert_allclose(found["loss"], wanted[2], rtol=1e-5)


def test_values_are_kept_by_what_rewrites_a_step() -> None:
    step = step_of(LOSSES["mask"])
    assert str(replace(step, name="other")).partition("\n")[2] == str(step).partition("\n")[2]
