"""Recipes: they compute what one device does, and send what their names stand for."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from hierarchies import InputError
from sharded_steps import in_float64, judge, mlp, on_one_device
from synth.train.plans import Done, Program, apply
from synth.train.plans.recipes import Recipe, plan_of
from synth.train.plans.text import parse_recipe
from traced_steps import step


def program(one, text: str) -> Program:
    return apply(one, plan_of(one, parse_recipe(text)))


def sent(one: Program, recipe: str) -> Counter:
    """Moves that send something, by kind; those of bodies once."""
    sizes = dict(parse_recipe(recipe).axes)
    return Counter(m.how.value for r in one.moved() for m in r.path.requests(sizes))


PARAMETERS = 6
ZERO = {
    0: {"all-reduce": PARAMETERS},
    1: {"all-reduce": PARAMETERS, "all-gather": PARAMETERS},
    2: {"reduce-scatter": PARAMETERS, "all-gather": PARAMETERS},
}


@pytest.mark.parametrize("zero", ZERO)
def test_data_parallel_sends_each_gradient_and_parameter_once(zero: int) -> None:
    text = "data=2; batch over data" + f"; zero={zero}" * bool(zero)
    found = program(mlp(), text)
    judge(mlp(), found, {"data": 2}, on_one_device(mlp()))
    assert sent(found, text) == ZERO[zero]


def test_zero_3_scatters_each_gradient_and_gathers_parameters_where_they_are_read() -> None:
    text = "data=2; batch over data; zero=3"
    found = program(mlp(), text)
    judge(mlp(), found, {"data": 2}, on_one_device(mlp()))
    moves = sent(found, text)
    again_in_backward_loop = 1
    assert moves == {
        "all-gather": PARAMETERS + again_in_backward_loop,
        "reduce-scatter": PARAMETERS,
    }


@pytest.mark.parametrize("model", ["gpt2-tiny", "llama3-tiny"])
def test_megatron_all_reduces_twice_a_layer_and_pass(model: str) -> None:
    text = "tensor=2; weights over tensor as Megatron"
    found = program(step(model), text)
    bodies = [one.body for one in found.instructions if isinstance(one, Done) and one.body]
    assert [sent(body, text) for body in bodies] == [{"all-reduce": 2}, {"all-reduce": 2}]
    assert sent(found, text) == {"all-reduce": 4}


@pytest.mark.parametrize("model", ["gpt2-tiny", "llama3-tiny", "lstm-tiny", "vit-tiny"])
def test_data_parallel_all_reduces_gradients_and_nothing_else(model: str) -> None:
    text = "data=2; batch over data"
    one = step(model)
    assert sent(program(one, text), text) == {"all-reduce": one.roles.count("parameter")}


MIXED = (
    "tensor=2; weights over tensor as Megatron",
    "data=2 tensor=2; batch over data; weights over tensor as Megatron; zero=1",
    "data=2 tensor=2; batch over data; weights over tensor as Megatron; zero=3",
)


@pytest.mark.slow
@pytest.mark.parametrize("text", MIXED)
def test_recipes_of_gpt_compute_what_one_device_does(text: str) -> None:
    gpt = in_float64(step("gpt2-tiny"))
    found = program(gpt, text)
    judge(gpt, found, dict(parse_recipe(text).axes), on_one_device(gpt))


TEXTS = (
    "data=8",
    "data=8; batch over data",
    "data=8 tensor=4; batch over data; weights over tensor as Megatron; zero=1",
)


@pytest.mark.parametrize("text", TEXTS)
def test_text_and_back(text: str) -> None:
    assert str(parse_recipe(text)) == text
    assert parse_recipe(str(parse_recipe(text))) == parse_recipe(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "data",
        "data=0",
        "data=2 data=2",
        "data=2; batch over tensor",
        "data=2; zero=1",
        "data=2; batch over data; zero=4",
        "data=2; batch over data; weights over data as Megatron",
        "data=2; batch over data; batch over data",
        "data=2; stages over pipe",
    ],
)
def test_bad_texts_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_recipe(text)


def test_axes_that_do_not_divide_are_refused() -> None:
    with pytest.raises(InputError, match="in 3 parts"):
        program(mlp(), str(Recipe((("data", 3),), batch="data")))


def test_megatron_of_a_model_without_such_weights_is_refused() -> None:
    with pytest.raises(InputError, match="no weight of mlp-tiny"):
        program(mlp(), "tensor=2; weights over tensor as Megatron")
