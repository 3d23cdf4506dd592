"""Values that are kept: in memory, on disk, or nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from synth.cache.choice import VARIABLE
from synth.cache.codec import Codec
from synth.cache.folder import CacheFolder
from synth.cache.kept import KeptValues


def values(most: int = 2) -> KeptValues[tuple[int, ...]]:
    return KeptValues("numbers", Codec(), most)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CacheFolder:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return CacheFolder(tmp_path)


def test_a_value_is_found_in_memory_and_by_others(folder: CacheFolder) -> None:
    first, value = values(), (1, 2)
    assert first.find("key") is None
    first.keep("key", value)
    assert first.find("key") is value
    assert values().find("key") == value
    assert KeptValues("others", Codec(), 2).find("key") is None


def test_memory_is_bounded_and_the_disk_has_the_rest(folder: CacheFolder) -> None:
    kept, several = values(), [(number,) for number in range(4)]
    for value in several:
        kept.keep(str(value), value)
    latest_first = several[::-1]
    same = [kept.find(str(value)) is value for value in latest_first]
    assert same == [True, True, False, False]
    assert [kept.find(str(value)) for value in several] == several


def test_an_entry_that_cannot_be_read_is_written_again(folder: CacheFolder) -> None:
    folder.keep("numbers key", '{"Stranger":[]}')
    assert values().find("key") is None
    values().keep("key", (1,))
    assert values().find("key") == (1,)


def test_what_is_forgotten_is_read_from_disk(folder: CacheFolder) -> None:
    kept, value = values(), (1,)
    kept.keep("key", value)
    kept.forget()
    assert kept.find("key") == value
    assert kept.find("key") is not value


def test_without_a_cache_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "none")
    kept = values()
    kept.keep("key", (1,))
    assert kept.find("key") is None
    monkeypatch.delenv(VARIABLE)
    kept.forget()
