"""The line of each key in a TOML text, because ``tomllib`` does not return positions.

The text is divided into its statements. A statement is the shortest run of lines that ``tomllib``
can read alone: a statement truncated inside a string or array cannot be read.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str | int, ...]
MOST_LINES = 200
"""The longest statement that is read, in lines; keys of longer statements are not found."""


def lines_of(text: str) -> Mapping[Path, int]:
    """Return the first line of each statement, counted from 1, by path of table, key and item.

    ``text`` is valid TOML. An array of tables counts its tables from 0: ``("axis", 1, "name")``.
    """
    first_lines: dict[Path, int] = {}
    tables: dict[Path, int] = {}
    table: Path = ()
    for line, statement, source in _statements(text):
        if source.startswith("["):
            table = _enter_table(statement, tables)
            for end in range(1, len(table) + 1):
                first_lines.setdefault(table[:end], line)
        else:
            for path in _paths(statement, table):
                first_lines.setdefault(path, line)
    return first_lines


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
    """Return the path of the table that a header opens; ``tables`` counts those of each array."""
    path: Path = ()
    inside: Any = header
    while inside:
        (key, inside), *_ = inside.items()
        path = (*path, key)
        if isinstance(inside, list):
            tables[path] = tables.get(path, 0) + 1
            inside = inside[0]
        if path in tables:
            path = (*path, tables[path] - 1)
    return path


def _paths(value: Any, table: Path) -> Iterator[Path]:
    pairs: Any = ()
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for key, inside in pairs:
        yield (*table, key)
        yield from _paths(inside, (*table, key))
