"""The pages under docs/ can be reached, point at what exists, and name every command and flag."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from manual import DOCS, PAGES, README, ROOT, anchors, links, told
from synth.cli.app import app

ABOUT_THE_CODE = tuple(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md"))
_OUTSIDE = re.compile(r"[a-z]+:")


def commands(node: Any, words: tuple[str, ...] = ("collsynth",)) -> Iterator[tuple[str, Any]]:
    """Every command of the line with its words, those of groups after the group's."""
    for name, command in sorted(getattr(node, "commands", {}).items()):
        inner = (*words, name)
        if hasattr(command, "commands"):
            yield from commands(command, inner)
        else:
            yield " ".join(inner), command


def row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = (parameter.metavar or parameter.name).upper()
        spelling = f"`{name}`" if parameter.required else f"`[{name}]`"
    else:
        spelling = ", ".join(f"`{word}`" for word in (*parameter.opts, *parameter.secondary_opts))
    said = [(parameter.help or "").replace("|", "\\|")]
    if parameter.default not in (None, False, "", (), []) and not parameter.required:
        default = parameter.default
        said.append(f"Default: {default[0] if isinstance(default, list) else default}.")
    if getattr(parameter, "envvar", None):
        said.append(f"Variable: `{parameter.envvar}`.")
    return f"| {spelling} | {' '.join(said)} |"


def reference() -> str:
    """docs/commands.md as the command line has it."""
    text = (
        "# Commands and flags\n\n"
        "What `--help` says of every command; `README.md` says which page is about which. Results\n"
        "go to standard output, progress and log to standard error. `SYSTEM` is a name of the\n"
        "catalogue (`dgx-h100`, `dgx-h100:16` for 16 nodes) or a TOML file.\n"
    )
    line = typer.main.get_command(app)
    rows = [row(parameter) for parameter in line.params if not parameter.hidden]
    text += "\n## Before every command\n\nAs in `collsynth -v top ...`.\n"
    text += "\n".join(("\n| | |", "|---|---|", *rows, ""))
    for words, command in commands(line):
        rows = [row(parameter) for parameter in command.params if not parameter.hidden]
        title = words.removeprefix("collsynth ")
        text += f"\n## {title}\n\n`{words}`: {' '.join(command.help.split())}\n"
        text += "\n".join(("\n| | |", "|---|---|", *rows, ""))
    return text


def test_every_command_and_flag_is_documented(update_golden: bool) -> None:
    """``--update-golden`` writes the page anew from what the commands say of themselves."""
    page = DOCS / "commands.md"
    if update_golden:
        page.write_text(reference(), encoding="utf-8")
    assert page.read_text(encoding="utf-8") == reference()


def test_every_command_has_a_line_in_the_index() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    for words, _ in commands(typer.main.get_command(app)):
        assert f"`{words}" in index, words


def test_the_readme_is_short() -> None:
    """A first page that nobody reads to its end helps nobody."""
    assert len(README.read_bytes()) < 9_000


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_lines_of_prose_are_short(page: Path) -> None:
    """At most 100 characters, but for tables, links, blocks, and the help of commands."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    for line in text.splitlines():
        breaks = re.sub(r"`[^`]+`|\[[^\]]*\]\([^)]*\)", "x", line).strip().count(" ")
        written = line.startswith(("|", "    ", "`collsynth "))
        assert len(line) <= 100 or written or breaks < 2, line


@pytest.mark.parametrize("page", [*PAGES, *ABOUT_THE_CODE], ids=lambda page: page.stem)
def test_links_point_at_what_exists(page: Path) -> None:
    """So they work where the files are merely looked at; nothing under docs/ points out of it."""
    for link in links(page):
        if _OUTSIDE.match(link):
            assert link.startswith("https://"), link
            continue
        where, _, anchor = link.partition("#")
        target = (page.parent / where).resolve() if where else page
        assert target.exists(), f"{page.name}: {link}"
        if page.parent == DOCS:
            assert target.is_relative_to(DOCS), f"{page.name}: {link} is not part of the site"
        if anchor:
            assert anchor in anchors(target), f"{page.name}: {link}"


def test_every_page_is_in_the_navigation() -> None:
    told = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))

    def leaves(node: Any) -> Iterator[str]:
        if isinstance(node, str):
            yield node
        else:
            for inner in node.values() if isinstance(node, dict) else node:
                yield from leaves(inner)

    listed = list(leaves(told["nav"]))
    assert sorted(listed) == sorted(page.name for page in PAGES if page != README)
    assert (ROOT / "docs" / "index.md").name == listed[0]
    linked = {link.partition("#")[0] for link in links(DOCS / "index.md")}
    assert set(listed) - {"index.md"} <= linked


def test_the_pages_name_what_is_in_the_repository() -> None:
    for name in re.findall(r"`((?:results|deploy|docs|tests)/[\w./-]+)`", told()):
        assert (ROOT / name).exists(), name


@pytest.mark.skipif(find_spec("zensical") is None, reason="needs zensical, of the extra dev")
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "mkdocs.yml").write_bytes((ROOT / "mkdocs.yml").read_bytes())
    shutil.copytree(DOCS, tmp_path / "docs")
    words = (sys.executable, "-m", "zensical", "build", "--strict")
    plain = {**os.environ, "NO_COLOR": "1"}
    said = subprocess.run(words, cwd=tmp_path, env=plain, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    for page in PAGES[1:]:
        built = tmp_path / "build" / "site" / page.with_suffix(".html").name
        assert built.is_file(), built
        text = built.read_text(encoding="utf-8")
        fetched = re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="(https?:[^"]+)"', text)
        assert not fetched, "the site must work without a network"
