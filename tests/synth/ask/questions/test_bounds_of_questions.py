"""Questions that ask for too much are refused at once, with what would be right."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import hierarchies
from exhaustive import examples
from grammar import MOST_STEPS, parse
from hierarchies import Fault, InputError, find_first_refused, load
from places import ROOT
from synth.ask.questions.notations import size_in_bytes
from synth.ask.questions.plain import check_plain
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS
from synth.collective.ranking.request import Watcher
from synth.collective.workload.quantities import UNITS

ALL = "all-reduce root inside"
HUGE = 10**18
PLACED = {"system": "dgx-h100:4", "axes": {"data": 32}, "reduce": ["data"]}
PROGRAM = {**PLACED, "program": ALL}
JOB = {
    "layers": 8,
    "hidden": 64,
    "heads": 8,
    "vocabulary": 100,
    "sequence": 16,
    "micro_batches": 4,
    "axes": {"data": "any"},
}
TEXT = (Path(hierarchies.__file__).parent / "catalogue" / "dgx-h100.toml").read_text("utf-8")
MANY = {f"a{number}x": 1 for number in range(1000)}


def machine(text: str) -> dict[str, Any]:
    return {"system": {"name": "mine.toml", "text": text}}


def changed(right: str, wrong: str) -> dict[str, Any]:
    assert right in TEXT
    return machine(TEXT.replace(right, wrong))


TOO_MUCH: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "digits": ("count", {"digits": 10**9}, "a synthesis tree of 1000000000 digits; at most 8"),
    "more digits than a number has": ("count", {"digits": 10**30}, "digits: a number of so many"),
    "steps to count": ("count", {"digits": 1, "max_steps": 10**6}, "max-steps is 1000000; at most"),
    "steps": ("top", {**PLACED, "max_steps": HUGE}, "max-steps is 10{18}; at most 64"),
    "steps of a job": (
        "plan",
        {"system": "dgx-h100", "job": "gpt-18b-3d", "max_steps": 10**6},
        "max-steps is",
    ),
    "systems": (
        "sweep",
        {"systems": ["dgx-h100"] * 2000, "axes": {"data": 32}, "reduce": ["data"]},
        "systems: .* at most 1024",
    ),
    "axes": ("top", {**PLACED, "axes": MANY}, "axes: .* at most 64 items"),
    "axes of placements": ("place", {"system": "dgx-h100", "axes": MANY}, "axes: .* at most 64"),
    "axes of a job": ("job", {**JOB, "axes": MANY}, "axes: .* at most 64"),
    "axes to reduce over": ("top", {**PLACED, "reduce": ["data"] * 1000}, "reduce: .* at most 64"),
    "rows": ("top", {**PLACED, "placement": [[1, 1]] * 1000}, "placement: .* at most 64"),
    "columns": ("lower", {**PROGRAM, "placement": [[HUGE] * 10**5]}, "placement.0: .* at most 64"),
    "digits of a tree": ("check", {"program": ALL, "tree": [HUGE] * 1000}, "tree: .* at most 64"),
    "bytes": ("top", {**PLACED, "bytes": HUGE - 1}, "payload"),
    "hidden": ("job", {**JOB, "hidden": 10**30}, "hidden: a number of so many digits"),
    "parameters": ("job", {**JOB, "hidden": HUGE}, "would be [0-9]+; above 0, and at most"),
    "a slow nothing": ("top", {**PLACED, "slow": {"node1": float("nan")}}, "slow: nan"),
    "slow without bound": ("top", {**PLACED, "slow": {"node1": float("inf")}}, "slow: inf"),
    "hardly anything left": ("top", {**PLACED, "slow": {"node1": 5e-324}}, "--slow: a share of"),
    "faults": ("systems", {"system": "dgx-h100", "without": ["node1"] * 10**5}, "at most 4096"),
    "children": (
        "top",
        {**PLACED, "system": f"dgx-h100:{10**9}", "axes": {"data": 8 * 10**9}},
        "1000000000 children of one unit; at most",
    ),
    "steps of a program": (
        "check",
        {"program": ";".join([ALL] * 1000), "tree": [2]},
        "a program of 1000 steps; at most 64",
    ),
    "letters of a program": ("check", {"program": "#" * 10**6, "tree": [2]}, "at most 65536"),
    "hosts": ("emit", {**PROGRAM, "target": "rankfile", "hosts": ["a"] * 10**5}, "hosts: .*65536"),
    "files": (
        "doctor",
        {"system": "dgx-h100", "files": [{"name": "a", "text": ""}] * 10**4},
        "files: .* at most 4096",
    ),
    "labels": ("import", {"kind": "jax", "files": [], "keys": ["a"] * 100}, "files|keys"),
    "levels": (
        "systems",
        machine(TEXT + TEXT[TEXT.index("[[level]]") :] * 20),
        "levels; at most 16",
    ),
    "dots": ("systems", machine(".".join("a" * 400_000) + " = 1"), "399999 dots in line 1"),
    "dots of a job": (
        "plan",
        {"system": "dgx-h100", "job": {"name": "x", "text": ".".join("a" * 10**5) + " = 1"}},
        "x, line 1: 99999 dots",
    ),
    "brackets": ("systems", machine("a = " + "[" * 10**5), "brackets in brackets"),
    "no bandwidth to speak of": (
        "systems",
        changed("bandwidth_GB_per_s = 50", "bandwidth_GB_per_s = 5e-324"),
        "bandwidth is .*; from 1 to",
    ),
    "too much bandwidth": (
        "systems",
        changed("bandwidth_GB_per_s = 50", "bandwidth_GB_per_s = 1e299"),
        "bandwidth is .*; from 1 to",
    ),
    "a message of ages": (
        "systems",
        changed("\nlatency_us = 14.0", "\nlatency_us = 1e30"),
        "at most",
    ),
    "an answer of brackets": (
        "emit",
        {"target": "json", "from": {"a": json.loads("[" * 200 + "]" * 200)}},
        "from: brackets in brackets in brackets",
    ),
}


@pytest.mark.parametrize("case", TOO_MUCH)
def test_too_much_is_refused(case: str) -> None:
    verb, question, told = TOO_MUCH[case]
    told = told.replace("10{18}", str(HUGE))
    with pytest.raises(InputError, match=told) as caught:
        VERBS[verb].answer(parse_question(VERBS[verb].question, question), Watcher())
    assert len(str(caught.value)) < 4000


@given(st.integers(1, 10**19), st.sampled_from(sorted(UNITS)))
@example(2 * 10**6, "TiB")
@example(10**6, "TB")
def test_a_size_that_is_taken_is_taken_again_as_a_number(number: int, unit: str) -> None:
    """As the service keeps it, and sends it to whoever answers."""
    try:
        size = size_in_bytes(f"{number}{unit}")
    except InputError:
        return
    check_plain(size)
    assert size_in_bytes(size) == size


def test_large_questions_are_answered() -> None:
    """Bounds are far from what people ask for."""
    large = parse_question(
        VERBS["place"].question, {"system": "dgx-h100:65536", "axes": {"data": 2**19}}
    )
    assert VERBS["place"].answer(large, Watcher()).body["count"] == 1
    axes = {f"a{number}x": 2 for number in range(5)} | {f"b{number}x": 1 for number in range(20)}
    many = parse_question(VERBS["place"].question, {"system": "dgx-h100:4", "axes": axes})
    assert VERBS["place"].answer(many, Watcher()).body["count"] == 10
    steps = parse(";".join([ALL] * MOST_STEPS)).steps
    assert len(steps) == MOST_STEPS
    parse_question(VERBS["top"].question, {**PLACED, "k": HUGE, "bytes": "1KiB..16TiB"})


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-HUGE, HUGE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=8,
)


@given(PLAIN, st.sampled_from([float("nan"), float("-inf"), HUGE + 1, "a\ud800", "\udfff"]))
@examples(15, 100)
def test_plain_json_is_all_that_is_let_through(plain: Any, other: Any) -> None:
    check_plain(plain)
    assert json.loads(json.dumps(plain, ensure_ascii=False).encode()) == plain
    for wrong in ([plain, other], {"a": {"b": [other]}, "c": plain}):
        with pytest.raises(InputError):
            check_plain(wrong)
    if isinstance(other, str):
        with pytest.raises(InputError, match="half a character"):
            check_plain({other: plain})


@given(st.integers(1, 100), st.data())
def test_the_first_that_is_refused_is_found(count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, count))

    def check(number: int) -> None:
        if number >= first:
            raise InputError("here")

    assert find_first_refused(count, check) == first


@pytest.mark.parametrize(
    ("without", "slow", "where"),
    [
        (["node1", "node1"], {}, "--without: node1 is named twice"),
        (["node2", "node1"], {"node3": 0.5, "node1/gpu2": 0.5}, "--slow: node1/gpu2 is part of"),
        (["node1"], {"node1": 0.5, "nodes": 0.5}, "--slow: no unit 'nodes'"),
        ([f"node{number}" for number in range(4)], {}, "--without: "),
    ],
)
def test_of_many_faults_the_one_that_is_wrong_is_named(
    without: list[str], slow: dict[str, float], where: str
) -> None:
    question = {"system": "dgx-h100:4", "without": without, "slow": slow}
    with pytest.raises(InputError) as caught:
        VERBS["systems"].answer(parse_question(VERBS["systems"].question, question), Watcher())
    assert str(caught.value).startswith(where)


def test_thousands_of_faults_are_taken() -> None:
    units = [f"node{number}" for number in range(1, 4000)]
    question = parse_question(
        VERBS["systems"].question, {"system": "dgx-h100:4000", "without": units}
    )
    found = VERBS["systems"].answer(question, Watcher()).body["system"]
    assert found["devices"] == 8
    assert load("dgx-h100:2").with_faults([Fault((1,))]).devices == 8


def test_every_key_of_a_question_is_documented() -> None:
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    told = text.partition("## Questions")[2].partition("\n## ")[0]
    for name, verb in VERBS.items():
        row, *_ = [line for line in told.split("\n") if line.startswith(f"| `{name}` |")]
        keys = [field.alias or key for key, field in verb.question.model_fields.items()]
        assert sorted(row.replace("`", "").split("|")[2].strip().split(", ")) == sorted(keys), name
