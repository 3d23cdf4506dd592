"""The schedule document: valid by its schema, read back as it was, refused where it is wrong."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exhaustive import examples
from grammar import Goal
from hierarchies import Axis, Hierarchy, InputError, Placement, Reduction
from places import ROOT
from strategies import reductions, source, striped, valid_programs
from synth.collective.emit.document.schema import schema
from synth.collective.emit.document.writing import (
    document,
    document_to_text,
    read,
    read_stripes,
    striped_document,
    write,
)
from synth.collective.emit.source import EmitSource
from synth.collective.semantics.schedule import Exchange, Transpose
from synth.collective.verify.replay import compare, compare_stripes

DOCS = ROOT / "docs"
Spoil = Callable[[Any], object]
NESTED = "reduce-scatter node inside; all-reduce node parallel(root); all-gather node inside"


@st.composite
def sources(draw: st.DrawFn) -> EmitSource:
    reduction = draw(reductions().filter(lambda made: len(made.tree.digits) <= 3))
    payload, segments = draw(st.integers(1, 5000)), draw(st.sampled_from([1, 1, 3, 8]))
    goal = draw(st.sampled_from([Goal.ALL_REDUCE, *Goal]))
    program = draw(valid_programs(reduction.tree, goal))
    return source(program, reduction, payload, segments, goal)


def nested() -> EmitSource:
    """Two nodes of two devices, a payload that needs padding."""
    return source(NESTED, small(), 1001)


def small() -> Reduction:
    placement = Placement(Hierarchy.of(node=2, gpu=2), (Axis("data", 4),), ((2, 2),))
    return Reduction(placement, ("data",))


@st.composite
def side_by_side(draw: st.DrawFn) -> EmitSource:
    reduction = draw(reductions().filter(lambda made: len(made.tree.digits) <= 3))
    goal = draw(st.sampled_from([Goal.ALL_REDUCE, *Goal]))
    program = valid_programs(reduction.tree, goal)
    some = st.tuples(program, st.integers(1, 5000), st.sampled_from([1, 3]))
    return striped(draw(st.lists(some, min_size=2, max_size=4)), reduction, goal)


def two_stripes() -> EmitSource:
    """Two nodes of two devices; the dimensions are taken in two orders."""
    turned = "reduce-scatter node parallel(root); all-reduce node inside; all-gather node parallel"
    return striped([(NESTED, 700, 2), (turned, 301, 1)], small())


def text(given: EmitSource) -> str:
    [content] = write(given).values()
    assert isinstance(content, str)
    return content


def test_the_schema_in_docs_is_the_models(update_golden: bool) -> None:
    made = json.dumps(schema(), indent=2) + "\n"
    golden = DOCS / "schedule.schema.json"
    if update_golden:
        golden.write_text(made, encoding="utf-8")
    assert made == golden.read_text(encoding="utf-8")


def test_the_schema_is_one_and_describes_every_key() -> None:
    made = schema()
    jsonschema.Draft202012Validator.check_schema(made)
    for part in made["$defs"].values():
        assert part["additionalProperties"] is False
        for key, value in part["properties"].items():
            assert value.get("description"), key


@examples(10, 60)
@given(sources())
def test_every_document_is_valid_by_the_schema(given: EmitSource) -> None:
    validator = jsonschema.Draft202012Validator(schema())
    for made in (json.loads(text(given)), {"schema_version": 1, **document(given.schedule)}):
        assert list(validator.iter_errors(made)) == []


@settings(max_examples=60)
@given(sources())
def test_a_document_is_read_back_as_it_was(given: EmitSource) -> None:
    found = read(text(given))
    assert document(found) == document(given.schedule)
    assert found.goal is given.schedule.goal
    assert found.program == given.schedule.program
    assert found.reduction == given.schedule.reduction
    for one, other in zip(found.phases, given.schedule.phases, strict=True):
        if isinstance(one, Exchange):
            assert isinstance(other, Exchange)
            assert np.array_equal(one.groups, other.groups)
        else:
            assert isinstance(other, Transpose)
            assert np.array_equal(one.devices, other.devices)
    assert compare(found, 7) is None


@examples(10, 60)
@given(side_by_side())
def test_stripes_are_valid_by_the_schema_and_read_back(given: EmitSource) -> None:
    made = json.loads(text(given))
    assert list(jsonschema.Draft202012Validator(schema()).iter_errors(made)) == []
    plain = given.schedule.goal is Goal.ALL_REDUCE
    assert made["version"] == 1
    assert ("request" in made) is not plain
    found = read_stripes(text(given))
    assert striped_document(found) == striped_document(given.schedules)
    if not given.schedule.goal.in_pieces:
        assert compare_stripes(found, 31) is None
    with pytest.raises(InputError, match="stripes where one schedule is expected"):
        read(text(given))


STRIPE_SPOILS: list[tuple[str, Spoil]] = [
    ("payload_bytes", lambda d: d.update(payload_bytes=1000)),
    ("stripes", lambda d: d["stripes"].pop()),
    ("stripes.1.padded_bytes", lambda d: d["stripes"][1].update(padded_bytes=301)),
    ("stripes.1.program", lambda d: d["stripes"][1].update(program="all-reduce")),
    ("stripes.0.steps.0.bytes", lambda d: d["stripes"][0]["steps"][0].update(bytes=3)),
    ("stripes.0.steps.1.groups", lambda d: d["stripes"][0]["steps"][1].update(groups=[[0, 0]])),
    ("steps", lambda d: d.update(steps=[])),
]


@pytest.mark.parametrize(("place", "spoil"), STRIPE_SPOILS)
def test_stripes_that_contradict_themselves_are_refused(place: str, spoil: Spoil) -> None:
    body = striped_document(two_stripes().schedules)
    assert len(read_stripes(document_to_text(body))) == 2
    spoil(body)
    with pytest.raises(InputError) as refused:
        read_stripes(json.dumps(body))
    assert re.match(rf"{re.escape(place)}\b", refused.value.where), refused.value


def test_an_answer_of_the_command_line_is_read_too() -> None:
    given = nested().schedule
    answer = json.dumps({"schema_version": 1, **document(given, "dgx-h100")})
    assert document(read(answer)) == document(given)


def test_a_step_that_sums_what_it_should_not_is_for_the_replay_to_find() -> None:
    body = document(nested().schedule)
    body["steps"][1]["groups"] = [[0, 3], [1, 2]]
    assert compare(read(document_to_text(body)), 8) is not None


SPOILS: list[tuple[str, Spoil]] = [
    ("version", lambda d: d.update(version=2)),
    ("version", lambda d: d.pop("version")),
    ("request", lambda d: d.update(request="all-reduce")),
    ("pieces", lambda d: d.update(request="reduce-scatter")),
    ("stripes", lambda d: d.update(stripes=[])),
    ("format", lambda d: d.update(format="other")),
    ("surprise", lambda d: d.update(surprise=1)),
    ("devices", lambda d: d.update(devices=8)),
    ("padded_bytes", lambda d: d.update(padded_bytes=1001)),
    (
        "levels, axes, placement, reduce",
        lambda d: (
            d["placement"][0].reverse()
            or d.update(levels=[{"name": "node", "count": 4}, {"name": "gpu", "count": 1}])
        ),
    ),
    ("levels, axes, placement, reduce", lambda d: d.update(reduce=["model"])),
    ("program", lambda d: d.update(program="all-reduce")),
    ("program", lambda d: d.update(program="all-reduce pod parallel(root)")),
    ("reduction_groups", lambda d: d.update(reduction_groups=[[0, 1], [2, 3]])),
    ("steps.0.groups", lambda d: d["steps"][0].update(groups=[[0, 1], [1, 2]])),
    ("steps.0.groups", lambda d: d["steps"][0].update(groups=[[0, 1], [2, 4]])),
    ("steps.0.groups", lambda d: d["steps"][0].update(groups=[[0, 1], [2]])),
    ("steps.0.reduce-scatter.groups", lambda d: d["steps"][0].update(groups=[])),
    ("steps.0.reduce-scatter.groups.1.0", lambda d: d["steps"][0]["groups"][1].__setitem__(0, -1)),
    ("steps.0.reduce-scatter.bytes", lambda d: d["steps"][0].update(bytes=501.0)),
    ("steps.0.bytes", lambda d: d["steps"][0].update(bytes=500)),
    ("steps.0", lambda d: d["steps"][0].update(collective="all-to-all")),
    ("steps.0.bytes", lambda d: d["steps"].pop(0)),
    ("steps.1", lambda d: d["steps"][0].update(groups=[[0, 1]])),
    ("steps.3", lambda d: d["steps"].append(copy.deepcopy(d["steps"][2]))),
    ("steps.3", lambda d: d["steps"].append(transpose(axes=[0, 0]))),
    ("steps.3", lambda d: d["steps"].append(transpose(shape=[5, 2]))),
    ("steps.3.devices", lambda d: d["steps"].append(transpose(devices=[0, 1, 2, 2]))),
    ("steps.3.bytes", lambda d: d["steps"].append(transpose(bytes=501))),
    ("steps.0", lambda d: d["steps"].insert(0, {**d["steps"][1], "collective": "all-gather"})),
]


def transpose(**changed: Any) -> Any:
    usual = {"devices": [0, 1, 2, 3], "shape": [2, 1], "axes": [1, 0], "bytes": 1002}
    return {"collective": "transpose", "groups": [], **usual, **changed}


@pytest.mark.parametrize(("place", "spoil"), SPOILS)
def test_a_document_that_contradicts_itself_is_refused_by_place(place: str, spoil: Spoil) -> None:
    body = document(nested().schedule)
    spoil(body)
    with pytest.raises(InputError) as refused:
        read(json.dumps(body))
    assert re.match(rf"{re.escape(place)}\b", refused.value.where), refused.value


def test_the_usual_transpose_is_read() -> None:
    body = document(nested().schedule)
    body["steps"].append(transpose())
    assert compare(read(json.dumps(body)), 8) is None


def test_another_version_is_refused_with_what_would_be_right() -> None:
    for body in (document(nested().schedule), striped_document(two_stripes().schedules)):
        with pytest.raises(InputError) as refused:
            read_stripes(json.dumps({**body, "version": 4}))
        assert refused.value.where == "version"
        assert refused.value.problem == "a document of version 4"
        assert refused.value.hint == "1; have this collsynth write the schedule again"


def test_invalid_json_is_refused() -> None:
    with pytest.raises(InputError, match="Invalid JSON"):
        read("{")


def test_the_page_shows_what_is_written(update_golden: bool) -> None:
    page = DOCS / "schedule.md"
    parts = re.split(r"(?<=```json\n)(.*?)(?=```)", page.read_text("utf-8"), flags=re.S)
    assert len(parts) == 5
    parts[1], parts[3] = text(nested()), text(two_stripes())
    made = "".join(parts)
    if update_golden:
        page.write_text(made, encoding="utf-8")
    assert page.read_text("utf-8") == made
