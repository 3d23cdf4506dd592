from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import chain

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from exhaustive import examples
from explicit_steps import ROOTED, ROUNDS, explicit
from grammar import Collective, Goal, Groups, Instruction, Program, list_instructions, parse, spell
from hierarchies import (
    Axis,
    Domain,
    Hierarchy,
    InputError,
    Level,
    Link,
    MessageCurve,
    Placement,
    Reduction,
    System,
    load,
    placements,
)
from hierarchies.fabric import roles_of
from machines import bare, calibration
from price_oracle import Group, Machine, Wire, groups_of, least_seconds
from strategies import SWITCHES, placed, reductions, systems, with_spare_ports
from synth.collective.algorithms.algorithms import Algorithm, Choice
from synth.collective.algorithms.protocols import Protocol
from synth.collective.price.bound import bound
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import LATENCY, InstructionPrice
from synth.collective.price.ways import MEMORY, PriceLine
from synth.collective.semantics.layout import Move
from synth.collective.semantics.lowering import lower, moves
from synth.collective.semantics.programs import Language, Vertex, explore_moves
from synth.collective.semantics.rules import Derivation
from synth.collective.semantics.schedule import Exchange
from synth.collective.verify.rehearsal import derive_valid
from synth.search.best_first import PathGraph

GB = 1e9


@cache
def explored(depth: int) -> PathGraph[Vertex, Move]:
    return explore_moves(depth, Language(3, across=True))


@cache
def written(depth: int) -> tuple[tuple[Instruction, ...], ...]:
    """Every program of up to three steps, as instructions."""
    graph = explored(depth)
    same = [0] * len(graph.alphabet)
    return tuple(
        tuple(graph.alphabet[label].instruction for label in path.labels)
        for path in graph.cheapest(same, same)
    )


@st.composite
def machines(draw: st.DrawFn, most_devices: int = 12, kinds: Iterable[Domain] = Domain) -> System:
    """As ``systems``, now and then with more ports than devices."""
    return with_spare_ports(draw, draw(systems(most_devices, kinds)))


@st.composite
def asked(
    draw: st.DrawFn, most_devices: int = 12, kinds: Iterable[Domain] = Domain
) -> tuple[System, Reduction, Instruction]:
    """A system, a reduction on it, and an instruction its tree admits."""
    system = draw(machines(most_devices, kinds))
    reduction = draw(reductions(system.hierarchy))
    assume(0 < len(reduction.tree.digits) <= 4)
    known = list_instructions(len(reduction.tree.digits), across=True)
    return system, reduction, draw(st.sampled_from(known))


@st.composite
def programmed(draw: st.DrawFn, most_devices: int = 12) -> tuple[System, Reduction, Derivation]:
    """A system, a reduction on it, and a valid program of up to three steps."""
    system = draw(machines(most_devices))
    reduction = draw(reductions(system.hierarchy))
    assume(0 < len(reduction.tree.digits) <= 3)
    return (
        system,
        reduction,
        derivation_of(draw(st.sampled_from(written(len(reduction.tree.digits)))), reduction),
    )


def derivation_of(steps: tuple[Instruction, ...], reduction: Reduction) -> Derivation:
    tree = reduction.tree
    return derive_valid(Program(tuple(spell(step, tree) for step in steps)), tree)


def lines_of(system: System, reduction: Reduction, what: Instruction) -> tuple[PriceLine, ...]:
    roles = roles_of(reduction, what.groups.free, what.groups.zero)
    return Simulator(system, Choice.ANY).lines(what.collective, roles)


def phases(
    system: System,
    reduction: Reduction,
    derivation: Derivation,
    payload_bytes: float = GB,
    choice: Choice = Choice.ANY,
) -> list[InstructionPrice]:
    simulator = Simulator(system, choice)
    return [
        price
        for move in moves(derivation)
        for price in simulator.move(move, reduction, payload_bytes)
    ]


def seconds(
    system: System, reduction: Reduction, derivation: Derivation, payload_bytes: float = GB
) -> float:
    return sum(price.seconds for price in phases(system, reduction, derivation, payload_bytes))


def busy(
    system: System, line: PriceLine, collective: Collective, groups: list[Group]
) -> dict[str, float]:
    """The explicit model's seconds a byte, for each level."""
    machine = Machine(system)
    whole: Counter[Wire] = Counter()
    for group in groups:
        for wire, share in explicit(machine, line.algorithm, collective, group).items():
            whole[wire] += share
    return machine.slowest(dict(whole))


def loads(line: PriceLine) -> dict[str, float]:
    """The simulator's seconds a byte, for each level."""
    found = dict(line.loads)
    del found[MEMORY]
    return found


# The busiest link, against every message put on every link.


@given(asked())
@examples(25, 250)
def test_levels_are_as_busy_as_their_busiest_link(
    case: tuple[System, Reduction, Instruction],
) -> None:
    """On every domain, level by level, where an algorithm splits the buffer or is a tree."""
    system, reduction, what = case
    assume(what.collective not in ROOTED)
    groups = groups_of(reduction, what.groups)
    assume(Machine(system).turns(groups[0]) <= 200)
    for line in lines_of(system, reduction, what):
        expected = busy(system, line, what.collective, groups)
        assert loads(line) == pytest.approx(expected, rel=1e-9), line.algorithm


@given(asked())
@examples(20, 150)
def test_chains_are_as_busy_as_their_busiest_link(
    case: tuple[System, Reduction, Instruction],
) -> None:
    """But on a bus that outer traffic passes through: it is counted as if every device sent and
    got a share, which the ends of a chain do not; at most twice the truth.
    """
    system, reduction, what = case
    what = replace(what, collective=Collective.REDUCE)
    groups = groups_of(reduction, what.groups)
    assume(Machine(system).alike(groups[0]))
    line = lines_of(system, reduction, what)[0]
    expected = busy(system, line, what.collective, groups)
    found = loads(line)
    assert set(found) == set(expected)
    for name, value in expected.items():
        level = system.hierarchy.index(name)
        passed = any(level in system.through(outer) for outer in range(level))
        slack = 2 if system.links[level].domain is Domain.BUS and passed else 1
        assert value * (1 - 1e-9) <= found[name] <= slack * value * (1 + 1e-9)


@given(asked(18, kinds=SWITCHES), st.sampled_from(ROOTED))
@examples(20, 150)
def test_no_port_carries_more_of_linear_chains_than_the_price_of_chains(
    case: tuple[System, Reduction, Instruction], collective: Collective
) -> None:
    """Rings cut open at the root can be run: every member sends and gets each piece once at most.

    On no level are they busier than the price says, and no price says more than chains that go
    level by level, each from the first child to the last, put on ports together.
    """
    system, reduction, what = case
    machine, to_first = Machine(system), collective is Collective.REDUCE
    groups = groups_of(reduction, what.groups)
    found = loads(lines_of(system, reduction, replace(what, collective=collective))[0])
    linear = machine.busy(
        message
        for group in groups
        for steps in machine.cut_rings(group, to_first)
        for message in machine.over_ports(group, steps)
    )
    apart = machine.busy(m for g in groups for m in machine.chain(g, to_first))
    assert set(linear) == set(found) == set(apart)
    for level, name in enumerate(system.hierarchy.names):
        if name in found:
            assert linear[name] <= found[name] * (1 + 1e-9)
            assert found[name] <= apart[name] * (1 + 1e-9)
            here, several = machine.passing(level, groups[0])
            if here == several:
                assert found[name] == pytest.approx(linear[name], rel=1e-9)


@pytest.mark.parametrize("collective", ROOTED)
def test_a_linear_chain_passes_every_port_with_the_payload_once(collective: Collective) -> None:
    """What enters a node from another rack is not added to what enters it from another node."""
    system = load("superpod-h100-oversubscribed:2")
    [placement] = placements(system.hierarchy, (Axis("data", system.devices),))
    everyone = Instruction(collective, Groups((0, 1, 2, 3)))
    line = lines_of(system, Reduction(placement, ("data",)), everyone)[0]
    assert dict(line.bytes_per_port) == {"pod": 1 / 32, "rack": 1 / 16, "node": 1 / 8, "gpu": 1}


@given(asked(18), st.booleans())
@settings(deadline=None)
def test_linear_chains_take_every_contribution_to_the_root_once(
    case: tuple[System, Reduction, Instruction], to_first: bool
) -> None:
    """Message by message, and what the root has everywhere; nobody sends or gets a piece twice."""
    system, reduction, what = case
    group = groups_of(reduction, what.groups)[0]
    for steps in Machine(system).cut_rings(group, to_first):
        held = {device: Counter([device]) for device in group}
        for source, target, _ in steps:
            if to_first:
                held[target] += held[source]
            else:
                assert source == group[0] or held[source] == {group[0]: 1}
                held[target] = Counter(held[source])
        if to_first:
            assert held[group[0]] == Counter(group)
        else:
            assert all(each == {group[0]: 1} for each in held.values())
        for ends in zip(*((source, target) for source, target, _ in steps), strict=True):
            assert max(Counter(ends).values()) == 1
        assert len(steps) == len(group) - 1


@given(asked(kinds=SWITCHES), st.sampled_from(ROOTED))
@settings(deadline=None)
def test_rooted_trees_on_switches_are_as_busy_as_two_explicit_trees(
    case: tuple[System, Reduction, Instruction], collective: Collective
) -> None:
    system, reduction, what = case
    groups = groups_of(reduction, what.groups)
    assume(Machine(system).alike(groups[0]))
    for line in lines_of(system, reduction, replace(what, collective=collective)):
        expected = busy(system, line, collective, groups)
        assert loads(line) == pytest.approx(expected, rel=1e-9), line.algorithm


@given(asked(6))
@examples(20, 150)
def test_no_step_is_faster_than_its_cuts_allow(case: tuple[System, Reduction, Instruction]) -> None:
    """Whatever the algorithm: over all cuts and partitions of the explicit machine."""
    system, reduction, what = case
    groups = groups_of(reduction, what.groups)
    for collective in Collective:
        least = least_seconds(system, collective, groups)
        for line in lines_of(system, reduction, replace(what, collective=collective)):
            slowest = max(loads(line).values())
            assert slowest >= least * (1 - 1e-6), (collective, line.algorithm)


@given(programmed())
@examples(20, 150)
def test_lowered_programs_cost_what_their_groups_put_on_the_links(
    case: tuple[System, Reduction, Derivation],
) -> None:
    """From the device ids of ``lower`` alone: groups, sizes, busiest links, and all phases."""
    system, reduction, derivation = case
    payload = 64 * reduction.tree.devices
    schedule = lower(derivation, reduction, payload)
    assert schedule.padded_bytes == payload
    prices = phases(system, reduction, derivation, payload)
    steps = iter(derivation.instructions)
    for phase, price in zip(schedule.phases, prices, strict=True):
        assert price.size_bytes == phase.size_bytes
        if not isinstance(phase, Exchange):
            assert price.what == "transpose"
            assert price.seconds == 2 * phase.size_bytes / system.memory_bytes_per_second
            continue
        step = next(steps)
        assert price.what == phase.collective.value
        groups = [tuple(group) for group in phase.groups.tolist()]
        assert sorted(groups) == sorted(groups_of(reduction, step.groups))
        line = next(
            line for line in lines_of(system, reduction, step) if line.algorithm is price.algorithm
        )
        slowest = max((price.seconds - price.latency_seconds) / price.size_bytes, 0)
        if phase.collective not in ROOTED and Machine(system).turns(groups[0]) <= 200:
            expected = max(*busy(system, line, phase.collective, groups).values(), memory(line))
            assert slowest == pytest.approx(expected, rel=1e-6, abs=price.seconds * 1e-9)


def memory(line: PriceLine) -> float:
    return dict(line.loads)[MEMORY]


# Latency: messages that wait for each other.


def launched(system: System, line: PriceLine) -> float:
    """What NCCL's model adds once a call."""
    each = {Protocol.SIMPLE: 8.4e-6, Protocol.LL: 6.6e-6, Protocol.LL128: 14e-6}
    return each[line.protocol] if system.launches else 0.0


@given(asked(kinds=SWITCHES))
@settings(deadline=None)
def test_a_ring_waits_for_its_slowest_piece(case: tuple[System, Reduction, Instruction]) -> None:
    """A piece crosses all edges of the ring but one, in an all-reduce but two beside each other.

    It ends where it begins to be handed out: the edge it did not cross on its way there is the
    first that it crosses then, and the one before that is not crossed again.
    """
    system, reduction, what = case
    assume(what.collective in ROUNDS)
    machine = Machine(system)
    group = groups_of(reduction, what.groups)[0]
    hops = []
    for here, there in zip(group, group[1:] + group[:1], strict=True):
        pair = zip(machine.digits(here), machine.digits(there), strict=True)
        hops.append(system.links[[a != b for a, b in pair].index(True)].latency_seconds)
    line = lines_of(system, reduction, what)[0]
    assert line.algorithm is Algorithm.RING
    rounds = ROUNDS[what.collective]
    beside = [one + other for one, other in zip(hops, hops[1:] + hops[:1], strict=True)]
    expected = launched(system, line)
    expected += rounds * sum(hops) - (min(hops) if rounds == 1 else min(beside))
    assert line.latency_seconds == pytest.approx(expected, rel=1e-9, abs=1e-18)


@given(asked(18, kinds=SWITCHES), st.sampled_from(ROOTED))
@settings(deadline=None)
def test_a_chain_waits_as_the_longest_of_its_cut_rings(
    case: tuple[System, Reduction, Instruction], collective: Collective
) -> None:
    system, reduction, what = case
    machine = Machine(system)
    group = groups_of(reduction, what.groups)[0]
    longest = 0.0
    for steps in machine.cut_rings(group, collective is Collective.REDUCE):
        pairs = [zip(machine.digits(a), machine.digits(b), strict=True) for a, b, _ in steps]
        crossed = [[a != b for a, b in pair].index(True) for pair in pairs]
        longest = max(longest, sum(system.links[level].latency_seconds for level in crossed))
    line = lines_of(system, reduction, replace(what, collective=collective))[0]
    assert line.algorithm is Algorithm.RING
    longest += launched(system, line)
    assert line.latency_seconds == pytest.approx(longest, rel=1e-9, abs=1e-18)


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (Algorithm.RING, 2 * (4 * 10 + 4 * 7 * 1 - 1)),
        (Algorithm.TREE, 2 * (2 * 10 + 7 * 1)),
        (Algorithm.HALVING_DOUBLING, 2 * (2 * 10 + 3 * 1)),
    ],
)
def test_latency_of_an_all_reduce_over_four_nodes_of_eight(
    algorithm: Algorithm, expected: float
) -> None:
    system = rails(4, latencies=(10.0, 1.0))
    reduction = whole(system)
    lines = lines_of(system, reduction, at_once(reduction))
    [line] = [line for line in lines if line.algorithm is algorithm]
    assert line.latency_seconds == pytest.approx(expected)


def open_line(children: int, latency: float = 0.0) -> System:
    joined = one_level(Domain.RING, children, latency=latency)
    return replace(joined, links=(replace(joined.links[0], wraps=False),))


def ring_line(system: System, collective: Collective) -> PriceLine:
    roles = roles_of(whole(system), (0,), ())
    return Simulator(system).by(collective, Algorithm.RING, roles)[0]


def test_a_ring_along_an_open_line_goes_no_further_than_to_the_next_but_one() -> None:
    """0, 2, 4, 5, 3, 1: in the order of the line one message a round would go from end to end."""
    joined = one_level(Domain.RING, 6, latency=1.0)
    for system, hops in ((open_line(6, 1.0), 2), (joined, 1)):
        line = ring_line(system, Collective.ALL_REDUCE)
        assert line.latency_seconds == pytest.approx(10 * hops)


def test_pieces_of_one_round_go_straight_along_an_open_line() -> None:
    for collective in (Collective.ALL_GATHER, Collective.REDUCE_SCATTER):
        assert ring_line(open_line(6, 1.0), collective).latency_seconds == pytest.approx(5)


@pytest.mark.parametrize("children", range(3, 9))
@pytest.mark.parametrize("scattered", [0, 1, 2, 5])
@pytest.mark.parametrize("gathered", [1, 2, 3])
def test_the_ends_of_a_line_bound_what_its_links_carry(
    children: int, scattered: int, gathered: int
) -> None:
    """A reduce-scatter and an all-gather in flight at once, link by link, by the pieces' routes."""
    system = open_line(children)
    machine, group = Machine(system), tuple(range(children))
    links: Counter[Wire] = Counter()
    ends: Counter[str] = Counter()
    for collective, size in (
        (Collective.REDUCE_SCATTER, scattered),
        (Collective.ALL_GATHER, gathered),
    ):
        for wire, share in explicit(machine, Algorithm.RING, collective, group).items():
            links[wire] += size * share / Fraction(machine.capacity(wire))
        for name, seconds in ring_line(system, collective).work(size).busy.items():
            if name != MEMORY:
                ends[name] += seconds
    assert max(ends.values()) == pytest.approx(float(max(links.values())))


def test_what_is_no_whole_line_loads_both_ends_alike() -> None:
    """A ring of an all-reduce loads every link; halves of a line have ends in its middle."""
    system = open_line(8)
    whole_line = ring_line(system, Collective.ALL_REDUCE)
    placement = Placement(system.hierarchy, (Axis("a", 2), Axis("b", 4)), ((2,), (4,)))
    roles = roles_of(Reduction(placement, ("b",)), (0,), ())
    [half, *_] = Simulator(system).by(Collective.ALL_GATHER, Algorithm.RING, roles)
    for line, seconds in ((whole_line, 2 * 7 / 8), (half, 3 / 4)):
        ends = [busy for name, busy in line.resources if name != MEMORY]
        assert ends == pytest.approx([seconds, seconds])


@pytest.mark.parametrize("collective", [Collective.REDUCE, Collective.BROADCAST])
def test_chains_go_both_ways_around_a_joined_ring(collective: Collective) -> None:
    """Half of a buffer each way, which is the bound; all of it one way along an open line."""
    joined = one_level(Domain.RING, 8)
    for system, seconds in ((joined, 0.5), (open_line(8), 1.0)):
        busy = dict(ring_line(system, collective).resources)
        assert max(busy[name] for name in busy if name != MEMORY) == pytest.approx(seconds)
    goal = Goal.REDUCE if collective is Collective.REDUCE else Goal.BROADCAST
    assert bound(joined, whole(joined), 1.0, goal).seconds == pytest.approx(0.5)


@pytest.mark.parametrize(("children", "hops"), [(2, 1), (3, 1), (4, 2), (5, 2), (8, 4)])
def test_a_direct_exchange_in_a_ring_waits_for_its_longest_way(children: int, hops: int) -> None:
    system = one_level(Domain.RING, children, latency=1.0)
    reduction = whole(system)
    lines = lines_of(system, reduction, at_once(reduction))
    [line] = [line for line in lines if line.algorithm is Algorithm.DIRECT]
    assert line.latency_seconds == 2 * hops


# Laws.


@given(programmed(), st.floats(1, 1e12), st.floats(1, 1e12))
@settings(deadline=None)
def test_more_bytes_never_take_less(
    case: tuple[System, Reduction, Derivation], one: float, other: float
) -> None:
    few, many = sorted((one, other))
    for small, large in zip(phases(*case, few), phases(*case, many), strict=True):
        assert small.seconds <= large.seconds
        assert small.ticks <= large.ticks


@given(programmed(), st.data(), st.floats(1, 100))
@examples(15, 100)
def test_worse_links_never_take_less(
    case: tuple[System, Reduction, Derivation], data: st.DataObject, factor: float
) -> None:
    system, reduction, derivation = case
    level = data.draw(st.integers(0, len(system.links) - 1))
    link = system.links[level]
    latency = link.latency_seconds * factor + data.draw(st.floats(0, 1e-4))
    slower = replace(link, bandwidth_bytes_per_second=link.bandwidth_bytes_per_second / factor)
    later = replace(link, latency_seconds=latency)
    for worse in (slower, later):
        links = (*system.links[:level], worse, *system.links[level + 1 :])
        before = phases(system, reduction, derivation)
        after = phases(replace(system, links=links), reduction, derivation)
        for a, b in zip(before, after, strict=True):
            assert a.seconds <= b.seconds


@given(programmed(), st.floats(1, 100))
@settings(deadline=None)
def test_slower_memory_never_takes_less(
    case: tuple[System, Reduction, Derivation], factor: float
) -> None:
    system, reduction, derivation = case
    slower = replace(system, memory_bytes_per_second=system.memory_bytes_per_second / factor)
    assert seconds(system, reduction, derivation) <= seconds(slower, reduction, derivation)


@given(programmed(), st.data())
@settings(deadline=None)
def test_more_ports_never_take_more(
    case: tuple[System, Reduction, Derivation], data: st.DataObject
) -> None:
    system, reduction, derivation = case
    level = data.draw(st.integers(0, len(system.links) - 1))
    link = system.links[level]
    more = replace(link, ports=link.ports * data.draw(st.sampled_from([2, 3, 4])))
    try:
        larger = replace(system, links=(*system.links[:level], more, *system.links[level + 1 :]))
    except InputError:
        return
    before, after = (phases(s, reduction, derivation) for s in (system, larger))
    for a, b in zip(before, after, strict=True):
        assert b.seconds <= a.seconds * (1 + 1e-12)


@given(programmed())
@settings(deadline=None)
def test_the_fastest_algorithm_beats_a_fixed_one(
    case: tuple[System, Reduction, Derivation],
) -> None:
    best, auto, ring, tree = (
        phases(*case, choice=choice) for choice in (Choice.ANY, Choice.AUTO, *FIXED)
    )
    for least, ours, *others in zip(best, auto, ring, tree, strict=True):
        assert all(least.seconds <= other.seconds for other in (ours, *others))
    assert sum(p.seconds for p in auto) <= sum(p.seconds for p in ring)
    assert {p.algorithm for p in ring} <= {Algorithm.RING, None}
    assert {p.algorithm for p in tree} <= {Algorithm.RING, Algorithm.TREE, None}


FIXED = (Choice.RING, Choice.TREE)


@given(programmed())
@settings(deadline=None)
def test_steps_wait_for_each_other(case: tuple[System, Reduction, Derivation]) -> None:
    """A program's price is the sum of its steps', each priced by itself; both in whole ticks."""
    system, reduction, derivation = case
    steps = moves(derivation)
    fresh = [Simulator(system, Choice.ANY).move(move, reduction, GB) for move in steps]
    assert list(chain.from_iterable(fresh)) == phases(system, reduction, derivation)
    found = Simulator(system, Choice.ANY).prices(steps, reduction, GB)
    assert found == [sum(price.ticks for price in prices) for prices in fresh]
    works = Simulator(system, Choice.ANY).works(steps, reduction, GB)
    assert works == [tuple(price.work for price in prices) for prices in fresh]
    assert all(price.work.alone_seconds == price.seconds for prices in fresh for price in prices)


@given(programmed())
@settings(deadline=None)
def test_a_step_names_its_limiting_resource(case: tuple[System, Reduction, Derivation]) -> None:
    system, reduction, derivation = case
    resources = {*system.hierarchy.names, MEMORY}
    for price in phases(system, reduction, derivation):
        assert price.busiest in resources
        assert price.limited_by in resources | {LATENCY}
        assert 0 <= price.latency_seconds <= price.seconds
        assert {name for name, _ in price.bytes_per_port} <= set(system.hierarchy.names)
        for name, carried in price.bytes_per_port:
            level = system.hierarchy.index(name)
            working = price.seconds - price.latency_seconds
            capacity = system.links[level].bandwidth_bytes_per_second
            if system.links[level].domain is Domain.SWITCH:
                capacity = system.port_bytes_per_second(level)
            assert carried <= working * capacity * (1 + 1e-6) + 1e-3


def test_a_price_that_cannot_be_compared_exactly_is_refused() -> None:
    system = one_level(Domain.SWITCH, 2, bandwidth=1.0)
    reduction = whole(system)
    derivation = derive_valid(parse("all-reduce root inside"), reduction.tree)
    assert phases(system, reduction, derivation, 1e5)[0].ticks == pytest.approx(1e17)
    with pytest.raises(InputError, match="one step would take 1e\\+06 s"):
        Simulator(system).prices(moves(derivation), reduction, 1e6)


# Relabelling what is symmetric.


@st.composite
def relabelled(draw: st.DrawFn) -> tuple[System, Reduction, Reduction]:
    """The same reduction with two neighbouring axes that are not reduced exchanged."""
    system = draw(machines(24))
    placement = draw(placed(system.hierarchy).filter(lambda p: len(p.axes) == 3))
    over = draw(st.sampled_from([0, 2]))
    order = [1, 0, 2] if over == 2 else [0, 2, 1]
    collapse = draw(st.booleans())
    return (
        system,
        Reduction(placement, (placement.axes[over].name,), collapse),
        Reduction(permuted(placement, order), (placement.axes[over].name,), collapse),
    )


def permuted(placement: Placement, order: list[int]) -> Placement:
    return Placement(
        placement.hierarchy,
        tuple(placement.axes[i] for i in order),
        tuple(placement.matrix[i] for i in order),
    )


def check_same_prices(system: System, one: Reduction, other: System, two: Reduction) -> None:
    """Every step of programs of up to three costs the same, to the rounding of floats."""
    assert one.tree.sizes == two.tree.sizes
    graph = explored(min(3, len(one.tree.digits)))
    if len(one.tree.digits) > 3:
        return
    for choice in Choice:
        first = Simulator(system, choice).prices(graph.alphabet, one, GB)
        second = Simulator(other, choice).prices(graph.alphabet, two, GB)
        assert first == pytest.approx(second, rel=1e-9, abs=len(graph.alphabet)), choice


@given(relabelled())
@examples(15, 100)
def test_neighbouring_axes_that_are_not_reduced_may_change_places(
    case: tuple[System, Reduction, Reduction],
) -> None:
    system, one, other = case
    check_same_prices(system, one, system, other)


@given(machines(24), st.data())
@examples(15, 100)
def test_an_axis_that_is_not_reduced_may_be_parted(system: System, data: st.DataObject) -> None:
    placement = data.draw(placed(system.hierarchy))
    assume(len(placement.axes) > 1)
    axis = placement.axes[0]
    cut = [data.draw(st.sampled_from(divisors(f))) for f in placement.matrix[0]]
    left = tuple(f // c for f, c in zip(placement.matrix[0], cut, strict=True))
    size = 1
    for factor in cut:
        size *= factor
    parted = Placement(
        placement.hierarchy,
        (Axis("slow", axis.size // size), Axis("fast", size), *placement.axes[1:]),
        (left, tuple(cut), *placement.matrix[1:]),
    )
    over = tuple(axis.name for axis in placement.axes[1:])
    check_same_prices(system, Reduction(placement, over), system, Reduction(parted, over))


def divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


@given(reductions(), st.data())
@examples(15, 100)
def test_on_symmetric_domains_the_order_of_axes_does_not_matter(
    reduction: Reduction, data: st.DataObject
) -> None:
    """Switches with one port a child, meshes and buses do not tell children apart."""
    hierarchy = reduction.placement.hierarchy
    kinds = st.sampled_from([Domain.SWITCH, Domain.MESH, Domain.BUS])
    links = tuple(
        Link(data.draw(kinds), data.draw(st.floats(1e9, 1e12)), 0) for _ in hierarchy.names
    )
    system = System("s", "", hierarchy, links, 1e12)
    order = data.draw(st.permutations(range(len(reduction.placement.axes))))
    other = Reduction(permuted(reduction.placement, order), reduction.over, True)
    check_same_prices(system, replace(reduction, collapse=True), system, other)


@given(machines(24), st.data())
@examples(15, 100)
def test_a_level_of_one_child_changes_nothing(system: System, data: st.DataObject) -> None:
    """But for a slower one around the rest, which says that trees are inside a node."""
    reduction = data.draw(reductions(system.hierarchy))
    place = data.draw(st.integers(0, len(system.links)))
    hierarchy = system.hierarchy
    domain = data.draw(st.sampled_from([Domain.SWITCH, Domain.RING, Domain.MESH, Domain.BUS]))
    quickest = min(link.latency_seconds for link in system.links)
    idle = Link(domain, data.draw(st.floats(1e6, 1e12)), quickest)
    taller = Hierarchy((*hierarchy.levels[:place], Level("idle", 1), *hierarchy.levels[place:]))
    links = (*system.links[:place], idle, *system.links[place:])
    rows = tuple((*row[:place], 1, *row[place:]) for row in reduction.placement.matrix)
    placement = Placement(taller, reduction.placement.axes, rows)
    check_same_prices(
        system,
        reduction,
        replace(system, hierarchy=taller, links=links),
        replace(reduction, placement=placement),
    )


@pytest.mark.parametrize("place", [0, 1])
def test_trees_do_not_depend_on_it_either(place: int) -> None:
    """Eight devices on a switch are the same eight as the only node, or with a level below."""
    flat = one_level(Domain.SWITCH, 8, bandwidth=GB, latency=1.0)
    idle = (Level("idle", 1), Link(Domain.SWITCH, GB, 1.0))
    levels, links = [flat.hierarchy.levels[0]], [flat.links[0]]
    levels.insert(place, idle[0])
    links.insert(place, idle[1])
    taller = replace(flat, hierarchy=Hierarchy(tuple(levels)), links=tuple(links))
    check_same_prices(flat, whole(flat), taller, whole(taller))


# Figures.


def one_level(
    domain: Domain, children: int, bandwidth: float = 1.0, latency: float = 0.0
) -> System:
    hierarchy = Hierarchy((Level("gpu", children),))
    links = (Link(domain, bandwidth, latency),)
    return System("one", "", hierarchy, links, 1e18, launches=False)


def rails(nodes: int, latencies: tuple[float, float] = (0.0, 0.0)) -> System:
    """Nodes of 8 GPUs on an NVSwitch, and beside it a NIC for each GPU."""
    hierarchy = Hierarchy((Level("node", nodes), Level("gpu", 8)))
    links = (
        Link(Domain.SWITCH, 50 * GB, latencies[0], ports=8),
        Link(Domain.SWITCH, 450 * GB, latencies[1]),
    )
    return System("rails", "", hierarchy, links, 1e18, launches=False)


def whole(system: System) -> Reduction:
    """One group of all devices."""
    axes = (Axis("data", system.devices),)
    [placement] = placements(system.hierarchy, axes)
    return Reduction(placement, ("data",))


def at_once(reduction: Reduction) -> Instruction:
    """The plain all-reduce."""
    return derive_valid(parse("all-reduce root inside"), reduction.tree).instructions[0]


HIERARCHICAL = "reduce-scatter node inside; all-reduce root across(node); all-gather node inside"
THREE_STEPS = "reduce-scatter node inside; all-reduce node parallel(root); all-gather node inside"


def program_seconds(system: System, text: str, choice: Choice = Choice.ANY) -> float:
    reduction = whole(system)
    derivation = derive_valid(parse(text), reduction.tree)
    return sum(p.seconds for p in phases(system, reduction, derivation, GB, choice))


def test_the_example_of_the_language_definition() -> None:
    """B = 1 GB over 4 nodes of 8 GPUs, one NIC per GPU; bandwidth terms only (section 5)."""
    system = rails(4)
    flat = program_seconds(system, "all-reduce root inside", Choice.RING)
    assert flat == pytest.approx(2 * 31 / 32 / 8 / 50)
    assert 1e3 * flat == pytest.approx(4.84, abs=0.005)
    for text in (HIERARCHICAL, THREE_STEPS):
        barriers = program_seconds(system, text, Choice.RING)
        assert barriers == pytest.approx(2 * 7 / 8 / 450 + 2 * 3 / 4 / 8 / 50)
        assert 1e3 * barriers == pytest.approx(7.64, abs=0.005)


@pytest.mark.parametrize(("nodes", "ratio"), [(2, 1.94), (4, 1.31)])
def test_what_the_a100_system_of_the_paper_saves(nodes: int, ratio: float) -> None:
    """Bytes over each node's one NIC: flat ring 2 (k - 1)/k, in three steps 2 (m - 1)/m."""
    system = load(f"p2-a100:{nodes}")
    k = system.devices
    reduction = whole(system)
    carried = []
    for text in ("all-reduce root inside", THREE_STEPS):
        derivation = derive_valid(parse(text), reduction.tree)
        prices = phases(system, reduction, derivation, GB, Choice.RING)
        carried.append(sum(dict(p.bytes_per_port).get("node", 0) for p in prices) / GB)
    assert carried == pytest.approx([2 * (k - 1) / k, 2 * (nodes - 1) / nodes])
    assert carried[0] / carried[1] == pytest.approx(ratio, abs=0.005)


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        (Domain.SWITCH, 2 * 3 / 4),
        (Domain.RING, 2 * 3 / 4 / 2),
        (Domain.TORUS, 2 * 3 / 4 / 2),
        (Domain.MESH, 2 * 3 / 4 / 3),
        (Domain.BUS, 2 * 3),
    ],
)
def test_a_ring_all_reduce_on_four_children(domain: Domain, expected: float) -> None:
    system = one_level(domain, 4)
    reduction = whole(system)
    line = lines_of(system, reduction, at_once(reduction))[0]
    assert line.seconds_per_byte == pytest.approx(expected)


@pytest.mark.parametrize(("ports", "sharing"), [(1, 8), (2, 4), (4, 2), (8, 1), (16, 0.5)])
def test_devices_share_the_ports_of_their_node(ports: int, sharing: float) -> None:
    """Two nodes of 8: every device's partner is in the other node, all send at once."""
    system = rails(2)
    node = replace(system.links[0], ports=ports)
    system = replace(system, links=(node, system.links[1]))
    axes = (Axis("data", 2), Axis("model", 8))
    placement = Placement(system.hierarchy, axes, ((2, 1), (1, 8)))
    reduction = Reduction(placement, ("data",))
    line = lines_of(system, reduction, at_once(reduction))[0]
    assert loads(line) == pytest.approx({"node": sharing / 50 / GB})


def test_a_step_is_priced_by_its_largest_buffer() -> None:
    """Of buffers of a half and an eighth of the payload it is the half that takes longest."""
    system = load("dgx-h100:2")
    placement = Placement(system.hierarchy, (Axis("data", 16),), ((2, 8),))
    reduction = Reduction(placement, ("data",))
    what = Instruction(Collective.ALL_REDUCE, Groups((0, 1)))
    both, half = (Move(what, kinds, (), ()) for kinds in (((0,), (1,)), ((0,),)))
    simulator = Simulator(system)
    assert reduction.tree.sizes == (2, 8)
    assert simulator.move(both, reduction, GB)[0].size_bytes == GB / 2
    assert simulator.prices([both], reduction, GB) == simulator.prices([half], reduction, GB)
    assert simulator.works([both], reduction, GB) == simulator.works([half], reduction, GB)


def test_prices_and_works_are_those_of_the_phases() -> None:
    """Shuffles before a step are phases, too; and messages cost by their sizes."""
    dear = MessageCurve(0, (512.0, 1 << 20), (4.0, 0.5), "simple")
    system = replace(bare(2, 4), calibration=replace(calibration(), curves=(dear,)))
    simulator, reduction = Simulator(system), whole(system)
    text = "reduce-scatter node inside; reduce-scatter node parallel"
    steps = moves(derive_valid(parse(text), reduction.tree, Goal.REDUCE_SCATTER))
    assert [bool(step.before) for step in steps] == [True, False]
    for size in (1e3, GB):
        every = [simulator.move(step, reduction, size) for step in steps]
        priced = [sum(phase.ticks for phase in one) for one in every]
        assert simulator.prices(steps, reduction, size) == priced
        worked = [tuple(phase.work for phase in one) for one in every]
        assert simulator.works(steps, reduction, size) == worked


def test_a_member_sends_at_once_to_all_others() -> None:
    """Of two nodes of 8: to 8 in the other one, and to 7 in its own."""
    system = rails(2)
    roles = roles_of(whole(system), (0, 1), ())
    way = Simulator(system).way(Collective.ALL_GATHER, Algorithm.DIRECT, roles)
    assert way.peers == (8.0, 7.0)


def test_a_ring_has_as_many_in_a_row_as_its_innermost_level() -> None:
    """Also where that is not the innermost of the machine."""
    system = rails(4)
    for free, members in (((0, 1), 8), ((1,), 8), ((0,), 4)):
        roles = roles_of(whole(system), free, ())
        way = Simulator(system).way(Collective.ALL_GATHER, Algorithm.RING, roles)
        assert way.in_a_row == members


def test_what_the_network_adds_up_has_no_flags() -> None:
    links = tuple(replace(link, reduces=True) for link in bare().links)
    system = replace(bare(), links=links)
    simulator, roles = Simulator(system), roles_of(whole(system), (0, 1), ())
    for algorithm, known in (
        (Algorithm.IN_NETWORK, (Protocol.SIMPLE,)),
        (Algorithm.RING, Protocol),
    ):
        way = simulator.way(Collective.ALL_REDUCE, algorithm, roles)
        assert way.protocols == tuple(known)


def test_a_shuffle_moves_what_a_buffer_holds() -> None:
    """Half of the payload, once the other digit's share is somebody else's: read and written."""
    links = tuple(Link(Domain.SWITCH, GB, 0.0) for _ in range(3))
    hierarchy = Hierarchy((Level("rack", 3), Level("node", 2), Level("gpu", 2)))
    system = System("tall", "", hierarchy, links, 1e12)
    text = (
        "reduce-scatter node parallel; all-gather rack parallel; "
        "reduce-scatter node inside; all-gather rack inside"
    )
    reduction = whole(system)
    steps = moves(derive_valid(parse(text), reduction.tree))
    shuffle, _ = Simulator(system).move(steps[2], reduction, GB)
    assert (shuffle.what, shuffle.size_bytes) == ("transpose", GB / 2)
    assert shuffle.seconds == pytest.approx(2 * GB / 2 / 1e12)
