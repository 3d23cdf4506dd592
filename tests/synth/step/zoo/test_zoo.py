"""The zoo: as many parameters as published, and steps that train, in any spelling."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import traced_steps
from exhaustive import in_turn
from grammar.tensors.parser import parse_step
from graph_runner import run
from hierarchies import InputError
from synth.step.zoo.experts import mixture, mixture_shapes
from synth.step.zoo.optimizers import OPTIMIZERS
from synth.step.zoo.sizes import ZOO, Decoder, Gpt2, sizes_of
from traced_steps import compiled

PUBLISHED = {
    "gpt2-small": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "gpt3-175b": 174_604_259_328,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
    "bert-base": 110_106_428,
    "bert-large": 336_226_108,
    "resnet50": 25_557_032,
    "vit-base": 86_567_656,
    "vit-large": 304_326_632,
}
"""As Hugging Face's, PyTorch's and the models' own checkpoints count them: BERT with both heads of
pretraining (``BertForPreTraining``), ResNet without running means. GPT-3's paper says 175 B."""


def parameters(name: str, **how: Any) -> int:
    return sum(math.prod(one.shape) for one in jax.tree.leaves(model(name, **how).parameters))


def model(name: str, **how: Any) -> Any:
    return traced_steps.model(name, **how)


@pytest.mark.parametrize("unrolled", [False, True])
@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_as_many_as_published(name: str, unrolled: bool) -> None:
    assert parameters(name, unrolled=unrolled) == PUBLISHED[name]


@pytest.mark.parametrize("name", [name for name in ZOO if isinstance(ZOO[name], Gpt2)])
def test_a_decoder_has_twelve_squares_of_its_width_a_layer(name: str) -> None:
    one = ZOO[name]
    assert isinstance(one, Gpt2)
    d = one.width
    layer = 12 * d**2 + 13 * d
    assert parameters(name) == one.layers * layer + (one.vocabulary + one.sequence) * d + 2 * d


@pytest.mark.parametrize(
    "name", ["gpt3-175b", "llama3-405b", "mixtral-8x7b", "bert-large", "lstm", "vit-large"]
)
def test_large_models_are_traced_where_there_is_no_room_for_them(name: str) -> None:
    step = traced_steps.step(name, batch=1, dtype="bfloat16", remat=True)
    assert step.roles.count("parameter") == len(jax.tree.leaves(model(name).parameters))


SPELLINGS: list[dict[str, Any]] = [{}, {"unrolled": True}, {"remat": True}]


def carried_out(name: str, how: dict[str, Any], optimizer: str) -> None:
    """The text of a traced step, read and carried out, does what its function does."""
    one = model(name, **how)
    given = traced_steps.arguments(one, optimizer)
    step = parse_step(str(traced_steps.step(name, optimizer=optimizer, **how)))
    ours = compiled(lambda flat: run(step.graph, flat))(jax.tree.leaves(given))
    theirs = jax.tree.leaves(compiled(OPTIMIZERS[optimizer].step(one.loss))(*given))
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-4, atol=2e-5)


def test_a_step_read_from_its_text_does_what_the_function_does() -> None:
    carried_out("mlp-tiny", {}, "sgd")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "spelling"), in_turn(traced_steps.TINY, SPELLINGS), ids=str)
def test_steps_read_from_their_texts_do_what_the_functions_do(
    name: str, spelling: dict[str, Any]
) -> None:
    carried_out(name, spelling, "sgd")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "optimizer"), in_turn(traced_steps.TINY, OPTIMIZERS))
def test_the_loss_falls(name: str, optimizer: str) -> None:
    one = model(name)
    *kept, batch = traced_steps.arguments(one, optimizer)
    step = compiled(OPTIMIZERS[optimizer].step(one.loss))
    losses = []
    for _ in range(100):
        *kept, lost = step(*kept, batch)
        losses.append(float(lost))
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", traced_steps.TINY)
def test_the_spellings_of_a_model_compute_the_same_loss(name: str) -> None:
    parameters, _, batch = traced_steps.arguments(model(name))
    looped = compiled(model(name).loss)(parameters, batch)
    again = compiled(model(name, remat=True).loss)(parameters, batch)
    half = compiled(model(name, dtype="bfloat16").loss)(parameters, batch)
    np.testing.assert_allclose(again, looped, rtol=1e-5)
    np.testing.assert_allclose(half, looped, rtol=0.05)


def numpy_gpt2(sizes: Gpt2, p: Any, tokens: Any, targets: Any) -> float:
    """GPT-2 in float64, by hand, head by head and token by token."""

    def norm(x: Any, w: Any) -> Any:
        return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * w["scale"] + w["shift"]

    def gelu(x: Any) -> Any:
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    lost = []
    for sentence, wanted in zip(tokens, targets, strict=True):
        x = [p["embedding"][token] + p["positions"][at] for at, token in enumerate(sentence)]
        for layer in range(sizes.layers):
            w = jax.tree.map(lambda one, layer=layer: one[layer], p["layers"])
            a = w["attention"]
            normed = [norm(one, w["attention_norm"]) for one in x]
            for at in reversed(range(len(x))):
                made = a["out_bias"].copy()
                for h in range(sizes.heads):
                    q = normed[at] @ a["query"][:, h] + a["query_bias"][h]
                    keys = [n @ a["key"][:, h] + a["key_bias"][h] for n in normed[: at + 1]]
                    values = [n @ a["value"][:, h] + a["value_bias"][h] for n in normed[: at + 1]]
                    score = np.exp([q @ k / np.sqrt(len(q)) for k in keys])
                    made += (score / score.sum()) @ np.array(values) @ a["out"][h]
                x[at] = x[at] + made
            for at, one in enumerate(x):
                m = w["mlp"]
                up = gelu(norm(one, w["mlp_norm"]) @ m["up"] + m["up_bias"])
                x[at] = one + up @ m["down"] + m["down_bias"]
        for one, target in zip(x, wanted, strict=True):
            logits = p["embedding"] @ norm(one, p["norm"])
            lost.append(np.log(np.exp(logits).sum()) - logits[target])
    return float(np.mean(lost))


def test_gpt2_is_the_gpt2_that_one_would_write_by_hand() -> None:
    one = model("gpt2-tiny", batch=2)
    parameters, _, batch = traced_steps.arguments(one)
    theirs = compiled(one.loss)(parameters, batch)
    sizes = ZOO["gpt2-tiny"]
    assert isinstance(sizes, Gpt2)
    exact = jax.tree.map(lambda value: np.asarray(value, np.float64), parameters)
    tokens, targets = np.asarray(batch["tokens"]), np.asarray(batch["targets"])
    assert math.isclose(numpy_gpt2(sizes, exact, tokens, targets), theirs, rel_tol=1e-5)


def test_groups_of_a_batch_are_normalised_each_by_its_own_samples() -> None:
    """Two replicas of DDP: their losses and gradients are averaged, and nothing else is shared."""
    whole = model("resnet-tiny", changes=(("groups", 2),), batch=8)
    half = model("resnet-tiny", batch=4)
    parameters, _, batch = traced_steps.arguments(whole)
    ours = compiled(jax.value_and_grad(whole.loss))(parameters, batch)
    replica = compiled(jax.value_and_grad(half.loss))
    parts = [jax.tree.map(lambda one, at=at: one[at : at + 4], batch) for at in (0, 4)]
    both = [replica(parameters, part) for part in parts]
    for mine, *theirs in zip(*map(jax.tree.leaves, (ours, *both)), strict=True):
        np.testing.assert_allclose(mine, np.mean(theirs, axis=0), rtol=1e-4, atol=1e-5)
    together = compiled(model("resnet-tiny", batch=8).loss)(parameters, batch)
    assert abs(float(together) - float(ours[0])) > 1e-4


def test_groups_that_do_not_divide_the_batch_are_refused() -> None:
    with pytest.raises(InputError, match="groups 3 do not divide a batch of 8"):
        model("resnet-tiny", changes=(("groups", 3),), batch=8)


@cache
def dropless() -> tuple[Any, Any, Any]:
    """Parameters, a batch, and what a model that leaves no token out makes of them."""
    whole = model("dropless-tiny")
    parameters, _, batch = traced_steps.arguments(whole)
    return parameters, batch, compiled(jax.value_and_grad(whole.loss))(parameters, batch)


@pytest.mark.parametrize("group", [4096, 8, 4])
def test_both_ways_to_the_experts_are_one_where_nothing_is_left_out(group: int) -> None:
    """Dispatched with room for all tokens of a group, and dropless: answers and gradients."""
    dispatched = model("mixtral-tiny")
    parameters, batch, theirs = dropless()
    with pytest.MonkeyPatch.context() as patch:
        # All tokens of a group may choose one of four experts, which serves two choices of each.
        patch.setattr("synth.step.zoo.experts.CAPACITY", 2.0)
        patch.setattr("synth.step.zoo.experts.GROUP", group)
        ours = compiled(jax.value_and_grad(dispatched.loss))(parameters, batch)
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-6)


def test_an_expert_takes_its_fair_share_of_the_tokens_of_a_sample_and_no_more() -> None:
    """Written apart, token by token in their order: what is too much for an expert passes it by."""
    sizes = ZOO["mixtral-tiny"]
    assert isinstance(sizes, Decoder)
    random = np.random.default_rng(1)
    shapes = mixture_shapes(sizes)
    weights = {name: 0.3 * random.standard_normal(one.shape) for name, one in shapes.items()}
    x = random.standard_normal((2, 16, sizes.width))
    wanted = np.zeros_like(x)
    left_out = 0
    for sample, tokens in enumerate(x):
        taken = [0] * sizes.experts
        for at, token in enumerate(tokens):
            scores = token @ weights["router"]
            best = np.argsort(-scores)[: sizes.chosen]
            shares = np.exp(scores[best]) / np.exp(scores[best]).sum()
            for expert, share in zip(best, shares, strict=True):
                taken[expert] += 1
                if taken[expert] > 16 * sizes.chosen // sizes.experts:
                    left_out += 1
                    continue
                gate = token @ weights["gate"][expert]
                bent = gate / (1 + np.exp(-gate)) * (token @ weights["up"][expert])
                wanted[sample, at] += share * (bent @ weights["down"][expert])
    assert left_out > 0
    found = mixture(*jax.tree.map(jnp.float32, (x, weights)), sizes=sizes, form=sizes.form)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("gpt5", {}, "no model 'gpt5'"),
        ("gpt2-small", {"experts": 2}, "gpt2-small has no experts"),
        ("gpt2-small", {"heads": 7}, "heads 7 do not divide width 768"),
        ("llama3-8b", {"key_heads": 7}, "key_heads 7 do not divide heads 32"),
        ("vit-base", {"patch": 15}, "patch 15 do not divide image 224"),
        ("mixtral-8x7b", {"chosen": 9}, "9 of 8 experts"),
        ("mixtral-8x7b", {"dropless": 2}, "dropless is 2"),
        ("mixtral-8x7b", {"dropless": -1}, "dropless is -1"),
        ("resnet50", {"blocks": 3}, "resnet50 has no blocks"),
        ("gpt2-small", {"layers": 0}, "layers is 0"),
    ],
)
def test_sizes_that_cannot_be(name: str, changes: dict[str, int], said: str) -> None:
    with pytest.raises(InputError) as refused:
        sizes_of(name, changes)
    assert said in str(refused.value)
