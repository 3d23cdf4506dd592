"""What is cut flat in emitted files: its moves, and whole steps, in both runtimes."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")

from exhaustive import RARELY, Sample, sampled
from grammar.tensors.sharding import ReductionKind, Sharding, Type
from moved_parts import Case, differences
from synth.step.emit import write
from synth.step.models import ModelSettings, zoo_step
from synth.step.redistribution import find_path
from synth.step.sharding import apply, plan_of
from synth.step.sharding.layers.prepared import prepare_step
from synth.step.sharding.text import parse_recipe
from synth.step.trials import (
    TrialSettings,
    compare_runs,
    draw_inputs,
    run_in_jax,
    run_trial,
    split_stacks,
)

SIZES = {"a": 2, "b": 1, "c": 3}
VALUE = Type("f32", (6, 5, 2))


def cases() -> list[Case]:
    """Paths from and to what is flat over all axes and orders, and over some."""
    flat = [
        *(Sharding(((),) * 3, (), axes, 0) for axes in permutations(SIZES)),
        Sharding(((),) * 3, (), ("c", "a"), 1),
        Sharding((("c",), (), ()), (), ("a", "b")),
        Sharding(((), (), ("a",)), (), ("c",), 1),
        Sharding(((),) * 3, ((ReductionKind.SUM, "a"),), ("c", "b")),
    ]
    bare = [
        Sharding(((),) * 3),
        Sharding((("c",), (), ("a",))),
        *(
            Sharding(((),) * 3, tuple((ReductionKind.SUM, axis) for axis in axes))
            for axes in ("abc", "ca")
        ),
        Sharding((("a",), (), ()), ((ReductionKind.SUM, "c"),)),
    ]
    pairs = [(one, other) for one in flat for other in bare]
    pairs += [(other, one) for one, other in pairs] + [*permutations(flat[5:], 2)]
    return [(VALUE, find_path(VALUE, *pair, SIZES)) for pair in pairs]


@sampled(20, seed=8)
def test_paths_of_flat_values_in_jax(sample: Sample, tmp_path: Path) -> None:
    assert not differences("jax", sample(cases()), SIZES, tmp_path)


def test_every_path_of_flat_values_in_torch(tmp_path: Path) -> None:
    """Ranks are threads: gloo is asked below."""
    assert not differences("torch", cases(), SIZES, tmp_path)


@pytest.mark.slow
def test_every_path_of_flat_values_by_gloo(tmp_path: Path) -> None:
    """Six processes, one for each device."""
    assert not differences("gloo", cases(), SIZES, tmp_path)


MEGATRON = "data=3 tensor=2; batch over data; weights over tensor as Megatron"
RECIPES = [
    ("jax", "mlp-tiny", "data=3; batch over data; zero=3; buckets of 0.01 MB"),
    ("torch", "mlp-tiny", "data=3; batch over data; zero=2; 2 microbatches"),
    *(
        pytest.param(runtime, name, recipe, marks=RARELY)
        for runtime in ("jax", "torch")
        for name, recipe in (
            ("mlp-tiny", "data=3; batch over data; zero=1"),
            ("mlp-tiny", "data=5; batch over data; zero=2; buckets of 0.01 MB"),
            ("llama3-tiny", "data=3 seq=2; batch over data; tokens over seq; zero=3"),
            ("llama3-tiny", f"{MEGATRON}; tokens over tensor; zero=3; remat layers"),
            (
                "gpt2-tiny",
                "pipe=2 data=3; batch over data; zero=1; schedule 1f1b, 2 microbatches",
            ),
        )
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("runtime", "name", "recipe"), RECIPES)
def test_steps_of_flat_states(runtime: str, name: str, recipe: str, tmp_path: Path) -> None:
    """Two whole steps beside the model's own function on one device."""
    how = ModelSettings(batch=30 if "data=5" in recipe else 12)
    step = zoo_step(name, {}, how)
    plan = plan_of(step, parse_recipe(recipe))
    program, ready = apply(step, plan), prepare_step(step, plan)
    text = write(runtime, ready, program, plan.sizes, schedule=plan)
    given, world = draw_inputs(step, 2, 8), plan.devices
    trial = TrialSettings(runtime, 1 if runtime == "jax" else world, 2, 200.0)
    found = run_trial({"step.py": text}, world, split_stacks(ready, given), trial, tmp_path)
    alone = run_in_jax(step, (name, {}, how), given, 2).of(ready)
    assert any(lies.flat for lies in program.inputs)
    assert compare_runs(ready, program, dict(plan.axes), alone, found).equal
