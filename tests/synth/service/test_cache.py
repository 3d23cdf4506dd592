"""Answers are given again as they were, from a store that command line and service share."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from synth.ask.questions.question import parse_question
from synth.ask.reply import Outcome, Reply
from synth.ask.table import VERBS
from synth.cli.app import app
from synth.collective.ranking.request import Watcher

PROGRAM = "reduce-scatter node inside; all-reduce node parallel(root); all-gather node inside"
ON = ("dgx-a100:2", "--axes", "data=16", "--reduce", "data")
SHAPE = (
    "--layers",
    "4",
    "--hidden",
    "512",
    "--heads",
    "8",
    "--vocabulary",
    "99",
    "--sequence",
    "64",
)
QUESTIONS = {
    "systems": ("systems",),
    "one system": ("systems", "dgx-h100"),
    "place": ("place", "dgx-a100:2", "--axes", "data=4,model=4"),
    "count": ("count", "--digits", "2"),
    "top": ("top", *ON, "-k", "2", "--no-stripes"),
    "sizes": ("top", *ON, "-k", "1", "--no-stripes", "--bytes", "1KiB..64KiB"),
    "wrong": ("check", "all-reduce d1 parallel(d0); all-reduce root inside", "--tree", "2,8"),
    "time": ("time", PROGRAM, *ON),
    "lower": ("lower", PROGRAM, *ON),
    "emit": ("emit", PROGRAM, *ON, "--target", "torch"),
    "job": ("job", "--axes", "data=16", "--batch", "16", *SHAPE),
}


def run(*words: str, **environment: str) -> Result:
    return CliRunner().invoke(app, list(words), env=environment)


@pytest.fixture
def url(tmp_path: Path) -> str:
    pytest.importorskip("sqlalchemy", reason="needs sqlalchemy, of the extra 'server'")
    return f"sqlite:///{tmp_path}/answers.db"


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The verbs that were worked on, as they are."""
    worked: list[str] = []

    def noted(verb: str) -> object:
        answer = VERBS[verb].answer

        def answered(question: object, watcher: Watcher) -> Reply:
            worked.append(verb)
            return answer(question, watcher)

        return answered

    for verb in VERBS:
        answer = VERBS[verb].answer
        monkeypatch.setattr(f"{answer.__module__}.{answer.__name__}", noted(verb))
    return worked


@pytest.mark.parametrize("name", QUESTIONS)
def test_printing_is_idempotent(name: str, url: str, answering: list[str]) -> None:
    words = QUESTIONS[name]
    plain = [run(*words), run(*words, "--json")]
    assert {shown.exit_code for shown in plain} <= {0, 1}
    answering.clear()
    for _ in range(2):
        shared = [run("--store", url, *words), run("--store", url, *words, "--json")]
        assert [(r.exit_code, r.stdout_bytes, r.stderr) for r in shared] == (
            [(r.exit_code, r.stdout_bytes, r.stderr) for r in plain]
        )
    assert answering == [words[0]]


def test_the_environment_names_the_store_too(url: str, answering: list[str]) -> None:
    for _ in range(2):
        assert run("systems", COLLSYNTH_STORE=url).exit_code == 0
    assert run("--store", url, "systems", COLLSYNTH_STORE="nonsense").exit_code == 0
    assert run("systems", COLLSYNTH_STORE="").exit_code == 0
    assert answering == ["systems"] * 2


def test_the_log_records_whether_an_answer_was_found(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "collsynth")
    for expected in ("systems: not in the store", "systems: found in the store"):
        caplog.clear()
        run("--store", url, "systems")
        assert expected in caplog.messages


def test_partial_answers_and_measurements_are_not_kept(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = pytest.importorskip("synth.service.cache")
    question = parse_question(VERBS["systems"].question, {})
    with cache.open_cache(url) as before:
        before.keep("systems", question, Reply({}, Outcome.PARTIAL), 1.0)
        assert before.find("systems", question) is None
        before.keep("systems", question, Reply({"a": 1.5}, Outcome.NO), 1.0)
        assert before.find("systems", question) == Reply({"a": 1.5}, Outcome.NO)
        given = {"program": PROGRAM, "system": "dgx-a100:2", "axes": {"data": 16}}
        measured = parse_question(
            VERBS["run"].question, {**given, "reduce": ["data"], "backend": "numpy"}
        )
        before.keep("run", measured, Reply({}), 1.0)
        assert before.find("run", measured) is None


def test_a_store_that_is_out_of_reach_is_reported_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="needs sqlalchemy, of the extra 'server'")
    pytest.importorskip("psycopg", reason="needs psycopg, of the extra 'postgres'")
    for url in (
        f"sqlite:///{tmp_path}/no/store.db",
        "postgresql://us:hush@127.0.0.1:1/db",
        "nonsense",
    ):
        result = run("--store", url, "systems")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("collsynth: ")
        assert "store" in result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert "hush" not in result.stderr


def test_an_answer_that_cannot_be_kept_is_printed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = pytest.importorskip("synth.service.store")

    def refuse(*given: object) -> None:
        raise store.StoreError("the disk is full")

    monkeypatch.setattr("synth.service.store.answers.Answers.keep", refuse)
    result = run("--store", url, "systems")
    assert (result.exit_code, result.stdout) == (0, run("systems").stdout)
    assert result.stderr == "collsynth: the answer is not kept: the disk is full\n"


def test_without_a_store_nothing_of_it_is_loaded() -> None:
    script = (
        "import sys; from synth.cli.app import app; app(['count', '--digits', '1'],"
        " standalone_mode=False); print([m for m in sys.modules if m.startswith(("
        "'sqlalchemy', 'alembic', 'synth.service'))])"
    )
    environment = {k: v for k, v in os.environ.items() if k != "COLLSYNTH_STORE"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
