"""Reads files from other tools into text, or raises one clear error."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hierarchies.errors import InputError

LARGEST_BYTES = 16 * 2**20
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def read_texts(paths: Iterable[str]) -> dict[str, str]:
    """The text of every file, by its path. Raises InputError, naming the file."""
    return {path: _text(path) for path in paths}


def _text(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read the file: {reason}", where=path) from None
    return decode_text(content, path)


def decode_text(content: bytes, where: str) -> str:
    """Decode a file. Raises InputError if it is too large, or no text in UTF-8."""
    if len(content) > LARGEST_BYTES:
        raise InputError(
            f"the file has more than {LARGEST_BYTES // 2**20} MiB",
            where=where,
            hint="give the part that describes the topology",
        )
    if content.startswith(_UTF_16):
        raise InputError("the file is text in UTF-16", where=where, hint="save it as UTF-8")
    if b"\0" in content:
        raise InputError("the file has NUL bytes in it: it is no text", where=where)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"the file is not text in UTF-8 (byte {error.start})"
        raise InputError(problem, where=where) from None
    if not text.strip():
        raise InputError("the file is empty", where=where)
    return text
