"""DeepSpeed: its JSON, which says ZeRO, batches and numbers; the rest is in a model's code.

Source: ``deepspeed`` 0.19.8 (2026-10; ``runtime/config.py``, ``runtime/zero/config.py``,
``runtime/tensor_parallel/config.py``, ``runtime/pipe/engine.py``), Apache 2.0, read on 2026-11-23.

What of a recipe is what there:

* ``train_batch_size`` is micro batch x accumulation x ranks of data;
* stages are a ``PipelineModule`` in the code, in the order 1F1B, whose microbatches are
  the accumulation; ZeRO goes with them up to stage 1;
* experts are ``MoE(..., ep_size=...)`` in the code, over ranks of data, here over all of them;
* tensor parallelism is AutoTP's (of models of Hugging Face), up to ZeRO stage 2, without stages;
* tokens on an axis of their own are sent from rank to rank by all-to-all there (Ulysses), which is
  another plan than gathering keys and values: refused.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hierarchies import Axis, InputError
from synth.collective.emit.mesh import RankOrder
from synth.step.frameworks.asked import (
    ConfigurationInputs,
    FrameworkFiles,
    PlacedSystem,
    RecipeDifferences,
)
from synth.step.frameworks.launch import Launch, write_launch
from synth.step.frameworks.megatron import note_first
from synth.step.sharding.plan import PIPE
from synth.step.zoo.sizes import Gpt2, Llama

NUMBERS = {"bfloat16": "bf16", "float16": "fp16"}


def deepspeed(asked: ConfigurationInputs) -> FrameworkFiles:
    """``deepspeed.json``, for any model. Raises InputError."""
    _check(asked)
    recipe, sizes = asked.named, asked.sizes
    differs = RecipeDifferences(recipe)
    if sizes["tensor"] > 1 and recipe.vocabulary:
        note = "AutoTP cuts no table of tokens: the vocabulary is whole on every device"
        differs.say(note, replace(recipe, vocabulary=""))
    _note_unsupported(asked, differs)
    note_first(differs)
    body: dict[str, Any] = {
        "train_batch_size": asked.job.batch,
        "train_micro_batch_size_per_gpu": asked.samples,
        "gradient_accumulation_steps": recipe.microbatches,
        "zero_optimization": _zero(asked),
    }
    if numbers := NUMBERS.get(asked.job.numbers):
        body[numbers] = {"enabled": True}
    if sizes["tensor"] > 1:
        body["tensor_parallel"] = {"autotp_size": sizes["tensor"]}
    command = '"${TRAIN:?your program}" --deepspeed --deepspeed_config deepspeed.json'
    said = [f"# differs: {one}" for one in differs.notes]
    more = write_launch(
        asked, Launch.of(_merge_experts(asked), RankOrder.DEEPSPEED), command, before=said
    )
    more["deepspeed.json"] = json.dumps(body, indent=2) + "\n"
    return FrameworkFiles(more, differs.recipe, tuple(differs.notes))


def _merge_experts(asked: ConfigurationInputs) -> PlacedSystem:
    """Experts are over ranks of data, which are all that its order of ranks knows."""
    seated, sizes = asked.seated, asked.sizes
    if sizes["expert"] == 1:
        return seated
    if sizes["data"] > 1:
        raise InputError(
            "experts over a part of the ranks of data",
            hint="DeepSpeed's order of ranks has no axis for them: experts over all that cuts the"
            " batch",
        )
    axes = tuple(
        Axis("data", one.size) if one.name == "expert" else one for one in seated.placement.axes
    )
    return replace(seated, placement=replace(seated.placement, axes=axes))


def _check(asked: ConfigurationInputs) -> None:
    recipe, sizes = asked.named, asked.sizes
    if isinstance(asked.model.sizes, Gpt2 | Llama):
        asked.check_decoder()
    if sizes["seq"] > 1:
        raise InputError(
            "tokens over an axis of their own",
            hint="DeepSpeed sends heads by all-to-all (Ulysses), where here keys are gathered",
        )
    if recipe.tokens:
        raise InputError(
            "tokens over the axis of the weights", hint="DeepSpeed's AutoTP has no such cut"
        )
    if sizes[PIPE] > 1:
        _check_stages(asked)
    if sizes["tensor"] > 1 and recipe.zero == 3:
        raise InputError("zero=3 beside weights over tensor", hint="AutoTP goes with zero=0 to 2")


def _check_stages(asked: ConfigurationInputs) -> None:
    recipe = asked.named
    if recipe.schedule != "1f1b":
        raise InputError(
            f"DeepSpeed has no schedule {recipe.schedule}", hint="its PipelineModule does 1f1b"
        )
    if recipe.layers:
        raise InputError(
            "stages of unequal numbers of layers",
            hint="DeepSpeed's PipelineModule balances layers, parameters or types by itself",
        )
    if recipe.zero > 1:
        raise InputError(f"zero={recipe.zero} on stages", hint="DeepSpeed: zero=0 or 1")
    if asked.sizes["tensor"] > 1:
        raise InputError("weights over tensor on stages", hint="DeepSpeed's AutoTP has no stages")


def _note_unsupported(asked: ConfigurationInputs, differs: RecipeDifferences) -> None:
    """What the JSON has no word for: said, and not carried by it."""
    recipe, stages = differs.recipe, asked.sizes[PIPE]
    if stages > 1:
        differs.say(f"stages are code: PipelineModule(layers, num_stages={stages})")
    if recipe.experts:
        each = asked.sizes["expert"]
        differs.say(f"experts are code: deepspeed.moe.layer.MoE(..., ep_size={each})")
    if recipe.remat:
        differs.say("layers done again are code: gradient_checkpointing_enable() or the like")


def _zero(asked: ConfigurationInputs) -> dict[str, Any]:
    recipe = asked.named
    found: dict[str, Any] = {"stage": recipe.zero}
    if recipe.zero:
        found["overlap_comm"] = True
    if recipe.bucket_bytes:
        each = 4 if asked.job.numbers == "float32" else 2
        found["reduce_bucket_size"] = max(1, recipe.bucket_bytes // each)
    return found
