"""Which messages a line waits for, and what it costs, by hand; levels from the outermost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import Domain, Hierarchy, Level, Link, MessageCurve, System
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.protocols import Protocol
from synth.collective.price.ways import MEMORY, AlgorithmWay, PriceLine, pick_fastest, pick_leanest

LATENCIES = (5.0, 3.0, 1.0)
LINKS = tuple(Link(Domain.SWITCH, 1.0, latency) for latency in LATENCIES)
LEVELS = (Level("rack", 2), Level("node", 2), Level("gpu", 2))
SYSTEM = System("by hand", "", Hierarchy(LEVELS), LINKS, 1e18, launches=False)
RING = AlgorithmWay(
    "all-reduce",
    Algorithm.RING,
    spans=(0, 1, 2),
    bytes_per_port=(1.0, 2.0, 3.0),
    busy_seconds=(0.5, 0.25, 0.125),
    hops=(1, 2, 1),
    waits=(4.0, 4.0, 8.0),
    memory_seconds=0.0625,
    protocols=(Protocol.SIMPLE,),
    peers=(7.0, 8.0, 9.0),
    children=(2, 2, 2),
    spared=1,
)


def latency(way: AlgorithmWay, latencies: tuple[float, ...] = LATENCIES) -> float:
    links = tuple(
        replace(link, latency_seconds=each) for link, each in zip(LINKS, latencies, strict=True)
    )
    return way.line(replace(SYSTEM, links=links), Protocol.SIMPLE).latency_seconds


def test_a_ring_waits_for_all_messages_but_the_cheapest() -> None:
    """4 x 5 + 4 x 2 hops x 3 + 8 x 1, and of these one of 1 is spared."""
    assert latency(RING) == 20 + 24 + 8 - 1
    assert RING.counted(LINKS) == (4.0, 8.0, 7.0)
    assert latency(RING, (5.0, 3.0, 9.0)) == 20 + 24 + 72 - 5
    assert latency(replace(RING, spared=0)) == 52


@pytest.mark.parametrize("protocol", Protocol)
def test_every_call_costs_its_launch(protocol: Protocol) -> None:
    """By NCCL's model; also of what is sent at once, and unless the machine has none."""
    links = tuple(
        replace(link, ll_latency_seconds=1.0, ll128_latency_seconds=1.0) for link in LINKS
    )
    without = replace(SYSTEM, links=links)
    launch = {"simple": 8.4e-6, "ll": 6.6e-6, "ll128": 14e-6}[protocol.value]
    for way in (RING, replace(RING, at_once=True, spared=0)):
        silent = way.line(without, protocol)
        loud = way.line(replace(without, launches=True), protocol)
        assert loud.latency_seconds == pytest.approx(silent.latency_seconds + launch, abs=1e-12)
        assert loud.loads == silent.loads


def test_messages_are_spared_with_their_hops() -> None:
    links = tuple(replace(link, latency_seconds=1.0) for link in LINKS)
    twice = replace(RING, hops=(3, 3, 3))
    assert twice.counted(links) == (12.0, 12.0, 21.0)
    assert latency(twice, (1.0, 1.0, 1.0)) == 48 - 3


def test_of_two_rounds_two_in_a_row_are_spared() -> None:
    """An edge of the innermost level and one beside it: of that level itself only where three
    members are in a row there, else the cheapest of the others.
    """
    twice = replace(RING, spared=2)
    assert latency(replace(twice, in_a_row=2)) == 52 - 1 - 5
    assert latency(replace(twice, in_a_row=3)) == 52 - 1 - 1
    assert latency(replace(twice, in_a_row=2), (1.0, 3.0, 9.0)) == 4 + 24 + 72 - 9 - 1
    alone = replace(twice, spans=(2,), waits=(0.0, 0.0, 8.0), in_a_row=2)
    assert latency(alone) == 8 - 2


def test_what_is_sent_at_once_waits_for_the_longest() -> None:
    direct = replace(RING, at_once=True, spared=0)
    assert latency(direct) == 24
    assert direct.counted(LINKS) == (0.0, 8.0, 0.0)


@pytest.mark.parametrize("protocol", Protocol)
def test_a_protocol_flags_what_it_sends(protocol: Protocol) -> None:
    links = tuple(
        replace(link, ll_latency_seconds=1.0, ll128_latency_seconds=1.0) for link in LINKS
    )
    line = RING.line(replace(SYSTEM, links=links), protocol)
    share = {"simple": 1.0, "ll": 0.5, "ll128": 0.9375}[protocol.value]
    assert dict(line.loads) == pytest.approx(
        {"rack": 0.5 / share, "node": 0.25 / share, "gpu": 0.125 / share, MEMORY: 0.0625}
    )
    wire = {"rack": 1 / share, "node": 2 / share, "gpu": 3 / share}
    assert dict(line.bytes_per_port) == pytest.approx(wire)


def test_what_nothing_crosses_is_no_load() -> None:
    inside = replace(RING, bytes_per_port=(0.0, 2.0, 3.0), busy_seconds=(0.0, 0.25, 0.125))
    assert [name for name, _ in inside.line(SYSTEM, Protocol.SIMPLE).loads] == [
        "node",
        "gpu",
        MEMORY,
    ]


@given(st.floats(0, 8), st.floats(0.1, 8), st.floats(1, 4096))
def test_a_message_costs_by_its_bytes(wait: float, rate: float, size: float) -> None:
    """Messages of an eighth of the buffer, twice as dear up to 64 bytes and half as dear above."""
    curve = MessageCurve(0, (64.0, 64.5), (2.0, 0.5), "simple")
    line = PriceLine(
        Algorithm.RING,
        wait + 1.0,
        (("gpu", rate), (MEMORY, 0.0)),
        (),
        messages=((wait, curve),),
        message_share=1 / 8,
    )
    factor = 2.0 if size <= 512 else 0.5
    if not 64 < size / 8 < 64.5:
        assert line.waiting_seconds(size) == pytest.approx(1.0 + factor * wait)
        assert line.seconds(size) == pytest.approx(1.0 + factor * wait + size * rate)


def test_the_fastest_is_not_the_leanest() -> None:
    """The first of those that tie, in time; in load those that wait less come first."""
    quick = PriceLine(Algorithm.TREE, 1.0, (("gpu", 4.0),), ())
    lean = PriceLine(Algorithm.RING, 5.0, (("gpu", 2.0),), ())
    late = PriceLine(Algorithm.DIRECT, 6.0, (("gpu", 2.0),), ())
    assert pick_fastest([lean, quick], 1.0) is quick
    assert pick_fastest([lean, quick], 2.0) is lean
    assert pick_fastest([quick, lean], 2.0) is quick
    assert pick_fastest([quick, lean], 3.0) is lean
    assert pick_leanest([late, quick, lean], 1.0) is lean
