"""Questions that mean the same have one key; those that do not have others."""

import json
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from synth.ask.identity.canonical import canonical_text, key_of
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS

TOP = {"system": "dgx-h100:4", "axes": {"data": 32}, "reduce": ["data"]}


def top_key(**changes: object) -> str:
    return key_of("top", parse_question(VERBS["top"].question, TOP | changes))


@given(st.permutations(list(TOP)))
def test_the_order_of_keys_does_not_matter(order: list[str]) -> None:
    shuffled = {name: TOP[name] for name in order}
    assert key_of("top", parse_question(VERBS["top"].question, shuffled)) == top_key()


def test_spellings_and_defaults_do_not_matter() -> None:
    assert top_key(bytes="1GiB") == top_key(bytes=2**30) == top_key(k=10, segments="auto")


@pytest.mark.parametrize(
    "change", [{"bytes": "1GB"}, {"k": 9}, {"system": "dgx-h100:2"}, {"without": ["node0/gpu1"]}]
)
def test_other_questions_have_other_keys(change: dict[str, object]) -> None:
    assert top_key(**change) != top_key()


def test_the_order_of_axes_matters() -> None:
    """It orders the rows of placements, so the answers differ."""
    one = top_key(system="dgx-h100:4", axes={"data": 8, "model": 4})
    other = top_key(system="dgx-h100:4", axes={"model": 4, "data": 8})
    assert one != other


def test_a_verb_is_part_of_the_key() -> None:
    given = {"system": "dgx-h100:4", "axes": {"data": 32}, "reduce": ["data"]}
    assert key_of("cost", parse_question(VERBS["cost"].question, given)) != top_key()


def test_the_canonical_text_asks_the_same_question() -> None:
    question = parse_question(VERBS["top"].question, TOP | {"bytes": "1KiB..4GiB"})
    said = json.loads(canonical_text("top", question))
    assert parse_question(VERBS["top"].question, said["question"]) == question


def test_another_edition_has_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = top_key()
    monkeypatch.setattr("synth.ask.identity.canonical.edition", lambda: "0.1.0+other")
    assert top_key() != before


# Every field of every question, and of what stands inside of one.


def models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A model and those of its fields, as that of a named text."""
    yield model
    for field in model.model_fields.values():
        for part in parts(field.annotation):
            yield from models(part)


def parts(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in getattr(kind, "__args__", ()):
        yield from parts(part)


def text_of(verb: str, question: BaseModel) -> str:
    """The canonical text; the values that fields are given here need not be of their types."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return canonical_text(verb, question)  # type: ignore[arg-type]


@pytest.mark.parametrize("verb", VERBS)
def test_every_field_of_a_question_changes_its_key(verb: str) -> None:
    """Two questions that differ in one field have one answer only if they have one key."""
    whole = VERBS[verb].question
    for model in dict.fromkeys(models(whole)):
        for name in model.model_fields:
            texts = set()
            for value in ("one", "other", None):
                changed = model.model_construct(
                    **{**dict.fromkeys(model.model_fields), name: value}
                )
                inside = dict.fromkeys(whole.model_fields, changed)
                question = changed if model is whole else whole.model_construct(**inside)
                texts.add(text_of(verb, question))
            assert len(texts) == 3, (model.__name__, name)


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_shares_a_key_with_another(verb: str) -> None:
    question = VERBS[verb].question.model_construct()
    others = {text_of(other, question) for other in VERBS if other != verb}
    assert text_of(verb, question) not in others
