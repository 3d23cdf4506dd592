"""Other people's measurements as measurements, and their machines as systems."""

from __future__ import annotations

import csv
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from hierarchies import Domain, Hierarchy, Level, Link, System
from results.record import ROOT
from synth.measure.calibration.measurements import SEND_RECEIVE, Measurement, Sample

SHARED = Path(os.environ.get("COLLSYNTH_SHARED", ROOT.parent / "shared")) / "data"
COLLECTIVES = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "alltoall": "all-to-all",
    "sendrecv": SEND_RECEIVE,
    "send_recv": SEND_RECEIVE,
}
MOST_NODES = 1024
VIDUR_SIZES = 24
"""So many of vidur's sizes, evenly on a logarithmic scale: it has a thousand of each placement."""
Family = dict[str, Any]


def told() -> dict[str, Any]:
    with Path(__file__).with_name("fidelity.toml").open("rb") as file:
        return tomllib.load(file)


def tables(family: Family) -> list[Measurement]:
    """All tables of a family, in the order of their names, without misaligned rows."""
    return [measurement.aligned for measurement in whole_tables(family)]


def whole_tables(family: Family) -> list[Measurement]:
    """All tables of a family with all their rows, in the order of their names."""
    if "vidur" in family:
        return [m for name in family["vidur"] for m in _vidur(SHARED / "published" / f"{name}.csv")]
    if "published" in family:
        return list(_scaling(SHARED / "published" / f"{family['published']}.csv"))
    found = []
    for path in sorted((SHARED / "measured").glob("*.csv")):
        if path.stem.startswith(tuple(family["tables"])):
            head, measurement = _measured(path)
            if head.get("network", "").startswith(family.get("network", "")):
                found.append(measurement)
    return found


def read_table(path: Path) -> tuple[dict[str, str], list[dict[str, str]]]:
    """A table's header, and its rows by column."""
    lines = path.read_text(encoding="utf-8").splitlines()
    head = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# ") and ": " in line)
    return head, list(csv.DictReader(line for line in lines if not line.startswith("#")))


def _measured(path: Path) -> tuple[dict[str, str], Measurement]:
    """Out-of-place times; rows of no bytes or no time (sizes too small to be cut) say nothing."""
    head, rows = read_table(path)
    samples = [Sample(int(row["bytes"]), float(row["seconds"])) for row in rows]
    forced = dict(part.split("=") for part in head["algo"].split() if "=" in part)
    here = int(head["nodes"]), int(head["gpus_per_node"])
    return head, Measurement(
        COLLECTIVES[head["collective"]],
        here,
        here,
        tuple(sample for sample in samples if sample.size_bytes and sample.seconds),
        forced.get("NCCL_ALGO"),
        forced.get("NCCL_PROTO"),
        path.stem,
    )


def gpus_of_thread(source: str) -> int:
    """The GPUs that each thread of a run launched on, by its log; 1 where none says so."""
    path = SHARED / "nccl-tests-logs" / f"{source}.txt"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    found = re.search(r"nThread +\d+ +nGpus +(\d+)", text)
    return int(found[1]) if found else 1


def _scaling(path: Path) -> Iterator[Measurement]:
    _, rows = read_table(path)
    for nodes, ranks, algorithm in dict.fromkeys((r["nodes"], r["gpus"], r["algo"]) for r in rows):
        here = int(nodes), int(ranks) // int(nodes)
        samples = tuple(
            Sample(int(row["size"]), float(row["time_us"]) * 1e-6)
            for row in rows
            if (row["nodes"], row["algo"]) == (nodes, algorithm)
        )
        forced = None if algorithm == "default" else algorithm
        yield Measurement("all-reduce", here, here, samples, forced, None, f"{path.stem}, {nodes}")


def _vidur(path: Path) -> Iterator[Measurement]:
    """Medians of torch.distributed by ranks and ranks per node."""
    _, rows = read_table(path)
    key = next(name for name in rows[0] if name.endswith(".median"))
    for ranks, each in dict.fromkeys((r["num_workers"], r["devices_per_node"]) for r in rows):
        mine = {
            int(row["size"]): float(row[key]) * 1e-3
            for row in rows
            if (row["num_workers"], row["devices_per_node"]) == (ranks, each)
        }
        sizes = sorted(mine)
        places = np.unique(
            [np.abs(np.log(np.array(sizes) / aim)).argmin() for aim in _aims(sizes)]
        ).tolist()
        samples = tuple(Sample(sizes[place], mine[sizes[place]]) for place in places)
        here = int(ranks) // int(each), int(each)
        collective = COLLECTIVES[rows[0]["collective"]]
        source = f"{path.stem}, {here[0]}x{here[1]}"
        yield Measurement(collective, here, here, samples, None, None, source)


def _aims(sizes: list[int]) -> list[float]:
    return [float(aim) for aim in np.geomspace(sizes[0], sizes[-1], VIDUR_SIZES)]


def systems(family: Family, links: dict[str, Any]) -> list[System]:
    """The descriptions that a family's machine may have: one, or two where the source is silent.

    A PCIe host is taken for one medium unless the tables say otherwise: of two that explain them
    equally well the first counts.
    """
    kind = links[family["link"]]
    simple, ll, ll128 = (5.7, 1.0, 2.5) if kind.get("pcie") else (3.4, 0.6, 1.9)
    inside = Link(
        Domain.SWITCH,
        kind["GB_per_s"] * 1e9,
        simple * 1e-6,
        reduces=family.get("reduces", False),
        ll_latency_seconds=ll * 1e-6,
        ll128_latency_seconds=ll128 * 1e-6,
    )
    between = Link(
        Domain.SWITCH,
        family.get("nic_GB_per_s", 25.0) * 1e9,
        14e-6,
        family.get("nics", 1),
        reduces=family.get("reduces_between", False),
        ll_latency_seconds=2.7e-6,
        ll128_latency_seconds=4e-6,
    )
    name = "".join(letter for letter in family["name"] if letter not in ",")
    nodes, gpus = Level("node", MOST_NODES), Level("gpu", family["gpus"])
    system = System(name, "", Hierarchy((nodes, gpus)), (between, inside), 2e12)
    if not family.get("bus"):
        return [system]
    one = replace(between, domain=Domain.BUS, ports=1), inside
    if family["gpus"] > 1:
        one = between, replace(inside, domain=Domain.BUS)
    few = Hierarchy((Level("node", 2 if family["gpus"] == 1 else MOST_NODES), gpus))
    return [replace(system, hierarchy=few, links=one), system]


def several_runs(measurements: list[Measurement]) -> dict[int, list[float]]:
    """By size the times of tables that say the same: runs of one configuration."""
    found: dict[int, list[float]] = {}
    for measurement in measurements:
        for sample in measurement.samples:
            found.setdefault(sample.size_bytes, []).append(sample.seconds)
    return found


def medians(measurements: list[Measurement]) -> dict[int, float]:
    return {size: median(times) for size, times in several_runs(measurements).items()}
