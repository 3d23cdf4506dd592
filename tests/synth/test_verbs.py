"""The verbs as Python functions answer what the command line and the service answer."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import synth
from hierarchies import InputError
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS
from synth.collective.ranking.request import Watcher
from synth.verbs import FUNCTIONS


def test_every_verb_is_a_function_with_the_keys_of_its_question() -> None:
    names = {"import": "import_topology"}
    assert {*FUNCTIONS} == {names.get(verb, verb) for verb in VERBS} - {"top"}
    for verb, entry in VERBS.items():
        if verb != "top":
            function = getattr(synth, names.get(verb, verb))
            assert {*inspect.signature(function).parameters} == {*entry.question.model_fields}
            assert function.__doc__
            assert names.get(verb, verb) in dir(synth)


def test_the_answer_is_that_of_the_verb() -> None:
    question = {"system": "dgx-h100:2", "axes": {"data": 4, "model": 4}}
    reply = VERBS["place"].answer(parse_question(VERBS["place"].question, question), Watcher())
    answer = synth.place("dgx-h100:2", axes={"data": 4, "model": 4})
    assert json.loads(answer.model_dump_json()) == reply.body


def test_a_path_represents_the_text_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(
        'name = "ours"\n[[level]]\nname = "gpu"\ncount = 4\nlatency = "1 us"\n', "utf-8"
    )
    with pytest.raises(InputError, match=r"ours\.toml"):  # a level without a bandwidth
        synth.place(file, axes={"data": 4})


def test_the_key_named_from_is_known_by_its_field() -> None:
    assert "answer" in inspect.signature(synth.emit).parameters
    with pytest.raises(InputError, match=r"from"):
        synth.emit(target="torch", answer={})


def test_an_unknown_key_and_a_missing_one_are_reported() -> None:
    with pytest.raises(InputError, match=r"synth.place: .*'axis'.*its keys are system, axes"):
        synth.place("dgx-h100:1", axes={}, axis={})
    with pytest.raises(InputError, match=r"synth.place: missing a required argument: 'axes'"):
        synth.place("dgx-h100:1")


def test_the_functions_need_no_extra() -> None:
    """They once imported the client's package, and with it httpx."""
    extras = ("httpx", "fastapi", "sqlalchemy", "distributed", "torch", "mpi4py")
    program = f"""
import sys
sys.modules |= dict.fromkeys({extras})
import synth
print(synth.place("dgx-h100:1", axes={{"data": 8}}).count)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1\n", "")


def test_a_function_has_its_name_in_synth() -> None:
    assert {function.__name__ for function in FUNCTIONS.values()} == {*FUNCTIONS}
    with pytest.raises(InputError, match=r"synth\.import_topology: .*'kind'"):
        synth.import_topology()
