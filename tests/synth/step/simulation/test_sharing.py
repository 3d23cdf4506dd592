"""Requests at once on the same links: exact shares, the laws, and occupancies counted apart."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammar import Groups
from grammar.tensors.sharding import Sharding, Type, replicated_sharding
from hierarchies import Axis, Domain, Hierarchy, Link, Placement, Reduction, System
from price_oracle import Machine, groups_of
from synth.collective.algorithms.algorithms import Choice
from synth.collective.ranking.oracle import ProgramPrices
from synth.collective.semantics.programs import Language
from synth.events.longest_path import arrange_tasks, time_tasks
from synth.step.redistribution.seconds import NetworkPrices, Occupancy
from synth.step.schedules import one_f_one_b
from synth.step.sharding import InstructionPlace, StepPhase
from synth.step.simulation.device import DeviceTasks, StageSend, Task
from synth.step.simulation.pipeline import PipelineTimeline, simulate_pipeline
from synth.step.simulation.sharing import time_on_links
from synth.step.simulation.simulation import simulate

NIC = (("node out", 1.0), ("node in", 1.0))
HERE = InstructionPlace(0, StepPhase.BEFORE)


def request(stream: str, seconds: float, occupancy: Occupancy, *before: int) -> Task:
    issue = len(before)
    return Task(stream, stream, seconds, before, HERE, issue, request=stream, occupancy=occupancy)


def device(*tasks: Task) -> DeviceTasks:
    return DeviceTasks(tasks, ())


def test_requests_at_once_get_half_of_a_link_each() -> None:
    """1 s and 3 s: both at half until the first ends after 2 s; the other has 2 s left."""
    found = simulate(device(request("over data", 3.0, NIC), request("over tensor", 1.0, NIC)))
    assert found.ends == [4.0, 2.0]
    summary = {one.request: one for one in found.sent}
    assert summary["over data"].seconds == 4.0
    apart = simulate(device(request("over data", 3.0, NIC), request("over data", 1.0, NIC)))
    assert apart.ends == [3.0, 4.0]


def test_a_request_inside_the_nodes_leaves_the_nics_alone() -> None:
    inside = (("gpu out", 1.0), ("gpu in", 1.0))
    found = simulate(device(request("over data", 3.0, NIC), request("over tensor", 1.0, inside)))
    assert found.ends == [3.0, 1.0]


def test_a_request_that_uses_a_tenth_of_a_link_slows_another_by_a_tenth() -> None:
    little = (*NIC, ("gpu out", 0.1), ("gpu in", 0.1))
    inside = (("gpu out", 1.0), ("gpu in", 1.0))
    found = simulate(
        device(request("over data", 10.0, little), request("over tensor", 1.0, inside))
    )
    assert found.ends[1] == pytest.approx(1.1)
    assert found.ends[0] == pytest.approx(10.1)


def test_what_sends_and_what_receives_do_not_share() -> None:
    out, into = NIC[:1], NIC[1:]
    found = simulate(device(request("over data", 3.0, out), request("over tensor", 1.0, into)))
    assert found.ends == [3.0, 1.0]


def test_computation_is_not_slowed_by_links() -> None:
    work = Task("product", "compute", 5.0, (), HERE, 0)
    found = simulate(device(work, request("over data", 3.0, NIC), request("over tensor", 1.0, NIC)))
    assert found.ends == [5.0, 4.0, 2.0]
    assert found.compute_seconds == 5.0
    assert all(one.hidden == 1.0 for one in found.sent)


@st.composite
def steps(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]], list[float], list[Occupancy]]:
    count = draw(st.integers(1, 8))
    before = [
        sorted(draw(st.sets(st.integers(0, task - 1), max_size=2))) if task else []
        for task in range(count)
    ]
    streams = [draw(st.integers(0, 2)) for _ in range(count)]
    queues = [[task for task in range(count) if streams[task] == place] for place in range(3)]
    eighths = st.integers(1, 8).map(lambda n: n / 8)
    used = st.dictionaries(st.sampled_from(["node out", "node in", "gpu out"]), eighths)
    seconds = [draw(st.integers(0, 12)) / 4 for _ in range(count)]
    return before, queues, seconds, [tuple(draw(used).items()) for _ in range(count)]


@given(steps())
def test_no_link_carries_more_than_it_can(case: tuple) -> None:  # type: ignore[type-arg]
    """What begins from a moment on fits in what is left; nothing is sooner than alone."""
    before, queues, seconds, occupancies = case
    arranged = arrange_tasks(before, queues)
    begins, ends = time_on_links(arranged, seconds, occupancies)
    free = time_tasks(arranged, seconds)[1]
    assert all(end >= alone - 1e-9 for end, alone in zip(ends, free, strict=True))
    for name in ("node out", "node in", "gpu out"):
        for first in {*begins}:
            inside = [
                dict(used).get(name, 0.0) * took
                for begin, used, took in zip(begins, occupancies, seconds, strict=True)
                if begin >= first
            ]
            assert sum(inside) <= max(ends) - first + 1e-9
    less = [tuple((name, share / 8) for name, share in used) for used in occupancies]
    assert time_on_links(arranged, seconds, less)[1] == free


def ported(nics: int) -> System:
    """Four nodes of four GPUs, without latencies, launches or protocols but Simple."""
    links = (Link(Domain.SWITCH, 25e9, 0.0, nics), Link(Domain.SWITCH, 200e9, 0.0))
    return System("made", "", Hierarchy.of(node=4, gpu=4), links, 1e30, launches=False)


@pytest.mark.parametrize("nics", [1, 2, 4])
@pytest.mark.parametrize(
    "rows",
    [((2, 1), (2, 1), (1, 4)), ((1, 2), (4, 1), (1, 2)), ((2, 2), (2, 1), (1, 2))],
)
def test_occupancies_are_those_of_every_message_on_every_link(
    nics: int, rows: tuple[tuple[int, ...], ...]
) -> None:
    """All groups of a gather at once, counted apart: the busiest link over its seconds."""
    system = ported(nics)
    axes = tuple(Axis(name, prod(row)) for name, row in zip("abc", rows, strict=True))
    placement = Placement(system.hierarchy, axes, rows)
    programs = ProgramPrices(
        system, Choice.RING, language=Language(1), segments=(1,), stripes=False
    )
    prices, machine, value = NetworkPrices(programs, placement), Machine(system), Type("f32", (16,))
    for axis in axes:
        reduction = Reduction(placement, (axis.name,))
        groups = groups_of(reduction, Groups(tuple(range(len(reduction.tree.digits)))))
        messages = [message for group in groups for message in machine.ring(group, 1)]
        path = value, Sharding(((axis.name,),)), replicated_sharding(1)
        seconds, occupancy = prices.sending(*path), dict(prices.occupancy(*path))
        for level, of_a_byte in machine.slowest(machine.loads(messages)).items():
            for way in ("out", "in"):
                share = of_a_byte * value.bytes / seconds
                assert occupancy[f"{level} {way}"] == pytest.approx(share)
        assert max(occupancy.values()) == pytest.approx(1.0)


def staged(stages: int, occupancy: Occupancy = ()) -> DeviceTasks:
    """Stages that compute 4 s forward and 8 s backward, and gather beside that for 2 s each."""
    tasks: list[Task] = []
    handed = {}
    for when, seconds in ((StepPhase.FORWARD, 4.0), (StepPhase.BACKWARD, 8.0)):
        for stage in range(stages):
            place = InstructionPlace(stage, when)
            tasks.append(Task("compute", "compute", seconds, (), place, 0))
            gather = request("over data", 2.0, occupancy)
            tasks.append(gather._replace(place=place))
            target = stage + (1 if when is StepPhase.FORWARD else -1)
            if 0 <= target < stages:
                handed[StageSend(stage, target, when, 0)] = 1
    return DeviceTasks(tuple(tasks), (), handed)


def stepped(
    transfer: Occupancy, gather: Occupancy = (), stages: int = 3, seconds: float = 3.0
) -> PipelineTimeline:
    microbatches = 6
    return simulate_pipeline(
        staged(stages, gather),
        one_f_one_b(stages, microbatches),
        microbatches,
        lambda *_: seconds,
        occupancy=lambda *_: transfer,
    )


def test_transfers_out_of_a_stage_share_its_ports() -> None:
    """The middle stage sends values forward and gradients back; with two stages the two go out of
    different devices, and a transfer that takes less than a pass meets no other.
    """
    alone, both = (stepped(used, seconds=9.0) for used in ((), NIC))
    assert both.seconds > alone.seconds
    assert both.seconds >= 9.0 * 2 * 6
    two = [stepped(used, stages=2).seconds for used in ((), NIC)]
    assert two[0] == two[1]
    little = (("node out", 0.1), ("node in", 0.1))
    assert stepped(little, seconds=9.0).seconds == alone.seconds


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_pass_that_shares_its_ports_with_a_transfer_is_longer_by_exposed_communication(
    stages: int,
) -> None:
    """Compute, what is exposed and the bubble are all of a rank's time; nothing is sooner."""
    found, free = stepped(NIC, NIC, stages), stepped((), (), stages)
    assert found.seconds > free.seconds
    for rank, idle in enumerate(found.idle_shares):
        exposed = sum(one.exposed_seconds for one in found.sent(rank))
        assert exposed > 0
        whole = found.compute_seconds(rank) + exposed + idle * found.seconds
        assert whole == pytest.approx(found.seconds)
    for rank, spans in enumerate(found.ranks):
        for span, before in zip(spans, free.ranks[rank], strict=True):
            assert span.end_seconds >= before.end_seconds - 1e-9
    # A rank's ports carry its gathers, and a transfer each way for every microbatch.
    sends = 2 * (len(found.ranks) > 2)
    assert found.seconds >= 6 * (2 * 2.0 + sends * 3.0)
