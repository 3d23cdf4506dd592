"""The list of mistakes that tests must notice can be tried: each stands once where it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import Environment

from each import each
from mutants import Mutant, main, mutants
from places import ROOT

LISTED = mutants()


@each("mutant", LISTED)
def test_a_mistake_can_be_made_where_it_is_listed(mutant: Mutant, tmp_path: Path) -> None:
    (tmp_path / mutant.file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / mutant.file).write_bytes((ROOT / mutant.file).read_bytes())
    mutant.put_into(tmp_path)
    text = (tmp_path / mutant.file).read_text(encoding="utf-8")
    if mutant.file.endswith(".py"):
        compile(text, mutant.file, "exec")
    else:
        Environment(extensions=["jinja2.ext.do"]).parse(text)
    for place in mutant.tests:
        assert (ROOT / place).exists(), place


def test_surviving_mutants_are_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mutants.copied", lambda to: to)
    monkeypatch.setattr("mutants.killed", lambda mutant, house: False)
    assert main(["price"]) == 1
    assert "SURVIVED synth/collective/price" in capsys.readouterr().out
