"""Sharded steps in stages: each line is where it can be done, and stages are together the whole."""

from __future__ import annotations

import re
from functools import cache

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar.tensors.operations import SEND, ShardedStep
from grammar.tensors.parser import parse_sharded
from hierarchies import InputError
from synth.step.sharded_step import (
    check,
    list_shares,
    list_step_requests,
    list_transfers,
    split_stages,
    unshard,
    write_sharded_step,
)
from synth.step.sharding import apply, parse_recipe, plan_of, prepare_step
from synth.step.work import work_of
from traced_steps import step

MLP = ("mlp-tiny", (("layers", 6),))
GPT = ("gpt2-tiny", (("layers", 4),))
STAGES = "data=2 pipe=2; batch over data; schedule 1f1b, 2 microbatches"


@cache
def sharded(model=MLP, recipe: str = STAGES) -> ShardedStep:
    one = step(*model, batch=4)
    plan = plan_of(one, parse_recipe(recipe))
    return write_sharded_step(prepare_step(one, plan), plan, apply(one, plan))


@pytest.mark.parametrize(
    ("model", "recipe"),
    [
        (MLP, STAGES),
        (MLP, "data=2; batch over data; zero=2; 2 microbatches"),
        pytest.param(
            GPT,
            "data=1 tensor=2 pipe=2; weights over tensor as Megatron;"
            " schedule interleaved-1f1b, 2 chunks, 2 microbatches; remat layers",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_text_is_read_again_and_every_line_can_be_done(model, recipe: str) -> None:
    one = sharded(model, recipe)
    assert parse_sharded(str(one)) == one
    check(one)
    places = [line for line in str(one).splitlines() if re.match(r"stage|everywhere", line)]
    assert len(places) <= 4 * len(split_stages(one)) + 4
    plan = plan_of(step(*model, batch=4), parse_recipe(recipe))
    whole = prepare_step(step(*model, batch=4), plan).graph.operations
    made = {str(done.results[0]) for done in unshard(one).graph.operations}
    assert made == {str(done.results[0]) for done in whole}


def test_stages_are_together_the_whole() -> None:
    """Each parameter is on one stage; a pass is done for each microbatch, by each part of data."""
    one = sharded()
    held = [stage.held for stage in list_shares(one)]
    roles = zip(one.step.graph.inputs, one.step.roles, strict=True)
    parameters = sum(value.type.bytes for value, role in roles if role == "parameter")
    assert sum(stage.parameter for stage in held) == parameters
    assert sum(stage.gradient for stage in held) == parameters
    products = {"dot_general"}
    whole = sum(w.flops for w in work_of(unshard(one)) if w.primitive in products)
    assert whole < 2 * sum(stage.flops for stage in list_shares(one)) < 4 * whole


def test_requests_count_once_for_each_microbatch_and_sums_over_them_send_nothing() -> None:
    one = sharded()
    assert {axis for request in list_step_requests(one) for axis in request.axes} == {"data"}
    sent = [(t.source, t.target, t.when, t.times) for t in list_transfers(one)]
    assert sent == [(0, 1, "forward", 2), (1, 0, "backward", 2)]


DAMAGED = {
    "another stage": (r"stage 1 forward", "stage 0 forward", "does not have"),
    "nothing sent": (r"v15\.0\.1(?=, layers)", "v15.0", "stage 1 does not have v15.0"),
    "sent nowhere": (r"(v71\.1\.1: \S+ = send\(v71\.1\) to=)0", r"\g<1>1", "sends to stage 1"),
    "sent up in the backward pass": (
        r"(= send\(v15\.0\)) to=1",
        r"\1 to=0",
        "activations go to the next",
    ),
    "not summed up": (
        r"(v\d+\.1: \S+ = redistribute\(v\d+\) by=all-reduce over=)\(microbatch\)",
        r"\1(data)",
        "all-reduce over data does not turn",
    ),
    "a pass that is done once": (
        "stage 0 backward",
        "stage 0 after",
        "belongs to single microbatches and is read stage 0 after",
    ),
    "once a pass": ("stage 0 before", "stage 0 after", "made after and read"),
    "gathered in time": (
        r"by=all-reduce over=\(microbatch\)",
        "by=all-gather over=(microbatch)",
        "joins",
    ),
    "no stages": (r"(?m)^(stage|everywhere) .*\n", "", "axis microbatch without stages"),
    "a stage too late": (
        r"(?s)^(.*?)everywhere before\n",
        r"\1",
        "it follows operations without a stage",
    ),
    "no time": (r"microbatch=2 ", "", "no axis"),
}


@pytest.mark.parametrize(("pattern", "rest", "problem"), DAMAGED.values(), ids=DAMAGED)
def test_a_line_that_cannot_be_done_is_refused(pattern: str, rest: str, problem: str) -> None:
    text, count = re.subn(pattern, rest, str(sharded()), count=0 if "?m" in pattern else 1)
    assert count
    with pytest.raises(InputError) as refused:
        check(parse_sharded(text))
    assert problem in str(refused.value)


def test_no_send_may_be_left_out() -> None:
    one = sharded()
    lines = str(one).splitlines()
    for number, line in enumerate(lines):
        if f"= {SEND}(" in line:
            with pytest.raises(InputError, match="no value"):
                parse_sharded("\n".join(lines[:number] + lines[number + 1 :]))
