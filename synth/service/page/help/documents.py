"""The pages of the documentation, from the wheel or from a checkout."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup

_SHOWN_SUFFIXES = (".md", ".png", ".csv", ".toml", ".json")
_NO_WORD = re.compile(r"[^\w\- ]")


@dataclass(frozen=True)
class HelpDocument:
    """A page: its title and body."""

    title: str
    body: Markup


@cache
def files() -> Mapping[str, Traversable]:
    """Return the files under ``docs/`` by path; empty if they are not installed."""
    packaged = resources.files("synth.service.page") / "docs"
    root: Traversable = packaged if packaged.is_dir() else Path(__file__).parents[4] / "docs"
    every = files_below(root) if root.is_dir() else ()
    return {path: file for path, file in every if path.endswith(_SHOWN_SUFFIXES)}


def files_below(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield the files of a folder and its subfolders by path."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from files_below(entry, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry


@cache
def document(path: str) -> HelpDocument:
    """Render a Markdown page as HTML, escaping HTML in it. Raises KeyError if there is none."""
    tokens = _markdown().parse(files()[path].read_text(encoding="utf-8"))
    title = path
    for token, inline in pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", slug(inline.content))
            title = inline.content if token.tag == "h1" else title
    return HelpDocument(title, Markup(_markdown().renderer.render(tokens, _markdown().options, {})))


def slug(heading: str) -> str:
    """Return the anchor of a heading, as links in the documentation spell it."""
    return _NO_WORD.sub("", heading.lower().replace("`", "")).strip().replace(" ", "-")


@cache
def _markdown() -> MarkdownIt:
    """Return a Markdown parser whose tables scroll in boxes of their own."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.add_render_rule("table_open", _box_table)
    markdown.add_render_rule("table_close", _box_table)
    markdown.add_render_rule("th_open", _heading)
    return markdown


def _box_table(
    renderer: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType
) -> str:
    opens = tokens[at].type == "table_open"
    box = '<div class="wide" role="region" aria-label="Table" tabindex="0">'
    return f"{box}<table>\n" if opens else "</table></div>\n"


def _heading(
    renderer: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType
) -> str:
    return '<th scope="col">'
