"""Flows one by one: against the symmetric engine, an exact engine written apart, and by laws."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from each import each
from exhaustive import examples
from flow_cases import CLOSE, Case, case_of, cases, changed, meets_the_busiest
from hierarchies import (
    Axis,
    Domain,
    Hierarchy,
    InputError,
    Level,
    Link,
    Reduction,
    System,
    load,
    placements,
)
from hierarchies.links import Network
from link_names import names_of
from results.bench.perturbed import perturb
from strategies import switches
from synth.collective.algorithms.algorithms import Choice
from synth.collective.price.bound import bound
from synth.collective.price.flows import CHECK_EVERY, FlowResult, simulate

THREE_STEPS = "reduce-scatter node inside; all-reduce node parallel(root); all-gather node inside"


def whole(system: System) -> Reduction:
    """One group of all devices."""
    [placement] = placements(system.hierarchy, (Axis("data", system.devices),))
    return Reduction(placement, ("data",))


# The symmetric engine.


def test_on_a_line_through_inner_ports_flows_end_when_the_symmetric_engine_says() -> None:
    """Pieces that stopped at every rack would pass its port twice."""

    def link(domain: Domain, through: tuple[str, ...] = (), wraps: bool = True) -> Link:
        return Link(domain, 1e9, 0.0, 1, through, wraps=wraps)

    hierarchy = Hierarchy((Level("pod", 3), Level("rack", 1)))
    links = link(Domain.RING, ("rack",), wraps=False), link(Domain.SWITCH)
    system = System("line", "", hierarchy, links, 1e10)
    case = case_of(system, whole(system), "reduce-scatter root inside; all-gather root inside", 1)
    for phase, price in zip(case.schedule.phases, case.prices, strict=True):
        flowed = simulate(replace(case.schedule, phases=(phase,)), [price], case.network)
        assert flowed.seconds == pytest.approx(price.seconds, rel=1e-6)


@given(cases())
@examples(25, 200)
def test_alike_groups_end_when_the_symmetric_engine_says(case: Case) -> None:
    assume(meets_the_busiest(case))
    flowed = case.flowed()
    assert flowed.complete
    assert flowed.seconds == pytest.approx(case.symmetric_seconds, rel=CLOSE)


@each("outer", Domain)
@each("inner", Domain)
@pytest.mark.parametrize("choice", Choice)
def test_every_domain_ends_when_the_symmetric_engine_says(
    outer: Domain, inner: Domain, choice: Choice
) -> None:
    """Two levels of every kind, all devices at work in every step, one to five segments."""
    system = switches(load("dgx-h100:4").resized(3).hierarchy)
    links = [
        replace(link, domain=domain, ports=8 if domain is Domain.TORUS and not level else 1)
        for level, (link, domain) in enumerate(zip(system.links, (outer, inner), strict=True))
    ]
    system = replace(system, links=tuple(links))
    for segments in (1, 2, 5):
        case = case_of(system, whole(system), THREE_STEPS, segments, choice)
        if meets_the_busiest(case):
            assert case.flowed().seconds == pytest.approx(case.symmetric_seconds, rel=CLOSE)
        else:  # double binary trees over three children: two send 1.5 buffers, one sends 1
            assert choice is not Choice.RING


@pytest.mark.parametrize("name", ["dgx-h100:4", "p2-a100:4", "tpu-v5e-slice", "mi300x:4"])
@pytest.mark.parametrize("segments", [1, 16])
def test_known_machines_end_when_the_symmetric_engine_says(name: str, segments: int) -> None:
    system = load(name)
    outer = system.hierarchy.names[0]
    text = THREE_STEPS.replace("node", outer)
    case = case_of(system, whole(system), text, segments)
    assert case.flowed().seconds == pytest.approx(case.symmetric_seconds, rel=CLOSE)


@pytest.mark.parametrize(
    ("name", "children"), [("tpu-v5e-slice:1x8", (8,)), ("tpu-v5e-slice:5x5", (5, 5))]
)
def test_where_segments_pass_on_a_line_the_links_are_used_both_ways(
    name: str, children: tuple[int, ...]
) -> None:
    """Pieces leave the ends in one step and come back in the other: no link carries all of both."""
    system = load(name)
    outer, *_ = system.hierarchy.names
    text = {
        1: "reduce-scatter root inside; all-gather root inside",
        2: f"reduce-scatter {outer} inside; reduce-scatter {outer} parallel(root); "
        f"all-gather {outer} parallel(root); all-gather {outer} inside",
    }[len(children)]
    case = case_of(system, whole(system), text, 16, Choice.RING)
    assert meets_the_busiest(case)
    assert case.flowed().seconds == pytest.approx(case.symmetric_seconds, rel=CLOSE)
    one_by_one = 16 * sum(price.seconds for price in case.prices)
    assert case.symmetric_seconds < 0.7 * one_by_one


@given(cases(most_segments=1))
@examples(15, 100)
def test_groups_that_are_not_alike_wait_no_longer_for_messages_and_links_alone(case: Case) -> None:
    """A step by itself never takes longer than the symmetric engine says."""
    for number, price in enumerate(case.prices):
        phase = case.schedule.phases[number]
        alone = replace(case.schedule, phases=(phase,))
        flowed = simulate(alone, [price], case.network)
        assert flowed.seconds <= price.seconds * (1 + CLOSE)


def test_groups_that_are_not_alike_may_end_earlier() -> None:
    """A reduce from one device to the other and a broadcast back use different ways of a link."""
    system = switches(Hierarchy.of(node=2))
    case = case_of(system, whole(system), "reduce root inside; broadcast root inside", 8)
    assert not meets_the_busiest(case)
    assert case.flowed().seconds < case.symmetric_seconds * 0.6


def test_groups_that_are_not_alike_may_end_later() -> None:
    """So the symmetric engine is no bound where, as in a tree over three, some carry less.

    In 12 of 3,000 small cases drawn at random the end came later, by 4 % at most.
    """
    links = (
        Link(Domain.SWITCH, 5e9, 1e-5, through=("gpu",)),
        Link(Domain.SWITCH, 2e9, 1e-4),
    )
    system = System("small", "", Hierarchy.of(node=3, gpu=2), links, 1e12, launches=False)
    text = "reduce-scatter node inside; all-gather node inside; all-reduce node parallel(root)"
    case = case_of(system, whole(system), text, 3, Choice.TREE)
    assert not meets_the_busiest(case)
    assert case.flowed().seconds == pytest.approx(case.symmetric_seconds * 1.004887, rel=1e-5)


# An exact engine.


def exact_end(case: Case, network: Network) -> Fraction:
    """The definition in exact numbers: every unit a task, every link a resource, no shortcuts."""
    room = [Fraction(value) for value in network.bandwidths.tolist()]
    tasks, uses, claims, waits, after = [], {}, {}, {}, {}
    touched: dict[tuple[int, int], tuple[int, int, int]] = {}
    for segment in range(case.schedule.segments):
        for number, (one, price) in enumerate(zip(case.footprints(), case.prices, strict=True)):
            entries = list(
                zip(one.group.tolist(), one.link.tolist(), one.carried_bytes.tolist(), strict=True)
            )
            busy: dict[int, Fraction] = {}
            for _, link, carried in entries:
                busy[link] = busy.get(link, Fraction(0)) + Fraction(carried) / room[link]
            for group, members in enumerate(one.groups):
                task = (segment, number, group)
                tasks.append(task)
                uses[task] = {
                    link: Fraction(carried) / room[link]
                    for whose, link, carried in entries
                    if whose == group
                }
                claims[task] = max(busy[link] for link in uses[task])
                waits[task] = Fraction(price.latency_seconds)
                after[task] = {touched[segment, d] for d in members if (segment, d) in touched}
                after[task] |= {(segment - 1, number, group)} & set(uses)
                after[task] -= {task}
                touched |= dict.fromkeys([(segment, d) for d in members], task)
    left = dict.fromkeys(tasks, Fraction(1))
    done: set[tuple[int, int, int]] = set()
    now = Fraction(0)
    while len(done) < len(tasks):
        going = [task for task in tasks if task not in done and after[task] <= done]
        moving = [task for task in going if not waits[task]]
        paces = filled(moving, uses, claims)
        step = min(
            [waits[task] for task in going if waits[task]]
            + [left[task] / pace for task, pace in paces.items()]
        )
        now += step
        for task in going:
            if task in paces:
                left[task] -= step * paces[task]
            else:
                waits[task] -= step
        done |= {task for task in moving if not left[task]}
    return now


Task = tuple[int, int, int]


def filled(
    moving: list[Task], uses: dict[Task, dict[int, Fraction]], claims: dict[Task, Fraction]
) -> dict[Task, Fraction]:
    """Shares of a segment a second: all rise together, as fast as their claims say."""
    paces: dict[Task, Fraction] = {}
    while len(paces) < len(moving):
        rising = [task for task in moving if task not in paces]
        stops = {}
        for link in {link for task in rising for link in uses[task]}:
            taken = sum(pace * uses[task].get(link, 0) for task, pace in paces.items())
            slope = sum(uses[task].get(link, Fraction(0)) / claims[task] for task in rising)
            stops[link] = (1 - taken) / slope
        level = min(stops.values())
        full = {link for link, stop in stops.items() if stop == level}
        paces |= {task: level / claims[task] for task in rising if full & set(uses[task])}
    return paces


@given(cases(8, 3), st.integers(0, 1000), st.sampled_from([0.1, 0.5]))
@settings(max_examples=60)
def test_perturbed_networks_end_when_the_exact_engine_says(
    case: Case, seed: int, share: float
) -> None:
    assume(len(case.flowed().phases) * case.schedule.segments <= 60)
    network = perturb(case.network, seed, share)
    # Fewer digits keep the fractions of the exact engine short.
    short = np.array([float(f"{value:.2g}") for value in network.bandwidths.tolist()])
    network = replace(network, bandwidths=short)
    found = case.flowed(network).seconds
    assert found == pytest.approx(float(exact_end(case, network)), rel=CLOSE)


# Laws.


@given(cases())
@examples(15, 100)
def test_what_is_told_of_flows_keeps_their_order(case: Case) -> None:
    """Who waits for whom, and that nobody is faster than alone on its own links."""
    network = perturb(case.network, 1)
    flowed = case.flowed(network)
    spans = {(s.segment, s.phase, s.group): s for s in flowed.spans()}
    assert len(spans) == flowed.completions == flowed.of_completions
    assert max(span.end_seconds for span in spans.values()) == flowed.seconds
    last: dict[tuple[int, int], float] = {}
    for phase, (one, price) in enumerate(zip(case.footprints(), case.prices, strict=True)):
        alone = np.zeros(len(one.groups))
        np.maximum.at(alone, one.group, one.carried_bytes / network.bandwidths[one.link])
        for segment in range(case.schedule.segments):
            for group, members in enumerate(one.groups):
                span = spans[segment, phase, group]
                ready = [last.get((segment, device), 0.0) for device in members]
                if segment:
                    ready.append(spans[segment - 1, phase, group].end_seconds)
                assert span.begin_seconds == max(ready)
                least = price.latency_seconds + alone[group]
                assert span.end_seconds >= (span.begin_seconds + least) * (1 - CLOSE)
        for segment in range(case.schedule.segments):
            for group, members in enumerate(one.groups):
                end = spans[segment, phase, group].end_seconds
                last |= {(segment, device): end for device in members}


@given(cases(), st.sampled_from([0.125, 3.0, 1000.0]))
@examples(15, 100)
def test_faster_links_and_messages_scale_the_time(case: Case, factor: float) -> None:
    network = perturb(case.network, 2)
    prices = [replace(p, latency_seconds=p.latency_seconds / factor) for p in case.prices]
    faster = replace(network, bandwidths=network.bandwidths * factor)
    scaled = simulate(case.schedule, prices, faster).seconds
    assert scaled * factor == pytest.approx(case.flowed(network).seconds, rel=CLOSE)


def moved(network: Network, order: list[int]) -> Network:
    """The same links, the children of the outermost level, a switch, in another order."""
    names = names_of(network.wiring)
    level = network.system.hierarchy.names[0]
    numbers = {name: number for number, name in enumerate(names)}
    bandwidths = network.bandwidths.copy()
    for name, bandwidth in zip(names, network.bandwidths.tolist(), strict=True):
        child, rest = name.split("/", 1)
        place = order[int(child.removeprefix(level))]
        bandwidths[numbers[f"{level}{place}/{rest}"]] = bandwidth
    return replace(network, bandwidths=bandwidths)


@pytest.mark.parametrize("name", ["dgx-h100:4", "p2-a100:4", "mi300x:4"])
@given(st.permutations(range(4)), st.integers(0, 100))
@settings(max_examples=10)
def test_nodes_that_change_places_change_nothing(name: str, order: list[int], seed: int) -> None:
    """All that is perturbed moves along; rings and direct exchange treat all members alike."""
    case = case_of(load(name), whole(load(name)), THREE_STEPS, 4, Choice.RING)
    network = perturb(case.network, seed)
    found = case.flowed(moved(network, order)).seconds
    assert found == pytest.approx(case.flowed(network).seconds, rel=CLOSE)


@given(cases())
@examples(15, 100)
def test_nothing_is_faster_than_the_bound(case: Case) -> None:
    schedule = case.schedule
    assume(schedule.phases)
    least = bound(case.system, schedule.reduction, schedule.padded_bytes)
    assert case.flowed().seconds >= least.seconds * (1 - CLOSE)


def test_one_flow_takes_its_latency_and_its_bytes() -> None:
    system = switches(load("dgx-h100:1").resized(1).hierarchy)
    case = case_of(system, whole(system), "all-reduce root inside", 1, Choice.RING)
    [price] = case.prices
    network = changed(case.network, {"*/gpu3/port0 in": 0.25})
    carried = 2 * 7 / 8 * price.size_bytes
    slowest = 0.25 * system.links[1].bandwidth_bytes_per_second
    assert case.flowed(network).seconds == pytest.approx(
        8.4e-6 + 14 * system.links[1].latency_seconds + carried / slowest
    )
    flowed = case.flowed(network)
    assert flowed.busiest(1)[0][0] == "node0/gpu3/port0 in"
    assert flowed.busiest(1)[0][1] == pytest.approx(carried / slowest / flowed.seconds)


def test_a_slow_port_delays_only_what_needs_it() -> None:
    """Two nodes reduce apart from each other: what is slow in one does not delay the other."""
    system = switches(load("dgx-h100:2").hierarchy)
    axes = (Axis("model", 2), Axis("data", 8))
    [placement] = [p for p in placements(system.hierarchy, axes) if p.matrix == ((2, 1), (1, 8))]
    case = case_of(system, Reduction(placement, ("data",)), "all-reduce root inside", 3)
    usual = case.flowed()
    slow = case.flowed(changed(case.network, {"node1/gpu0/*": 0.5}))
    assert slow.ends[0].tolist() == usual.ends[0].tolist()
    assert (slow.ends[1] > 1.5 * usual.ends[1]).all()


def test_a_faster_link_can_delay_the_end() -> None:
    """What it lets through sooner takes its share of another link from what is needed first."""
    nodes = Link(Domain.SWITCH, 1e9, 1e-5, through=("gpu",))
    links = (nodes, Link(Domain.SWITCH, 1e9, 5e-6))
    system = System("small", "", Hierarchy.of(node=2, gpu=2), links, 1e12)
    case = case_of(system, whole(system), THREE_STEPS, 3)
    network = perturb(case.network, 2, 0.5)
    faster = changed(network, {"node1/gpu1/port0": 2.0})
    assert case.flowed(faster).seconds / case.flowed(network).seconds == pytest.approx(
        1.016, abs=1e-3
    )


# Being asked, and refusing.


def stopped(after: int) -> tuple[FlowResult, list[tuple[int, int]]]:
    case = case_of(load("dgx-h100:32"), whole(load("dgx-h100:32")), THREE_STEPS, 64)
    told: list[tuple[int, int]] = []

    def go_on(done: int, of: int) -> bool:
        told.append((done, of))
        return len(told) < after

    return simulate(case.schedule, case.prices, perturb(case.network, 0), go_on), told


def test_what_is_stopped_says_that_it_is_partial() -> None:
    flowed, told = stopped(3)
    assert not flowed.complete
    assert len(told) == 3
    assert told[-1] == (flowed.completions, flowed.of_completions)
    assert flowed.completions < flowed.of_completions == 72 * 64
    assert int((~np.isnan(flowed.ends)).sum()) == flowed.completions
    assert flowed.completions >= 3 * CHECK_EVERY
    spans = list(flowed.spans())
    assert len(spans) == flowed.completions
    assert flowed.seconds == spans[-1].end_seconds


def test_progress_is_reported_until_the_end() -> None:
    flowed, told = stopped(10**6)
    assert flowed.complete
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert {of for _, of in told} == {flowed.completions}
    assert len(told) >= flowed.completions // CHECK_EVERY - 1


def test_a_schedule_without_phases_takes_no_time() -> None:
    case = case_of(load("dgx-h100:4"), whole(load("dgx-h100:4")), THREE_STEPS, 2)
    nothing = replace(case.schedule, phases=())
    flowed = simulate(nothing, [], case.network)
    assert (flowed.seconds, flowed.complete, list(flowed.spans())) == (0.0, True, [])


def test_what_does_not_fit_together_is_refused() -> None:
    case = case_of(load("dgx-h100:4"), whole(load("dgx-h100:4")), THREE_STEPS, 2)
    with pytest.raises(InputError, match=r"the schedule is for 4 node x 8 gpu"):
        simulate(case.schedule, case.prices, Network.of(load("dgx-h100:8")))
    with pytest.raises(InputError, match=r"the phases of the schedule are reduce-scatter, all-"):
        simulate(case.schedule, case.prices[1:], case.network)
