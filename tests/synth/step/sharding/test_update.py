"""The update of parameters as one task: which operations it is, and what it waits for."""

from __future__ import annotations

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from collections.abc import Collection

from grammar.tensors.operations import Step
from synth.compute import Section
from synth.step.sharding import (
    LocalOperation,
    StepPhase,
    apply,
    parse_recipe,
    plan_of,
    prepare_step,
)
from synth.step.sharding.lineage import find_updated
from synth.step.simulation import BufferKind, Overlap, write_device
from synth.step.simulation.device import COMPUTE, DeviceTasks, Task
from synth.step.simulation.groups import CAST
from traced_steps import step

LOSS = ("div", "neg")
"""What is done with a loss once that of all samples is added up."""

OVERLAP = Overlap(sends=True, prefetch=1)


@pytest.mark.parametrize(
    ("model", "dtype", "zero"),
    [
        ("gpt2-tiny", "float32", 0),
        ("gpt2-tiny", "bfloat16", 1),
        ("llama3-tiny", "bfloat16", 3),
        ("mixtral-tiny", "float32", 2),
        ("lstm-tiny", "bfloat16", 0),
    ],
)
def test_it_is_what_is_done_after_all_microbatches(model: str, dtype: str, zero: int) -> None:
    """Of a step that is done at once it is the same, and nobody says when operations are done.

    But for the loss, which comes of all microbatches, too, and for the gradient of what is used
    twice, which is then added up once.
    """
    one = step(model, batch=4, dtype=dtype)
    text = f"data=2; batch over data; zero={zero}"
    whole, divided = (
        apply(one, plan_of(one, parse_recipe(each))) for each in (text, f"{text}; 2 microbatches")
    )
    both = zip(divided.instructions, divided.places, strict=True)
    after = (
        each
        for each, place in both
        if place.when is StepPhase.AFTER and isinstance(each, LocalOperation)
    )
    known = {name for each in after for name, _ in each.keys_made}
    assert whole.update <= divided.update <= known
    assert _primitives(one, divided.update - whole.update) <= {*LOSS}
    assert _primitives(one, known - divided.update) <= {"add_any", CAST}


def _primitives(one: Step, names: Collection[str]) -> set[str]:
    """Of what makes such values."""
    some = (each for each in one.graph.operations if str(each.results[0]) in names)
    return {each.primitive for each in some}


def updates(found: DeviceTasks) -> list[Task]:
    """The tasks of compute that read moments."""
    moments = {at for at, one in enumerate(found.buffers) if one.kind is BufferKind.MOMENTS}
    return [
        one for one in found.tasks if one.stream == COMPUTE and not moments.isdisjoint(one.reads)
    ]


PLANS = (
    "data=2; batch over data",
    "data=2; batch over data; buckets of 0.1 MB",
    "data=2; batch over data; zero=1",
    "data=2; batch over data; zero=3",
    "data=2; batch over data; zero=2; 2 microbatches",
    "pipe=2 data=2; batch over data; zero=1; schedule 1f1b, 2 microbatches",
    "tensor=2; weights over tensor as Megatron",
)


@pytest.mark.parametrize("text", PLANS)
def test_it_is_one_task_of_a_stage_and_waits_for_all_gradients(text: str) -> None:
    one = step("gpt2-tiny", batch=8)
    plan = plan_of(one, parse_recipe(text))
    ready, program = prepare_step(one, plan), apply(one, plan)
    seconds: list[Section] = []

    def computing(section: Section) -> float:
        seconds.append(section)
        return 1.0

    found = write_device(ready, plan, program, computing, lambda *how: 1.0, OVERLAP)
    gradients = find_updated(ready)
    for stage in {task.place.stage for task in updates(found)}:
        [update] = [task for task in updates(found) if task.place.stage == stage]
        sums = [
            number
            for number, task in enumerate(found.tasks)
            if task.place.stage == stage
            and gradients.issuperset(task.sends)
            and "reduce" in task.request
        ]
        assert bool(sums) == ("data" in text)
        own = {at for at in update.before if found.tasks[at].place.stage == stage}
        assert own.issuperset(sums)
        assert update.before
        number = found.tasks.index(update)
        after = [task for task in found.tasks[number + 1 :] if task.place.stage == stage]
        assert not any(task.stream == COMPUTE and not task.request for task in after)
