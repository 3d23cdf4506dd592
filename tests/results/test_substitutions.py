"""The section about substitutions on plans says what was measured."""

from __future__ import annotations

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from results import record
from results.substitutions import __main__ as substitutions


def test_the_section_about_substitutions_is_made_from_its_data() -> None:
    data = record.read(substitutions.DATA)
    assert substitutions.page(data).is_current


def test_no_substitution_is_kept_that_does_not_pay() -> None:
    cases = record.read(substitutions.DATA)["cases"]
    assert [(one["model"], one["machine"], one["pins"]) for one in cases] == [
        tuple(case) for case in substitutions.CASES
    ]
    for one in cases:
        assert one["after"] <= one["before"]
        assert bool(one["applied"]) == (one["after"] < one["before"])
        assert one["tried"] <= substitutions.BUDGET.evaluations
