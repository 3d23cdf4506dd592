"""The section about two workers says what was measured."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from places import ROOT

RESULTS = ROOT / "results"


@pytest.fixture
def speedup() -> Iterator[ModuleType]:
    why = "distributed is not installed: the extra cluster has it"
    pytest.importorskip("distributed", reason=why)
    sys.path.insert(0, str(RESULTS))
    try:
        from service import speedup

        yield speedup
    finally:
        sys.path.remove(str(RESULTS))


def test_the_section_about_workers_is_made_from_its_data(speedup: ModuleType) -> None:
    page = speedup.record.README.read_text(encoding="utf-8")
    told = speedup.record.section(page, "speedup")
    assert told.strip() == speedup.section(speedup.record.read(speedup.FILE)).strip()
