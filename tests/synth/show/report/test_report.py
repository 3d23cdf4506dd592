"""A report: one page that loads nothing, says all that the terminal says, and escapes all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import asked_plans
from browsing import browsing
from plain_text import printed
from synth.ask.answers.parts import Json
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS
from synth.cli.app import app
from synth.collective.ranking.request import Watcher
from synth.show.report import report
from synth.show.terminal.table import TABLES

HOSTILE = "</code></pre><script>alert(1)</script>\"'><img src=https://x.example/y onerror=alert(1)>"
SENT = [
    {"reduce": ["data"], "bytes": "1GiB"},
    {"reduce": ["model"], "bytes": "1MiB", "times": 9, "hidden": 0.5},
]
ONE = {"system": "dgx-h100:2", "axes": {"data": 4, "model": 4}, "reduce": ["data"]}
RANGE = {**ONE, "bytes": [2**10, 2**20], "max_steps": 2}
ASKED: dict[str, tuple[str, Json]] = {
    "one": ("top", {**ONE, "k": 3}),
    "placements": ("top", {**ONE, "k": 1, "per_placement": True, "max_steps": 2}),
    "range": ("top", RANGE),
    "job": ("top", {"system": ONE["system"], "axes": ONE["axes"], "collectives": SENT, "k": 2}),
    "plan": ("plan", {"system": "dgx-h100:2", "job": "mixtral-8x7b-experts", "k": 2}),
    "uneven": (
        "top",
        {**ONE, "axes": {"data": 15}, "without": ["node1/gpu3"], "k": 2},
    ),
    "nothing to do": ("top", {"system": "dgx-h100:1", "axes": {"data": 1, "model": 8},
                              "reduce": ["data"]}),
    "systems": ("sweep", {"systems": ["dgx-h100:2", "p2-a100:1"], "axes": {"data": 16},
                          "reduce": ["data"], "max_steps": 2}),
    "systems over sizes": ("sweep", {"systems": ["p2-a100:1", "dgx-a100:2"], "axes": {"data": 16},
                           "reduce": ["data"], "bytes": [2**10, 2**14], "max_steps": 2}),
}  # fmt: skip
if find_spec("jax"):
    ASKED["model"] = ("plan", asked_plans.ASKED)
ASKED["swept"] = (
    "plan",
    {
        "system": "dgx-h100:1",
        "model": "llama3-tiny",
        "k": 1,
        "pin": "pipe=1 zero=0 sequence=no remat=no",
        "sweep": {"batch": ["8", "16", "7"], "dtype": ["bfloat16", "float32"]},
    },
)
EMPTY = {"meta", "br", "img", "link", "input"}


@dataclass
class Page(HTMLParser):
    """A page as a strict reader has it: what was opened is closed, in the order of a stack."""

    text: str
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    preformatted: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "pre":
            self.preformatted.append("")
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "pre" in self.open:
            self.preformatted[-1] += data
        elif "style" not in self.open:
            self.said.append(data)

    def count(self, tag: str, its_class: str) -> int:
        """How many elements there are of a class."""
        return sum(
            name == tag and its_class in (has.get("class") or "").split()
            for name, has in self.elements
        )


@dataclass(frozen=True)
class Written:
    """An answer and its report."""

    verb: str
    body: Json
    html: str


@pytest.fixture(scope="module")
def reports() -> dict[str, Written]:
    found = {}
    for name, (verb, question) in ASKED.items():
        if name == "model":
            answer = asked_plans.body()
        else:
            answer = (
                VERBS[verb].answer(parse_question(VERBS[verb].question, question), Watcher()).body
            )
        body = json.loads(json.dumps(answer))
        found[name] = Written(verb, body, report(verb, question, body))
    return found


def check_loads_nothing(page: Page) -> None:
    """No element that fetches or runs anything, and a policy that forbids what may be missed."""
    tags = {tag for tag, _ in page.elements}
    assert not tags & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
        "image",
    }
    for _, has in page.elements:
        for name, value in has.items():
            assert not name.startswith("on")
            assert name not in ("src", "href", "xlink:href", "action", "style")
            assert name == "xmlns" or "://" not in (value or "")
    policy = {
        has["content"] for _, has in page.elements if has.get("http-equiv", "") and "content" in has
    }
    assert policy == {"default-src 'none'; style-src 'unsafe-inline'"}
    styles = re.findall(r"<style>(.*?)</style>", page.text, re.DOTALL)
    assert len(styles) == 1
    assert not re.search(r"@import|url\(|@font-face", styles[0])


@pytest.mark.parametrize("name", ASKED)
def test_the_report_agrees_with_the_terminal(name: str, reports: dict[str, Written]) -> None:
    """Every word of the terminal, but for lines that tell what a flag of the command writes."""
    one = reports[name]
    page = Page(one.html)
    terminal = printed(TABLES[one.verb](one.body), width=4000).splitlines()
    flags = [line for line in terminal if line.startswith(("-o FILE", "-o FOLDER"))]
    said = " ".join(page.said).split()
    left = list(said)
    for word in " ".join(line for line in terminal if line not in flags).split():
        assert word in left, word
        left.remove(word)
    assert not any(line in " ".join(said) for line in flags)


@pytest.mark.parametrize("name", ASKED)
def test_it_holds_the_question_and_the_answer_whole(name: str, reports: dict[str, Written]) -> None:
    page = Page(reports[name].html)
    question, body = (json.loads(text) for text in page.preformatted)
    assert question == ASKED[name][1]
    assert body == reports[name].body


@pytest.mark.parametrize("name", ASKED)
def test_it_loads_nothing(name: str, reports: dict[str, Written]) -> None:
    check_loads_nothing(Page(reports[name].html))


DRAWN = {  # pictures, curves, timelines, devices in all pictures
    "one": (1, 0, 1, 16),
    "placements": (2, 0, 1, 32),
    "range": (1, 3, 1, 16),
    "job": (2, 0, 1, 32),
    "plan": (2, 0, 1, 32),
    "uneven": (1, 0, 0, 16),
    "nothing to do": (1, 0, 0, 8),
    "systems": (2, 0, 2, 32),
    "systems over sizes": (2, 6, 2, 32),
    "model": (3, 3, 3, 24),
    "swept": (0, 2, 0, 0),
}


@pytest.mark.parametrize("name", ASKED)
def test_it_draws_placements_curves_and_times(name: str, reports: dict[str, Written]) -> None:
    page = Page(reports[name].html)
    pictures, lines, timelines, devices = DRAWN[name]
    assert page.count("svg", "placed") == pictures
    assert page.count("svg", "curve") == lines
    assert page.count("svg", "timeline") == timelines
    assert reports[name].html.count('<g class="device"') == devices


def every(value: Any, key: str) -> Iterator[Any]:
    """All that stands under a key, however deep."""
    if isinstance(value, dict):
        yield from ([value[key]] if key in value else [])
        for one in value.values():
            yield from every(one, key)
    elif isinstance(value, list):
        for one in value:
            yield from every(one, key)


@pytest.mark.parametrize(
    "name", [name for name in ASKED if name not in ("uneven", "model", "swept")]
)
def test_each_answer_has_advice(name: str, reports: dict[str, Written]) -> None:
    kept = json.loads(json.dumps(reports[name].body))
    body = {k: v for k, v in kept.items() if k != "elsewhere"}
    for one in body.get("systems", ()):
        one.pop("elsewhere", None)
    for one in every(body, "stretches"):
        for stretch in one:
            del stretch["last"]
            stretch["first"].pop("worth_measuring", None)
    for default in every(body, "default"):
        default.pop("advice", None)
    ways = [one["text"] for one in every(body, "advice")]
    said = Page(reports[name].html).said
    assert ways
    assert all(said.count(way) >= ways.count(way) for way in ways)


def test_a_stopped_answer_is_marked_partial(reports: dict[str, Written]) -> None:
    one = reports["one"]
    assert "Partial." not in Page(one.html).said
    assert "Partial." in Page(report("top", {}, {**one.body, "complete": False})).said


def spoiled(value: Any, key: str = "") -> Any:
    """An answer with every free text replaced; names of levels and axes are words of a program."""
    match value:
        case dict() if key in ("default", "later_default"):
            return value  # its name is one of a few
        case dict():
            return {k: spoiled(v, f"level {k}" if key == "levels" else k) for k, v in value.items()}
        case list():
            return [spoiled(one, key) for one in value]
        case str() if key in ("name", "title", "why", "medium", "source", "text", "job"):
            return value + HOSTILE
        case _:
            return value


@pytest.mark.parametrize("name", ["one", "range", "job", "uneven"])
def test_hostile_names_stay_text(name: str, reports: dict[str, Written]) -> None:
    body = spoiled(reports[name].body)
    page = Page(report("top", {"system": HOSTILE}, body))
    check_loads_nothing(page)
    assert HOSTILE in " ".join(page.said)
    assert json.loads(page.preformatted[0]) == {"system": HOSTILE}
    assert json.loads(page.preformatted[1]) == body


SMALL = ["top", "dgx-h100:1", "--axes", "data=8", "--reduce", "data", "-k", "1", "--max-steps", "1"]


def test_the_command_writes_it_beside_its_answer(tmp_path: Path) -> None:
    where = tmp_path / "new" / "folder" / "report.html"
    plain = CliRunner().invoke(app, SMALL)
    said = CliRunner().invoke(app, [*SMALL, "--report", str(where)])
    assert said.exit_code == 0
    assert said.stdout == plain.stdout
    assert said.stderr == f"wrote 1 file to {where}\n"
    page = Page(where.read_text(encoding="utf-8"))
    check_loads_nothing(page)
    assert json.loads(page.preformatted[0])["system"] == "dgx-h100:1"
    again = CliRunner().invoke(app, [*SMALL, "--json", "--report", str(where)])
    assert json.loads(page.preformatted[1]) == json.loads(again.stdout)


@pytest.mark.parametrize("name", ["report.txt", "report", "", "folder/", ".html"])
def test_unknown_pages_are_refused_before_any_question(name: str) -> None:
    said = CliRunner().invoke(
        app, ["top", "none", "--axes", "a=1", "--reduce", "a", "--report", name]
    )
    assert said.exit_code == 2
    assert said.stderr == (
        f"collsynth: --report: {name!r} does not end in .html; "
        "a report is a page for browsers, as in report.html\n"
    )


def test_unwritable_files_are_reported_after_the_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    where = tmp_path / "file" / "report.html"
    said = CliRunner().invoke(app, [*SMALL, "--report", str(where)])
    assert said.exit_code == 2
    assert "all-reduce of 1 GiB over data" in said.stdout
    assert said.stderr.startswith(f"collsynth: {where}: cannot write: ")
    assert said.stderr.count("\n") == 1


CLIPPED = """() => [...document.querySelectorAll('svg text')].filter(text => {
  const inner = text.getBoundingClientRect(), outer = text.ownerSVGElement.getBoundingClientRect();
  return inner.left < outer.left - 1 || inner.right > outer.right + 1;
}).map(one => one.textContent)"""
INKS = """() => { const of = one => getComputedStyle(one);
  return [of(document.body).color, of(document.body).backgroundColor,
    of(document.querySelector('svg.placed')).color, of(document.querySelector('.unit')).fill] }"""


@pytest.mark.parametrize("name", [*("one", "range", "plan", "systems"), *{"model"} & {*ASKED}])
def test_a_browser_opens_it_from_the_disk(
    name: str, browser: Any, reports: dict[str, Written], tmp_path: Path
) -> None:
    """Wide in light, narrow in dark: nothing is cut, nothing is fetched, nothing complains."""
    file = tmp_path / "report.html"
    file.write_text(reports[name].html, encoding="utf-8")
    seen_inks = []
    for width, scheme in ((1100, "light"), (400, "dark")):
        size = {"width": width, "height": 900}
        with browsing(browser, file.as_uri(), viewport=size, color_scheme=scheme) as seen:
            seen.page.goto(file.as_uri())
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
            assert seen.page.evaluate(CLIPPED) == []
            seen_inks.append(seen.page.evaluate(INKS))
            seen.check()
    for light, dark in zip(*seen_inks, strict=True):
        assert light != dark
