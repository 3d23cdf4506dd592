"""Two kept answers are told apart: what was asked, the machine, and what is recommended."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hierarchies import InputError
from plain_text import printed
from replying import body_of
from synth.ask.comparing import DiffQuestion, LineDifference, Recommendation, diff
from synth.ask.questions.question import parse_question
from synth.ask.reply import Outcome
from synth.ask.table import VERBS, judge
from synth.cli.app import app
from synth.collective.ranking.request import Watcher
from synth.show.terminal.comparing import UNNAMED_HEADS, heads, line_cells, ratio
from synth.show.terminal.table import TABLES

KINDS = ("top", "top-sweep", "plan-open", "uneven")


def compared(first: dict[str, Any], second: dict[str, Any]) -> tuple[dict[str, Any], Outcome]:
    found = diff(DiffQuestion(first=first, second=second), Watcher())
    return found.body, found.outcome


@pytest.mark.parametrize("name", KINDS)
def test_an_answer_is_the_same_as_itself(name: str) -> None:
    body, outcome = compared(body_of(name), copy.deepcopy(body_of(name)))
    assert (body["same"], outcome) == (True, Outcome.OK)
    assert [body[key] for key in ("question", "machine", "lines")] == [[], [], []]


@pytest.mark.parametrize("name", KINDS)
def test_both_ways_the_same_differences_are_reported(name: str) -> None:
    before, after = body_of(name), copy.deepcopy(body_of(name))
    after["system"]["levels"][0]["bandwidth_GB_per_s"] += 1
    rows = after.get("answers") or [
        after[key][0] for key in ("stretches", "entries") if key in after
    ]
    answer = rows[0].get("first") or rows[0].get("answer") or rows[0]
    answer["seconds"] *= 2
    forth, outcome = compared(before, after)
    back, _ = compared(after, before)
    level = after["system"]["levels"][0]["name"]
    assert outcome is Outcome.NO
    assert [one["what"] for one in forth["machine"]] == [f"{level} bandwidth_GB_per_s"]
    assert len([one for one in forth["lines"] if one["what"] != "to take now"]) == 1
    for key in ("question", "machine", "lines"):
        turned = [{**one, "first": one["second"], "second": one["first"]} for one in back[key]]
        assert forth[key] == turned


def test_differences_between_questions_are_listed() -> None:
    after = body_of("top") | {"bytes": 2048, "reduce": ["model"]}
    body, _ = compared(body_of("top"), after)
    assert [one["what"] for one in body["question"]] == ["reduce", "bytes"]


def test_a_rank_that_only_one_has_is_reported() -> None:
    fewer = copy.deepcopy(body_of("top"))
    last = fewer["answers"].pop()["rank"]
    [line] = compared(body_of("top"), fewer)[0]["lines"]
    assert (line["what"], line["second"]) == (f"rank {last}", None)


@pytest.mark.parametrize(
    ("what", "other", "said"),
    [
        ("rank 1", "b", "2.00x"),
        ("rank 1 of [[2]]", "b", "2.00x"),
        ("rank 4", "a", "2.00x"),
        ("rank 4", "b", ""),
        ("rank 10", "b", ""),
        ("from 1 KiB", "b", "2.00x"),
    ],
)
def test_times_of_different_programs_are_no_ratio_but_of_the_best(
    what: str, other: str, said: str
) -> None:
    first, second = Recommendation(how="a", seconds=1.0), Recommendation(how=other, seconds=2.0)
    assert ratio(LineDifference(what=what, first=first, second=second)) == said
    assert ratio(LineDifference(what=what, first=None, second=second)) == ""


def test_mistakes_are_reported_in_one_line(tmp_path: Path) -> None:
    good = tmp_path / "good.json"
    good.write_text(json.dumps(body_of("top")))
    for name, body, said in (
        ("count", body_of("count"), "no answer of top or plan"),
        ("plan", body_of("plan-open"), "different questions"),
        ("torn", {"answers": [{"rank": 1}], "system": body_of("top")["system"]}, "answers.0"),
        ("list", [1], "is not an answer"),
    ):
        other = tmp_path / f"{name}.json"
        other.write_text(json.dumps(body))
        found = CliRunner().invoke(app, ["diff", str(good), str(other)])
        assert (found.exit_code, found.stdout, found.stderr.count("\n")) == (2, "", 1)
        assert said in found.stderr


ODD: tuple[Any, ...] = (None, 5, "x", [None], [{}], [[1]], {}, {"sources": 5}, {"sources": [{}]})


@pytest.mark.parametrize("odd", ODD, ids=json.dumps)
@pytest.mark.parametrize("name", KINDS)
def test_any_kept_answer_is_read_or_refused(name: str, odd: Any) -> None:
    """Answers may have been written by anybody: a wrong part is the caller's mistake."""
    whole = body_of(name)
    torn = [whole | {key: odd} for key in whole]
    torn += [whole | {"system": whole["system"] | {key: odd}} for key in whole["system"]]
    for one in (*torn, {}):
        with suppress(InputError):
            compared(one, whole)


@pytest.mark.parametrize(
    ("differ", "called"),
    [
        ([("k", "3", "5"), ("system", "dgx-a100:4", "dgx-h100:4")], ("dgx-a100:4", "dgx-h100:4")),
        ([("bytes", "1 GiB", "2 GiB"), ("k", "3", "5")], ("1 GiB", "2 GiB")),
        ([("k", "3", "5")], ("k 3", "k 5")),
        ([("pin", "", "tensor=4")], ("no pin", "tensor=4")),
        ([("system", "my.toml", "my.toml"), ("k", "-", "5")], UNNAMED_HEADS),
        ([("plan", "x" * 50, "y")], UNNAMED_HEADS),
        ([], UNNAMED_HEADS),
    ],
)
def test_answers_are_called_by_what_they_differ_in(
    differ: list[tuple[str, str, str]], called: tuple[str, str]
) -> None:
    assert heads(differ) == called


def test_the_terminal_calls_answers_by_what_they_differ_in() -> None:
    after = copy.deepcopy(body_of("top"))
    after["system"]["name"] = "another"
    after["answers"][0]["program"] = "all-reduce root inside inside"
    found = printed(TABLES["diff"](compared(body_of("top"), after)[0]))
    before = body_of("top")["system"]["name"]
    assert f"machine  {before}" in found
    [line] = [one for one in found.splitlines() if "ratio" in one]
    assert line.split() == [before, "time", "another", "time", "ratio"]
    assert "second" not in found


def test_the_terminal_and_the_page_agree_on_lines() -> None:
    """First what each has one take now, by its verdict: here the default, as neither row gains."""
    question = {"system": "dgx-h100:4", "axes": {"data": 32}, "reduce": ["data"], "k": 2}
    sizes, verb = (2**31, 2**32), VERBS["top"]
    given = [{**question, "max_steps": 3, "stripes": False, "bytes": size} for size in sizes]
    bodies = [verb.answer(parse_question(verb.question, one), Watcher()).body for one in given]
    body, _ = compared(*bodies)
    first, *_ = reply = judge("diff").validate_python(body).lines
    assert (first.what, first.first.how) == ("to take now", "the default, nvls_tree")
    least = [min(one["baseline_seconds"] for one in body["answers"]) for body in bodies]
    assert [first.first.seconds, first.second.seconds] == least
    found = printed(TABLES["diff"](body), 200)
    for one in reply:
        assert all(word in found for cell in line_cells(one) for word in cell.split("\n"))
    [line] = [text for text in found.splitlines() if "ratio" in text]
    assert line.split() == ["2", "GiB", "time", "4", "GiB", "time", "ratio"]
