"""The framework in a question of plans: what is searched, what is advised, and what is written."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from hierarchies import InputError
from plain_text import printed
from synth.ask.answers.training.planned import StepPlanReply
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS, judge
from synth.collective.ranking.request import Watcher
from synth.show.terminal.table import TABLES
from synth.step.frameworks import FRAMEWORKS

ASKED = {"system": "dgx-h100:1", "model": "gpt2-tiny", "batch": 64, "k": 3}


@cache
def answered(**other: Any) -> StepPlanReply:
    question = parse_question(VERBS["plan"].question, {**ASKED, **other})
    found = judge("plan").validate_python(VERBS["plan"].answer(question, Watcher()).body)
    assert isinstance(found, StepPlanReply)
    return found


@pytest.mark.parametrize("framework", ["megatron", "deepspeed", "jax"])
def test_plans_are_those_that_the_framework_runs_and_it_alone_is_written(framework: str) -> None:
    answer = answered(framework=framework)
    assert answer.framework == framework
    assert all(framework in plan.runs_on for plan in answer.plans)
    assert {file.name.partition("/")[0] for file in answer.files} == {framework}
    assert not answer.unsupported
    assert f"framework: {framework}" in printed(TABLES["plan"](answer))


def test_every_plan_says_who_runs_it_and_who_does_not() -> None:
    for plan in answered().plans:
        others = [refusal.framework for refusal in plan.refusals]
        assert sorted([*plan.runs_on, *others]) == sorted(FRAMEWORKS)
        assert all(refusal.reason for refusal in plan.refusals)


def test_ideal_searches_what_is_searched_without_a_framework() -> None:
    ideal, usual = answered(framework="ideal"), answered()
    assert ideal.plans == usual.plans
    assert ideal.considered == usual.considered
    assert answered(framework="deepspeed").considered < usual.considered


def test_beside_plans_that_none_runs_is_one_that_is_advised() -> None:
    answer = answered(model="mlp-tiny", k=1)
    first, other = answer.plans
    assert first.rows is not None
    assert not first.runs_on
    assert other.runs_on
    assert answer.advised == 1
    assert {file.name.partition("/")[0] for file in answer.files} >= {*other.runs_on}
    text = printed(TABLES["plan"](answer))
    assert "no framework runs plan 1" in text
    assert "take plan 2" in text


def test_nothing_is_advised_if_no_framework_runs_a_plan() -> None:
    answer = answered(pin="zero=3 pipe=2", k=1)
    [plan] = answer.plans
    assert not plan.runs_on
    assert answer.advised is None
    assert not answer.files
    text = printed(TABLES["plan"](answer))
    assert "no framework runs plan 1: megatron: zero=3 on stages" in text
    assert "take none" in text
    assert "-o FOLDER" not in text
    assert answered(pin="zero=3 pipe=2", k=1, framework="ideal").advised == 0


DEFAULTS = [
    (machine, model)
    for machine in ("dgx-h100:2", "dgx-a100:1", "gb200-nvl72:2x4")
    for model in ("gpt2-small", "llama3-8b", "bert-base")
] + [("mi300x:1", "mlp-tiny")]


@pytest.mark.parametrize(("machine", "model"), DEFAULTS)
def test_no_plan_that_none_runs_is_advised(machine: str, model: str) -> None:
    answer = answered(system=machine, model=model, k=2)
    assert answer.advised is not None
    assert answer.best.runs_on
    assert {file.name.partition("/")[0] for file in answer.files} >= {*answer.best.runs_on}


def test_an_unknown_framework_is_refused_with_those_of_near_names() -> None:
    with pytest.raises(InputError, match="no framework 'megatrom'") as refused:
        parse_question(VERBS["plan"].question, {**ASKED, "framework": "megatrom"})
    assert refused.value.hint == "did you mean megatron?"
    assert "framework" in str(refused.value.where)


@pytest.mark.parametrize(
    ("other", "where", "problem", "hint"),
    [
        ({"model": "mlp-tiny", "framework": "bridge"}, "framework", "a Mlp", "deepspeed"),
        ({"pin": "pipe=2", "framework": "jax"}, "pin", "with pipe=2", "--framework megatron"),
        ({"explain": "pipe=2", "framework": "jax"}, "pin", "with pipe=2", "--framework megatron"),
    ],
)
def test_what_it_cannot_run_is_an_error(
    other: dict[str, Any], where: str, problem: str, hint: str
) -> None:
    question = parse_question(VERBS["plan"].question, {**ASKED, **other})
    with pytest.raises(InputError) as refused:
        VERBS["plan"].answer(question, Watcher())
    assert refused.value.where == where
    assert problem in refused.value.problem
    assert hint in str(refused.value.hint)
