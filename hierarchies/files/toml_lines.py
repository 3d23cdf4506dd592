"""The line of each key in a TOML text, as ``tomllib`` reads values but does not keep positions.

The text is cut into its statements, each the shortest run of lines that ``tomllib`` can read alone:
a statement that is cut off inside a string or array cannot be read.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str | int, ...]
MOST_LINES = 200
"""The longest statement that is read, in lines; keys of longer ones are not found."""


def lines_of(text: str) -> Mapping[Path, int]:
    """For the path of each table, key and item, the first line of its statement, counted from 1.

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
    """The path of the table that a header opens; ``tables`` counts those of each array."""
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
