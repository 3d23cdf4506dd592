"""Published speed-ups of sums a tensor and of merged gradients, beside the same as simulated.

The table (HKBU-HPML/ddl-benchmarks, of arXiv 2005.13247) has samples a second without overlap
(BSP), with each tensor summed as soon as it is made (WFBP), and with tensors merged (MG-WFBP), on
nodes of four GPUs over three networks. Of a GPU nothing is taken but the seconds of its own step:
when gradients are made in it says a roofline of our V100, scaled to that. Links reach what is
typical of their media. Priorities among parts of tensors (ByteScheduler) let sums go on beside the
next forward pass: of them the clock says what no order goes below, compute or all sums. It has no
parameter servers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from hierarchies import Axis, System, load, placements
from hierarchies.devices import device_named
from results.steps.rows import raw_rows
from synth.measure.calibration.typical import apply_typical
from synth.step.bucketing import AXIS, Replica, build_replica
from synth.step.bucketing.choosing import fill_buckets, find_buckets
from synth.step.bucketing.clock import Ends, simulate_buckets
from synth.step.bucketing.sums import Sums
from synth.step.models import ModelSettings, zoo_step

TABLE = "ddl_benchmarks_overlap"
MACHINE = Path(__file__).with_name("pcie-nodes.toml")
NETWORKS: Mapping[str, tuple[str, float]] = {
    "10GbE with TCP/IP": ("tcp", 1.25e9),
    "100GbE with TCP/IP": ("tcp", 12.5e9),
    "100GbIB with RDMA": ("infiniband", 12.5e9),
}
"""The medium of a node's port, and its bytes a second."""
MODELS = {"ResNet-50": "resnet50", "BERT-Base": "bert-base", "BERT-Large": "bert-large"}
NONE, EACH, MERGED = "BSP-A2A", "WFBP-A2A", "MG-WFBP"
METHODS = (NONE, EACH, MERGED)
FIRST_LAYERS_FIRST = "ByteScheduler-A2A"
Told = dict[str, Any]


def merged() -> Told:
    """A row for each network, model and number of GPUs with BSP and one of the others."""
    rates = {
        (raw["interconnect"], raw["model"], int(raw["accels"]), raw["overlap"]): float(
            raw["samples_per_s"]
        )
        for raw in raw_rows(TABLE)
    }
    samples = {raw["model"]: int(raw["micro_batch"]) for raw in raw_rows(TABLE)}
    alone = {model: rate for (_, model, accels, _), rate in rates.items() if accels == 1}
    rows = []
    for network, model, accels, method in sorted(rates):
        known = {one: rates.get((network, model, accels, one)) for one in METHODS}
        if method == NONE and accels > 1 and (known[EACH] or known[MERGED]):
            seconds = samples[model] / alone[model]
            rows.append(_beside(network, model, accels, seconds, samples[model], known))
    gains = [one for row in rows for one in row["gains"]]
    off = [abs(one["simulated"] - one["published"]) for one in gains]
    both = [row["gains"] for row in rows if len(row["gains"]) == len(METHODS) - 1]
    steps = [row["simulated_seconds"] / row["published_seconds"] - 1 for row in rows]
    return {
        "rows": rows,
        "gains": len(gains),
        "off": {"median": median(off), "worst": max(off)},
        "too_high": sum(one["simulated"] > one["published"] for one in gains),
        "both": len(both),
        "order": sum(
            (each["published"] < all_["published"]) == (each["simulated"] < all_["simulated"])
            for each, all_ in both
        ),
        "steps": {"low": min(steps), "high": max(steps)},
        "priorities": _priorities(rates, samples, alone),
    }


def _priorities(
    rates: Mapping[tuple[str, str, int, str], float],
    samples: Mapping[str, int],
    alone: Mapping[str, float],
) -> Told:
    """Published steps with priorities, by the least that any order of parts of sums allows."""
    ratios, slower = [], []
    for (network, model, accels, method), rate in rates.items():
        if method != FIRST_LAYERS_FIRST or accels == 1:
            continue
        size_bytes = _replica(MODELS[model], samples[model]).backward.upto_bytes[-1]
        sums = _sums(network, accels).seconds(size_bytes)
        least = max(samples[model] / alone[model], sums)
        ratios.append(accels * samples[model] / rate / least)
        if without := rates.get((network, model, accels, NONE)):
            slower.append(rate < without)
    return {
        "rows": len(ratios),
        "ratio": {"low": min(ratios), "median": median(ratios), "high": max(ratios)},
        "below": sum(one < 1 for one in ratios),
        "compared": len(slower),
        "slower": sum(slower),
    }


def _sums(network: str, accels: int) -> Sums:
    system = machine(network, accels)
    [placement] = placements(system.hierarchy, [Axis(AXIS, accels)])
    return Sums(system, placement)


def _beside(
    network: str,
    model: str,
    accels: int,
    seconds: float,
    samples: int,
    known: Mapping[str, float | None],
) -> Told:
    """Seconds of a step without overlap, and by how much faster the others are than it."""
    before = known[NONE]
    assert before is not None
    one = _replica(MODELS[model], samples)
    backward = one.computing(seconds / (one.backward.compute_seconds + one.backward.update_seconds))
    summing = _sums(network, accels).seconds
    ends: Mapping[str, Ends] = {
        NONE: (len(backward.gradients),),
        EACH: fill_buckets(backward, (0,)),
        MERGED: find_buckets(backward, summing),
    }
    simulated = {
        name: simulate_buckets(backward, each, summing).seconds for name, each in ends.items()
    }
    return {
        "network": network,
        "model": model,
        "accels": accels,
        "compute_seconds": seconds,
        "published_seconds": accels * samples / before,
        "simulated_seconds": simulated[NONE],
        "gains": [
            {
                "method": name,
                "published": rate / before - 1,
                "simulated": simulated[NONE] / simulated[name] - 1,
            }
            for name in (EACH, MERGED)
            for rate in [known[name]]
            if rate is not None
        ],
    }


def machine(network: str, accels: int) -> System:
    """Nodes of four GPUs with this network between, as typical of such links."""
    medium, rate = NETWORKS[network]
    system = load(f"{MACHINE}:{max(1, accels // 4)}")
    node, *inner = system.links
    node = replace(node, medium=medium, bandwidth_bytes_per_second=rate)
    return apply_typical(replace(system, links=(node, *inner)))


@cache
def _replica(model: str, samples: int) -> Replica:
    """A step of one GPU, when it makes which gradients; by rooflines."""
    [network, *_] = NETWORKS
    system = machine(network, 4)
    [placement] = placements(system.hierarchy, [Axis(AXIS, 4)])
    step = zoo_step(model, {}, ModelSettings(batch=4 * samples, optimizer="sgd"))
    return build_replica(step, system, placement, device_named("V100 SXM2"))
