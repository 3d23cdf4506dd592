"""DeepSpeed: writes its JSON, which has ZeRO, batches and dtypes; model code holds the rest.

Source: ``deepspeed`` 0.19.8 (2026-10; ``runtime/config.py``, ``runtime/zero/config.py``,
``runtime/tensor_parallel/config.py``, ``runtime/pipe/engine.py``), Apache 2.0, read on 2026-11-23.

How it expresses a recipe:

* ``train_batch_size`` is micro batch x accumulation x ranks of data;
* stages are a ``PipelineModule`` in the code, scheduled by 1F1B, whose microbatches are the
  accumulation; they work with ZeRO up to stage 1;
* experts are ``MoE(..., ep_size=...)`` in the code, over ranks of data; here over all of them;
* tensor parallelism is AutoTP (for models of Hugging Face), up to ZeRO stage 2, without stages;
* tokens on an axis of their own are exchanged by all-to-all (Ulysses). That plan differs from
  gathering keys and values, so the recipe is refused.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hierarchies import Axis, InputError
from synth.collective.emit.launchers import PlacedSystem
from synth.collective.emit.mesh import RankOrder
from synth.step.frameworks.inputs import (
    ConfigurationInputs,
    FrameworkFiles,
    RecipeDifferences,
    RecipeInputs,
)
from synth.step.frameworks.launch import Launch, write_launch
from synth.step.sharding.plan import PIPE
from synth.step.zoo.sizes import Decoder, Gpt2

NUMBERS = {"bfloat16": "bf16", "float16": "fp16"}


def deepspeed(inputs: ConfigurationInputs) -> FrameworkFiles:
    """Writes ``deepspeed.json``, for any model. Raises InputError."""
    differs = decide_deepspeed(inputs)
    recipe, sizes = inputs.named, inputs.sizes
    body: dict[str, Any] = {
        "train_batch_size": inputs.job.batch,
        "train_micro_batch_size_per_gpu": inputs.samples,
        "gradient_accumulation_steps": recipe.microbatches,
        "zero_optimization": _zero(inputs),
    }
    if numbers := NUMBERS.get(inputs.job.numbers):
        body[numbers] = {"enabled": True}
    if sizes["tensor"] > 1:
        body["tensor_parallel"] = {"autotp_size": sizes["tensor"]}
    command = '"${TRAIN:?your program}" --deepspeed --deepspeed_config deepspeed.json'
    notes = [f"# differs: {note}" for note in differs.notes]
    how = Launch.of(_merge_experts(inputs), RankOrder.DEEPSPEED)
    files = write_launch(inputs, how, command, before=notes)
    files["deepspeed.json"] = json.dumps(body, indent=2) + "\n"
    return differs.written(files, how.order)


def decide_deepspeed(inputs: RecipeInputs) -> RecipeDifferences:
    """Returns what DeepSpeed runs instead of a recipe. Raises InputError if it cannot run it."""
    _check(inputs)
    recipe, differs = inputs.named, RecipeDifferences(inputs.named)
    if inputs.sizes["tensor"] > 1 and recipe.vocabulary:
        note = "AutoTP does not shard the embedding: the vocabulary is whole on every device"
        differs.say(note, replace(recipe, vocabulary=""))
    _note_unsupported(inputs, differs)
    differs.note_first()
    return differs


def _merge_experts(inputs: ConfigurationInputs) -> PlacedSystem:
    """Maps experts to ranks of data, the only axis in DeepSpeed's order of ranks."""
    seated = inputs.seated
    if inputs.sizes["expert"] == 1:
        return seated
    axes = tuple(
        Axis("data", axis.size) if axis.name == "expert" else axis for axis in seated.placement.axes
    )
    return replace(seated, placement=replace(seated.placement, axes=axes))


def _check(inputs: RecipeInputs) -> None:
    inputs.refuse_precision("DeepSpeed")
    recipe, sizes = inputs.named, inputs.sizes
    if isinstance(inputs.model.sizes, Gpt2 | Decoder):
        inputs.check_decoder()
    if sizes["seq"] > 1:
        raise InputError(
            "tokens over a separate axis",
            hint="DeepSpeed exchanges heads by all-to-all (Ulysses); this plan gathers keys",
        )
    if recipe.tokens:
        raise InputError(
            "tokens over the axis of the weights", hint="DeepSpeed's AutoTP does not support it"
        )
    if sizes[PIPE] > 1:
        _check_stages(inputs)
    if sizes["tensor"] > 1 and recipe.zero == 3:
        raise InputError("zero=3 with weights over tensor", hint="AutoTP supports zero=0 to 2")
    if sizes["expert"] > 1 and sizes["data"] > 1:
        raise InputError(
            "experts over some of the data-parallel ranks",
            hint="DeepSpeed's order of ranks has no axis for them: shard experts over all"
            " axes of the batch",
        )


def _check_stages(inputs: RecipeInputs) -> None:
    recipe = inputs.named
    if recipe.schedule != "1f1b":
        raise InputError(
            f"DeepSpeed has no schedule {recipe.schedule}", hint="its PipelineModule uses 1f1b"
        )
    if recipe.layers:
        raise InputError(
            "stages with unequal numbers of layers",
            hint="DeepSpeed's PipelineModule balances layers, parameters or types by itself",
        )
    if recipe.zero > 1:
        raise InputError(f"zero={recipe.zero} on stages", hint="DeepSpeed: zero=0 or 1")
    if inputs.sizes["tensor"] > 1:
        raise InputError("weights over tensor on stages", hint="DeepSpeed's AutoTP has no stages")


def _note_unsupported(inputs: RecipeInputs, differs: RecipeDifferences) -> None:
    """Notes the parts of a recipe that the JSON cannot express and therefore omits."""
    recipe, stages = differs.recipe, inputs.sizes[PIPE]
    if stages > 1:
        differs.say(f"stages need code: PipelineModule(layers, num_stages={stages})")
    if recipe.experts:
        size = inputs.sizes["expert"]
        differs.say(f"experts need code: deepspeed.moe.layer.MoE(..., ep_size={size})")
    if recipe.remat:
        differs.say("recomputed layers need code: gradient_checkpointing_enable() or similar")


def _zero(inputs: ConfigurationInputs) -> dict[str, Any]:
    recipe = inputs.named
    settings: dict[str, Any] = {"stage": recipe.zero}
    if recipe.zero:
        settings["overlap_comm"] = True
    if recipe.bucket_bytes:
        # DeepSpeed counts a bucket in elements, a recipe in bytes.
        element_bytes = 4 if inputs.job.numbers == "float32" else 2
        settings["reduce_bucket_size"] = max(1, recipe.bucket_bytes // element_bytes)
    return settings
