"""Files in questions: sent as names and texts, as the service does not read the client's disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hierarchies.errors import InputError


def named_text(path: str | Path, name: str | None = None) -> dict[str, str]:
    """Return a file in the form that questions contain: its name and text.

    ``name`` replaces the file's own name, such as ``ours.toml:16`` for 16 of its outermost units.
    Raises as ``text_of``.
    """
    path = Path(path)
    return {"name": name or path.name, "text": text_of(path)}


def text_of(path: str | Path, most_characters: int = -1) -> str:
    """Return the text of a file, or its first characters.

    Raises InputError if it cannot be read as text.
    """
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            return file.read(most_characters)
    except OSError as error:
        raise InputError(f"cannot read the file: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("the file is not text in UTF-8", where=str(path)) from None
    except ValueError as error:
        raise InputError(f"cannot read the file: {error}", where=repr(path)) from None


def to_sendable(value: Any) -> Any:
    """Convert a value of a question for JSON: paths become names and texts of their files."""
    if isinstance(value, Path):
        return named_text(value)
    if isinstance(value, Mapping):
        return {key: to_sendable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_sendable(item) for item in value]
    return value
