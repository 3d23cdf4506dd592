"""What jobs are called: in plain words, and never two questions alike."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from hierarchies import load
from hierarchies.files.writing import describe_system
from synth.ask.table import VERBS
from synth.service.http.examples import EXAMPLES
from synth.service.jobs.names import VERB_PHRASES, machine_in, name_of
from synth.service.jobs.questions import prepare, question_in

TOP = EXAMPLES["top"]


def name(verb: str, question: dict[str, Any]) -> str:
    return name_of(verb, question_in(prepare(verb, question).text))


def test_every_verb_has_a_description() -> None:
    assert VERB_PHRASES.keys() == VERBS.keys()
    assert len({*VERB_PHRASES.values()}) == len(VERB_PHRASES)
    for verb in VERBS:
        said = name(verb, dict(EXAMPLES[verb]))
        assert said.split()[0].strip(":") != verb
        assert said.startswith(VERB_PHRASES[verb]) == (verb not in ("top", "plan", "calibrate"))


def test_usual_values_are_not_reported() -> None:
    usual = {"prices": "typical", "stripes": True, "k": 10, "request": "all-reduce", "bytes": 2**30}
    given = {key: TOP[key] for key in ("system", "axes", "reduce")}
    said = "all-reduce of 1 GiB over data on dgx-h100:4, data=8 model=4"
    assert name("top", given) == name("top", {**given, **usual}) == said


def test_questions_that_differ_are_called_otherwise() -> None:
    changes: list[dict[str, Any]] = [
        *({"system": "dgx-h100:5"}, {"bytes": 2**20}, {"bytes": [2**20, 2**30]}, {"k": 1}),
        *({"request": "all-gather"}, {"without": ["node3/nic2"]}, {"slow": {"node1": 0.5}}),
        *({"prices": "stated"}, {"segments": 1}, {"stripes": False}, {"exact": True}),
        *({"max_steps": 3}, {"algorithm": "ring"}, {"reduce": ["model"]}),
    ]
    sent = [{"reduce": ["data"], "bytes": "1GiB"}, {"reduce": ["model"], "bytes": "64MiB"}]
    bare = {key: one for key, one in TOP.items() if key != "reduce"}
    jobs = [sent, [sent[0], {**sent[1], "times": 160}]]
    several = [{**bare, "collectives": one} for one in jobs]
    names = [name("top", {**TOP, **one}) for one in ({}, *changes)]
    names += [name("top", one) for one in several]
    assert len({*names}) == len(names)
    assert names[-1].startswith("all-reduce of 1 GiB over data and all-reduce of 64 MiB over model")
    assert name("calibrate", {"system": "dgx-h100:2", "plan": True}).startswith("Tests to")


@pytest.mark.parametrize(
    ("file", "told"), [("mine.toml", "known:8"), ("mine.toml:2", "known:2"), ("a:2x2", "known:2x2")]
)
def test_a_description_of_ones_own_is_named_with_its_count(file: str, told: str) -> None:
    """``... on known, data=8`` said not of how many nodes."""
    text = describe_system(load("dgx-h100:8"), "made up").replace(
        'name = "dgx-h100"', 'name = "known"'
    )
    system = {"name": file, "text": text}
    assert machine_in({"system": system}) == told
    said = name("place", {"system": {**system, "name": "mine.toml:2"}, "axes": {"data": 16}})
    assert said == "List placements: known:2, data=16"
    assert machine_in({"system": {"name": "x", "text": f"{text}\nnonsense"}}) == "known"


def test_a_machine_is_in_the_name_as_it_is_called() -> None:
    for verb in ("top", "plan", "doctor", "emit"):
        question = dict(EXAMPLES[verb])
        assert machine_in(question) in name(verb, question)
    assert machine_in(EXAMPLES["sweep"]) == ""


def test_the_name_of_a_sweep_has_its_values_and_no_value_that_they_replace() -> None:
    asked = {"system": "dgx-h100:1", "model": "gpt2-xl", "batch": 256}
    name = name_of("plan", {**asked, "sweep": {"batch": ["64", "128"]}})
    assert name == "Plan a step: gpt2-xl on dgx-h100:1, sweep batch=64,128"
    ours = {"name": "a.toml", "text": "x"}
    name = name_of("plan", {**asked, "sweep": {"system": ["dgx-h100:1", ours]}})
    assert name == "Plan a step: gpt2-xl, batch 256, sweep system=dgx-h100:1,a.toml"
