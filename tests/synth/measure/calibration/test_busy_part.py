"""The busy part of a machine: what it is, and that all who price it say the same of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from math import prod

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from exhaustive import Sample, examples, sampled
from grammar import Goal
from hierarchies import (
    Domain,
    Hierarchy,
    InputError,
    Level,
    Link,
    System,
    catalogue,
    load,
    parse_fault,
)
from hierarchies.fabric import (
    busiest_block,
    count_busy_blocks,
    count_children,
    count_groups_within,
    groups_of_children,
)
from synth.collective.algorithms.protocols import Protocol
from synth.measure.calibration.candidates import FitCandidate, Predictor, candidates
from synth.measure.calibration.measurements import Measurement, busy_part

SYSTEMS = {name: load(name) for name in catalogue()}
MiB = 2**20


def divisors(number: int) -> list[int]:
    return [part for part in range(1, number + 1) if number % part == 0]


def few(system: System) -> System:
    """The machine with few units outermost, so that parts of it are soon listed."""
    return system.resized(min(4, system.hierarchy.cardinalities[0]))


@st.composite
def measurements(draw: st.DrawFn) -> tuple[System, Measurement]:
    system = few(SYSTEMS[draw(st.sampled_from(sorted(SYSTEMS)))])
    busy = tuple(draw(st.integers(1, count)) for count in system.hierarchy.cardinalities)
    members = tuple(draw(st.sampled_from(divisors(count))) for count in busy)
    assume(prod(members) > 1)
    goal = draw(st.sampled_from(list(Goal)))
    return system, Measurement(goal.value, members, busy, ())


sizes = st.integers(3, 33).map(lambda power: 2**power)


def check_bound(system: System, measurement: Measurement, size_bytes: int) -> None:
    predictor = Predictor(system, measurement)
    least = predictor.bound(size_bytes).seconds
    for name, seconds in predictor.at(size_bytes).options.items():
        assert seconds >= least * (1 - 1e-9), (system.name, measurement, name)


@given(measurements(), sizes)
@examples(30, 300)
def test_nothing_is_predicted_to_take_less_than_the_bound(
    asked: tuple[System, Measurement], size_bytes: int
) -> None:
    check_bound(*asked, size_bytes)


def parts_of(system: System) -> list[Measurement]:
    """Every request on every part of a machine, of few counts a level, and on all its groups."""
    counts = [
        sorted({1, 2, 3, count // 2, count} & {*range(1, count + 1)})
        for count in system.hierarchy.cardinalities
    ]
    return [
        Measurement(goal.value, members, busy, ())
        for busy in product(*counts)
        for members in product(*(divisors(count) for count in busy))
        if prod(members) > 1
        for goal in Goal
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SYSTEMS))
@sampled(300, seed=16)
def test_nothing_is_predicted_to_take_less_than_the_bound_on_any_part(
    name: str, sample: Sample
) -> None:
    """All of most machines; of the larger ones, which have up to 23,000, some."""
    system = few(SYSTEMS[name])
    for measurement in sample(parts_of(system)):
        check_bound(system, measurement, 256 * MiB)


def test_three_gpus_of_a_node_reach_two_of_its_four_nics() -> None:
    """Two share one NIC, the third has one for itself: the first carries two thirds."""
    system = load("aws-p4d:4")
    found = Predictor(system, Measurement("all-gather", (4, 3), (4, 3), ()))
    rate = system.links[0].bandwidth_bytes_per_second
    assert found.at(256 * MiB).options["ring"] == pytest.approx(
        256 * MiB * 11 / 12 * 2 / 3 / rate, rel=0.02
    )
    assert found.bound(256 * MiB).seconds == pytest.approx(256 * MiB * 3 / 4 / 2 / rate)


def nominal_seconds(system: System, candidate: FitCandidate, size_bytes: float) -> float:
    """What the numbers that a fit weighs come to, at the numbers of the description."""
    waited = sum(
        n * (candidate.protocol.latency_seconds(link) or 0.0)
        for n, link in zip(candidate.waited, system.links, strict=True)
    )
    launch = candidate.protocol.launch_seconds if system.launches else 0.0
    busy = max(candidate.way.busy_seconds) / candidate.protocol.share
    return launch + waited + size_bytes * max(busy, candidate.way.memory_seconds)


@given(measurements(), sizes)
@examples(20, 150)
def test_a_fit_and_the_doctor_price_a_measurement_alike(
    asked: tuple[System, Measurement], size_bytes: int
) -> None:
    system, measurement = asked
    try:
        known = candidates(system, measurement)
    except InputError as error:
        with pytest.raises(InputError, match=str(error)[:20]):
            Predictor(system, measurement)
        return
    for candidate in known:
        forced = replace(measurement, algorithm=candidate.key[1], protocol=candidate.protocol.value)
        price = Predictor(system, forced).at(size_bytes)
        if candidate.protocol is Protocol.SIMPLE:
            assert price.seconds == pytest.approx(nominal_seconds(system, candidate, size_bytes))
        twice = Predictor(system, forced).at(2 * size_bytes).seconds - price.seconds
        more = nominal_seconds(system, candidate, 2 * size_bytes)
        assert twice == pytest.approx(more - nominal_seconds(system, candidate, size_bytes))


@given(measurements())
@settings(max_examples=150, deadline=None)
def test_a_part_has_the_ports_that_its_busy_devices_reach(
    asked: tuple[System, Measurement],
) -> None:
    """Device by device: who is busy, which of a child's ports is whose, how many share the first.

    Of a level whose children are joined by ports: how many ports are reached, and the most devices
    behind one.
    """
    system, measurement = asked
    part = busy_part(system, measurement)
    cards, busy = system.hierarchy.cardinalities, measurement.busy
    for level, link in enumerate(system.links):
        if link.domain is not Domain.SWITCH:
            continue
        block, behind = system.block(level), Counter[int]()
        for digits in product(*(range(count) for count in busy[level + 1 :])):
            number = 0
            for digit, count in zip(digits, cards[level + 1 :], strict=True):
                number = number * count + digit
            behind[number // block] += 1
        inside = part.roles[level + 1 :]
        assert count_busy_blocks(inside, part.system.block(level)) == len(behind)
        assert busiest_block(inside, part.system.block(level)) == max(behind.values())
        assert part.system.port_bytes_per_second(level) == system.port_bytes_per_second(level)


@given(measurements())
def test_a_part_has_the_groups_and_devices_that_were_busy(
    asked: tuple[System, Measurement],
) -> None:
    system, measurement = asked
    part = busy_part(system, measurement)
    assert part.members == measurement.members
    assert count_groups_within(part.roles) * prod(part.members) == prod(measurement.busy)
    assert tuple(map(count_children, part.roles)) == part.system.hierarchy.cardinalities
    whole = replace(measurement, busy=system.hierarchy.cardinalities, members=part.members)
    if all(c % m == 0 for c, m in zip(whole.busy, whole.members, strict=True)):
        assert busy_part(system, whole).system is system


def test_a_part_of_a_machine_with_exceptions_is_refused_by_all() -> None:
    system = load("dgx-a100:4")
    worn = system.with_faults([parse_fault("node1/nic2", system.hierarchy, 0.5)])
    asked = Measurement("all-reduce", (2, 8), (2, 8), (), source="a.txt")
    for ask in (busy_part, candidates, Predictor):
        with pytest.raises(InputError, match=r"a\.txt.*which has exceptions"):
            ask(worn, asked)
        ask(worn, replace(asked, members=(4, 8), busy=(4, 8)))


def test_sends_and_receives_are_predicted_and_have_no_bound() -> None:
    predictor = Predictor(load("dgx-a100:2"), Measurement("send-receive", (2, 8), (2, 8), ()))
    assert predictor.at(MiB).seconds > 0
    with pytest.raises(ValueError, match="send-receive"):  # the doctor leaves such tables out first
        predictor.bound(MiB)


@given(measurements())
def test_groups_are_neighbours_and_circles_stay_whole(asked: tuple[System, Measurement]) -> None:
    system, measurement = asked
    part = busy_part(system, measurement)
    for level, (members, busy) in enumerate(
        zip(measurement.members, measurement.busy, strict=True)
    ):
        found = groups_of_children(part.roles[level])
        assert found.tolist() == [[*range(i, i + members)] for i in range(0, busy, members)]
        circle = system.links[level].domain in (Domain.RING, Domain.TORUS)
        if circle and busy > 1:
            assert part.system.hierarchy.levels[level] == system.hierarchy.levels[level]


def test_a_bound_counts_no_port_that_only_idle_devices_reach() -> None:
    """One GPU of each node, kept beside three idle ones that share its port to the node's switch.

    Two of these have another port out of the rack, which nobody busy reaches.
    """
    levels = (Level("rack", 2), Level("node", 2), Level("gpu", 8))
    links = (
        Link(Domain.SWITCH, 10e9, 1e-6, ports=8),
        Link(Domain.SWITCH, 50e9, 1e-6, ports=2),
        Link(Domain.SWITCH, 300e9, 1e-6),
    )
    system = System("racks", "", Hierarchy(levels), links, 2e12)
    asked = Measurement("all-gather", (2, 1, 1), (2, 2, 1), ())
    assert busy_part(system, asked).system.hierarchy.cardinalities == (2, 2, 4)
    found = Predictor(system, asked).bound(1 << 30)
    assert (found.level, found.seconds) == ("rack", pytest.approx((1 << 30) / 20e9))
