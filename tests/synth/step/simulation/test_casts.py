"""Steps that compute in bf16 on the clock: what their memory is used for, and when copies come."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar.tensors.operations import Step
from grammar.tensors.sharding import Type, part_shape
from synth.step.redistribution import MoveKind
from synth.step.sharding import Plan, StepProgram, apply, parse_recipe, plan_of
from synth.step.sharding.plan import TIME
from synth.step.simulation import BufferKind, DeviceTimeline, Overlap, simulate, write_device
from synth.step.simulation.kinds import kinds_of
from traced_steps import step

DATA = "data=2; batch over data"


@cache
def planned(model: str, layers: int, text: str) -> tuple[Step, Plan, StepProgram]:
    one = step(model, (("layers", layers),), dtype="bfloat16")
    plan = plan_of(one, parse_recipe(text))
    return one, plan, apply(one, plan)


def run(model: str, layers: int, text: str, overlap: Overlap) -> DeviceTimeline:
    """A second for each section, and next to nothing for what is sent."""
    seconds = (lambda section: 1.0), (lambda *how: 1e-3)
    return simulate(write_device(*planned(model, layers, text), *seconds, overlap))


@pytest.mark.parametrize("clause", ["", "; gradients in bf16"])
@pytest.mark.parametrize("model", ["mlp-tiny", "llama3-tiny", "gpt2-tiny"])
def test_what_is_added_up_over_microbatches_is_gradients(model: str, clause: str) -> None:
    """Also before it is laid out anew, added to that of another use, and cast."""
    one, _, program = planned(model, 2, f"{DATA}; 2 microbatches{clause}")
    added = [
        moved.value
        for moved in program.moved()
        for move in moved.path.moves
        if move.axes == (TIME,) and move.how is MoveKind.ALL_REDUCE and moved.value.type.shape
    ]
    assert len(added) >= one.roles.count("parameter")
    assert {kinds_of(one)[value.name] for value in added} == {BufferKind.GRADIENTS}


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("zero", [1, 2])
def test_bytes_per_parameter_and_device(zero: int, parts: int) -> None:
    """Design of the step, section 6: copy and gradient in bf16, master and moments in f32."""
    wanted = {1: 4 + 12 / parts, 2: 2 + 14 / parts}[zero]
    text = f"data={parts}; batch over data; zero={zero}; gradients in bf16"
    found = run("mlp-tiny", 3, text, Overlap(sends=True, prefetch=1))
    one, plan, program = planned("mlp-tiny", 3, text)
    both = zip(one.graph.inputs, one.roles, strict=True)
    count = sum(value.type.elements for value, role in both if role == "parameter")
    copies = sum(b.size_bytes for b in found.device.buffers if b.kind is BufferKind.GATHERED)
    reduced = sum(
        Type(m.value.type.dtype, part_shape(m.value.type, m.path.target, plan.sizes)).bytes
        for m in program.moved()
        if m.path.source.partial and m.value.type.shape
    )
    of_state = (BufferKind.PARAMETERS, BufferKind.MOMENTS)
    state = sum(b.size_bytes for b in found.device.buffers if b.kind in of_state and b.maker < 0)
    assert state + copies + reduced == wanted * count


@pytest.mark.parametrize("prefetch", [0, 1, 2])
def test_copies_are_gathered_so_many_layers_ahead(prefetch: int) -> None:
    """zero=3: as parameters are, though the step has made them; and let go after each layer."""
    found = run("gpt2-tiny", 6, f"{DATA}; zero=3", Overlap(sends=True, prefetch=prefetch))
    gathered = [b for b in found.device.buffers if b.kind is BufferKind.GATHERED]
    names = Counter(one.name for one in gathered)
    most: Counter[str] = Counter()
    for moment in (found.begins[one.maker] for one in gathered):
        live = Counter(found.device.buffers[n].name for n in found.lives.at(moment))
        most |= Counter({name: live[name] for name, times in names.items() if times == 6})
    assert max(most.values()) == prefetch + 1


def test_copies_of_masters_come_layer_by_layer_once_a_step_and_stay() -> None:
    """zero=1: the first layer does not wait for what the last one reads."""
    beside = Overlap(sends=True, prefetch=1)
    found = run("gpt2-tiny", 6, f"{DATA}; zero=1", beside)
    gathers = [task for task in found.device.tasks if task.request.startswith("all-gather")]
    layers = Counter(task.layer for task in gathers if task.layer >= 0)
    one, _, _ = planned("gpt2-tiny", 6, f"{DATA}; zero=1")
    both = zip(one.labels, one.roles, strict=True)
    per_layer = sum(label.startswith("layers/") and role == "parameter" for label, role in both)
    assert layers == dict.fromkeys(range(6), per_layer)
    tasks = found.device.tasks
    computed = [at for at, task in enumerate(tasks) if task.layer == 0 and not task.request]
    last = [at for at, task in enumerate(tasks) if task in gathers and task.layer == 5]
    assert min(found.begins[at] for at in computed) < min(found.begins[at] for at in last)
