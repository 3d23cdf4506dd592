"""Stages: layers apart compute what they did, and every stage has what an order lets it do."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import islice

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar.tensors.operations import Step
from grammar.tensors.parser import parse_step
from hierarchies import InputError
from ordered_steps import MissingError, judge_order
from sharded_steps import drawn_inputs, in_float64, judge, on_one_device, run_whole
from synth.step.schedules import HALVES as HALVED
from synth.step.schedules import SCHEDULES, parse_schedule
from synth.step.sharding import (
    InstructionPlace,
    LocalOperation,
    Plan,
    SentValue,
    StepPhase,
    apply,
    parse_recipe,
    plan_of,
    prepare_step,
)
from synth.step.sharding.layers.apart import split_layers
from synth.step.sharding.layers.halved import split_backward
from synth.step.sharding.layers.remat import rematerialise
from synth.step.sharding.plan import scan_operands_of
from traced_steps import step, two_weights

FOUR = (("layers", 4),)
FIVE = (("layers", 5),)
SIX = (("layers", 6),)


@pytest.mark.parametrize(
    ("model", "changes", "layers"),
    [
        ("mlp-tiny", SIX, ()),
        ("gpt2-tiny", FOUR, ()),
        ("lstm-tiny", FOUR, ()),
        ("mlp-tiny", SIX, (3, 1)),
        ("gpt2-tiny", FOUR, (1, 3)),
        ("lstm-tiny", FOUR, (2, 1, 1)),
    ],
)
def test_layers_apart_compute_what_they_did_together(model: str, changes, layers) -> None:
    whole = in_float64(step(model, changes))
    pieces, stage_of = split_layers(whole, len(layers) or 2, layers)
    assert parse_step(str(pieces)) == pieces
    assert set(stage_of.values()) == set(range(len(layers) or 2))
    places = np.cumsum(layers)[:-1] if layers else 2
    inputs = []
    for value, array in zip(whole.graph.inputs, drawn_inputs(whole), strict=True):
        inputs += np.split(array, places) if f"{value.name}.0" in stage_of else [array]
    one, other = run_whole(whole.graph, drawn_inputs(whole)), run_whole(pieces.graph, inputs)
    made = iter([other.of(output) for output in pieces.graph.outputs])
    for output in whole.graph.outputs:
        wanted, found = one.of(output), next(made)
        while found.shape != wanted.shape:
            found = np.concatenate((found, next(made)))
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    assert not list(made)


INTERLEAVED = "data=1 pipe=2; schedule interleaved-1f1b, 2 chunks, 4 microbatches"
BREADTH = "data=1 pipe=2; schedule looped-bfs, 2 chunks, 2 microbatches; remat layers"
PIPELINES = (
    ("gpt2-tiny", FOUR, "data=1 pipe=4; schedule gpipe, 4 microbatches"),
    ("llama3-tiny", FOUR, INTERLEAVED),
    ("lstm-tiny", FOUR, BREADTH),
    (
        "gpt2-tiny",
        FIVE,
        "data=1 pipe=4; schedule 1f1b, 4 microbatches; stages of 1, 2, 1, 1 layers",
    ),
    ("llama3-tiny", FIVE, f"{INTERLEAVED}; stages of 3 times 1, 2 layers"),
    ("lstm-tiny", FIVE, f"{BREADTH}; stages of 2, 3 times 1 layers"),
)
TIED = ("gpt2-tiny",)
"""The table of tokens is the last matrix, too: its gradients are made on two stages."""


def sends(one: Step, text: str) -> list[tuple[StepPhase, int, int]]:
    """What is sent: when, from which stage, and to which; every stage has what it reads."""
    plan = plan_of(one, parse_recipe(text))
    program = apply(one, plan)
    judge_order(prepare_step(one, plan), plan, program)
    both = zip(program.instructions, program.places, strict=True)
    return [(p.when, i.source, i.target) for i, p in both if isinstance(i, SentValue)]


@pytest.mark.parametrize("unrolled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("model", "changes", "text"), PIPELINES)
def test_between_two_stages_go_one_activation_and_one_gradient(
    model: str, changes, text: str, unrolled: bool
) -> None:
    one = step(model, changes, unrolled=unrolled)
    found = sends(one, text.replace("; remat layers", "" if unrolled else "; remat layers"))
    last = max(target for _, _, target in found)
    up = [(StepPhase.FORWARD, at, at + 1) for at in range(last)]
    down = [(StepPhase.BACKWARD, at + 1, at) for at in range(last)]
    once = [(StepPhase.BEFORE, 0, last), (StepPhase.AFTER, last, 0)] if model in TIED else []
    assert Counter(found) == Counter([*up, *down, *once])
    assert last == 3


@pytest.mark.slow
def test_layers_one_by_one_are_on_stages_by_their_labels() -> None:
    one = step("gpt2-tiny", FOUR, unrolled=True)
    plan = plan_of(one, parse_recipe("data=1 pipe=2; schedule 1f1b, 2 microbatches"))
    program = apply(one, plan)
    judge_order(one, plan, program)
    homes = dict(zip(one.labels, program.homes, strict=True))
    weights = {label: home for label, home in homes.items() if label.endswith("attention/query")}
    assert {home for label, home in weights.items() if "layers/0" in label} == {0}
    assert {home for label, home in weights.items() if "layers/3" in label} == {1}


ZERO = "batch over data; zero=2"
WHOLE = (
    "data=1 pipe=2; schedule 1f1b, 2 microbatches",
    f"data=2 pipe=2; {ZERO}; schedule gpipe, 2 microbatches; buckets of 1 MB",
    f"data=2 pipe=3; {ZERO}; schedule gpipe, 2 microbatches; stages of 1, 2, 1 layers",
)


@pytest.mark.parametrize("text", WHOLE)
def test_pipelines_compute_what_one_device_does(text: str) -> None:
    one = in_float64(step("mlp-tiny", SIX, batch=4))
    plan = plan_of(one, parse_recipe(text))
    ready, program = prepare_step(one, plan), apply(one, plan)
    judge_order(ready, plan, program)
    judge(ready, program, plan.parts, on_one_device(ready))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gpt2-tiny", "llama3-tiny"])
@pytest.mark.parametrize("more", ["", "stages of 3, 1 layers; "])
def test_all_at_once_computes_what_one_device_does(model: str, more: str) -> None:
    text = (
        "data=2 tensor=2 pipe=2; batch over data; tokens over tensor; vocabulary over tensor;"
        " weights over tensor as Megatron; zero=1; schedule 1f1b, 2 microbatches;"
        f" {more}remat layers"
    )
    one = in_float64(step(model, FOUR))
    plan = plan_of(one, parse_recipe(text))
    ready, program = prepare_step(one, plan), apply(one, plan)
    judge_order(ready, plan, program)
    judge(ready, program, plan.parts, on_one_device(ready))


@cache
def two_stages() -> Plan:
    return plan_of(
        step("gpt2-tiny", FOUR), parse_recipe("data=1 pipe=2; schedule 1f1b, 2 microbatches")
    )


def test_every_damaged_placing_is_caught() -> None:
    one, plan = step("gpt2-tiny", FOUR), two_stages()
    program, ready = apply(one, plan), prepare_step(one, plan)
    judge_order(ready, plan, program)
    both = list(zip(program.instructions, program.places, strict=True))
    sends = [at for at, (one, _) in enumerate(both) if isinstance(one, SentValue)]
    done = [
        at
        for at, (one, place) in enumerate(both)
        if isinstance(one, LocalOperation) and place.stage >= 0
    ]
    mutants = [both[:at] + both[at + 1 :] for at in sends]
    for at in islice(done, 0, None, max(1, len(done) // 40)):
        instruction, place = both[at]
        elsewhere = InstructionPlace(1 - place.stage, place.when)
        mutants.append([*both[:at], (instruction, elsewhere), *both[at + 1 :]])
    assert len(mutants) >= 40
    for mutant in mutants:
        instructions, places = zip(*mutant, strict=True)
        damaged = replace(program, instructions=instructions, places=places)
        with pytest.raises(MissingError):
            judge_order(ready, plan, damaged)


@pytest.mark.parametrize(
    "order", ["0F0 0F1 0B0 0B1\n1F0 1F1 1B0 1B1", "0F1 0F0 0B0 0B1\n1F1 1F0 1B0 1B1"]
)
def test_any_order_that_is_valid_has_what_it_reads(order: str) -> None:
    one, plan = step("gpt2-tiny", FOUR), replace(two_stages(), order=parse_schedule(order))
    judge_order(prepare_step(one, plan), plan, apply(one, plan))


HALVES = "data=1 pipe=2; schedule zero-bubble-h1, 2 microbatches"


@pytest.mark.parametrize("order", [None, "0F0 0F1 0B0 0I1 0W1\n1F0 1I0 1F1 1B1 1W0"])
def test_of_layers_one_by_one_backward_passes_go_in_halves(order: str | None) -> None:
    """Also where some go in one. What makes a gradient of a weight is in the half for weights."""
    one = step("mlp-tiny", SIX, unrolled=True, batch=4)
    plan = plan_of(one, parse_recipe(HALVES))
    plan = replace(plan, order=parse_schedule(order)) if order else plan
    program = apply(one, plan)
    judge_order(prepare_step(one, plan), plan, program)
    both = list(zip(program.instructions, program.places, strict=True))
    of = {
        (place.stage, place.when): [
            i.operation.results[0].type.shape
            for i, where in both
            if where == place
            and isinstance(i, LocalOperation)
            and i.operation.primitive == "dot_general"
        ]
        for _, place in both
    }
    assert (32, 32) in of[1, StepPhase.WEIGHT]
    assert not {(32, 32), (32, 8), (8, 32)} & set(of[1, StepPhase.BACKWARD])
    assert {(4, 32)} == set(of[1, StepPhase.BACKWARD])
    waiting = [
        at for at, (_, place) in enumerate(both) if place == InstructionPlace(1, StepPhase.BACKWARD)
    ]
    early = [at for at in waiting if isinstance(both[at][0], LocalOperation)]
    for at in early:
        places = list(program.places)
        places[at] = InstructionPlace(1, StepPhase.WEIGHT)
        with pytest.raises(MissingError):
            judge_order(prepare_step(one, plan), plan, replace(program, places=tuple(places)))


@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if name in HALVED])
@pytest.mark.parametrize(("model", "layers"), [("mlp-tiny", 6), ("gpt2-tiny", 4)])
def test_layers_in_a_loop_go_back_in_two(model: str, layers: int, schedule: str) -> None:
    """The first makes what other stages wait for, the second gradients of weights alone.

    Of an MLP's layers the first and the last are outside of its loop.
    """
    one = step(model, (("layers", layers),), batch=4)
    for remat in ("", "; remat layers"):
        plan = plan_of(one, parse_recipe(f"pipe=2; schedule {schedule}, 4 microbatches{remat}"))
        program, ready = apply(one, plan), prepare_step(one, plan)
        judge_order(ready, plan, program)
        both = zip(program.instructions, program.places, strict=True)
        late = {
            (
                place.stage,
                scan_operands_of(loop.operation.parameter).carried > 0,
            ): loop.operation.body
            for loop, place in both
            if isinstance(loop, LocalOperation)
            and loop.operation.body
            and place.when is StepPhase.WEIGHT
        }
        assert plan.order is not None
        stages = range(plan.order.stages)  # for what the first carries nobody waits
        assert {*late} == {(0, True), *((stage, False) for stage in stages)}
        for stage in stages:
            body = late[stage, False]
            assert body is not None
            assert any(one.primitive == "dot_general" for one in body.operations)


@pytest.mark.parametrize("name", ["mlp-tiny", "gpt2-tiny", "vit-tiny"])
def test_what_goes_back_in_two_loops_computes_the_same(name: str) -> None:
    one = in_float64(step(name, FOUR))
    for whole in (one, rematerialise(one)):
        pieces = split_backward(whole)
        assert parse_step(str(pieces)) == pieces
        counts = [sum(one.body is not None for one in s.graph.operations) for s in (whole, pieces)]
        assert counts[1] == counts[0] + 1
        wanted, found = (run_whole(each.graph, drawn_inputs(one)) for each in (whole, pieces))
        for output, other in zip(whole.graph.outputs, pieces.graph.outputs, strict=True):
            np.testing.assert_allclose(found.of(other), wanted.of(output), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("model", "text", "problem"),
    [
        ("gpt2-tiny", "data=1 pipe=4; schedule 1f1b, 2 microbatches", "4 stages of the 2 layers"),
        (
            "gpt2-tiny",
            "data=1 pipe=2; schedule 1f1b, 2 microbatches; stages of 2, 1 layers",
            "3 in all, and gpt2-tiny has 2",
        ),
        ("resnet-tiny", "data=1 pipe=2; schedule 1f1b, 2 microbatches", "layers"),
        (
            "gpt2-tiny",
            "data=1 pipe=2; schedule 1f1b, 2 microbatches; stages of 0, 2 layers",
            "stages of 0, 2 layers: a stage without layers",
        ),
        (
            "gpt2-tiny",
            "data=1 pipe=2; schedule 1f1b, 2 microbatches; stages of 3 times 1 layers",
            "layers of 3 stages, and there are 2",
        ),
        (
            "resnet-tiny",
            "data=1 pipe=2; schedule 1f1b, 2 microbatches; stages of 1, 1 layers",
            "2 stages of the 1 layers of resnet-tiny",
        ),
    ],
)
def test_layers_that_do_not_divide_are_refused(model: str, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        plan_of(step(model), parse_recipe(text))


def test_a_count_that_does_not_divide_is_refused_with_one_that_would_do() -> None:
    text = "data=1 pipe=2; schedule 1f1b, 2 microbatches"
    with pytest.raises(InputError, match="2 stages do not divide the 5 layers") as refused:
        plan_of(step("gpt2-tiny", FIVE), parse_recipe(text))
    said = refused.value.hint.rpartition(": ")[2]
    assert said == "stages of 3, 2 layers"
    assert plan_of(step("gpt2-tiny", FIVE), parse_recipe(f"{text}; {said}")).layers == (3, 2)


def test_a_stage_without_operations_is_refused() -> None:
    one, plan = step("gpt2-tiny", FOUR), two_stages()
    with pytest.raises(InputError, match="stage 1 has no operations"):
        apply(one, replace(plan, stages=(0,) * len(plan.stages)))


def test_stages_the_wrong_way_round_are_refused() -> None:
    one, plan = step("gpt2-tiny", FOUR), two_stages()
    turned = tuple(1 - stage if stage >= 0 else stage for stage in plan.stages)
    with pytest.raises(InputError, match="activations go to the next stage"):
        apply(one, replace(plan, stages=turned))


def test_parts_of_activations_read_only_backward_are_sent_with_them() -> None:
    """The second stage reads ``a`` in parts on the way forward, and whole on the way back."""
    one = in_float64(two_weights("mul"))
    text = "data=2 pipe=2; batch over data; schedule 1f1b, 2 microbatches"
    plan = plan_of(one, parse_recipe(text))
    rows = list(plan.cuts.operations)
    rows[2] = tuple(pair for pair in rows[2] if pair[0] != "data")
    other = replace(plan, cuts=replace(plan.cuts, operations=tuple(rows)))
    program = apply(one, other)
    both = zip(program.instructions, program.places, strict=True)
    assert [
        (i.target, p.when) for i, p in both if isinstance(i, SentValue) and i.value.name == "a"
    ] == [
        (1, StepPhase.FORWARD),
        (1, StepPhase.FORWARD),
    ]
    judge_order(one, other, program)
    judge(one, program, other.parts, on_one_device(one))
