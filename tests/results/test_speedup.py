"""The section about two workers says what was measured."""

from __future__ import annotations

import pytest

from results import record

pytest.importorskip("distributed", reason="distributed is not installed: the extra cluster has it")

from results.speedup import __main__ as speedup


def test_the_section_about_workers_is_made_from_its_data() -> None:
    data = record.read(speedup.DATA) if speedup.DATA.exists() else None
    assert speedup.page(data).is_current
