"""Steps of the zoo, traced for tests; each once in a process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equations.executed import DTYPES
from grammar.tensors.operations import Operand, Step, Value
from grammar.tensors.parser import parse_step, parse_type
from synth.step.trace.pruning import prune
from synth.step.trace.reading import read_jaxpr
from synth.step.zoo.models import Model, ModelOptions
from synth.step.zoo.optimizers import OPTIMIZERS
from synth.step.zoo.sizes import sizes_of
from synth.step.zoo.table import model_of, step_of

TINY = (
    "mlp-tiny",
    "gpt2-tiny",
    "llama3-tiny",
    "mixtral-tiny",
    "dropless-tiny",
    "bert-tiny",
    "resnet-tiny",
    "lstm-tiny",
    "vit-tiny",
)

compiled = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
"""As ``jax.jit``, with machine code that need not be fast: it runs once or twice."""


def model(name: str, changes: tuple[tuple[str, int], ...] = (), **how: Any) -> Model:
    """A model of the zoo; a batch of 4 unless said."""
    return model_of(name, sizes_of(name, dict(changes)), ModelOptions(**({"batch": 4} | how)))


@cache
def step(
    name: str, changes: tuple[tuple[str, int], ...] = (), optimizer: str = "adamw", **how: Any
) -> Step:
    """The step that trains it."""
    return step_of(model(name, changes, **how), optimizer)


def function_step(function: Callable[..., Any], *types: str) -> Step:
    """A function of values of such types (``f32[8,6]``) as a step, which updates nothing."""
    given = [parse_type(one)[0] for one in types]
    names = tuple(f"input{at}" for at in range(len(given)))
    abstract = [jax.ShapeDtypeStruct(one.shape, DTYPES[one.dtype]) for one in given]
    graph, _ = read_jaxpr(jax.make_jaxpr(function)(*abstract), names)
    return Step("function", prune(graph), ("batch",) * len(names), names, ())


def two_weights(mixed: str) -> Step:
    """Eight operations on two stages: what goes up, what comes down, and two gradients.

    Values and weights are ``mixed`` by a primitive: ``mul`` takes parts of a sum, ``pow`` none.
    """
    return parse_step(f"""step tiny
in x: f32[8] batch
in w: f32[] parameter "layers/0/w"
in v: f32[] parameter "layers/1/w"
a: f32[8] = {mixed}(x, w)
b: f32[8] = {mixed}(a, v)
h: f32[] = dot_general(a, b) dimension_numbers=(((0),(0)),((),()))
g: f32[8] = {mixed}(b, v)
d: f32[8] = {mixed}(g, w)
k: f32[] = reduce_sum(d) axes=(0)
w1: f32[] = mul(w, k)
v1: f32[] = {mixed}(v, h)
out b
out w1 -> w
out v1 -> v
""")


def signatures(one: Step) -> set[Any]:
    """Operations that compute alike: primitive, parameters and types."""

    def typed(operands: tuple[Operand, ...]) -> tuple[Any, ...]:
        return tuple(o.type if isinstance(o, Value) else o for o in operands)

    return {
        (o.primitive, o.parameters, typed(o.operands), typed(o.results))
        for o in one.graph.everywhere()
    }


def arguments(one: Model, optimizer: str = "adamw", seed: int = 0) -> tuple[Any, Any, Any]:
    """Parameters, moments and a batch of random numbers: small weights, scales near 1."""
    random = np.random.default_rng(seed)

    def weight(path: Any, like: Any) -> Any:
        scale = "scale" in str(path) or "norm" in str(path[-1])
        return jnp.asarray(scale + 0.1 * random.standard_normal(like.shape), like.dtype)

    def data(path: Any, like: Any) -> Any:
        if jnp.issubdtype(like.dtype, jnp.floating):
            made = random.standard_normal(like.shape)
            return jnp.asarray(made > 0 if "masked" in str(path) else made, like.dtype)
        most = 2 if {"sentences", "follows"} & {str(p.key) for p in path} else 8
        return jnp.asarray(random.integers(0, most, like.shape), like.dtype)

    nothing = jax.tree.map(
        lambda like: jnp.zeros(like.shape, like.dtype),
        OPTIMIZERS[optimizer].moments(one.parameters),
    )
    parameters = jax.tree_util.tree_map_with_path(weight, one.parameters)
    return parameters, nothing, jax.tree_util.tree_map_with_path(data, one.batch)
