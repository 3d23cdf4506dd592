"""Where results are kept, by the conventions of platforms."""

from __future__ import annotations

from pathlib import Path

import pytest

from synth.cache.choice import cache_off, is_kept, user_folder


@pytest.mark.parametrize(
    ("environment", "platform", "folder"),
    [
        ({}, "linux", ".cache/collsynth"),
        ({"XDG_CACHE_HOME": "/c"}, "linux", "/c/collsynth"),
        ({"XDG_CACHE_HOME": "relative"}, "linux", ".cache/collsynth"),
        ({}, "darwin", "Library/Caches/collsynth"),
        ({}, "win32", "AppData/Local/collsynth/Cache"),
        ({"LOCALAPPDATA": "/l"}, "win32", "/l/collsynth/Cache"),
    ],
)
def test_the_folder_of_a_user(environment: dict[str, str], platform: str, folder: str) -> None:
    assert user_folder({"HOME": "/home/me", **environment}, platform) == Path("/home/me") / folder


def test_a_user_without_a_home_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", missing)
    assert user_folder({}, "linux") is None


def test_nothing_is_kept_where_a_user_says_so() -> None:
    assert is_kept({})
    assert not is_kept({"COLLSYNTH_CACHE": "none"})
    before = cache_off.set(True)
    try:
        assert not is_kept({})
    finally:
        cache_off.reset(before)
