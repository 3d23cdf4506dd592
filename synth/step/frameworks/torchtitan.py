"""torchtitan: writes a Python configuration (0.3), or TOML (0.2).

Source: the wheels ``torchtitan`` 0.3.0 (2026-09; ``config/configs.py``, ``config/README.md``,
``models/llama3/config_registry.py``, ``distributed/pipeline_parallel.py``) and 0.2.2, the last
version that reads TOML (``config/job_config.py``, ``models/llama3/infra/parallelize.py``), BSD
3-clause, read on 2026-11-23.

Its models have flavours, not sizes: Decoder 3 of the zoo at its published sizes. How it expresses a
recipe:

* ``zero=0`` is ``dp_replicate``; 2 and 3 are ``dp_shard``, whose parameters are freed after the
  forward pass (3) or kept (2); moments alone are never sharded;
* tokens along an axis of their own are its context parallelism, over which FSDP shards, too;
* tensor parallelism always cuts the vocabulary; 0.2 always shards the activations between layers
  by tokens;
* layers are assigned to stages by name, in any numbers; schedules are PyTorch's, by its names;
* blocks and the loss are compiled (``compile``, off by default), as predictions assume, unless the
  schedule splits backward passes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate, pairwise

from hierarchies import InputError
from synth.collective.emit.mesh import RankOrder
from synth.collective.emit.text import templates
from synth.step.frameworks.inputs import (
    ConfigurationInputs,
    FrameworkFiles,
    RecipeDifferences,
    RecipeInputs,
    check_divides,
)
from synth.step.frameworks.launch import Launch, write_launch
from synth.step.schedules import HALVES
from synth.step.sharding.plan import PIPE
from synth.step.zoo.sizes import ZOO, Decoder

Value = bool | int | str | list[list[str]]
Sections = Mapping[str, Mapping[str, Value]]

FLAVOURS: Mapping[str, tuple[str, str]] = {
    "llama3-8b": ("8B", "llama3_8b"),
    "llama3-70b": ("70B", "llama3_70b"),
    "llama3-405b": ("405B", "llama3_405b"),
}
"""The flavour of each zoo model, and the function that returns it in 0.3."""

SCHEDULES: Mapping[str, str] = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved-1f1b": "Interleaved1F1B",
    "looped-bfs": "LoopedBFS",
    "zero-bubble-h1": "InterleavedZeroBubble",
    "zbv": "ZBVZeroBubble",
    "dualpipev": "DualPipeV",
}
RESHARD_POLICIES = {0: "default", 2: "never", 3: "always"}
OUTPUT_NAMES = {"0.3": "lm_head", "0.2": "output"}
"""The name of the last matrix in each version."""


def torchtitan(inputs: ConfigurationInputs) -> FrameworkFiles:
    """Writes ``collsynth_torchtitan.py``, for 0.3. Raises InputError."""
    _, base = _flavour(inputs)
    sections, differs = _decide_settings(inputs, "0.3")
    text = templates("synth.step.frameworks").get_template("torchtitan.py.jinja")
    said = [(section, _python(values)) for section, values in sections.items()]
    script = text.render(
        head=inputs.head, notes=differs.notes, base=base, said=said, remat=inputs.recipe.remat
    )
    before = ['export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"']
    command = "-m torchtitan.train --module collsynth_torchtitan --config config"
    how = Launch.of(inputs.seated, RankOrder.TORCHTITAN)
    launch = write_launch(inputs, how, command, before=before)
    return differs.written({"collsynth_torchtitan.py": script, **launch}, how.order)


def torchtitan_toml(inputs: ConfigurationInputs) -> FrameworkFiles:
    """Writes ``torchtitan.toml``, for 0.2. Raises InputError."""
    flavour, _ = _flavour(inputs)
    sections, differs = _decide_settings(inputs, "0.2")
    text = templates("synth.step.frameworks").get_template("torchtitan.toml.jinja")
    said = [(section, _toml(values)) for section, values in sections.items()]
    mode = "full" if inputs.recipe.remat else "none"
    script = text.render(
        head=inputs.head, notes=differs.notes, flavour=flavour, said=said, mode=mode
    )
    command = "-m torchtitan.train --job.config_file torchtitan.toml"
    how = Launch.of(inputs.seated, RankOrder.TORCHTITAN)
    launch = write_launch(inputs, how, command)
    return differs.written({"torchtitan.toml": script, **launch}, how.order)


def _toml(values: Mapping[str, Value]) -> list[str]:
    """Returns lines of TOML, in which numbers, strings and lists are spelled as in JSON."""
    return [f"{name} = {json.dumps(value)}" for name, value in values.items()]


def _python(values: Mapping[str, Value]) -> list[str]:
    spelled = {
        name: str(value) if isinstance(value, bool) else json.dumps(value)
        for name, value in values.items()
    }
    return [f"{name} = {value}" for name, value in spelled.items()]


def _flavour(inputs: RecipeInputs) -> tuple[str, str]:
    """Returns the flavour of a model. Raises InputError if torchtitan has none for it."""
    inputs.refuse_precision("torchtitan")
    sizes = inputs.model.sizes
    for name, flavour in FLAVOURS.items():
        known = ZOO[name]
        if not (isinstance(known, Decoder) and isinstance(sizes, Decoder)):
            continue
        if replace(known, sequence=sizes.sequence) == sizes:
            return flavour
    raise InputError(
        f"torchtitan has no flavour of {inputs.model.name} of these sizes",
        hint=f"it has those of {', '.join(FLAVOURS)}",
    )


def decide_torchtitan(version: str, inputs: RecipeInputs) -> RecipeDifferences:
    """Returns what a version runs instead of a recipe. Raises InputError if it cannot run it."""
    return _decide_settings(inputs, version)[1]


def _decide_settings(inputs: RecipeInputs, version: str) -> tuple[Sections, RecipeDifferences]:
    """Returns the options of the sections that both versions have, by section."""
    _flavour(inputs)
    inputs.check_decoder()
    recipe, sizes = inputs.named, inputs.sizes
    differs = RecipeDifferences(recipe)
    _check(inputs, version)
    if sizes["tensor"] > 1 and not recipe.vocabulary:
        check_divides(inputs.decoder.vocabulary, "words", sizes["tensor"], "parts over tensor")
        note = "torchtitan also shards the vocabulary over tensor"
        differs.say(note, replace(differs.recipe, vocabulary="tensor"))
    if recipe.zero and recipe.microbatches > 1 and sizes[PIPE] == 1:
        differs.say("torchtitan sums gradients over data in each microbatch, not once a step")
    if recipe.bucket_bytes:
        note = "torchtitan has no bucket size: it sends the gradients of a layer together"
        differs.say(note, replace(differs.recipe, bucket_bytes=0))
    compiles = recipe.schedule not in HALVES
    if not compiles:
        differs.say(f"{recipe.schedule} splits backward passes: torch.compile stays off")
    differs.note_first()
    training = _training(inputs)
    if version == "0.3" and sizes[PIPE] > 1:
        training["disable_cuda_graphs"] = True
    # A predicted step reads and writes no value between element-wise operations: eager ones do.
    # A split backward pass retains its graph, which compiled ones with donated buffers refuse.
    compiled: dict[str, Value] = {"enable": compiles}
    parallelism = _parallelism(inputs, version)
    return {"training": training, "parallelism": parallelism, "compile": compiled}, differs


def _check(inputs: RecipeInputs, version: str) -> None:
    recipe, sizes = inputs.named, inputs.sizes
    if recipe.schedule and recipe.schedule not in SCHEDULES:
        raise InputError(
            f"PyTorch has no schedule {recipe.schedule}", hint=f"it has {', '.join(SCHEDULES)}"
        )
    if recipe.zero == 1:
        raise InputError(
            "zero=1: torchtitan shards moments only together with gradients", hint="zero=2 or 3"
        )
    if inputs.job.numbers == "float16":
        raise InputError("torchtitan computes in bfloat16 or float32, not in float16")
    if not recipe.zero and sizes["seq"] > 1:
        raise InputError(
            "tokens over seq with whole parameters",
            hint="torchtitan's context parallelism shards them: zero=2 or 3 over data",
        )
    if sizes["seq"] > 1:
        parts = 2 * sizes["seq"] * sizes["tensor"]
        check_divides(inputs.job.sequence, "tokens", parts, "slices (two a rank of seq, by tensor)")
    elif sizes["tensor"] > 1:
        check_divides(inputs.job.sequence, "tokens", sizes["tensor"], "parts over tensor")
    if version == "0.2":
        _check_toml(inputs)


def _check_toml(inputs: RecipeInputs) -> None:
    recipe, sizes = inputs.named, inputs.sizes
    if not recipe.zero and 1 < sizes["data"] < inputs.devices:
        raise InputError(
            "torchtitan 0.2 has replicas (zero=0) only without other axes",
            hint="zero=2 or 3, or version 0.3",
        )
    if sizes["tensor"] > 1 and recipe.tokens != "tensor":
        raise InputError(
            "weights over tensor, with whole activations between them",
            hint="torchtitan 0.2 shards activations by tokens: tokens over the same "
            "axis, or version 0.3",
        )


def _training(inputs: RecipeInputs) -> dict[str, Value]:
    """Returns the training section; with stages a device receives all its samples at once.

    Without stages it receives the samples of a microbatch.
    """
    staged = inputs.sizes[PIPE] > 1
    at_once = inputs.recipe.microbatches if staged else 1
    return {
        "local_batch_size": inputs.samples * at_once,
        "global_batch_size": inputs.job.batch,
        "seq_len": inputs.job.sequence,
        "mixed_precision_param": inputs.job.numbers,
    }


def _parallelism(inputs: RecipeInputs, version: str) -> dict[str, Value]:
    recipe, sizes = inputs.named, inputs.sizes
    options: dict[str, Value] = {
        "data_parallel_replicate_degree": 1 if recipe.zero else sizes["data"],
        "data_parallel_shard_degree": sizes["data"] if recipe.zero else 1,
        "fsdp_reshard_after_forward": RESHARD_POLICIES[recipe.zero],
        "tensor_parallel_degree": sizes["tensor"],
        "context_parallel_degree": sizes["seq"],
        "pipeline_parallel_degree": sizes[PIPE],
    }
    if version == "0.3":
        by_tokens = recipe.tokens == "tensor" or sizes["tensor"] == 1
        options["enable_sequence_parallel"] = by_tokens
    if sizes[PIPE] > 1:
        options |= {
            "pipeline_parallel_schedule": SCHEDULES[recipe.schedule],
            "pipeline_parallel_microbatch_size": inputs.samples,
            "module_fqns_per_model_part": _stages(inputs, OUTPUT_NAMES[version]),
        }
    return options


def _stages(inputs: RecipeInputs, last: str) -> list[list[str]]:
    """Returns the layers of each stage: the table of tokens first, the output on the last."""
    ends = [0, *accumulate(inputs.layers)]
    stages = [[f"layers.{layer}" for layer in range(*bounds)] for bounds in pairwise(ends)]
    stages[0].insert(0, "tok_embeddings")
    stages[-1] += ["norm", last]
    return stages
