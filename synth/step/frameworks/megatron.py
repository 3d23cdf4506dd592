"""Megatron-LM and Megatron-Bridge: one engine, configured by flags or by Python objects.

Source of both: the wheels of ``megatron-core`` 0.19.2 (``megatron/training/arguments.py``:
``validate_args``; ``megatron/core/transformer/transformer_config.py``; ``pipeline_parallel/
schedules.py``; ``parallel_state.py``) and of ``megatron-bridge`` 0.6.2 (``training/config.py``,
``models/gpt_provider.py``, ``recipes/gpt``), both of 2026-09, Apache 2.0, read on 2026-11-23.

How they express a recipe:

* stages are scheduled by 1F1B or by interleaved 1F1B, whose rounds have
  ``microbatch-group-size-per-virtual-pipeline-stage`` microbatches: at least as many as stages;
  stages with unequal numbers of layers are a ``pipeline-model-parallel-layout``; ``validate_args``
  derives the chunks from it, and refuses a number of chunks given by a flag;
* ``zero=1`` is the distributed optimizer, 2 and 3 are Megatron-FSDP, without stages here;
* tokens along an axis of their own are its context parallelism with keys and values gathered,
  where each rank has two slices, so twice the axis's size must divide the tokens;
* experts over an axis that also cuts the batch are ``expert-model-parallel-size``, a part of the
  data-parallel size in a grid without ``cp``: together with tokens along an axis of their own they
  would be placed along that axis;
* the vocabulary is always cut by tensor, and padded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from shlex import quote

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
from synth.step.frameworks.megatron_model import (
    LayerPattern,
    Settings,
    Value,
    describe_model,
    refuse_unsupported,
)
from synth.step.sharding.plan import PIPE
from synth.step.sharding.recipes import Recipe
from synth.step.zoo.forms import FEATURES
from synth.step.zoo.sizes import Decoder

SCHEDULES = ("1f1b", "interleaved-1f1b")
PADDING_MULTIPLE = 128
"""Each part of the vocabulary is a multiple of a power of two, at most this number."""
SHARDING_STRATEGIES = {2: "optim_grads", 3: "optim_grads_params"}


SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "layers": ("num-layers", "model.num_layers = {}"),
    "width": ("hidden-size", "model.hidden_size = {}"),
    "hidden": ("ffn-hidden-size", "model.ffn_hidden_size = {}"),
    "heads": ("num-attention-heads", "model.num_attention_heads = {}"),
    "grouped": ("group-query-attention",),
    "key_heads": ("num-query-groups", "model.num_query_groups = {}"),
    "sequence": ("seq-length", "model.seq_length = {}", "dataset.seq_length = {}"),
    "longest": ("max-position-embeddings",),
    "positions": ("position-embedding-type", "model.position_embedding_type = {}"),
    "rotary_base": ("rotary-base", "model.rotary_base = {}"),
    "rotary_share": ("rotary-percent", "model.rotary_percent = {}"),
    "head_width": ("kv-channels", "model.kv_channels = {}"),
    "head_norms": ("qk-layernorm", "model.qk_layernorm = True"),
    "window": ("window-size", "model.window_size = {}"),
    "full_every": ("window-attn-skip-freq", "model.window_attn_skip_freq = {}"),
    "softmax": ("softmax-type", "model.softmax_type = {}"),
    "latent": ("multi-latent-attention",),
    "query_rank": ("q-lora-rank",),
    "key_rank": ("kv-lora-rank",),
    "plain_width": ("qk-head-dim",),
    "rotary_width": ("qk-pos-emb-head-dim",),
    "value_width": ("v-head-dim",),
    "norm": ("normalization", "model.normalization = {}"),
    "norm_epsilon": ("norm-epsilon", "model.layernorm_epsilon = {}"),
    "norm_plus_one": ("apply-layernorm-1p", "model.layernorm_zero_centered_gamma = True"),
    "swiglu": ("swiglu", "model.gated_linear_unit = True", "model.activation_func = F.silu"),
    "squared_relu": ("squared-relu", "model.activation_func = squared_relu"),
    "quick_geglu": (
        "quick-geglu",
        "model.gated_linear_unit = True",
        "model.activation_func = quick_gelu",
    ),
    "gate_offset": ("glu-linear-offset", "model.glu_linear_offset = {}"),
    "clamp": ("activation-func-clamp-value", "model.activation_func_clamp_value = {}"),
    "no_bias": ("disable-bias-linear", "model.add_bias_linear = False"),
    "attention_bias": ("add-qkv-bias", "model.add_qkv_bias = True"),
    "untied": (
        "untie-embeddings-and-output-weights",
        "model.share_embeddings_and_output_weights = False",
    ),
    "attention_dropout": ("attention-dropout", "model.attention_dropout = {}.0"),
    "hidden_dropout": ("hidden-dropout", "model.hidden_dropout = {}.0"),
    "vocabulary": (
        "vocab-size",
        "model.vocab_size = {}",
        "model.should_pad_vocab = True",
        "tokenizer.vocab_size = {}",
    ),
    "padded_to": ("make-vocab-size-divisible-by", "model.make_vocab_size_divisible_by = {}"),
    "experts": ("num-experts", "model.num_moe_experts = {}"),
    "chosen": ("moe-router-topk", "model.moe_router_topk = {}"),
    "expert_hidden": ("moe-ffn-hidden-size", "model.moe_ffn_hidden_size = {}"),
    "expert_layers": ("moe-layer-freq", "model.moe_layer_freq = {}"),
    "shared": (
        "moe-shared-expert-intermediate-size",
        "model.moe_shared_expert_intermediate_size = {}",
    ),
    "scores": ("moe-router-score-function", "model.moe_router_score_function = {}"),
    "softmax_of_all": ("moe-router-pre-softmax", "model.moe_router_pre_softmax = True"),
    "correction": (
        "moe-router-enable-expert-bias",
        "model.moe_router_enable_expert_bias = True",
    ),
    "score_scale": (
        "moe-router-topk-scaling-factor",
        "model.moe_router_topk_scaling_factor = {}",
    ),
    "groups": ("moe-router-num-groups", "model.moe_router_num_groups = {}"),
    "chosen_groups": ("moe-router-group-topk", "model.moe_router_group_topk = {}"),
    "dispatcher": ("moe-token-dispatcher-type", "model.moe_token_dispatcher_type = {}"),
    "grouped_products": ("moe-grouped-gemm", "model.moe_grouped_gemm = True"),
    "balanced": ("moe-router-load-balancing-type", "model.moe_router_load_balancing_type = {}"),
    "tensor": ("tensor-model-parallel-size", "model.tensor_model_parallel_size = {}"),
    "sequence_parallel": ("sequence-parallel", "model.sequence_parallel = True"),
    "pipe": ("pipeline-model-parallel-size", "model.pipeline_model_parallel_size = {}"),
    "chunks": (
        "num-virtual-stages-per-pipeline-rank",
        "model.virtual_pipeline_model_parallel_size = {}",
        "model.overlap_p2p_comm = True",
        "model.batch_p2p_comm = False",
    ),
    "layout": ("pipeline-model-parallel-layout", "model.pipeline_model_parallel_layout = {}"),
    "round": (
        "microbatch-group-size-per-virtual-pipeline-stage",
        "model.microbatch_group_size_per_vp_stage = {}",
    ),
    "context": ("context-parallel-size", "model.context_parallel_size = {}"),
    "context_by": ("cp-comm-type", "model.cp_comm_type = {}"),
    "expert": ("expert-model-parallel-size", "model.expert_model_parallel_size = {}"),
    "micro": ("micro-batch-size", "train.micro_batch_size = {}"),
    "batch": ("global-batch-size", "train.global_batch_size = {}"),
    "distributed": (
        "use-distributed-optimizer",
        "ddp.use_distributed_optimizer = True",
        "optimizer.use_distributed_optimizer = True",
    ),
    "fsdp": ("use-megatron-fsdp", "dist.use_megatron_fsdp = True", "ddp.use_megatron_fsdp = True"),
    "sharded": ("data-parallel-sharding-strategy", "ddp.data_parallel_sharding_strategy = {}"),
    "checkpoints": ("ckpt-format", "checkpoint.ckpt_format = {}"),
    "overlapped": ("overlap-grad-reduce", "ddp.overlap_grad_reduce = True"),
    "bucket": ("ddp-bucket-size", "ddp.bucket_size = {}"),
    "remade": ("recompute-granularity", "model.recompute_granularity = {}"),
    "remade_by": ("recompute-method", "model.recompute_method = {}"),
    "remade_layers": ("recompute-num-layers", "model.recompute_num_layers = {}"),
    "mapping": ("use-tp-pp-dp-mapping", "dist.use_tp_pp_dp_mapping = True"),
    "bf16": ("bf16", 'mixed_precision = "bf16_mixed"'),
    "fp16": ("fp16", 'mixed_precision = "fp16_mixed"'),
    "bf16_fp8": ("bf16", 'mixed_precision = "bf16_with_fp8_current_scaling_mixed"'),
    "fp16_fp8": ("fp16", 'mixed_precision = "fp16_with_fp8_current_scaling_mixed"'),
    "bf16_mxfp8": ("bf16", 'mixed_precision = "bf16_with_mxfp8_mixed"'),
    "fp16_mxfp8": ("fp16", 'mixed_precision = "fp16_with_mxfp8_mixed"'),
    "fp8_format": ("fp8-format",),
    "fp8_recipe": ("fp8-recipe",),
}
"""Every setting that is written, in this order: its flag, and its lines in a Bridge recipe.

``{}`` stands for its value.
"""

_MAPPING = f"--{SPELLINGS['mapping'][0]}"
SHORT_DTYPES = {"bfloat16": "bf16", "float16": "fp16"}
FP8_RECIPES: Mapping[str, Settings] = {
    "fp8": {"fp8_format": "hybrid", "fp8_recipe": "tensorwise"},
    "mxfp8": {"fp8_format": "e4m3", "fp8_recipe": "mxfp8"},
}
"""Transformer Engine's recipe of each precision (Megatron Core, *Low-Precision Training Guide*)."""
ACTIVATIONS = ("quick_gelu", "squared_relu")
"""Functions of ``megatron.core.activations`` that a Bridge recipe may name."""
BRIDGE_RECIPES: Mapping[str, str] = {
    "fp8": "keeps the first and the last layer in 16 bits, and gathers parameters in eight",
    "mxfp8": "gathers parameters in eight bits",
}
"""What Megatron-Bridge's mixed-precision recipes do besides (``training/mixed_precision.py`` of
wheel 0.3.1, read on 2026-11-30)."""


def megatron(inputs: ConfigurationInputs) -> FrameworkFiles:
    """Writes ``arguments.sh``: flags of ``pretrain_gpt.py`` in bash. Raises InputError."""
    settings, differs, how = _write_settings(inputs)
    text = _template("megatron.sh.jinja", inputs, differs, flags=[*_flags(settings)])
    command = '"$MEGATRON"/pretrain_gpt.py "${ARGUMENTS[@]}" "${DATA[@]}" "${TRAINING[@]}"'
    before = [*_environment(settings, inputs), ': "${MEGATRON:?the folder of Megatron-LM}"']
    launch = write_launch(inputs, how, command, before=[*before, "source arguments.sh"])
    return differs.written({"arguments.sh": text, **launch}, how.order)


def bridge(inputs: ConfigurationInputs) -> FrameworkFiles:
    """Writes ``collsynth_bridge.py``: a function that builds Megatron-Bridge's ConfigContainer.

    Raises InputError as ``megatron`` does, since both use the same engine, and for latent
    attention.
    """
    _refuse_latent(inputs)
    settings, differs, how = _write_settings(inputs)
    if note := BRIDGE_RECIPES.get(inputs.job.precision):
        differs.say(f"Megatron-Bridge's recipe for {inputs.job.precision} {note}")
    lines = [*_lines(settings, inputs)]
    imports = [name for name in ACTIVATIONS if any(line.endswith(f" {name}") for line in lines)]
    text = _template("bridge.py.jinja", inputs, differs, lines=lines, imports=imports)
    before = [
        *_environment(settings, inputs),
        'export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"',
    ]
    launch = write_launch(inputs, how, "collsynth_bridge.py", before=before)
    return differs.written({"collsynth_bridge.py": text, **launch}, how.order)


def _template(
    name: str, inputs: ConfigurationInputs, differs: RecipeDifferences, **words: object
) -> str:
    template = templates("synth.step.frameworks").get_template(name)
    return template.render(head=inputs.head, notes=differs.notes, **words)


def _flags(settings: Settings) -> Iterator[str]:
    for name, value in settings.items():
        if name == "chunks" and "layout" in settings:
            continue
        flag = f"--{SPELLINGS[name][0]}"
        yield flag if value is True else f"{flag} {quote(_spell_flag(value))}"


def _spell_flag(value: Value) -> str:
    """Spells a value as on a command line; patterns as ``moe_freq_type`` reads them."""
    match value:
        case LayerPattern(runs):
            return f"({'+'.join(f'[{number}]*{times}' for number, times in runs)})"
        case tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)


def _lines(settings: Settings, inputs: ConfigurationInputs) -> Iterator[str]:
    for name, value in settings.items():
        for line in SPELLINGS[name][1:]:
            yield f"cfg.{line.format(_literal(value))}"
    if "distributed" not in settings:  # Bridge copies a true value of either field to both.
        yield "cfg.ddp.use_distributed_optimizer = False"
        yield "cfg.optimizer.use_distributed_optimizer = False"
    if inputs.job.numbers == "float32":
        yield "cfg.mixed_precision = None"


def _literal(value: Value) -> str:
    if isinstance(value, LayerPattern):
        return " + ".join(f"[{number}] * {times}" for number, times in value.runs)
    return f'"{value}"' if isinstance(value, str) else str(value)


def _environment(settings: Settings, inputs: ConfigurationInputs) -> list[str]:
    """Returns exports: validate_args needs one work queue before Blackwell, and FSDP refuses it."""
    overlaps = inputs.sizes["tensor"] > 1 or inputs.sizes["seq"] > 1
    if "fsdp" in settings:
        return ["unset CUDA_DEVICE_MAX_CONNECTIONS"]
    return ["export CUDA_DEVICE_MAX_CONNECTIONS=1"] if overlaps else []


def _write_settings(inputs: ConfigurationInputs) -> tuple[Settings, RecipeDifferences, Launch]:
    """Returns the settings in the order in which they are written."""
    settings, differs = _decide_settings(inputs)
    how = Launch.of(inputs.seated, RankOrder.MEGATRON, [] if inputs.named.experts else [_MAPPING])
    if how.flag:
        settings["mapping"] = True
    return {name: settings[name] for name in SPELLINGS if name in settings}, differs, how


def decide_bridge(inputs: RecipeInputs) -> RecipeDifferences:
    """Returns what Megatron-Bridge runs instead of a recipe. Raises InputError as ``bridge``."""
    _refuse_latent(inputs)
    return decide_megatron(inputs)


def _refuse_latent(inputs: RecipeInputs) -> None:
    if inputs.decoder.form.latent:
        raise InputError(
            f"{inputs.model.name} has {FEATURES['latent']}",
            hint="Megatron-Bridge's vanilla recipe has none: write files for megatron",
        )


def decide_megatron(inputs: RecipeInputs) -> RecipeDifferences:
    """Returns what Megatron runs instead of a recipe. Raises InputError if it cannot run it."""
    return _decide_settings(inputs)[1]


def _decide_settings(inputs: RecipeInputs) -> tuple[Settings, RecipeDifferences]:
    decoder, differs = inputs.check_decoder(), RecipeDifferences(inputs.named)
    refuse_unsupported(inputs.model.name, decoder)
    settings = _model(inputs, decoder, differs) | _parallel(inputs, differs)
    settings |= _sharding(inputs, differs) | _other_settings(inputs, differs)
    return settings, differs


def _model(inputs: RecipeInputs, decoder: Decoder, differs: RecipeDifferences) -> Settings:
    settings = describe_model(decoder)
    settings |= {"sequence": inputs.job.sequence, "longest": decoder.sequence}
    if decoder.experts > 1:
        differs.say("an expert processes all tokens routed to it (none is dropped)")
    return settings | _vocabulary(inputs, decoder, differs)


def _vocabulary(inputs: RecipeInputs, decoder: Decoder, differs: RecipeDifferences) -> Settings:
    tensor = inputs.sizes["tensor"]
    fits = [size for size in _powers(PADDING_MULTIPLE) if decoder.vocabulary % (size * tensor) == 0]
    multiple = fits[0] if fits else 1
    if tensor > 1 and not differs.recipe.vocabulary:
        padded = -decoder.vocabulary % tensor + decoder.vocabulary
        differs.say(
            f"Megatron also shards the vocabulary over tensor ({padded} words in {tensor} parts)",
            replace(differs.recipe, vocabulary="tensor"),
        )
    return {"vocabulary": decoder.vocabulary, "padded_to": multiple}


def _powers(largest: int) -> Iterator[int]:
    while largest:
        yield largest
        largest //= 2


def _parallel(inputs: RecipeInputs, differs: RecipeDifferences) -> Settings:
    recipe, sizes = differs.recipe, inputs.sizes
    settings: Settings = {
        "tensor": sizes["tensor"],
        "pipe": sizes[PIPE],
        "micro": inputs.samples,
        "batch": inputs.job.batch,
    }
    if recipe.tokens == "tensor":
        settings["sequence_parallel"] = True
    if sizes["seq"] > 1:
        check_divides(inputs.job.sequence, "tokens", 2 * sizes["seq"], "slices, two a rank of seq")
        settings |= {"context": sizes["seq"], "context_by": "all_gather"}
    if sizes[PIPE] > 1:
        settings |= _order(recipe, sizes[PIPE])
        dense = inputs.decoder.dense_layers or 0
        if recipe.layers or dense:
            first, *others = inputs.layers
            settings["layout"] = _layout([dense + first, *others])
    if recipe.experts:
        settings["expert"] = _experts(inputs, recipe)
    elif inputs.decoder.experts > 1 and sizes["tensor"] > 1 and recipe.tokens != "tensor":
        raise _tokens_error()
    return settings


def _order(recipe: Recipe, ranks: int) -> Settings:
    if recipe.schedule not in SCHEDULES:
        raise InputError(
            f"Megatron has no schedule {recipe.schedule}", hint=f"it has {' and '.join(SCHEDULES)}"
        )
    if recipe.chunks == 1:
        return {}
    if recipe.microbatches < ranks:
        raise InputError(
            f"{recipe.microbatches} microbatches in rounds over {ranks} ranks",
            hint=f"Megatron's interleaved order needs at least {ranks} at once",
        )
    return {
        "chunks": recipe.chunks,
        "round": recipe.microbatches // max(1, recipe.microbatches // ranks),
    }


def _layout(layers: Sequence[int]) -> str:
    """Spells stages: ``E`` for the table of words, ``t*8`` for layers, ``L`` for the loss.

    Consecutive equal stages are bracketed, with their number: ``Et*7|(t*8|)*14t*7L``.
    """
    stages = [f"t*{size}|" for size in layers]
    stages[0], stages[-1] = f"E{stages[0]}", f"{stages[-1][:-1]}L"
    runs = ((stage, len([*equal])) for stage, equal in groupby(stages))
    return "".join(f"({stage})*{times}" if times > 1 else stage for stage, times in runs)


def _experts(inputs: RecipeInputs, recipe: Recipe) -> int:
    if inputs.sizes["seq"] > 1:
        raise InputError(
            "experts over an axis together with tokens over seq",
            hint="Megatron would place experts over seq first: its grid of experts has no cp",
        )
    if inputs.sizes["tensor"] > 1 and recipe.tokens != "tensor":
        raise _tokens_error()
    return inputs.sizes["expert"]


def _tokens_error() -> InputError:
    return InputError(
        "experts together with weights over tensor",
        hint="Megatron requires sequence parallelism with them: tokens over the axis "
        "of the weights",
    )


def _sharding(inputs: RecipeInputs, differs: RecipeDifferences) -> Settings:
    recipe, sizes = differs.recipe, inputs.sizes
    settings: Settings = {"overlapped": True} if recipe.replicas * sizes["seq"] > 1 else {}
    if not recipe.zero:
        return settings
    settings["distributed"] = True
    if recipe.zero == 1:
        differs.say(
            "Megatron's distributed optimizer reduces gradients by a reduce-scatter, "
            "not an all-reduce"
        )
        return settings
    if sizes[PIPE] > 1:
        raise InputError(
            f"zero={recipe.zero} on stages", hint="Megatron-FSDP is for one stage: zero=1"
        )
    return settings | {
        "fsdp": True,
        "sharded": SHARDING_STRATEGIES[recipe.zero],
        "checkpoints": "fsdp_dtensor",
    }


def _other_settings(inputs: RecipeInputs, differs: RecipeDifferences) -> Settings:
    recipe = differs.recipe
    settings: Settings = {}
    if recipe.remat:
        settings |= {"remade": "full", "remade_by": "uniform", "remade_layers": 1}
    if recipe.bucket_bytes:
        # Megatron counts a bucket in elements; its gradients are float32.
        settings["bucket"] = max(1, recipe.bucket_bytes // 4)
    if short := SHORT_DTYPES.get(inputs.job.numbers):
        precision = inputs.job.precision
        settings["_".join(filter(None, (short, precision)))] = True
        if precision:
            settings |= FP8_RECIPES[precision]
    differs.note_first()
    return settings
