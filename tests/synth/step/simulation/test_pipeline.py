"""A step in stages: places of the program, the pipeline's laws, and a replay written apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar.tensors.operations import Operation
from hierarchies import InputError
from synth.compute import flops_of
from synth.step.schedules import (
    Action,
    Pass,
    PipelineSchedule,
    TransferProtocol,
    gpipe,
    interleaved,
    one_f_one_b,
)
from synth.step.sharding import (
    Plan,
    StepPhase,
    StepProgram,
    apply,
    parse_recipe,
    plan_of,
    prepare_step,
)
from synth.step.sharding.program import EVERYWHERE
from synth.step.simulation import BufferKind, Overlap
from synth.step.simulation.device import DeviceTasks, StageSend, grouping_of, write_device
from synth.step.simulation.passes import Passes, PassKey
from synth.step.simulation.pipeline import PipelineTimeline, simulate_pipeline
from synth.step.simulation.simulation import simulate
from traced_steps import step

PLANS = (
    "pipe=2; schedule 1f1b, 4 microbatches",
    "data=2 pipe=2; batch over data; zero=1; schedule gpipe, 4 microbatches",
    (
        "pipe=2 tensor=2; weights over tensor as Megatron; schedule interleaved-1f1b, 2 chunks,"
        " 4 microbatches"
    ),
    "data=2; batch over data; 4 microbatches",
)


def computing(operation: Operation) -> float:
    return 1e-6 + flops_of(operation) * 1e-9


@cache
def planned(text: str, layers: int = 4) -> tuple[Plan, StepProgram]:
    one = step("gpt2-tiny", (("layers", layers),), batch=8)
    plan = plan_of(one, parse_recipe(text))
    return plan, apply(one, plan)


@cache
def written(
    text: str,
    layers: int = 4,
    *,
    whole: bool = True,
    sends: bool = False,
    prefetch: int | None = None,
) -> DeviceTasks:
    plan, program = planned(text, layers)
    ready = prepare_step(step("gpt2-tiny", (("layers", layers),), batch=8), plan)
    how = Overlap(sends, prefetch)
    return write_device(
        ready,
        plan,
        program,
        lambda section: sum(map(computing, section.operations)),
        lambda *how: 3e-6,
        how,
        grouping_of(plan, how, whole=whole),
    )


def run(
    text: str,
    order: PipelineSchedule | None = None,
    handing: Callable[[int, int, int], float] = lambda *how: 0.0,
    protocol: TransferProtocol = TransferProtocol.EAGER,
    **how: Any,
) -> PipelineTimeline:
    plan, _ = planned(text)
    found = written(text, **how)
    prompt = how.get("sends", False)
    return simulate_pipeline(
        found, order or plan.order, plan.microbatches, handing, protocol, prompt=prompt
    )


@pytest.mark.parametrize("text", PLANS)
def test_tasks_are_where_the_program_has_them(text: str) -> None:
    """Nothing is lost or done twice: as often in each place as the program says."""
    _, program = planned(text)
    found = written(text, whole=False)
    assert {one.place for one in found.tasks if not one.name.startswith("receive")} <= set(
        program.places
    )
    passes = Passes(found)
    keys = [key for stage in passes.stages for key in _keys(passes, stage)]
    counted = [number for key in keys for number in passes.tasks([key])]
    everywhere = sum(one.place.stage == EVERYWHERE for one in found.tasks)
    assert len(counted) == len(found.tasks) + (len(passes.stages) - 1) * everywhere
    assert set(counted) == set(range(len(found.tasks)))


def _keys(passes: Passes, stage: int) -> list[PassKey]:
    once = [key for when in (StepPhase.BEFORE, StepPhase.AFTER) for key in passes.once(stage, when)]
    return [*once, *(PassKey(stage, when) for when in (StepPhase.FORWARD, StepPhase.BACKWARD))]


@pytest.mark.parametrize("text", PLANS)
def test_every_pass_has_the_times_that_it_has_alone(text: str) -> None:
    """Passes with the same work are timed once."""
    found = run(text)
    for keys, timed in found.alone.items():
        alone = simulate(found.passes.part(keys))
        assert (timed.begins, timed.ends) == (alone.begins, alone.ends)
        assert timed.device == alone.device


@pytest.mark.parametrize("text", PLANS)
def test_each_rank_s_time_is_computing_waiting_and_idling(text: str) -> None:
    found = run(text, handing=lambda size, *ends: 1e-6 + size * 1e-12)
    for rank, idle in enumerate(found.idle_shares):
        exposed = sum(one.exposed_seconds for one in found.sent(rank))
        together = found.compute_seconds(rank) + exposed + idle * found.seconds
        assert together == pytest.approx(found.seconds)
    busy = max(1 - share for share in found.idle_shares) * found.seconds
    everything = sum(one.end_seconds - one.begin_seconds for row in found.ranks for one in row)
    assert busy <= found.seconds <= everything + found.handed_seconds * 4 + 1e-12


def replay(found: PipelineTimeline, seconds: Callable[[int, int, int], float]) -> float:
    """Written apart: ranks take turns until nobody can go on; all is looked up by name."""
    handed = found.passes.device.handed
    ends: dict[str, float] = {}
    clock = [0.0] * len(found.ranks)
    left = [list(row) for row in found.ranks]
    rank_of = {key.stage: r for r, row in enumerate(found.ranks) for one in row for key in one.keys}
    whens = {Pass.FORWARD: StepPhase.FORWARD, Pass.BACKWARD: StepPhase.BACKWARD}
    last = found.order.stages - 1
    while any(left):
        went = False
        for rank, queue in enumerate(left):
            if not queue:
                continue
            one = queue[0]
            needed = []
            if one.action is not None:
                stage, kind, micro = one.action.stage, one.action.kind, one.action.microbatch
                up = kind is Pass.FORWARD
                other = stage - 1 if up else stage + 1
                if not up:
                    needed.append((f"{stage}F{micro}", 0.0))
                if (up and stage > 0) or (not up and stage < last):
                    size = handed.get(StageSend(other, stage, whens[kind], 0), 0)
                    same = rank_of[other] == rank
                    wait = 0.0 if same or not size else seconds(size, other, stage)
                    needed.append((f"{other}{kind.value}{micro}", wait))
            needed += [
                (str(PassKey(link.source, link.when, link.turn)), seconds(size, *_ends(link)))
                for link, size in handed.items()
                if PassKey(link.target, link.when, link.turn + 1) in one.keys
            ]
            if all(name in ends for name, _ in needed):
                begin = max([clock[rank], *(ends[name] + wait for name, wait in needed)])
                clock[rank] = begin + found.alone[one.keys].seconds
                ends[str(one.action)] = clock[rank]
                ends |= {str(key): clock[rank] for key in one.keys}
                queue.pop(0)
                went = True
        assert went
    return max(clock)


def _ends(link: StageSend) -> tuple[int, int]:
    return link.source, link.target


@pytest.mark.parametrize("text", PLANS)
def test_a_step_takes_what_a_replay_takes(text: str) -> None:
    def handing(size: int, source: int, target: int) -> float:
        return 1e-6 * (1 + source + 2 * target) + size * 1e-11

    found = run(text, handing=handing)
    assert found.seconds == pytest.approx(replay(found, handing), rel=1e-12)


@pytest.mark.parametrize("text", PLANS)
def test_groups_take_what_operations_do_one_by_one(text: str) -> None:
    """As flat, where nothing is sent beside compute; but for constants, made on the way."""
    whole, flat = run(text), run(text, whole=False)
    left_out = sum(one.seconds for one in written(text, whole=False).tasks) - sum(
        one.seconds for one in written(text).tasks
    )
    assert whole.seconds <= flat.seconds
    assert flat.seconds - whole.seconds <= left_out * 4 + 1e-12
    assert len(written(text).tasks) < 0.6 * len(written(text, whole=False).tasks)


@pytest.mark.parametrize("microbatches", [2, 4, 8])
@pytest.mark.parametrize(
    ("make", "held"),
    [
        (one_f_one_b, lambda ranks, rank, m: min(ranks - rank, m)),
        (gpipe, lambda ranks, rank, m: m),
    ],
    ids=["1f1b", "gpipe"],
)
def test_activations_that_ranks_hold(
    make: Callable[[int, int], PipelineSchedule],
    held: Callable[[int, int, int], int],
    microbatches: int,
) -> None:
    """1F1B: of min(S - s, m) microbatches; GPipe: of all (design of the step, section 7)."""
    text = f"pipe=2; schedule 1f1b, {microbatches} microbatches"
    found = run(text, make(2, microbatches))
    for rank in range(2):
        kept = [
            (begin, end, size)
            for _, begin, end, size, name in found.held(rank)
            if name.startswith("kept")
        ]
        each = sum(one.size_bytes for _, one in found.passes.saved(rank))
        moments = {begin for begin, _, _ in kept}
        most = max(sum(size for b, e, size in kept if b <= at < e) for at in moments)
        assert most == held(2, rank, microbatches) * each > 0


@pytest.mark.parametrize("text", PLANS[:3])
def test_state_is_placed_according_to_the_program(text: str) -> None:
    """Every parameter and moment on one stage; a tied embedding as a copy where it is read, too."""
    one = step("gpt2-tiny", (("layers", 4),), batch=8)
    plan, program = planned(text)
    ready, passes = prepare_step(one, plan), Passes(written(text))
    kinds = {"parameter": BufferKind.PARAMETERS, "moment": BufferKind.MOMENTS}
    for role, kind in kinds.items():
        whole = sum(
            buffer.size_bytes
            for buffer, of in zip(passes.device.buffers, ready.roles, strict=False)
            if of == role
        )
        own = [
            sum(size for k, size, _ in passes.state([stage]) if k is kind)
            for stage in passes.stages
        ]
        assert sum(own) == whole > 0
        assert all(own)
    assert program.homes


def test_gradients_are_reduced_during_the_last_backward_pass() -> None:
    """Never slower than after it, and never faster than computing alone."""
    text = PLANS[1]
    beside, after = run(text, sends=True), run(text)
    assert beside.seconds <= after.seconds * (1 + 1e-9)
    assert beside.seconds >= max(map(beside.compute_seconds, range(2)))
    assert any(" and update" in one.name for row in beside.ranks for one in row)


def test_rendezvous_is_never_faster_than_eager() -> None:
    handing = lambda size, *ends: 2e-5  # noqa: E731
    for order in (gpipe(2, 4), one_f_one_b(2, 4)):
        eager, met = (
            run(PLANS[0], order, handing, how)
            for how in (TransferProtocol.EAGER, TransferProtocol.RENDEZVOUS)
        )
        assert eager.seconds <= met.seconds


def test_an_order_that_deadlocks_with_waiting_senders_is_shown() -> None:
    with pytest.raises(InputError, match=r"blocking transfers deadlock: .* waits for "):
        run(PLANS[0], one_f_one_b(2, 4), protocol=TransferProtocol.BLOCKING)


def test_more_microbatches_leave_less_idle() -> None:
    idle = [run(f"pipe=2; schedule 1f1b, {m} microbatches").idle_shares[1] for m in (2, 4, 8)]
    assert idle == sorted(idle, reverse=True)


def test_chunks_leave_less_idle_than_none() -> None:
    plain, chunked = (
        run(text).idle_shares
        for text in (
            "pipe=2; schedule 1f1b, 4 microbatches",
            "pipe=2; schedule interleaved-1f1b, 2 chunks, 4 microbatches",
        )
    )
    assert min(chunked) < min(plain)
    assert interleaved(2, 4, 2).stages == 4


def test_halves_of_a_backward_pass_are_refused() -> None:
    halves = PipelineSchedule(
        tuple(
            tuple(
                Action(stage, kind, m)
                for m in range(4)
                for kind in (Pass.FORWARD, Pass.INPUT, Pass.WEIGHT)
            )
            for stage in range(1)
        )
    )
    with pytest.raises(InputError, match="0I0: the program has no halves of backward passes"):
        run(PLANS[3], halves)


def test_one_device_alone_is_the_sum_of_its_passes() -> None:
    """Four microbatches on one stage: what is done once, and four times the two passes."""
    found = run(PLANS[3])
    passes = found.passes
    each = {when: simulate(passes.part([PassKey(0, when)])).seconds for when in StepPhase}
    once = each[StepPhase.BEFORE] + each[StepPhase.AFTER]
    both = each[StepPhase.FORWARD] + each[StepPhase.BACKWARD]
    assert found.seconds == pytest.approx(once + 4 * both)
    assert found.idle_shares == pytest.approx((0.0,))


def test_parameters_are_gathered_ahead_on_every_stage() -> None:
    """Each stage has its own order of what it sends: those of two make a circle."""
    text = "data=2 pipe=2; batch over data; zero=3; schedule 1f1b, 4 microbatches"
    apart, beside = run(text), run(text, sends=True, prefetch=1)
    assert 0 < beside.seconds < apart.seconds


def test_what_a_forward_pass_keeps_is_put_together_layer_by_layer() -> None:
    """All-gathers of activations go back as they went forward, not all at the begin."""
    text = "tensor=2; weights over tensor as Megatron; tokens over tensor; 4 microbatches"
    most = []
    for layers in (4, 8):
        plan, found = planned(text, layers)[0], written(text, layers, sends=True)
        run = simulate_pipeline(found, plan.order, plan.microbatches, lambda *how: 0.0, prompt=True)
        [key] = [keys for keys in run.alone if [one.when for one in keys] == [StepPhase.BACKWARD]]
        most.append(run.alone[key].lives.largest()[1])
    assert most[0] == most[1]
