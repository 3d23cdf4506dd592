"""Systems: which links a machine may have, and who shares a port."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, isclose, nan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import Domain, Hierarchy, InputError, Link, System, load
from places import ROOT
from replying import body_of
from strategies import systems
from synth.ask.answers.given import read_answer

INNER = Link(Domain.SWITCH, 450e9, 3e-6)
NIC = Link(Domain.SWITCH, 50e9, 14e-6, ports=8)


def machine(*links: Link, levels: Sequence[int] = (4, 8)) -> System:
    names = ("pod", "node", "gpu")[-len(levels) :]
    hierarchy = Hierarchy.of(**dict(zip(names, levels, strict=True)))
    return System("test", "", hierarchy, links, 3e12)


@given(systems())
def test_blocks_cover_a_child_and_its_ports(system: System) -> None:
    for level, link in enumerate(system.links):
        inside = system.hierarchy.devices_in_child(level)
        blocks, block = system.blocks(level), system.block(level)
        assert (blocks - 1) * block < inside <= blocks * block
        assert (inside == blocks * block) or system.is_shared_unevenly(level)
        whole = link.bandwidth_bytes_per_second * link.ports
        assert isclose(blocks * system.port_bytes_per_second(level), whole)


@given(systems(), st.integers(1, 9))
def test_resizing_changes_the_outermost_level_only(system: System, count: int) -> None:
    resized = system.resized(count)
    assert resized.hierarchy.cardinalities == (count, *system.hierarchy.cardinalities[1:])
    assert resized.hierarchy.names == system.hierarchy.names
    assert replace(resized, hierarchy=system.hierarchy) == system


def test_ports_are_shared_by_neighbours() -> None:
    assert machine(replace(NIC, ports=8), INNER).block(0) == 1
    assert machine(replace(NIC, ports=2), INNER).block(0) == 4
    assert machine(replace(NIC, ports=1), INNER).block(0) == 8
    assert machine(replace(NIC, ports=8), INNER).port_bytes_per_second(0) == 50e9


def test_more_ports_than_devices_give_each_several() -> None:
    system = machine(replace(NIC, ports=16), INNER)
    assert system.block(0) == 1
    assert system.port_bytes_per_second(0) == 100e9


def test_through_names_inner_levels() -> None:
    middle = Link(Domain.SWITCH, 50e9, 1e-6, through=("gpu",))
    outer = Link(Domain.SWITCH, 10e9, 1e-6, through=("node", "gpu"))
    system = machine(outer, middle, INNER, levels=(2, 4, 8))
    assert [system.through(level) for level in range(3)] == [(1, 2), (2,), ()]


@pytest.mark.parametrize(
    ("ports", "block", "together"), [(3, 3, 1), (5, 8, 5), (12, 2, 3), (6, 4, 3), (10, 4, 5)]
)
def test_ports_that_do_not_divide_are_shared_by_the_fewest_devices(
    ports: int, block: int, together: int
) -> None:
    """Twelve NICs of eight GPUs: every two GPUs have three together, and a child has all twelve."""
    system = machine(replace(NIC, ports=ports), INNER)
    assert (system.block(0), system.ports_of_block(0)) == (block, together)
    assert system.port_bytes_per_second(0) == together * 50e9


def test_a_port_serves_whole_children() -> None:
    outer = Link(Domain.SWITCH, 10e9, 1e-6, ports=2)
    with pytest.raises(InputError, match="a port would serve 6 devices, across the borders"):
        machine(outer, INNER, INNER, levels=(2, 3, 4))


@pytest.mark.parametrize("domain", [Domain.SWITCH, Domain.MESH, Domain.BUS])
def test_only_rings_and_tori_have_ends(domain: Domain) -> None:
    assert not Link(Domain.RING, 1e9, 0.0, wraps=False).wraps
    with pytest.raises(InputError, match=f"a {domain.value} that does not wrap"):
        Link(domain, 1e9, 0.0, wraps=False)


@pytest.mark.parametrize("domain", [Domain.RING, Domain.MESH, Domain.BUS])
def test_only_switch_and_torus_have_several_ports(domain: Domain) -> None:
    with pytest.raises(InputError, match=f"level 'node': a {domain.value} with 8 ports"):
        machine(replace(NIC, domain=domain), INNER)


def test_a_torus_has_a_port_per_device() -> None:
    torus = Link(Domain.TORUS, 45e9, 1e-6)
    assert machine(replace(torus, ports=8), torus).block(0) == 1
    with pytest.raises(InputError, match=r"a torus level with 4 ports; .* ports = 8"):
        machine(replace(torus, ports=4), torus)


@pytest.mark.parametrize("domain", [Domain.RING, Domain.MESH, Domain.TORUS])
def test_nothing_passes_through_a_ring_mesh_or_torus(domain: Domain) -> None:
    through = replace(NIC, through=("gpu",))
    with pytest.raises(InputError, match=f"cannot pass through the {domain.value} 'gpu'"):
        machine(through, Link(domain, 1e9, 0.0))


def test_through_goes_inwards_and_names_all_it_passes() -> None:
    with pytest.raises(InputError, match="level 'gpu': traffic cannot pass through level 'node'"):
        machine(NIC, replace(INNER, through=("node",)))
    with pytest.raises(InputError, match="level 'node': no level 'gpus'"):
        machine(replace(NIC, through=("gpus",)), INNER)
    middle = Link(Domain.SWITCH, 50e9, 1e-6, through=("gpu",))
    outer = Link(Domain.SWITCH, 10e9, 1e-6, through=("node",))
    with pytest.raises(InputError, match="through level 'node' but not through 'gpu'"):
        machine(outer, middle, INNER, levels=(2, 4, 8))


@pytest.mark.parametrize("number", [0.0, -1.0, inf, nan])
def test_bandwidths_are_finite_and_positive(number: float) -> None:
    with pytest.raises(InputError, match="bandwidth is"):
        Link(Domain.SWITCH, number, 0.0)
    with pytest.raises(InputError, match="memory bandwidth is"):
        replace(machine(NIC, INNER), memory_bytes_per_second=number)


@pytest.mark.parametrize("number", [-1e-9, inf, nan])
def test_latencies_are_finite_and_not_negative(number: float) -> None:
    with pytest.raises(InputError, match="latency is"):
        Link(Domain.SWITCH, 1e9, number)
    assert Link(Domain.SWITCH, 1e9, 0.0).latency_seconds == 0


@pytest.mark.parametrize("number", [-1e-9, inf, nan])
def test_so_are_those_of_other_protocols(number: float) -> None:
    with pytest.raises(InputError, match="latency of LL is"):
        Link(Domain.SWITCH, 1e9, 0.0, ll_latency_seconds=number)
    with pytest.raises(InputError, match="latency of LL128 is"):
        Link(Domain.SWITCH, 1e9, 0.0, ll128_latency_seconds=number)
    assert Link(Domain.SWITCH, 1e9, 0.0).ll_latency_seconds is None


@pytest.mark.parametrize("domain", Domain)
def test_only_switches_reduce(domain: Domain) -> None:
    if domain is Domain.SWITCH:
        assert Link(domain, 1e9, 0.0, reduces=True).reduces
        return
    with pytest.raises(InputError, match=f"a {domain.value} that reduces; only a switch can"):
        Link(domain, 1e9, 0.0, reduces=True)


def test_every_level_has_one_link_with_a_port() -> None:
    with pytest.raises(InputError, match="1 links for 2 levels"):
        machine(NIC)
    with pytest.raises(InputError, match="ports is 0"):
        replace(NIC, ports=0)


@pytest.mark.parametrize(
    "name",
    ["", "  ", "a\nb", "a\r", "a\0", "a\tb", "a\u2028b", "\ud800", "\u202e", "x" * 101]
    + [f"a{quote}b" for quote in "\"'`\\"]
    + ['x"""\nimport os\nprint(1)\n"""'],
)
def test_a_name_is_one_plain_line(name: str) -> None:
    with pytest.raises(InputError, match=r"^name: a system cannot be called .*; one line") as told:
        replace(machine(NIC, INNER), name=name)
    assert str(told.value).isprintable()
    assert len(str(told.value)) < 300


@pytest.mark.parametrize("name", ["x", "x" * 100, "Our {machine} #2, a;b", "машина 1"])
def test_a_name_may_be_any_plain_line(name: str) -> None:
    assert replace(machine(NIC, INNER), name=name).name == name


def test_a_title_is_one_line() -> None:
    title = 'Bob\'s "big" machine'
    assert replace(machine(NIC, INNER), title=title).title == title
    for title in ("two\nlines", "\x1b[31mred", "\ud800"):
        with pytest.raises(InputError, match=r"^title: a system cannot have the title"):
            replace(machine(NIC, INNER), title=title)


def test_a_name_that_is_refused_is_reported_with_its_place(tmp_path: Path) -> None:
    text = (ROOT / "hierarchies/catalogue/dgx-h100.toml").read_text(encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(text.replace('"dgx-h100"', "'dgx \"h100\"'", 1), encoding="utf-8")
    with pytest.raises(InputError) as told:
        load(str(path))
    assert told.value.where == f"{path}, name"
    ranking = body_of("striped")
    ranking = ranking | {"system": ranking["system"] | {"title": "two\nlines"}}
    with pytest.raises(InputError) as told:
        read_answer(ranking, 1, None)
    assert told.value.where == "from.system, title"
