"""Samples of an event are within its interval in nine of ten cases: on truths that are made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from synth.train.profiles.profile import Measured
from tests.synth.train.profiles.test_profile import event, kept

pytestmark = pytest.mark.thorough


def test_nine_of_ten_samples_of_a_measured_event_are_within_its_interval() -> None:
    draw = np.random.default_rng(5)
    samples = 1e-3 * (1 + 0.04 * draw.standard_normal(40_001))
    low, middle, high = np.quantile(samples, (0.25, 0.5, 0.75))
    one = Measured("k", "event", 1, 1, 1, float(middle), float((high - low) / middle), len(samples))
    found = kept(events=(one,)).estimate(replace(event("new"), key="k"))
    assert found
    inside = np.mean((found.low <= samples) & (samples <= found.high))
    assert 0.893 <= inside <= 0.907
