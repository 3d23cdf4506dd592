"""Tables of AMD's tools: which GPUs are linked is the same in every spelling of the same hive."""

from __future__ import annotations

import json

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierarchies import InputError
from hierarchies.importers import Draft, ImportOptions, StatedValue, import_texts
from shared import case

Rows = list[list[str]]


def of(text: str, **options: object) -> Draft:
    return import_texts("rocm-smi", {"node.txt": text}, ImportOptions(**options))  # type: ignore[arg-type]


def cells(hive: nx.Graph[int], name: str) -> Rows:
    """What the drivers print of a hive: one hop between any two GPUs, 15 of weight for a link."""
    gpus = len(hive)
    away = dict(nx.all_pairs_shortest_path_length(hive))

    def cell(one: int, other: int) -> str:
        if one == other:
            return "SELF" if name == "link type" else "N/A" if name == "numa bw" else "0"
        linked = hive.has_edge(one, other)
        return {
            "link type": "XGMI",
            "hops": "1",
            "weight": str(15 * away[one][other]),
            "numa bw": "50000-50000" if linked else "N/A",
        }[name]

    return [[cell(one, other) for other in range(gpus)] for one in range(gpus)]


def rocm(tables: dict[str, Rows]) -> str:
    """As ``rocm-smi --showtopo`` prints them, which has no bandwidths."""
    parts = []
    for name, rows in tables.items():
        names = [f"GPU{gpu}" for gpu in range(len(rows))]
        lines = [f"{name.title()} between two GPUs".center(60, "="), "     ".join(["", *names])]
        lines += ["    ".join([gpu, *row]) for gpu, row in zip(names, rows, strict=True)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def amd(tables: dict[str, Rows]) -> str:
    """As ``amd-smi topology`` prints them."""
    parts = ["DMA TABLE:\n     0000:00:00.0\n0000:00:00.0 SELF"]
    for name, rows in tables.items():
        names = [f"0000:{gpu:02x}:00.0" for gpu in range(len(rows))]
        lines = [f"{name.upper()} TABLE:", " ".join(["            ", *names])]
        lines += ["  ".join([gpu, *row]) for gpu, row in zip(names, rows, strict=True)]
        parts.append("\n".join(lines))
    return "\n".join(parts)


def as_json(tables: dict[str, Rows]) -> str:
    """As ``amd-smi topology --json`` prints them."""
    keys = {
        "link type": "link_type",
        "hops": "num_hops",
        "weight": "weight",
        "numa bw": "bandwidth",
    }
    gpus = range(len(next(iter(tables.values()))))
    entries = [
        {
            "gpu": one,
            "links": [
                {"gpu": o, **{keys[name]: rows[one][o] for name, rows in tables.items()}}
                for o in gpus
            ],
        }
        for one in gpus
    ]
    return json.dumps(entries)


def hives() -> st.SearchStrategy[nx.Graph[int]]:
    def made(gpus: int, seed: int) -> nx.Graph[int]:
        tree = nx.random_labeled_tree(gpus, seed=seed)
        return nx.compose(tree, nx.gnp_random_graph(gpus, 0.4, seed=seed))

    return st.builds(made, st.integers(3, 8), st.integers(0, 2**20))


@settings(max_examples=50)
@given(hives(), st.sampled_from([rocm, amd, as_json]), st.sampled_from(["weight", "numa bw"]))
def test_pairs_without_a_link_of_their_own_are_not_joined(
    hive: nx.Graph[int], printed: object, told: str
) -> None:
    if printed is rocm:
        told = "weight"
    tables = {name: cells(hive, name) for name in (told, "hops", "link type")}
    draft = of(printed(tables))  # type: ignore[operator]
    gpus, linked = len(hive), hive.number_of_edges()
    every = gpus * (gpus - 1) // 2
    assert draft.counted["xgmi"] == linked
    found = draft.levels[-1].domain
    assert (isinstance(found, StatedValue) and found.value == "mesh") == (linked == every)
    assert len(draft.warnings) == (linked < every)
    if linked < every:
        assert f"by the table {told!r}, but XGMI by the table 'link type'" in draft.warnings[0]


def test_a_hive_of_mi250_is_no_mesh() -> None:
    draft = of(case("05-mi250-hops", "mi250.txt").read_text(), nodes=2)
    assert draft.counted == {"gpus": 8, "xgmi": 12}
    assert not isinstance(draft.levels[-1].domain, StatedValue)
    assert "(15 more like this)" in draft.warnings[0]
    assert "table 'weight'" in draft.warnings[0]


HIVE = nx.cycle_graph(4)
TABLES = {name: cells(HIVE, name) for name in ("weight", "hops", "link type")}


@pytest.mark.parametrize(
    ("old", "new", "left_out"),
    [
        ("Weight", "Weights", ""),
        ("    15    30", "    15    x", "'x' is not a weight"),
        ("    15    30", "    15    45", "in the other direction it is"),
        ("    15    30", "    15", "with 4 cells expected"),
    ],
)
def test_a_table_that_cannot_be_used_is_left_out(old: str, new: str, left_out: str) -> None:
    draft = of(rocm(TABLES).replace(old, new, 1))
    assert draft.counted["xgmi"] == 6
    notes = [note for note in draft.notes if "'weight' is left out" in note]
    assert [left_out in note for note in notes] == ([True] if left_out else [])


def test_a_text_without_a_table_of_links_is_refused() -> None:
    with pytest.raises(InputError, match="neither types of links nor hops"):
        of(rocm({"weight": TABLES["weight"]}))
    with pytest.raises(InputError, match="is not a link type of a link"):
        of(rocm({"link type": cells(HIVE, "weight")}))
    assert of(rocm(TABLES)).levels[-1].domain.value == "ring"  # type: ignore[union-attr]


def test_a_gpu_of_a_hive_that_lost_its_links() -> None:
    types = cells(nx.complete_graph(8), "link type")
    for gpu in range(8):
        if gpu != 3:
            types[3][gpu] = types[gpu][3] = "PCIE"
    draft = of(amd({"link type": types}), nodes=2)
    assert [lack.unit for lack in draft.lacks] == ["node0/gpu3"]
    assert "0000:03:00.0 has no xGMI links" in draft.warnings[0]
    assert "amd-smi xgmi" in draft.warnings[0]
    assert draft.levels[-1].domain.value == "mesh"  # type: ignore[union-attr]


def test_a_link_that_is_disabled_is_none() -> None:
    tables = {name: cells(HIVE, name) for name in ("hops", "link type")}
    access = [["ENABLED"] * 4 for _ in range(4)]
    access[0][2] = access[2][0] = access[1][3] = access[3][1] = "DISABLED"
    draft = of(amd({"access": access, **tables}))
    assert draft.counted["xgmi"] == 4
    assert "none, because access is disabled by the table 'access'" in draft.warnings[0]


def test_one_hop_contradicts_another_type_of_link() -> None:
    types = cells(HIVE, "link type")
    types[0][1] = types[1][0] = "PCIE"
    draft = of(rocm({"hops": cells(HIVE, "hops"), "link type": types}))
    assert "PCIE by the table 'link type', but 1 hop by the table 'hops'" in draft.warnings[0]
    assert draft.counted["xgmi"] == 5
