"""Famous runs and steps of frameworks: pages match their data, figures by Megatron's formula."""

from __future__ import annotations

from typing import Any

import pytest

from results import record
from results.famous import __main__ as famous
from results.runtimes import __main__ as runtimes
from synth.step.frameworks import FRAMEWORKS


@pytest.mark.parametrize("question", [famous, runtimes])
def test_the_page_matches_the_data(question: Any) -> None:
    assert question.page(record.read(question.DATA)).is_current


def test_megatron_s_formula_gives_its_paper_s_seconds() -> None:
    """GPT-3 on 1,024 A100: 140 Tflop/s a device are 34 days for 300 billion tokens."""
    sizes = {"layers": 96, "width": 12288, "sequence": 2048, "vocabulary": 51200}
    flops = famous.megatron_flops(sizes, 1536, recomputed=True)
    steps = 300e9 / (1536 * 2048)
    assert steps * flops / (140e12 * 1024) / 86400 == pytest.approx(34, rel=0.03)


def test_frameworks_of_runs_are_known() -> None:
    assert set(famous.NAMES.values()) <= set(FRAMEWORKS)
