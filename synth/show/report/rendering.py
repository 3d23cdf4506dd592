"""Templates with their values in place, and tables of the terminal as tables of a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from operator import itemgetter
from typing import Any

from jinja2 import (
    ChoiceLoader,
    Environment,
    PackageLoader,
    StrictUndefined,
    select_autoescape,
)
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.parts import StepPricePart
from synth.show.terminal.rows import STEP_FIGURES, STEPS
from synth.show.terminal.style import axes_text, table_of

_PACKAGE = "synth.show.report"


@dataclass(frozen=True)
class Paragraph:
    """A paragraph whose lines stay apart."""

    text: str


@dataclass(frozen=True)
class Cells:
    """A table: its headings (none if hidden), which columns are figures or code, its rows."""

    headings: Sequence[str]
    figures: Sequence[bool]
    code: Sequence[bool]
    rows: Sequence[Sequence[str]]

    @classmethod
    def of(
        cls, headings: Sequence[str], rows: Sequence[Sequence[str]], *, figures: bool = False
    ) -> Cells:
        """Return a table of names in the first column and of texts, or figures, in all others."""
        others = len(headings) - 1
        return cls(headings, [False, *[figures] * others], [False] * len(headings), rows)


def environment(*packages: str) -> Environment:
    """Return the environment of the templates in some packages and here; every value is escaped."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in (*packages, _PACKAGE)]),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "axes_text": axes_text,
        "duration": format_duration,
        "pretty": _pretty_json,
        "step_table": _step_table,
        "volume": format_bytes,
    }
    return made


@cache
def style() -> str:
    """Return the one style sheet of pages and reports."""
    return (resources.files(_PACKAGE) / "page.css").read_text(encoding="utf-8")


_CODE = ("program", "matrix", "plan")
"""The headings of columns in the notation of programs."""
_WRITES = ("-o FILE", "-o FOLDER")
"""The beginnings of lines that explain a flag."""


def blocks(what: RenderableType) -> Iterator[Paragraph | Cells]:
    """Yield the output of a terminal as paragraphs and tables.

    Lines about flags that write files are omitted: they are only for users of the command line.
    """
    lines: list[str] = []
    for part in _flatten(what):
        if isinstance(part, str):
            lines += [line for line in part.split("\n") if not line.startswith(_WRITES)]
            continue
        yield from _paragraphs(lines)
        lines = []
        yield cells_of(part)
    yield from _paragraphs(lines)


def _flatten(what: RenderableType) -> Iterator[str | Table]:
    match what:
        case Group():
            for part in what.renderables:
                yield from _flatten(part)
        case Text():
            yield what.plain
        case str() | Table():
            yield what
        case _:
            raise AssertionError(f"no table has a {type(what).__name__}")


def _paragraphs(lines: Sequence[str]) -> Iterator[Paragraph]:
    """Yield texts with empty lines between them."""
    for text in "\n".join(lines).split("\n\n"):
        if text.strip():
            yield Paragraph(text.strip("\n"))


def cells_of(table: Table) -> Cells:
    """Return a table of the terminal as a table of a page."""
    headings = [str(column.header) for column in table.columns]
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    return Cells(
        headings if table.show_header else (),
        [column.justify == "right" for column in table.columns],
        [
            heading in _CODE or all(cell.startswith("[[") for cell in cells)
            for heading, cells in zip(headings, columns, strict=True)
        ],
        list(zip(*columns, strict=True)),
    )


def _step_table(numbered: Iterable[tuple[str, StepPricePart]]) -> Cells:
    def of_step(cell: Callable[[StepPricePart], str]) -> Callable[[tuple[str, StepPricePart]], str]:
        return lambda row: cell(row[1])

    columns = {heading: of_step(cell) for heading, cell in STEPS.items()}
    return cells_of(table_of(numbered, {"#": itemgetter(0), **columns}, right=STEP_FIGURES))


def _pretty_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
