"""Sections whose code is gone are made from their figures, and name a commit that has it."""

from __future__ import annotations

import pytest

from results import archive, pages, record


@pytest.mark.parametrize("section", archive.SECTIONS)
def test_an_archived_section_is_made_from_its_figures(section: str) -> None:
    page = archive.page(section)
    assert page.is_current
    figures = record.read(pages.HERE / section / f"{section}.json")
    assert f"(commit {figures['code_at']} has the code)" in page.text
