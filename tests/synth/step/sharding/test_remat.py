"""Layers done again: the same values, and of each layer only what comes in is kept."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar.tensors.operations import Step, Value
from grammar.tensors.parser import parse_step
from hierarchies import InputError
from sharded_steps import drawn_inputs, in_float64, on_one_device, run_whole
from synth.step.sharding import LocalOperation, apply, parse_recipe, plan_of, prepare_step
from synth.step.sharding.layers.remat import rematerialise
from synth.step.sharding.plan import scan_operands_of
from synth.step.work import peak_bytes
from traced_steps import step


def find_saved(step: Step) -> tuple[Value, ...]:
    """The stacks that loops keep for later loops of the step, in order."""
    loops = [operation for operation in step.graph.operations if operation.body is not None]
    return tuple(
        value
        for at, first in enumerate(loops)
        for value in first.results[scan_operands_of(first.parameter).carried :]
        if any(value in second.operands for second in loops[at + 1 :])
    )


@pytest.mark.parametrize("model", ["mlp-tiny", "gpt2-tiny", "lstm-tiny"])
def test_layers_done_again_compute_the_same(model: str) -> None:
    one = in_float64(step(model, (("layers", 4),)))
    again = rematerialise(one)
    assert parse_step(str(again)) == again
    found, wanted = run_whole(again.graph, drawn_inputs(one)), on_one_device(one)
    for output, other in zip(again.graph.outputs, one.graph.outputs, strict=True):
        np.testing.assert_allclose(found.of(output), wanted.of(other), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("model", ["gpt2-tiny", "llama3-tiny", "bert-tiny"])
def test_of_each_layer_only_what_comes_in_is_kept(model: str) -> None:
    one = step(model)
    [kept] = find_saved(rematerialise(one))
    assert kept.type.shape == (2, 4, 16, 32)
    assert len(find_saved(one)) > 20
    assert peak_bytes(rematerialise(one)) < peak_bytes(one)


def test_steps_already_traced_so_stay_unchanged() -> None:
    traced = step("gpt2-tiny", remat=True)
    assert rematerialise(traced) == traced
    assert [v.type for v in find_saved(traced)] == [
        v.type for v in find_saved(rematerialise(step("gpt2-tiny")))
    ]


def test_a_plan_does_layers_again_with_their_communication() -> None:
    """Of a layer's two all-reduces forward, what the second one makes is read by nobody."""
    text = "tensor=2; weights over tensor as Megatron; remat layers"
    one = step("gpt2-tiny")
    plan = plan_of(one, parse_recipe(text))
    program = apply(one, plan)
    bodies = [i.body for i in program.instructions if isinstance(i, LocalOperation) and i.body]
    counts = [sum(len(m.path.requests(plan.sizes)) for m in body.moved()) for body in bodies]
    assert counts == [2, 2 + 1]
    assert len(find_saved(prepare_step(one, plan))) == 1


def test_without_a_loop_there_is_nothing_to_do_again() -> None:
    with pytest.raises(InputError, match="no loop of layers"):
        plan_of(step("gpt2-tiny", unrolled=True), parse_recipe("data=1; remat layers"))
