"""Emitted steps in real processes beside the model's own function, and what is found wrong."""

from __future__ import annotations

import re
import runpy
from functools import cache
from math import prod
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")

import jax

from exhaustive import RARELY
from grammar.tensors.operations import Step
from grammar.tensors.sharding import Sharding, Split, replicated_sharding
from hierarchies import Axis, Hierarchy, InputError, Placement
from places import ROOT
from replicas import cut as parts_of
from replicas import devices
from strategies import switches
from synth.collective.run.trial import RunError
from synth.step.emit import output_names, programs_for, write
from synth.step.models import ModelSettings, own_step, zoo_step
from synth.step.sharding import Plan, StepProgram, apply, parse_recipe, plan_of, prepare_step
from synth.step.sharding.following import follow
from synth.step.sharding.following.known import Rules
from synth.step.trials import (
    RankOutputs,
    SingleDeviceRun,
    TrialComparison,
    TrialSettings,
    Values,
    check,
    compare_runs,
    draw_inputs,
    run_in_jax,
    run_text,
    run_trial,
    split_stacks,
)
from synth.step.zoo.optimizers import OPTIMIZERS
from traced_steps import compiled

MEGATRON = "data=2 tensor=2; batch over data; weights over tensor as Megatron"


@cache
def traced(name: str, infer: int | None = None) -> Step:
    return zoo_step(name, {}, ModelSettings(batch=4, infer=infer))


@cache
def inputs(name: str, steps: int = 2) -> Values:
    return draw_inputs(traced(name), steps, 8)


@cache
def alone(name: str) -> SingleDeviceRun:
    return run_in_jax(traced(name), (name, {}, ModelSettings(batch=4)), inputs(name), 2)


def cut(step: Step, recipe: str) -> tuple[Plan, StepProgram]:
    plan = plan_of(step, parse_recipe(recipe))
    return plan, apply(step, plan)


def tried(
    name: str, recipe: str, runtime: str, folder: Path, processes: int = 0, broken: str = ""
) -> TrialComparison:
    """Two steps; ``broken`` is a pattern whose first group alone is left in the file."""
    step = traced(name)
    plan, program = cut(step, recipe)
    text = write(runtime, step, program, plan.sizes)
    if broken:
        text, count = re.subn(broken, r"\1", text, count=1)
        assert count
    world = prod(plan.sizes.values())
    trial = TrialSettings(runtime, processes or world, 2, 200.0)
    check(trial, world, 0)
    found = run_trial({"step.py": text}, world, inputs(name), trial, folder)
    return compare_runs(step, program, plan.sizes, alone(name), found)


# -- equal


@pytest.mark.slow
def test_a_step_in_two_processes_of_torch(tmp_path: Path) -> None:
    found = tried("mlp-tiny", "data=2; batch over data; zero=2", "torch", tmp_path)
    assert found.equal
    assert max(row.difference for row in found.rows) < 1e-6
    assert found.rows[0].loss_alone != found.rows[1].loss_alone


BUCKETS = "data=2; batch over data; zero=2; buckets of 1 MB"
EXPERTS = "expert=2; batch over expert; experts over expert"
TORCH = [
    ("mlp-tiny", BUCKETS),
    ("gpt2-tiny", f"{MEGATRON}; zero=1"),
    ("mixtral-tiny", f"{EXPERTS}; zero=1"),
    ("dropless-tiny", "data=2; batch over data; zero=3"),
    ("resnet-tiny", "data=2; batch over data"),
    *(
        pytest.param(name, recipe, marks=RARELY)
        for name, recipe in (
            ("gpt2-tiny", MEGATRON),
            ("gpt2-tiny", f"{MEGATRON}; zero=3"),
            ("llama3-tiny", f"{MEGATRON}; zero=2"),
            ("bert-tiny", MEGATRON),
            ("lstm-tiny", "data=4; batch over data; zero=1"),
            ("vit-tiny", f"{MEGATRON}; zero=1"),
            ("mlp-tiny", "data=4; batch over data; zero=3"),
        )
    ),
]
JAX = [
    ("mlp-tiny", BUCKETS, 2),
    ("mlp-tiny", "data=4; batch over data; zero=2", 4),
    ("gpt2-tiny", f"{MEGATRON}; zero=1", 2),
    pytest.param("mixtral-tiny", EXPERTS, 1, marks=RARELY),
    pytest.param("resnet-tiny", "data=2; batch over data", 1, marks=RARELY),
    pytest.param("lstm-tiny", "data=2; batch over data; zero=3", 1, marks=RARELY),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "recipe"), TORCH)
def test_models_in_processes_of_torch(name: str, recipe: str, tmp_path: Path) -> None:
    assert tried(name, recipe, "torch", tmp_path).equal


@pytest.mark.slow
@pytest.mark.parametrize(("name", "recipe", "processes"), JAX)
def test_models_in_processes_of_jax(name: str, recipe: str, processes: int, tmp_path: Path) -> None:
    assert tried(name, recipe, "jax", tmp_path, processes).equal


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "runtime"),
    [
        ("zero=3", "torch"),
        ("zero=1; gradients in bf16", "torch"),
        ("zero=2; 2 microbatches", "jax"),
        pytest.param("zero=3", "jax", marks=RARELY),
        pytest.param("zero=1; gradients in bf16", "jax", marks=RARELY),
        pytest.param("zero=2; 2 microbatches", "torch", marks=RARELY),
    ],
)
def test_steps_that_cast_what_they_send(recipe: str, runtime: str, tmp_path: Path) -> None:
    """They compute in bf16: copies of masters are gathered, and gradients sent wide or narrow."""
    how = ModelSettings(batch=8, dtype="bfloat16")
    step = zoo_step("llama3-tiny", {}, how)
    plan, program = cut(step, f"data=2; batch over data; {recipe}")
    schedule = plan if plan.microbatches > 1 else None
    text = write(runtime, step, program, plan.sizes, schedule=schedule)
    given = draw_inputs(step, 2, 8)
    found = run_trial({"step.py": text}, 2, given, TrialSettings(runtime, 2, 2, 200.0), tmp_path)
    wanted = run_in_jax(step, ("llama3-tiny", {}, how), given, 2)
    assert compare_runs(step, program, dict(plan.axes), wanted, found).equal


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["torch", "jax"])
def test_a_step_of_which_only_the_text_is_known(runtime: str, tmp_path: Path) -> None:
    step, given = traced("mlp-tiny"), inputs("mlp-tiny")
    plan, program = cut(step, "data=2; batch over data")
    trial = TrialSettings(runtime, 1 if runtime == "jax" else 2, 2)
    found = run_trial(
        {"step.py": write(runtime, step, program, plan.sizes)}, 2, given, trial, tmp_path
    )
    by_text = run_text(step, given, trial)
    assert compare_runs(step, program, plan.sizes, by_text, found).equal
    for name, array in alone("mlp-tiny").values.items():
        assert np.allclose(by_text.values[name], array, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["torch", "jax"])
def test_a_prompt_is_read_and_then_written_on_with_a_cache(runtime: str, tmp_path: Path) -> None:
    """Over 2 x 2: what the prompt left in the cache is what decoding goes on from."""
    held: Values = {}
    for new, steps in ((5, 1), (1, 3)):
        spelling = ModelSettings(batch=4, infer=new)
        step = traced("gpt2-tiny", new)
        given = draw_inputs(step, steps, 8) | held
        plan, program = cut(step, MEGATRON)
        folder = tmp_path / str(new)
        folder.mkdir()
        trial = TrialSettings(runtime, 4 if runtime == "torch" else 2, steps, 200.0)
        found = run_trial(
            {"step.py": write(runtime, step, program, plan.sizes)}, 4, given, trial, folder
        )
        wanted = run_in_jax(step, ("gpt2-tiny", {}, spelling), given, steps)
        result = compare_runs(step, program, plan.sizes, wanted, found)
        assert result.equal
        assert max(row.difference for row in result.rows) < 1e-5
        held = {
            name: array[-1] for name, array in wanted.values.items() if not name.startswith("out")
        }
        assert held["length"] == (5 if new == 5 else 8)
    assert np.any(held["attention/key"][:, :, 7])
    assert not np.any(held["attention/key"][:, :, 8:])


IN_STAGES = MEGATRON.replace("tensor=2;", "tensor=2 pipe=2;")
STAGES = [
    ("mlp-tiny", "data=2 pipe=2; batch over data; zero=1; schedule 1f1b, 4 microbatches"),
    ("gpt2-tiny", "data=1 pipe=2; schedule interleaved-1f1b, 2 chunks, 4 microbatches"),
    *(
        pytest.param(name, recipe, marks=RARELY)
        for name, recipe in (
            ("mlp-tiny", "data=2; batch over data; zero=2; 2 microbatches"),
            ("gpt2-tiny", "data=1 pipe=4; schedule gpipe, 4 microbatches"),
            ("gpt2-tiny", "data=1 pipe=2; schedule zero-bubble-h1, 4 microbatches"),
            ("gpt2-tiny", "data=1 pipe=2; schedule zero-bubble, 4 microbatches"),
            ("gpt2-tiny", "pipe=2 data=2; batch over data; zero=3; schedule 1f1b, 2 microbatches"),
            ("gpt2-tiny", f"{IN_STAGES}; schedule looped-bfs, 2 chunks, 4 microbatches"),
            ("llama3-tiny", f"{IN_STAGES}; zero=1; schedule 1f1b, 2 microbatches; remat layers"),
        )
    ),
]


STAGES_IN_JAX = [
    (*STAGES[0], 1),
    ("mlp-tiny", "data=2; batch over data; zero=2; 4 microbatches", 2),
    pytest.param(
        "gpt2-tiny",
        f"{IN_STAGES}; zero=1; schedule interleaved-1f1b, 2 chunks, 2 microbatches",
        1,
        marks=RARELY,
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "recipe"), STAGES)
def test_stages_in_processes_of_torch(name: str, recipe: str, tmp_path: Path) -> None:
    in_stages("torch", name, recipe, 0, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "recipe", "processes"), STAGES_IN_JAX)
def test_stages_in_jax(name: str, recipe: str, processes: int, tmp_path: Path) -> None:
    in_stages("jax", name, recipe, processes, tmp_path)


def in_stages(runtime: str, name: str, recipe: str, processes: int, folder: Path) -> None:
    changes = {"layers": 6 if name.startswith("mlp") else 4}
    how = ModelSettings(batch=8, unrolled="zero-bubble" in recipe)
    step = zoo_step(name, changes, how)
    plan, program = cut(step, recipe)
    ready = prepare_step(step, plan)
    text = write(runtime, ready, program, plan.sizes, schedule=plan)
    given = draw_inputs(step, 2, 8)
    trial = TrialSettings(runtime, processes or plan.devices, 2, 200.0)
    found = run_trial({"step.py": text}, plan.devices, split_stacks(ready, given), trial, folder)
    wanted = run_in_jax(step, (name, changes, how), given, 2).of(ready)
    assert compare_runs(ready, program, dict(plan.axes), wanted, found).equal
    assert all(len(found.seconds[rank]) == 2 for rank in range(plan.devices))


CUT = {"first/weight": 1, "first/bias": 0, "layers/weight": 1, "last/weight": 0}
"""Of weights of the perceptron the dimension that tensor cuts, layers first."""


@pytest.mark.slow
@pytest.mark.parametrize(("runtime", "processes"), [("torch", 4), ("jax", 2)])
def test_a_perceptron_over_data_and_tensor(runtime: str, processes: int, tmp_path: Path) -> None:
    """Cut by hand: the first matrix by what it makes, those of the layers by what they read."""
    step, sizes = traced("mlp-tiny"), {"data": 2, "tensor": 2}
    lies = []
    for label, role, value in zip(step.labels, step.roles, step.graph.inputs, strict=True):
        place = CUT.get(label.removeprefix("mean/").removeprefix("square/"))
        lie = replicated_sharding(len(value.type.shape))
        lie = lie.laid("data", Split(0)) if role == "batch" else lie
        lies.append(lie if place is None else lie.laid("tensor", Split(place)))
    held = frozenset((at, "tensor") for at, one in enumerate(lies) if "tensor" in one.axes)
    plan = Plan(tuple(sizes.items()), follow(step, lies, Rules(sizes, held)))
    program = apply(step, plan)
    assert any("tensor" in move.axes for one in program.moved() for move in one.path.moves)
    text = write(runtime, step, program, sizes)
    trial = TrialSettings(runtime, processes, 2, 200.0)
    found = run_trial({"step.py": text}, 4, inputs("mlp-tiny"), trial, tmp_path)
    assert compare_runs(step, program, sizes, alone("mlp-tiny"), found).equal


@pytest.mark.slow
@pytest.mark.parametrize(("runtime", "processes"), [("torch", 4), ("jax", 2)])
def test_programs_of_a_machine_carry_redistributions_out(
    runtime: str, processes: int, tmp_path: Path
) -> None:
    """On two nodes of two: gradients are scattered inside nodes and then between them."""
    step = traced("mlp-tiny")
    plan, program = cut(step, "data=4; batch over data; zero=2")
    system = switches(Hierarchy.of(node=2, gpu=2))
    placement = Placement(system.hierarchy, (Axis("data", 4),), ((2, 2),))
    programs = programs_for(runtime, system, placement, plan.parts, "a test")
    text = write(runtime, step, program, plan.sizes, programs=programs)
    goals = {name.rpartition("_data")[0] for name in programs.modules}
    assert {"reduce_scatter", "all_gather"} <= goals
    assert text.count("by_program(") > 6
    modules = {f"{name}.py": module for name, module in programs.modules.items()}
    trial = TrialSettings(runtime, processes, 2, 200.0)
    found = run_trial({"step.py": text, **modules}, 4, inputs("mlp-tiny"), trial, tmp_path)
    assert compare_runs(step, program, plan.sizes, alone("mlp-tiny"), found).equal


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["torch", "jax"])
def test_eight_processes_with_programs_on_a_placement_of_choice(
    runtime: str, tmp_path: Path
) -> None:
    """Tensor over neighbours, though it comes first: ranks do not count devices one by one."""
    step = traced("mlp-tiny")
    recipe = "tensor=2 data=4; batch over data; zero=2; weights first/weight[-1] over tensor"
    plan, program = cut(step, recipe)
    system = switches(Hierarchy.of(node=2, gpu=4))
    axes = tuple(Axis(*one) for one in plan.axes)
    programs = programs_for(
        runtime, system, Placement(system.hierarchy, axes, ((1, 2), (2, 2))), plan.parts, ""
    )
    text = write(runtime, step, program, plan.sizes, programs=programs)
    assert programs.reordered
    assert "Placement [[1, 2], [2, 2]]: ranks count along the axes" in text
    assert text.count("by_program(") > 6
    modules = {f"{name}.py": module for name, module in programs.modules.items()}
    trial = TrialSettings(runtime, 8, 2, 300.0)
    found = run_trial({"step.py": text, **modules}, 8, inputs("mlp-tiny"), trial, tmp_path)
    assert compare_runs(step, program, plan.sizes, alone("mlp-tiny"), found).equal


@pytest.mark.slow
@pytest.mark.parametrize(("runtime", "processes"), [("torch", 4), ("jax", 1)])
def test_dropout_drops_what_it_drops_on_one_device(
    runtime: str, processes: int, tmp_path: Path
) -> None:
    """Masks over 2 x 2 are those of JAX, of which a device has its part; each step has its own."""
    step = own_step(f"{ROOT / 'tests/steps/dropout.py'}:model")
    plan, program = cut(step, "data=2 tensor=2; batch over data; weights first[-1] over tensor")
    given = draw_inputs(step, 3, 8)
    text = write(runtime, step, program, plan.sizes)
    found = run_trial(
        {"step.py": text}, 4, given, TrialSettings(runtime, processes, 3, 200.0), tmp_path
    )
    wanted = losses_in_jax(step, given)
    for rank in range(4):
        assert np.allclose(found.parts[rank, "loss"], wanted, rtol=1e-5)
    by_text = run_text(step, given, TrialSettings(runtime, 1, 3))
    assert compare_runs(step, program, plan.sizes, by_text, found).equal
    another = losses_in_jax(step, {**given, "step": given["step"] + 1})
    assert not np.allclose(another, wanted, rtol=1e-3)


def losses_in_jax(step: Step, given: Values) -> list[float]:
    """Of the file's own function, trained by AdamW."""
    names = runpy.run_path(str(ROOT / "tests/steps/dropout.py"))
    loss, parameters, batch = names["model"]()
    adamw = OPTIMIZERS["adamw"]
    shapes = (parameters, adamw.moments(parameters), batch)
    done, values, found = compiled(adamw.step(loss)), dict(given), []
    for turn in range(3):
        now = [
            values[value.name][turn] if role == "batch" else values[value.name]
            for value, role in zip(step.graph.inputs, step.roles, strict=True)
        ]
        tree = jax.tree.unflatten(jax.tree.structure(shapes), now)
        made = jax.tree.leaves(done(*tree))
        values |= {step.graph.inputs[place].name: made[out] for out, place in step.updates}
        found.append(float(made[output_names(step).index("loss")]))
    return found


# -- unlike


def by_hand(name: str, recipe: str) -> tuple[Step, Plan, StepProgram, SingleDeviceRun, RankOutputs]:
    """What devices hold of numbers that are simply cut, without any process."""
    step = traced(name)
    plan, program = cut(step, recipe)
    draw = np.random.default_rng(1)
    values = {
        one: draw.standard_normal((2, *value.type.shape)).astype(np.float32)
        for one, value in zip(output_names(step), step.graph.outputs, strict=True)
    }
    lies = dict(zip(output_names(step), program.outputs, strict=True))
    parts = {}
    for one, array in values.items():
        blocks = [
            parts_of(turn, Sharding(lies[one].dimensions), plan.sizes, draw) for turn in array
        ]
        for rank, at in enumerate(devices(plan.sizes)):
            parts[rank, one] = np.stack([block[at] for block in blocks])
    return step, plan, program, SingleDeviceRun("by hand", values, values), RankOutputs(parts)


def test_every_damaged_part_of_every_device_is_found() -> None:
    step, plan, program, by_one, sharded = by_hand("mlp-tiny", "data=2; batch over data; zero=1")
    assert compare_runs(step, program, plan.sizes, by_one, sharded).equal
    for (rank, name), part in sharded.parts.items():
        for wrong in (np.nan, 1.01 * part.flat[-1] + 0.1):
            damaged = part.copy()
            damaged.flat[-1] = wrong
            held = RankOutputs({**sharded.parts, (rank, name): damaged})
            assert compare_runs(step, program, plan.sizes, by_one, held).unlike == (name,)


def test_tolerances_allow_the_rounding_of_one_device() -> None:
    step, plan, program, by_one, sharded = by_hand("mlp-tiny", "data=2; batch over data; zero=1")
    wider = {name: array * (1 + 1e-3) for name, array in by_one.values.items()}
    rounded = SingleDeviceRun("by hand", by_one.values, wider)
    for factor, equal in ((1 + 5e-3, True), (1 + 5e-2, False)):
        held = RankOutputs({key: part * np.float32(factor) for key, part in sharded.parts.items()})
        found = compare_runs(step, program, plan.sizes, rounded, held)
        assert found.equal is equal
        assert found.rows[0].rounding == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.slow
def test_a_gradient_that_is_not_summed_is_found(tmp_path: Path) -> None:
    pattern = r'all_reduce\((v\d+)\.contiguous\(\), \("data",\), "sum"\)'
    found = tried("mlp-tiny", "data=2; batch over data", "torch", tmp_path, broken=pattern)
    assert not found.equal
    assert found.unlike


@pytest.mark.slow
def test_a_mean_over_one_part_only_is_found(tmp_path: Path) -> None:
    """AdamW would hide gradients that are all twice as large: moments do not."""
    pattern = r"()torch.tensor\(1.0, dtype=torch.float32\) / torch.tensor\(4(?=\.0)"
    replaced = r"torch.tensor(1.0, dtype=torch.float32) / torch.tensor(2"
    step = traced("mlp-tiny")
    plan, program = cut(step, "data=2; batch over data")
    text, count = re.subn(pattern, replaced, write("torch", step, program, plan.sizes))
    assert count
    found = run_trial(
        {"step.py": text}, 2, inputs("mlp-tiny"), TrialSettings("torch", 2, 2), tmp_path
    )
    result = compare_runs(step, program, plan.sizes, alone("mlp-tiny"), found)
    assert {"mean/first/weight", "square/last/bias"} <= set(result.unlike)


@pytest.mark.slow
def test_a_process_that_fails_is_reported_and_all_are_ended(tmp_path: Path) -> None:
    pattern = r"(def device_step\(values\):)"
    step = traced("mlp-tiny")
    plan, program = cut(step, "data=2; batch over data")
    text = re.sub(pattern, r"\1\n    1 / 0", write("torch", step, program, plan.sizes))
    with pytest.raises(RunError, match=r"rank \d ended with code 1.*ZeroDivisionError"):
        run_trial({"step.py": text}, 2, inputs("mlp-tiny"), TrialSettings("torch", 2, 2), tmp_path)


# -- refused


REFUSED = {
    "too few processes": (
        TrialSettings("torch", 2),
        4,
        0,
        "2 processes, and the axes",
        "4, one for each",
    ),
    "no divisor": (TrialSettings("jax", 3), 4, 0, "3 processes", "or a number that divides it"),
    "too many devices": (
        TrialSettings("torch", 128),
        128,
        0,
        "multiply to 128 devices",
        "at most 64",
    ),
    "too large": (TrialSettings("torch", 2, 100), 2, 2**30, "do not fit here", "smaller sizes"),
}


def test_stages_in_several_processes_of_jax_are_refused() -> None:
    with pytest.raises(InputError, match="4 processes of JAX for 2 stages") as refused:
        check(TrialSettings("jax", 4), 4, 0, stages=2)
    assert refused.value.hint.startswith("1 process has")
    check(TrialSettings("jax", 1), 4, 0, stages=2)


@pytest.mark.parametrize(
    ("trial", "world", "size", "problem", "hint"), REFUSED.values(), ids=REFUSED
)
def test_what_cannot_be_tried(
    trial: TrialSettings, world: int, size: int, problem: str, hint: str
) -> None:
    with pytest.raises(InputError, match=problem) as refused:
        check(trial, world, size)
    assert hint in refused.value.hint


def test_a_runtime_that_is_missing_is_named_with_its_extra(monkeypatch) -> None:
    monkeypatch.setattr("synth.step.trials.processes.find_spec", lambda name: None)
    with pytest.raises(InputError, match="'torch' is not installed") as refused:
        check(TrialSettings("torch", 2), 2, 0)
    assert refused.value.hint == "pip install 'collsynth[torch]'"
