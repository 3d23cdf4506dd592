"""PyTorch's own table of DDP with buckets of 25 and of 1 MB, beside the same as simulated.

Of its models the zoo has ResNet-50, on nodes of eight V100 with four cards of 100 Gbit/s, which is
``dgx1-v100``. Its rows of 1 MB are 75th percentiles, beside those of 25 MB, which hardly differ.
"""

from __future__ import annotations

import re
from typing import Any

from hierarchies import Axis, load, placements
from hierarchies.devices import device_named
from results.steps.rows import raw_rows
from synth.step.bucketing import AXIS, build_replica
from synth.step.bucketing.choosing import MIB, fill_buckets, fill_by_default
from synth.step.bucketing.clock import simulate_buckets
from synth.step.models import ModelSettings, zoo_step

TABLE, MODEL = "pytorch_ddp_bucket", "resnet50"
SMALL = "DDP, bucket_cap_mb=1"
OFF = re.compile(r"difference to bucket 25 at p75 (-?[\d.]+)%")
Told = dict[str, Any]


def published() -> list[Told]:
    """By how much buckets of 1 MB are slower than DDP's default, as published and as simulated."""
    return [
        beside(int(raw["accels"]), int(raw["micro_batch"]), -float(found[1]) / 100)
        for raw in raw_rows(TABLE)
        if raw["model"] == MODEL and raw["overlap"] == SMALL and int(raw["accels"]) > 1
        for found in [OFF.search(raw["notes"])]
        if found
    ]


def beside(devices: int, samples: int, slower: float) -> Told:
    """One row: ``slower`` is what was measured."""
    name = f"dgx1-v100:{max(1, devices // 8)}x{min(8, devices)}"
    system = load(name)
    assert system.device is not None
    [placement] = placements(system.hierarchy, [Axis(AXIS, devices)])
    step = zoo_step(MODEL, {}, ModelSettings(batch=devices * samples, optimizer="sgd"))
    one = build_replica(step, system, placement, device_named(system.device))
    default, small = (
        simulate_buckets(one.backward, ends, one.sums.seconds).seconds
        for ends in (fill_by_default(one.backward), fill_buckets(one.backward, (MIB,)))
    )
    return {
        "system": name,
        "devices": devices,
        "slower": slower,
        "simulated_slower": small / default - 1,
        "seconds": default,
    }
