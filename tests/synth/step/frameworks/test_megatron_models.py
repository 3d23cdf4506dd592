"""Models by their config.json as flags of Megatron, read back by the parameters that it makes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hierarchies import InputError
from megatron_models import (
    ACCEPTED,
    MODELS,
    REFUSED,
    arguments,
    count_parameters,
    described,
    written,
)
from synth.step.frameworks import ModelSpec
from synth.step.sharding.recipes import Recipe
from synth.step.zoo.forms import Form, Router
from synth.step.zoo.sizes import Decoder

TINY = Decoder(4, 64, 4, 2, 128, sequence=32, vocabulary=256)


@pytest.mark.parametrize("name", ACCEPTED)
def test_megatron_makes_as_many_parameters_as_are_published(name: str) -> None:
    assert count_parameters(arguments("megatron", described(name))) == MODELS[name]["total_params"]


@pytest.mark.parametrize("name", ACCEPTED)
def test_bridge_is_told_the_same_as_megatron(name: str) -> None:
    model = described(name)
    assert isinstance(model.sizes, Decoder)
    if model.sizes.form.latent:
        with pytest.raises(InputError, match=r"latent attention.*write files for megatron"):
            written("bridge", model)
        return
    flags, recipe = vars(arguments("megatron", model)), vars(arguments("bridge", model))
    asked = {row: flags[row] for row in flags if row in recipe and recipe[row] is not None}
    if model.sizes.experts > 1:
        [asked["moe_router_load_balancing_type"]] = asked["moe_router_load_balancing_type"]
    assert {row: recipe[row] for row in asked} == asked


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("framework", ["megatron", "bridge"])
def test_what_megatron_has_no_flag_for_is_refused_by_name(framework: str, name: str) -> None:
    with pytest.raises(InputError, match=f"has {REFUSED[name]}"):
        written(framework, described(name))


@pytest.mark.parametrize(
    ("sizes", "flags"),
    [
        (replace(TINY, head_width=32), ["--kv-channels 32"]),
        (replace(TINY, window=8), ["--window-size 7,0"]),
        (
            replace(TINY, window=8, form=Form(full_every=2)),
            ["--window-size 7,0", "--window-attn-skip-freq 2"],
        ),
        (
            replace(TINY, form=Form(norm="layer-plus-one", activation="relu2", gated=False)),
            ["--normalization LayerNorm", "--apply-layernorm-1p", "--squared-relu"],
        ),
        (replace(TINY, form=Form(rotary_share=0.5)), ["--rotary-percent 0.5"]),
        (
            replace(TINY, experts=4, chosen=2, dense_layers=1, dense_hidden=256),
            ["--moe-layer-freq '([0]*1+[1]*4)'", "--num-layers 5", "--ffn-hidden-size 256"],
        ),
        (
            replace(TINY, experts=4, chosen=2, form=Form(router=Router("softmax"))),
            ["--moe-router-pre-softmax"],
        ),
    ],
)
def test_each_part_of_a_decoder_has_its_flag(sizes: Decoder, flags: list[str]) -> None:
    text = str(written("megatron", ModelSpec("tiny", sizes)).files["arguments.sh"])
    assert all(f"    {flag}\n" in text for flag in flags)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (Form(gated=False), "an MLP without a gate"),
        (Form(activation="gelu"), "another activation than SwiGLU"),
        (Form(attention_bias=True, output_bias=True), "biases of attention"),
        (Form(attention_bias=True, mlp_bias=True), "biases of the MLP"),
    ],
)
def test_parts_that_megatron_has_only_together_are_refused(form: Form, said: str) -> None:
    with pytest.raises(InputError, match=said):
        written("megatron", ModelSpec("tiny", replace(TINY, form=form)))


@pytest.mark.parametrize(
    "router",
    [
        Router("sigmoid"),
        Router(bias=True),
        Router(correction=True),
        Router("sigmoid", normalised=True, groups=2, chosen_groups=1, group_best=1),
    ],
)
def test_another_router_is_refused(router: Router) -> None:
    sizes = replace(TINY, experts=4, chosen=2, form=Form(router=router))
    with pytest.raises(InputError, match="another router"):
        written("megatron", ModelSpec("tiny", sizes))


def test_layers_without_experts_are_in_the_first_stage() -> None:
    """Megatron counts them; a recipe's stages share out the others."""
    sizes = replace(TINY, experts=4, chosen=2, dense_layers=1, dense_hidden=256)
    recipe = Recipe((("pipe", 2), ("data", 4)), batch=("data",), schedule="1f1b", microbatches=2)
    args = arguments("megatron", ModelSpec("tiny", sizes), recipe)
    assert args.pipeline_model_parallel_layout == "Et*3|t*2L"
