"""A file is read with one set of words for what is wrong, whoever reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hierarchies import InputError, load
from hierarchies.files.named_texts import named_text


@pytest.mark.parametrize("read", [load, named_text])
def test_a_file_that_cannot_be_read_is_named(read: Callable[[str], object], tmp_path: Path) -> None:
    missing, binary = tmp_path / "missing.toml", tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"missing\.toml: cannot read the file: No such file"):
        read(str(missing))
    with pytest.raises(InputError, match=r"binary\.toml: the file is not text in UTF-8"):
        read(str(binary))
    with pytest.raises(InputError, match="cannot read the file: embedded null"):
        read("a\0b.toml")


def test_a_text_has_no_mark_of_byte_order(tmp_path: Path) -> None:
    marked = tmp_path / "marked.toml"
    marked.write_bytes(b"\xef\xbb\xbfname\r\n")
    assert named_text(marked) == {"name": "marked.toml", "text": "name\n"}
