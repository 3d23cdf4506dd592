"""The section about how a step is cut says what was measured."""

from __future__ import annotations

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from results import record
from results.choice import __main__ as choice


def test_the_section_about_choices_is_made_from_its_data() -> None:
    data = record.read(choice.DATA)
    assert choice.page(data).is_current


def test_every_model_is_proved_near_the_best() -> None:
    models = record.read(choice.DATA)["models"]
    assert [one["model"] for one in models] == list(choice.MODELS)
    assert all(one["gap"] <= choice.GAP for one in models)
    assert all(one["plan_seconds"] <= one["recipe_seconds"] for one in models)
