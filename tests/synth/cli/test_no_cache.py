"""The command line keeps results in the user's cache folder, unless it is told not to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

pytestmark = pytest.mark.slow
ASKED = ("plan", "dgx-h100:1", "--model", "gpt2-tiny", "--batch", "16", "--pin", "zero=0", "--json")


def run(words: tuple[str, ...], **environment: str) -> subprocess.CompletedProcess[str]:
    others = {key: value for key, value in os.environ.items() if key != "COLLSYNTH_CACHE"}
    return subprocess.run(
        [sys.executable, "-c", "from synth.cli import main; main()", *words],
        env=others | environment,
        capture_output=True,
        text=True,
    )


def test_results_are_kept_in_the_cache_folder_of_the_user(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": ""}
    alone = run((*ASKED, "--no-cache"), **home)
    assert not [*tmp_path.iterdir()]
    cold, warm = run(ASKED, **home), run(ASKED, **home)
    assert [*(tmp_path / ".cache" / "collsynth").iterdir()]
    assert alone.stdout == cold.stdout == warm.stdout != ""
    assert alone.stderr == cold.stderr == warm.stderr == ""


def test_a_folder_that_cannot_be_written_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "kept"
    answered = run(ASKED, COLLSYNTH_CACHE=str(folder))
    assert answered.returncode == 0
    assert answered.stdout == run(ASKED, COLLSYNTH_CACHE="none").stdout
    [line] = answered.stderr.splitlines()
    assert line == f"collsynth: nothing is kept in {folder}: Not a directory"
