"""What is read of one node: against counts made by hand, raw text, graphs, and other sources."""

from __future__ import annotations

import random
import re
from itertools import combinations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import Domain, InputError, load, read
from hierarchies.importers import (
    Blank,
    Draft,
    DraftLevel,
    ImportOptions,
    StatedValue,
    draft_to_toml,
    import_texts,
    read_texts,
)
from hierarchies.importers.nodes.islands import find_shape
from places import TESTS
from shared import shared

HERE = TESTS / "imports"
NV, XML, ROCM, HWLOC = "nvidia-smi", "nccl-xml", "rocm-smi", "hwloc"
FOLDER = {NV: "nvidia-smi", XML: "nccl-xml", ROCM: "rocm-smi", HWLOC: "hwloc-xml"}

# Counted by hand in each file: GPUs, NIC ports (all that are listed, without bridges and other
# interfaces of software), links (one between two GPUs
# once; into NVSwitches from each GPU), and the levels with their counts, innermost last.
COUNTED = {
    (NV, "2gpu-nv2.txt"): (2, 0, 2, "gpu2 mesh"),
    (NV, "2gpu-phb.txt"): (2, 0, 0, "gpu2 switch"),
    (NV, "dgx1-v100-8-nic4.txt"): (8, 4, 24, "node gpu8 ?"),
    (NV, "hgx-a100-8.txt"): (8, 0, 96, "gpu8 switch"),
    (NV, "hgx-h100-8.txt"): (8, 0, 144, "gpu8 switch"),
    (NV, "hgx-h100-8-smt.txt"): (8, 0, 144, "gpu8 switch"),
    (NV, "l40s-2-nic2.txt"): (2, 2, 0, "node gpu2 switch"),
    (NV, "pcie-2-pix.txt"): (2, 0, 0, "gpu2 switch"),
    (NV, "pcie-4-sys.txt"): (4, 0, 0, "gpu4 switch"),
    (NV, "v100-2-nic4.txt"): (2, 4, 0, "node gpu2 switch"),
    (NV, "v100-4-nic2.txt"): (4, 2, 12, "node gpu4 mesh"),
    (NV, "v100-8-nic1-dlperf.txt"): (8, 1, 24, "node gpu8 ?"),
    (XML, "aws-p4d-24xl-topo.xml"): (8, 4, 0, "node gpu8 ?"),
    (XML, "azure-nc48v4-topo.xml"): (2, 1, 12, "node gpu2 mesh"),
    (XML, "azure-ndv2-topo.xml"): (8, 1, 0, "node gpu8 ?"),
    (XML, "azure-ndv4-topo.xml"): (8, 8, 0, "node gpu8 ?"),
    (XML, "cs244c-a100-nccl_topo.xml"): (1, 1, 12, "node gpu1 switch"),
    (XML, "oci-topo-flattened.xml"): (8, 8, 0, "node gpu8 ?"),
    (XML, "rccl-topo_4p1h.xml"): (4, 1, 4, "node gpu4 ring"),
    (XML, "rccl-topo_4p3l_n2.xml"): (8, 1, 12, "node island2 gpu4 mesh"),
    (XML, "rccl-topo_8p_rome.xml"): (8, 1, 8, "node island2 gpu4 ring"),
    (XML, "rccl-topo_8p_90a.xml"): (8, 1, 12, "node gpu8 ?"),
    (XML, "rccl-topo_4p_942.xml"): (4, 4, 6, "node gpu4 mesh"),
    (XML, "rccl-topo_8p_pcie.xml"): (8, 1, 0, "node bridge2 gpu4 switch"),
    (XML, "yccl-topo.xml"): (4, 2, 0, "node socket2 gpu2 switch"),
    (XML, "yynil-topo.xml"): (2, 2, 0, "node gpu2 switch"),
    (ROCM, "archer2-mi210-4.txt"): (4, 0, 6, "gpu4 mesh"),
    (ROCM, "gfx906-4-pcie.txt"): (4, 0, 0, "gpu4 switch"),
    (ROCM, "mi100-4-pcie.txt"): (4, 0, 0, "socket2 gpu2 switch"),
    (HWLOC, "nvidiaDGX2.xml"): (16, 0, 96, "island2 gpu8 switch"),
    (HWLOC, "24em64t-2n6c2t-pci.xml"): (3, 3, 0, "node gpu3 ?"),
}
REFUSED = {
    (XML, "cs244c-a100-nccl_graph.xml"): "this is NCCL's graph",
    (XML, "flagcx-topo_demo.xml"): "no <cpu> in <system>",
    (XML, "ncclgp-nvlink_5GPU.xml"): "the GPUs differ: sm 75, 90",
    (HWLOC, "32em64t-2n8c2t-pci-noio.xml"): "hwloc saw no PCI devices",
    (HWLOC, "32em64t-2n8c2t-pci-normalio.xml"): "the GPUs differ: PCI [1002:6798], [10de:1094]",
    (HWLOC, "32em64t-2n8c2t-pci-wholeio.xml"): "the GPUs differ",
    (HWLOC, "32em64t-2n8c+dax+nvme+mic+dimms.xml"): "but no GPU",
    (HWLOC, "40intel64-2g2n4c+pcilocality.xml"): "but no GPU",
    (HWLOC, "AMD-19h-Zen3-2xEpyc-7763.xml"): "no PCI devices",
    (HWLOC, "Intel-SapphireRapids-2xXeonMax9460.xml"): "no PCI devices",
    (HWLOC, "devel09-pci.xml"): "but no GPU",
    (HWLOC, "dudley.xml"): "no PCI devices",
    (HWLOC, "heteromem.xml"): "no PCI devices",
}


def real(kind: str, name: str, **options: object) -> Draft:
    path = shared("topo", FOLDER[kind], name)
    return import_texts(kind, read_texts([str(path)]), ImportOptions(**options))  # type: ignore[arg-type]


def own(kind: str, name: str, **options: object) -> Draft:
    return import_texts(kind, read_texts([str(HERE / name)]), ImportOptions(**options))  # type: ignore[arg-type]


def told(draft: Draft) -> str:
    """The levels with their counts, and the domain of the innermost."""
    words = [
        f"{level.name}{level.count.value if isinstance(level.count, StatedValue) else ''}"
        for level in draft.levels
    ]
    domain = draft.levels[-1].domain
    return " ".join([*words, str(domain.value) if isinstance(domain, StatedValue) else "?"])


def links(draft: Draft) -> int:
    return sum(draft.counted.get(key, 0) for key in ("nvlinks", "xgmi", "connections"))


def level(draft: Draft, name: str) -> DraftLevel:
    return next(level for level in draft.levels if level.name == name)


def value(entry: object) -> object:
    assert isinstance(entry, StatedValue), entry
    return entry.value


def suggested(entry: object) -> object:
    assert isinstance(entry, Blank), entry
    return entry.suggestion


@pytest.mark.parametrize(("kind", "name"), COUNTED, ids=[name for _, name in COUNTED])
def test_a_real_file_has_what_was_counted_by_hand(kind: str, name: str) -> None:
    draft = real(kind, name)
    found = (draft.counted["gpus"], draft.counted.get("nics", 0), links(draft), told(draft))
    assert found == COUNTED[kind, name]


@pytest.mark.parametrize(("kind", "name"), REFUSED, ids=[name for _, name in REFUSED])
def test_a_real_file_that_no_system_holds_is_refused_with_the_reason(kind: str, name: str) -> None:
    with pytest.raises(InputError) as caught:
        real(kind, name)
    assert REFUSED[kind, name] in str(caught.value)


def test_every_real_file_is_imported_but_those_known_to_be_refused() -> None:
    for kind, folder in FOLDER.items():
        for path in shared("topo", folder).iterdir():
            if path.suffix != ".source" and (kind, path.name) not in REFUSED:
                draft = import_texts(kind, read_texts([str(path)]))
                assert not draft_to_toml(draft).startswith("name = \n")


def test_every_dump_of_nccl_has_what_its_raw_text_has() -> None:
    for path in shared("topo", "nccl-xml").glob("*.xml"):
        text = re.sub(r"<!--.*?-->", "", path.read_text(), flags=re.DOTALL)
        gpus = len(re.findall(r"<gpu\s", text))
        if (XML, path.name) in REFUSED or not gpus:
            continue
        draft = import_texts(XML, read_texts([str(path)]))
        counts = [
            int(count) * (1 if "0x068000" in link else 0.5)
            for link, count in re.findall(r'(<(?:nvlink|xgmi)[^>]*count="(\d+)"[^>]*>)', text)
        ]
        nics = len(re.findall(r"<net\s", text))
        every = draft.counted["nics"] + draft.counted.get("virtual interfaces", 0)
        assert (draft.counted["gpus"], every) == (gpus, nics), path.name
        assert links(draft) == sum(counts), path.name


def test_a_truncated_matrix_is_noted_and_rows_of_gpus_are_used() -> None:
    path = shared("topo", "nvidia-smi-truncated", "dgxh100-8-nic12-truncated.txt")
    draft = import_texts(NV, read_texts([str(path)]), ImportOptions(gpu="h100"))
    assert draft.counted == {"gpus": 8, "nics": 12, "nvlinks": 144}
    assert value(level(draft, "node").ports) == 8
    assert any("Rows of NICs are missing" in note for note in draft.notes)
    assert any("NIC1, NIC2, NIC7, NIC8" in note for note in draft.notes)


MACHINES = [
    (XML, "aws-p4d-24xl-topo.xml", "aws-p4d", "a100-40gb"),
    (XML, "azure-ndv4-topo.xml", "azure-ndv4", "a100-40gb"),
    (XML, "rccl-topo_8p_942vm.xml", "mi300x", "mi300x"),
    (NV, "hgx-a100-8.txt", "dgx-a100", "a100"),
    (NV, "hgx-h100-8.txt", "dgx-h100", "h100"),
    (NV, "dgx1-v100-8-nic4.txt", "dgx1-v100", "v100"),
]


@pytest.mark.parametrize(("kind", "name", "machine", "gpu"), MACHINES)
def test_a_file_agrees_with_the_catalogues_own_sources(
    kind: str, name: str, machine: str, gpu: str
) -> None:
    draft, known = real(kind, name, gpu=gpu).suggested(), load(machine)
    inner, link = draft.levels[-1], known.links[-1]
    assert value(inner.count) == known.hierarchy.cardinalities[-1]
    assert value(inner.domain) == link.domain.value
    if kind != XML or not draft.counted.get("xgmi"):  # RCCL's table has 48 where the wire has 64
        assert value(inner.bandwidth_bytes_per_second) == link.bandwidth_bytes_per_second
    if len(draft.levels) > 1:
        assert value(draft.levels[0].ports) == known.links[0].ports
        rate = draft.levels[0].bandwidth_bytes_per_second
        if isinstance(rate, StatedValue):
            assert rate.value == known.links[0].bandwidth_bytes_per_second


def test_two_boards_of_one_design_are_alike() -> None:
    one, other = real(NV, "dgx1-v100-8-nic4.txt"), real(NV, "v100-8-nic1-dlperf.txt")
    assert one.levels[-1] == other.levels[-1]
    nccl, smi = real(XML, "oci-H100-topology.xml"), real(NV, "hgx-h100-8.txt")
    assert nccl.counted["nvlinks"] == smi.counted["nvlinks"]
    assert nccl.levels[-1].domain == smi.levels[-1].domain


def test_nccls_own_constants_make_the_bandwidth() -> None:
    draft = real(XML, "oci-H100-topology.xml")
    assert value(draft.levels[-1].bandwidth_bytes_per_second) == 18 * 20.6e9
    assert value(level(draft, "node").bandwidth_bytes_per_second) == 180e9 / 8
    assert value(level(draft, "node").ports) == 16
    h800 = real(XML, "yccl-topo_h800.xml")
    assert value(h800.levels[-1].bandwidth_bytes_per_second) == 8 * 20.6e9


def test_a_speed_that_no_nic_has_stays_blank() -> None:
    node = level(real(XML, "rccl-topo_4p_942.xml"), "node")
    assert suggested(node.bandwidth_bytes_per_second) == 25e9


@pytest.mark.parametrize(("nics", "fewer"), [(3, 2), (5, 4), (6, 4)])
def test_nics_that_gpus_cannot_share_evenly_stay_blank(nics: int, fewer: int) -> None:
    draft = real(XML, f"rccl-topo_8p6l_{nics}nic.xml")
    assert draft.counted["nics"] == nics
    assert suggested(level(draft, "node").ports) == fewer


def test_the_fixtures_are_what_they_were_written_to_be() -> None:
    switched = own(NV, "switched.txt", nodes=4, gpu="a100")
    assert told(switched) == "node4 gpu8 switch"
    assert value(switched.levels[0].ports) == 4
    assert value(switched.levels[1].bandwidth_bytes_per_second) == 300e9
    assert any("mlx5_4" in note for note in switched.notes)
    dump = own(XML, "switched.xml", nodes=2)
    system = read(draft_to_toml(dump.suggested()))
    assert str(system.hierarchy) == "2 node x 4 gpu"
    assert system.links[1].reduces
    assert system.links[1].unconfirmed
    rings = own(XML, "rings.xml")
    assert told(rings) == "island2 gpu4 ring"
    assert (
        "in this order: GPU 0, GPU 1, GPU 3, GPU 2, GPU 4, GPU 5, GPU 7, GPU 6." in rings.notes[0]
    )
    assert value(rings.levels[1].bandwidth_bytes_per_second) == 2 * 36e9
    assert told(own(ROCM, "pairs.txt")) == "island2 gpu2 mesh"
    assert told(own(ROCM, "mesh.json")) == "gpu4 mesh"
    seen = own(HWLOC, "ring.xml")
    assert told(seen) == "node gpu4 ring"
    assert value(seen.levels[1].bandwidth_bytes_per_second) == 50e9
    assert suggested(seen.memory_bytes_per_second) == load("dgx1-v100").memory_bytes_per_second


def test_a_gpu_of_another_architecture_is_refused() -> None:
    with pytest.raises(InputError, match=r"architecture 90 .* but A100 SXM4 40 GB by --gpu a100"):
        own(XML, "switched.xml", gpu="a100")
    with pytest.raises(InputError, match="did you mean h100"):
        own(XML, "switched.xml", gpu="h10")


def test_a_name_of_several_gpus_does_not_say_which_memory() -> None:
    some, one = own(NV, "switched.txt", gpu="a100"), own(NV, "switched.txt", gpu="a100-40gb")
    assert suggested(some.memory_bytes_per_second) == value(one.memory_bytes_per_second)


def test_nodes_without_a_nic_have_a_level_that_is_all_blank() -> None:
    draft = own(ROCM, "mesh.json", nodes=3)
    assert told(draft) == "node3 gpu4 mesh"
    assert isinstance(draft.levels[0].ports, Blank)


def matrix(cells: dict[tuple[int, int], str], gpus: int, gap: str) -> str:
    names = [f"GPU{i}" for i in range(gpus)]
    lines = [gap.join(["", *names, "CPU Affinity", "NUMA Affinity"])]
    for i, name in enumerate(names):
        row = [" X " if i == j else cells[min(i, j), max(i, j)] for j in range(gpus)]
        lines.append(gap.join([name, *row, "0-3", "0"]))
    return "\n".join(lines) + "\n"


@given(st.integers(2, 8), st.data(), st.sampled_from(["\t", "    "]))
def test_a_matrix_is_read_as_it_was_written(gpus: int, data: st.DataObject, gap: str) -> None:
    kinds = st.sampled_from(["NV1", "NV2", "PIX", "PXB", "PHB", "NODE", "SYS"])
    cells = {pair: data.draw(kinds) for pair in combinations(range(gpus), 2)}
    count = {pair: int(cell[2:]) for pair, cell in cells.items() if cell.startswith("NV")}
    graph = nx.Graph(list(count))
    graph.add_nodes_from(range(gpus))
    sizes = [len(part) for part in nx.connected_components(graph)]
    alone, linked = sizes.count(1), [size for size in sizes if size > 1]
    even = len(set(sizes)) == 1
    largest = gpus / len(linked) if linked else 1.0
    faulty = 0 < 2 * alone < gpus and largest.is_integer() and max(linked) <= largest
    text = matrix(cells, gpus, gap)
    if not even and not faulty:
        with pytest.raises(InputError, match=r"in parts of .*GPU0"):
            import_texts(NV, {"f": text})
        return
    draft = import_texts(NV, {"f": text})
    assert len(draft.lacks) >= (0 if even else alone)
    assert sum(not lack.bandwidth_share for lack in draft.lacks) == (0 if even else alone)
    assert draft.counted == {"gpus": gpus, "nics": 0, "nvlinks": sum(count.values())}
    counts = [int(str(value(level.count))) for level in draft.levels]
    product = 1
    for number in counts:
        product *= number
    assert product == gpus
    damaged = text.replace("GPU1", "GPU7", 1) if gpus < 8 else text.replace(" X ", "SYS", 1)
    with pytest.raises(InputError):
        import_texts(NV, {"f": damaged})


def test_a_matrix_that_differs_the_other_way_is_refused() -> None:
    text = matrix({(0, 1): "NV4"}, 2, "\t")
    with pytest.raises(InputError, match="GPU1 to GPU0 is NV2, in the other direction it is NV4"):
        import_texts(NV, {"f": text.replace("GPU1\tNV4", "GPU1\tNV2")})
    with pytest.raises(InputError, match="no row for GPU1"):
        import_texts(NV, {"f": text[: text.rindex("GPU1")]})


@given(
    st.sampled_from(["mesh", "ring"]),
    st.integers(3, 6),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(0, 2**16),
)
def test_a_shape_is_found_under_any_numbering(
    kind: str, size: int, islands: int, count: int, seed: int
) -> None:
    graph = nx.complete_graph(size) if kind == "mesh" else nx.cycle_graph(size)
    graph = nx.disjoint_union_all([graph] * islands)
    numbers = list(range(size * islands))
    random.Random(seed).shuffle(numbers)
    links = {tuple(sorted((numbers[a], numbers[b]))): count for a, b in graph.edges}
    found = find_shape(size * islands, links)  # type: ignore[arg-type]
    alike = Domain.MESH if kind == "mesh" or size == 3 else Domain.RING
    assert (found.domain, found.links) == (alike, count)
    renamed = nx.relabel_nodes(graph, dict(enumerate(numbers)))
    assert {frozenset(part) for part in found.islands} == {
        frozenset(part) for part in nx.connected_components(renamed)
    }
    for island in found.islands:
        around = zip(island, (*island[1:], island[0]), strict=True)
        assert all(renamed.has_edge(a, b) for a, b in around)


@given(st.integers(4, 8), st.data())
def test_an_irregular_shape_suggests_a_ring_only_along_links(
    gpus: int, data: st.DataObject
) -> None:
    links = {
        pair: count
        for pair in combinations(range(gpus), 2)
        if (count := data.draw(st.integers(0, 2)))
    }
    graph = nx.Graph(list(links))
    graph.add_nodes_from(range(gpus))
    if not nx.is_connected(graph):
        return
    found = find_shape(gpus, links)
    if found.domain is None and found.ring:
        around = zip(found.islands[0], (*found.islands[0][1:], found.islands[0][0]), strict=True)
        assert all(graph.has_edge(a, b) for a, b in around)
    if found.domain is None:
        totals = [sum(c for pair, c in links.items() if gpu in pair) for gpu in range(gpus)]
        assert found.links == min(totals) / 2


@pytest.mark.parametrize(
    "outside",
    ['<pci busid="0:2" class="0x030200"/>', '<pci busid="0:2"><gpu/></pci>', '<gpu busid="0:2"/>'],
)
def test_a_gpu_outside_of_all_sockets_is_refused(outside: str) -> None:
    inside = outside.replace("0:2", "0:1")
    text = f"<system><cpu>{inside}</cpu>{outside}</system>"
    with pytest.raises(InputError, match=r"^f: GPU 0:2 is outside of every <cpu>; .*dump it again"):
        import_texts(XML, {"f": text})


def test_links_from_gpus_to_their_cpus_are_no_links_to_switches() -> None:
    seen = own(HWLOC, "power8.xml")
    assert told(seen) == "island2 gpu2 mesh"
    assert value(seen.levels[1].bandwidth_bytes_per_second) == 40e9
    assert suggested(seen.levels[0].bandwidth_bytes_per_second) == 40e9
    assert any("to CPUs (1 a GPU)" in note for note in seen.notes)
    summit = own(XML, "power9.xml")
    assert told(summit) == "node island2 gpu3 mesh"
    assert value(level(summit, "gpu").bandwidth_bytes_per_second) == 2 * 20e9
    assert suggested(level(summit, "island").bandwidth_bytes_per_second) == 32e9 / 3
    assert any("NVLinks to CPUs (2 a GPU)" in note for note in summit.notes)


def test_bridges_of_power_machines_are_no_nvswitches() -> None:
    text = (HERE / "power9.xml").read_text().replace("0x068001", "0x068000")
    draft = import_texts(XML, {"power9.xml": text})
    assert draft == own(XML, "power9.xml")


def switched(links: int, gpus: int = 4) -> str:
    return matrix(dict.fromkeys(combinations(range(gpus), 2), f"NV{links}"), gpus, "\t")


@pytest.mark.parametrize(
    ("links", "gpu", "known"),
    [
        (18, None, True),
        (18, "h100", True),
        (18, "gb200", True),
        (12, None, None),
        (12, "a100", None),
        (8, None, "?"),
        (8, "h100", True),
        (8, "a100", None),
    ],
)
def test_switches_that_add_up_are_suggested_where_a_file_is_silent(
    links: int, gpu: str | None, known: object
) -> None:
    """NV18 is of Hopper and later, NV12 of A100; NV8 is an H800 (adds up) or an A800 (does not)."""
    draft = import_texts(NV, {"f": switched(links, 8)}, ImportOptions(gpu=gpu))
    entry = level(draft, "gpu").reduces
    if known is None:
        assert entry is None
    else:
        assert isinstance(entry, Blank)
        assert not entry.needed
        assert entry.suggestion == (None if known == "?" else known)
        assert "# reduces = " in draft_to_toml(draft)


def test_a_named_gpu_of_hwloc_determines_whether_its_switches_reduce() -> None:
    dgx2 = real(HWLOC, "nvidiaDGX2.xml")
    assert level(dgx2, "gpu").reduces is None
    text = re.sub('value="Tesla V100[^"]*"', 'value="NVIDIA H100 80GB HBM3"', hwloc_of_dgx2())
    assert suggested(level(import_texts(HWLOC, {"f": text}), "gpu").reduces) is True


def hwloc_of_dgx2() -> str:
    return shared("topo", "hwloc-xml", "nvidiaDGX2.xml").read_text()


VIRTUAL = """\
        GPU0    GPU1    NIC0    NIC1    NIC2    NIC3    CPU Affinity    NUMA Affinity
GPU0     X      NV4     PIX     SYS     SYS     SYS     0-15    0
GPU1    NV4      X      SYS     PIX     SYS     SYS     0-15    0
NIC0    PIX     SYS      X      SYS     SYS     SYS
NIC1    SYS     PIX     SYS      X      SYS     SYS
NIC2    SYS     SYS     SYS     SYS      X      SYS
NIC3    SYS     SYS     SYS     SYS     SYS      X

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_bond_0
  NIC2: rxe0
  NIC3: bond0
"""


def test_interfaces_of_software_in_a_matrix_are_no_nics() -> None:
    draft = import_texts(NV, {"vm.txt": VIRTUAL})
    assert (draft.counted["nics"], draft.counted["virtual interfaces"]) == (2, 2)
    assert value(level(draft, "node").ports) == 2
    assert any("software emulates them: rxe0" in note for note in draft.notes)
    assert any("bonds of others: bond0" in note for note in draft.notes)


def port(busid: str, device: str, name: str, speed: int = 100000) -> str:
    vendor, number = device.split(":")
    inside = f'<nic><net name="{name}" dev="0" speed="{speed}" port="1" guid="0x1"/></nic>'
    kind = f'vendor="0x{vendor}" device="0x{number}"'
    return f'<pci busid="{busid}" class="0x020000" {kind}>{inside}</pci>'


def loose(*names: str) -> str:
    nets = "".join(f'<net name="{name}" dev="9" speed="10000" port="0"/>' for name in names)
    return f"<nic>{nets}</nic>"


def machine(*nics: str) -> Draft:
    gpus = "".join(
        f'<pci busid="0000:0{i}:00.0" class="0x030200"><gpu dev="{i}" sm="80"/></pci>'
        for i in range(4)
    )
    text = f'<system><cpu arch="x86_64">{gpus}{"".join(nics)}</cpu></system>'
    return import_texts(XML, {"vm.xml": text})


CONNECTX, FUNCTION, VIRTIO = "15b3:1021", "15b3:101e", "1af4:1041"
SOFTWARE = ("docker0", "veth12ab", "bond0", "eth0.100", "vxlan.calico", "virbr0", "lo")
MADE = {
    "ports beside software": (
        (port("0000:10:00.0", CONNECTX, "mlx5_0"), loose(*SOFTWARE)),
        ("mlx5_0",),
    ),
    "functions beside their ports": (
        (
            port("0000:10:00.0", CONNECTX, "mlx5_0"),
            port("0000:10:00.2", FUNCTION, "mlx5_1"),
            port("0000:10:00.3", FUNCTION, "mlx5_2"),
        ),
        ("mlx5_0",),
    ),
    "a machine of functions, with virtio for the rest": (
        (
            port("0000:10:00.0", FUNCTION, "mlx5_0"),
            port("0000:11:00.0", FUNCTION, "mlx5_1"),
            port("0000:00:05.0", VIRTIO, "ens5"),
        ),
        ("mlx5_0", "mlx5_1"),
    ),
    "functions of one vendor, a port of another": (
        (port("0000:10:00.0", FUNCTION, "mlx5_0"), port("0000:0a:00.0", "8086:1563", "eno1")),
        ("mlx5_0", "eno1"),
    ),
    "virtio only": (
        (port("0000:00:05.0", VIRTIO, "ens5", 10000), loose("docker0")),
        ("ens5",),
    ),
    "a bond only": ((loose("bond0", "docker0"),), ("bond0",)),
    "an interface of which nothing is known": ((loose("eth0", "docker0"),), ("eth0",)),
    "software only": ((loose("docker0", "veth1"),), ()),
}


@pytest.mark.parametrize(("nics", "kept"), MADE.values(), ids=MADE)
def test_virtual_interfaces_count_only_where_nothing_is_behind_them(
    nics: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    draft = machine(*nics)
    every = sum(nic.count("<net") for nic in nics)
    assert draft.counted["nics"] == len(kept)
    assert draft.counted.get("virtual interfaces", 0) == every - len(kept)
    about = "" if not kept else level(draft, "node").about
    left = " ".join(note for note in draft.notes if "Left out" in note)
    for name in re.findall(r'name="([^"]*)"', "".join(nics)):
        assert name in f"{about} {left}"


def test_virtual_functions_of_hwloc_are_no_nics_beside_their_ports() -> None:
    text = (HERE / "ring.xml").read_text()
    function = re.search(r'<object type="PCIDev" gp_index="41".*?</object>', text, re.DOTALL)
    assert function is not None
    share = function[0].replace("[15b3:1017]", "[15b3:1018]").replace("mlx5_1", "mlx5_9")
    draft = import_texts(HWLOC, {"f": text.replace(function[0], function[0] + share)})
    assert (draft.counted["nics"], draft.counted["virtual interfaces"]) == (2, 1)
    assert value(level(draft, "node").ports) == 2


@pytest.mark.parametrize(
    ("kind", "name", "media"),
    [
        (NV, "hgx-h100-8.txt", ["nvlink"]),
        (NV, "pcie-2-pix.txt", ["pcie"]),
        (NV, "v100-4-nic2.txt", ["", "nvlink"]),
        (XML, "aws-p4d-24xl-topo.xml", [None, "nvlink"]),
        (XML, "rccl-topo_4p_942.xml", [None, "xgmi"]),
    ],
)
def test_link_sources_state_only_facts_of_the_file(
    kind: str, name: str, media: list[str | None]
) -> None:
    """NICs of mlx5 may be InfiniBand or RoCE: their link layer is not in these files."""
    draft = real(kind, name)
    for level, medium in zip(draft.levels, media, strict=True):
        assert medium is None or level.medium == medium
    stated = [f'medium = "{level.medium}"' for level in draft.levels if level.medium]
    assert [
        line for line in draft_to_toml(draft).splitlines() if line.startswith("medium")
    ] == stated


def test_a_gpu_that_no_matrix_lists_leaves_the_links_open() -> None:
    text = hwloc_of_dgx2()
    assert not import_texts(HWLOC, {"f": text}).warnings
    draft = import_texts(HWLOC, {"f": text.replace("OSDev:802 ", "OSDev:999999 ", 1)})
    assert "NVLinkBandwidth lists 15 of 16 GPUs" in draft.warnings[0]
    assert not isinstance(draft.levels[-1].domain, StatedValue)
