"""What stands in the README and in the pages under docs/: their texts, blocks and links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = (README, *sorted(DOCS.glob("*.md")))
_BLOCK = re.compile(r"^```([\w-]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of a page."""

    page: Path
    text: str

    def __str__(self) -> str:
        return f"{self.page.stem}: {self.text.partition(chr(10))[0].removeprefix('$ ')}"[:60]


def blocks(language: str, *pages: Path) -> list[Block]:
    """The blocks of one language, in the pages named, or in all."""
    return [
        Block(page, body)
        for page in pages or PAGES
        for kind, body in _BLOCK.findall(page.read_text(encoding="utf-8"))
        if kind == language
    ]


def told() -> str:
    """All that the pages say."""
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def links(page: Path) -> list[str]:
    """Where a page points to, without what stands in blocks and between backquotes."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    return _LINK.findall(re.sub(r"`[^`\n]*`", "", text))


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as file viewers and Python-Markdown both make them."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    plain = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in _HEADING.findall(text))
    return {re.sub(r"\s", "-", heading) for heading in plain}
