"""What docs/frameworks.md shows is what happens."""

from __future__ import annotations

import doctest

import pytest

from manual import DOCS, blocks
from synth.step.frameworks import FRAMEWORKS

PAGE = DOCS / "frameworks.md"


@pytest.mark.slow
def test_the_python_of_the_page_prints_its_transcript() -> None:
    pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
    text = "\n".join(block.text for block in blocks("python", PAGE))
    examples = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    assert len(examples.examples) > 20
    said: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(examples, out=said.append)
    assert not results.failed, "".join(said)


def test_every_framework_has_a_row_in_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name, one in FRAMEWORKS.items():
        assert f"| `{name}` | {one.title}" in text, name
