"""Files and options that contradict each other: refused with both sides, or said first of all."""

from __future__ import annotations

import json
import tomllib
from itertools import combinations
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierarchies import InputError, load
from hierarchies.devices import devices as known_devices
from hierarchies.files.loading import catalogue
from hierarchies.importers import (
    Draft,
    ImportOptions,
    StatedValue,
    draft_to_toml,
    import_texts,
    wrap_network,
)
from hierarchies.importers.models import MODELS, find_model
from network_texts import fabric
from shared import case

NV, SLURM, KUBERNETES = "nvidia-smi", "slurm", "kubernetes"
LEGEND = "".join(f"  {kind} = Connection ...\n" for kind in ("X", "SYS", "NODE", "PHB", "PXB"))


def matrix(each: list[int], *, fill: str = "NODE", legend: str = "") -> str:
    """GPUs that hang on switches by so many links each, and by ``fill`` where one has none."""
    names = [f"GPU{gpu}" for gpu in range(len(each))]
    rows = ["\t".join(["", *names, "CPU Affinity", "NUMA Affinity"])]
    for row, mine in enumerate(each):
        links = [min(mine, theirs) for theirs in each]
        cells = ["X" if gpu == row else f"NV{n}" if n else fill for gpu, n in enumerate(links)]
        rows.append("\t".join([names[row], *cells, "0-3", "0"]))
    return "\n".join(rows) + f"\n\n{legend}"


def of(kind: str, text: str, **options: object) -> Draft:
    return import_texts(kind, {"file": text}, ImportOptions(**options))  # type: ignore[arg-type]


def nodes(counts: list[int], clique: int, **more: object) -> str:
    """Nodes of a cluster with so many GPUs each, ``clique`` nodes in a clique and on a leaf."""
    items = []
    for number, count in enumerate(counts):
        labels = {
            "fabric.topograph.run/tier-0": f"leaf{number // clique}",
            "nvidia.com/gpu.clique": f"c.{number // clique}",
        }
        status = {"capacity": {"nvidia.com/gpu": str(count)}, **more}
        metadata = {"name": f"n{number}", "labels": labels}
        items.append({"metadata": metadata, "status": status})
    return json.dumps({"items": items})


def devices(draft: Draft) -> int:
    """The devices of a draft's description, less those of missing units."""
    found = tomllib.loads(draft_to_toml(draft))
    counts = [level["count"] for level in found["level"]]
    missing = [each["unit"] for each in found.get("exception", ()) if each.get("missing")]
    return prod(counts) - sum(prod(counts[1 + unit.count("/") :]) for unit in missing)


@pytest.mark.parametrize("inside", ["gb200-nvl72", "gb300-nvl72"])
def test_blocks_of_trays_are_racks_and_short_blocks_lack_devices(inside: str) -> None:
    text = case("04-slurm-blocks-inside-rack", "slurm-blocks.conf").read_text()
    draft = wrap_network(of(SLURM, text), load(inside))
    assert [level.name for level in draft.levels] == ["block", "gpu"]
    assert devices(draft) == 64 + 52 + 72
    assert not any("without --inside" in note for note in draft.notes)


@settings(max_examples=25)
@given(st.lists(st.integers(10, 18), min_size=1, max_size=4), st.booleans())
def test_a_rack_goes_into_blocks_of_18_trays_and_into_no_others(
    sizes: list[int], as_yaml: bool
) -> None:
    if as_yaml:
        blocks = "".join(
            f"      - {{block: b{b}, nodes: 'b{b}n[1-{n}]'}}\n" for b, n in enumerate(sizes)
        )
        text = f"- topology: t\n  block:\n    blocks:\n{blocks}"
    else:
        text = "\n".join(f"BlockName=b{b} Nodes=b{b}n[1-{n}]" for b, n in enumerate(sizes))
    draft = of(SLURM, text)
    if max(sizes) < 18:
        with pytest.raises(InputError, match=r"devices in a node: 4 \(1 machine of 4\) .* 72"):
            wrap_network(draft, load("gb200-nvl72"))
    else:
        assert devices(wrap_network(draft, load("gb200-nvl72"))) == 4 * sum(sizes)
    inside = wrap_network(draft, load("dgx-h100"))
    assert devices(inside) == 8 * sum(sizes)
    assert not any("without --inside" in note for note in inside.notes)


def test_a_tree_of_trays_takes_no_racks() -> None:
    tree = "SwitchName=a Nodes=n[1-18]\nSwitchName=b Nodes=n[19-36]\nSwitchName=c Switches=a,b\n"
    with pytest.raises(InputError) as caught:
        wrap_network(of(SLURM, tree), load("gb200-nvl72"))
    assert "by Slurm's topology" in str(caught.value)
    assert "by --inside gb200-nvl72" in str(caught.value)
    for inside, each in (("superpod-h100-oversubscribed", 8), ("aws-trn2-ultraserver", 16)):
        with pytest.raises(InputError, match=rf"{each} \(1 machine of {each}\) by Slurm"):
            wrap_network(of(SLURM, tree), load(inside))


@settings(max_examples=25)
@given(
    st.lists(st.sampled_from([4, 8]), min_size=1, max_size=6),
    st.sampled_from(["dgx-h100", "gb200-nvl72", "l40s-pcie"]),
    st.sampled_from([1, 2]),
)
def test_counted_devices_of_nodes_must_be_those_inside(
    counts: list[int], inside: str, clique: int
) -> None:
    draft = of(KUBERNETES, nodes(counts * clique, clique))
    inner = load(inside)
    units = draft.contents.units  # type: ignore[union-attr]
    assert sum(unit.devices or 0 for unit in units) == sum(counts) * clique
    fullest = max(unit.devices or 0 for unit in units)
    machines = {unit.machines for unit in units}
    if fullest == inner.hierarchy.devices_in_child(0) and machines == {1}:
        assert devices(wrap_network(draft, inner)) == sum(counts) * clique
    else:
        with pytest.raises(
            InputError, match=f"devices in a (node|clique|machine): .* by --inside {inside}"
        ):
            wrap_network(draft, inner)


def test_labels_that_count_other_devices_than_the_capacity_are_stated() -> None:
    draft = of(KUBERNETES, nodes([8, 8], 1, allocatable={"nvidia.com/gpu": "7"}))
    [warning] = draft.warnings
    assert "devices of node n0: 8 by capacity, but 7 by allocatable (1 more like this)" in warning
    assert not of(KUBERNETES, nodes([8], 1, allocatable={"nvidia.com/gpu": "8"})).warnings


def test_a_dump_of_devices_takes_the_nodes_of_as_many() -> None:
    dump = [[n, n // 8, "NVIDIA H100 80GB HBM3", None, None, None] for n in range(16)]
    draft = of("jax", json.dumps(dump))
    assert [level.name for level in wrap_network(draft, load("dgx-h100")).levels] == ["node", "gpu"]
    assert devices(wrap_network(draft, load("dgx-h100"))) == 16
    with pytest.raises(InputError, match=r"devices in a node: 8 by .* but 72"):
        wrap_network(draft, load("gb200-nvl72"))
    with pytest.raises(InputError, match=r"GPU model: NVIDIA H100 80GB HBM3 by .* but A100"):
        wrap_network(draft, load("dgx-a100"))
    chips = [[n, 0, "TPU v4", [n, 0, 0], 0, 0] for n in range(4)]
    with pytest.raises(InputError, match="describes devices already"):
        wrap_network(of("jax", json.dumps(chips)), load("dgx-h100"))


def test_the_nodes_of_a_file_describe_devices_already() -> None:
    with pytest.raises(InputError, match="describes devices already"):
        wrap_network(of(NV, matrix([18] * 8)), load("dgx-h100"))


def test_every_gpu_of_the_catalogue_has_a_name() -> None:
    named = {find_model(name).device for name in MODELS}
    machines = {load(name).device for name in catalogue()}
    for device in machines:
        assert device in named or device.startswith(("TPU", "Trainium"))
    for device in machines & known_devices().keys():
        assert device.startswith(("TPU", "Trainium")) or find_model(device).device == device
    assert find_model("A100 SXM4 80 GB").device == "A100 SXM4 80 GB"
    for name in MODELS:
        assert find_model(find_model(name).device).device == find_model(name).device


NVLINK_GIGABYTES = {"70": 25, "80": 25, "90": 25, "100": 50, "103": 50}
"""Per second, link and direction, by NVIDIA's architecture: generations two to five of NVLink."""


@pytest.mark.parametrize("name", MODELS)
def test_links_carry_what_a_link_of_their_generation_does(name: str) -> None:
    """The numbers of links stand in a table of their own, bandwidths in the machines' files."""
    model = find_model(name)
    each = NVLINK_GIGABYTES.get(model.archs[0])
    if each is not None:
        assert model.link is not None
        assert model.link.value == each * 1e9
    else:
        others = model.system.hierarchy.levels[-1].cardinality - 1
        assert model.most_links == (others if model.amd else 0)


@pytest.mark.parametrize("name", ["h20", "H800", "l20", "a40", "rtx 4090", "H100 PCIe", "tpu-v4"])
def test_a_gpu_that_the_catalogue_lacks_is_no_misspelling(name: str) -> None:
    with pytest.raises(InputError) as caught:
        find_model(name)
    assert "did you mean" not in str(caught.value)
    assert "data sheet" in str(caught.value)


@settings(max_examples=50)
@given(st.sampled_from([4, 6, 8, 12, 18]), st.sampled_from(MODELS))
def test_links_of_another_gpu_are_refused(links: int, name: str) -> None:
    text, model = matrix([links] * 8), find_model(name)
    if model.amd or links > model.most_links or (links in (6, 12) and model.most_links != links):
        with pytest.raises(InputError, match=f"by --gpu {name}"):
            of(NV, text, gpu=name)
    else:
        warned = [w for w in of(NV, text, gpu=name).warnings if "nvl72 join 72" not in w]
        assert len(warned) == (links != model.most_links)
        assert all(f"{links} by nvidia-smi topo -m, but" in warning for warning in warned)


def test_pcie_paths_do_not_determine_nvlinks() -> None:
    text = case("06-topo-mp", "h800-mp2.txt").read_text()
    draft = of(NV, text, gpu="h100")
    assert "topo -mp" in draft.warnings[0]
    assert "nvlinks" not in draft.counted
    assert not isinstance(draft.levels[-1].domain, StatedValue)


def test_a_legend_with_nvlinks_and_none_in_the_matrix_means_none() -> None:
    text = matrix([0] * 4, legend=f"Legend:\n{LEGEND}  NV# = Connection ...\n")
    assert of(NV, text).counted["nvlinks"] == 0
    assert not of(NV, text).warnings
    assert isinstance(of(NV, text).levels[-1].domain, StatedValue)
    with pytest.raises(
        InputError, match="NVLinks of a GPU: none by nvidia-smi topo -m, but 1 to 18"
    ):
        of(NV, text, gpu="h100")
    assert of(NV, text, gpu="l40s").counted["nvlinks"] == 0
    assert any("legend is missing" in note for note in of(NV, matrix([0] * 4)).notes)


def test_a_matrix_against_its_own_legend_and_affinities() -> None:
    text = matrix([0] * 2, fill="SYS")
    [warning] = of(NV, text).warnings
    assert warning.startswith("sockets of GPU0 and GPU1: SYS by the matrix, but CPUs 0-3 and 0-3")
    assert not of(NV, matrix([0] * 2, fill="NODE")).warnings
    apart = matrix([0] * 2, fill="PHB").replace("GPU1\tPHB\tX\t0-3", "GPU1\tPHB\tX\t4-7")
    assert "PHB by the matrix, but CPUs 0-3 and 4-7" in of(NV, apart).warnings[0]
    [warning] = of(NV, matrix([18] * 8, legend=LEGEND)).warnings
    assert warning.startswith("NVLinks of the GPUs: in row GPU0 by the matrix, but no NV# by")
    nics = "NIC Legend:\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n"
    text = matrix([18] * 8).replace("GPU7\tCPU", "GPU7\tNIC0\tCPU").replace("\t0-3", "\tPIX\t0-3")
    assert not of(NV, text + nics.replace("  NIC1: mlx5_1\n", "")).warnings
    [warning] = of(NV, text + nics).warnings
    assert warning.startswith("NIC columns of NIC1: missing by the matrix, but there by the NIC")
    rows = "NIC0\t" + "\t".join(["SYS"] * 8) + "\tX\n"
    [warning] = of(NV, text + rows).warnings
    assert "GPU0 and NIC0: PIX by rows of GPUs, but SYS by rows of NICs (7 more" in warning


@given(st.data(), st.sampled_from([6, 12, 18]), st.sampled_from([4, 6, 8]))
def test_gpus_that_lost_links_are_named_and_become_exceptions(
    data: st.DataObject, links: int, gpus: int
) -> None:
    faulty = data.draw(st.sets(st.integers(0, gpus - 1), min_size=1, max_size=gpus // 2 - 1))
    each = [data.draw(st.integers(0, links - 1)) if g in faulty else links for g in range(gpus)]
    if links * (gpus - len(faulty) - 1) <= 18:
        return
    draft = of(NV, matrix(each), nodes=2)
    assert draft.counted["nvlinks"] == sum(each)
    found = {lack.unit: lack.bandwidth_share or 0.0 for lack in draft.lacks}
    assert found == {f"node0/gpu{gpu}": each[gpu] / links for gpu in faulty}
    for gpu in faulty:
        assert any(f"GPU{gpu} has" in w and "nvidia-smi nvlink -s" in w for w in draft.warnings)


def test_a_mesh_of_which_one_gpu_lost_its_links() -> None:
    cells = {pair: "NV2" if 2 not in pair else "PHB" for pair in combinations(range(4), 2)}
    rows = ["\t".join(["", *(f"GPU{g}" for g in range(4)), "CPU Affinity"])]
    for g in range(4):
        row = ["X" if g == h else cells[min(g, h), max(g, h)] for h in range(4)]
        rows.append("\t".join([f"GPU{g}", *row, "0-3"]))
    draft = of(NV, "\n".join(rows))
    assert [lack.unit for lack in draft.lacks] == ["gpu2"]
    assert draft.levels[-1].domain.value == "mesh"  # type: ignore[union-attr]
    assert draft.levels[-1].count.value == 4  # type: ignore[union-attr]


def test_one_clique_of_all_nodes_is_one_rack() -> None:
    draft = of(KUBERNETES, nodes([4] * 18, 18))
    inside = wrap_network(draft, load("gb200-nvl72"))
    assert [level.count.value for level in inside.levels] == [1, 72]  # type: ignore[union-attr]
    assert devices(wrap_network(of(KUBERNETES, nodes([8] * 4, 4)), load("dgx-h100"))) == 32
    with pytest.raises(InputError, match=r"devices in a node: 4 by .* but 72"):
        wrap_network(of(KUBERNETES, nodes([4] * 4, 4)), load("gb200-nvl72"))


def test_the_ports_of_a_fabric_win_over_those_of_the_system_inside() -> None:
    draft = import_texts("ibnetdiscover", {"f": fabric(2, 4, 4)})
    found = wrap_network(draft, load("dgx-h100"))
    assert found.levels[-2].ports.value == 4  # type: ignore[union-attr]
    [warning] = found.warnings
    assert warning.startswith("ports of level 'node': 4 by ibnetdiscover")
    assert "but 8 by --inside dgx-h100" in warning
    assert not wrap_network(
        import_texts("ibnetdiscover", {"f": fabric(2, 4, 8)}), load("dgx-h100")
    ).warnings


def test_two_matrices_of_one_node_are_one_and_of_two_nodes_are_refused() -> None:
    links, paths = matrix([18] * 8), matrix([0] * 8, legend=LEGEND)
    for text in (links + paths, paths + links):
        draft = of(NV, text)
        assert draft.counted["nvlinks"] == 8 * 18
        assert any("2 matrices of one node" in note for note in draft.notes)
    with pytest.raises(InputError, match="GPU0 to GPU1 is NV18 in matrix 1, and NV12 in matrix 2"):
        of(NV, links + matrix([12] * 8))


@pytest.mark.parametrize(("kind", "options"), [(SLURM, {"gpu": "h100"}), (NV, {"keys": ("a",)})])
def test_an_option_that_a_file_has_no_use_for_is_refused(
    kind: str, options: dict[str, object]
) -> None:
    with pytest.raises(InputError, match=r"does not apply|Kubernetes labels"):
        of(kind, "BlockName=a Nodes=n1" if kind == SLURM else matrix([18] * 8), **options)


def test_a_switch_that_lists_other_nodes_than_its_leaves_is_stated() -> None:
    shown = (
        "SwitchName=s0 Level=0 Nodes=n[0-3]\nSwitchName=s1 Level=0 Nodes=n[4-7]\n"
        "SwitchName=top Level=1 Nodes=n[0-7] Switches=s[0-1]\n"
    )
    assert not of(SLURM, shown).warnings
    [warning] = of(SLURM, shown.replace("n[0-7]", "n[0-8]")).warnings
    assert warning.startswith(
        "nodes of switch top: 8 by the lines of leaf switches, but 9 by line 3. The lines of leaf"
    )


def test_devices_are_missing_from_the_machine_of_the_file() -> None:
    counts = [4] * 36
    counts[3], counts[5] = 2, 3
    draft = wrap_network(of("kubernetes", nodes(counts, 18)), load("gb200-nvl72"))
    lost = [lack.unit.rpartition("/")[2] for lack in draft.lacks]
    assert lost == ["gpu14", "gpu15", "gpu23"]


CONF = """# Number of Nodes in block1: 4
BlockName=b1 Nodes=n[1-4]
# Number of Nodes in block2: 4
BlockName=b2 Nodes=n[5-8]
BlockSizes=4
"""
YAML = """- topology: t
  block:
    block_sizes: [4]
    blocks:
    # Number of Nodes in block1: 4
    - block: b1
      nodes: n[1-4]
    # Number of Nodes in block2: 4
    - block: b2
      nodes: n[5-8]
"""


@pytest.mark.parametrize(("text", "line"), [(CONF, 3), (YAML, 8)])
def test_a_block_with_other_nodes_than_a_comment_counts_is_stated(text: str, line: int) -> None:
    """As Azure's azslurm counts the nodes of each block, in its order."""
    assert not of(SLURM, text).warnings
    [warning] = of(SLURM, text.replace("block2: 4", "block2: 5")).warnings
    assert warning == (
        f"nodes of block b2: 4 by its list, but 5 by line {line}. Its list is followed."
    )
    assert not of(SLURM, text.replace("block2: 4", "block3: 5")).warnings


def test_a_tray_shows_a_part_of_what_its_switches_join() -> None:
    [warning] = of(NV, matrix([18] * 4), gpu="gb200").warnings
    assert "join 72 GPUs of several machines; the file lists 4" in warning
    assert not of(NV, matrix([18] * 8), gpu="b200").warnings


def test_a_legend_without_nvlinks_leaves_them_open() -> None:
    for gpu in (None, "h100"):
        draft = of(NV, matrix([0] * 8, legend=LEGEND), gpu=gpu)
        assert "topo -mp" in draft.warnings[0]
        assert "nvlinks" not in draft.counted
        assert not isinstance(draft.levels[-1].domain, StatedValue)


def test_affinities_that_overlap_contradict_nothing() -> None:
    text = matrix([0] * 2, fill="NODE").replace("GPU1\tNODE\tX\t0-3", "GPU1\tNODE\tX\t2-5")
    assert not of(NV, text).warnings


def dump(each: list[int]) -> str:
    """As NCCL writes GPUs with so many links into NVSwitches."""
    gpus = "".join(
        f'<pci busid="0000:{gpu:02x}:00.0" class="0x030200"><gpu dev="{gpu}" sm="90">'
        f'<nvlink target="0000:f0:00.0" count="{links}" tclass="0x068000"/></gpu></pci>'
        for gpu, links in enumerate(each)
    )
    return f'<system><cpu arch="x86_64">{gpus}</cpu></system>'


def test_links_that_a_dump_of_nccl_lacks_are_named() -> None:
    draft = of("nccl-xml", dump([18, 18, 9, 0, 18, 18]))
    assert {lack.unit: lack.bandwidth_share for lack in draft.lacks} == {"gpu2": 0.5, "gpu3": None}
    assert draft.counted["nvlinks"] == 4 * 18 + 9
    assert "GPU 2 has 9 of 18 NVLinks" in draft.warnings[0]
    with pytest.raises(InputError, match=r"by 18 links, but 0000:02:00.0 by 9, 0000:03:00.0 by 9"):
        of("nccl-xml", dump([18, 18, 9, 9]))
