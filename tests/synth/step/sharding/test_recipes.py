"""Recipes: they compute what one device does, and send what their names stand for."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from hierarchies import InputError
from sharded_steps import in_float64, judge, mlp, on_one_device
from synth.step.sharding import (
    LocalOperation,
    Plan,
    Recipe,
    RedistributedValue,
    StepProgram,
    adapt_plan,
    apply,
    expansion,
    parse_recipe,
    plan_of,
)
from synth.step.sharding.following import following
from traced_steps import step


def program(one, text: str) -> StepProgram:
    return apply(one, plan_of(one, parse_recipe(text)))


def sent(one: StepProgram, recipe: str) -> Counter:
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


def bodies(one: StepProgram, recipe: str) -> list[Counter]:
    """The same of each loop's body: of a layer forward, and of a layer backward."""
    return [
        sent(done.body, recipe)
        for done in one.instructions
        if isinstance(done, LocalOperation) and done.body
    ]


def outside(one: StepProgram, recipe: str) -> Counter:
    """The same of what is in no loop."""
    top = [done for done in one.instructions if isinstance(done, RedistributedValue)]
    return sent(StepProgram((), tuple(top), ()), recipe)


MATRICES = {"gpt2-tiny": 6, "llama3-tiny": 7}
"""Weights of a layer that its backward pass reads again."""


@pytest.mark.parametrize("model", MATRICES)
@pytest.mark.parametrize("zero", [1, 2, 3])
def test_zero_sends_the_bytes_of_its_stage(model: str, zero: int) -> None:
    text = f"data=2; batch over data; zero={zero}"
    one = step(model)
    found, parameters = program(one, text), one.roles.count("parameter")
    reduced = "all-reduce" if zero == 1 else "reduce-scatter"
    again = MATRICES[model] if zero == 3 else 0
    assert sent(found, text) == {reduced: parameters, "all-gather": parameters + again}
    forward, backward = bodies(found, text)
    layers = sum(label.startswith("layers/") for label in one.labels)
    assert forward == ({"all-gather": layers} if zero == 3 else {})
    assert backward == ({"all-gather": again} if again else {})


@pytest.mark.parametrize("model", ["gpt2-tiny", "llama3-tiny", "bert-tiny", "vit-tiny"])
def test_megatron_all_reduces_twice_a_layer_and_pass(model: str) -> None:
    text = "tensor=2; weights over tensor as Megatron"
    found = program(step(model), text)
    assert bodies(found, text) == [{"all-reduce": 2}, {"all-reduce": 2}]
    assert not outside(found, text)


def test_of_fewest_requests_data_and_megatron_are_one_all_reduce_a_gradient() -> None:
    """Of fewest bytes replicas along tensor share each gradient, and gather it again."""
    text = "data=4 tensor=2; batch over data; weights over tensor as Megatron; fewest requests"
    one = step("gpt2-tiny")
    found = program(one, text)
    assert outside(found, text) == {"all-reduce": one.roles.count("parameter")}
    assert bodies(found, text) == [{"all-reduce": 2}, {"all-reduce": 2}]


SEQUENCE = "tensor=2; weights over tensor as Megatron; tokens over tensor"
SAVED_IN_PARTS = 2
"""What both halves of a layer read is kept by tokens and gathered again, as Megatron does."""


@pytest.mark.parametrize("model", ["gpt2-tiny", "llama3-tiny", "bert-tiny"])
def test_sequence_parallel_gathers_and_scatters_twice_a_layer_and_pass(model: str) -> None:
    forward, backward = bodies(program(step(model), SEQUENCE), SEQUENCE)
    assert forward == {"all-gather": 2, "reduce-scatter": 2}
    assert backward == {"all-gather": 2 + SAVED_IN_PARTS, "reduce-scatter": 2}


def test_sequence_parallel_reduces_gradients_of_whole_weights_and_gathers_that_of_positions() -> (
    None
):
    one = step("gpt2-tiny")
    inputs = plan_of(one, parse_recipe(SEQUENCE)).cuts.inputs
    both = zip(one.roles, inputs, strict=True)
    whole = [lies for role, lies in both if role == "parameter" and not lies.axes]
    of_tokens = ["positions"]
    assert outside(program(one, SEQUENCE), SEQUENCE) == {
        "all-reduce": len(whole) - len(of_tokens),
        "all-gather": len(of_tokens),
    }


def test_sequence_parallel_of_layers_one_by_one_keeps_what_it_gathered() -> None:
    found = program(step("gpt2-tiny", unrolled=True), SEQUENCE)
    wide = [one for one in found.moved() if len(one.value.type.shape) == 3]
    layers, passes = 2, 2
    moves = sent(StepProgram((), tuple(wide), ()), SEQUENCE)
    assert moves == {"all-gather": 2 * layers * passes, "reduce-scatter": 2 * layers * passes}


@pytest.mark.parametrize("model", ["gpt2-tiny", "llama3-tiny"])
def test_a_cut_vocabulary_all_reduces_embedding_and_gradient_and_three_numbers_a_token(
    model: str,
) -> None:
    text = "tensor=2; weights over tensor as Megatron; vocabulary over tensor"
    top = [
        one
        for one in program(step(model), text).instructions
        if isinstance(one, RedistributedValue)
    ]
    sizes = {"tensor": 2}
    shapes = [one.value.type.shape for one in top if one.path.requests(sizes)]
    tokens, width = (4, 16), 32
    assert Counter(shapes) == {(*tokens, width): 2, tokens: 2, (*tokens, 1): 1}
    assert {m.how.value for one in top for m in one.path.requests(sizes)} == {"all-reduce"}


@pytest.mark.parametrize("model", ["gpt2-tiny", "llama3-tiny", "bert-tiny"])
def test_context_parallel_gathers_keys_and_values_and_scatters_their_gradients(model: str) -> None:
    text = "seq=4; tokens over seq"
    forward, backward = bodies(program(step(model), text), text)
    rotated_halves = int(model == "llama3-tiny")
    assert forward == {"all-gather": 2}
    assert backward == {"all-gather": 2, "reduce-scatter": 2 + rotated_halves}


def test_experts_on_an_axis_of_their_own_all_reduce_once_a_layer_and_pass() -> None:
    text = "expert=2; experts over expert"
    forward, backward = bodies(program(step("mixtral-tiny"), text), text)
    scores = 1
    assert forward == {"all-reduce": 1}
    assert backward == {"all-reduce": 1 + scores}


@pytest.mark.parametrize(
    ("text", "over"),
    [
        ("data=2; batch over data; experts over data", [("data",)] * 10),
        (
            "data=2 expert=2; batch over data and expert; experts over expert",
            [("data", "expert")] * 10 + [("data",)] * 3,
        ),
    ],
)
def test_experts_on_an_axis_of_the_batch_are_sent_tokens_and_send_answers(
    text: str, over: list[tuple[str, ...]]
) -> None:
    """There, the share that each answer has, and back; and the same of their gradients.

    Tokens were kept as they were before they were sent, and are sent again for the weights.
    Gradients of experts are reduced over what else cuts the batch, all others over all of it.
    """
    found = program(step("mixtral-tiny"), text)
    forward, backward = bodies(found, text)
    assert forward == {"all-to-all": 3}
    assert backward == {"all-to-all": 4 + 1}
    sizes = dict(parse_recipe(text).axes)
    outer = [
        m
        for one in found.instructions
        if isinstance(one, RedistributedValue)
        for m in one.path.moves
    ]
    assert sorted(m.axes for m in outer if m.how.value == "all-reduce") == sorted(over)
    tokens = 4 * 16 * 2
    for loop in found.instructions:
        if isinstance(loop, LocalOperation) and loop.body is not None:
            moved = [m.value.type for m in loop.body.moved() if m.path.requests(sizes)]
            assert {one.elements for one in moved} == {tokens, tokens * 32}


@pytest.mark.parametrize("model", ["gpt2-tiny", "llama3-tiny", "lstm-tiny", "vit-tiny"])
def test_data_parallel_all_reduces_gradients_and_nothing_else(model: str) -> None:
    text = "data=2; batch over data"
    one = step(model)
    assert sent(program(one, text), text) == {"all-reduce": one.roles.count("parameter")}


MIXED = (
    SEQUENCE,
    "tensor=2; tokens over tensor; weights over tensor as Megatron; vocabulary over tensor",
    "seq=2 tensor=2; tokens over seq; weights over tensor as Megatron; vocabulary over tensor",
    "data=2 tensor=2; batch over data; tokens over tensor; weights over tensor as Megatron; zero=2",
    "tensor=2; weights over tensor as Megatron",
    "data=2 tensor=2; batch over data; weights over tensor as Megatron; zero=1",
    "data=2 tensor=2; batch over data; weights over tensor as Megatron; zero=3",
)


ALIKE = tuple(
    f"data={data} tensor=2; batch over {batch}{zero}"
    for data in (2, 4)
    for batch in ("data", "data and tensor", "data; weights over tensor as Megatron")
    for zero in ("", "; zero=3")
)


def test_recipes_that_share_choices_have_the_plans_they_have_alone() -> None:
    """The choices of earlier recipes are kept; no later plan may depend on them."""
    together = {text: _unkept_plan(text).cuts for text in ALIKE}
    for text, cuts in together.items():
        following._choices_of.cache_clear()
        assert _unkept_plan(text).cuts == cuts, text


def _unkept_plan(text: str) -> Plan:
    expansion._plan_unbucketed.cache_clear()
    return plan_of(step("gpt2-tiny"), parse_recipe(text))


@pytest.mark.slow
@pytest.mark.parametrize("text", MIXED)
def test_recipes_of_gpt_compute_what_one_device_does(text: str) -> None:
    gpt = in_float64(step("gpt2-tiny"))
    found = program(gpt, text)
    judge(gpt, found, dict(parse_recipe(text).axes), on_one_device(gpt))


OTHERS = (
    ("llama3-tiny", "seq=2 tensor=2; tokens over seq; weights over tensor as Megatron"),
    ("llama3-tiny", f"{SEQUENCE}; vocabulary over tensor"),
    ("bert-tiny", f"{SEQUENCE}; vocabulary over tensor"),
    ("bert-tiny", "tensor=2; weights over tensor as Megatron"),
)
SHARED = "tokens over tensor; weights over tensor as Megatron"
EXPERTS = (
    "data=2 tensor=2; batch over data; experts over data; weights over tensor as Megatron",
    "data=2 expert=2; batch over data; experts over expert; zero=1",
    "data=2 expert=2; batch over data and expert; experts over expert; zero=1",
    "expert=4; batch over expert; experts over expert; zero=3",
    f"expert=2 tensor=2; batch over expert; experts over expert; {SHARED}; zero=2",
)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "text"), OTHERS)
def test_recipes_of_others_compute_what_one_device_does(model: str, text: str) -> None:
    one = in_float64(step(model))
    judge(one, program(one, text), dict(parse_recipe(text).axes), on_one_device(one))


@pytest.mark.slow
@pytest.mark.parametrize("text", EXPERTS)
def test_recipes_of_experts_compute_what_one_device_does(text: str) -> None:
    one = in_float64(step("mixtral-tiny"))
    judge(one, program(one, text), dict(parse_recipe(text).axes), on_one_device(one))


TEXTS = (
    "data=8",
    "data=8; batch over data",
    "data=8 tensor=4; batch over data; weights over tensor as Megatron; zero=1",
    "seq=2 tensor=4; tokens over seq; vocabulary over tensor; experts over tensor",
    "data=2 pipe=4; batch over data; zero=1; schedule 1f1b, 16 microbatches; remat layers",
    "data=1 pipe=2; schedule interleaved-1f1b, 2 chunks, 8 microbatches; buckets of 2.5 MB",
    "a=2 b=4; weights mlp/up[-1] over a; input tokens as [(a,b),-]; 8 microbatches",
    "data=2; batch over data; fewest requests",
    "data=4 expert=2; batch over data and expert; experts over expert; zero=2",
    "data=2; batch over data; zero=1; gradients in bf16; remat layers",
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
        "data=2; batch over data; tokens over data",
        "data=2; 0 microbatches",
        "data=2; 2 microbatches; 4 microbatches",
        "data=2; 2 microbatches; schedule 1f1b, 2 microbatches",
        "data=2; schedule 1f1b, 2 microbatches",
        "pipe=2; schedule 1f1b, 1 microbatch",
        "pipe=2; schedule 1f1b",
        "pipe=2; schedule 1f1b, 2 chunks, 4 microbatches",
        "pipe=2; schedule zero-bubble-h2, 4 microbatches",
        "pipe=2; schedule fastest, 4 microbatches",
        "pipe=2; batch over pipe; schedule 1f1b, 2 microbatches",
        "data=2 pipe=2",
        "microbatch=2",
        "data=2; remat everything",
        "data=2; buckets of MB",
        "data=2; weights up over data",
        "data=2; weights up[0] over pipe",
        "data=2; input x as data",
        "data=2; tokens over",
        "data=2; experts over pipe",
    ],
)
def test_bad_texts_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_recipe(text)


def test_axes_that_do_not_divide_are_refused() -> None:
    with pytest.raises(InputError, match="in 3 parts"):
        program(mlp(), str(Recipe((("data", 3),), batch=("data",))))


def test_megatron_of_a_model_without_such_weights_is_refused() -> None:
    with pytest.raises(InputError, match="nothing of mlp-tiny is sharded"):
        program(mlp(), "tensor=2; weights over tensor as Megatron")


def test_experts_that_take_all_that_choose_them_are_refused() -> None:
    with pytest.raises(InputError, match="take any number of tokens"):
        program(step("dropless-tiny"), "expert=2; experts over expert")


def test_an_indivisible_vocabulary_is_refused_with_the_padding_of_megatron() -> None:
    recipe = parse_recipe("tensor=4; weights over tensor as Megatron; vocabulary over tensor")
    with pytest.raises(InputError, match="50257 words of embedding in 4 parts") as refused:
        plan_of(step("gpt2-tiny", (("vocabulary", 50257),)), recipe)
    assert refused.value.hint.endswith("a multiple of 128 x 4: --sizes vocabulary=50688")
    padded = step("gpt2-tiny", (("vocabulary", 50688),))
    assert apply(padded, plan_of(padded, recipe))


def test_a_size_not_divided_is_refused_with_one_that_is() -> None:
    one = step("gpt2-tiny")
    with pytest.raises(InputError, match="input targets: data=3 cuts dimension 0") as refused:
        apply(one, plan_of(one, parse_recipe("data=3; batch over data")))
    assert refused.value.hint.endswith(
        "must divide the size: 2 parts of 4, or 6 elements, would do"
    )


@pytest.mark.parametrize(
    "text",
    [
        "data=2; batch over data; zero=3",
        "data=2; batch over data; zero=2; 2 microbatches; remat layers",
    ],
)
def test_a_plan_for_one_batch_is_that_for_another(text: str) -> None:
    """Rows by their numbers are those that are chosen for the larger batch by itself."""
    small, large = (step("mlp-tiny", batch=batch) for batch in (8, 16))
    plan = plan_of(small, parse_recipe(text))
    assert adapt_plan(plan, small, large) == plan_of(large, parse_recipe(text)) != plan


def test_a_plan_of_another_step_is_none() -> None:
    plan = plan_of(mlp(), parse_recipe("data=2; batch over data"))
    assert adapt_plan(plan, mlp(), step("gpt2-tiny")) is None
