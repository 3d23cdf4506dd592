"""What the page shows, before there is any page: colours, pictures, figures, forms, files."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import asdict
from hashlib import sha256
from html.parser import HTMLParser
from importlib import resources
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="needs the extra server")


from hierarchies import InputError
from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.parts import to_json
from synth.ask.questions.question import parse_question
from synth.ask.ranking import TopQuestion
from synth.ask.table import VERBS
from synth.collective.ranking.request import DefaultComparison, Watcher
from synth.service.limits import Limits
from synth.service.page.answer_routes import ViewedAnswer
from synth.service.page.forms import FORMS
from synth.service.page.forms.checks import check
from synth.service.page.forms.fields import parse_fields
from synth.service.page.forms.values import (
    example,
    question,
    values_of_fields,
    values_of_question,
)
from synth.service.page.rendering import render, static_files
from synth.service.page.results import question_over_sizes, ranking_of, result
from synth.show.report.colours import contrast
from synth.show.report.curves import draw_curves
from synth.show.report.details import emit_question
from synth.show.report.topology import topology
from synth.show.terminal.rows import rows

HOSTILE = (
    "<script>alert(1)</script>",
    "\"'`><img src=x onerror=alert(1)>",
    "\u202egnp.exe",
    "{{1234*5}}",
)
UNEVEN = {
    "system": "dgx-h100:2",
    "axes": {"data": 15},
    "reduce": ["data"],
    "without": ["node1/gpu3"],
}
TOP = FORMS["top"]
ASKED: dict[str, dict[str, Any]] = {
    "one": {
        "system": "dgx-h100:4",
        "axes": {"data": 8, "model": 4},
        "reduce": ["data"],
        "k": 5,
        "max_steps": 3,
    },
    "stripes": {"system": "dgx-h100:2", "axes": {"data": 16}, "reduce": ["data"], "k": 2},
    "uneven": {**UNEVEN, "k": 2},
    "worn": {**UNEVEN, "axes": {"data": 16}, "without": [], "slow": {"node1/nic2": 0.5}, "k": 2},
    "range": {
        "system": "p2-a100:2",
        "axes": {"data": 32},
        "reduce": ["data"],
        "bytes": [2**12, 2**24],
        "max_steps": 3,
    },
}


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    verb = VERBS["top"]
    found = {}
    for name, given_ in ASKED.items():
        body = verb.answer(parse_question(verb.question, given_), Watcher()).body
        found[name] = ranking_of("top", json.loads(json.dumps(body)))
    return found


class Page(HTMLParser):
    """What a browser would make of a text: its elements, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.said = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.said += data


PAIRS = [
    *(
        ("ink", ground)
        for ground in ("ground", "card", "row", "note-ground", "warn-ground", "bad-ground")
    ),
    *(
        (ink, "card")
        for ink in ("faint", "link", "good", "bad", "warn", "best", "default", "bound")
    ),
    *((ink, "ground") for ink in ("faint", "link", "good", "bad", "warn")),
    ("main-ink", "main"),
    ("ink", "hub"),
]
LINES = [("focus", "ground"), ("focus", "card"), ("wire", "card"), ("link", "row")]


@pytest.mark.parametrize("look", [0, 1, 2], ids=["light", "dark by the system", "dark by choice"])
def test_our_colours_are_read_in_every_look(look: int) -> None:
    css = static_files()["page.css"].content.decode()
    blocks = re.findall(r"\{\s*(--ground:[^}]*)\}", css)
    assert len(blocks) == 3
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", blocks[look]))
    for ink, ground in PAIRS:
        assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    for line, ground in LINES:
        assert contrast(colours[line], colours[ground]) >= 3, (line, ground)


def test_vendored_files_match_their_list() -> None:
    folder = resources.files("synth.service.page") / "static" / "vendor"
    listed = tomllib.loads((folder / "vendor.toml").read_text(encoding="utf-8"))["package"]
    for package in listed:
        assert {"name", "version", "licence", "source", "sha256"} == set(package)
        assert any(name.endswith("/LICENSE") for name in package["sha256"])
        for name, digest in package["sha256"].items():
            assert sha256(static_files()[f"vendor/{name}"].content).hexdigest() == digest
    named = {f"vendor/{name}" for package in listed for name in package["sha256"]}
    assert {n for n in static_files() if n.startswith("vendor/")} == named | {"vendor/vendor.toml"}


def test_nothing_is_fetched_from_elsewhere() -> None:
    folder = resources.files("synth.service.page") / "templates"
    texts = [one.read_text(encoding="utf-8") for one in folder.iterdir()]
    own = [
        file.content.decode()
        for name, file in static_files().items()
        if not name.startswith("vendor/")
    ]
    for text in [*texts, *own]:
        links = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", text)
        assert {link for link in links if "w3.org" not in link} <= {"https://ui.perfetto.dev"}
        assert not re.search(r"\s(style|on[a-z]+)=\"", text)


def test_faults_are_marked_where_they_are(answers: dict[str, Any]) -> None:
    uneven, worn = (
        topology(system.levels, system.exceptions)
        for system in (answers["uneven"].system, answers["worn"].system)
    )
    missing = [n["data"]["name"] for n in uneven.nodes if n["data"].get("missing")]
    assert missing == ["node1/gpu3"]
    [edge] = [edge for edge in worn.edges if edge["classes"] == "worn"]
    assert (edge["data"]["source"], edge["data"]["label"]) == ("u1", "port2 at 50%")


@pytest.mark.parametrize("name", ASKED)
def test_every_kind_of_answer_is_shown_whole(name: str, answers: dict[str, Any]) -> None:
    answer = answers[name]
    view = result(answer, 0)
    assert len(view.rows) == len(answer.stretches if name == "range" else answer.answers)
    assert view.chosen is not None
    shown = Page(render("chosen.html", view=view, base="/answers/x", index=0))
    for device in view.chosen.devices:
        assert shown.said.count(device.name) >= 1
    tables = [tag for tag, _ in shown.elements if tag == "table"]
    assert len(tables) >= 3
    template = "{% from 'macros.html' import ranking %}{{ ranking(view, '/answers/x', 0) }}"
    from synth.service.page.rendering import _environment

    listed = Page(_environment().from_string(template).render(view=view))
    assert len([1 for tag, has in listed.elements if "data-answer" in has]) == len(view.rows)
    assert "proved" in listed.said


def test_a_row_that_is_not_there_is_refused(answers: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="there is no answer 5"):
        result(answers["one"], 5)


@pytest.mark.parametrize("name", [name for name in ASKED if name != "uneven"])
def test_every_row_can_be_emitted(name: str, answers: dict[str, Any]) -> None:
    verb = VERBS["emit"]
    for index in range(len(rows(answers[name]))):
        given_ = emit_question(answers[name], index, "svg")
        files = verb.answer(parse_question(verb.question, given_), Watcher()).body["files"]
        assert [file["name"] for file in files] == ["timeline.svg", "timeline.json"]


def test_an_uneven_row_is_emitted_as_groups(answers: dict[str, Any]) -> None:
    verb = VERBS["emit"]
    given_ = emit_question(answers["uneven"], 1, "json")
    assert verb.answer(parse_question(verb.question, given_), Watcher()).body["target"] == "json"


def test_the_table_of_curves_has_every_size_and_every_crossover(answers: dict[str, Any]) -> None:
    answer = answers["range"]
    drawn = draw_curves(answer)
    sizes = sorted(answer.sizes, key=lambda size: size.bytes)
    assert [row[0] for row in drawn.table.rows] == [format_bytes(size.bytes) for size in sizes]
    text = render("sizes.html", curves=drawn, link=None)
    assert re.findall("<li><strong>(.*?)</strong>", text) == [one.sizes for one in drawn.stretches]
    shown = Page(text)
    assert "A question about one size also considers stripes" in text
    assert len([1 for tag, _ in shown.elements if tag == "tr"]) == 1 + len(answer.sizes)
    assert len([1 for tag, _ in shown.elements if tag == "svg"]) == 3
    heads = re.findall('<th scope="col"[^>]*>([^<]*)<', text)
    cells = re.findall("<td[^>]*>([^<]*)<", text)[: len(heads) - 1]
    first, figures = sizes[0], dict(zip(heads[1:], cells, strict=True))
    assert figures["default time"] == format_duration(first.baseline_seconds)
    gain = f"{first.baseline_seconds / first.seconds:.2f}x"
    told = {DefaultComparison.SAME: "tie", DefaultComparison.NOT_OFFERED: "none"}
    assert figures["speed-up"] == told.get(first.against_default, gain)
    assert figures["default algorithm"].split(", ")[0] == first.default_name
    assert figures["bus bandwidth"].endswith(" GB/s")


def test_a_question_over_sizes_is_one_that_can_be_put(answers: dict[str, Any]) -> None:
    given_ = parse_question(TopQuestion, {**ASKED["one"], "per_placement": True})
    put = question_over_sizes(given_, answers["one"])
    assert put is not None
    again = parse_question(TopQuestion, put.model_dump(mode="json"))
    again.asked()
    assert question_over_sizes(again, answers["range"]) is None
    assert (
        question_over_sizes(
            parse_question(TopQuestion, {**ASKED["one"], "bytes": 5}), answers["uneven"]
        )
        is None
    )


@pytest.mark.parametrize(
    "hostile", [*HOSTILE, "x" * 2**20], ids=["tag", "quotes", "rtl", "jinja", "1MB"]
)
def test_hostile_texts_stay_texts(hostile: str, answers: dict[str, Any]) -> None:
    body = to_json(answers["one"])
    body["system"]["name"] = body["system"]["title"] = hostile
    body["answers"][0]["why"] = [hostile]
    if len(hostile) < 100:
        body["system"]["levels"][0]["name"] = hostile
    read_ = ranking_of("top", body)
    assert read_ is not None
    view = result(read_, 0)
    given_ = {"viewed": ViewedAnswer("", "top", {}, body), "view": view, "base": "", "index": 0}
    more = {"drawing": "", "plans": None, "found": None, "folders": (), "said": (), "command": ""}
    whole = render("answer.html", **given_, **more, here="", keys=False)
    parts = render("chosen.html", **given_)
    if len(hostile) > 2**16:
        assert hostile in whole
        assert hostile in parts
        assert len(whole) + len(parts) < 10 * len(hostile)
        return
    for text in (whole, parts):
        page = Page(text)
        assert not any(name.startswith("on") for _, has in page.elements for name in has)
        assert not [1 for tag, has in page.elements if tag == "img"]
        scripts = [has for tag, has in page.elements if tag == "script"]
        assert all("src" in has or has.get("type") == "application/json" for has in scripts)
        assert "6170" not in page.said
    assert hostile in Page(parts).said


MORE = {
    "sent_reduce": ["model", "", "data, model"],
    "sent_request": ["all-gather", "all-reduce", "broadcast"],
    "sent_bytes": ["64MiB", "", "5"],
    "sent_times": ["160", "", ""],
    "sent_hidden": ["", "", "0.5"],
}


def form(**fields: Any) -> dict[str, list[str]]:
    usual = {"system": "dgx-h100", "count": "4", "axis_name": ["data", "model", ""]}
    usual |= {"axis_size": ["8", "4", ""], "reduce": "0", "request": "all-reduce", "bytes": "1GiB"}
    return {k: v if isinstance(v, list) else [v] for k, v in (usual | fields).items()}


def wrong(**fields: Any) -> dict[str, str]:
    given_, found = question(TOP, form(**fields))
    return check(TOP, given_, found, Limits().check).wrong


def test_a_valid_form_is_a_question_and_shows_its_totals() -> None:
    given_, found = question(
        TOP, form(k="3", no_stripes="yes", slow="node3/nic2=0.5", segments="auto")
    )
    checked = check(TOP, given_, found, Limits().check)
    assert checked.wrong == {}
    assert checked.facts == {
        "system": "4 node × 8 gpu: 32 devices",
        "axes": "product 32 of 32 devices; 3 placements",
        "reduce": "model: its collectives are not given, so the placement is the one that "
        "frameworks use; add its collectives below",
    }
    question_ = parse_question(TopQuestion, given_)
    put = question_.model_dump(mode="json")
    assert put["stripes"] is False
    assert put["slow"] == {"node3/nic2": 0.5}
    again, found = question(TOP, parse_fields(_sent(values_of_question(TOP, question_))))
    assert found.wrong == {}
    assert parse_question(VERBS["top"].question, again).model_dump(mode="json") == put


def _sent(filling: Any) -> bytes:
    """What a browser sends of a form filled so."""
    from urllib.parse import urlencode

    pairs = [(name, getattr(filling, name)) for name in ("system", "count", "own")]
    pairs += filling.texts.items()
    for one in filling.sent:
        pairs += [(f"sent_{name}", text) for name, text in asdict(one).items()]
    for number, row in enumerate(filling.axes):
        pairs += [("axis_name", row.name), ("axis_size", row.size)]
        pairs += [("reduce", str(number))] if row.over else []
    pairs += [(name, "yes") for name in filling.ticked]
    return urlencode(pairs).encode()


def test_the_example_can_be_submitted_unchanged() -> None:
    """It is one collective: nothing is asked that nobody chose."""
    given_, found = question(TOP, parse_fields(_sent(example(TOP))))
    assert check(TOP, given_, found, Limits().check).wrong == {}
    assert (
        values_of_fields(TOP, parse_fields(_sent(example(TOP)))).axes[:2] == example(TOP).axes[:2]
    )
    assert values_of_fields(TOP, parse_fields(_sent(example(TOP)))).sent == example(TOP).sent
    put = parse_question(TopQuestion, given_)
    assert (put.axes, put.reduce, put.collectives) == ({"data": 32}, ["data"], [])


def test_further_rows_make_the_request_the_first_of_a_job() -> None:
    given_, found = question(TOP, form(**MORE, times="2", k="3"))
    assert check(TOP, given_, found, Limits().check).wrong == {}
    question_ = parse_question(TopQuestion, given_)
    put = question_.model_dump(mode="json")
    figures = ("reduce", "request", "bytes", "times", "hidden")
    assert [tuple(one[name] for name in figures) for one in put["collectives"]] == [
        (["data"], "all-reduce", 2**30, 2, 0),
        (["model"], "all-gather", 2**26, 160, 0),
        (["data", "model"], "broadcast", 5, 1, 0.5),
    ]
    again, found = question(TOP, parse_fields(_sent(values_of_question(TOP, question_))))
    assert found.wrong == {}
    assert parse_question(TopQuestion, again).model_dump(mode="json") == put


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"system": "dgx-h1000"}, "system", "did you mean dgx-h100"),
        ({"count": "x"}, "system", "dgx-h100:x"),
        ({"axis_size": ["8", "5", ""]}, "axes", "32"),
        ({"axis_size": ["8", "many", ""]}, "axes", "'many'; a whole number is needed"),
        ({"axis_name": ["data", "data", ""]}, "axes", "axis 'data' is given twice"),
        ({"axis_name": ["da ta", "model", ""]}, "axes", "da ta"),
        ({"axis_name": [], "axis_size": []}, "axes", "no axis is given"),
        ({"reduce": []}, "reduce", "no axis to reduce over is chosen; tick an axis"),
        ({"bytes": "1 parsec"}, "bytes", "the size '1 parsec' cannot be read"),
        ({"bytes": "1KiB-1GiB"}, "bytes", "or a range of sizes, as in 1KiB..4GiB"),
        ({"k": "-1"}, "k", "a whole number is needed"),
        ({"k": "9999"}, "k", "at most 1000"),
        ({"request": "all-to-none"}, "request", "all-to-none"),
        ({"without": "node9/gpu1"}, "without", "node9"),
        ({"slow": "node1"}, "slow", "as in node3/nic2=0.5"),
        ({"slow": "node1/nic0=7"}, "slow", "above 0 and at most 1"),
        ({"bytes": "1KiB..1MiB", "per_placement": "yes"}, "per_placement", "a range of sizes"),
        ({"own": "name = 3"}, "system", "own.toml"),
        ({"times": "3"}, "times", "weighs a collective against others, and there is only one"),
        ({**MORE, "times": "x"}, "sent", "'x' is no number"),
        ({**MORE, "times": "0"}, "times", "greater than 0"),
        ({**MORE, "bytes": "1KiB..1MiB"}, "bytes", "a range of sizes among several"),
        ({**MORE, "sent_bytes": ["much", "", "5"]}, "sent", "the size 'much' cannot be read"),
        ({**MORE, "sent_bytes": ["", "", "5"]}, "sent", "required"),
        ({**MORE, "sent_reduce": ["modl", "", "data"]}, "sent", "did you mean model"),
        ({**MORE, "without": "node1/gpu1"}, "sent", "lacks 1 of 32 devices"),
        ({**MORE, "per_placement": "yes"}, "per_placement", "several collectives share"),
        ({"count": "6", "axis_size": ["4", "12", ""]}, "reduce", "cuts a level of 6 node x 8 gpu"),
    ],
)
def test_errors_appear_at_their_fields(fields: Any, field: str, said: str) -> None:
    found = wrong(**fields)
    assert said in found[field], found


def test_option_errors_are_located_also_on_machines_with_missing_devices() -> None:
    axes = {"count": "2", "axis_name": ["data"], "axis_size": ["15"], "without": "node1/gpu1"}
    found = wrong(**axes, bytes="1KiB..1MiB", per_placement="yes")
    assert list(found) == ["per_placement"]
    assert "a range of sizes is asked for every placement" in found["per_placement"]


def test_several_fields_are_reported_at_once() -> None:
    assert set(wrong(bytes="much", k="x", request="none", reduce=[])) == {
        "bytes",
        "k",
        "request",
        "reduce",
    }


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reading_of_a_form(raw: bytes) -> None:
    try:
        given_, found = question(TOP, parse_fields(raw))
        check(TOP, given_, found, Limits().check)
    except InputError:
        pass


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "system",
                "count",
                "own",
                "bytes",
                "k",
                "slow",
                "without",
                "request",
                "segments",
                "algorithm",
                "max_steps",
                "times",
                "hidden",
                *MORE,
            ]
        ),
        st.text(max_size=30),
    )
)
def test_no_texts_break_the_checks(fields: dict[str, str]) -> None:
    wrong(**fields)
