"""Blocks and events of a plan: every operation once, nothing sent inside, equal work once."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from emitted_steps import called, emitted
from grammar.tensors.operations import Step
from grammar.tensors.sharding import Sharding, Type, part_shape
from synth.compute import Estimate, Section
from synth.step.profiles import (
    OperationBlock,
    ProfileEvent,
    compose_seconds,
    list_events,
    split_blocks,
)
from synth.step.profiles.measuring import Torch, draw_numbers
from synth.step.sharding import (
    LocalOperation,
    Plan,
    RedistributedValue,
    StepProgram,
    apply,
    parse_recipe,
    plan_of,
    prepare_step,
)
from synth.step.sharding.plan import TIME, replicate_all
from synth.step.simulation import Overlap, simulate, write_device
from synth.step.simulation.device import grouping_of
from traced_steps import step

PLANS = (
    ("mlp-tiny", "data=2; batch over data"),
    ("gpt2-tiny", "data=2; batch over data; zero=1"),
    ("gpt2-tiny", "data=2 tensor=2; batch over data; weights over tensor as Megatron; zero=3"),
    ("mixtral-tiny", "data=2; batch over data; zero=2"),
    ("gpt2-tiny", "pipe=2; schedule 1f1b, 2 microbatches"),
)


@cache
def planned(model: str, text: str) -> tuple[Step, Plan, StepProgram]:
    one = step(model)
    plan = plan_of(one, parse_recipe(text))
    return prepare_step(one, plan), plan, apply(one, plan)


def everywhere(program: StepProgram) -> list[LocalOperation]:
    found = []
    for one in program.instructions:
        if isinstance(one, LocalOperation):
            found.append(one)
            found += everywhere(one.body) if one.body else []
    return found


@pytest.mark.parametrize(("model", "text"), PLANS)
def test_every_operation_is_in_one_block_and_nothing_is_sent_inside(model: str, text: str) -> None:
    one, plan, program = planned(model, text)
    found = list(split_blocks(one, program, plan.parts))
    times = Counter(id(done) for block in found for done in block.of)
    assert times == Counter(map(id, everywhere(program)))
    for block in found:
        moves = [each for each in block.instructions if isinstance(each, RedistributedValue)]
        assert not any(each.path.requests(plan.parts) for each in moves)


@pytest.mark.parametrize(("model", "text"), PLANS)
def test_blocks_send_their_last_values(model: str, text: str) -> None:
    """So that communication may begin where a block ends, and nowhere else."""
    one, plan, program = planned(model, text)
    sent = {
        moved.value.name
        for moved in program.instructions
        if isinstance(moved, RedistributedValue)
        and any(m.axes != (TIME,) for m in moved.path.requests(plan.parts))
    }
    for block in split_blocks(one, program, plan.parts):
        for done in block.of[:-1]:
            assert not sent & {value.name for value in done.operation.results}


@pytest.mark.parametrize(("model", "text"), PLANS)
def test_an_event_runs_and_makes_what_its_block_does(model: str, text: str) -> None:
    pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")
    one, plan, program = planned(model, text)
    runtime = Torch(1)
    seen: set[str] = set()
    for block, event in list_events("torch", one, program, plan.parts):
        if event.key in seen:
            continue
        seen.add(event.key)
        inputs = [(kind.dtype, list(kind.shape)) for kind in event.inputs]
        _, made = runtime.seconds(runtime.work(event.text, inputs))
        assert isinstance(made, tuple)
        shapes = [part_shape(value.type, lies, plan.parts) for value, lies in block.outputs]
        assert [tuple(array.shape) for array in made][-len(shapes) or None :] == shapes


def test_a_block_computes_what_the_written_step_does() -> None:
    """A step in which nothing is sent and nothing goes round is one block: the whole file."""
    torch = pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")
    one = step("mlp-tiny", (("layers", 2),))
    plan = Plan((("one", 1),), replicate_all(one.graph))
    [(block, event)] = list_events("torch", one, apply(one, plan), plan.parts)
    draw = np.random.default_rng(1)
    given = {
        value.name: draw_numbers(value.type.dtype, value.type.shape, draw)
        for value in one.graph.inputs
    }
    wanted = called("torch", emitted("torch", one), [given[v.name] for v in one.graph.inputs])
    space: dict[str, Any] = {"__name__": "event"}
    exec(event.text, space)
    kinds = dict(zip((value.name for value, _ in block.inputs), event.inputs, strict=True))
    made = space["device_step"](
        [torch.as_tensor(given[name]).to(_kind(torch, kind)) for name, kind in kinds.items()]
    )
    by_name = {value.name: array for (value, _), array in zip(block.outputs, made, strict=True)}
    for output, array in zip(one.graph.outputs, wanted, strict=True):
        np.testing.assert_allclose(by_name[str(output)].numpy(), array, rtol=1e-5)


def _kind(torch: Any, kind: Type) -> Any:
    return torch.int32 if kind.dtype == "i32" else torch.float32


def test_equal_work_is_one_event_however_many_layers_there_are() -> None:
    def count(layers: int) -> tuple[int, int]:
        one = step("gpt2-tiny", (("layers", layers),), unrolled=True)
        plan = plan_of(one, parse_recipe("tensor=2; weights over tensor as Megatron"))
        found = list(list_events("torch", one, apply(one, plan), plan.parts))
        return len(found), len({event.key for _, event in found})

    (few, unlike), (many, still) = count(4), count(8)
    assert many > 1.5 * few
    assert still == unlike


def test_parts_of_one_shape_are_equal_for_any_axis_and_whole() -> None:
    def keys(text: str, batch: int) -> set[str]:
        one = step("mlp-tiny", batch=batch)
        plan = plan_of(one, parse_recipe(text))
        return {event.key for _, event in list_events("jax", one, apply(one, plan), plan.parts)}

    two, four = keys("data=2; batch over data", 8), keys("rows=4; batch over rows", 16)
    assert len(two & four) > len(two) / 2
    assert not keys("data=2; batch over data", 16) & keys("data=2; batch over data", 8) - two


FREE = Overlap(sends=True, prefetch=1)


@pytest.mark.parametrize(("model", "text"), PLANS[:3])
def test_seconds_of_blocks_add_up_in_the_simulation(model: str, text: str) -> None:
    """A block takes what its event does, each time that it is done; overlap changes nothing."""
    one, plan, program = planned(model, text)
    pairs = list(list_events("torch", one, program, plan.parts))
    seconds = {key: 1.0 + at for at, key in enumerate({event.key: 0 for _, event in pairs})}
    known = compose_seconds(pairs, lambda event: _sure(seconds[event.key]), plan.parts)
    layers = {
        id(inner): int(str(loop.operation.parameter["length"]))
        for loop in everywhere(program)
        if loop.body
        for inner in everywhere(loop.body)
    }
    wanted = sum(
        seconds[event.key] * layers.get(id(block.of[0]), 1) for block, event in pairs if block.of
    )
    for overlap, long in product((Overlap(), FREE), (False, True)):
        each = grouping_of(plan, overlap, whole=long, measured=known)
        written = write_device(one, plan, program, _measured, _free, overlap, each)
        done = simulate(written)
        assert done.compute_seconds == pytest.approx(wanted)
        assert done.seconds == pytest.approx(wanted)


def _sure(seconds: float) -> Estimate:
    return Estimate(seconds, seconds, seconds, "measured")


def _measured(section: Section) -> float:
    assert not section.rest
    return section.measured.seconds


def _free(kind: Type, source: Sharding, target: Sharding) -> float:
    return 0.0


def test_sums_over_microbatches_are_blocks_of_no_operation() -> None:
    one, plan, program = planned(*PLANS[-1])
    sums = [block for block in split_blocks(one, program, plan.parts) if not block.of]
    assert sums
    assert {str(block.phase)[1:] for block in sums} <= {"F", "B"}
    pairs: list[tuple[OperationBlock, ProfileEvent]] = list(
        list_events("torch", one, program, plan.parts)
    )
    assert compose_seconds(pairs, lambda event: _sure(1.0), plan.parts)
