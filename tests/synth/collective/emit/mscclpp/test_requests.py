"""MSCCL++ plans for all-gathers, reduce-scatters and all-to-alls: run on numpy, and proved."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhaustive import examples
from grammar import Goal
from hierarchies import Axis, Hierarchy, Level, Placement, Reduction, placements
from plan_oracle import outputs
from strategies import all_valid, source, spelled
from synth.collective.emit.mscclpp import plan as plans
from synth.collective.emit.mscclpp.blocks import ReadyWait
from synth.collective.emit.mscclpp.homes import NAMES
from synth.collective.emit.mscclpp.plan import check, write
from synth.collective.emit.mscclpp.proof import PlanFailure, prove
from synth.collective.emit.source import CannotExpressError, EmitOptions, EmitSource, RankOrder
from synth.collective.emit.targets import emit, runnable_targets
from synth.collective.semantics.programs import Language
from synth.collective.verify.replay import plain_result

IN_PIECES = (Goal.ALL_GATHER, Goal.REDUCE_SCATTER, Goal.ALL_TO_ALL)
INNER_FIRST = "{0} node inside; {0} node parallel"
OUTER_FIRST = "{0} node parallel; {0} node inside"
NAMES_OF_LEVELS = ("pod", "node", "gpu")


def machine(*sizes: int) -> Reduction:
    """One group that fills a machine."""
    names = NAMES_OF_LEVELS[-len(sizes) :]
    levels = zip(names, sizes, strict=True)
    hierarchy = Hierarchy(tuple(Level(name, size) for name, size in levels))
    axis = Axis("all", hierarchy.devices)
    return Reduction(Placement(hierarchy, (axis,), (hierarchy.cardinalities,)), ("all",))


def text_of(given: EmitSource) -> str:
    ((_, text),) = write(given).items()
    assert isinstance(text, str)
    return text


def run_on_numpy(given: EmitSource, text: str, units: int, seed: int) -> None:
    """What the plan leaves is bit by bit what numpy gives, for a message of so many units."""
    schedule = given.schedule
    plan = json.loads(text)
    elements = plan["min_message_size"] // 16 * units
    if schedule.goal.gathers:
        elements //= schedule.pieces
    mesh = given.mesh
    payloads = np.random.default_rng(seed).integers(-(2**40), 2**40, (schedule.devices, elements))
    wanted = plain_result(schedule.reduction, payloads, schedule.goal)
    found = outputs(text, payloads[mesh.devices], seed)
    assert np.array_equal(found, wanted[mesh.devices])


def right(given: EmitSource, seed: int = 0) -> None:
    text = text_of(given)
    plan = json.loads(text)
    assert plan["collective"] == NAMES[given.schedule.goal]
    for units in (1, 3):
        run_on_numpy(given, text, units, seed)
    members = given.mesh.ranks(given.schedule.reduction.grid()).tolist()
    assert prove(text, members, plan["collective"]) is None


@pytest.mark.parametrize("goal", IN_PIECES)
@pytest.mark.parametrize("text", ["{0} root inside", INNER_FIRST, OUTER_FIRST])
@pytest.mark.parametrize("sizes", [(2, 2), (2, 4), (4, 2), (4, 4), (2, 8)])
def test_four_eight_and_sixteen_ranks_end_with_what_is_requested(
    goal: Goal, text: str, sizes: tuple[int, ...]
) -> None:
    given = source(text.format(goal.value), machine(*sizes), 1000, goal=goal)
    right(given, seed=sum(sizes))


@pytest.mark.parametrize("goal", IN_PIECES)
@pytest.mark.parametrize("payload", [1, 1000, 2**20, 2**24 + 3])
def test_any_payload_fits_and_large_ones_are_worked_on_by_several_threadblocks(
    goal: Goal, payload: int
) -> None:
    given = source(INNER_FIRST.format(goal.value), machine(2, 2), payload, goal=goal)
    right(given)
    plan = json.loads(text_of(given))
    unit = plan["min_message_size"]
    assert unit <= -(-payload // unit) * unit <= plan["max_message_size"]
    blocks = {len(gpu["threadblocks"]) for gpu in plan["gpus"]}
    assert blocks == {8 if payload > 2**23 else 4 if payload == 2**20 else 1}


@pytest.mark.parametrize("goal", IN_PIECES)
@pytest.mark.parametrize("sizes", [(2, 3), (3, 2)])
def test_every_valid_program_of_two_digits_is_right(goal: Goal, sizes: tuple[int, ...]) -> None:
    reduction = machine(*sizes)
    for steps in all_valid(2, Language(4, goal=goal)):
        right(source(spelled(steps, reduction.tree), reduction, 64, goal=goal))


@examples(10, 60)
@given(data=st.data(), goal=st.sampled_from(IN_PIECES))
def test_programs_of_three_digits_are_right(data: st.DataObject, goal: Goal) -> None:
    reduction = machine(2, 2, 2)
    steps = data.draw(st.sampled_from(all_valid(3, Language(3, across=True, goal=goal))))
    payload = data.draw(st.integers(1, 10**7))
    right(source(spelled(steps, reduction.tree), reduction, payload, goal=goal))


@pytest.mark.parametrize("goal", IN_PIECES)
@pytest.mark.parametrize("over", [("data",), ("model",), ("data", "model")])
def test_replicas_work_side_by_side(goal: Goal, over: tuple[str, ...]) -> None:
    hierarchy = Hierarchy((Level("node", 2), Level("gpu", 4)))
    for placement in placements(hierarchy, (Axis("data", 4), Axis("model", 2))):
        reduction = Reduction(placement, over)
        for steps in all_valid(len(reduction.tree.digits), Language(4, goal=goal))[:4]:
            right(source(spelled(steps, reduction.tree), reduction, 64, goal=goal))


@pytest.mark.parametrize("goal", IN_PIECES)
def test_one_member_copies(goal: Goal) -> None:
    hierarchy = Hierarchy((Level("node", 2),))
    placement = Placement(hierarchy, (Axis("a", 1), Axis("b", 2)), ((1,), (2,)))
    right(source("", Reduction(placement, ("a",)), 64, goal=goal))


@pytest.mark.parametrize("goal", IN_PIECES)
def test_the_buffers_are_as_long_as_the_executor_wants_them(goal: Goal) -> None:
    """Both of whole chunks of one length; an all-gather's size is that of its output."""
    plan = json.loads(text_of(source(INNER_FIRST.format(goal.value), machine(2, 4), goal=goal)))
    shape = {Goal.ALL_GATHER: (1, 8), Goal.REDUCE_SCATTER: (8, 1), Goal.ALL_TO_ALL: (8, 8)}[goal]
    gpus = plan["gpus"]
    for gpu in gpus:
        given, got = gpu["input_chunks"], gpu["output_chunks"]
        assert (given * shape[1], plan["inplace"]) == (got * shape[0], False)
        assert plan["min_message_size"] == 16 * max(given, got)
        scratch = plan["max_message_size"] // given * gpu["scratch_chunks"]
        assert scratch <= max(2**26, 2**20 // given * gpu["scratch_chunks"])


def test_a_single_step_puts_where_the_result_is() -> None:
    """Inside a host nothing goes through scratch on its way from inputs to outputs."""
    for goal in (Goal.ALL_TO_ALL, Goal.ALL_GATHER):
        plan = json.loads(
            text_of(source(f"{goal.value} root inside", machine(1, 4), 64, goal=goal))
        )
        assert {gpu["scratch_chunks"] for gpu in plan["gpus"]} == {0}


@pytest.mark.parametrize("goal", IN_PIECES)
def test_a_launch_without_a_check_may_be_overtaken(
    goal: Goal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "_ready_waits", lambda _: (ReadyWait.NEVER,))
    with pytest.raises(AssertionError, match="race=True"):
        write(source(f"{goal.value} root inside", machine(2, 2), 64, goal=goal))


@pytest.mark.parametrize("goal", IN_PIECES)
def test_the_proof_looks_at_inputs_and_at_the_order_of_pieces(goal: Goal) -> None:
    given = source(f"{goal.value} root inside", machine(1, 3), 64, goal=goal)
    text, name = text_of(given), NAMES[goal]
    assert prove(text, [[0, 1, 2]], name) is None
    for other in set(NAMES.values()) - {name}:
        assert isinstance(prove(text, [[0, 1, 2]], other), PlanFailure)
    plan: Any = json.loads(text)
    block = plan["gpus"][0]["threadblocks"][0]
    over = {"type": "i", "index": 0, "size": 1}
    late = {"name": "copy", "src_buff": [{**over, "type": "o"}], "dst_buff": [over]}
    block["ops"] += [{"name": "nop"}, late]
    failure = prove(json.dumps(plan), [[0, 1, 2]], name)
    assert failure is not None
    assert "the input is written" in failure.reason


def test_pieces_that_change_places_are_found() -> None:
    """Two ranks whose pieces of an all-gather lie in each other's place."""
    text = text_of(source("all-gather root inside", machine(1, 2), 64, goal=Goal.ALL_GATHER))
    plan: Any = json.loads(text)
    for gpu in plan["gpus"]:
        for op in gpu["threadblocks"][0]["ops"]:
            for ref in op.get("dst_buff", []):
                ref["index"] = 1 - ref["index"]
    failure = prove(json.dumps(plan), [[0, 1]], "allgather")
    assert failure is not None
    assert "not what it is to end with" in failure.reason


@pytest.mark.parametrize("goal", IN_PIECES)
def test_mismatches_are_reported_before_writing(goal: Goal) -> None:
    for sizes in ((1, 18), (18, 1)):
        wide = source(f"{goal.value} root inside", machine(*sizes), 64, goal=goal)
        for refuses in (write, check):
            with pytest.raises(CannotExpressError, match=r"17 \w+ channels, the limit is 16"):
                refuses(wide)
        assert "mscclpp" not in runnable_targets(wide)
    assert "mscclpp" in runnable_targets(
        source(INNER_FIRST.format(goal.value), machine(4, 8), 64, goal=goal)
    )


def test_channels_of_all_steps_count_and_the_step_that_has_too_many_is_named() -> None:
    two = INNER_FIRST.format("all-gather")
    ports = replace(
        source(two, machine(10, 10), 64, goal=Goal.ALL_GATHER),
        options=EmitOptions(host_level="gpu"),
    )
    with pytest.raises(CannotExpressError, match="18 port channels, the limit is 16") as caught:
        write(ports)
    assert caught.value.where == "step 2"


@pytest.mark.parametrize("goal", IN_PIECES)
def test_pieces_go_by_ranks_where_these_do_not_count_as_members(goal: Goal) -> None:
    hierarchy = Hierarchy((Level("rack", 2), Level("gpu", 4)))
    placement = Placement(hierarchy, (Axis("a", 2), Axis("b", 4)), ((1, 2), (2, 2)))
    reduction = Reduction(placement, ("a", "b"), collapse=False)
    options = EmitOptions(rank_order=RankOrder.AXES)
    for steps in all_valid(3, Language(3, goal=goal)):
        plain = source(spelled(steps, reduction.tree), reduction, 64, goal=goal)
        text = text_of(replace(plain, options=options))
        size = json.loads(text)["min_message_size"] // 16
        size = size // 8 if goal.gathers else size
        payloads = np.random.default_rng(1).integers(0, 999, (8, size))
        wanted = plain_result(Reduction.plain(8), payloads, goal)
        assert np.array_equal(outputs(text, payloads), wanted)


@pytest.mark.parametrize(
    ("goal", "why"), [(Goal.BROADCAST, "whichever rank is the root"), (Goal.REDUCE, "no such")]
)
def test_rooted_requests_are_refused_with_a_reason_and_alternatives(goal: Goal, why: str) -> None:
    given = source(f"{goal.value} root inside", machine(2, 2), 64, goal=goal)
    with pytest.raises(CannotExpressError, match=why) as caught:
        emit("mscclpp", given)
    assert f"mscclpp cannot express a program for {goal.value}: " in str(caught.value)
    assert caught.value.hint == "these can: torch, jax, jax-flat, mpi"
