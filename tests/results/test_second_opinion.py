"""The second opinion: messages that carry out collectives, and what a judge says of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from exhaustive import examples
from grammar import Collective, Goal, parse
from hierarchies import Axis, Domain, Hierarchy, Link, Reduction, System, placements
from hierarchies.fabric import roles_of
from results import record
from results.opinions import __main__ as opinions
from results.opinions import application, asking, cases, fairness, messages, wires
from synth.collective.algorithms.algorithms import (
    RECIPES,
    Algorithm,
    Choice,
    innermost_network_level,
)
from synth.collective.price.step_prices import Simulator
from synth.collective.price.ways import busy_by_direction
from synth.collective.ranking.answers import price_phases
from synth.collective.semantics.lowering import lower
from synth.collective.verify.rehearsal import derive_valid
from synth.events.longest_path import arrange_tasks
from synth.step.simulation.sharing import time_on_links

AR, RS, AG = Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_GATHER
REDUCE, BROADCAST = Collective.REDUCE, Collective.BROADCAST
KNOWN = [
    *((one, Algorithm.RING) for one in (AR, RS, AG, REDUCE, BROADCAST)),
    *((one, Algorithm.DIRECT) for one in (AR, RS, AG)),
    *((one, Algorithm.HALVING_DOUBLING) for one in (AR, RS, AG)),
    *((one, Algorithm.TREE) for one in (AR, REDUCE, BROADCAST)),
]
COUNTS = st.lists(st.integers(2, 5), min_size=1, max_size=3).filter(lambda c: prod(c) <= 30)
EXPANSIONS = (st.sampled_from(KNOWN), COUNTS.map(tuple), st.integers(1, 3), st.booleans())


def carried_out(expansion: Any, start: np.ndarray) -> np.ndarray:
    """Every message in the order it is written down, on buffers of shape (members, atoms)."""
    held = start.copy()
    for message in expansion.messages:
        part = slice(message.first, message.last)
        sent = held[message.sender, part].copy()
        if message.adds:
            held[message.receiver, part] += sent
        else:
            held[message.receiver, part] = sent
    return held


@given(*EXPANSIONS)
def test_messages_carry_out_the_collective(
    what: tuple[Collective, Algorithm], counts: tuple[int, ...], pieces: int, both: bool
) -> None:
    collective, algorithm = what
    members = prod(counts)
    assume(algorithm is not Algorithm.HALVING_DOUBLING or members & (members - 1) == 0)
    expansion = messages.expand(collective, algorithm, counts, pieces, both)
    start = np.random.default_rng(1).integers(1, 10**9, (members, expansion.atoms))
    held, total = carried_out(expansion, start), start.sum(axis=0)
    if collective is AR:
        assert (held == total).all()
    elif collective is REDUCE:
        assert (held[0] == total).all()
    elif collective is BROADCAST:
        assert (held == start[0]).all()
    else:
        owner = np.arange(expansion.atoms) * members // expansion.atoms
        own = start[owner, np.arange(expansion.atoms)]
        if collective is RS:
            assert (held[owner, np.arange(expansion.atoms)] == total).all()
        else:
            assert (held == own).all()


@given(*EXPANSIONS)
def test_no_more_is_sent_than_is_needed(
    what: tuple[Collective, Algorithm], counts: tuple[int, ...], pieces: int, both: bool
) -> None:
    """Each member but one adds or takes every atom once; waits name earlier messages only."""
    collective, algorithm = what
    members = prod(counts)
    assume(algorithm is not Algorithm.HALVING_DOUBLING or members & (members - 1) == 0)
    expansion = messages.expand(collective, algorithm, counts, pieces, both)
    sent = sum(message.last - message.first for message in expansion.messages)
    assert sent == (members - 1) * expansion.atoms * (2 if collective is AR else 1)
    for number, message in enumerate(expansion.messages):
        assert all(0 <= other < number for other in message.after)
        assert message.behind < number
        for other in message.after:
            assert expansion.messages[other].receiver == message.sender


@given(*EXPANSIONS)
@examples(15, 100)
def test_order_beyond_what_is_waited_for_does_not_matter(
    what: tuple[Collective, Algorithm], counts: tuple[int, ...], pieces: int, both: bool
) -> None:
    """Messages carried out in any order that keeps the waits give the same."""
    collective, algorithm = what
    members = prod(counts)
    assume(algorithm is not Algorithm.HALVING_DOUBLING or members & (members - 1) == 0)
    expansion = messages.expand(collective, algorithm, counts, pieces, both)
    start = np.random.default_rng(2).integers(1, 10**9, (members, expansion.atoms))
    shuffled = messages.Expansion(expansion.atoms, tuple(_shuffled(expansion.messages)))
    again = carried_out(shuffled, start)
    usual = carried_out(expansion, start)
    if collective in (AR, AG, BROADCAST):
        assert (again == usual).all()
    elif collective is REDUCE:
        assert (again[0] == usual[0]).all()
    else:
        atoms = np.arange(expansion.atoms)
        owner = atoms * members // expansion.atoms
        assert (again[owner, atoms] == usual[owner, atoms]).all()


def _shuffled(listed: tuple[Any, ...]) -> Iterator[Any]:
    """By turns whoever may go, drawn at random."""
    random = np.random.default_rng(3)
    waits = [{*message.after, message.behind} - {messages.NOBODY} for message in listed]
    freed: list[list[int]] = [[] for _ in listed]
    for number, others in enumerate(waits):
        for other in others:
            freed[other].append(number)
    ready = [number for number, others in enumerate(waits) if not others]
    while ready:
        number = ready.pop(int(random.integers(len(ready))))
        yield listed[number]
        for other in freed[number]:
            waits[other].discard(number)
            if not waits[other]:
                ready.append(other)


# What our prices say that messages wait for, against the longest way through the messages.

LATENCIES = (7.0, 3.0, 1.0)


def longest_wait(expansion: Any, counts: tuple[int, ...], latencies: tuple[float, ...]) -> float:
    """When the last message arrives if it takes only what the outermost border it crosses costs."""
    arrivals: list[float] = []
    for message in expansion.messages:
        here, there = (np.unravel_index(p, counts) for p in (message.sender, message.receiver))
        level = next(i for i, (a, b) in enumerate(zip(here, there, strict=True)) if a != b)
        begun = max((arrivals[other] for other in message.after), default=0.0)
        arrivals.append(begun + latencies[level])
    return max(arrivals)


@given(st.sampled_from(KNOWN), COUNTS.map(tuple), st.permutations(LATENCIES))
@examples(15, 100)
def test_prices_wait_as_long_as_messages_do(
    what: tuple[Collective, Algorithm], counts: tuple[int, ...], latencies: list[float]
) -> None:
    collective, algorithm = what
    members = prod(counts)
    assume(RECIPES[what].fits(counts))
    latencies = latencies[: len(counts)]
    names = ("pod", "node", "gpu")[: len(counts)]
    hierarchy = Hierarchy.of(**dict(zip(names, counts, strict=True)))
    links = tuple(Link(Domain.SWITCH, 1e9, seconds) for seconds in latencies)
    system = System("made", "", hierarchy, links, 1e18, launches=False)
    # Inside nodes NCCL's trees are chains, which these messages do not have.
    assume(algorithm is not Algorithm.TREE or innermost_network_level(system) < 0)
    [placement] = placements(hierarchy, (Axis("all", members),))
    reduction = Reduction(placement, ("all",))
    free = tuple(range(len(reduction.tree.digits)))
    [line] = Simulator(system).by(collective, algorithm, roles_of(reduction, free, ()))
    expansion = messages.expand(collective, algorithm, counts, 1)
    found = longest_wait(expansion, counts, tuple(latencies))
    assert found == pytest.approx(line.latency_seconds)


# The judge.


def judged(problem: dict[str, Any]) -> dict[str, Any]:
    if asking.interpreter() is None:
        pytest.skip(asking.MISSING)
    return next(asking.verdicts([problem]))


def test_the_judge_shares_links_and_keeps_the_order_of_a_connection() -> None:
    """Two share 1 GB/s for 2 ms; a third waits for the first to arrive, a fourth to have left."""
    told = judged(
        {
            "links": [1e9, 1e9, 2e9],
            "routes": [[0, 1, [0, 1]], [0, 2, [0, 2]], [0, 1, [2]]],
            "messages": [
                [0, 1e6, 1e-6, [], -1, 0],
                [1, 1e6, 1e-6, [], -1, 0],
                [2, 1e6, 5e-6, [0], -1, 1],
                [0, 1e6, 0.0, [], 0, 2],
            ],
            "arrivals": True,
        }
    )
    assert told["arrivals"] == pytest.approx([2.001e-3, 2.001e-3, 2.506e-3, 3e-3])


@pytest.mark.parametrize("seed", range(5))
def test_shares_of_links_are_those_of_the_judge(seed: int) -> None:
    told = fairness.drawn(seed)
    assert fairness.worst_difference(told, judged(fairness.asked(told))) <= 1e-9


@pytest.mark.parametrize("name", ["2x4, 2 ports", "2x4, 1 port through gpu", "2x4, 1 port"])
def test_seconds_of_rings_match_the_judge(name: str) -> None:
    """Programs of rings between members that nothing fills: to the nanosecond where waits are 0."""
    system = cases.MADE[name]
    silent = replace(system, links=tuple(replace(one, latency_seconds=0.0) for one in system.links))
    asked = cases.Case(name, cases.Asked((8,), (0,)), 2**20, Choice.RING)
    for pair in cases.Pairs(3).of(silent, asked):
        if "reduce node" in pair.program or "reduce root" in pair.program:
            continue
        how = cases.hows(pair.prices)
        steps = zip(pair.schedule.phases, how, pair.prices, strict=True)
        for phase, one, price in steps:
            found = application.phases_problem([phase], [one], wires.Wires(silent), 1)
            seconds = judged(found)["seconds"]
            assert seconds >= price.seconds * (1 - 1e-6)
            assert seconds <= price.seconds * 1.03


@pytest.mark.parametrize("through", [(), ("gpu",)], ids=["beside", "through"])
@pytest.mark.parametrize("ports", [1, 2])
def test_collectives_at_once_end_when_the_judge_says(ports: int, through: tuple[str, ...]) -> None:
    """A gather over one axis beside a sum over another, as FSDP's beside those of tensors.

    The judge follows every message of both, link by link; ours knows the share of its seconds for
    which each keeps a level's ports busy. As if alone, the later would end up to twice too early.
    """
    nodes = Link(Domain.SWITCH, 25e9, 0.0, ports, through)
    links = (nodes, Link(Domain.SWITCH, 100e9, 0.0))
    system = System("made", "", Hierarchy.of(node=4, gpu=2), links, 1e30, launches=False)
    axes = (Axis("a", 2), Axis("b", 2), Axis("c", 2))
    crowded = 0
    for placement in placements(system.hierarchy, axes):
        network, asked = wires.Wires(system), []
        for over, goal, size in (("a", Goal.ALL_GATHER, 3 << 19), ("b", Goal.ALL_REDUCE, 1 << 20)):
            reduction = Reduction(placement, (over,))
            found = derive_valid(parse(f"{goal.value} root inside"), reduction.tree, goal)
            [price] = price_phases(Simulator(system, Choice.RING), found, reduction, size)
            [phase] = lower(found, reduction, size).phases
            way = price.algorithm, price.protocol
            asked.append((price, application.phases_problem([phase], [way], network, 1)))
        at_once = judged(application.at_once([problem for _, problem in asked]))
        seconds = [price.seconds for price, _ in asked]
        busy = [busy_by_direction(price.work.busy).items() for price, _ in asked]
        shares = [
            tuple((resource, of / took) for resource, of in used)
            for used, took in zip(busy, seconds, strict=True)
        ]
        _, ends = time_on_links(arrange_tasks([(), ()], [[0], [1]]), seconds, shares)
        judge = dict(at_once["marks"])
        assert ends == pytest.approx([judge[0], judge[1]], rel=0.12)
        assert max(ends) >= 0.99 * max(judge.values())
        crowded += max(judge.values()) > 1.2 * max(seconds)
    assert crowded


def test_the_page_matches_the_data() -> None:
    assert opinions.page(record.read(opinions.DATA)).is_current


def test_figures_of_the_second_opinion() -> None:
    """On switches messages wait just as long as prices say; shares of links are the same."""
    told = record.read(opinions.DATA)
    for kind in told["kinds"]:
        if "circles" not in kind["spans"]:
            for end in ("lowest", "highest"):
                assert kind["waits_alone"][end] == pytest.approx(1, rel=1e-4)
    assert told["fairness"]["worst"] <= 1e-9
