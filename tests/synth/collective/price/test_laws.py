"""Laws of prices that hold on every machine and that no module's own tests state, one test a law.

Elsewhere: a barrier price grows with bytes, latency and slower links, relabelling changes nothing
(``test_step_prices``); the bound grows with bytes and slower links (``test_bound``); one segment is
the barrier price of the symmetric engine (``test_overlap``); flows scale with links and messages,
nothing ends before the bound, links that are faster and end later are told (``test_flows``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from exhaustive import examples
from flow_cases import CLOSE, Case, cases, levels_of, meets_the_busiest
from grammar import Collective, Goal, Instruction
from hierarchies import (
    Axis,
    Domain,
    Fault,
    Hierarchy,
    Link,
    Placement,
    Reduction,
    System,
    load,
    placements,
)
from hierarchies.fabric import price_class
from hierarchies.links import Network
from link_names import names_of
from results.bench.perturbed import perturb
from strategies import (
    all_valid,
    reductions,
    smart_systems,
    spelled,
)
from synth.collective.algorithms.algorithms import Algorithm, Choice
from synth.collective.algorithms.link_loads import footprint
from synth.collective.price.bound import bound
from synth.collective.price.defaults import defaults
from synth.collective.price.segments import price_ticks
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import TICKS_PER_SECOND, InstructionPrice, total_seconds
from synth.collective.ranking.answers import price_phases
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Request
from synth.collective.semantics.layout import Move
from synth.collective.semantics.programs import Language, explore_moves
from synth.collective.semantics.rules import Derivation, derive
from synth.events.overlap import makespan_seconds

MiB = 2**20
DUALS = {
    Collective.ALL_REDUCE: Collective.ALL_REDUCE,
    Collective.REDUCE_SCATTER: Collective.ALL_GATHER,
    Collective.ALL_GATHER: Collective.REDUCE_SCATTER,
    Collective.REDUCE: Collective.BROADCAST,
    Collective.BROADCAST: Collective.REDUCE,
    Collective.ALL_TO_ALL: Collective.ALL_TO_ALL,
}
WAYS = {"out": "in", "in": "out"}


def scaled(system: System, factor: float) -> System:
    """All bandwidths times a factor, all latencies divided by it."""

    def later(seconds: float | None) -> float | None:
        return None if seconds is None else seconds / factor

    links = tuple(
        replace(
            link,
            bandwidth_bytes_per_second=link.bandwidth_bytes_per_second * factor,
            latency_seconds=link.latency_seconds / factor,
            ll_latency_seconds=later(link.ll_latency_seconds),
            ll128_latency_seconds=later(link.ll128_latency_seconds),
        )
        for link in system.links
    )
    memory = system.memory_bytes_per_second * factor
    return replace(system, links=links, memory_bytes_per_second=memory)


def worse(system: System, level: int, factor: float, late_seconds: float) -> System:
    """The links of one level slower by a factor, and their messages later."""

    def later(seconds: float | None) -> float | None:
        return None if seconds is None else seconds * factor + late_seconds

    link = system.links[level]
    changed = replace(
        link,
        bandwidth_bytes_per_second=link.bandwidth_bytes_per_second / factor,
        latency_seconds=link.latency_seconds * factor + late_seconds,
        ll_latency_seconds=later(link.ll_latency_seconds),
        ll128_latency_seconds=later(link.ll128_latency_seconds),
    )
    return replace(system, links=(*system.links[:level], changed, *system.links[level + 1 :]))


@st.composite
def derivations(
    draw: st.DrawFn, goal: Goal = Goal.ALL_REDUCE
) -> tuple[System, Reduction, Derivation]:
    """A valid program of up to three steps for a reduction on a system of any kind."""
    system = draw(smart_systems(16))
    reduction = draw(reductions(system.hierarchy))
    digits = len(reduction.tree.digits)
    assume(0 < digits <= 3)
    steps = draw(st.sampled_from(all_valid(digits, Language(3, across=True, goal=goal))))
    derivation = derive(spelled(steps, reduction.tree), reduction.tree, goal)
    assert isinstance(derivation, Derivation)
    return system, reduction, derivation


def prices_of(
    system: System,
    reduction: Reduction,
    derivation: Derivation,
    size: float = MiB,
    choice: Choice = Choice.ANY,
) -> list[InstructionPrice]:
    return list(price_phases(Simulator(system, choice), derivation, reduction, size))


# Barriers and bounds.


@given(derivations(), st.data(), st.floats(1, 100), st.floats(0, 1e-4), st.integers(1, 10**12))
def test_a_barrier_price_is_monotone(
    case: tuple[System, Reduction, Derivation],
    data: st.DataObject,
    factor: float,
    late_seconds: float,
    size: int,
) -> None:
    """More bytes, later messages (of any protocol) and slower links never cost a program less."""
    system, reduction, derivation = case
    level = data.draw(st.integers(0, len(system.links) - 1))
    usual = total_seconds(prices_of(system, reduction, derivation, size))
    slow = worse(system, level, factor, late_seconds)
    assert usual <= total_seconds(prices_of(slow, reduction, derivation, size))
    assert usual <= total_seconds(prices_of(system, reduction, derivation, size * factor))


@given(
    derivations(),
    st.sampled_from(Goal),
    st.data(),
    st.floats(1, 100),
    st.floats(0, 1e-4),
    st.integers(1, 10**9),
)
@examples(15, 100)
def test_a_bound_is_monotone(
    case: tuple[System, Reduction, Derivation],
    goal: Goal,
    data: st.DataObject,
    factor: float,
    late_seconds: float,
    size: int,
) -> None:
    """More bytes, later messages and slower links never lower a bound, whatever is asked for."""
    system, reduction, _ = case
    level = data.draw(st.integers(0, len(system.links) - 1))
    usual = bound(system, reduction, size, goal).seconds * (1 - 1e-12)
    assert usual <= bound(system, reduction, size * factor, goal).seconds
    assert usual <= bound(worse(system, level, factor, late_seconds), reduction, size, goal).seconds


@given(derivations(), st.sampled_from(Goal), st.sampled_from([0.125, 3.0, 1000.0]))
def test_a_machine_faster_in_all_is_as_much_faster(
    case: tuple[System, Reduction, Derivation], goal: Goal, factor: float
) -> None:
    """All bandwidths times a, latencies over a: barriers and bounds take an a-th; no launches."""
    system, reduction, derivation = case
    system = replace(system, launches=False)
    fast = scaled(system, factor)
    slow, quick = (prices_of(one, reduction, derivation) for one in (system, fast))
    for one, other in zip(slow, quick, strict=True):
        assert other.seconds * factor == pytest.approx(one.seconds, rel=CLOSE)
    least = bound(system, reduction, MiB, goal).seconds
    assert bound(fast, reduction, MiB, goal).seconds * factor == pytest.approx(least, rel=CLOSE)


@given(smart_systems(12), st.data(), st.sampled_from([0.125, 8.0]))
@examples(10, 30)
def test_the_best_overlapped_answer_scales_with_the_machine(
    system: System, data: st.DataObject, factor: float
) -> None:
    """All bandwidths times a, all latencies over a: the best of all programs and segments, too."""
    system = replace(system, launches=False)
    reduction = data.draw(reductions(system.hierarchy))
    assume(0 < len(reduction.tree.digits) <= 2)
    placement = reduction.placement
    request = Request(
        placement.axes,
        reduction.over,
        MiB,
        k=1,
        language=Language(3),
        collapse=reduction.collapse,
        placement=placement.matrix,
        exact=True,
    )
    [slow], [quick] = (answers(one, request).answers for one in (system, scaled(system, factor)))
    ticks = 20 / TICKS_PER_SECOND
    assert quick.candidate.seconds * factor == pytest.approx(
        slow.candidate.seconds, rel=CLOSE, abs=ticks * max(factor, 1)
    )


# One segment, and several.


@given(cases(), st.integers(0, 100))
@examples(15, 100)
def test_no_end_is_before_a_link_has_carried_its_bytes(case: Case, seed: int) -> None:
    """On links that all differ: nor before the slowest messages of a step have come through."""
    network = perturb(case.network, seed)
    flowed = case.flowed(network)
    busy = case.schedule.segments * flowed.carried_bytes / network.bandwidths
    assert flowed.seconds >= busy.max(initial=0.0) * (1 - CLOSE)
    for one, price in zip(case.footprints(), case.prices, strict=True):
        carried = np.bincount(one.link, one.carried_bytes, network.wiring.links)
        assert flowed.seconds >= (carried / network.bandwidths).max() * (1 - CLOSE)
        assert flowed.seconds >= price.latency_seconds * (1 - CLOSE)


@given(cases(most_segments=1))
@examples(25, 200)
def test_one_segment_of_alike_groups_is_the_barrier_price(case: Case) -> None:
    """Where all groups of a step meet identical links, flows wait for each other like barriers."""
    assume(meets_the_busiest(case))
    wanted = sum(price.seconds for price in case.prices)
    assert case.flowed().seconds == pytest.approx(wanted, rel=CLOSE)
    assert total_seconds(case.prices) == pytest.approx(wanted, abs=4 / TICKS_PER_SECOND)


@given(derivations(), st.integers(1, 8))
@examples(15, 100)
def test_no_program_is_faster_than_its_bound_in_any_number_of_segments(
    case: tuple[System, Reduction, Derivation], segments: int
) -> None:
    """The symmetric engine, with every kind of switch, link and protocol."""
    system, reduction, derivation = case
    works = [price.work for price in prices_of(system, reduction, derivation, MiB / segments)]
    least = bound(system, reduction, MiB).seconds
    assert makespan_seconds(works, segments) >= least * (1 - CLOSE)
    assert price_ticks(works, segments) >= least * (1 - CLOSE) * TICKS_PER_SECOND


# Flows.


@given(cases(most_segments=3), st.integers(0, 100))
def test_one_flow_takes_its_latency_and_its_slowest_link(case: Case, seed: int) -> None:
    """A single group that does one thing: each segment by the closed form, on any links."""
    [one, *others] = case.footprints() or [None]
    assume(one is not None and not others and len(one.groups) == 1)
    network = perturb(case.network, seed)
    transfer = (one.carried_bytes / network.bandwidths[one.link]).max()
    [price] = case.prices
    wanted = case.schedule.segments * (price.latency_seconds + transfer)
    assert case.flowed(network).seconds == pytest.approx(wanted, rel=CLOSE)


@given(cases())
@examples(15, 100)
def test_what_a_switch_takes_in_it_gives_out(case: Case) -> None:
    """Step by step, domain by domain: bytes in equal bytes out, where no switch adds or copies.

    What passes through to an outer level goes up in one domain and comes down in another, so that
    only all domains of such a level together give out what they take in.
    """
    wiring = case.network.wiring
    names, level = levels_of(case)
    for one, price in zip(case.footprints(), case.prices, strict=True):
        assume(price.algorithm is not Algorithm.IN_NETWORK)
        carried = np.bincount(one.link, one.carried_bytes, wiring.links)
        for number, link in enumerate(case.system.links):
            if link.domain is not Domain.SWITCH:
                continue
            passed = any(number in case.system.through(outer) for outer in range(number))
            sums: dict[tuple[str, str], float] = {}
            for place in np.flatnonzero(level == number).tolist():
                name, way = wiring.name(place).rsplit(" ", 1)
                domain = "" if passed else name.rsplit(f"{names[number]}", 1)[0]
                sums[domain, way] = sums.get((domain, way), 0.0) + float(carried[place])
            for (domain, way), total in sums.items():
                assert total == pytest.approx(sums[domain, WAYS[way]], rel=CLOSE)


# Backwards in time.


def bandwidth_only(system: System) -> System:
    """No latency, and arithmetic that costs nothing."""
    links = tuple(
        Link(
            link.domain,
            link.bandwidth_bytes_per_second,
            0.0,
            link.ports,
            link.through,
            reduces=link.reduces,
        )
        for link in system.links
    )
    return replace(system, links=links, memory_bytes_per_second=1e18)


def reversed_in_time(derivation: Derivation) -> Derivation | None:
    """The last step first, reduce-scatters for all-gathers, reduces for broadcasts; if allowed."""
    steps = tuple(
        Instruction(DUALS[step.collective], step.groups)
        for step in reversed(derivation.instructions)
    )
    found = derive(spelled(steps, derivation.tree), derivation.tree, derivation.goal)
    return found if isinstance(found, Derivation) else None


@given(derivations(), st.sampled_from([Choice.RING, Choice.AUTO, Choice.ANY]))
@examples(30, 300)
def test_a_program_backwards_in_time_carries_as_much(
    case: tuple[System, Reduction, Derivation], choice: Choice
) -> None:
    """Bandwidth terms under barriers: latency and arithmetic 0. The machine is its own reverse."""
    system, reduction, derivation = case
    dual = reversed_in_time(derivation)
    assume(dual is not None)
    assert dual is not None
    plain = bandwidth_only(system)
    forth = prices_of(plain, reduction, derivation, MiB, choice)
    back = prices_of(plain, reduction, dual, MiB, choice)
    there, again = (
        sum(price.seconds for price in prices if price.algorithm) for prices in (forth, back)
    )
    assert there == pytest.approx(again, rel=CLOSE)


def turned(network: Network) -> Network:
    """Every link with the bandwidth of the same cable the other way."""
    names = {name: number for number, name in enumerate(names_of(network.wiring))}
    other = {"out": "in", "in": "out", "forth": "back", "back": "forth"}
    bandwidths = network.bandwidths.copy()
    for name, number in names.items():
        cable, _, way = name.rpartition(" ")
        if way in other:
            bandwidths[names[f"{cable} {other[way]}"]] = network.bandwidths[number]
    return replace(network, bandwidths=bandwidths)


def link_seconds(case: Case, phase: int, price: InstructionPrice, network: Network) -> float:
    """How long the busiest link of a step takes, memory apart."""
    one = footprint(case.schedule.phases[phase], price, network.wiring)
    carried = np.bincount(one.link, one.carried_bytes, network.wiring.links)
    links = slice(network.wiring.firsts[-1])
    return float((carried[links] / network.bandwidths[links]).max(initial=0.0))


@given(cases(most_segments=1), st.integers(0, 100))
@examples(25, 200)
def test_a_step_backwards_in_time_carries_as_much_on_links_turned_round(
    case: Case, seed: int
) -> None:
    """The busiest of links that all differ: a reduce-scatter against an all-gather, and so on."""
    network = perturb(case.network, seed)
    for number, price in enumerate(case.prices):
        phase = case.schedule.phases[number]
        if price.algorithm is None:
            continue
        dual = DUALS[Collective(price.what)]
        other = replace(phase, collective=dual)
        phases = [*case.schedule.phases]
        phases[number] = other
        mirrored = replace(case, schedule=replace(case.schedule, phases=tuple(phases)))
        there = link_seconds(case, number, price, network)
        again = link_seconds(mirrored, number, replace(price, what=dual.value), turned(network))
        assert there == pytest.approx(again, rel=CLOSE)


@cache
def steps(depth: int) -> Sequence[Move]:
    """Every step of a program of up to three."""
    return explore_moves(depth, Language(3, across=True)).alphabet


@st.composite
def racks(draw: st.DrawFn) -> System:
    """Two racks of two nodes of eight devices: any ports, and now and then a slower link."""
    hierarchy = Hierarchy.of(rack=2, node=2, gpu=8)
    ring = draw(st.integers(0, 5))
    links = tuple(
        Link(
            Domain.RING if level == ring else Domain.SWITCH,
            draw(st.floats(1e9, 1e12)),
            draw(st.floats(0, 1e-4)),
            ports=1 if level == ring else draw(st.sampled_from([1, 2, 4, 8])) if level < 2 else 1,
            reduces=level != ring and draw(st.booleans()),
        )
        for level in range(3)
    )
    system = System("racks", "", hierarchy, links, draw(st.floats(1e10, 1e13)))
    if draw(st.integers(0, 2)):
        return system
    path = (draw(st.integers(0, 1)), draw(st.integers(0, 1)), draw(st.integers(0, 7)))
    level = draw(st.integers(0, 2))
    return system.with_faults([Fault(path[: level + 1], draw(st.sampled_from([0.25, 0.5])))])


@st.composite
def reductions_alike(draw: st.DrawFn) -> tuple[System, Reduction, Reduction]:
    """A system, and two reductions that lie alike on it, their parts others where that can be."""
    system, names = draw(racks()), ("a", "b", "c")
    sizes = draw(st.sampled_from([(2, 8, 2), (2, 4, 4), (4, 4, 2), (8, 2, 2)]))
    axes = tuple(map(Axis, names, sizes))
    over = tuple(draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)))
    kinds: dict[object, dict[object, Reduction]] = {}
    for order in permutations(axes):
        for placement in placements(system.hierarchy, order):
            one = Reduction(placement, over)
            kinds.setdefault(price_class(system, one), {})[one.parts] = one
    largest = max(map(len, kinds.values()))
    some = draw(st.sampled_from([[*one.values()] for one in kinds.values() if len(one) == largest]))
    first, *others = draw(st.permutations(some))
    return system, first, others[0] if others else first


@given(reductions_alike(), st.integers(1, 2**30))
@examples(40, 300)
def test_what_lies_alike_costs_the_same(
    given: tuple[System, Reduction, Reduction], payload: int
) -> None:
    """Every step, what the runtime would do, and what nothing can beat."""
    system, first, other = given
    simulator, alphabet = Simulator(system), steps(len(first.tree.digits))
    prices = [simulator.prices(alphabet, one, payload) for one in (first, other)]
    assert prices[0] == prices[1]
    assert defaults(simulator, other, payload) == defaults(simulator, first, payload)
    least, same = bound(system, first, payload), bound(system, other, payload)
    assert same.seconds == pytest.approx(least.seconds, rel=1e-12)


def test_the_order_of_a_levels_parts_counts_where_gpus_share_a_nic() -> None:
    """Of eight GPUs every second one, or the first four: with four NICs these reach two of them."""
    axes = (Axis("model", 2), Axis("data", 8), Axis("pipe", 2))
    near = ((1, 2), (2, 4), (2, 1))  # [[node], [gpu]] parts: model outside data inside a node
    far = ((2, 1), (2, 4), (1, 2))

    def kinds(name: str) -> int:
        system = load(f"{name}:4")
        placed = (Placement(system.hierarchy, axes, matrix) for matrix in (near, far))
        return len({price_class(system, Reduction(one, ("data",))) for one in placed})

    assert (kinds("dgx-h100"), kinds("aws-p4d")) == (1, 2)
