"""Seconds of events are within their interval in nine of ten cases: on truths that are made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from synth.measure.profiles.profile import MeasuredEvent
from tests.synth.measure.profiles.test_profile import event, kept

pytestmark = pytest.mark.thorough
RATES = np.array([2e-6, 1e-11, 1e-10])
TRIALS = 120


def drawn(draw: np.random.Generator, count: int, noise: float) -> list[MeasuredEvent]:
    """Events whose seconds are those of their operations, flops and bytes, but for noise."""
    counts = np.exp(draw.uniform(np.log([1, 1e5, 1e5]), np.log([60, 1e9, 1e8]), (count, 3)))
    counts = counts.astype(int)
    taken = counts @ RATES * np.exp(noise * draw.standard_normal(count))
    return [
        MeasuredEvent(f"k{at}", f"event {at}", *map(int, counts[at]), float(taken[at]), 0.02, 9)
        for at in range(count)
    ]


@pytest.mark.parametrize("count", [5, 30])
def test_an_event_nobody_measured_takes_what_is_said(count: int) -> None:
    """However few others were measured; and no interval always holds."""
    draw = np.random.default_rng(count)
    inside = 0
    for _ in range(TRIALS):
        *measured, other = drawn(draw, count + 1, 0.3)
        new = replace(
            event("new"),
            operations=other.operations,
            flops=other.flops,
            moved_bytes=other.moved_bytes,
        )
        found = kept(events=tuple(measured)).estimate(new)
        inside += found.low <= other.seconds <= found.high
    assert 0.82 <= inside / TRIALS <= 0.97


def test_nine_of_ten_samples_of_a_measured_event_are_within_its_interval() -> None:
    draw = np.random.default_rng(5)
    samples = 1e-3 * (1 + 0.04 * draw.standard_normal(2_001))
    low, middle, high = np.quantile(samples, (0.25, 0.5, 0.75))
    one = MeasuredEvent(
        "k", "event", 1, 1, 1, float(middle), float((high - low) / middle), len(samples)
    )
    found = kept(events=(one,)).estimate(replace(event("new"), key="k"))
    inside = np.mean((found.low <= samples) & (samples <= found.high))
    assert 0.88 <= inside <= 0.92
