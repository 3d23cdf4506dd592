"""Factors of frameworks: where they are from, and that all estimates are longer by them."""

from __future__ import annotations

import json

import pytest

from hierarchies.devices import device_named, devices, model_words
from places import ROOT
from synth.compute.runtimes import IDEAL, factors, find_factor, set_framework
from synth.step.frameworks import FRAMEWORKS

H100 = device_named("H100 SXM5 80 GB")


def test_every_factor_is_of_a_known_framework_and_device_and_has_its_steps() -> None:
    known = set().union(*(model_words(name) for name in devices()))
    for factor in factors():
        assert set(factor.frameworks) <= set(FRAMEWORKS)
        assert known.issuperset(factor.models)
        assert 0 < factor.low <= factor.factor <= factor.high
        assert factor.steps >= 10
        assert factor.source


def test_no_framework_has_two_factors_on_a_device() -> None:
    pairs = [(name, model) for one in factors() for name in one.frameworks for model in one.models]
    assert len(pairs) == len(set(pairs))


def test_factors_are_those_that_were_measured() -> None:
    """The medians over families in results/runtimes, to the two digits of the catalogue."""
    text = (ROOT / "results" / "runtimes" / "runtimes.json").read_text(encoding="utf-8")
    families = {one["name"]: one["steps"] for one in json.loads(text)["families"]}
    counts = {one.steps: one for one in factors()}
    for names, factor in (
        (["Megatron-LM on A100"], counts[13]),
        (["Megatron-DeepSpeed on A100"], counts[16]),
        ([name for name in families if "FSDP" in name and "A100" in name], counts[34]),
        ([name for name in families if "FSDP" in name and "H100" in name], counts[18]),
    ):
        measured = sorted(step["factor"] for name in names for step in families[name])
        middle = len(measured) // 2
        median = (measured[middle] + measured[-1 - middle]) / 2
        assert factor.factor == pytest.approx(median, abs=0.0101)
        tenth = len(measured) // 10
        assert factor.low == pytest.approx(measured[tenth], abs=0.0051)
        assert factor.high == pytest.approx(measured[-1 - tenth], abs=0.0051)


@pytest.mark.parametrize("framework", ["", IDEAL, "jax"])
def test_without_a_measured_factor_a_device_is_as_it_is(framework: str) -> None:
    assert find_factor(H100, framework) is None
    assert set_framework(H100, framework) == H100
