"""What one question may ask for: every field of every question is bounded, limited or harmless."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from annotated_types import Le, Lt, MaxLen
from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from hierarchies import InputError
from synth.ask.questions.fields import CostLimit, LimitExemption
from synth.ask.questions.flags import Axes, Figure
from synth.ask.questions.named_texts import NamedText, NameOrText
from synth.ask.questions.question import Question, parse_question
from synth.ask.table import VERBS
from synth.collective.ranking.request import Watcher
from synth.service.http.examples import EXAMPLES
from synth.service.limits import Limits

MODELS = list(dict.fromkeys(verb.question for verb in VERBS.values()))
HUGE = (10**7, 10**18)


def unbounded(model: type[BaseModel], field: FieldInfo) -> Iterator[str]:
    """What of a field nothing bounds, by walking through its type."""
    marks = _flat(field.metadata)
    if any(isinstance(mark, CostLimit) for mark in marks):
        return
    yield from _walked(model, field.annotation, marks)


def _flat(metadata: Any) -> list[Any]:
    return [
        inner
        for mark in metadata
        for inner in ([mark, *mark.metadata] if isinstance(mark, FieldInfo) else [mark])
    ]


def _walked(model: type[BaseModel], kind: Any, marks: list[Any]) -> Iterator[str]:
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        yield from _walked(model, inside[0], marks + _flat(kind.__metadata__))
    elif any(isinstance(mark, CostLimit) for mark in marks):
        yield "a limit that is not the field's own is not seen"
    elif origin in (Union, types.UnionType) or (origin is tuple and Ellipsis not in inside):
        for part in inside:
            yield from _walked(model, part, marks)
    elif origin in (list, dict):
        if not any(isinstance(mark, MaxLen) for mark in marks):
            yield f"{kind} of any length"
        for part in inside:
            yield from _walked(model, part, [])
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from _inside(kind)
    elif not _is_small(model, kind, marks):
        yield f"{kind} may be of any size"


def _inside(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield from (f"{name}: {told}" for told in unbounded(model, field))


def _is_small(model: type[BaseModel], kind: Any, marks: list[Any]) -> bool:
    """Whether a type without parts has no large values, or only harmless ones."""
    if kind in (int, float):
        return any(isinstance(mark, (LimitExemption, Le, Lt)) for mark in marks)
    if kind is str:
        said = any(isinstance(mark, MaxLen) for mark in marks)
        return said or "str_max_length" in model.model_config
    chosen = isinstance(kind, type) and issubclass(kind, Enum)
    return chosen or kind in (bool, type(None)) or get_origin(kind) is Literal


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_of_every_question_is_bounded_limited_or_harmless(
    model: type[Question],
) -> None:
    assert list(_inside(model)) == []


class New(Question):
    """Keys that would escape."""

    number: int
    least: int = Field(ge=1)
    share: float | None = None
    system: NameOrText
    systems: list[str]
    axes: dict[str, int] = Field(max_length=8)
    inside: dict[str, Any] = Field(max_length=8)
    nested: list[Annotated[int, CostLimit.K]] = Field(max_length=8)
    files: list[NamedText] = Field(max_length=8)
    rows: list[list[Figure]] = Field(max_length=8)
    ends: tuple[Figure, int]
    many: tuple[Figure, ...]


class Fine(Question):
    """Keys that nothing is wrong with."""

    flag: bool
    name: str | None = None
    one_of: Literal["a", "b"] = "a"
    few: int = Field(le=9)
    axes: Axes
    k: Annotated[int, CostLimit.K]
    system: Annotated[NameOrText | None, CostLimit.SYSTEM] = None
    figure: Figure | None = None


def test_a_new_key_that_asks_for_more_than_is_checked_is_found() -> None:
    for name, field in New.model_fields.items():
        assert list(unbounded(New, field)), name
    for name, field in Fine.model_fields.items():
        assert not list(unbounded(Fine, field)), name


LIMITED = [
    (verb, name, mark)
    for verb in VERBS
    for name, field in VERBS[verb].question.model_fields.items()
    for mark in field.metadata
    if isinstance(mark, CostLimit) and mark is not CostLimit.TEXT
]
OVER: dict[CostLimit, tuple[dict[str, int], Any, str]] = {
    CostLimit.K: ({"k": 5}, 6, "k: k comes to 6"),
    CostLimit.MAX_STEPS: ({"max_steps": 4}, 5, "max_steps: max_steps comes to 5"),
    CostLimit.DIGITS: ({"digits": 3}, 4, "digits: digits comes to 4"),
    CostLimit.TREE: ({"devices": 99}, [10, 10], "tree: tree comes to 100"),
    CostLimit.SYSTEMS: ({"systems": 2}, ["dgx-h100:1"] * 3, "systems: systems comes to 3"),
    CostLimit.SWEEP: ({"combinations": 2}, {"batch": ["1", "2", "3"]}, "sweep: sweep comes to 3"),
    CostLimit.SYSTEM: ({"devices": 31}, "dgx-h100:4", ": the system has 32 devices"),
    CostLimit.ANSWER: ({"devices": 31}, None, "from: the system has 32 devices"),
    CostLimit.HERE: ({}, True, "(check|measure): a service does not run steps"),
}
AT: dict[CostLimit, Any] = {
    CostLimit.K: 5,
    CostLimit.MAX_STEPS: 4,
    CostLimit.DIGITS: 3,
    CostLimit.TREE: [9, 11],
    CostLimit.SYSTEMS: ["dgx-h100:1"] * 2,
    CostLimit.SWEEP: {"batch": ["1", "2"]},
    CostLimit.SYSTEM: "dgx-h100:3",
    CostLimit.HERE: False,
}


@pytest.fixture(scope="module")
def ranking() -> dict[str, Any]:
    """An answer of ``top`` on 32 devices."""
    given = {"system": "dgx-h100:4", "axes": {"d": 32}, "reduce": ["d"], "k": 1, "max_steps": 2}
    return VERBS["top"].answer(parse_question(VERBS["top"].question, given), Watcher()).body


@pytest.mark.parametrize(("verb", "name", "mark"), LIMITED)
def test_limits_refuse_values_above_and_accept_values_at_the_limit(
    verb: str, name: str, mark: CostLimit, ranking: dict[str, Any]
) -> None:
    limits, value, told = OVER[mark]
    given, key, roomy = dict(EXAMPLES[verb]), name, limits
    at = AT.get(mark)
    if mark is CostLimit.ANSWER:
        given = {one: given[one] for one in ("target", "backend") if one in given}
        key, value, at, roomy = "from", ranking, ranking, {"devices": 32}
    elif mark is CostLimit.SWEEP:
        given = {"system": "dgx-h100:1", "model": "llama3-tiny"}
    elif mark is CostLimit.SYSTEM:
        given.pop("tree", None)
    with pytest.raises(InputError, match=told) as refused:
        replace(Limits(), **limits).check(
            parse_question(VERBS[verb].question, {**given, key: value})
        )
    if mark is not CostLimit.HERE:
        assert refused.value.hint.startswith("at most ")
    assert refused.value.where == key
    replace(Limits(), **roomy).check(parse_question(VERBS[verb].question, {**given, key: at}))


@pytest.mark.parametrize(
    ("verb", "key"), [("top", "system"), ("import", "inside"), ("sweep", "systems")]
)
def test_descriptions_are_no_longer_than_they_may_be(verb: str, key: str) -> None:
    named = {"name": "long.toml", "text": "#" * 101}
    given = {**EXAMPLES[verb], key: [named] if key == "systems" else named}
    with pytest.raises(InputError, match="a description of 101 characters"):
        Limits(description_bytes=100).check(parse_question(VERBS[verb].question, given))


def test_several_descriptions_are_together_no_longer_than_one() -> None:
    """Each is read before there is a job: a hundred of them would take as long as all of them."""
    named = [{"name": f"{name}.toml", "text": "#" * 60} for name in "ab"]
    question = parse_question(VERBS["sweep"].question, {**EXAMPLES["sweep"], "systems": named})
    with pytest.raises(InputError, match="a description of 120 characters"):
        Limits(description_bytes=100).check(question)


def test_a_body_is_as_large_as_what_belongs_into_it() -> None:
    limits = Limits()
    most = {verb: limits.body_bytes_for(VERBS[verb].question) for verb in VERBS}
    assert most["count"] == 2**16
    assert most["top"] == most["sweep"] == 2**16 + 2**19
    assert most["import"] == most["diff"] == 2**24


ALONE = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))
from hierarchies import InputError
from synth.collective.ranking.request import Watcher
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS
for verb, question in json.load(sys.stdin):
    print(verb, question, file=sys.stderr, flush=True)
    try:
        VERBS[verb].answer(parse_question(VERBS[verb].question, question), Watcher())
    except InputError:
        pass
"""


def _huge(kind: Any, given: Any) -> Iterator[Any]:
    """A value with each harmless number in it made huge, one at a time."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        if any(isinstance(mark, LimitExemption) for mark in _flat(kind.__metadata__)):
            yield from HUGE
        else:
            yield from _huge(inside[0], given)
    elif origin in (Union, types.UnionType):
        for arm in inside:
            yield from _huge(arm, given)
    elif origin is list:
        yield from ([one] * max(1, len(given or ())) for one in _huge(inside[0], None))
    elif origin is dict:
        name, *_ = [*(given or ()), "node1"]
        yield from ({**(given or {}), name: one} for one in _huge(inside[1], None))
    elif origin is tuple:
        yield from ([1, one] for one in HUGE)


@pytest.mark.slow
def test_mutants_listed_as_harmless_are_harmless() -> None:
    """Large, or as large as a number may be: refused or answered, in little time and memory."""
    asked_of = []
    for verb, example in EXAMPLES.items():
        for name, field in VERBS[verb].question.model_fields.items():
            kind = Annotated[(field.annotation, *field.metadata)] if field.metadata else None
            for value in _huge(kind or field.annotation, example.get(name)):
                asked_of.append((verb, {**example, name: value}))
    assert len(asked_of) > 100
    subprocess.run(
        [sys.executable, "-c", ALONE],
        input=json.dumps(asked_of),
        text=True,
        check=True,
        timeout=300,
    )
