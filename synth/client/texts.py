"""Files as questions carry them: their names and texts, as the service reads no disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hierarchies import InputError


def named_text(path: str | Path, name: str | None = None) -> dict[str, str]:
    """A file as questions carry it: its name and its text.

    ``name`` replaces the file's own name, as in ``ours.toml:16`` for 16 of its outermost units.
    Raises as ``text_of``.
    """
    path = Path(path)
    return {"name": name or path.name, "text": text_of(path)}


def text_of(path: Path) -> str:
    """The text of a file. Raises InputError where it cannot be read as text."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("is no text in UTF-8", where=str(path)) from None


def to_sendable(value: Any) -> Any:
    """A value of a question as it is sent: paths become the names and texts of their files."""
    if isinstance(value, Path):
        return named_text(value)
    if isinstance(value, Mapping):
        return {key: to_sendable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_sendable(inner) for inner in value]
    return value
