"""Max-min fair levels: against exact filling from scratch, and by what makes them fair."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhaustive import examples
from synth.events.max_min import Sharing, scarce_uses

Parts = dict[int, Fraction]
CLOSE = 1e-9


def filled(uses: dict[int, Parts], ceilings: dict[int, Fraction]) -> dict[int, Fraction]:
    """Progressive filling by its definition: all rise together, one event after the other."""
    levels: dict[int, Fraction] = {}
    while len(levels) < len(uses):
        rising = [flow for flow in uses if flow not in levels]
        stops = [ceilings[flow] for flow in rising]
        for resource in {r for flow in rising for r in uses[flow]}:
            taken = sum(y * uses[flow].get(resource, 0) for flow, y in levels.items())
            slope = sum(uses[flow].get(resource, Fraction(0)) for flow in rising)
            stops.append((1 - taken) / slope)
        level = min(stops)
        together = levels | dict.fromkeys(rising, level)
        full = {
            r
            for r in {r for flow in rising for r in uses[flow]}
            if sum(y * uses[flow].get(r, 0) for flow, y in together.items()) == 1
        }
        for flow in rising:
            if ceilings[flow] == level or full & set(uses[flow]):
                levels[flow] = level
    return levels


PARTS = st.one_of(
    st.integers(1, 8).map(lambda n: n / 8), st.floats(1e-3, 1.0), st.sampled_from([0.5, 1.0])
)


@st.composite
def tables(draw: st.DrawFn) -> list[dict[int, float]]:
    """What each of some flows uses of some resources; all of one resource now and then."""
    resources = draw(st.integers(1, 6))
    use = st.dictionaries(st.integers(0, resources - 1), PARTS, min_size=1, max_size=4)
    return draw(st.lists(use, min_size=1, max_size=8))


Changes = list[set[int]]
TURNS = st.lists(st.sets(st.integers(0, 7), max_size=3), min_size=1, max_size=12)


def ceilings_of(table: list[dict[int, float]]) -> list[float]:
    return [1 / max(use.values()) for use in table]


def exactly(table: list[dict[int, float]], moving: set[int]) -> dict[int, Fraction]:
    uses = {flow: {r: Fraction(part) for r, part in table[flow].items()} for flow in moving}
    return filled(uses, {flow: Fraction(ceilings_of(table)[flow]) for flow in moving})


def check(
    sharing: Sharing, table: list[dict[int, float]], moving: set[int], close: float = CLOSE
) -> None:
    for flow, level in exactly(table, moving).items():
        assert sharing.levels[flow] == pytest.approx(float(level), rel=close)
    for flow in set(range(len(table))) - moving:
        assert sharing.levels[flow] == 0.0


@given(tables(), TURNS)
@examples(30, 400)
def test_levels_are_those_of_filling_from_scratch(
    table: list[dict[int, float]], turns: Changes
) -> None:
    """After every change, be it of one flow or several, of which some stop and start at once."""
    sharing = Sharing([tuple(use.items()) for use in table], ceilings_of(table))
    moving: set[int] = set()
    for turn in turns:
        named = {flow % len(table) for flow in turn}
        leaving = named & moving
        arriving = (named - moving) | {flow for flow in leaving if flow % 2}
        before = list(sharing.levels)
        told = set(sharing.change(leaving, arriving))
        moving = (moving - leaving) | arriving
        check(sharing, table, moving)
        assert arriving <= told
        assert {f for f in moving - arriving if sharing.levels[f] != before[f]} == told - arriving


def test_roundings_do_not_add_up() -> None:
    """Thousands of changes later levels are still those of filling from scratch."""
    random = np.random.default_rng(0)
    table = [
        {int(r): float(random.uniform(0.1, 1)) for r in random.choice(12, 4, replace=False)}
        for _ in range(16)
    ]
    sharing = Sharing([tuple(use.items()) for use in table], ceilings_of(table))
    moving: set[int] = set()
    for turn in range(5000):
        flow = int(random.integers(len(table)))
        sharing.change(moving & {flow}, {flow} - moving)
        moving ^= {flow}
        if turn % 499 == 0:
            check(sharing, table, moving, 1e-12)


@given(tables(), st.sets(st.integers(0, 7)))
def test_plentiful_resources_do_not_decide(table: list[dict[int, float]], some: set[int]) -> None:
    triples = [(flow, r, part) for flow, use in enumerate(table) for r, part in use.items()]
    flow, resource, part = (np.array(column) for column in zip(*triples, strict=True))
    uses = scarce_uses(flow, resource, part, np.array(ceilings_of(table)))
    sharing = Sharing(uses, ceilings_of(table))
    moving = {flow % len(table) for flow in some}
    sharing.change([], moving)
    check(sharing, table, moving)
    assert sum(map(len, uses)) <= len(triples)


def test_resources_of_one_flow_are_never_scarce() -> None:
    flow, resource = np.array([0, 0, 1]), np.array([0, 1, 2])
    assert scarce_uses(flow, resource, np.array([1.0, 0.5, 1.0]), np.ones(2)) == [[], []]


def test_of_resources_with_the_same_flows_the_busiest_is_scarce() -> None:
    flow, resource = np.array([0, 1, 0, 1, 0, 1]), np.array([0, 0, 1, 1, 2, 2])
    part = np.array([1.0, 0.5, 0.9, 0.5, 0.5, 0.6])
    kept = scarce_uses(flow, resource, part, np.array([1.0, 1 / 0.6]))
    assert sorted(part for _, part in kept[0]) == [0.5, 1.0]
    assert sorted(part for _, part in kept[1]) == [0.5, 0.6]


def test_unhindered_flows_are_at_their_ceiling() -> None:
    """Two share a resource; a third uses another one with the faster of them."""
    uses = [((0, 1.0),), ((0, 0.25), (1, 0.25)), ((1, 1.0),)]
    sharing = Sharing(uses, [1.0, 4.0, 1.0])
    assert sharing.change([], [0]) == [0]
    assert sharing.levels == [1.0, 0.0, 0.0]
    sharing.change([], [1, 2])
    assert sharing.levels == pytest.approx([0.8, 0.8, 0.8])
    sharing.change([0, 2], [])
    assert sharing.levels == pytest.approx([0.0, 4.0, 0.0])
