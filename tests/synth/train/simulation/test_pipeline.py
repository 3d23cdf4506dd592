"""A step in stages: nothing is lost or done twice, and the pipeline's laws hold on the clock."""

from __future__ import annotations

from functools import cache

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar.tensors.operations import Operation
from hierarchies import InputError
from synth.compute import flops_of
from synth.train.orders import (
    Order,
    Pass,
    Transfers,
    gpipe,
    interleaved,
    one_f_one_b,
    timeline,
    zero_bubble_h1,
)
from synth.train.plans import apply, parse_recipe, plan_of
from synth.train.simulation import Device, Kind, device, pipelined, simulate
from synth.train.simulation.stages import Phase, Stages
from traced_steps import step

LAYERS = 4
PLANS = (
    "data=2; batch over data",
    "data=2; batch over data; zero=3",
    "data=2 tensor=2; batch over data; weights over tensor as Megatron; zero=1",
)
ORDERS = (one_f_one_b(2, 4), gpipe(4, 2), interleaved(2, 4, 2), one_f_one_b(1, 3))


def computing(operation: Operation) -> float:
    return 1e-6 + flops_of(operation) * 1e-9


@cache
def written(text: str, layers: int = LAYERS) -> Device:
    one = step("gpt2-tiny", (("layers", layers),))
    plan = plan_of(one, parse_recipe(text))
    return device(one, plan, apply(one, plan), computing, lambda *how: 3e-6)


@pytest.mark.parametrize("text", PLANS)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_every_task_is_done_by_the_stages_together(text: str, count: int) -> None:
    """Whole, or in shares that add up to it; a pass reads its own stage's, or its neighbours'.

    But for the gradient of the embedding, which the first stage and the last make.
    """
    found = Stages(written(text), count)
    phases, shares = found.phases, found.shares
    for task, phase, some in zip(found.device.tasks, phases, shares, strict=True):
        assert sum(some.values()) == pytest.approx(1) or set(some.values()) == {1.0}
        assert set(some) <= set(range(count))
        for stage in some if phase is not Phase.UPDATE else ():
            for one in task.before:
                near = {stage, stage - 1 if phases[one] is Phase.FORWARD else stage + 1}
                assert phases[one] is not Phase.UPDATE
                assert near & set(shares[one]) or task.name.startswith("add_any")
        if phase is Phase.UPDATE and task.layer >= 0:
            assert all(shares[one] == some for one in task.before)
    made = {one.maker: one.size_bytes for one in found.device.buffers}
    each = [number for number, some in enumerate(shares) if len(some) > 1 and 1.0 in some.values()]
    scalars = [number for number in each if phases[number] is Phase.UPDATE]
    assert all(made[number] <= 8 for number in scalars)
    assert bool(scalars) is (count > 1)


@pytest.mark.parametrize("text", PLANS)
def test_one_stage_and_microbatch_take_what_the_step_takes(text: str) -> None:
    alone = simulate(written(text))
    found = pipelined(written(text), one_f_one_b(1, 1))
    assert found.seconds == pytest.approx(alone.seconds)
    assert found.idle_shares[0] == pytest.approx(0)


@pytest.mark.parametrize("text", PLANS)
@pytest.mark.parametrize("order", ORDERS, ids=["1f1b", "gpipe", "interleaved", "alone"])
def test_passes_are_where_the_clock_of_orders_has_them(text: str, order: Order) -> None:
    """With each stage's seconds in place of equal ones; the update follows on each rank."""
    transfers = Transfers(1e-5)
    found = pipelined(written(text), order, transfers)
    phases = {Pass.FORWARD: Phase.FORWARD, Pass.BACKWARD: Phase.BACKWARD}
    expected = timeline(
        order, lambda one: found.stages.block(one.stage, phases[one.kind]).alone, transfers
    )
    for spans, others in zip(found.ranks, expected.ranks, strict=True):
        passes = [one for one in spans if one.action is not None]
        assert [one.action for one in passes] == [one.action for one in others]
        assert [one.end_seconds for one in passes] == [one.end_seconds for one in others]
        updates = [one for one in spans if one.action is None]
        assert updates[0].begin_seconds == passes[-1].end_seconds
        assert len(updates) == order.stages // len(order.ranks)
    assert len(list(found.rows())) == len(order.actions) + order.stages


@pytest.mark.parametrize("text", PLANS)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_state_is_dealt_out(text: str, count: int) -> None:
    """Every stage has its layers' parameters and moments; the first and last the tied embedding."""
    found = Stages(written(text), count)
    whole = [one for one in found.device.buffers if one.maker < 0]
    held = [dict[Kind, int]() for _ in range(count)]
    for stage, kinds in enumerate(held):
        for kind, size in found.state(stage):
            kinds[kind] = kinds.get(kind, 0) + size
    embedding = next(one.size_bytes for one in whole if one.name == "embedding")
    twice = embedding if count > 1 else 0
    for kind, more in ((Kind.PARAMETERS, twice), (Kind.MOMENTS, 0)):
        together = sum(one.size_bytes for one in whole if one.kind is kind)
        assert sum(one[kind] for one in held) == together + more
    gradients = [found.gradients(stage) for stage in range(count)]
    assert sum(gradients) == Stages(found.device, 1).gradients(0)


@pytest.mark.parametrize("microbatches", [1, 2, 4, 8])
def test_activations_that_ranks_hold(microbatches: int) -> None:
    """1F1B: of min(S - s, m) microbatches; GPipe: of all."""
    text, count = PLANS[0], 4
    stages = Stages(written(text), count)
    for order, held in (
        (one_f_one_b(count, microbatches), lambda stage: min(count - stage, microbatches)),
        (gpipe(count, microbatches), lambda stage: microbatches),
    ):
        found = pipelined(written(text), order)
        for stage, moment in enumerate(found.largest_moments):
            kept = sum(stages.device.buffers[number].size_bytes for number in stages.saved(stage))
            kinds = dict(moment.by_kind)
            assert kinds[Kind.ACTIVATIONS] == held(stage) * kept
            assert kinds[Kind.GRADIENTS] == stages.gradients(stage)
            assert kinds[Kind.WORKING] == stages.working(stage, Phase.BACKWARD)
            assert moment.size_bytes == sum(size for _, size in moment.by_kind)


@pytest.mark.parametrize("text", PLANS)
def test_working_memory_is_what_a_pass_makes_and_does_not_keep(text: str) -> None:
    """Of one stage: as the whole step has it in memory when a task of the pass begins."""
    alone, stages = simulate(written(text)), Stages(written(text), 1)
    buffers, kept = stages.device.buffers, stages.saved(0)
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        made = {
            number
            for number, one in enumerate(buffers)
            if one.maker >= 0
            and stages.phases[one.maker] is phase
            and number not in kept
            and one.kind is not Kind.GRADIENTS
        }
        held = [
            sum(
                buffers[number].size_bytes
                for number in alone.lives.at(alone.begins[task])
                if number in made
            )
            for task in stages.tasks(0, phase)
        ]
        assert stages.working(0, phase) == max(held) > 0


def test_more_microbatches_leave_less_idle() -> None:
    idle = [pipelined(written(PLANS[0]), one_f_one_b(4, m)).idle_shares[1] for m in (2, 8, 32)]
    assert idle == sorted(idle, reverse=True)


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (one_f_one_b(3, 3), "4 layers in 3 stages; stages are alike: 1, 2, 4"),
        (
            zero_bubble_h1(2, 2),
            "0I0: nobody says which part of a backward pass it is; give an order of whole ones",
        ),
    ],
)
def test_what_makes_no_pipeline_is_refused(order: Order, said: str) -> None:
    with pytest.raises(InputError) as error:
        pipelined(written(PLANS[0]), order)
    assert str(error.value) == said


def test_a_step_without_layers_has_one_stage() -> None:
    one = step("gpt2-tiny", unrolled=True)
    plan = plan_of(one, parse_recipe("data=1"))
    found = device(one, plan, apply(one, plan), computing, lambda *how: 0.0)
    assert pipelined(found, one_f_one_b(1, 2)).seconds > 0
    with pytest.raises(InputError, match="2 stages of a step without a loop of layers"):
        pipelined(found, one_f_one_b(2, 2))
