"""Slurm's files: every topology it can write, the order of nodes, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hierarchies import InputError, load, read
from hierarchies.importers import (
    Draft,
    ImportOptions,
    StatedValue,
    draft_to_toml,
    import_texts,
    wrap_network,
)
from network_texts import SHOWN, TREE, YAML_TREE, counts


def of(text: str, options: ImportOptions | None = None, name: str = "topology.conf") -> Draft:
    return import_texts("slurm", {name: text}, options)


def blank(draft: Draft) -> set[tuple[str, str]]:
    return {(where, key) for where, key, blank in draft.blanks() if blank.needed}


def test_a_tree_becomes_levels_and_no_speed_is_invented() -> None:
    draft = of(TREE)
    assert counts(draft) == {"spine": 2, "leaf": 2, "node": 3}
    assert draft.counted["nodes"] == 12
    assert draft.counted["leaf switches"] == 4
    assert any("LinkSpeed" in note for note in draft.notes)
    assert {(level, "bandwidth_GB_per_s") for level in counts(draft)} <= blank(draft)
    assert [level.through for level in draft.levels] == [("leaf", "node"), ("node",), ()]


def test_the_draft_is_refused_until_it_is_filled() -> None:
    text = draft_to_toml(of(TREE))
    with pytest.raises(InputError):
        read(text)


def test_a_node_goes_inside() -> None:
    draft = wrap_network(of(TREE), load("dgx-h100"))
    assert counts(draft) == {"spine": 2, "leaf": 2, "node": 3, "gpu": 8}
    assert blank(draft) == {
        (level, key)
        for level in ("spine", "leaf")
        for key in ("bandwidth_GB_per_s", "latency_us", "ports")
    }


def test_scontrol_output_gives_the_same_tree() -> None:
    assert counts(of(SHOWN)) == {"leaf": 2, "node": 2}


def test_yaml_by_the_cluster_default_and_wins_over_conf() -> None:
    draft = import_texts("slurm", {"topology.conf": TREE, "topology.yaml": YAML_TREE})
    assert counts(draft) == {"leaf": 2, "node": 2}
    assert any("other topologies" in note and "other" in note for note in draft.notes)
    assert any("topology.conf" in note for note in draft.notes)


def test_blocks_and_their_sizes() -> None:
    draft = of("BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockSizes=4,8\n")
    assert counts(draft) == {"block": 2, "node": 4}
    assert ("block", "domain") in blank(draft)
    same = of(
        "- topology: t\n  block:\n    block_sizes: [4, 8]\n    blocks:\n"
        "    - {block: b1, nodes: 'n[1-4]'}\n    - {block: b2, nodes: 'n[5-8]'}\n"
    )
    assert (counts(same), same.notes) == (counts(draft), draft.notes)


def test_blocks_beside_a_tree_are_one_more_level_if_they_nest() -> None:
    tree = (
        "SwitchName=top Switches=s[0-1]\nSwitchName=s0 Nodes=n[0-3]\nSwitchName=s1 Nodes=n[4-7]\n"
    )
    nested = "\n".join(f"BlockName=b{i} Nodes=n[{2 * i}-{2 * i + 1}]" for i in range(4))
    assert counts(of(tree + nested)) == {"leaf": 2, "block": 2, "node": 2}
    crossing = "BlockName=a Nodes=n[0-2]\nBlockName=b Nodes=n[3-7]\n"
    draft = of(tree + crossing)
    assert counts(draft) == {"leaf": 2, "node": 4}
    assert any("overlap the units" in note for note in draft.notes)


def test_a_torus_counts_x_fastest_and_has_its_own_links() -> None:
    text = (
        "- topology: t\n  torus3d:\n    toruses:\n"
        "    - {torus: a, dims: {x: 4, y: 3, z: 2}, nodes: 'n[1-24]'}\n"
    )
    draft = of(text)
    assert counts(draft) == {"z": 2, "y": 3, "x": 4}
    assert [level.entries()["ports"].value for level in draft.levels] == [12, 4, 1]  # type: ignore[union-attr]
    assert {level.domain.value for level in draft.levels} == {"torus"}  # type: ignore[union-attr]
    with pytest.raises(InputError, match="has 24 nodes"):
        of(text.replace("x: 4", "x: 5"))


def test_rings() -> None:
    draft = of("RingName=r1 Nodes=a[1-4]\nRingName=r2 Nodes=b[1-4]\n")
    assert counts(draft) == {"ring": 2, "node": 4}
    assert draft.levels[-1].domain.value == "ring"  # type: ignore[union-attr]
    rings = "[{ring: r1, nodes: 'a[1-4]'}, {ring: r2, nodes: 'b[1-4]'}]"
    yaml = f"- topology: t\n  ring: {{rings: {rings}}}\n"
    assert counts(of(yaml)) == counts(draft)


def test_unlike_units_are_named_with_an_even_part() -> None:
    text = "SwitchName=top Switches=s[0-3]\n" + "".join(
        f"SwitchName=s{i} Nodes=n[{100 * i + 1}-{100 * i + (14 if i == 3 else 16)}]\n"
        for i in range(4)
    )
    draft = of(text)
    assert counts(draft) == {"leaf": 4, "node": 16}
    (note,) = [note for note in draft.notes if "different sizes" in note]
    for part in (
        "of 4 at level leaf, 3 have 16 node, s3 has 14",
        "= 64, 2 more",
        "4 leaf x 14 node = 56 of the 62",
    ):
        assert part in note


def test_missing_nodes_are_exceptions_of_the_system() -> None:
    text = "SwitchName=top Switches=s[0-1]\nSwitchName=s0 Nodes=a[1-2]\nSwitchName=s1 Nodes=b1\n"
    draft = wrap_network(of(text), load("dgx-h100"))
    assert [lack.unit for lack in draft.lacks] == ["leaf1/node1"]
    leaf, *inside = draft.levels
    filled = replace(
        leaf, bandwidth_bytes_per_second=StatedValue(50e9, "plan"), ports=StatedValue(16, "plan")
    )
    system = read(draft_to_toml(replace(draft, levels=(filled, *inside)).suggested()))
    assert str(system.hierarchy) == "2 leaf x 2 node x 8 gpu"
    assert sorted(system.missing) == list(range(24, 32))


def test_a_host_on_two_switches_counts_once_with_a_note() -> None:
    draft = of("SwitchName=a Nodes=n[1-3]\nSwitchName=b Nodes=n[3-5]\n")
    assert draft.counted["nodes"] == 5
    assert any("n3 (a, b)" in note for note in draft.notes)
    assert any("no switch joins a, b" in note for note in draft.notes)


HALLS = """\
SwitchName=hallA Switches=a[1-2]
SwitchName=a1 Nodes=n[1-4]
SwitchName=a2 Nodes=n[5-8]
SwitchName=hallB Switches=b[1-2]
SwitchName=b1 Nodes=n[9-12]
SwitchName=b2 Nodes=n[13-16]
SwitchName=alone Nodes=n[17-20]
"""


def test_a_leaf_next_to_spines_represents_its_own_spine() -> None:
    draft = of(HALLS)
    assert counts(draft) == {"spine": 3, "leaf": 2, "node": 4}
    assert [lack.unit for lack in draft.lacks] == ["spine2/leaf1"]
    assert any("each also represents the switches between: alone" in n for n in draft.notes)
    assert any("no switch joins hallA, hallB, alone" in n for n in draft.notes)


def test_racks_that_nothing_describes_have_no_hosts() -> None:
    draft = of(
        "SwitchName=top Switches=room[1-2]\n"
        "SwitchName=room1 Switches=rack[1-4]\n"
        "SwitchName=room2 Switches=rack[5-8]\n"
        + "".join(f"SwitchName=rack{i} Nodes=n{i}[1-4]\n" for i in (1, 2, 4, 5, 6, 8))
    )
    assert counts(draft) == {"spine": 2, "leaf": 3, "node": 4}
    assert any("but not described" in note and "rack3, rack7" in note for note in draft.notes)
    with pytest.raises(InputError, match="no switch 'rack5', which 'room2' names") as caught:
        of(
            "SwitchName=room1 Switches=rack[1-4]\nSwitchName=room2 Switches=rack[5-8]\n"
            "SwitchName=rack1 Nodes=n1"
        )
    assert "cut off" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=m1\n" * 1 + "SwitchName=c Nodes=k[1-99]",
            "differ too much",
        ),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "below itself"),
        (
            "SwitchName=a Switches=b\nSwitchName=b Nodes=n1\nSwitchName=d Switches=e",
            "no switch 'e'",
        ),
        ("SwitchName=a Switches=a\nSwitchName=c Nodes=n1", "below itself"),
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", "given twice"),
        (
            "SwitchName=a Switches=c\nSwitchName=b Switches=c\nSwitchName=c Nodes=n1",
            "below 'a' and below 'b'",
        ),
        ("SwitchName=a Switches=b Nodes=n1\nSwitchName=b Nodes=n2", "one of the two"),
        ("SwitchName=a", "no switch has hosts"),
        ("SwitchName=a Nodes=n1 Colour=red", "unknown key 'Colour'"),
        ("SwitchName=a Nodes=n1 nodes=n2", "Nodes is given twice"),
        ("NodeName=n1 CPUs=4", "unknown key 'NodeName'"),
        ("hello", "not a setting"),
        ("# nothing", "no switch, block or ring"),
        ("Nodes=n1", "names no switch or block"),
        ("- topology: t\n  flat: true\n", "flat"),
        ("- topology: t\n  tree: {}\n", "no switches"),
        ("- topology: t\n", "no known type"),
        (
            "- topology: a\n  flat: true\n- topology: b\n  flat: true\n",
            "none of them the cluster's default",
        ),
        ("- topology: t\n  tree: {switches: [{switch: a}]}\n", "no switch has hosts"),
        ("- &a [1]\n- *a\n", r"aliases such as \*a"),
        ("- topology: t\n  topology: t\n", "given twice"),
        ("- a\n--- \n- b\n", "not YAML"),
        ("- [1, 2\n", "not YAML"),
        ("- " + "[" * 200, "nested more than"),
    ],
)
def test_invalid_input_is_refused_with_a_reason(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        of(text)
    assert str(caught.value).startswith("topology.conf")


def test_a_number_of_nodes_that_is_not_the_files() -> None:
    assert of(SHOWN, ImportOptions(nodes=4)).counted["nodes"] == 4
    with pytest.raises(InputError, match="there are 4 nodes"):
        of(SHOWN, ImportOptions(nodes=8))


def test_one_cluster_at_a_time() -> None:
    with pytest.raises(InputError, match="2 files"):
        import_texts("slurm", {"a.conf": SHOWN, "b.conf": SHOWN})


BLOCKS_OF_YAML = """\
- topology: t
  block:
    blocks:
    - {block: b1, nodes: 'n[1-4]'}
    - {block: b2, nodes: 'n[5-8]'}
    - block: ghost
"""
SWITCHES_OF_YAML = """\
- topology: t
  tree:
    switches:
    - {switch: b1, nodes: 'n[1-4]'}
    - {switch: b2, nodes: 'n[5-8]'}
    - {switch: t, children: 'b[1-2],ghost'}
    - switch: ghost
"""
UNITS = "{0}Name=b1 Nodes=n[1-4]\n{0}Name=b2 Nodes=n[5-8]\n{0}Name=ghost@\n"
EMPTY_UNITS = {
    "a block": UNITS.format("Block"),
    "a ring": UNITS.format("Ring"),
    "a switch": UNITS.format("Switch") + "SwitchName=t Switches=b[1-2],ghost\n",
    "a block in YAML": BLOCKS_OF_YAML,
    "a switch in YAML": SWITCHES_OF_YAML,
}


@pytest.mark.parametrize("text", EMPTY_UNITS.values(), ids=EMPTY_UNITS)
def test_a_unit_without_nodes_is_left_out_and_named(text: str) -> None:
    if "@" in text:
        nothing = ("", " Nodes=", ' Nodes=""', " Nodes=(null)", " Nodes= LinkSpeed=1")
        texts = [text.replace("@", nodes) for nodes in nothing]
    else:
        spellings = ("", "nodes:", "nodes: ''", "nodes: []", "nodes: (null)")
        texts = [text + (f"      {nodes}\n" if nodes else "") for nodes in spellings]
    for each in texts:
        draft = of(each)
        assert list(counts(draft).values())[-2:] == [2, 4]
        notes = [note for note in draft.notes if "ghost" in note]
        assert any("without hosts" in note or "no nodes" in note for note in notes)


def test_a_file_of_empty_units_names_them() -> None:
    with pytest.raises(InputError, match="no block or ring has nodes: a, b"):
        of("BlockName=a\nBlockName=b Nodes=\n")
