"""The edition names all code that what is kept depends on."""

from __future__ import annotations

import subprocess
import sys
from math import inf
from pathlib import Path
from shutil import copytree

import pytest

from synth.ask.identity.edition import sources
from synth.cache import edition as module
from synth.cache import folder as folder_module
from synth.cache.edition import ROOT, SOURCES, edition
from synth.cache.folder import chosen_folder


def test_it_covers_all_that_a_plan_imports() -> None:
    """Another way to find these: the imports of the modules that compute what is kept."""
    for name in ("synth.step.search.planning", "synth.step.models", "synth.step.zoo.table"):
        imported = {path for path in sources(name) if path != "synth/__init__.py"}
        missing = [path for path in imported if not path.startswith(SOURCES)]
        front = {"synth/ask", "synth/cli", "synth/service", "synth/show", "synth/verbs.py"}
        assert not [path for path in missing if not path.startswith(tuple(front))], missing


def test_it_changes_with_any_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in SOURCES:
        copytree(ROOT / folder, tmp_path / folder)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "_LOADED", inf)
    assert edition.__wrapped__() == edition()
    for name in ("synth/step/models.py", "grammar/tensors/step.lark"):
        changed = tmp_path / name
        before = changed.read_bytes()
        changed.write_bytes(before + b"\n")
        assert edition.__wrapped__() != edition()
        changed.write_bytes(before)
    (tmp_path / "synth/step/fresh.py").touch()
    assert edition.__wrapped__() != edition()


def test_code_that_is_replaced_while_it_runs_has_no_edition(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_LOADED", 0.0)
    monkeypatch.setattr(folder_module, "edition", edition.__wrapped__)
    assert edition.__wrapped__() == ""
    assert chosen_folder({"COLLSYNTH_CACHE": str(tmp_path)}) is None


def test_every_process_finds_the_same() -> None:
    text = "from synth.cache.edition import edition; print(edition())"
    words = [sys.executable, "-c", text]
    assert subprocess.check_output(words, text=True, cwd=ROOT).strip() == edition()
