"""The command line keeps results in the user's cache folder, unless it is told not to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

pytestmark = pytest.mark.slow
ASKED = ("plan", "dgx-h100:1", "--model", "gpt2-tiny", "--batch", "16", "--pin")
ASKED = (*ASKED, "zero=0 remat=no tensor=1", "--json")


def run(words: tuple[str, ...], **environment: str) -> subprocess.CompletedProcess[str]:
    others = {key: value for key, value in os.environ.items() if key != "COLLSYNTH_CACHE"}
    return subprocess.run(
        [sys.executable, "-c", "from synth.cli import main; main()", *words],
        env=others | environment,
        capture_output=True,
        text=True,
    )


def test_results_are_kept_in_the_cache_folder_of_the_user(tmp_path: Path) -> None:
    """A folder that cannot be written is named once, and the answer is the same."""
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": ""}
    alone = run((*ASKED, "--no-cache"), **home)
    assert not [*tmp_path.iterdir()]
    cold, warm = run(ASKED, **home), run(ASKED, **home)
    assert [*(tmp_path / ".cache" / "collsynth").iterdir()]
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "kept"
    warned = run(ASKED, COLLSYNTH_CACHE=str(folder))
    assert alone.stdout == cold.stdout == warm.stdout == warned.stdout != ""
    assert alone.stderr == cold.stderr == warm.stderr == ""
    assert warned.stderr == f"collsynth: nothing is kept in {folder}: Not a directory\n"
    assert {each.returncode for each in (alone, cold, warm, warned)} == {0}
