"""The commands are made from the questions, and show themselves before anything is loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, fields
from inspect import getdoc
from typing import Any

import pytest

from places import ROOT
from synth.ask.questions.fields import FlagEntry, flags_of
from synth.ask.table import VERBS, Verb

MADE = ROOT / "synth" / "cli" / "commands" / "verbs.json"


def row(flag: FlagEntry) -> dict[str, Any]:
    """A flag without what is usual of flags."""
    usual = {one.name: one.default for one in fields(FlagEntry)}
    return {key: value for key, value in asdict(flag).items() if value != usual[key]}


def made(verb: Verb) -> str:
    said = (getdoc(verb.question) or "").partition("\n\n")[0].replace("\n", " ")
    head = f'"help": {json.dumps(said)}, "partial": {json.dumps(verb.partial)}, "flags": ['
    flags = ",\n".join(f"  {json.dumps(row(flag))}" for flag in flags_of(verb.question))
    return f"{{{head}\n{flags}\n]}}"


def test_the_commands_are_those_of_the_questions(update_golden: bool) -> None:
    """``--update-golden`` makes them anew."""
    rows = ",\n".join(f'"{name}": {made(verb)}' for name, verb in VERBS.items())
    text = f"{{\n{rows}\n}}\n"
    if update_golden:
        MADE.write_text(text, encoding="utf-8")
    assert MADE.read_text(encoding="utf-8") == text


NOT_TYPED = {
    "job": {"classic", "sequence_parallel", "most_bubble"},  # a job file says them as well
    "sweep": {"explain"},  # only ``top`` has words for its answers
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_field_is_a_flag_named_in_the_schema(verb: str) -> None:
    model = VERBS[verb].question
    flags = {one.name if one.name in model.model_fields else one.each for one in flags_of(model)}
    assert set(model.model_fields) - flags == NOT_TYPED.get(verb, set())
    told = model.model_json_schema()["properties"]
    for name in flags:
        assert told[model.model_fields[name].alias or name]["description"].endswith(".")


@pytest.mark.parametrize("verb", VERBS)
def test_every_flag_fills_its_field(verb: str) -> None:
    """No two flags of a command are spelled alike; only the last argument may be repeated."""
    flags = flags_of(VERBS[verb].question)
    words = [one.word for one in flags]
    assert len(set(words)) == len(words)
    assert not {"--json", "--output", "-o", "--budget", "--verbose", "-v"} & set(words)
    arguments = [one for one in flags if one.is_argument]
    assert flags[: len(arguments)] == arguments
    assert not any(one.several for one in arguments[:-1])
    assert sorted(arguments, key=lambda one: not one.required) == arguments


@pytest.mark.parametrize("words", [["--help"], ["top", "--help"], ["emit", "--help"]])
def test_help_waits_for_nothing_that_answers(words: list[str]) -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from synth.cli.app import app;"
        f"assert CliRunner().invoke(app, {words}).exit_code == 0;"
        "print([name for name in ('numpy', 'z3', 'lark', 'hierarchies', 'grammar')"
        " if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


def test_verbs_without_proofs_load_no_solver() -> None:
    """scipy's take longer to load than most questions to answer."""
    code = (
        "import sys; from synth.cli.app import app;"
        "app(['count', '--digits', '1'], standalone_mode=False);"
        "print([name for name in ('optimize', 'special', 'linalg', 'sparse')"
        " if f'scipy.{name}' in sys.modules]"
        " + [name for name in ('z3', 'scipy', 'jinja2', 'synth.step') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "[]"


def test_plans_load_nothing_that_only_files_need() -> None:
    code = (
        "import sys; import synth.cli.ask, synth.ask.planning;"
        "from synth.collective.emit import text;"
        "print([name for name in ('jax', 'jinja2', 'synth.step.emit.files',"
        " 'synth.collective.emit.targets') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "[]"


def test_a_shell_completes_the_flags_of_a_verb() -> None:
    asked = {"_COLLSYNTH_COMPLETE": "complete_bash", "COMP_WORDS": "collsynth top --a"}
    code = "from synth.cli.app import main; main()"
    said = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | asked | {"COMP_CWORD": "2"},
        check=False,
    )
    assert said.stdout.split() == ["--axes", "--algorithm", "--across"]
