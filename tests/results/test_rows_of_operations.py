"""The section about rows of single operations says what was measured."""

from __future__ import annotations

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from results import record
from results.rows import __main__ as rows


def test_the_section_about_rows_is_made_from_its_data() -> None:
    data = record.read(rows.DATA)
    assert rows.page(data).is_current


def test_rows_are_surely_faster_only_where_they_are_faster() -> None:
    cases = record.read(rows.DATA)["cases"]
    assert [(one["model"], one["machine"], one["pins"]) for one in cases] == [
        tuple(case) for case in rows.CASES
    ]
    assert all(one["rows"] < one["before"] for one in cases if one["told"])
    assert any(one["told"] for one in cases if one["model"] == "mlp")
