"""MSCCL++ plans: every program that fits is proved, and the proof fails where it must."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhaustive import examples
from grammar import Goal
from hierarchies import Axis, Hierarchy, Level, Placement, Reduction, placements
from strategies import all_valid, source, spelled
from synth.collective.emit import targets
from synth.collective.emit.mscclpp.blocks import BlockWriter, Excess, RankRound, Window
from synth.collective.emit.mscclpp.homes import SCRATCH, place_number
from synth.collective.emit.mscclpp.moves import Message, messages_of
from synth.collective.emit.mscclpp.peers import find_crowded_phase
from synth.collective.emit.mscclpp.plan import check, write
from synth.collective.emit.mscclpp.proof import PlanFailure, prove
from synth.collective.emit.source import CannotExpressError, EmitOptions, EmitSource, RankOrder
from synth.collective.emit.targets import Target, emit, runnable_targets

Plan = dict[str, Any]

CLASSIC = "reduce-scatter node inside; all-reduce node parallel(root); all-gather node inside"
ROOTED = "reduce node inside; all-reduce node master(root); broadcast node inside"
OVERTAKEN = "reduce numa inside; all-reduce numa master(root); broadcast node inside"
NAMES = {1: ("node",), 2: ("node", "gpu"), 3: ("node", "numa", "gpu")}
NAMES[4] = ("pod", "node", "numa", "gpu")


def machine(*sizes: int, names: tuple[str, ...] = ()) -> Reduction:
    """One reduction group that fills a machine."""
    levels = zip(names or NAMES[len(sizes)], sizes, strict=True)
    hierarchy = Hierarchy(tuple(Level(name, size) for name, size in levels))
    axis = Axis("all", hierarchy.devices)
    return Reduction(Placement(hierarchy, (axis,), (hierarchy.cardinalities,)), ("all",))


def plan_of(given: EmitSource) -> Plan:
    ((name, text),) = write(given).items()
    plan: Plan = json.loads(text)
    assert name == f"{plan['name']}.json"
    return plan


def judged(plan: Plan, members: list[list[int]]) -> PlanFailure | None:
    """What the proof says of the file that the plan is, for the collective it is named after."""
    return prove(json.dumps(plan), members, plan["name"].split("-")[1])


def groups(given: EmitSource) -> list[list[int]]:
    found: list[list[int]] = given.mesh.ranks(given.schedule.reduction.grid()).tolist()
    return found


def blocks(plan: Plan) -> Iterator[Plan]:
    for gpu in plan["gpus"]:
        yield from gpu["threadblocks"]


def ops(plan: Plan) -> list[Plan]:
    return [op for block in blocks(plan) for op in block["ops"]]


# --- every program ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sizes", [(2, 2), (2, 3), *(pytest.param(s, marks=pytest.mark.slow) for s in [(2, 4), (4, 4)])]
)
def test_every_valid_program_of_two_digits_is_expressed(sizes: tuple[int, ...]) -> None:
    reduction = machine(*sizes)
    for steps in all_valid(2):
        given = source(spelled(steps, reduction.tree), reduction)
        assert judged(plan_of(given), groups(given)) is None


@pytest.mark.parametrize("names", [NAMES[3], ("pod", "node", "gpu"), ("a", "b", "c")])
@examples(12, 40)
@given(data=st.data())
def test_programs_of_three_digits_are_expressed(data: st.DataObject, names: Any) -> None:
    reduction = machine(2, 2, 2, names=names)
    steps = data.draw(st.sampled_from(all_valid(3)))
    given = source(spelled(steps, reduction.tree), reduction, data.draw(st.integers(1, 10**7)))
    assert judged(plan_of(given), groups(given)) is None


@examples(10, 25)
@given(steps=st.deferred(lambda: st.sampled_from(all_valid(4))))
def test_programs_of_four_digits_are_expressed(steps: Any) -> None:
    reduction = machine(2, 2, 2, 2)
    given = source(spelled(steps, reduction.tree), reduction)
    assert judged(plan_of(given), groups(given)) is None


@pytest.mark.parametrize("over", [("data",), ("model",), ("data", "model")])
@pytest.mark.parametrize(
    ("names", "order"),
    [
        (("node", "gpu"), RankOrder.MACHINE),
        (("rack", "gpu"), RankOrder.MACHINE),
        (("rack", "gpu"), RankOrder.AXES),
    ],
)
def test_replicas_reduce_side_by_side(
    over: tuple[str, ...], names: tuple[str, ...], order: RankOrder
) -> None:
    hierarchy = Hierarchy((Level(names[0], 2), Level(names[1], 4)))
    for placement in placements(hierarchy, (Axis("data", 4), Axis("model", 2))):
        reduction = Reduction(placement, over)
        for steps in all_valid(len(reduction.tree.digits))[:10]:
            given = source(spelled(steps, reduction.tree), reduction)
            given = replace(given, options=EmitOptions(rank_order=order))
            assert judged(plan_of(given), groups(given)) is None


def test_a_reduction_of_nothing_is_a_plan_that_does_nothing() -> None:
    hierarchy = Hierarchy((Level("node", 2),))
    placement = Placement(hierarchy, (Axis("a", 1), Axis("b", 2)), ((1,), (2,)))
    plan = plan_of(source("", Reduction(placement, ("a",)), 64))
    assert [op["name"] for op in ops(plan)] == ["nop", "nop"]


def waits(given: EmitSource) -> int:
    return sum(len(op["channel_ids"]) for op in ops(plan_of(given)) if op["name"] == "wait")


def test_only_tasks_that_can_be_overtaken_are_checked() -> None:
    """One signal a message; more where a broadcast reaches who still works on a step before."""
    assert waits(source(CLASSIC, machine(2, 2), 64)) == 4 + 2 * 4 + 4
    assert waits(source(OVERTAKEN, machine(2, 2, 2), 64)) > 4 + 2 * 4 + 6


def test_a_large_payload_is_worked_on_by_several_threadblocks() -> None:
    reduction = machine(2, 2)
    small = plan_of(source(CLASSIC, reduction, 2**14))
    large = plan_of(source(CLASSIC, reduction, 2**24))
    assert len(small["gpus"][0]["threadblocks"]) == 1
    assert len(large["gpus"][0]["threadblocks"]) == 8
    assert large["gpus"][0]["input_chunks"] == 8 * small["gpus"][0]["input_chunks"]


# --- the form --------------------------------------------------------------------------------


def test_the_reader_finds_what_it_requires() -> None:
    plan = plan_of(source(CLASSIC, machine(2, 4)))
    assert {"name", "collective", "protocol", "inplace", "gpus"} <= set(plan)
    for gpu in plan["gpus"]:
        wanted = {"id", "input_chunks", "output_chunks", "scratch_chunks"}
        assert wanted | {"threadblocks", "channels", "remote_buffers"} <= set(gpu)
        for channel in gpu["channels"]:
            assert set(channel) == {"channel_type", "connected_to"}
        for buffer in gpu["remote_buffers"]:
            assert set(buffer) == {"rank", "type", "access_channel_types"}
    for block in blocks(plan):
        assert set(block) == {"id", "ops", "channels", "remote_buffer_refs"}
        for op in block["ops"]:
            for local in op.get("src_buff", []):
                assert set(local) == {"type", "index", "size"}
            for out in op.get("dst_buff", []):
                assert set(out) == {"buffer_id" if op["name"] == "put" else "type", "index", "size"}


def test_the_text_is_always_the_same_and_has_a_line_for_each_gpu() -> None:
    given = source(CLASSIC, machine(2, 4))
    assert write(given) == write(given)
    (text,) = write(given).values()
    assert isinstance(text, str)
    assert len(text.splitlines()) == 1 + 8 + 1


def test_plans_have_different_names() -> None:
    """The executor keeps what it has prepared for a plan under the plan's name."""
    reduction = machine(2, 2)
    names = {plan_of(source(spelled(s, reduction.tree), reduction))["name"] for s in all_valid(2)}
    assert len(names) > 40


def used(plan: Plan) -> set[tuple[str, int, int]]:
    return {
        (channel["channel_type"], gpu["id"], peer)
        for gpu in plan["gpus"]
        for channel in gpu["channels"]
        for peer in channel["connected_to"]
    }


def test_ports_lead_to_other_hosts() -> None:
    memory = {("memory", a, a ^ 1) for a in range(4)}
    port = {("port", a, a ^ 2) for a in range(4)}
    assert used(plan_of(source(CLASSIC, machine(2, 2)))) == memory | port


def test_a_machine_without_nodes_is_one_host() -> None:
    given = source(CLASSIC.replace("node", "rack"), machine(2, 2, names=("rack", "gpu")))
    assert {kind for kind, _, _ in used(plan_of(given))} == {"memory"}
    asked = replace(given, options=EmitOptions(host_level="gpu"))
    assert {kind for kind, _, _ in used(plan_of(asked))} == {"port"}


def test_proxies_read_scratch() -> None:
    puts = [op for op in ops(plan_of(source(CLASSIC, machine(2, 2)))) if op["name"] == "put"]
    read = {(op["channel_type"], ref["type"]) for op in puts for ref in op["src_buff"]}
    assert read == {("memory", "i"), ("port", "s")}


@pytest.mark.parametrize("payload", [1, 1000, 2**20, 3 * 2**25])
def test_the_payload_is_a_message_the_plan_takes(payload: int) -> None:
    plan = plan_of(source(CLASSIC, machine(2, 2), payload))
    unit = 16 * plan["gpus"][0]["input_chunks"]
    assert plan["min_message_size"] == unit
    assert plan["min_message_size"] <= math.ceil(payload / unit) * unit <= plan["max_message_size"]
    chunk = plan["max_message_size"] // plan["gpus"][0]["input_chunks"]
    scratch = chunk * plan["gpus"][0]["scratch_chunks"]
    assert scratch <= max(2**26, 2 * payload)


# --- limits ----------------------------------------------------------------------------------


def test_seventeen_members_fit_and_eighteen_do_not() -> None:
    assert plan_of(source("all-reduce root inside", machine(17)))
    with pytest.raises(CannotExpressError, match="17 port channels, the limit is 16") as caught:
        write(source("all-reduce root inside", machine(18)))
    assert caught.value.where == "step 1"


@pytest.mark.parametrize(
    ("text", "sizes", "where", "why"),
    [
        (CLASSIC, (64, 8), "step 2", "all-reduce: even each of 4 threadblocks would need 63 port"),
        (ROOTED, (64, 8), "step 2", "all-reduce: even each of 4 threadblocks would need 63 port"),
        ("all-reduce root inside", (64, 8), "step 1", "all-reduce: even each of 4 .* 504 port"),
        ("all-reduce root inside", (1, 18), "step 1", "each of 18 threadblocks .* 17 memory"),
        (
            "reduce root inside; broadcast root inside",
            (18,),
            "step 1",
            "one threadblock .* 17 port",
        ),
    ],
)
def test_too_many_peers_are_reported_before_any_message_is_written(
    monkeypatch: pytest.MonkeyPatch, text: str, sizes: tuple[int, ...], where: str, why: str
) -> None:
    monkeypatch.delattr("synth.collective.emit.mscclpp.plan.messages_of")
    given = source(text, machine(*sizes))
    for refuses in (write, check):
        with pytest.raises(CannotExpressError, match=f"{why} channels, the limit is 16") as caught:
            refuses(given)
        assert caught.value.where == where


@pytest.mark.parametrize("sizes", [(2, 4), (18, 2), (2, 18)])
def test_the_early_refusal_counts_the_peers_of_roots(
    sizes: tuple[int, int],
) -> None:
    reduction = machine(*sizes)
    hosts = [device // sizes[1] for device in range(reduction.tree.devices)]
    for steps in all_valid(2)[::4]:
        given = source(spelled(steps, reduction.tree), reduction, 64)
        peers: dict[tuple[int, int, bool], set[int]] = {}
        for number, round in enumerate(
            messages_of(given.schedule, given.mesh, np.arange(len(hosts)), hosts).rounds
        ):
            for send in round.sends:
                ends = send.source, send.target
                home = send.writes[0] < place_number(SCRATCH)
                owner, peer = ends if home else ends[::-1]
                near = hosts[owner] == hosts[peer]
                peers.setdefault((number, owner, near), set()).add(peer)
        early = find_crowded_phase(given.schedule, np.array(hosts))
        assert (early is not None) == (max(map(len, peers.values())) > 16)


@pytest.mark.parametrize(
    ("text", "sizes", "payload"),
    [
        (CLASSIC, (2, 4), 64),
        (OVERTAKEN, (2, 2, 2), 64),
        (CLASSIC, (64, 8), 64),
        (ROOTED, (2, 8), 2**30),
        (CLASSIC, (16, 8), 64),
    ],
)
def test_the_check_refuses_what_cannot_be_written(
    text: str, sizes: tuple[int, ...], payload: int
) -> None:
    given = source(text, machine(*sizes), payload)
    said = []
    for asked in (write, check):
        try:
            asked(given)
            said.append("")
        except CannotExpressError as error:
            said.append(str(error))
    assert said[0] == said[1]
    assert ("mscclpp" in runnable_targets(given)) == (said[0] == "")


def test_the_able_are_found_without_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("synth.collective.emit.mscclpp.plan.prove")
    assert "mscclpp" in runnable_targets(source(CLASSIC, machine(2, 4)))


def test_a_step_that_passes_a_limit_is_named_with_the_targets_that_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = {"mscclpp": Target("", write, runs=True), "mpi": Target("", lambda _: {}, runs=True)}
    monkeypatch.setattr(targets, "TARGETS", table)
    with pytest.raises(CannotExpressError) as caught:
        emit("mscclpp", source(CLASSIC, machine(18, 2)))
    assert caught.value.where == "step 2"
    assert "mscclpp cannot express all-reduce" in caught.value.problem
    assert caught.value.hint == "these can: mpi"


def test_a_threadblock_of_too_many_operations_is_reported_with_its_phase() -> None:
    chunks = tuple(range(0, 1200, 2))
    scattered = Message(0, 1, chunks, chunks, chunks, None)
    block = BlockWriter(0, [0, 0], Window(0, 1200))
    excess = block.write([RankRound(3, [scattered], [])])
    assert excess == Excess(3, "77 operations or more, the limit is 64")
    assert not BlockWriter(0, [0, 0], Window(0, 600)).write([RankRound(3, [scattered], [])])


def test_offsets_have_32_bits() -> None:
    assert plan_of(source(CLASSIC, machine(2, 2), 2**30))
    with pytest.raises(CannotExpressError, match="32 bits") as caught:
        write(source(CLASSIC, machine(2, 2), 2**32))
    assert caught.value.where == "payload"


def test_hosts_are_blocks_of_ranks() -> None:
    hierarchy = Hierarchy((Level("node", 2), Level("gpu", 2)))
    placement = Placement(hierarchy, (Axis("a", 2), Axis("b", 2)), ((1, 2), (2, 1)))
    given = source("all-reduce root inside", Reduction(placement, ("a",)))
    with pytest.raises(CannotExpressError, match="host by host"):
        write(replace(given, options=EmitOptions(rank_order=RankOrder.AXES)))


# --- the proof fails where it must ------------------------------------------------------------


CASES = {
    "classic": (CLASSIC, (2, 2)),
    "rooted": (ROOTED, (2, 3)),
    "flat": ("all-reduce root inside", (1, 3)),
    "asked": (OVERTAKEN, (2, 2, 2)),
    "gathered": ("all-gather root inside", (1, 3)),
    "gathered in two": ("all-gather node inside; all-gather node parallel", (2, 2)),
    "scattered": ("reduce-scatter root inside", (2, 2)),
    "scattered in two": ("reduce-scatter node inside; reduce-scatter node parallel", (2, 2)),
    "exchanged": ("all-to-all root inside", (1, 3)),
    "exchanged in two": ("all-to-all node inside; all-to-all node parallel", (2, 2)),
}


@pytest.fixture(params=CASES)
def sound(request: pytest.FixtureRequest) -> tuple[Plan, list[list[int]]]:
    text, sizes = CASES[request.param]
    gives_all = request.param in ("classic", "rooted", "flat", "asked")
    goal = Goal.ALL_REDUCE if gives_all else Goal(text.split()[0])
    given = source(text, machine(*sizes), 64, goal=goal)
    return plan_of(given), groups(given)


Sound = tuple[Plan, list[list[int]]]


def changed(plan: Plan) -> Iterator[tuple[Plan, list[Plan], int]]:
    """For every operation a fresh copy of the plan, the threadblock's operations and its place."""
    for gpu, told in enumerate(plan["gpus"]):
        for number, block in enumerate(told["threadblocks"]):
            for at in range(len(block["ops"])):
                fresh = copy.deepcopy(plan)
                yield fresh, fresh["gpus"][gpu]["threadblocks"][number]["ops"], at


def test_no_operation_can_be_left_out(sound: Sound) -> None:
    plan, members = sound
    for mutant, some, at in changed(plan):
        left = some.pop(at)
        assert isinstance(judged(mutant, members), PlanFailure), (at, left)


def test_no_sum_and_no_synchronisation_can_be_done_twice(sound: Sound) -> None:
    plan, members = sound
    for mutant, some, at in changed(plan):
        if some[at]["name"] in ("re", "signal", "wait"):
            some.insert(at, copy.deepcopy(some[at]))
            assert isinstance(judged(mutant, members), PlanFailure), some[at]


@pytest.mark.parametrize("by", [-1, 1])
@pytest.mark.parametrize("side", ["src_buff", "dst_buff"])
def test_no_index_can_be_another(sound: Sound, side: str, by: int) -> None:
    plan, members = sound
    for mutant, some, at in changed(plan):
        if some[at]["name"] in ("put", "re", "copy"):
            some[at][side][-1]["index"] += by
            assert isinstance(judged(mutant, members), PlanFailure), some[at]


def test_no_size_can_be_another(sound: Sound) -> None:
    plan, members = sound
    for mutant, some, at in changed(plan):
        if some[at]["name"] in ("put", "re", "copy"):
            some[at]["src_buff"][0]["size"] += 1
            assert isinstance(judged(mutant, members), PlanFailure), some[at]


def test_no_reference_can_be_another(sound: Sound) -> None:
    plan, members = sound
    for mutant, some, at in changed(plan):
        for ref in some[at].get("dst_buff", []):
            if "buffer_id" in ref:
                ref["buffer_id"] += 1
        some[at]["channel_ids"] = [i + 1 for i in some[at].get("channel_ids", [])]
        if some[at]["channel_ids"]:
            assert isinstance(judged(mutant, members), PlanFailure), some[at]


def test_no_two_neighbours_that_depend_can_change_places(sound: Sound) -> None:
    plan, members = sound
    for mutant, some, at in changed(plan):
        names = [op["name"] for op in some]
        pair = tuple(names[at : at + 2])
        start = set(names[:at]) <= {"signal", "wait"} and names[at - 1] == "wait"
        if start and plan["collective"] != "allreduce":
            continue  # the second wait at the start is for those whom it needs only later
        if pair in {("nop", "signal"), ("wait", "nop"), ("nop", "re"), ("copy", "nop")}:
            some[at : at + 2] = some[at + 1], some[at]
            assert isinstance(judged(mutant, members), PlanFailure), (at, pair)


def test_channels_need_another_end(sound: Sound) -> None:
    plan, members = sound
    for gpu in plan["gpus"]:
        for channel in gpu["channels"]:
            kept = channel["connected_to"].pop()
            assert isinstance(judged(plan, members), PlanFailure)
            channel["connected_to"].append(kept)
    assert judged(plan, members) is None


def test_other_groups_are_not_what_the_plan_reduces(sound: Sound) -> None:
    plan, members = sound
    assert isinstance(judged(plan, [members[0][:-1], members[0][-1:]]), PlanFailure)
    assert isinstance(judged(plan, [members[0][:-1]]), PlanFailure)


def test_every_group_is_looked_at() -> None:
    """Groups that differ in ranks only are run once; one that differs otherwise is run too."""
    hierarchy = Hierarchy((Level("node", 3), Level("gpu", 2)))
    placement = Placement(hierarchy, (Axis("a", 3), Axis("b", 2)), ((3, 1), (1, 2)))
    given = source("all-reduce root inside", Reduction(placement, ("b",)), 64)
    plan = plan_of(given)
    assert groups(given) == [[0, 1], [2, 3], [4, 5]]
    assert judged(plan, groups(given)) is None
    for mutant, some, at in changed(plan):
        some.pop(at)
        assert isinstance(judged(mutant, groups(given)), PlanFailure)
    assert isinstance(judged(plan, groups(given)[1:]), PlanFailure)
    assert isinstance(judged(plan, [[0, 1], [2, 3], [4, 5], [4, 5]]), PlanFailure)
    plan["gpus"][2]["remote_buffers"][0]["rank"] = 5
    assert isinstance(judged(plan, groups(given)), PlanFailure)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("inplace", "the other"),
        ("protocol", "LL"),
        ("collective", "broadcast"),
        ("reuse_resources", True),
        ("min_message_size", 8),
        ("max_message_size", 2**33),
    ],
)
def test_the_header_is_looked_at(sound: Sound, key: str, value: object) -> None:
    plan, members = sound
    other = not plan["inplace"] if key == "inplace" else value
    assert isinstance(judged({**plan, key: other}, members), PlanFailure)


def test_limits_are_looked_at(sound: Sound) -> None:
    plan, members = sound
    mutant = copy.deepcopy(plan)
    mutant["gpus"][0]["threadblocks"][0]["ops"][:0] = [{"name": "nop"}] * 64
    failure = judged(mutant, members)
    assert failure is not None
    assert "operations" in failure.reason


def test_an_operation_that_is_not_known_is_no_proof(sound: Sound) -> None:
    plan, members = sound
    plan["gpus"][0]["threadblocks"][0]["ops"][0] = {"name": "pwsf"}
    failure = judged(plan, members)
    assert failure is not None
    assert "not known" in failure.reason


def test_a_key_or_a_type_that_is_not_known_is_no_plan(sound: Sound) -> None:
    """What the executor makes of it nobody has looked up."""
    plan, members = sound
    mutant = copy.deepcopy(plan)
    mutant["gpus"][0]["threadblocks"][0]["ops"][0]["flush"] = True
    plan["gpus"][0]["scratch_chunks"] = "4"
    del (missing := copy.deepcopy(plan))["gpus"]
    for wrong in (mutant, plan, missing):
        failure = judged(wrong, members)
        assert failure is not None
        assert failure.reason.startswith("not a plan: ")
