"""Programs of explicit groups: proved, replayed, refuted where wrong, priced by one model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from exhaustive import examples
from grammar import Collective, Program
from hierarchies import (
    Axis,
    Domain,
    Hierarchy,
    InputError,
    Placement,
    Reduction,
    System,
    load,
    parse_fault,
)
from hierarchies.fabric import groups_of_children, roles_of
from hierarchies.links import Network
from places import ROOT
from strategies import reductions, smart_systems, switches
from synth.ask.answers.degraded import GroupStepPart, UnevenReply
from synth.ask.answers.given import read_uneven_ranking
from synth.ask.answers.outputs import groups_document
from synth.ask.answers.parts import to_json
from synth.collective.algorithms.algorithms import Algorithm, Choice
from synth.collective.algorithms.slowest_links import SlowestLinks, loads_per_level
from synth.collective.degraded import GroupProgram, Survivors, uneven_answers
from synth.collective.degraded.cores import find_cores
from synth.collective.degraded.handing import run_on_arrays
from synth.collective.degraded.lowering import phases_of_program, rehearse_on_integers
from synth.collective.degraded.programs import level_programs
from synth.collective.price.flows import simulate
from synth.collective.price.step_prices import Simulator
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Request
from synth.collective.semantics.programs import Language
from synth.collective.semantics.schedule import GroupList, Schedule
from synth.collective.verify import concrete
from synth.collective.verify.concrete import prove_groups
from synth.collective.verify.replay import Failure
from synth.collective.verify.symbolic import Proved, Refuted

COLLECTIVES = [one for one in Collective if one is not Collective.ALL_TO_ALL]


def without(system: System, *names: str) -> System:
    return system.with_faults([parse_fault(name, system.hierarchy) for name in names])


def asked(system: System, k: int = 3) -> Request:
    left = Axis("data", system.devices - len(system.missing))
    return Request((left,), ("data",), 2**24, k, Language(3))


@st.composite
def lacking(draw: st.DrawFn) -> System:
    """Small machines of switches that lack some devices."""
    cards = draw(st.sampled_from([(2, 3), (3, 3), (2, 2, 2), (4, 2), (2, 3, 2)]))
    hierarchy = Hierarchy.of(**dict(zip("abc", cards, strict=False)))
    system = switches(hierarchy)
    count = draw(st.integers(1, system.devices - 2))
    gone = draw(st.sets(st.integers(0, system.devices - 1), min_size=1, max_size=count))
    names = [
        "/".join(f"{n}{d}" for n, d in zip(hierarchy.names, hierarchy.digits(g), strict=True))
        for g in sorted(gone)
    ]
    left = without(system, *names)
    assume(left.missing and left.devices - len(left.missing) > 1)
    return left


@given(lacking())
@examples(6, 15)
def test_every_program_is_proved_and_replayed_and_none_beats_the_bound(system: System) -> None:
    survivors = Survivors(system)
    for program in level_programs(survivors):
        assert prove_groups(program.steps, survivors.count, chunks=program.chunks) == Proved(
            (survivors.count,)
        )
        assert rehearse_on_integers(program, survivors.count) is None
    report = uneven_answers(system, asked(system))
    assert report.complete
    seconds = [answer.candidate.seconds for answer in report.answers]
    assert seconds == sorted(seconds)
    assert all(one >= report.bound.seconds * (1 - 1e-9) for one in seconds)
    for answer in report.answers:
        assert answer.verdict == Proved((survivors.count,))
        program = answer.candidate.program
        assert rehearse_on_integers(program, survivors.count) is None


@given(lacking(), st.data())
@settings(max_examples=40)
def test_a_program_is_priced_loaded_and_followed_as_any_schedule(
    system: System, data: st.DataObject
) -> None:
    """Link by link a step alone takes as long as its price says, all of them no less."""
    survivors = Survivors(system)
    program = data.draw(st.sampled_from(list(level_programs(survivors))))
    segments = data.draw(st.integers(1, 3))
    size = 2**20 * program.chunks
    found = phases_of_program(program, survivors.devices, size)
    assert not isinstance(found, Failure)
    axis, cards = Axis("all", system.devices), system.hierarchy.cardinalities
    whole = Reduction(Placement(system.hierarchy, (axis,), (cards,)), ("all",))
    schedule = Schedule(Program(()), whole, segments * size, program.chunks, found, segments)
    simulator = Simulator(system, Choice.ANY)
    prices = [
        simulator.exchange(one.collective, one.among, one.size_bytes)
        for one in found
        if isinstance(one.among, GroupList)
    ]
    network = Network.of(system)
    followed = simulate(schedule, prices, network)
    assert followed.complete
    assert followed.seconds >= max(price.seconds for price in prices) * (1 - 1e-9)
    for phase, price in zip(found, prices, strict=True):
        alone = replace(schedule, phases=(phase,), segments=1)
        assert simulate(alone, [price], network).seconds == pytest.approx(price.seconds)


@given(lacking(), st.data())
@settings(max_examples=40)
def test_a_program_that_forgets_somebody_is_refuted_and_wrong_on_arrays(
    system: System, data: st.DataObject
) -> None:
    """Leave one member out of one group: z3 and the arrays say no together."""
    survivors = Survivors(system)
    program = data.draw(st.sampled_from(list(level_programs(survivors))))
    number = data.draw(st.integers(0, len(program.steps) - 1))
    step = program.steps[number]
    group = data.draw(st.integers(0, len(step.groups) - 1))
    member = data.draw(st.integers(0, len(step.groups[group]) - 1))
    groups = [list(one) for one in step.groups]
    del groups[group][member]
    assume(groups[group])
    pieces = None
    if step.pieces is not None:
        some = [list(one) for one in step.pieces]
        del some[group][member]
        pieces = tuple(tuple(one) for one in some)
    broken = replace(step, groups=tuple(tuple(one) for one in groups), pieces=pieces)
    steps = (*program.steps[:number], broken, *program.steps[number + 1 :])
    verdict = prove_groups(steps, survivors.count, chunks=program.chunks)
    wrong = rehearse_on_integers(replace(program, steps=steps), survivors.count)
    assert (wrong is not None) is isinstance(verdict, Refuted)


@given(smart_systems(12), st.data())
@examples(15, 100)
def test_grid_groups_cost_the_seconds_of_the_simulator(system: System, data: st.DataObject) -> None:
    assume(not any(link.domain in (Domain.RING, Domain.TORUS) for link in system.links))
    reduction = data.draw(reductions(system.hierarchy))
    assume(reduction.tree.digits)
    roles = roles_of(reduction, tuple(range(len(reduction.tree.digits))), ())
    groups = groups_of_children(tuple(slot for level in roles for slot in level)).tolist()
    listed = GroupList(tuple(map(tuple, groups)), (1.0,) * len(groups))
    collective = data.draw(st.sampled_from(COLLECTIVES))
    simulator = Simulator(system, Choice.ANY)
    ours = {(x.algorithm, x.protocol): x for x in simulator.lines(collective, listed)}
    theirs = {(x.algorithm, x.protocol): x for x in simulator.lines(collective, roles)}
    assert {a for a, _ in theirs} - {a for a, _ in ours} <= {Algorithm.HALVING_DOUBLING}
    assert set(ours) <= set(theirs)
    for key, line in ours.items():
        assert line.latency_seconds == pytest.approx(theirs[key].latency_seconds)
        _, levels, _ = loads_per_level(SlowestLinks(system).loads(collective, key[0], roles))
        told = dict(line.loads)
        for name, seconds in zip(system.hierarchy.names, levels, strict=True):
            assert told.get(name, 0.0) == pytest.approx(seconds / key[1].share)
        assert told["memory"] == pytest.approx(dict(theirs[key].loads)["memory"])


def test_without_a_whole_node_it_is_the_smaller_machine() -> None:
    """As explicit groups, too: the flat all-reduce on three nodes' devices of four."""
    system = load("dgx-h100:4")
    assert without(system, "node3") == load("dgx-h100:3")
    three = load("dgx-h100:3")
    groups = GroupList((tuple(range(24)),), (1.0,))
    here = Simulator(system, Choice.RING).lines(Collective.ALL_REDUCE, groups)
    there = Simulator(three, Choice.RING).lines(Collective.ALL_REDUCE, groups)
    assert here == there


def test_the_core_is_ranked_as_the_even_machine_is() -> None:
    """Where all that is left is even inside, the core's best is what the planner finds."""
    system = load("p2-a100:2")
    left = without(system, "node0/gpu0", "node1/gpu0")
    [core, *_] = find_cores(Survivors(left))
    assert (core.counts, core.hosts) == ((2, 15), ())
    found = uneven_answers(left, asked(left, k=1)).choices[0].candidate
    even = replace(
        system,
        hierarchy=Hierarchy.of(node=2, gpu=15),
    )
    request = Request(
        (Axis("data", 30),), ("data",), 2**24, 1, Language(3), stripes=False, exact=True
    )
    best = answers(even, request).answers[0].candidate
    assert found.seconds == pytest.approx(best.seconds, rel=1e-3)


def test_a_core_of_every_shape_and_its_satellites() -> None:
    left = without(load("dgx-h100:4"), "node3/gpu5")
    found = {core.counts: core for core in find_cores(Survivors(left))}
    assert set(found) == {(4, 7), (3, 8)}
    assert found[4, 7].hosts == ((0, 5), (8, 13), (16, 21))
    assert sorted(r for hosts in found[3, 8].hosts for r in hosts[1:]) == list(range(24, 31))
    assert len(found[3, 8].hosts) == 7


def test_pieces_that_nobody_keeps_are_found() -> None:
    left = Survivors(without(switches(Hierarchy.of(node=2, gpu=3)), "node1/gpu2"))
    [program] = [
        p
        for p in level_programs(left)
        if p.texts[0] == "reduce-scatter inside each node in 2 shares" and len(p.steps) == 3
    ]
    first = program.steps[0]
    assert first.pieces is not None
    assert first.pieces[0] == (frozenset({0}), frozenset({1}), frozenset())
    lost = ((frozenset({0}), frozenset(), frozenset()), first.pieces[1])
    steps = (replace(first, pieces=lost), *program.steps[1:])
    assert isinstance(prove_groups(steps, left.count, chunks=program.chunks), Refuted)
    assert isinstance(rehearse_on_integers(replace(program, steps=steps), left.count), Failure)


@pytest.mark.parametrize(
    ("axes", "over", "told"),
    [
        ({"data": 32}, ["data"], "as in data=31"),
        ({"data": 31, "model": 1}, ["data"], "one axis of all that are left"),
    ],
)
def test_axes_that_do_not_fit_what_is_left_are_refused(
    axes: dict[str, int], over: list[str], told: str
) -> None:
    left = without(load("dgx-h100:4"), "node3/gpu5")
    given_axes = tuple(Axis(name, size) for name, size in axes.items())
    request = replace(asked(left), axes=given_axes, over=tuple(over))
    with pytest.raises(InputError, match=told):
        uneven_answers(left, request)


def test_rings_of_devices_and_too_many_are_refused() -> None:
    ring = load("tpu-v5e-slice")
    name = "/".join(f"{n}0" for n in ring.hierarchy.names)
    with pytest.raises(InputError, match="messages pass through its devices"):
        Survivors(without(ring, name))
    with pytest.raises(InputError, match="at most 256"):
        Survivors(without(load("dgx-h100:64"), "node0/gpu0"))


def test_one_device_that_is_left_has_nothing_to_do() -> None:
    left = without(switches(Hierarchy.of(node=1, gpu=2, core=1)), "node0/gpu0")
    report = uneven_answers(left, asked(left))
    assert [a.candidate.program for a in report.answers] == [GroupProgram((), 1, ())]
    assert report.bound.seconds == 0


def test_the_commands_of_top_are_emitted_and_run(tmp_path: Path) -> None:
    left = without(load("dgx-h100:4"), "node3/gpu5")
    body = json.loads(json.dumps(to_json(UnevenReply.of(uneven_answers(left, asked(left))))))
    ranking = read_uneven_ranking(body)
    found = groups_document(ranking.handed(1))
    assert found["devices"] == [d for d in range(32) if d != 29]
    for rank in (1, 2, 3):
        seen = run_on_arrays(ranking.handed(rank), "float32", 1001, 1)
        assert seen.equal
        assert seen.bitwise_equal
    for answer in body["answers"]:
        assert_pieces_are_held(answer["group_steps"], answer["chunks"], 31)
    body["answers"][0]["group_steps"][0]["groups"][0].pop()
    with pytest.raises(InputError):
        read_uneven_ranking(body).handed(1).check()


def assert_pieces_are_held(steps: list[dict[str, Any]], chunks: int, ranks: int) -> None:
    """Followed chunk by chunk from the text alone: a piece is of what its group holds, each chunk
    of that in one of the pieces.
    """
    held = {rank: set(range(chunks)) for rank in range(ranks)}
    for step in steps:
        for number, group in enumerate(step["groups"]):
            whole = set().union(*(held[rank] for rank in group))
            match step["collective"]:
                case "reduce-scatter":
                    pieces = step["pieces"][number]
                    assert sorted(chunk for piece in pieces for chunk in piece) == sorted(whole)
                    held.update(zip(group, map(set, pieces), strict=True))
                case "reduce":
                    held.update({rank: set() for rank in group} | {group[0]: whole})
                case _:
                    held.update({rank: set(whole) for rank in group})


@pytest.mark.parametrize(
    ("name", "lost"), [("dgx-h100:4", "node3/gpu5"), ("p2-a100:2", "node1/gpu3")]
)
def test_no_piece_names_a_chunk_that_its_group_does_not_hold(name: str, lost: str) -> None:
    left = without(load(name), lost)
    report = uneven_answers(left, replace(asked(left), k=40))
    scattering = 0
    for answer in report.answers:
        program = answer.candidate.program
        steps = [to_json(GroupStepPart.of(step)) for step in program.steps]
        scattering += sum(step["pieces"] is not None for step in steps)
        assert_pieces_are_held(steps, program.chunks, left.devices - 1)
    assert scattering > 10


def test_the_example_of_the_page_is_right() -> None:
    text = (ROOT / "docs" / "groups.md").read_text(encoding="utf-8")
    [example] = [json.loads(part.split("```")[0]) for part in text.split("```json")[1:]]
    steps = [
        concrete.GroupStep(
            Collective(step["collective"]),
            tuple(map(tuple, step["groups"])),
            step["pieces"]
            and tuple(tuple(frozenset(piece) for piece in some) for some in step["pieces"]),
        )
        for step in example["steps"]
    ]
    assert_pieces_are_held(example["steps"], example["chunks"], len(example["devices"]))
    verdict = prove_groups(steps, example["proved_for"], chunks=example["chunks"])
    assert isinstance(verdict, Proved)
    left = without(load("dgx-h100:2"), "node1/gpu5")
    written = groups_document(
        read_uneven_ranking(to_json(UnevenReply.of(uneven_answers(left, asked(left))))).handed(1)
    )
    assert list(written) == list(example)
    assert {f"`{key}`" for key in written} <= set(text.replace(",", " ").split())
