"""Who asks for files that an answer does not have is told so by the exit code, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from synth.ask.reply import Outcome, Reply
from synth.cli import ask


@pytest.mark.parametrize("asked_for", [True, False])
def test_files_that_there_are_not(
    asked_for: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(ask, "_answer_or_reuse", lambda *given: Reply({"files": []}, Outcome.OK))
    monkeypatch.setattr(ask, "TABLES", {"order": lambda body: "drawn"})
    flags = {"order": "1f1b", "stages": 2, "microbatches": 2}
    folder = str(tmp_path / "found")
    output = folder if asked_for else None
    code = ask.ask("order", flags, as_json=False, budget_seconds=None, output=output)
    told = capsys.readouterr()
    assert "drawn" in told.out
    assert code == (Outcome.NO if asked_for else Outcome.OK)
    assert ("this answer has no files" in told.err) == asked_for
    assert not Path(folder).exists()
