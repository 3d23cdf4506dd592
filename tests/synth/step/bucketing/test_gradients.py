"""What is read off a step: every gradient once, and on the clock as the whole step is simulated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bucketed_steps import replica_of, step, zoo
from grammar.tensors.operations import Step, Value
from hierarchies import InputError
from hierarchies.devices import device_named
from synth.step.bucketing import compare_policies
from synth.step.bucketing.choosing import fill_buckets
from synth.step.bucketing.clock import simulate_buckets
from synth.step.bucketing.gradients import hoist_casts
from synth.step.search.finalists import RUNTIME, rooflines_of
from synth.step.sharded_step.meanings import ends_of, find_gradients, find_meanings, input_meanings
from synth.step.sharding import apply, parse_recipe, plan_of, prepare_step
from synth.step.simulation.predicting import Sources, predict_step


@pytest.mark.parametrize("name", ["gpt2-tiny", "resnet-tiny", "llama3-tiny"])
def test_every_parameter_has_its_gradient_once(name: str) -> None:
    """A layer in a loop has its own, as a layer written out does; a forward pass sends nothing."""
    traced = zoo(name)
    backward = replica_of(traced).backward
    parameters = [
        value.type.elements
        for value, role in zip(traced.graph.inputs, traced.roles, strict=True)
        if role == "parameter"
    ]
    assert backward.upto_elements[-1] == sum(parameters)
    assert len({one.name for one in backward.gradients}) == len(backward.gradients)
    ready = [one.ready_seconds for one in backward.gradients]
    assert ready == sorted(ready)
    assert 0 < ready[0] <= ready[-1] <= backward.compute_seconds


def test_layers_make_theirs_last_layer_first() -> None:
    made = replica_of(zoo("gpt2-tiny")).backward.gradients
    layers = [one.layer for one in made if one.layer >= 0]
    assert layers == sorted(layers, reverse=True)
    assert made[-1].name == "embedding"  # tied: its last use is the first of a forward pass


@pytest.mark.parametrize("caps", [(0,), (2048,), (128, 4096), (2**30,)])
def test_sums_end_as_in_the_simulation_of_the_whole_step(caps: tuple[int, ...]) -> None:
    """The same buckets in a plan of the step, on the clock that knows nothing of this room."""
    whole = zoo("gpt2-tiny", unrolled=True)
    found, names = replica_of(whole), _values(whole)
    plan = plan_of(whole, parse_recipe("data=8; batch over data"))
    mine = simulate_buckets(found.backward, fill_buckets(found.backward, caps), found.sums.seconds)
    groups = tuple(
        tuple(names[one.name] for one in found.backward.gradients[each.first : each.last])
        for each in mine.buckets
    )
    own = replace(plan, buckets=tuple(one for one in groups if len(one) > 1))
    rooflines = rooflines_of(whole, plan, device_named(found.sums.system.device))
    sources = Sources(
        lambda section: rooflines(section).seconds,
        lambda kind, *_: found.sums.seconds(kind.bytes),
        lambda *_: 0.0,
    )
    run = predict_step(prepare_step(whole, own), own, apply(whole, own), sources, RUNTIME).run
    sent = [at for at, task in enumerate(run.device.tasks) if task.request]
    ends = sorted(run.ends[at] for at in sent)
    assert ends == pytest.approx([one.end_seconds for one in mine.buckets])


def _values(step: Step) -> dict[str, str]:
    """The value that each gradient is, by its parameter's name."""
    known = find_meanings(step.graph, input_meanings(step), ends_of(step))
    return {known[value.name].label: value.name for value in find_gradients(step)}


@pytest.mark.parametrize("unrolled", [False, True])
def test_the_optimizer_does_not_affect_the_times_of_gradients(unrolled: bool) -> None:
    """SGD scales a gradient only, which a plan may do before it is summed, after all layers."""
    adamw, sgd = (
        replica_of(zoo("gpt2-tiny", unrolled=unrolled, optimizer=name)).backward
        for name in ("adamw", "sgd")
    )
    assert sgd.gradients == adamw.gradients
    assert sgd.update_seconds < adamw.update_seconds


def test_gradients_in_bf16_are_cast_when_they_are_made() -> None:
    """Not all at the end, where JAX casts those of parameters that were cast before all layers."""
    wide, narrow = (
        replica_of(zoo("gpt2-tiny", unrolled=True, dtype=dtype)).backward
        for dtype in ("float32", "bfloat16")
    )
    assert narrow.dtype == "f32"
    for backward in (wide, narrow):
        assert backward.gradients[0].ready_seconds < 0.7 * backward.compute_seconds


def test_a_cast_that_is_moved_is_done_once_and_after_what_it_casts() -> None:
    before = zoo("gpt2-tiny", unrolled=True, dtype="bfloat16")
    after = hoist_casts(before)
    assert sorted(map(str, after.graph.operations)) == sorted(map(str, before.graph.operations))
    made = {value.name for value in after.graph.inputs}
    for one in after.graph.operations:
        assert {value.name for value in one.operands if isinstance(value, Value)} <= made
        made |= {value.name for value in one.results}


def test_a_step_that_sums_no_gradients_is_refused() -> None:
    with pytest.raises(InputError, match="sums no gradients"):
        replica_of(zoo("gpt2-tiny", infer=1))


def test_uncertainty_of_links_and_compute_stays_within_its_bound() -> None:
    found = replica_of(step())
    for way in compare_policies(found).ways:
        assert way.saved.low_seconds <= way.saved.seconds <= way.saved.high_seconds
    assert found.fast <= 1 <= found.slow
    for size in (4, 2**20, 2**28):
        low, likely, high = (f(size) for f in (found.sums.low, found.sums.seconds, found.sums.high))
        assert low <= likely <= high
