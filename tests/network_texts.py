"""Small files of networks, and what was counted in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

from hierarchies.importers import Draft

TREE = """\
# a tree of three tiers
switchname=root SWITCHES=mid[0-1]
SwitchName=mid0 Switches=s[0-1]   # trailing comment
SwitchName=mid1 \\
    Switches=s[2-3] LinkSpeed=100

SwitchName=s0 Nodes=n[00-02]
SwitchName=s1 Nodes=n[03-05]
SwitchName=s2 Nodes=n[06-07],m1
SwitchName=s3 Nodes="n[09-11]"
"""


SHOWN = """\
SwitchName=s0 Level=0 LinkSpeed=1 Nodes=dev[0-1]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=dev[2-3]
SwitchName=top Level=1 LinkSpeed=1 Nodes=dev[0-3] Switches=s[0-1]
"""


YAML_TREE = """\
- topology: other
  block: {block_sizes: [2], blocks: [{block: b, nodes: x1}]}
- topology: main
  cluster_default: true
  tree:
    switches:
      - switch: top
        children: s[0-1]
      - {switch: s0, nodes: "0010,0011"}
      - {switch: s1, nodes: "0012,0013"}
"""


def counts(draft: Draft) -> dict[str, object]:
    return {level.name: level.entries()["count"].value for level in draft.levels}  # type: ignore[union-attr]


def fabric(
    groups: int, hosts: int, rails: int, *, spines: int = 2, trunks: int = 1, speed: str = "4xNDR"
) -> str:
    """Leaf switches by group and rail, ``trunks`` cables from each to every spine, listed twice."""
    ports: dict[str, list[str]] = {}
    names: dict[str, str] = {}

    def cable(one: str, other: str, to: str) -> None:
        mine, theirs = len(ports.setdefault(one, [])) + 1, len(ports.setdefault(other, [])) + 1
        ports[one].append(f'[{mine}]\t"{other}"[{theirs}]\t\t# "{names[other]}" lid 1 {to}')
        ports[other].append(f'[{theirs}]\t"{one}"[{mine}]\t\t# "{names[one]}" lid 2 {to}')

    for g, r in product(range(groups), range(rails)):
        names[f"S-{g:02x}{r:02x}"] = f"MF0;leaf-{g}-{r}:MQM9700/U1"
    names |= {f"S-ff{s:02x}": f"spine {s}" for s in range(spines)}
    for g, h, r in product(range(groups), range(hosts), range(rails)):
        names[f"H-{g:02x}{h:02x}{r:02x}"] = f"node-{g}-{h} mlx5_{r}"
        cable(f"S-{g:02x}{r:02x}", f"H-{g:02x}{h:02x}{r:02x}", speed)
    for g, r, s, _ in product(range(groups), range(rails), range(spines), range(trunks)):
        cable(f"S-{g:02x}{r:02x}", f"S-ff{s:02x}", speed)
    blocks = [
        f'vendid=0x2c9\n{"Switch" if id[0] == "S" else "Ca"}\t64 "{id}"\t\t# "{names[id]}"\n'
        + "\n".join(lines)
        for id, lines in ports.items()
    ]
    return "#\n# Topology file: generated\n#\n\n" + "\n\n".join(blocks) + "\n"


def rows(
    box: tuple[int, int, int], *, cores: int = 1, slices: int = 1, kind: str = "TPU v4"
) -> list[list[Any]]:
    """As JAX lists them: by slice, then z, y, x, core."""
    x, y, z = map(range, box)
    places = product(range(slices), z, y, x, range(cores))
    return [
        [id, id // 4, kind, [px, py, pz], core, number]
        for id, (number, pz, py, px, core) in enumerate(places)
    ]


Labels = Callable[[int], Mapping[str, object]]


TIER, AWS = "fabric.topograph.run/tier-", "topology.k8s.aws/network-node-layer-"


def nodes(labels: Labels, count: int = 12, gpus: int = 8) -> str:
    items = [
        {
            "metadata": {"name": f"n{i}", "labels": {"kubernetes.io/os": "linux", **labels(i)}},
            "status": {"capacity": {"cpu": "64", "nvidia.com/gpu": str(gpus)}},
        }
        for i in range(count)
    ]
    control = {"metadata": {"name": "control"}, "status": {"capacity": {"cpu": "8"}}}
    return json.dumps({"kind": "List", "items": [*items, control]})


MODEL = """\
switches:
  core: {switches: [s1, s2]}
  s1: {switches: [l11, l12]}
  s2: {switches: [l21, l22]}
blocks:
- {switch: l11, nodes: ["n[0101-0104]"]}
- {switch: l12, nodes: ["n[0105-0107]", n0108]}
- {switch: l21, nodes: ["n[0109-0112]"], type: H100}
- {switch: l22, nodes: ["n[0113-0116]"]}
"""


OLD = """\
switches:
- name: core
  switches: [l1, l2]
- name: l1
  capacity_blocks: [cb1]
- name: l2
  capacity_blocks: [cb2]
capacity_blocks:
- {name: cb1, type: H100, nvlink: nvl1, nodes: [n1, n2]}
- {name: cb2, type: H100, nvlink: nvl2, nodes: [n3, n4]}
"""


def graph(*, reverse: bool = False, **labels: str) -> str:
    instances = [
        {
            "id": f"i{n}",
            "network_layers": [f"leaf{n // 2}", f"spine{n // 4}", "core"],
            "labels": labels,
        }
        for n in range(8)
    ]
    for instance in instances:
        if reverse:
            instance["network_layers"] = instance["network_layers"][::-1]  # type: ignore[index]
    return json.dumps({"instances": instances})
