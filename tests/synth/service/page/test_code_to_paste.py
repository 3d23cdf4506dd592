"""Code to paste, or what is set where code would change nothing; emitted files say the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from markupsafe import Markup

pytest.importorskip("fastapi", reason="needs the extra server")

from machines import precise_text
from patience import PATIENCE_SECONDS
from serving import Served, served
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS
from synth.collective.emit.nccl_tuner import BUILD
from synth.collective.ranking.request import DefaultComparison, Watcher
from synth.service.page.rendering import render
from synth.service.page.results import TABS, ranking_of, result
from synth.show.report.details import emit_question, no_code_advice, no_code_text

PRECISE = precise_text("p2-a100:4", error=0.15)


def asked_of(**given_: Any) -> Any:
    question: dict[str, Any] = {"system": "dgx-a100:2", "axes": {"data": 16}, "reduce": ["data"]}
    question |= {"max_steps": 3, "stripes": False}
    verb = VERBS["top"]
    body = verb.answer(parse_question(verb.question, question | given_), Watcher()).body
    return ranking_of("top", json.loads(json.dumps(body)))


def emitted_words(answer: Any, index: int) -> str:
    verb = VERBS["emit"]
    body = verb.answer(
        parse_question(verb.question, emit_question(answer, index, "torch")), Watcher()
    ).body
    return " ".join(str(body["files"][0]["text"]).split('"""')[1].split())


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"bytes": 2**20, "axes": {"data": 64}, "system": PRECISE}, "One call"),
        ({"bytes": 2**24, "axes": {"data": 32}, "system": "dgx-a100:4"}, "This ties"),
    ],
)
def test_code_that_would_change_nothing_is_a_setting(asked: dict[str, Any], words: str) -> None:
    """NCCL's model takes a ring: a plain call is no tree, whose price it is."""
    answer, line = asked_of(**asked, k=1), "NCCL_ALGO=allreduce:Tree NCCL_PROTO=allreduce:LL128"
    said = no_code_advice(answer, 0)
    assert said is not None
    assert said.settings == (("", line),)
    assert said.words.startswith(words)
    assert "holds for the whole process" in said.words
    assert line in emitted_words(answer, 0)
    page = render("chosen.html", view=result(answer, 0), base="/answers/x", index=0)
    code = page.partition(f"{line}</code></pre>")[2]
    assert code.index("for checking or timing") < code.index('role="tab"')


def test_each_row_of_a_range_has_one_setting() -> None:
    """The tree is by LL128 where the range begins, and by Simple where it ends."""
    answer = asked_of(bytes=[2**20, 2**26], system=PRECISE, axes={"data": 64}, max_steps=1)
    told = []
    for row in range(len(answer.stretches)):
        said = no_code_advice(answer, row)
        assert said is not None
        assert len(said.settings) <= 1
        told += [line.rpartition(":")[2] for where, line in said.settings if not where]
    assert [*dict.fromkeys(told)] == ["LL128", "Simple"]


def test_where_the_default_is_kept_nothing_is_pasted_and_nothing_is_to_be_proved() -> None:
    answer = asked_of(bytes=[2**20, 2**22], system="dgx-h100:4", axes={"data": 32}, max_steps=1)
    assert answer.stretches[0].keeps_default
    said = no_code_advice(answer, 0)
    assert said is not None
    assert (said.words[:16], said.settings) == ("Nothing to paste", ())
    page = render("chosen.html", view=result(answer, 0), base="", index=0)
    assert "keep the default" in page
    assert 'class="proof' not in page.partition("Code to paste")[0]
    first = answer.stretches[0].first
    other = {"why": [first.why[0], "this program takes less"]}
    changed = first.model_copy(update=other)
    stretches = [answer.stretches[0].model_copy(update={"first": changed})]
    tied = answer.model_copy(update={"stretches": stretches})
    page = render("chosen.html", view=result(tied, 0), base="", index=0)
    assert unescape(page).count(first.why[0]) == 1
    assert "this program" not in page
    own = first.default
    assert f"by {own.name} with {own.protocol.value}, at the smallest of these sizes" in page
    assert "data-part" not in page


def test_both_ends_of_a_range_have_their_interval_on_the_page() -> None:
    answer = asked_of(bytes=[2**20, 2**22], system="dgx-h100:2", max_steps=1)
    view = result(answer, 0)
    page = render("chosen.html", view=view, base="", index=0)
    low, high = (" to ".join(one) for one in view.rows[0].intervals)
    words = " ".join(Markup(page).striptags().split())
    assert f"Measurements say ({low}) to ({high})" in words.replace("say(", "say (")


def test_a_program_of_several_calls_is_code() -> None:
    answer = asked_of(bytes=2**24, k=3)
    at = next(at for at, one in enumerate(answer.answers) if len(one.steps) > 1)
    assert no_code_advice(answer, at) is None
    words = emitted_words(answer, at)
    assert words.count(" among ") == len(answer.answers[at].calls.each)
    assert "set " in words


@pytest.mark.parametrize("name", ["dgx-h100:4", "p2-a100:2"])
def test_files_of_a_program_not_advised_begin_with_a_warning(name: str) -> None:
    """And one that is advised does not."""
    answer = asked_of(bytes=2**24, system=name, axes={"data": 32}, k=4, max_steps=3)
    seen = set()
    for row, one in enumerate(answer.answers):
        if no_code_advice(answer, row) is None:
            said, file = no_code_text(answer, row), emitted_words(answer, row)
            told = one.against_default is DefaultComparison.FASTER
            assert bool(said) != told
            assert told == ("Keep the default rather than this" not in file)
            assert said in file
            assert ("doubt" in said) == (one.against_default is DefaultComparison.SLOWER)
            seen.add(told)
    assert seen


@pytest.mark.parametrize("algorithm", ["auto", "ring"])
def test_of_the_default_nothing_is_pasted_unless_it_was_held_to_a_way(algorithm: str) -> None:
    """On a node of switches that reduce NCCL takes these by itself, and no ring."""
    answer = asked_of(system="dgx-h100:1", axes={"data": 8}, bytes=2**30, algorithm=algorithm)
    said = no_code_advice(answer, 0)
    assert said is not None
    held = algorithm == "ring"
    line = "NCCL_ALGO=allreduce:Ring NCCL_PROTO=allreduce:Simple"
    assert [told for _, told in said.settings] == ([line] if held else [])
    assert said.words.startswith("Nothing to paste: this is the runtime") != held
    words = emitted_words(answer, 0)
    assert ("set nothing" in words) != held
    assert (line in words) == held


STRIPED = {
    "system": "dgx-h100:4",
    "axes": {"data": 8, "tensor": 4},
    "reduce": ["data"],
    "bytes": 2**26,
    "k": 1,
    "max_steps": 4,
}
WHOLE = {**STRIPED, "stripes": False, "max_steps": 1}
UNSPLIT = ("mscclpp", "nccl-tuner")
"""Targets that have no words for two programs side by side."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("code"), wait_seconds=PATIENCE_SECONDS) as found:
        yield found


@pytest.fixture(scope="module")
def striped(server: Served) -> str:
    """Where the page shows an answer whose best is two programs side by side."""
    response = server.ask.post("/v1/top", json=STRIPED)
    assert response.status_code == 200, response.text
    assert len(response.json()["answers"][0]["stripes"]) > 1
    return str(response.headers["content-location"]).removeprefix("/v1")


@pytest.fixture(scope="module")
def answer(server: Served) -> str:
    response = server.ask.post("/v1/top", json=WHOLE)
    return str(response.headers["content-location"]).removeprefix("/v1")


@pytest.mark.parametrize("target", TABS)
def test_every_tab_of_a_split_answer_has_code_or_a_reason(
    server: Served, striped: str, target: str
) -> None:
    """How stripes are printed is no text of the language: the broker read it as one program."""
    part = server.ask.get(f"{striped}/code/{target}", headers={"X-Part": "1"}).text
    files = re.findall(rf'href="({striped}/files/{target}/[^"]+)"', part)
    if target in UNSPLIT:
        assert "the payload is split over " in part
        assert not files
        assert "--" not in part, "what to say on a command line"
    else:
        assert files
        assert [server.ask.get(file).status_code for file in files] == [200] * len(files)


def test_a_tuner_file_is_written_once_its_channels_are_known(server: Served, answer: str) -> None:
    part = server.ask.get(f"{answer}/code/nccl-tuner", headers={"X-Part": "1"}).text
    assert 'name="channels"' in part
    assert BUILD in part
    assert "--channels" not in part
    told = server.ask.get(f"{answer}/code/nccl-tuner?answer=0&channels=16").text
    [file] = re.findall(rf'href="({answer}/files/nccl-tuner/[^"]+)"', told)
    assert "allreduce" in server.ask.get(unescape(file)).text
    assert server.ask.get(f"{answer}/code/nccl-tuner?answer=0&channels=0").status_code == 404


def test_a_tab_that_cannot_work_is_hidden_with_a_reason_on_the_page(
    server: Served, striped: str, answer: str
) -> None:
    split, whole = server.ask.get(striped).text, server.ask.get(answer).text
    for target in TABS:
        tab = f'id="tab-{target}"'
        assert tab in whole
        assert (tab in split) != (target in UNSPLIT)
    [why] = re.findall(r"Not available for (.*?)</p>", split)
    assert why.startswith(", ".join(TABS[target] for target in UNSPLIT))
    assert "--" not in why
    assert "Not available for" not in whole


def test_what_goes_by_a_switch_that_reduces_is_no_file_for_nccls_tuner(server: Served) -> None:
    """A table of rings and trees would do the opposite of the answer."""
    asked = {**WHOLE, "axes": {"data": 32}, "bytes": 2**26}
    response = server.ask.post("/v1/top", json=asked)
    [answer] = response.json()["answers"]
    assert [step["algorithm"] for step in answer["steps"]] == ["in-network"]
    where = str(response.headers["content-location"]).removeprefix("/v1")
    page = server.ask.get(where).text
    assert 'id="tab-nccl-tuner"' not in page
    assert re.search(r"Not available for NCCL tuner[^<]*rings and trees only", page)
    told = server.ask.get(f"{where}/code/nccl-tuner?answer=0&channels=16")
    assert told.status_code == 422
    assert "rings and trees only" in told.text


ROWS = {**WHOLE, "max_steps": 3, "system": PRECISE, "axes": {"data": 64}, "bytes": [2**26, 2**30]}
del ROWS["k"]


def test_each_row_to_set_has_a_file_of_its_own_by_the_name_that_its_command_has(
    server: Served,
) -> None:
    """Of two links to ``collsynth_torch.py`` a browser kept one file, or ran the wrong one."""
    response = server.ask.post("/v1/top", json=ROWS)
    where = str(response.headers["content-location"]).removeprefix("/v1")
    whole = unescape(server.ask.get(where).text)
    verdict = whole.partition('id="verdict-title"')[2].partition("</section>")[0]
    texts, rows = {}, {}
    for block in verdict.split('<div class="file">')[1:]:
        [(link, name)] = re.findall(r'<a href="([^"]+)" download>([^<]+)</a>', block)
        kept = server.ask.get(link)
        assert kept.headers["content-disposition"] == f'attachment; filename="{name}"'
        texts[name], rows[name] = kept.text, re.findall(r"answer=(\d+)", link)
        assert f"import {name.removesuffix('.py')} as fast" in kept.text
    assert len(set(texts.values())) == len(texts) == 2
    for name, [row] in rows.items():
        detail = server.ask.get(f"{where}/chosen?answer={row}").text
        [own] = re.findall(r"download>([^<]+)</a>", detail.partition('data-place="on-machine"')[0])
        assert own == name, "where a row is shown its file is"


def test_a_split_answer_has_a_timeline(server: Served, striped: str) -> None:
    part = server.ask.get(f"{striped}/timeline", headers={"X-Part": "1"}).text
    assert 'class="timeline"' in part
