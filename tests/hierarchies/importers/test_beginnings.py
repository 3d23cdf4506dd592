"""What is a file of its kind is never refused by how it begins, wherever the beginning is cut."""

from __future__ import annotations

import json
import random

import pytest

from hierarchies import InputError, load
from hierarchies.graphs import graph_of
from hierarchies.graphs.formats import graphml, node_link
from hierarchies.importers import check_beginnings, import_texts, markup, structured
from hierarchies.importers.networks import infiniband, jax_dump
from hierarchies.importers.slurm import parsing
from shared import shared

FOLDERS = {
    "nvidia-smi": "nvidia-smi",
    "nccl-xml": "nccl-xml",
    "rocm-smi": "rocm-smi",
    "hwloc-xml": "hwloc",
    "ibnetdiscover": "ibnetdiscover",
    "ibsim-net": "ibnetdiscover",
    "slurm": "slurm",
    "topograph-models": "topograph",
}
NODES = [{"metadata": {"name": f'n{n} "\u00e9\\', "labels": {"a": "b"}}} for n in range(99)]
DEVICES = [[n, n, "TPU v4", [n, 0, 0], 0, -1.5e-3 * n] for n in range(99)]
MADE = {
    "kubernetes": json.dumps({"items": NODES}),
    "jax": json.dumps(DEVICES, indent=1),
    "graph": node_link(graph_of(load("dgx-h100:2"))),
    "graph-xml": graphml(graph_of(load("dgx-h100:2"))),
    "graph-csv": "4\nSrc,Dest,Latency (ns),Bandwidth (GB/s)\n" + "0,1,500,50\n" * 500,
}


def files() -> dict[str, str]:
    found = dict(MADE)
    for folder, kind in FOLDERS.items():
        for path in sorted(shared("topo", folder).iterdir()):
            if path.suffix != ".source":
                found[f"{kind}-{path.name}"] = path.read_text("utf-8", errors="replace")
    return found


def kind_of(name: str) -> str:
    """The kind that a name above begins with."""
    return next(k for k in (*FOLDERS.values(), *MADE) if name.startswith(k))


def cut_at(monkeypatch: pytest.MonkeyPatch, characters: int) -> None:
    for module in (structured, markup, parsing, infiniband, jax_dump):
        monkeypatch.setattr(module, "BEGINNING", characters)


def test_the_beginning_of_a_file_is_never_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    dice, read = random.Random(4), set[str]()
    for name, text in files().items():
        kind = kind_of(name)
        try:
            import_texts(kind, {name: text})
        except InputError:
            continue
        read.add(kind)
        first_line, root = text.find("\n") + 1, 3000
        shortest = root if text.lstrip().startswith("<") else max(first_line, 40)
        for _ in range(3):
            cut_at(monkeypatch, dice.randrange(shortest, max(len(text), shortest) + 9))
            check_beginnings(kind, {name: text})
    assert read > {*FOLDERS.values()} - {"topograph"}


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("nccl-xml", "<topology/>", "<topology>"),
        ("hwloc", "<!-- -->" * 9999, "not XML"),
        ("kubernetes", '{"item": []}', "unexpected JSON"),
        ("kubernetes", '{"items": [}', "not JSON"),
        ("jax", "[1, 2]", "not a list of devices"),
        ("jax", '["' + "a" * 2**17, "not a list of devices"),
        ("graph", "{}", "unexpected JSON"),
        ("graph", "<topology/>", "<topology>"),
        ("topograph", "a: *b", "alias"),
        ("topograph", "a: [b", "not YAML"),
        ("slurm", "SwitchName", "not a setting"),
        ("slurm", "\n" * 500_001, "500001 lines"),
        ("ibnetdiscover", "\n" * 1_000_001, "1000001 lines"),
        ("nvidia-smi", "GPU0 " * 2**19, "characters"),
    ],
)
def test_invalid_texts_are_refused(kind: str, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        check_beginnings(kind, {"file": text})
