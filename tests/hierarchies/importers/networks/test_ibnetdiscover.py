"""InfiniBand fabrics: rails, uplinks and speeds, against fabrics that are written here."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import InputError, load, read
from hierarchies.importers import Draft, draft_to_toml, import_texts, wrap_network
from hierarchies.importers.networks.infiniband import parse_subnet
from network_texts import counts, fabric

SPINE_PORTS = 1000


def of(text: str) -> Draft:
    return import_texts("ibnetdiscover", {"net.out": text})


@given(
    st.integers(2, 3), st.integers(2, 4), st.integers(1, 3), st.integers(1, 2), st.integers(1, 2)
)
def test_a_fabric_gives_back_what_it_was_made_of(
    groups: int, hosts: int, rails: int, spines: int, trunks: int
) -> None:
    draft = of(fabric(groups, hosts, rails, spines=spines, trunks=trunks))
    outer = "leaf" if rails == 1 else "group"
    assert counts(draft) == {outer: groups, "node": hosts}
    assert draft.counted == {
        "nodes": groups * hosts,
        "nics": groups * hosts * rails,
        "switches": groups * rails + spines,
        "leaf switches": groups * rails,
        "spine switches": spines,
        "links": groups * rails * (hosts + spines * trunks),
    }
    level, node = draft.levels
    assert (node.entries()["ports"].value, node.bandwidth_bytes_per_second.value) == (rails, 50e9)  # type: ignore[union-attr]
    uplinks = rails * spines * trunks
    total = level.entries()["ports"].value * level.bandwidth_bytes_per_second.value  # type: ignore[union-attr,operator]
    assert total == pytest.approx(uplinks * 50e9)
    assert f"{uplinks} uplinks of 4xNDR = 400 Gb/s" in level.bandwidth_bytes_per_second.source


@pytest.mark.parametrize(
    ("speed", "gigabytes"),
    [
        ("4xSDR", 1),
        ("4xDDR", 2),
        ("4xQDR", 4),
        ("4xFDR10", 5),
        ("4xEDR", 12.5),
        ("4xHDR", 25),
        ("2xHDR", 12.5),
        ("4xNDR", 50),
        ("8xNDR", 100),
        ("4xXDR", 100),
        ("1xEDR", 3.125),
    ],
)
def test_speeds_are_lanes_times_rate(speed: str, gigabytes: float) -> None:
    draft = of(fabric(2, 2, 1, speed=speed))
    assert draft.levels[-1].bandwidth_bytes_per_second.value == pytest.approx(gigabytes * 1e9)  # type: ignore[union-attr]
    assert f"ibnetdiscover: {speed} = " in draft.levels[-1].bandwidth_bytes_per_second.source


def test_a_node_inside_makes_a_whole_system() -> None:
    text = fabric(2, 4, 8, spines=4, trunks=1)
    system = read(draft_to_toml(wrap_network(of(text), load("dgx-h100")).suggested()))
    assert str(system.hierarchy) == "2 group x 4 node x 8 gpu"
    assert system.links[0].ports == 32
    assert system.links[0].bandwidth_bytes_per_second == 50e9
    assert system.links[1].ports == 8


def test_no_machines_are_no_nodes() -> None:
    text = fabric(2, 3, 4)
    text += (
        '\nCa\t1 "H-agg"\t# "Mellanox Technologies Aggregation Node"\n'
        '[1]\t"S-0000"[60]\t# lid 3 4xNDR\n'
        '\nCa\t1 "H-ufm"\t# "ufm HCA-1"\n[1]\t"S-0000"[61]\t# lid 3 4xNDR\n'
    )
    draft = of(text)
    assert (draft.counted["nodes"], counts(draft)) == (6, {"group": 2, "node": 3})
    assert any("1 aggregation nodes (SHARP)" in note for note in draft.notes)
    assert any("left out" in note and "ufm" in note for note in draft.notes)


def test_adapters_without_a_name_are_as_many_hosts_as_they_can_be() -> None:
    text = fabric(2, 3, 4)
    for rail in range(4):
        text = text.replace(f"node-1-2 mlx5_{rail}", "MT4129 ConnectX7   Mellanox Technologies")
    draft = of(text)
    assert (draft.counted["nodes"], draft.counted["nics"]) == (6, 24)
    assert any("4 adapters do not name their host" in note for note in draft.notes)


def test_a_missing_trunk_a_slow_cable_and_a_dead_rail_are_reported() -> None:
    text = fabric(2, 3, 2, trunks=2)
    lines = text.splitlines()
    trunk = next(i for i, line in enumerate(lines) if '"S-ff00"' in line and line.startswith("["))
    ends = {lines[trunk]}
    other = next(
        line
        for line in lines
        if line.startswith('[1]\t"S-0000"')
        and "lid 2" in line
        and "leaf-0-0" in line
        and line != lines[trunk]
        and "[4]" in line
    )
    short = of("\n".join(line for line in lines if line not in ends and line != other))
    assert any("3 of 4 leaf switches have 4 uplinks" in note for note in short.notes)
    slow = [
        line.replace("4xNDR", "4xHDR")
        if "node-0-0 mlx5_0" in line or ('"S-0000"[1]' in line)
        else line
        for line in lines
    ]
    assert any("cables of several speeds" in note for note in of("\n".join(slow)).notes)
    dead = [
        line
        for line in lines
        if not ("node-0-0 mlx5_0" in line and line.startswith("[")) and '"S-0000"[1]' not in line
    ]
    assert any(
        "fewer than the usual 2 cables" in note or "at most half" in note
        for note in of("\n".join(dead)).notes
    )


def test_cables_are_counted_once_from_either_end() -> None:
    one_end = 'Switch 8 "Switch1"\n[1]\t"Hca1"[1]\n[2] "Hca2"[1] w=12\n'
    both = one_end + '\nHca 2 "Hca1"\n[1] "Switch1"[1]\n\nHca 2 "Hca2"\n[1] "Switch1"[2]\n'
    assert len(parse_subnet(one_end).cables) == len(parse_subnet(both).cables) == 2
    assert counts(of(one_end)) == counts(of(both)) == {"node": 2}
    where = {(level, key) for level, key, blank in of(both).blanks() if blank.needed}
    assert ("node", "bandwidth_GB_per_s") in where


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("vendid=1\n", "no switch"),
        ('Ca 1 "H-1" # "n HCA-1"\n', "no switch, only adapters"),
        ('Switch 2 "S-1"\n', "no switch has adapters"),
        ('[1] "H-1"[1]\n', "line 1: a port before"),
        ('Switch 2 "S-1"\nhello\n', "line 2: 'hello' is not a line"),
        ('Switch 2 "S-1"\n[1] "S-2"[1] # "x" lid 1 4xNDR\n', "no block for the switch 'S-2'"),
        ('Switch 2 "S-1"\nSwitch 2 "S-1"\n', "given twice"),
        ('Switch 2 "S-1"\n[1] "H-1"[1]\n[1] "H-2"[1]\n', "two cables"),
        ('Switch 2 "S-1"\n[1] "H-1"[1] # "a HCA-1" lid 1 4xABC\n', "speed 4xABC is not known"),
        (
            (
                'Switch 2 "S-1"\n[1] "H-1"[1] # "a" lid 1 4xNDR\n'
                'Ca 1 "H-1"\n[1] "S-1"[1] # lid 1 4xHDR\n'
            ),
            "at the other",
        ),
    ],
)
def test_invalid_input_is_refused_with_a_reason(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        of(text)


def test_leaf_switches_are_reported_in_the_order_of_the_file() -> None:
    cut = [f'"S-{group:02x}00"[3]' for group in range(1, 9)]
    trunk = '"S-ff00"['
    kept, leaf = [], ""
    for line in fabric(9, 2, 1).splitlines():
        leaf = line if line.startswith("Switch") else leaf
        if not any(end in line for end in cut) and not (trunk in line and '"S-0000"' not in leaf):
            kept.append(line)
    [note] = [note for note in of("\n".join(kept)).notes if "switches have" in note]
    told = ", ".join(f"MF0;leaf-{group}-0:MQM9700/U1 has 1" for group in range(1, 9))
    assert note.startswith(f"1 of 9 leaf switches have 2 uplinks, {told}.")
