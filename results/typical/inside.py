"""Prices inside one node beside NVIDIA's own tables (``kernels/nccl_*.csv``), never learned from.

nccl-tests with a thread for each GPU, no CUDA graphs; medians over repeated runs.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from statistics import median
from typing import Any

import numpy as np

from hierarchies import load
from results.fidelity.tables import COLLECTIVES, SHARED
from synth.measure.calibration.candidates import Predictor
from synth.measure.calibration.measurements import Measurement, Sample
from synth.measure.calibration.typical import TypicalNumbers, apply_typical

MACHINES = {
    "a100-sxm": "dgx-a100",
    "h100-sxm": "dgx-h100",
    "h200-sxm": "dgx-h200",
    "b200-sxm": "dgx-b200",
}
SIZES = (0, 1 << 16, 1 << 20, 1 << 24)


def measurements(device: str) -> list[Measurement]:
    """The tables of a device: collectives among 2 to 8 GPUs of one node, by half precision."""
    times: dict[tuple[str, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    with (SHARED / "kernels" / f"nccl_{device}.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["dtype"] == "half" and row["op"] in COLLECTIVES:
                found = times[COLLECTIVES[row["op"]], int(row["gpus"])]
                found[int(row["bytes"])].append(float(row["seconds"]))
    return [
        Measurement(
            collective,
            (1, gpus),
            (1, gpus),
            tuple(Sample(size, median(runs)) for size, runs in sorted(sizes.items())),
            source=f"{device}, {collective}, {gpus}",
        )
        for (collective, gpus), sizes in times.items()
    ]


def inside(numbers: TypicalNumbers) -> list[dict[str, Any]]:
    """By device and class of sizes: errors, and how many times as long prices are as runs."""
    found = []
    for device, name in MACHINES.items():
        system = apply_typical(load(name), numbers)
        ratios: dict[tuple[str, int], list[float]] = defaultdict(list)
        for measurement in measurements(device):
            kind = "all-reduce" if measurement.collective == "all-reduce" else "other"
            predictor = Predictor(system, measurement)
            for sample in measurement.samples:
                least = max(size for size in SIZES if size <= sample.size_bytes)
                priced = predictor.at(sample.size_bytes).seconds
                ratios[kind, least].append(priced / sample.seconds)
        found += [
            {
                "device": device,
                "collectives": kind,
                "from": least,
                "rows": len(times),
                "median": float(f"{np.median(np.abs(np.array(times) - 1)):.4g}"),
                "times": float(f"{np.median(times):.4g}"),
            }
            for (kind, least), times in sorted(ratios.items())
        ]
    return found
