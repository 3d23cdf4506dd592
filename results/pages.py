"""Pages of results: every generated section is a template, filled from recorded data.

Each question is a folder with its page, README.md, and its templates, each named after its section:
that of "fidelity spreads" is ``fidelity/fidelity-spreads.md.jinja``. The text between the sections
is written by hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from results import record

HERE = Path(__file__).parent
Data = dict[str, Any]


@dataclass(frozen=True)
class Page:
    """The page of a question, as some values have its generated sections."""

    path: Path
    text: str

    @property
    def is_current(self) -> bool:
        """Whether the page on disk is this one."""
        return self.path.read_text(encoding="utf-8") == self.text

    def write(self) -> None:
        self.path.write_text(self.text, encoding="utf-8")


def page(question: str, **values: Any) -> Page:
    """The page of a question (a folder here), its sections as these values have them.

    Raises ValueError if the page lacks a section.
    """
    path = HERE / question / "README.md"
    text = path.read_text(encoding="utf-8")
    for template in sorted((HERE / question).glob("*.md.jinja")):
        name = template.name.removesuffix(".md.jinja").replace("-", " ")
        body = _templates().get_template(f"{question}/{template.name}").render(values)
        text = _replace_section(text, name, body.rstrip("\n"))
    return Page(path, text)


def _replace_section(text: str, name: str, body: str) -> str:
    begin, end = f"<!-- {name}: generated, do not edit -->", f"<!-- end of {name} -->"
    return text[: text.index(begin) + len(begin)] + f"\n{body}\n" + text[text.index(end) :]


def keep(path: Path, data: Data, make_page: Callable[[Data], Page]) -> None:
    """Keep results, and write the page that they give."""
    record.write(path, data)
    make_page(data).write()


def keep_or_check(path: Path, data: Data, make_page: Callable[[Data], Page], *, check: bool) -> int:
    """Keep results; or say where kept ones, or the page, differ from them. The exit code."""
    if not check:
        keep(path, data, make_page)
        return 0
    old = record.read(path)
    differences = list(record.differences(old, data))
    if not make_page(old).is_current:
        differences.append(f"README.md is not what {path.name} gives")
    print("\n".join(differences) or "the results are what a fresh run gives")
    return 1 if differences else 0


def command(
    name: str, path: Path, measure: Callable[[], Data], make_page: Callable[[Data], Page]
) -> int:
    """Makes results and keeps or checks them, or writes the page of kept ones. The exit code."""
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("--page", action="store_true", help="write the page from the data on disk")
    parser.add_argument("--check", action="store_true", help="compare a fresh run with the data")
    arguments = parser.parse_args()
    if arguments.page:
        make_page(record.read(path)).write()
        return 0
    return keep_or_check(path, measure(), make_page, check=arguments.check)


@cache
def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    made.filters |= {"form": format, "met": _met, "origin": _origin}
    return made


def _met(yes: bool) -> str:
    return "yes" if yes else "**no**"


def _origin(data: Data) -> str:
    made = f"Made by `{data['command']}` at commit {data['commit']}, {data['date']}"
    if "code_at" in data:
        made += f" (commit {data['code_at']} has the code)"
    return made
