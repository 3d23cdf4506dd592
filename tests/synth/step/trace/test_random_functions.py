"""Functions drawn by lot, traced and computed in three ways, give what JAX itself gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

import jax
import jax.numpy as jnp

from exhaustive import Sample, sampled
from grammar.tensors.operations import Step
from random_functions import SHAPE, drawn_function
from sharded_steps import run_whole
from synth.step.trace.pruning import prune
from synth.step.trace.reading import read_jaxpr
from traced_steps import compiled

SEEDS = range(600)


def case(seed: int) -> tuple[Step, list[Any], list[Any]]:
    """A function as a step, its inputs, and what JAX makes of them."""
    function = drawn_function(seed)
    draw = np.random.default_rng(seed)
    given = [draw.standard_normal(SHAPE).astype(np.float32) for _ in range(2)]
    abstract = [jax.ShapeDtypeStruct(SHAPE, jnp.float32)] * 2
    graph, captured = read_jaxpr(jax.make_jaxpr(function)(*abstract), ["x", "y"])
    labels = tuple(value.name for value in graph.inputs)
    step = Step("drawn", prune(graph), ("batch",) * len(labels), labels)
    wanted = [np.asarray(one) for one in compiled(function)(*given)]
    return step, [*given, *map(np.asarray, captured)], wanted


def unlike(found: list[Any], wanted: list[Any]) -> list[int]:
    """Of results the places of those that differ by more than rounding."""
    return [
        at
        for at, (one, other) in enumerate(zip(found, wanted, strict=True))
        if one.shape != other.shape or not np.allclose(one, other, 1e-3, 1e-3)
    ]


@sampled(12, seed=8, parts=8)
def test_the_graph_computes_what_the_function_does(sample: Sample) -> None:
    for seed in sample(SEEDS):
        step, given, wanted = case(seed)
        whole = run_whole(step.graph, given)
        assert not unlike([np.asarray(whole.of(one)) for one in step.graph.outputs], wanted), seed


@pytest.mark.parametrize("runtime", ["jax", "torch"])
@sampled(6, seed=9, parts=8)
def test_the_emitted_file_computes_what_the_function_does(sample: Sample, runtime: str) -> None:
    pytest.importorskip(runtime, reason=f"needs {runtime}, of the extra {runtime!r}")
    from emitted_steps import called, emitted  # Not above: it needs what the runtime needs.

    for seed in sample(SEEDS):
        step, given, wanted = case(seed)
        assert not unlike(called(runtime, emitted(runtime, step), given), wanted), seed
