"""Models of many kinds under plans drawn by lot: emitted files compute what one device does."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")

from exhaustive import Sample, sampled
from planned_models import wrong_outputs
from small_models import MODELS

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
