"""Entries on disk: what is read was written whole, for this key, by this edition of the code."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from synth.cache import folder as module
from synth.cache.folder import CacheFolder, chosen_folder


@pytest.fixture
def kept(tmp_path: Path) -> CacheFolder:
    return CacheFolder(tmp_path / "kept")


def files(folder: CacheFolder) -> list[Path]:
    return sorted(folder.path.iterdir())


@pytest.mark.parametrize("text", ["", "a text", "two\nlines\n", "Größe"])
def test_an_entry_is_found_by_its_key(kept: CacheFolder, text: str) -> None:
    assert kept.find("key") is None
    kept.keep("key", text)
    assert kept.find("key") == CacheFolder(kept.path).find("key") == text
    assert kept.find("other") is None


def test_an_entry_is_replaced(kept: CacheFolder) -> None:
    kept.keep("key", "old")
    kept.keep("key", "new")
    assert kept.find("key") == "new"
    assert len(files(kept)) == 1


def test_others_cannot_read_the_folder(kept: CacheFolder) -> None:
    kept.keep("key", "text")
    assert kept.path.stat().st_mode & 0o077 == 0
    assert files(kept)[0].stat().st_mode & 0o077 == 0


def test_an_entry_of_another_edition_is_not_found(
    kept: CacheFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.keep("key", "of this edition")
    monkeypatch.setattr(module, "edition", lambda: "another")
    assert kept.find("key") is None
    kept.keep("key", "of the other")
    assert kept.find("key") == "of the other"
    monkeypatch.undo()
    assert kept.find("key") == "of this edition"


def test_an_entry_under_the_name_of_another_is_not_read(
    kept: CacheFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.keep("key", "text")
    [entry] = files(kept)
    with monkeypatch.context() as patch:
        patch.setattr(module, "edition", lambda: "another")
        kept.keep("key", "of another edition")
    [other] = set(files(kept)) - {entry}
    os.replace(other, entry)
    assert kept.find("key") is None


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


DAMAGE: list[Callable[[bytes], bytes]] = [
    cut,
    flipped,
    lambda content: b"",
    lambda content: b"\n\n",
    lambda content: b"\xff" * len(content),
    lambda content: content + b"x",
    lambda content: content[1:],
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_not_read_and_is_written_again(
    kept: CacheFolder, damage: Callable[[bytes], bytes]
) -> None:
    kept.keep("key", "a text")
    [entry] = files(kept)
    entry.write_bytes(damage(entry.read_bytes()))
    assert kept.find("key") is None
    kept.keep("key", "a text")
    assert kept.find("key") == "a text"
    assert files(kept) == [entry]


def test_those_not_used_for_longest_are_removed(tmp_path: Path) -> None:
    kept = CacheFolder(tmp_path, most_bytes=10_000)
    (tmp_path / "of-the-user.txt").write_text("x" * 20_000)
    for number in range(40):
        kept.keep(str(number), "x" * 1000)
        for file in tmp_path.iterdir():  # each is older than those that follow
            os.utime(file, ns=(0, file.stat().st_mtime_ns - 10**9))
        assert kept.find("0") is not None, number  # its use makes it the latest
    assert sum(file.stat().st_size for file in tmp_path.glob("*.collsynth")) <= 13_000
    assert kept.find("39") is not None
    assert kept.find("1") is None
    assert (tmp_path / "of-the-user.txt").exists()


def test_a_folder_that_cannot_be_written_warns_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    kept = CacheFolder(tmp_path / "file" / "folder")
    for number in range(3):
        kept.keep(str(number), "text")
        assert kept.find(str(number)) is None
    [record] = caplog.records
    assert "nothing is kept in" in record.getMessage()


def test_a_file_in_place_of_the_folder_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    CacheFolder(tmp_path / "file").keep("key", "text")
    [record] = caplog.records
    assert record.getMessage().endswith("file: it is a file, not a folder")


def test_a_full_disk_leaves_nothing_behind(
    kept: CacheFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept.keep("before", "text")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module.os, "replace", full)
    kept.keep("key", "text")
    kept.keep("other", "text")
    assert len(files(kept)) == 1
    assert kept.find("before") == "text"
    [record] = caplog.records
    assert "No space left" in record.getMessage()


WRITING = """
import sys
from synth.cache.folder import CacheFolder
from pathlib import Path
folder = CacheFolder(Path(sys.argv[1]), most_bytes=200_000)
for number in range(300):
    key = str(number % 7)
    text = folder.find(key)
    assert text is None or text == key * 9999, key
    folder.keep(key, key * 9999)
    folder.keep(f"{sys.argv[2]} {number}", "x" * 999)
"""


def test_processes_write_and_read_at_once(kept: CacheFolder) -> None:
    """No process ever reads what another has half written, or fails as it removes the oldest."""
    words = [sys.executable, "-c", WRITING, str(kept.path)]
    started = [
        subprocess.Popen([*words, str(number)], stderr=subprocess.PIPE, text=True)
        for number in range(3)
    ]
    for process in started:
        assert process.communicate()[1] == ""
        assert process.returncode == 0
    assert not [*kept.path.glob("*partial*")]


def test_a_user_chooses_the_folder_or_none(tmp_path: Path) -> None:
    chosen = chosen_folder({"COLLSYNTH_CACHE": str(tmp_path)})
    assert chosen is not None
    assert chosen.path == tmp_path
    assert chosen is chosen_folder({"COLLSYNTH_CACHE": str(tmp_path)})
    assert chosen_folder({"COLLSYNTH_CACHE": "none", "HOME": str(tmp_path)}) is None
    usual = chosen_folder({"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "c")})
    assert usual is not None
    assert usual.path == tmp_path / "c" / "collsynth"
