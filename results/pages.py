"""The page of results: every generated section is a template, filled from recorded data.

The templates of a question lie in its folder, each named after its section: that of "fidelity
spreads" is ``fidelity/fidelity-spreads.md.jinja``. The text between the sections is by hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from results import record

HERE = Path(__file__).parent
README = HERE / "README.md"
Data = dict[str, Any]


def page(question: str, **values: Any) -> str:
    """README.md with the sections of a question (a folder here) as these values have them.

    Raises ValueError if README.md lacks a section.
    """
    text = README.read_text(encoding="utf-8")
    for path in sorted((HERE / question).glob("*.md.jinja")):
        name = path.name.removesuffix(".md.jinja").replace("-", " ")
        body = _templates().get_template(f"{question}/{path.name}").render(values).rstrip("\n")
        text = _replaced(text, name, body)
    return text


def _replaced(text: str, name: str, body: str) -> str:
    begin, end = f"<!-- {name}: generated, do not edit -->", f"<!-- end of {name} -->"
    return text[: text.index(begin) + len(begin)] + f"\n{body}\n" + text[text.index(end) :]


def write(text: str) -> None:
    README.write_text(text, encoding="utf-8")


def keep(path: Path, data: Data, written: Callable[[Data], str]) -> None:
    """Keep results, and write the page that they give."""
    record.write(path, data)
    write(written(data))


def keep_or_check(path: Path, data: Data, written: Callable[[Data], str], *, check: bool) -> int:
    """Keep results; or say where kept ones, or the page, differ from them. The exit code."""
    if not check:
        keep(path, data, written)
        return 0
    old = record.read(path)
    found = list(record.differences(old, data))
    if written(old) != README.read_text(encoding="utf-8"):
        found.append(f"README.md is not what {path.name} gives")
    print("\n".join(found) or "the results are what a fresh run gives")
    return 1 if found else 0


def command(name: str, path: Path, made: Callable[[], Data], written: Callable[[Data], str]) -> int:
    """Makes results and keeps or checks them, or writes the page of kept ones. The exit code."""
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("--page", action="store_true", help="write the page from the data on disk")
    parser.add_argument("--check", action="store_true", help="compare a fresh run with the data")
    asked = parser.parse_args()
    if asked.page:
        write(written(record.read(path)))
        return 0
    return keep_or_check(path, made(), written, check=asked.check)


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
