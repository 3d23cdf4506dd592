"""Questions that mean the same have one key; those that do not have others."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.verbs.identity.canonical import canonical, key_of
from synth.verbs.questions.question import asked
from synth.verbs.table import VERBS

TOP = {"system": "dgx-h100:4", "axes": {"data": 32}, "reduce": ["data"]}


def top_key(**changes: object) -> str:
    return key_of("top", asked(VERBS["top"].question, TOP | changes))


@given(st.permutations(list(TOP)))
def test_the_order_of_keys_does_not_matter(order: list[str]) -> None:
    shuffled = {name: TOP[name] for name in order}
    assert key_of("top", asked(VERBS["top"].question, shuffled)) == top_key()


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
    assert key_of("cost", asked(VERBS["cost"].question, given)) != top_key()


def test_the_canonical_text_asks_the_same_question() -> None:
    question = asked(VERBS["top"].question, TOP | {"bytes": "1KiB..4GiB"})
    said = json.loads(canonical("top", question))
    assert asked(VERBS["top"].question, said["question"]) == question


def test_another_edition_has_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = top_key()
    monkeypatch.setattr("synth.verbs.identity.canonical.edition", lambda: "0.1.0+other")
    assert top_key() != before
