"""Sizes that frameworks divide; those that they do not are refused here, before they do it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framework_cases import MODELS, machine, read
from framework_files import words
from hierarchies import InputError
from synth.step.frameworks import ModelSpec, TrainingSpec, write_configuration
from synth.step.sharding import parse_recipe
from synth.step.zoo.sizes import sizes_of

CUT = "data=8 tensor=4; batch over data; weights over tensor as Megatron"
TOKENS = CUT + "; tokens over tensor"
CONTEXT = "data=4 seq=4 tensor=2; batch over data; tokens over seq; "
CONTEXT += "weights over tensor as Megatron; zero=3"


@pytest.mark.parametrize(
    ("framework", "text", "name", "changes", "refused", "written"),
    [
        ("megatron", TOKENS, "llama3-8b", {}, 4098, 4100),
        ("megatron", CUT, "gpt2-small", {"vocabulary": 50304}, 1032, 1024),
        ("torchtitan", CUT, "llama3-8b", {}, 4098, 4100),
        ("torchtitan", CONTEXT, "llama3-8b", {}, 4104, 4112),
        ("bridge", CONTEXT.replace("; zero=3", ""), "llama3-8b", {}, 4100, 4104),
    ],
)
def test_tokens_that_a_framework_cannot_divide_are_refused(
    framework: str, text: str, name: str, changes: dict[str, int], refused: int, written: int
) -> None:
    """Two slices for each rank of context, parts over tensor, places that a model has."""
    recipe, model = parse_recipe(text), ModelSpec(name, sizes_of(name, changes))
    found = write_configuration(
        framework, recipe, model, TrainingSpec(64, written), machine(recipe)
    )
    assert read(framework, found, model).axes == recipe.axes
    with pytest.raises(InputError, match=f"^{refused} tokens"):
        write_configuration(framework, recipe, model, TrainingSpec(64, refused), machine(recipe))


def test_a_wide_layer_that_tensor_does_not_divide_is_refused() -> None:
    recipe = parse_recipe(CUT)
    model = ModelSpec("llama3-8b", sizes_of("llama3-8b", {"hidden": 14334}))
    with pytest.raises(InputError, match="14334 elements of the MLP in 4 parts"):
        write_configuration("megatron", recipe, model, TrainingSpec(64, 8192), machine(recipe))


@pytest.mark.parametrize("framework", ["megatron", "bridge"])
def test_rounds_of_microbatches_that_ranks_do_not_divide_are_read_back(framework: str) -> None:
    """Six over four ranks go in one round; two rounds would be of unequal ones."""
    text = "pipe=4 data=8; batch over data; schedule interleaved-1f1b, 2 chunks, 6 microbatches"
    recipe, model = parse_recipe(text), MODELS["llama3-8b"]
    found = write_configuration(framework, recipe, model, TrainingSpec(96, 8192), machine(recipe))
    assert replace(read(framework, found, model), vocabulary="") == recipe


def test_a_layout_alone_determines_the_chunks() -> None:
    """``validate_args`` refuses both."""
    text = "pipe=4 data=8; batch over data; schedule interleaved-1f1b, 2 chunks, 4 microbatches"
    for more, by_layout in (("", False), ("; stages of 3, 6 times 4, 5 layers", True)):
        recipe = parse_recipe(text + more)
        on, job = machine(recipe), TrainingSpec(64, 8192)
        found = write_configuration("megatron", recipe, MODELS["llama3-8b"], job, on)
        flags = words(str(found.files["arguments.sh"]))
        assert ("--pipeline-model-parallel-layout" in flags) == by_layout
        assert ("--num-virtual-stages-per-pipeline-rank" in flags) != by_layout


def test_experts_over_all_that_cuts_the_batch_are_ranks_of_data_of_deepspeed() -> None:
    """Over a part of them, its order of ranks has no axis for them."""
    text = "expert=8 tensor=4; batch over expert; experts over expert; "
    recipe, model = parse_recipe(text + "weights over tensor as Megatron"), MODELS["mixtral-8x7b"]
    found = write_configuration("deepspeed", recipe, model, TrainingSpec(64, 4096), machine(recipe))
    assert read("deepspeed", found, model) == recipe
    part = parse_recipe("data=4 expert=8; batch over data and expert; experts over expert")
    with pytest.raises(InputError, match="some of the data-parallel ranks"):
        write_configuration("deepspeed", part, model, TrainingSpec(64, 4096), machine(part))
