"""On which line of a TOML text each key stands: ``tomllib`` reads values, but forgets places.

The text is cut into its statements, each the shortest run of lines that ``tomllib`` can read on
its own: a statement that is cut off inside a string or array cannot be read.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str | int, ...]
MOST_LINES = 200
"""The longest statement that is read; the keys of a longer one are not found."""


def lines_of(text: str) -> Mapping[Path, int]:
    """For the path of each table, key and item the line its statement begins at, from 1.

    ``text`` is valid TOML. An array of tables counts its tables from 0: ``("axis", 1, "name")``.
    """
    found: dict[Path, int] = {}
    tables: dict[Path, int] = {}
    room: Path = ()
    for line, statement, source in _statements(text):
        if source.startswith("["):
            room = _enter_table(statement, tables)
            for end in range(1, len(room) + 1):
                found.setdefault(room[:end], line)
        else:
            for path in _paths(statement, room):
                found.setdefault(path, line)
    return found


def _statements(text: str) -> Iterator[tuple[int, dict[str, Any], str]]:
    lines = text.replace("\r\n", "\n").split("\n")
    start = 0
    while start < len(lines):
        for end in range(start + 1, min(len(lines), start + MOST_LINES) + 1):
            source = "\n".join(lines[start:end])
            try:
                statement = tomllib.loads(source)
            except ValueError:
                continue
            if statement:
                yield start + 1, statement, source.lstrip()
            start = end
            break
        else:
            return


def _enter_table(header: dict[str, Any], tables: dict[Path, int]) -> Path:
    """The path of the table that a header opens; ``tables`` counts those of each array."""
    room: Path = ()
    inside: Any = header
    while inside:
        (key, inside), *_ = inside.items()
        room = (*room, key)
        if isinstance(inside, list):
            tables[room] = tables.get(room, 0) + 1
            inside = inside[0]
        if room in tables:
            room = (*room, tables[room] - 1)
    return room


def _paths(value: Any, room: Path) -> Iterator[Path]:
    pairs: Any = ()
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for key, inside in pairs:
        yield (*room, key)
        yield from _paths(inside, (*room, key))
