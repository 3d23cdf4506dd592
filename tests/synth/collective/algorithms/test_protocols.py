from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from exhaustive import examples
from grammar import Collective
from hierarchies import Domain, Link, System
from hierarchies.fabric import roles_of
from strategies import reductions, smart_systems
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.protocols import Protocol, protocols
from synth.collective.price.step_prices import Simulator
from synth.collective.price.ways import MEMORY, PriceLine

LL, LL128, SIMPLE = Protocol.LL, Protocol.LL128, Protocol.SIMPLE
PLAIN = Link(Domain.SWITCH, 1e9, 1e-5)
QUICK = replace(PLAIN, ll_latency_seconds=1e-6)
NVLINK = replace(QUICK, ll128_latency_seconds=0.0)


@pytest.mark.parametrize(
    ("links", "known"),
    [
        ([PLAIN], (SIMPLE,)),
        ([QUICK], (SIMPLE, LL)),
        ([NVLINK, QUICK], (SIMPLE, LL)),
        ([NVLINK, NVLINK], (SIMPLE, LL, LL128)),
        ([NVLINK, PLAIN], (SIMPLE,)),
    ],
)
def test_every_link_must_know_a_protocol(links: list[Link], known: tuple[Protocol, ...]) -> None:
    assert protocols(links) == known


def test_what_is_data_of_what_is_sent() -> None:
    assert [p.share for p in (SIMPLE, LL, LL128)] == [1, 4 / 8, 120 / 128]


@given(smart_systems(), st.data(), st.sampled_from(Collective))
@examples(15, 100)
def test_a_protocol_changes_latency_launch_and_share_and_nothing_else(
    system: System, data: st.DataObject, collective: Collective
) -> None:
    """As if the links had its latency and its share of their bandwidth, and a call its launch."""
    reduction = data.draw(reductions(system.hierarchy))
    assume(reduction.tree.digits)
    roles = roles_of(reduction, tuple(range(len(reduction.tree.digits))), ())
    by_protocol: dict[Protocol, list[PriceLine]] = {}
    for line in Simulator(system).lines(collective, roles):
        by_protocol.setdefault(line.protocol, []).append(line)
    for protocol, lines in by_protocol.items():
        links = tuple(as_simple(link, protocol) for link in system.links)
        more = protocol.launch_seconds - SIMPLE.launch_seconds if system.launches else 0.0
        same = Simulator(replace(system, links=links)).lines(collective, roles)
        plain = [line for line in same if line.algorithm is not Algorithm.IN_NETWORK]
        found = [line for line in lines if line.algorithm is not Algorithm.IN_NETWORK]
        for one, other in zip(found, plain, strict=True):
            assert one.algorithm is other.algorithm
            assert one.latency_seconds == pytest.approx(other.latency_seconds + more)
            assert dict(one.loads) == pytest.approx(dict(other.loads))


def as_simple(link: Link, protocol: Protocol) -> Link:
    latency = protocol.latency_seconds(link)
    return replace(
        link,
        bandwidth_bytes_per_second=link.bandwidth_bytes_per_second * protocol.share,
        latency_seconds=link.latency_seconds if latency is None else latency,
        ll_latency_seconds=None,
        ll128_latency_seconds=None,
    )


@given(smart_systems(), st.data(), st.sampled_from(Collective))
def test_simple_is_the_first_of_every_algorithm(
    system: System, data: st.DataObject, collective: Collective
) -> None:
    reduction = data.draw(reductions(system.hierarchy))
    assume(reduction.tree.digits)
    roles = roles_of(reduction, tuple(range(len(reduction.tree.digits))), ())
    seen = set()
    for line in Simulator(system).lines(collective, roles):
        assert line.algorithm in seen or line.protocol is SIMPLE
        assert line.protocol is SIMPLE or line.algorithm is not Algorithm.IN_NETWORK
        assert dict(line.loads)[MEMORY] > 0
        seen.add(line.algorithm)
