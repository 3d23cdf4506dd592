"""Every verb's answers are as the models describe them, and as the page tells."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import jsonschema
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from exhaustive import examples
from grammar import Goal
from hierarchies import InputError, System, describe_system
from machines import bare, calibration
from replying import COMMANDS, DOCS, body_of, faults, models_of
from strategies import AXIS_NAMES, smart_systems, valid_programs
from synth.ask.questions.question import parse_question
from synth.ask.reply import Outcome, Reply
from synth.ask.table import VERBS, schema
from synth.collective.ranking.request import Watcher


@pytest.mark.parametrize("name", COMMANDS)
def test_printed_json_matches_the_schema(name: str) -> None:
    assert faults(COMMANDS[name][0], body_of(name)) == []


# Answers to drawn questions.


def answer(verb: str, question: dict[str, Any], watcher: Watcher | None = None) -> Reply:
    known = VERBS[verb]
    return known.answer(parse_question(known.question, question), watcher or Watcher())


def judged(verb: str, question: dict[str, Any], watcher: Watcher | None = None) -> Reply:
    """The answer to a question, held to its model; questions without an answer are drawn anew."""
    try:
        found = answer(verb, question, watcher)
    except InputError:
        assume(False)
    assert faults(verb, json.loads(json.dumps(found.body))) == []
    return found


def machine(system: System) -> dict[str, str]:
    return {"name": "drawn.toml", "text": describe_system(system)}


@st.composite
def questions(draw: st.DrawFn, system: System) -> dict[str, Any]:
    """What is common to questions about axes on a system."""
    sizes = [1] * draw(st.integers(1, 2))
    for count in system.hierarchy.cardinalities:
        sizes[draw(st.integers(0, len(sizes) - 1))] *= count
    axes = dict(zip(AXIS_NAMES, sizes, strict=False))
    over = draw(st.lists(st.sampled_from([*axes]), min_size=1, unique=True))
    return {
        "axes": axes,
        "reduce": over,
        "algorithm": draw(st.sampled_from(["auto", "ring", "tree"])),
        "request": draw(st.sampled_from(Goal)).value,
        "max_steps": draw(st.integers(1, 3)),
        "bytes": draw(st.integers(1, 2**40)),
    }


@st.composite
def asked_machines(draw: st.DrawFn) -> tuple[System, dict[str, Any]]:
    """A machine, and something of it that is missing or slower."""
    system = draw(smart_systems(most_devices=16))
    names = [level.name for level in system.hierarchy.levels if level.cardinality > 1]
    faulty: dict[str, Any] = {}
    if names and draw(st.booleans()):
        unit = "/".join(f"{name}0" for name in system.hierarchy.names[: draw(st.integers(1, 2))])
        faulty = draw(st.sampled_from([{"without": [unit]}, {"slow": {unit: 0.5}}]))
    return system, faulty


@examples(10, 25)
@given(st.data())
def test_rankings_of_drawn_machines_are_as_described(data: st.DataObject) -> None:
    system, faulty = data.draw(asked_machines())
    question = {**data.draw(questions(system)), "k": 2, "per_placement": data.draw(st.booleans())}
    if faulty.get("without"):
        left = system.devices - 1
        question |= {"axes": {"data": left}, "reduce": ["data"], "per_placement": False}
    judged("top", {"system": machine(system), **faulty, **question})


@settings(max_examples=10)
@given(st.data())
def test_sweeps_and_costs_of_drawn_machines_are_as_described(data: st.DataObject) -> None:
    system, faulty = data.draw(asked_machines())
    question = {"system": machine(system), **data.draw(questions(system))}
    if faulty:
        judged("cost", {**question, **faulty, "stripes": False})
    judged("top", {**question, "bytes": [1, 2 ** data.draw(st.integers(1, 5))]})


@examples(10, 25)
@given(st.data())
def test_one_program_on_drawn_machines_is_as_described(data: st.DataObject) -> None:
    system = data.draw(smart_systems(most_devices=16))
    spec = machine(system)
    asked_for = data.draw(questions(system))
    goal = Goal(asked_for["request"])
    place = {key: asked_for[key] for key in ("axes", "reduce", "request")} | {"system": spec}
    [matrix, *_] = answer("place", {"system": spec, "axes": place["axes"]}).body["placements"]
    question = parse_question(
        VERBS["lower"].question, {**place, "placement": matrix, "program": ""}
    )
    tree = question.reduction(system).tree
    assume(tree.digits)
    program = str(data.draw(valid_programs(tree, goal)))
    question = {**place, "placement": matrix, "program": program}
    judged("check", {**question, "replay": data.draw(st.booleans())})
    judged("lower", {**question, "bytes": asked_for["bytes"]})
    judged("time", {**question, "bytes": asked_for["bytes"], "algorithm": asked_for["algorithm"]})


@examples(12, 40)
@given(st.data())
def test_refused_programs_are_as_described(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(2, 3), min_size=1, max_size=2))
    program = "; ".join(
        data.draw(
            st.lists(
                st.sampled_from(
                    ["all-reduce root inside", "reduce root inside", "all-gather root inside"]
                ),
                max_size=3,
            )
        )
    )
    judged("check", {"program": program, "tree": sizes, "replay": True})


def test_answers_of_a_calibrated_machine_are_as_described() -> None:
    spec = machine(replace(bare(), calibration=calibration()))
    question = {"system": spec, "axes": {"data": 32}, "reduce": ["data"]}
    found = judged("top", {**question, "k": 3, "max_steps": 3})
    assert found.body["answers"][0]["interval_seconds"]
    judged("top", {**question, "bytes": ["1KiB", "8KiB"], "max_steps": 2})
    judged("time", {**question, "program": "all-reduce root inside"})
    judged("systems", {"system": spec})
    judged("cost", {**question, "slow": {"node3": 0.5}, "max_steps": 2, "stripes": False})


class Impatient(Watcher):
    """Ends the work after it was asked so many times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def go_on(self) -> bool:
        self.times -= 1
        return self.times >= 0


@pytest.mark.parametrize("times", [0, 1, 3, 10])
def test_answers_cut_short_are_as_described(times: int) -> None:
    axes = {"axes": {"data": 8, "model": 4}, "reduce": ["data"]}
    partial = [
        ("top", {"system": "dgx-h100:4", **axes, "k": 2, "max_steps": 3}),
        ("top", {"system": "dgx-h100:4", **axes, "bytes": ["1MiB", "4MiB"], "max_steps": 2}),
        ("top", {"system": "dgx-h100:1", "axes": {"data": 7}, "reduce": ["data"]}),
        ("cost", {"system": "dgx-h100:2", "axes": {"data": 16}, "reduce": ["data"]}),
        ("plan", {"system": "dgx-h100:2", "job": "mixtral-8x7b-experts", "k": 2}),
        ("count", {"digits": 3, "max_steps": 4}),
    ]
    partial[2][1]["without"] = ["node0/gpu3"]
    partial[3][1]["slow"] = {"node1": 0.5}
    outcomes = set()
    for verb, question in partial:
        found = answer(verb, question, Impatient(times))
        outcomes.add(found.outcome)
        assert faults(verb, json.loads(json.dumps(found.body))) == []
    assert Outcome.PARTIAL in outcomes


# The schema and the page.


def test_the_schema_in_docs_is_the_models(update_golden: bool) -> None:
    made = json.dumps(schema(), indent=1) + "\n"
    golden = DOCS / "replies.schema.json"
    if update_golden:
        golden.write_text(made, encoding="utf-8")
    assert made == golden.read_text(encoding="utf-8")


def test_the_schema_is_one_and_describes_every_key() -> None:
    made = schema()
    jsonschema.Draft202012Validator.check_schema(made)
    for name, part in made["$defs"].items():
        if part.get("type") != "object":
            continue
        assert part["additionalProperties"] is False, name
        for key, value in part["properties"].items():
            assert value.get("description"), (name, key)


def fields_of(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[str]:
    if model in seen:
        return
    seen.add(model)
    for name, field in model.model_fields.items():
        yield field.alias or name
        for part in parts_of(field.annotation):
            yield from fields_of(part, seen)


def parts_of(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from parts_of(part)


def sections() -> dict[str, str]:
    text = (DOCS / "json.md").read_text(encoding="utf-8")
    intro, *parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    return {"": intro, **dict(zip(parts[::2], parts[1::2], strict=True))}


def told_of(verb: str) -> str:
    """The section of a verb, and those that it refers to with ``as in``."""
    known, found, left = sections(), {""}, [verb]
    while left:
        one = left.pop()
        found.add(one)
        left += {*re.findall(r"as in\s+`(\w+)`", known[one])} - found
    text = "".join(known[one] for one in sorted(found))
    if "schedule.md" in text:
        text += (DOCS / "schedule.md").read_text(encoding="utf-8")
    return text


@pytest.mark.parametrize("verb", VERBS)
def test_every_key_is_documented_on_the_page_in_the_section_of_its_verb(verb: str) -> None:
    seen: set[type[BaseModel]] = set()
    keys = {key for model in models_of(verb) for key in fields_of(model, seen)}
    assert sorted(key for key in keys if f"`{key}`" not in told_of(verb)) == []
