"""Inference with a cache: token by token it finds what it finds at once, and nothing it may not."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

import jax
import jax.numpy as jnp

import traced_steps
from hierarchies import InputError
from synth.step.models import ModelSettings, zoo_function, zoo_step

LENGTH = 6


@cache
def compiled(new: int) -> tuple[Any, Any]:
    """A pass over so many new tokens, and the shapes that it is called with."""
    step, given = zoo_function("gpt2-tiny", {}, ModelSettings(batch=2, infer=new))
    return traced_steps.compiled(step), given


def passed(new: int, tokens: Any, parameters: Any) -> list[Any]:
    """The logits after each pass over so many tokens, the cache empty at first."""
    step, (_, empty, _) = compiled(new)
    held = jax.tree.map(lambda one: jnp.zeros(one.shape, one.dtype), empty)
    found = []
    for first in range(0, LENGTH, new):
        batch = {"tokens": tokens[:, first : first + new]}
        _, held, logits = step(parameters, held, batch)
        found.append(np.asarray(logits))
    return found


@pytest.mark.slow
def test_a_prompt_at_once_and_token_by_token_end_alike() -> None:
    _, (shapes, _, _) = compiled(1)
    draw = np.random.default_rng(0)
    parameters = jax.tree.map(
        lambda one: jnp.asarray(0.3 * draw.standard_normal(one.shape), one.dtype), shapes
    )
    tokens = jnp.asarray(draw.integers(0, 64, (2, LENGTH)), jnp.int32)
    by_one, by_two, at_once = (passed(new, tokens, parameters) for new in (1, 2, LENGTH))
    assert np.allclose(by_one[-1], at_once[-1], rtol=1e-4, atol=1e-4)
    assert np.allclose(by_two[-1], at_once[-1], rtol=1e-4, atol=1e-4)
    assert np.allclose(by_one[1], by_two[0], rtol=1e-4, atol=1e-4)
    other = passed(LENGTH, tokens.at[:, 0].add(1), parameters)
    assert not np.allclose(other[-1], at_once[-1], rtol=1e-2, atol=1e-2)


def test_the_cache_comes_back_and_has_its_own_role() -> None:
    step = zoo_step("gpt2-tiny", {}, ModelSettings(batch=2, infer=1))
    roles = dict(zip(step.labels, step.roles, strict=True))
    assert roles["attention/key"] == roles["attention/value"] == "cache"
    assert roles["length"] == "state"
    back = {step.labels[place] for _, place in step.updates}
    assert {"attention/key", "attention/value", "length"} <= back


@pytest.mark.parametrize(
    ("name", "spelling", "problem"),
    [
        ("llama3-tiny", ModelSettings(infer=1), "llama3-tiny has no inference"),
        ("gpt2-tiny", ModelSettings(infer=17), "17 new tokens"),
        ("gpt2-tiny", ModelSettings(infer=1, unrolled=True), "inference with unrolled layers"),
    ],
)
def test_models_without_inference_are_refused(
    name: str, spelling: ModelSettings, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        zoo_step(name, {}, spelling)
