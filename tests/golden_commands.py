"""The commands whose golden texts are kept."""

from __future__ import annotations

from pathlib import Path

NESTED = "reduce-scatter node inside; all-reduce node parallel(root); all-gather node inside"

UNDONE = (
    "reduce-scatter node inside; reduce-scatter node parallel; "
    "all-gather node inside; all-gather node parallel"
)


P2 = ("p2-a100:2", "--axes", "data=32", "--reduce", "data")


GOLDEN_COMMANDS = {
    "systems": ["systems"],
    "system": ["systems", "l40s-pcie"],
    "import": [
        *("import", "nvidia-smi", str(Path(__file__).parent / "imports" / "switched.txt")),
        *("--nodes", "4", "--gpu", "a100"),
    ],
    "graph": ["graph", "dgx-h100:4", "--slow", "node1/nic2=0.5"],
    "trace": ["trace", str(Path(__file__).parent / "steps" / "mlp-tiny.step")],
    "shard": [
        *("shard", str(Path(__file__).parent / "steps" / "mlp-tiny.step"), "dgx-h100:1"),
        *("--plan", "data=8; batch over data; zero=1"),
    ],
    "simulate": [
        *("simulate", str(Path(__file__).parent / "steps" / "mlp-tiny.step"), "dgx-h100:1"),
        *("--plan", "data=8; batch over data; zero=1"),
    ],
    "buckets": [
        *("buckets", str(Path(__file__).parent / "steps" / "mlp-tiny.step"), "dgx-h100:1"),
    ],
    "train": [
        *("train", str(Path(__file__).parent / "steps" / "mlp-tiny.step"), "dgx-h100:1"),
        *("--plan", "data=8; batch over data; zero=2", "--runtime", "torch"),
    ],
    "profile": [
        *("profile", str(Path(__file__).parent / "steps" / "mlp-tiny.step"), "--no-measure"),
        *("--plan", "data=2; batch over data; zero=3", "--runtime", "torch"),
    ],
    "place": ["place", "dgx-h100:4", "--axes", "data=8,model=4"],
    "count": ["count", "--digits", "3"],
    "top": ["top", "p2-a100:4", "--axes", "data=16,model=4", "--reduce", "data", "-k", "4"],
    "top-explained": [
        *("top", "dgx-h100:4", "--axes", "data=32", "--reduce", "data", "-k", "3"),
        *("--segments", "auto", "--explain"),
    ],
    "top-per-placement": [
        *("top", "p2-v100:2", "--axes", "data=4,model=4", "--reduce", "data"),
        *("-k", "2", "--per-placement", "--algorithm", "ring"),
    ],
    "top-sweep": [
        *("top", "p2-a100:4", "--axes", "data=32,model=2", "--reduce", "data"),
        *("--bytes", "1KiB..1GiB", "--max-steps", "3"),
    ],
    "top-job": [
        *("top", "dgx-h100:4", "--axes", "data=8,model=4", "--no-stripes", "-k", "2"),
        *("--reduce", "data", "--bytes", "1GiB"),
        *("--reduce", "model", "--bytes", "64MiB", "--times", "160"),
    ],
    "top-placed": [
        *("top", "p2-a100:4", "--axes", "data=16,model=4", "--reduce", "data", "-k", "1"),
        *("--placement", "[[1, 16], [4, 1]]"),
    ],
    "top-all-to-all": [
        *("top", "dgx-h100:4", "--axes", "expert=16,data=2", "--reduce", "expert"),
        *("--request", "all-to-all", "--bytes", "64MiB", "-k", "3"),
    ],
    "plan": ["plan", "dgx-h100:4", "--job", "gpt-18b-3d", "-k", "3"],
    "job": [
        *("job", "--layers", "40", "--hidden", "5120", "--heads", "40", "--vocabulary", "32000"),
        *("--sequence", "2048", "--axes", "data=any,tensor=1|2|4|8", "--micro-batches", "8"),
        *("--memory", "70", "--name", "a-13b"),
    ],
    "order": ["order", "1f1b", "--stages", "4", "--microbatches", "8", "--transfer", "0.4"],
    "order-zero-bubble": [
        *("order", "zero-bubble-h1", "--stages", "8", "--chunks", "2", "--microbatches", "4"),
    ],
    "top-nothing-to-do": ["top", "dgx-h100:1", "--axes", "data=1,model=8", "--reduce", "data"],
    "check": ["check", NESTED, *P2, "--replay"],
    "check-master": [
        *("check", "reduce node inside; all-reduce node master; broadcast node inside", *P2),
    ],
    "emit-torch": ["emit", NESTED, "--target", "torch", *P2],
    "emit-jax": ["emit", NESTED, "--target", "jax", *P2],
    "emit-mpi": [
        *("emit", "reduce node inside; all-reduce node master; broadcast node inside"),
        *("--target", "mpi", "p2-v100:2", "--axes", "model=2,data=8", "--reduce", "data"),
        *("--placement", "[[1, 2], [2, 4]]", "--rank-order", "axes"),
    ],
    "check-refuted": [
        "check",
        "all-reduce d1 parallel(d0); all-reduce root inside",
        "--tree",
        "2,8",
    ],
    "check-all-gather": [
        *("check", "all-gather node parallel; all-gather node inside", *P2, "--replay"),
        *("--request", "all-gather"),
    ],
    "check-irregular": ["check", "reduce root inside; all-gather root inside", "--tree", "4"],
    "lower": [
        "lower",
        UNDONE,
        *("dgx-h100:2", "--axes", "data=16", "--reduce", "data"),
    ],
    "time": ["time", NESTED, *P2],
}
