"""Several collectives in a question are a job: the same as a file of the same content."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammar import Goal
from hierarchies import InputError
from plain_text import printed
from synth.ask.planning import plan
from synth.ask.questions.question import parse_question
from synth.ask.ranking import SweepQuestion, TopQuestion, rank_programs, sweep_systems
from synth.ask.table import VERBS
from synth.collective.ranking.request import Watcher
from synth.collective.workload.files import write
from synth.show.terminal.table import TABLES

ON: dict[str, Any] = {"system": "dgx-h100:2", "axes": {"data": 4, "model": 4}}
HOW: dict[str, Any] = {"max_steps": 2, "stripes": False, "segments": 1}
TWO = [
    {"reduce": ["data"], "bytes": "1GiB"},
    {"reduce": ["model"], "bytes": "64MiB", "times": 160},
]
COLLECTIVES = st.lists(
    st.fixed_dictionaries(
        {
            "reduce": st.lists(st.sampled_from(["data", "model"]), min_size=1, unique=True),
            "bytes": st.integers(1, 10**9),
        },
        optional={
            "times": st.integers(1, 1000) | st.sampled_from([0.5, 1e-5, 2.25]),
            "hidden": st.sampled_from([0, 0.25, 1, 0.975]),
            "request": st.sampled_from([goal.value for goal in Goal]),
        },
    ),
    min_size=2,
    max_size=4,
)


@given(COLLECTIVES, st.sampled_from([None, [[1, 4], [2, 2]]]))
@settings(max_examples=15, deadline=None)
def test_a_job_in_a_question_has_the_plan_of_its_file(
    collectives: list[dict[str, Any]], placement: Any
) -> None:
    """Byte for byte; and the file reads back as that job."""
    question = parse_question(
        TopQuestion, {**ON, **HOW, "collectives": collectives, "placement": placement}
    )
    text = write(question.job())
    given_file = {"job": {"name": "job.toml", "text": text}, "system": ON["system"]}
    filed = parse_question(
        VERBS["plan"].question, {**given_file, **HOW, "k": 10, "placement": placement}
    )
    mine, its = rank_programs(question, Watcher()), plan(filed, Watcher())
    assert json.dumps(mine.body) == json.dumps(its.body)
    assert mine.outcome is its.outcome


@given(COLLECTIVES)
def test_a_question_of_several_is_read_back_from_what_is_sent(
    collectives: list[dict[str, Any]],
) -> None:
    question = parse_question(TopQuestion, {**ON, "collectives": collectives})
    sent = json.loads(json.dumps(question.model_dump(mode="json", by_alias=True)))
    assert parse_question(TopQuestion, sent) == question


def test_every_entry_has_a_name_of_its_own() -> None:
    twice = [*TWO, *TWO, {**TWO[0], "request": "all-gather"}]
    names = [
        entry.name
        for entry in parse_question(TopQuestion, {**ON, "collectives": twice}).job().entries
    ]
    assert names == [
        "all-reduce over data",
        "all-reduce over model",
        "all-reduce over data (2)",
        "all-reduce over model (2)",
        "all-gather over data",
    ]


def test_frequent_communication_of_an_axis_decides_its_placement() -> None:
    """As an operator would: model inside the nodes, though data alone would rather be there."""
    body = rank_programs(
        parse_question(TopQuestion, {**ON, **HOW, "collectives": TWO}), Watcher()
    ).body
    assert body["ranking"][0]["placement"] == [[2, 2], [1, 4]]
    rare = [TWO[0], {**TWO[1], "times": 1}]
    body = rank_programs(
        parse_question(TopQuestion, {**ON, **HOW, "collectives": rare}), Watcher()
    ).body
    assert body["ranking"][0]["placement"] == [[1, 4], [2, 2]]


def test_an_axis_that_no_collective_is_over_is_named() -> None:
    """Two sums over data say no more of where model should lie than one."""
    twice = [TWO[0], {**TWO[0], "bytes": "1MiB"}]
    body = rank_programs(
        parse_question(TopQuestion, {**ON, **HOW, "collectives": twice}), Watcher()
    ).body
    assert "not considered: communication over model" in printed(TABLES["top"](body))
    body = rank_programs(
        parse_question(TopQuestion, {**ON, **HOW, "collectives": TWO}), Watcher()
    ).body
    assert "not considered: communication" not in printed(TABLES["top"](body))


def test_several_systems_are_asked_for_a_job_too() -> None:
    systems = ["dgx-h100:2", "dgx-a100:2"]
    given_all = {"systems": systems, "axes": ON["axes"], **HOW, "collectives": TWO}
    body = sweep_systems(parse_question(SweepQuestion, given_all), Watcher()).body
    assert [one["job"] for one in body["systems"]] == ["step", "step"]
    for system, one in zip(systems, body["systems"], strict=True):
        alone = {**ON, **HOW, "system": system, "collectives": TWO}
        assert one == rank_programs(parse_question(TopQuestion, alone), Watcher()).body


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"collectives": TWO, "reduce": ["data"]}, "reduce: reduce beside several collectives"),
        ({"collectives": TWO, "bytes": 5}, "bytes: bytes beside several"),
        ({"collectives": TWO, "request": "broadcast"}, "request: request beside several"),
        ({"collectives": TWO[:1]}, "collectives: a list of one collective; give its reduce"),
        ({}, "reduce: nothing to reduce over is given; name the axes"),
        ({"collectives": [{"reduce": ["data"]}, TWO[1]]}, "collectives.0.bytes: .*required"),
        (
            {"collectives": [TWO[0], {**TWO[1], "bytes": "1KiB..1MiB"}]},
            "collectives.1.bytes: a range of sizes among several collectives",
        ),
        ({"collectives": [TWO[0], {**TWO[1], "times": 0}]}, "collectives.1.times: 0"),
        ({"collectives": [TWO[0], {**TWO[1], "hidden": 1.5}]}, "collectives.1.hidden: 1.5"),
        ({"collectives": TWO * 40}, "collectives: .* at most 64"),
        ({"collectives": [TWO[0], {**TWO[1], "reduce": []}]}, "is over no axis"),
        ({"collectives": [TWO[0], {**TWO[1], "reduce": ["modl"]}]}, "did you mean model"),
        ({"collectives": TWO, "per_placement": True}, "--per-placement: several collectives"),
        ({"collectives": TWO, "explain": True}, "--explain: several collectives share"),
        ({"collectives": TWO, "placement": [[1, 4]]}, "--placement: .*does not fit the job"),
        ({"collectives": TWO, "placement": [[1, 4], [4, 1]]}, "column .* multiplies to"),
        ({"collectives": TWO, "without": ["node1/gpu2"]}, "lacks 1 of 16 devices"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_its_place(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        rank_programs(parse_question(TopQuestion, {**ON, **HOW, **change}), Watcher())
