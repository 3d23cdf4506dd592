"""Models of many kinds under plans drawn by lot: emitted files compute what one device does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")

from exhaustive import Sample, sampled
from grammar.tensors.operations import Graph, Operation, Step, Value
from grammar.tensors.sharding import Sharding, Type
from planned_models import Computed, wrong_outputs, wrong_under
from small_models import MODELS
from synth.step.emit import write
from synth.step.sharding import Cuts, Plan, apply

SIZES = {"a": 2, "b": 2}
PLANS = [(name, seed) for seed in range(6) for name in MODELS]


@sampled(3, seed=5, parts=12)
def test_random_plans_in_jax(sample: Sample, tmp_path: Path) -> None:
    for name, seed in sample(PLANS):
        assert not wrong_outputs("jax", name, SIZES, seed, tmp_path), (name, seed)


@sampled(8, seed=6, parts=4)
def test_random_plans_in_torch(sample: Sample, tmp_path: Path) -> None:
    for name, seed in sample(PLANS):
        assert not wrong_outputs("torch", name, SIZES, seed, tmp_path), (name, seed)


@pytest.mark.parametrize("runtime", ["jax", "torch"])
def test_raw_keys_and_their_words(runtime: str, tmp_path: Path) -> None:
    """Those of vectorised functions, too, which ``jax.random`` refuses unless they are mapped."""
    for seed in range(2):
        assert not wrong_outputs(runtime, "raw keys", SIZES, seed, tmp_path), seed


def negation(*shape: int) -> tuple[Step, Plan]:
    """A step that negates a value, which is cut before that."""
    x, y = Value("x", Type("f64", shape)), Value("y", Type("f64", shape))
    step = Step("lion", Graph((x,), (Operation("neg", (x,), (y,)),), (y,)), ("batch",), ("x",))
    lies = Sharding((("a",), *((),) * (len(shape) - 1)))
    return step, Plan((("a", 2),), Cuts((lies,), ((),)))


@pytest.mark.parametrize("runtime", ["jax", "torch"])
def test_values_without_elements_are_not_sent(runtime: str) -> None:
    """An associative scan makes some, and XLA gathers none along a dimension of no elements."""
    for sent, shape in ((False, (0, 4)), (True, (2, 4))):
        step, plan = negation(*shape)
        text = write(runtime, step, apply(step, plan), plan.sizes)
        assert ("all_gather(x" in text) is sent


@pytest.mark.parametrize("runtime", ["jax", "torch"])
def test_values_without_elements_are_computed(runtime: str, tmp_path: Path) -> None:
    step, plan = negation(0, 4)
    empty = np.zeros((0, 4))
    assert not wrong_under(runtime, Computed(step, (empty,), (empty,)), plan, tmp_path)


@pytest.mark.parametrize("runtime", ["jax", "torch"])
def test_another_value_is_seen(runtime: str, tmp_path: Path) -> None:
    """The judge can fail: the step is said to make what it does not."""
    step, plan = negation(4)
    ones = np.ones(4)
    assert not wrong_under(runtime, Computed(step, (ones,), (-ones,)), plan, tmp_path)
    assert wrong_under(runtime, Computed(step, (ones,), (-ones * (1 + 1e-7),)), plan, tmp_path)
