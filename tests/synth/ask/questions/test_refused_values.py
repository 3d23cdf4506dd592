"""What cannot be used is refused in words of the question: its keys, JSON, and what would be right.

No class of ours and no validator of pydantic is anybody's matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

pytest.importorskip("fastapi", reason="needs the extra server")

from hierarchies import InputError
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS
from synth.service.http.examples import EXAMPLES

WRONG = (None, [], {}, 1.5, "x", True, -1, [None], {"a": None}, [{}], [["x"]], {"name": 1})
FOREIGN = re.compile(r"function-|union|constrained|literal\[|dictionary|NoneType|pydantic|\bdict\[")


def below(model: type[BaseModel]) -> Iterator[str]:
    for one in model.__subclasses__():
        yield one.__name__
        yield from below(one)


def questions(verb: str) -> Iterator[Any]:
    """Values that are no question at all; then the example with each key of a wrong value."""
    yield from WRONG
    for name, field in VERBS[verb].question.model_fields.items():
        for value in WRONG:
            yield {**EXAMPLES[verb], field.alias or name: value}


def refusal(verb: str, given: object) -> InputError | None:
    try:
        parse_question(VERBS[verb].question, given)
    except InputError as error:
        return error
    return None


@pytest.mark.parametrize("verb", VERBS)
def test_no_message_names_what_is_inside(verb: str) -> None:
    classes = {*below(BaseModel)}
    refused = [error for given in questions(verb) if (error := refusal(verb, given))]
    assert refused
    for error in refused:
        words = f"{error.where} {error.hint}"
        assert not classes & {*re.findall(r"\w+", words)}, error
        assert not FOREIGN.search(words), error


@pytest.mark.parametrize(
    ("verb", "given", "said"),
    [
        ("top", None, "null cannot be used; give an object, as in the examples"),
        ("top", [], "[] cannot be used; give an object, as in the examples"),
        ("top", {}, "system: {} cannot be used; field required"),
        ("top", {**EXAMPLES["top"], "segments": -1}, "segments: -1 cannot be used"),
        ("top", {**EXAMPLES["top"], "slow": {"a": None}}, "slow.a: null cannot be used"),
        ("train", {**EXAMPLES["train"], "runtime": None}, "runtime: null cannot be used"),
        ("import", {**EXAMPLES["import"], "files": [None]}, "files.0: null cannot be used; give"),
    ],
)
def test_errors_name_their_key(verb: str, given: Any, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        parse_question(VERBS[verb].question, given)
