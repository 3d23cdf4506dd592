"""Data-parallel steps, for tests of the buckets that their gradients go in."""

from __future__ import annotations

from pathlib import Path

import pytest

from grammar.tensors.operations import Step
from grammar.tensors.parser import parse_step
from hierarchies import Axis, load, placements
from hierarchies.devices import device_named
from synth.step.bucketing import Replica, build_replica

STEP = Path(__file__).parent / "steps" / "mlp-tiny.step"


def step() -> Step:
    return parse_step(STEP.read_text(), where=STEP.name)


def replica_of(step: Step, system: str = "dgx-h100:1") -> Replica:
    found = load(system)
    [placement] = placements(found.hierarchy, (Axis("data", found.devices),))
    return build_replica(step, found, placement, device_named(found.device))


def zoo(name: str, **more: object) -> Step:
    pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
    from synth.step.models import ModelSettings, zoo_step

    return zoo_step(name, {}, ModelSettings(**{"batch": 16, **more}))  # type: ignore[arg-type]
