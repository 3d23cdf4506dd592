"""Links by number and by name, their bandwidths, and how they are perturbed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import Domain, Hierarchy, InputError, Level, Link, System, catalogue, load
from hierarchies.links import MOST_LINKS, Network, Wiring
from link_names import names_of, spelled
from price_oracle import Machine, Wire
from results.bench.perturbed import perturb
from strategies import systems


def wires(machine: Machine) -> set[Wire]:
    """All links that messages between devices can take."""
    return {
        wire
        for source in machine.devices
        for target in machine.devices
        if source != target
        for _, way in machine.routes(source, target, detours=True)
        for wire in way
    }


@given(systems(12))
def test_links_are_those_of_the_explicit_machine(system: System) -> None:
    """By name; and there are no others but those that nothing can cross, and memory."""
    network, machine = Network.of(system), Machine(system)
    names = names_of(network.wiring)
    assert len(set(names)) == len(names) == network.wiring.links
    known = dict(zip(names, network.bandwidths.tolist(), strict=True))
    expected = {spelled(machine, wire): machine.capacity(wire) for wire in wires(machine)}
    assert {name: known[name] for name in expected} == expected
    alone = [
        name
        for name, count in zip(system.hierarchy.names, machine.cards, strict=True)
        if count == 1
    ]
    for name in set(names) - set(expected):
        level = name.rsplit("/", 1)[-1]
        switched = "/port" in name and name.rsplit("/", 2)[-2].rstrip("0123456789") in alone
        assert level == "memory" or switched or level.removesuffix("-bus") in alone


@given(systems(24))
def test_memory_is_a_link_of_every_device(system: System) -> None:
    network = Network.of(system)
    links = network.wiring.memories(np.arange(system.devices))
    assert (network.bandwidths[links] == system.memory_bytes_per_second).all()
    assert all(network.wiring.name(link).endswith("/memory") for link in links.tolist())


@given(systems(24), st.integers(0, 10), st.floats(0, 0.9))
def test_perturbed_links_stay_within_their_share(system: System, seed: int, share: float) -> None:
    network = Network.of(system)
    drawn = perturb(network, seed, share).bandwidths / network.bandwidths
    assert (abs(drawn - 1) <= share + 1e-15).all()  # a quotient is rounded
    again = perturb(network, seed, share).bandwidths / network.bandwidths
    assert (drawn == again).all()


def test_perturbed_links_differ() -> None:
    network = Network.of(load("dgx-h100:4"))
    drawn = perturb(network, 0).bandwidths / network.bandwidths
    assert len(set(drawn.tolist())) == len(drawn)
    other = perturb(network, 1).bandwidths / network.bandwidths
    assert not (drawn == other).any()


@pytest.mark.parametrize("name", catalogue())
def test_every_machine_known_has_links_with_names(name: str) -> None:
    wiring = Wiring(load(name))
    assert len(set(names_of(wiring))) == wiring.links


def test_names_of_direct_links() -> None:
    torus = set(names_of(Wiring(load("tpu-v5e-slice"))))
    levels = load("tpu-v5e-slice").hierarchy.names
    assert f"{levels[0]}0-{levels[0]}1/{levels[1]}2 forth" in torus
    assert f"{levels[0]}3/{levels[1]}0-{levels[1]}1 back" in torus
    mesh = set(names_of(Wiring(load("mi300x:2"))))
    assert {"node0/gpu2-gpu7 forth", "node0/gpu2-gpu7 back"} <= mesh


def test_links_out_of_range_are_refused() -> None:
    network = Network.of(load("dgx-h100:4"))
    with pytest.raises(IndexError):
        network.wiring.name(network.wiring.links)


def test_too_many_links_are_refused() -> None:
    hierarchy = Hierarchy((Level("gpu", MOST_LINKS),))
    system = System("huge", "", hierarchy, (Link(Domain.SWITCH, 1e9, 0.0),), 1e12)
    with pytest.raises(InputError, match="links; at most"):
        Wiring(system)
