from __future__ import annotations

from itertools import pairwise, permutations
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammar import list_instructions
from hierarchies import Domain, Hierarchy, InputError, Level, Link, Reduction, System
from hierarchies.fabric import (
    Cast,
    Role,
    Slot,
    busiest_block,
    count_busy_blocks,
    count_children,
    count_members,
    groups_of_children,
    participation,
    roles_of,
    route_load,
)
from price_oracle import Fraction, Machine, groups_of
from strategies import reductions
from synth.collective.algorithms.algorithms import cycle

DIGITS = (Role.FREE, Role.ZERO, Role.FIXED)
SLOTS = st.lists(
    st.builds(Slot, st.integers(1, 4), st.sampled_from(DIGITS)), min_size=1, max_size=3
).map(tuple)


@st.composite
def instructed(draw: st.DrawFn) -> tuple[Reduction, Cast, list[tuple[int, ...]]]:
    """A reduction, the roles an instruction gives to its parts, and the groups it names."""
    reduction = draw(reductions().filter(lambda r: r.tree.digits))
    chosen = draw(
        st.sampled_from(list_instructions(len(reduction.tree.digits), across=True))
    ).groups
    return reduction, roles_of(reduction, chosen.free, chosen.zero), groups_of(reduction, chosen)


def _children(reduction: Reduction, level: int, devices: tuple[int, ...]) -> list[int]:
    """Which children at a level some devices are in, over the whole machine."""
    return [device // reduction.placement.hierarchy.devices_in_child(level) for device in devices]


@given(instructed())
def test_slots_multiply_to_the_cardinality_and_neighbours_differ(
    case: tuple[Reduction, Cast, list[tuple[int, ...]]],
) -> None:
    reduction, levels, _ = case
    for slots, size in zip(levels, reduction.placement.hierarchy.cardinalities, strict=True):
        assert prod(slot.size for slot in slots) == size
        assert all(a.role is not b.role for a, b in pairwise(slots))


@given(instructed())
def test_members_counts_the_children_that_hold_members_of_one_group(
    case: tuple[Reduction, Cast, list[tuple[int, ...]]],
) -> None:
    reduction, levels, groups = case
    for group in groups:
        columns = zip(*map(reduction.placement.hierarchy.digits, group), strict=True)
        assert [len(set(column)) for column in columns] == [count_members(s) for s in levels]
    assert len(groups[0]) == prod(count_members(slots) for slots in levels)


@given(instructed())
def test_playing_names_the_children_with_a_device_that_takes_part(
    case: tuple[Reduction, Cast, list[tuple[int, ...]]],
) -> None:
    reduction, levels, groups = case
    for level, slots in enumerate(levels):
        seen = {
            reduction.placement.hierarchy.digits(device)[level]
            for group in groups
            for device in group
        }
        assert seen == set(np.flatnonzero(participation(slots)).tolist())


@given(instructed(), st.data())
def test_busiest_block_counts_devices_behind_one_port(
    case: tuple[Reduction, Cast, list[tuple[int, ...]]], data: st.DataObject
) -> None:
    reduction, levels, groups = case
    cards = reduction.placement.hierarchy.cardinalities
    level = data.draw(st.integers(0, len(cards) - 1))
    deepest = data.draw(st.integers(level + 1, len(cards)))
    divisors = [1]
    if deepest < len(cards):
        divisors = [d for d in range(1, cards[deepest] + 1) if cards[deepest] % d == 0]
    block = data.draw(st.sampled_from(divisors)) * prod(cards[deepest + 1 :])
    counts: dict[int, int] = {}
    for group in groups:
        for device in group:
            counts[device // block] = counts.get(device // block, 0) + 1
    assert busiest_block(levels[level + 1 :], block) == max(counts.values())


@given(instructed())
def test_groups_of_children_are_those_of_the_instruction(
    case: tuple[Reduction, Cast, list[tuple[int, ...]]],
) -> None:
    reduction, levels, groups = case
    hierarchy = reduction.placement.hierarchy
    for level, slots in enumerate(levels):
        if not slots:
            continue
        expected = {
            tuple(sorted({hierarchy.digits(device)[level] for device in group})) for group in groups
        }
        found = groups_of_children(slots)
        assert {tuple(row) for row in found.tolist()} == expected
        assert found.shape == (len(expected), count_members(slots))


def test_the_only_child_of_a_parent_is_a_group() -> None:
    assert groups_of_children(()).tolist() == [[0]]


@pytest.mark.parametrize(
    ("domain", "wraps"),
    [(Domain.RING, True), (Domain.MESH, True), (Domain.TORUS, True), (Domain.TORUS, False)],
)
@pytest.mark.parametrize("children", range(2, 10))
def test_one_message_takes_the_shortest_ways(domain: Domain, wraps: bool, children: int) -> None:
    machine = _one_level(domain, children, wraps)
    for source, target in permutations(range(children), 2):
        demand = np.zeros((children, children))
        demand[source, target] = 1
        found = route_load(
            domain, (Slot(children, Role.FREE),), lambda m, demand=demand: demand, wraps
        )
        routes = machine.routes(source, target)
        assert {len(way) for _, way in routes} == {found.hops}
        assert found.peak == pytest.approx(float(max(share for share, _ in routes)))


def test_a_circle_too_large_to_route_is_refused() -> None:
    with pytest.raises(InputError, match="a ring of 1025 children; at most 1024"):
        route_load(Domain.RING, (Slot(1025, Role.FREE),), cycle)


@given(
    st.sampled_from([Domain.RING, Domain.MESH, Domain.BUS, Domain.TORUS]),
    st.booleans(),
    SLOTS,
    st.data(),
)
def test_load_is_that_of_the_messages_one_by_one(
    domain: Domain, joined: bool, slots: tuple[Slot, ...], data: st.DataObject
) -> None:
    wraps = joined or domain not in (Domain.RING, Domain.TORUS)
    m = count_members(slots)
    entry = st.integers(0, 4)
    rows = data.draw(st.lists(st.lists(entry, min_size=m, max_size=m), min_size=m, max_size=m))
    demand = np.array(rows, dtype=np.float64)
    np.fill_diagonal(demand, 0)
    machine = _one_level(domain, prod(slot.size for slot in slots), wraps)
    messages = [
        (group[i], group[j], Fraction(int(demand[i, j])))
        for group in groups_of_children(slots).tolist()
        for i, j in permutations(range(m), 2)
        if demand[i, j]
    ]
    found = route_load(domain, slots, lambda m: demand, wraps)
    assert found.peak == pytest.approx(machine.busy(messages).get("child", 0.0))
    ways = [len(way) for a, b, _ in messages for _, way in machine.routes(a, b)]
    assert found.hops == max(ways, default=1)


@given(SLOTS, st.integers(2, 3))
def test_neighbouring_slots_of_a_role_are_as_good_as_one(
    slots: tuple[Slot, ...], factor: int
) -> None:
    for place, slot in enumerate(slots):
        merged = (*slots[:place], Slot(slot.size * factor, slot.role), *slots[place + 1 :])
        parted = (*slots[:place], slot, Slot(factor, slot.role), *slots[place + 1 :])
        assert count_members(merged) == count_members(parted)
        assert participation(merged).tolist() == participation(parted).tolist()
        assert groups_of_children(merged).tolist() == groups_of_children(parted).tolist()


def _one_level(domain: Domain, children: int, wraps: bool) -> Machine:
    hierarchy = Hierarchy((Level("child", children),))
    return Machine(System("one", "", hierarchy, (Link(domain, 1.0, 0.0, wraps=wraps),), 1.0))


@given(SLOTS, st.integers(1, 5))
def test_idle_children_come_last_and_do_nothing(slots: tuple[Slot, ...], idle: int) -> None:
    more = (*slots, Slot(idle, Role.IDLE))
    assert count_children(more) == count_children(slots) + idle
    assert participation(more).tolist() == [*participation(slots).tolist(), *[False] * idle]
    assert groups_of_children(more).tolist() == groups_of_children(slots).tolist()
    assert count_members(more) == count_members(slots)


@given(instructed(), st.data())
def test_busy_blocks_are_those_with_a_device_that_takes_part(
    case: tuple[Reduction, Cast, list[tuple[int, ...]]], data: st.DataObject
) -> None:
    reduction, levels, groups = case
    cards = reduction.placement.hierarchy.cardinalities
    deepest = data.draw(st.integers(0, len(cards)))
    divisors = [1]
    if deepest < len(cards):
        divisors = [d for d in range(1, cards[deepest] + 1) if cards[deepest] % d == 0]
    block = data.draw(st.sampled_from(divisors)) * prod(cards[deepest + 1 :])
    there = {device // block for group in groups for device in group}
    assert count_busy_blocks(levels, block) == len(there)
