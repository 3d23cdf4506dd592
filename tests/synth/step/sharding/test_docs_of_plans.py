"""What docs/plans.md shows is what happens."""

from __future__ import annotations

import doctest
import re

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from manual import DOCS, blocks
from synth.step.sharding.text import CLAUSE_PATTERNS

PAGE = DOCS / "plans.md"


@pytest.mark.slow
def test_the_python_of_the_page_prints_its_transcript() -> None:
    text = "\n".join(block.text for block in blocks("python", PAGE))
    examples = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    assert len(examples.examples) > 20
    said: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(examples, out=said.append)
    assert not results.failed, "".join(said)


def test_every_clause_has_a_row_in_the_table() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    for form in CLAUSE_PATTERNS.values():
        assert any(re.fullmatch(form, row) for row in rows), form
