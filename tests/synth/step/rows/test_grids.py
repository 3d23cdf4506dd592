"""All recipes for a model and a number of devices: counts, and that steps can be cut so."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from grammar.tensors.parser import parse_step
from hierarchies import InputError
from places import TESTS
from synth.step.rows.grids import Extents, Knobs, extents_of, list_recipes
from synth.step.schedules import SCHEDULES, chunks_of
from synth.step.sharding import apply, parse_recipe, plan_of

DEEP = 2**15
"""As many as no axis fails to divide."""

THREE_DEGREES = Knobs(
    axes=("pipe", "data", "tensor"),
    zero=(0,),
    sequence=(False,),
    schedules=("1f1b",),
    chunks=(1,),
    microbatches=tuple(2**exponent for exponent in range(1, 8)),
    remat=(False,),
    vocabulary=(False,),
)
"""Only data, tensor and pipeline axes, and microbatches: the grid of DistIR (arXiv 2111.05426)."""


@pytest.mark.parametrize(
    ("worlds", "batches", "models", "count"),
    [((2, 4, 8, 16), (64, 256, 512), 3, 1263), ((4, 8, 16), (64, 256), 7, 1757)],
)
def test_the_grids_of_distir(
    worlds: tuple[int, ...], batches: tuple[int, ...], models: int, count: int
) -> None:
    """One microbatch without stages, else 2 to 128, each of a sample at least."""
    found = [
        recipe
        for world, batch in product(worlds, batches)
        for recipe in list_recipes(world, Extents(batch, megatron=DEEP, layers=DEEP), THREE_DEGREES)
    ]
    assert models * len(found) == count


def test_three_degrees_are_those_of_three_loops() -> None:
    """Written apart: every size of every axis, and what may be said with it."""
    extents, world = Extents(12, megatron=4, layers=6), 8
    wanted = set()
    for pipe, data, tensor in product((1, 2, 4, 8), repeat=3):
        legal = pipe in (1, 2) and data in (1, 2, 4) and tensor in (1, 2, 4)
        for count in (1,) if pipe == 1 else (2, 4, 8, 16, 32, 64, 128):
            if pipe * data * tensor == world and legal and 12 % (data * count) == 0:
                wanted.add((pipe, data, tensor, count))
    found = [
        (*(dict(one.axes).get(name, 1) for name in ("pipe", "data", "tensor")), one.microbatches)
        for one in list_recipes(world, extents, THREE_DEGREES)
    ]
    assert set(found) == wanted
    assert len(found) == len(wanted)


def test_uneven_stages_are_all_that_have_a_layer_each() -> None:
    extents = Extents(16, megatron=4, layers=7)
    even = set(list_recipes(8, extents, Knobs(chunks=(1, 2))))
    found = set(list_recipes(8, extents, Knobs(chunks=(1, 2), uneven=True)))
    assert even < found
    assert {one.layers for one in even} == {()}
    assert {one.stages for one in even} == {1}
    counts = {(dict(one.axes).get("pipe", 1), one.chunks) for one in found}
    assert counts == {(1, 1), (2, 1), (2, 2), (4, 1)}
    for one in found - even:
        assert sum(one.layers) == 7
        assert max(one.layers) - min(one.layers) == 1


def test_every_recipe_is_another_and_is_read_back_from_its_text() -> None:
    extents = Extents(16, tokens=8, megatron=4, vocabulary=64, experts=4, layers=4)
    for knobs in (Knobs(), Knobs(vocabulary=(True, False), zero=(0, 1))):
        found = list(list_recipes(8, extents, knobs))
        assert len(found) == len(set(found)) > 500
        assert all(parse_recipe(str(one)) == one for one in found)
        assert found == list(list_recipes(8, extents, knobs))


def test_stages_have_every_order_that_is_made() -> None:
    """Of all schedules, on ranks that are no power of two, too: what makes no order is left out."""
    extents = Extents(batch=240, layers=48)  # divided by all that is tried
    knobs = Knobs(degrees=(1, 2, 3, 4, 6), axes=("pipe",), schedules=tuple(SCHEDULES))
    knobs = replace(knobs, microbatches=(2, 3, 4, 6, 8, 10, 12, 16), zero=(0,), remat=(False,))
    for ranks in (2, 3, 4, 6):
        wanted = set()
        for name, count, chunks in product(SCHEDULES, knobs.microbatches, knobs.chunks):
            is_other = chunks == 1 and name in ("interleaved-1f1b", "looped-bfs")
            if chunks != chunks_of(name, chunks) or is_other:
                continue
            try:
                SCHEDULES[name](ranks, count, chunks)
            except InputError:
                continue
            wanted.add((name, count, chunks))
        found = [
            (one.schedule, one.microbatches, one.chunks)
            for one in list_recipes(ranks, extents, knobs)
        ]
        assert sorted(found) == sorted(wanted)


def test_a_model_without_layers_or_tokens_has_no_such_axes() -> None:
    found = list(list_recipes(4, Extents(8)))
    assert {dict(one.axes).keys() <= {"data"} for one in found} == {True}
    assert not list(list_recipes(3, Extents(8)))


def test_one_device_does_it_whole() -> None:
    found = list(list_recipes(1, Extents(8, layers=2), Knobs(remat=(False,))))
    assert [str(one) for one in found] == ["data=1"]


def test_what_a_kept_step_divides() -> None:
    step = parse_step((TESTS / "steps" / "mlp-tiny.step").read_text(encoding="utf-8"))
    [batch, *_] = [
        one.type.shape[0]
        for one, role in zip(step.graph.inputs, step.roles, strict=True)
        if role == "batch"
    ]
    assert extents_of(step) == Extents(batch, layers=extents_of(step).layers)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gpt2-tiny", "llama3-tiny", "mixtral-tiny"])
def test_a_step_can_be_cut_by_every_recipe_that_is_named(model: str) -> None:
    pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
    from traced_steps import step

    one = step(model, optimizer="sgd")
    extents = extents_of(one)
    assert extents.layers == 2
    every = list(list_recipes(4, extents, Knobs(chunks=(1, 2))))
    assert {one.schedule for one in every} >= {"", "1f1b", "gpipe"}
    for recipe in Random(3).sample(every, 5):
        try:
            apply(one, plan_of(one, recipe))
        except InputError as error:  # pragma: no cover
            raise AssertionError(str(recipe)) from error
