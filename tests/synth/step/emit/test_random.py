"""Random numbers of emitted PyTorch steps are JAX's own, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")

import jax
import jax.numpy as jnp
from jax import lax

from emitted_steps import called, emitted, loaded
from grammar.tensors.operations import Step
from hierarchies import InputError
from synth.step.emit import write
from synth.step.sharding import Plan, apply
from synth.step.sharding.plan import replicate_all
from synth.step.trace.reading import read_jaxpr

KEYS = [(0, 0), (1, 2), (2**32 - 1, 2**31), (0x1BD11BDA, 2**32 - 1), (123456789, 987654321)]


def traced(function: Callable[..., Any], *given: Any) -> Step:
    names = [f"x{at}" for at in range(len(given))]
    graph, _ = read_jaxpr(jax.make_jaxpr(function)(*given), names)
    return Step("drawn", graph, ("batch",) * len(given), tuple(names))


def keyed(draw: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda words: draw(jax.random.wrap_key_data(words))


DRAWS: dict[str, Callable[[Any], Any]] = {
    "one": lambda key: jax.random.bits(key, ()),
    "odd": lambda key: jax.random.bits(key, (7, 13)),
    "many": lambda key: jax.random.bits(key, (3, 1001)),
    "bytes": lambda key: jax.random.bits(key, (5, 3), jnp.uint8),
    "uniform": lambda key: jax.random.uniform(key, (6, 12)),
    "dropout": lambda key: jax.random.bernoulli(key, 0.9, (16, 31)),
    "normal": lambda key: jax.random.normal(key, (64,)),
    "integers": lambda key: jax.random.randint(key, (50,), -3, 9),
    "split": lambda key: jax.random.bits(jax.random.split(key, 3)[1], (4,)),
    "split twice": lambda key: jax.random.bits(jax.random.split(jax.random.split(key)[0])[1], (4,)),
    "folded": lambda key: jax.random.bits(jax.random.fold_in(key, 7), (4,)),
    "of many keys": lambda key: jax.vmap(lambda one: jax.random.bits(one, (5,)))(
        jax.random.split(key, 4)
    ),
    "seeded": lambda key: jax.random.bits(jax.random.key(42), (4,)),
    "seeded below zero": lambda key: jax.random.bits(jax.random.key(-1), (4,)),
    "words": lambda key: (jax.random.bits(key, (9,)) * jnp.uint32(0x9E3779B9) + 1) >> 3,
    "words below zero": lambda key: -jax.random.bits(key, (9,)) - 5 << 4,
    "bits of floats": lambda key: lax.bitcast_convert_type(
        jax.random.uniform(key, (9,)) - 0.5, jnp.uint32
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_bits_are_jax_s(name: str) -> None:
    function = keyed(DRAWS[name])
    step = traced(function, jnp.zeros(2, jnp.uint32))
    names = emitted("torch", step)
    for words in KEYS:
        wanted = np.asarray(function(jnp.array(words, jnp.uint32)))
        [found] = called("torch", names, [np.array(words, np.int64)])
        if name == "normal":  # by an erf_inv of another library
            assert np.allclose(found, wanted, rtol=1e-5)
        else:
            assert found.shape == wanted.shape
            assert found.astype(wanted.dtype).tolist() == wanted.tolist()


def test_one_rotation_less_is_seen() -> None:
    """The judge can fail: a Threefry with another rotation gives other bits."""
    function = keyed(DRAWS["one"])
    step = traced(function, jnp.zeros(2, jnp.uint32))
    plan = Plan((("one", 1),), replicate_all(step.graph))
    text = write("torch", step, apply(step, plan), plan.sizes).replace("(13, 15", "(13, 16")
    [found] = called("torch", loaded(text), [np.array(KEYS[1], np.int64)])
    assert int(found) != int(function(jnp.array(KEYS[1], jnp.uint32)))


def test_keys_of_another_kind_are_refused_by_line() -> None:
    step = traced(lambda x: jax.random.bits(jax.random.key(3, impl="rbg"), (4,)), jnp.zeros(()))
    with pytest.raises(InputError, match="no random_seed of keys of kind rbg: Threefry's only"):
        emitted("torch", step)
    names = emitted("jax", step)
    [found] = called("jax", names, [np.zeros((), np.float32)])
    wanted = jax.random.bits(jax.random.key(3, impl="rbg"), (4,))
    assert found.tolist() == np.asarray(wanted).tolist()


def test_bits_of_a_width_that_torch_has_not_are_refused() -> None:
    step = traced(
        keyed(lambda key: jax.random.bits(key, (3,), jnp.uint16)), jnp.zeros(2, jnp.uint32)
    )
    with pytest.raises(InputError, match="PyTorch has no"):
        emitted("torch", step)
