"""The mesh and the specs of a written module are the plan's, on JAX's own devices."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from hierarchies import Axis, InputError, Placement, load
from synth.step.frameworks import ModelSpec, PlacedSystem, TrainingSpec, write_configuration
from synth.step.models import ModelSettings, zoo_step
from synth.step.sharding import parse_recipe
from synth.step.zoo.sizes import ZOO

ASK = """
import json, sys
exec(open(sys.argv[1]).read())
made = mesh()
lie = shardings(made)
shapes = json.load(open(sys.argv[2]))
def part(role, name):
    return lie[role][name].shard_shape(tuple(shapes[role][name]))
cut = {role: {name: part(role, name) for name in found} for role, found in lie.items()}
ids = [d.id for d in made.devices.reshape(-1)]
print(json.dumps({"names": made.axis_names, "shape": made.devices.shape, "ids": ids, "cut": cut}))
"""


@pytest.mark.parametrize(
    ("clauses", "matrix", "ids", "cut"),
    [
        (
            "batch over data; weights over tensor as Megatron; zero=1",
            ((1, 2, 1), (1, 1, 4)),
            [0, 1, 2, 3, 4, 5, 6, 7],
            {"query": ([2, 32, 1, 8], [2, 16, 1, 8]), "tokens": ([4, 16], None)},
        ),
        (
            "batch over data; tokens over tensor; zero=3; 2 microbatches",
            ((1, 1, 2), (1, 2, 2)),
            [0, 1, 4, 5, 2, 3, 6, 7],
            {"query": ([2, 4, 4, 8], [2, 4, 4, 8]), "tokens": ([4, 4], None)},
        ),
    ],
)
def test_the_module_lays_the_inputs_as_the_plan(
    tmp_path: Any,
    clauses: str,
    matrix: tuple[tuple[int, ...], ...],
    ids: list[int],
    cut: dict[str, tuple[list[int], list[int] | None]],
) -> None:
    """Run in a process of 8 devices, two sockets of 4: places of the axes, parts of a device."""
    pytest.importorskip("jax")
    step = zoo_step("gpt2-tiny", {}, ModelSettings(batch=8))
    recipe = parse_recipe(f"data=2 tensor=4; {clauses}")
    system = load("l40s-pcie:1")
    axes = (Axis("data", 2), Axis("tensor", 4))
    placed = Placement(system.hierarchy, axes, matrix)
    model = ModelSpec("gpt2-tiny", ZOO["gpt2-tiny"], step)
    found = write_configuration(
        "jax", recipe, model, TrainingSpec(8, 16), PlacedSystem(system, placed)
    )
    (tmp_path / "mesh.py").write_text(str(found.files["collsynth_mesh.py"]), encoding="utf-8")
    shapes: dict[str, dict[str, list[int]]] = {}
    for role, label, value in zip(step.roles, step.labels, step.graph.inputs, strict=True):
        shapes.setdefault(role, {})[label] = list(value.type.shape)
    (tmp_path / "shapes.json").write_text(json.dumps(shapes), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", ASK, "mesh.py", "shapes.json"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        env={"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"},
    )
    said = json.loads(done.stdout)
    assert (said["names"], said["shape"], said["ids"]) == (["data", "tensor"], [2, 4], ids)
    weight, moment = cut["query"]
    assert said["cut"]["parameter"]["layers/attention/query"] == weight
    assert said["cut"]["moment"]["mean/layers/attention/query"] == moment
    assert said["cut"]["batch"]["tokens"] == cut["tokens"][0]
    assert set(said["cut"]["parameter"]) == set(shapes["parameter"])


def test_padded_parts_are_refused_for_partition_specs() -> None:
    pytest.importorskip("jax")
    step = zoo_step("gpt2-tiny", {}, ModelSettings(batch=24))
    recipe, system = parse_recipe("data=24; batch over data; zero=3"), load("dgx-h100:3")
    placed = Placement(system.hierarchy, (Axis("data", 24),), ((3, 8),))
    model = ModelSpec("gpt2-tiny", ZOO["gpt2-tiny"], step)
    with pytest.raises(InputError, match="has no dimension that the axes of ZeRO divide"):
        write_configuration(
            "jax", recipe, model, TrainingSpec(24, 16), PlacedSystem(system, placed)
        )
