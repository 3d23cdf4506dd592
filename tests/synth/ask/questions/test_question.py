"""Sizes, and questions as JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import InputError
from synth.ask.machines import PlaceQuestion
from synth.ask.questions.collectives import CollectiveRequest
from synth.ask.questions.notations import size_in_bytes
from synth.ask.questions.question import parse_question
from synth.ask.ranking import TopQuestion
from synth.ask.table import VERBS

TOP = {"system": "dgx-h100", "axes": {"data": 32}, "reduce": ["data"]}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("4096", 4096),
        ("1KiB", 1024),
        ("64M", 64 * 1024**2),
        ("64MiB", 64 * 1024**2),
        ("64MB", 64 * 1000**2),
        ("1.5 GiB", 3 * 2**29),
        ("2TB", 2 * 10**12),
        (77, 77),
    ],
)
def test_sizes(text: str | int, size: int) -> None:
    assert size_in_bytes(text) == size


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "1.5", "1 XiB", "GiB", "1e9", "nan", "0.5B", "1gib"]
)
def test_sizes_that_mean_nothing(text: str) -> None:
    with pytest.raises(InputError):
        size_in_bytes(text)


@pytest.mark.parametrize("text", ["1KiB-1GiB", "1KiB:1GiB", "1KiB,1GiB", "1KiB to 1GiB", "much..1"])
def test_an_invalid_range_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InputError) as range_taken:
        parse_question(TopQuestion, {**TOP, "bytes": text})
    assert range_taken.value.hint.endswith("or a range of sizes, as in 1KiB..4GiB")
    with pytest.raises(InputError) as one_taken:
        parse_question(CollectiveRequest, {"reduce": ["data"], "bytes": text.replace("..", "-")})
    assert "range" not in one_taken.value.hint


@given(st.integers(1, 10**15))
def test_a_bare_number_is_bytes(number: int) -> None:
    assert size_in_bytes(str(number)) == number


def test_defaults_of_the_main_question() -> None:
    question = parse_question(TopQuestion, TOP)
    assert (question.bytes, question.k, question.max_steps) == (2**30, 10, 5)
    assert question.asked().over == ("data",)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"bites": 1}, "bites"),
        ({"bytes": "much"}, "bytes: the size 'much'"),
        ({"axes": {"data": "8"}}, "axes.data"),
        ({"axes": {"data": True}}, "axes.data"),
        ({"reduce": "data"}, "reduce"),
        ({"k": 1.5}, "k"),
        ({"algorithm": "magic"}, "algorithm: 'magic'"),
    ],
)
def test_a_question_with_a_mistake_names_the_key(change: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        parse_question(TopQuestion, TOP | change)


def test_a_question_with_a_missing_key() -> None:
    with pytest.raises(InputError, match="axes"):
        parse_question(PlaceQuestion, {"system": "dgx-h100"})


def test_only_one_of_very_many_mistakes_is_reported() -> None:
    """To list all of 400,000 takes seconds; among the first members there is one, or they are
    counted.
    """
    wrong = {f"key{number}": 1 for number in range(95)}
    good = {"name": "topology.txt", "text": ""}
    question = {"kind": "hwloc", "files": [wrong] * 4096}
    with pytest.raises(InputError) as caught:
        parse_question(VERBS["import"].question, question)
    assert (caught.value.where, len(str(caught.value)) < 500) == ("files.0.name", True)
    with pytest.raises(InputError, match="4750 mistakes"):
        parse_question(
            VERBS["import"].question, question | {"files": [good] * 100 + [good | wrong] * 50}
        )


@pytest.mark.parametrize("verb", VERBS)
def test_a_question_is_defined_below_the_types_of_its_fields(verb: str) -> None:
    """Pydantic defers a model that names a later type, and its flags are lost until then."""
    model = VERBS[verb].question
    assert model.__pydantic_complete__
    assert not [
        name for name, field in model.model_fields.items() if isinstance(field.annotation, str)
    ]
