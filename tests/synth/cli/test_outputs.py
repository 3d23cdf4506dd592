"""Where answers go: standard output that is full or closed, a file, a folder, all or nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from hierarchies import InputError
from places import ROOT
from synth.ask.answers.parts import BinaryFile, TextFile
from synth.cli.app import app
from synth.cli.ask import _show
from synth.cli.outputs import CLOSED_PIPE, deliver
from synth.show.terminal.table import TABLES

FULL = Path("/dev/full")
EMIT = ("emit", "all-reduce root inside", "dgx-h100:2", "--axes", "data=16", "--reduce", "data")
TORCH = (*EMIT, "--target", "torch")
COMMANDS = [TORCH, (*TORCH, "--json"), ("systems",), ("systems", "--json")]
NAMES = ["file", "file-json", "table", "json"]
FILES = [TextFile(name="a.txt", text="new a\n"), BinaryFile(name="b.bin", base64="AAEC")]


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def process(*words: str, stdout: Any, before: str = "") -> tuple[int, str]:
    """How the command ends, interpreter and all, and what it says on standard error."""
    code = f"{before}from synth.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", COMMANDS, ids=NAMES)
def test_a_full_disk_is_one_line_and_exit_code_2(words: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        ended, said = process(*words, stdout=full)
    assert said == "collsynth: standard output: cannot write: No space left on device\n"
    assert ended == 2


@pytest.mark.skipif(os.name == "nt", reason="pipes break otherwise on Windows")
@pytest.mark.parametrize("words", COMMANDS, ids=NAMES)
def test_a_closed_pipe_ends_quietly(words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended, said = process(*words, stdout=writing)
    finally:
        os.close(writing)
    assert (ended, said) == (CLOSED_PIPE, "")


@pytest.mark.skipif(os.name == "nt", reason="descriptors are closed otherwise on Windows")
def test_no_standard_output_at_all_is_an_error() -> None:
    ended, said = process("systems", stdout=None, before="import sys; sys.stdout = None; ")
    assert (ended, said) == (2, "collsynth: standard output: cannot write: it is closed\n")


def test_an_empty_name_is_refused() -> None:
    for extra in ((), ("--json",)):
        result = run(*TORCH, "-o", "", *extra)
        assert result.exit_code == 2
        assert result.stderr == "collsynth: -o: no name is given; name a file or a folder\n"


def test_several_files_need_a_folder(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("mine")
    result = run(*EMIT, "--target", "rankfile", "-o", str(place))
    assert result.exit_code == 2
    assert result.stderr == (
        f"collsynth: {place}: the target consists of 2 files: rankfile, on_device.sh, "
        "and this is a file; name a folder with -o\n"
    )
    assert place.read_text() == "mine"
    result = run(*EMIT, "--target", "rankfile")
    assert result.exit_code == 2
    assert result.stderr.endswith("rankfile, on_device.sh; name a folder for them with -o\n")
    with pytest.raises(InputError, match="file: this is a file; name a folder"):
        deliver(FILES[:1], f"{place}/")


def test_a_folder_is_made_and_filled(tmp_path: Path) -> None:
    place = tmp_path / "some" / "folder"
    deliver(FILES, str(place))
    (place / "a.txt").write_text("old")
    deliver(FILES, str(place))
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {
        "a.txt": b"new a\n",
        "b.bin": b"\0\1\2",
    }
    deliver(FILES[:1], f"{tmp_path / 'another'}/")
    assert (tmp_path / "another" / "a.txt").read_text() == "new a\n"


def test_several_files_are_written_all_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("old")
    write = Path.write_bytes

    def fail(path: Path, data: bytes) -> int:
        if path.name == "b.bin":
            raise OSError(28, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(InputError, match="cannot write: No space left on device"):
        deliver(FILES, str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_json_goes_into_the_file_too(tmp_path: Path) -> None:
    printed = run(*TORCH, "--json").stdout
    result = run(*TORCH, "--json", "-o", str(tmp_path / "answer.json"))
    assert (result.exit_code, result.stdout) == (0, "")
    assert (tmp_path / "answer.json").read_text(encoding="utf-8") == printed
    assert len(json.loads(printed)["files"]) == 1
    assert run(*EMIT, "--target", "rankfile", "--json", "-o", str(tmp_path)).exit_code == 0
    assert len(json.loads((tmp_path / "emit.json").read_text(encoding="utf-8"))["files"]) == 2


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "none").touch()
    result = run(*TORCH, "-o", str(tmp_path / "none" / "file.py"))
    assert result.exit_code == 2
    assert "cannot write: Not a directory" in result.stderr


def test_a_folder_that_is_not_there_is_made(tmp_path: Path) -> None:
    place = tmp_path / "new" / "folder" / "file.py"
    assert run(*TORCH, "-o", str(place)).exit_code == 0
    assert place.read_text(encoding="utf-8") == run(*TORCH).stdout


def test_an_answer_without_files_writes_nothing_and_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A best plan that no framework can say is shown all the same."""
    monkeypatch.setitem(TABLES, "plan", lambda body: "the table")
    _show("plan", {"files": []}, str(tmp_path / "folder"))
    seen = capsys.readouterr()
    assert "the table" in seen.out
    assert "this answer has no files" in seen.err
    assert not (tmp_path / "folder").exists()
