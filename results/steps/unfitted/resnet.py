"""Published ResNet-50 steps against ``simulate``; nothing is fitted.

Each replica normalises its own samples, as frameworks do under data parallelism. A row runs on the
nearest machine of the catalogue with typical links. The optimizer is AdamW, with gradients summed
in buckets of 25 MB.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

from hierarchies import load, row_major_placement
from hierarchies.devices import device_named
from results.steps.protocol import short
from results.steps.rows import LeftOutError, Raw, raw_rows
from synth.collective.ranking.oracle import ProgramPrices
from synth.measure.calibration.typical import apply_typical
from synth.step.models import ModelSettings, zoo_step
from synth.step.redistribution.seconds import NetworkPrices
from synth.step.search.finalists import rooflines_of, simulate_plan
from synth.step.search.links import axes_of
from synth.step.sharding import parse_recipe, plan_of

DEVICES: Mapping[str, tuple[str, str]] = {
    "A100-SXM-80GB": ("A100 SXM4 80 GB", "dgx-a100"),
    "A100-SXM-40GB": ("A100 SXM4 40 GB", "dgx-a100"),
    "H100-SXM": ("H100 SXM5 80 GB", "dgx-h100"),
    "DGX A100 (8x A100 80GB)": ("A100 SXM4 80 GB", "dgx-a100"),
    "DGX A100 (8x A100 40GB)": ("A100 SXM4 40 GB", "dgx-a100"),
    "DGX-1": ("V100 SXM2", "dgx1-v100"),
    "V100-SXM2": ("V100 SXM2", "dgx1-v100"),
}
"""By what a row says of its accelerator: ours, and the machine whose links are the nearest."""

BATCHES = re.compile(r"(?P<single>\d+) \(FP32\) / (?P<half>\d+) \(AMP\)|(?P<every>\d+)")
BUCKETS = "buckets of 25 MB"
"""PyTorch's default; all of these frameworks sum gradients in some."""

Told = dict[str, Any]

WAYS = ("estimated", "together")
NEAR = 1.3


@dataclass(frozen=True)
class Run:
    """One measured step; ``samples`` are of one device."""

    name: str
    device: str
    machine: str
    nodes: int
    each: int
    samples: int
    dtype: str
    seconds: float

    @property
    def devices(self) -> int:
        return self.nodes * self.each

    @property
    def system(self) -> str:
        return f"{self.machine}:{self.nodes}x{self.each}"


def _run(raw: Raw, accelerator: str, devices: int, samples: int, dtype: str, rate: float) -> Run:
    """Raises LeftOutError for a device that the catalogue lacks. ``rate``: samples a second."""
    found = [ours for name, ours in DEVICES.items() if name in accelerator]
    if not found:
        raise LeftOutError("the accelerator, or its machine, is not in the catalogue")
    device, machine = found[0]
    each = int(raw.get("accel_per_node") or 8)
    each = min(each, devices)
    seconds = devices * samples / rate
    return Run(raw["id"], device, machine, devices // each, each, samples, dtype, seconds)


def _mlperf(raw: Raw) -> Run:
    devices = int(raw["accels"])
    rate, batch = float(raw["throughput_median"]), int(raw["global_batch"])
    return _run(raw, raw["accelerator"], devices, batch // max(1, devices), "float16", rate)


def _dlperf(raw: Raw) -> Run:
    dtype = "float32" if raw["dtype"] == "fp32" else "float16"
    samples, rate = int(raw["micro_batch"]), float(raw["samples_per_s"])
    return _run(raw, raw["accelerator"], int(raw["accels"]), samples, dtype, rate)


def _examples(raw: Raw) -> Run:
    """NVIDIA's DeepLearningExamples."""
    batch = BATCHES.fullmatch(raw["batch_per_accel"])
    if batch is None:
        raise LeftOutError("the batch is not stated")
    if "TF32" in raw["precision"]:
        raise LeftOutError("TF32: the catalogue has no rate of it")
    half = "mixed" in raw["precision"]
    samples = int(batch["every"] or batch["half" if half else "single"])
    dtype, rate = "float16" if half else "float32", float(raw["throughput"])
    return _run(raw, raw["system_heading"], int(raw["accels"]), samples, dtype, rate)


def _ddp(raw: Raw) -> Run:
    if "p50" not in raw["notes"].split(";")[0] or "not p50" in raw["notes"]:
        raise LeftOutError("no median")
    devices, samples = int(raw["accels"]), int(raw["micro_batch"])
    rate = devices * samples / float(raw["step_seconds"])
    return _run(raw, "V100-SXM2", devices, samples, "float32", rate)


SETS = {
    "mlperf_training": ("MLPerf Training 3.0, MXNet", "benchmark", "resnet", _mlperf),
    "nvidia_dle_training": ("DeepLearningExamples", "model_folder", "resnet50v1.5", _examples),
    "dlperf_dp": ("DLPerf, seven frameworks", "model", "ResNet50", _dlperf),
    "pytorch_ddp_bucket": ("PyTorch's table of DDP", "model", "resnet50", _ddp),
}
"""By set: its name, the column that says the model, how that begins, or ends, and its reader."""


def runs() -> tuple[list[tuple[str, Run]], dict[str, Counter[str]]]:
    """All rows of ResNet-50 by their sets, and how many were left out, by set and reason."""
    found, left = [], {name: Counter[str]() for name in SETS}
    for name, (_, column, model, read) in SETS.items():
        for raw in raw_rows(name):
            if not raw[column].split("/")[-1].startswith(model):
                continue
            try:
                found.append((name, read(raw)))
            except LeftOutError as why:
                left[name][str(why)] += 1
    return found, left


@cache
def _simulated(
    system: str, device_name: str, devices: int, samples: int, dtype: str, groups: int
) -> float:
    machine, device = apply_typical(load(system)), device_named(device_name)
    spelling = ModelSettings(batch=devices * samples, optimizer="adamw", dtype=dtype)
    step = zoo_step("resnet50", {"groups": groups}, spelling)
    batch = f"; batch over data; {BUCKETS}" if devices > 1 else ""
    recipe = parse_recipe(f"data={devices}{batch}")
    placement = row_major_placement(machine.hierarchy, axes_of(recipe))
    assert placement is not None
    plan = plan_of(step, recipe)
    network = NetworkPrices(ProgramPrices(machine, stripes=False), placement)
    return simulate_plan(step, plan, rooflines_of(step, plan, device), network).seconds


def estimate(one: Run, *, together: bool = False) -> float:
    """Seconds of a step; ``together``: statistics are of the batches of all replicas."""
    groups = 1 if together else one.devices
    where = one.system, one.device, one.devices
    return _simulated(*where, one.samples, one.dtype, groups)


def made() -> Told:
    """Every row, measured and estimated, and what was left out of each set."""
    found, left = runs()
    rows = [
        {
            "set": name,
            "id": one.name,
            "device": one.device,
            "system": one.system,
            "samples": one.samples,
            "dtype": one.dtype,
            "measured": short(one.seconds),
            "estimated": short(estimate(one)),
            "together": short(estimate(one, together=True)),
        }
        for name, one in found
    ]
    return {"rows": rows, "left_out": {name: dict(some) for name, some in left.items() if some}}


def classes(rows: list[Told]) -> list[Told]:
    """By set, device and type: estimated over measured seconds, least, middle and most."""
    several: dict[tuple[str, str, str], list[Told]] = {}
    for one in rows:
        key = SETS[one["set"]][0], one["device"], one["dtype"]
        several.setdefault(key, []).append(one)
    return [
        {"class": ", ".join(key), "rows": len(some)}
        | {way: _ends([one[way] / one["measured"] for one in some]) for way in WAYS}
        for key, some in several.items()
    ]


def _ends(ratios: list[float]) -> Told:
    within = sum(1 / NEAR <= one <= NEAR for one in ratios)
    return {"low": min(ratios), "middle": median(ratios), "high": max(ratios), "within": within}
