"""Megatron-LM and Megatron-Bridge: one engine, said by flags or by fields of Python objects.

Source of both: the wheels of ``megatron-core`` 0.19.2 (``megatron/training/arguments.py``:
``validate_args``; ``megatron/core/transformer/transformer_config.py``; ``pipeline_parallel/
schedules.py``; ``parallel_state.py``) and of ``megatron-bridge`` 0.6.2 (``training/config.py``,
``models/gpt_provider.py``, ``recipes/gpt``), both of 2026-09, Apache 2.0, read on 2026-11-23.

What of a recipe is what there:

* stages are in the order 1F1B or interleaved 1F1B, whose rounds are
  ``microbatch-group-size-per-virtual-pipeline-stage`` microbatches: at least as many as stages;
  those of unequal numbers of layers are a ``pipeline-model-parallel-layout``, from which the flags
  (``validate_args``) take the chunks, too, and refuse to be told them;
* ``zero=1`` is the distributed optimizer, 2 and 3 are Megatron-FSDP, without stages here;
* tokens along an axis of their own are its context parallelism with keys and values gathered,
  where each rank has two slices, so that twice its size must divide them;
* experts over an axis that cuts the batch, too, are ``expert-model-parallel-size``, a part of the
  data-parallel size: in a grid without ``cp``, so beside tokens along an axis of their own they
  would lie along that one;
* the vocabulary is always cut by tensor, and padded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from shlex import quote

from hierarchies import InputError
from synth.collective.emit.mesh import RankOrder
from synth.collective.emit.text import templates
from synth.step.frameworks.asked import (
    ConfigurationInputs,
    Decoder,
    FrameworkFiles,
    RecipeDifferences,
    check_divides,
)
from synth.step.frameworks.launch import Launch, write_launch
from synth.step.sharding.plan import PIPE
from synth.step.sharding.recipes import Recipe

Value = int | str | bool
Settings = dict[str, Value]

SCHEDULES = ("1f1b", "interleaved-1f1b")
PADDING_MULTIPLE = 128
"""The parts of the vocabulary are a multiple of a power of two up to this one."""
SHARDING_STRATEGIES = {2: "optim_grads", 3: "optim_grads_params"}
MAPPING = "--use-tp-pp-dp-mapping"


@dataclass(frozen=True)
class SettingSpelling:
    """A setting's flag, and what a recipe of Bridge says, ``{}`` standing for its value."""

    flag: str
    bridge: tuple[str, ...]


def _spelling_of(flag: str, *bridge: str) -> SettingSpelling:
    return SettingSpelling(f"--{flag}", bridge)


SPELLINGS: Mapping[str, SettingSpelling] = {
    "layers": _spelling_of("num-layers", "model.num_layers = {}"),
    "width": _spelling_of("hidden-size", "model.hidden_size = {}"),
    "hidden": _spelling_of("ffn-hidden-size", "model.ffn_hidden_size = {}"),
    "heads": _spelling_of("num-attention-heads", "model.num_attention_heads = {}"),
    "grouped": _spelling_of("group-query-attention"),
    "key_heads": _spelling_of("num-query-groups", "model.num_query_groups = {}"),
    "sequence": _spelling_of("seq-length", "model.seq_length = {}", "dataset.seq_length = {}"),
    "longest": _spelling_of("max-position-embeddings"),
    "positions": _spelling_of("position-embedding-type", "model.position_embedding_type = {}"),
    "rotary_base": _spelling_of("rotary-base", "model.rotary_base = {}"),
    "norm": _spelling_of("normalization", "model.normalization = {}"),
    "swiglu": _spelling_of(
        "swiglu", "model.gated_linear_unit = True", "model.activation_func = F.silu"
    ),
    "no_bias": _spelling_of("disable-bias-linear", "model.add_bias_linear = False"),
    "untied": _spelling_of(
        "untie-embeddings-and-output-weights", "model.share_embeddings_and_output_weights = False"
    ),
    "attention_dropout": _spelling_of("attention-dropout", "model.attention_dropout = {}.0"),
    "hidden_dropout": _spelling_of("hidden-dropout", "model.hidden_dropout = {}.0"),
    "vocabulary": _spelling_of(
        "vocab-size",
        "model.vocab_size = {}",
        "model.should_pad_vocab = True",
        "tokenizer.vocab_size = {}",
    ),
    "padded_to": _spelling_of(
        "make-vocab-size-divisible-by", "model.make_vocab_size_divisible_by = {}"
    ),
    "experts": _spelling_of("num-experts", "model.num_moe_experts = {}"),
    "chosen": _spelling_of("moe-router-topk", "model.moe_router_topk = {}"),
    "expert_hidden": _spelling_of("moe-ffn-hidden-size", "model.moe_ffn_hidden_size = {}"),
    "dispatcher": _spelling_of("moe-token-dispatcher-type", "model.moe_token_dispatcher_type = {}"),
    "grouped_products": _spelling_of("moe-grouped-gemm", "model.moe_grouped_gemm = True"),
    "balanced": _spelling_of(
        "moe-router-load-balancing-type", "model.moe_router_load_balancing_type = {}"
    ),
    "tensor": _spelling_of("tensor-model-parallel-size", "model.tensor_model_parallel_size = {}"),
    "sequence_parallel": _spelling_of("sequence-parallel", "model.sequence_parallel = True"),
    "pipe": _spelling_of("pipeline-model-parallel-size", "model.pipeline_model_parallel_size = {}"),
    "chunks": _spelling_of(
        "num-virtual-stages-per-pipeline-rank",
        "model.virtual_pipeline_model_parallel_size = {}",
        "model.overlap_p2p_comm = True",
        "model.batch_p2p_comm = False",
    ),
    "layout": _spelling_of(
        "pipeline-model-parallel-layout", "model.pipeline_model_parallel_layout = {}"
    ),
    "round": _spelling_of(
        "microbatch-group-size-per-virtual-pipeline-stage",
        "model.microbatch_group_size_per_vp_stage = {}",
    ),
    "context": _spelling_of("context-parallel-size", "model.context_parallel_size = {}"),
    "context_by": _spelling_of("cp-comm-type", "model.cp_comm_type = {}"),
    "expert": _spelling_of("expert-model-parallel-size", "model.expert_model_parallel_size = {}"),
    "micro": _spelling_of("micro-batch-size", "train.micro_batch_size = {}"),
    "batch": _spelling_of("global-batch-size", "train.global_batch_size = {}"),
    "distributed": _spelling_of(
        "use-distributed-optimizer",
        "ddp.use_distributed_optimizer = True",
        "optimizer.use_distributed_optimizer = True",
    ),
    "fsdp": _spelling_of(
        "use-megatron-fsdp", "dist.use_megatron_fsdp = True", "ddp.use_megatron_fsdp = True"
    ),
    "sharded": _spelling_of(
        "data-parallel-sharding-strategy", "ddp.data_parallel_sharding_strategy = {}"
    ),
    "checkpoints": _spelling_of("ckpt-format", "checkpoint.ckpt_format = {}"),
    "overlapped": _spelling_of("overlap-grad-reduce", "ddp.overlap_grad_reduce = True"),
    "bucket": _spelling_of("ddp-bucket-size", "ddp.bucket_size = {}"),
    "remade": _spelling_of("recompute-granularity", "model.recompute_granularity = {}"),
    "remade_by": _spelling_of("recompute-method", "model.recompute_method = {}"),
    "remade_layers": _spelling_of("recompute-num-layers", "model.recompute_num_layers = {}"),
    "mapping": _spelling_of(MAPPING.removeprefix("--"), "dist.use_tp_pp_dp_mapping = True"),
    "bf16": _spelling_of("bf16", 'mixed_precision = "bf16_mixed"'),
    "fp16": _spelling_of("fp16", 'mixed_precision = "fp16_mixed"'),
}
"""Every setting that is written, in this order."""

SHORT_DTYPES = {"bfloat16": "bf16", "float16": "fp16"}


def megatron(asked: ConfigurationInputs) -> FrameworkFiles:
    """``arguments.sh``: flags of ``pretrain_gpt.py`` as an array of bash. Raises InputError."""
    settings, differs, how = _decide_settings(asked)
    text = _template("megatron.sh.jinja", asked, differs, flags=[*_flags(settings)])
    command = '"$MEGATRON"/pretrain_gpt.py "${ARGUMENTS[@]}" "${DATA[@]}" "${TRAINING[@]}"'
    before = [*_environment(settings, asked), ': "${MEGATRON:?where Megatron-LM lies}"']
    more = write_launch(asked, how, command, before=[*before, "source arguments.sh"])
    return FrameworkFiles({"arguments.sh": text, **more}, differs.recipe, tuple(differs.notes))


def bridge(asked: ConfigurationInputs) -> FrameworkFiles:
    """``collsynth_bridge.py``: a function that makes Megatron-Bridge's ConfigContainer.

    Raises InputError as ``megatron`` does: it is the same engine.
    """
    settings, differs, how = _decide_settings(asked)
    text = _template("bridge.py.jinja", asked, differs, lines=[*_lines(settings, asked)])
    before = [*_environment(settings, asked), 'export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"']
    more = write_launch(asked, how, "collsynth_bridge.py", before=before)
    return FrameworkFiles(
        {"collsynth_bridge.py": text, **more}, differs.recipe, tuple(differs.notes)
    )


def _template(
    name: str, asked: ConfigurationInputs, differs: RecipeDifferences, **words: object
) -> str:
    found = templates("synth.step.frameworks").get_template(name)
    return found.render(head=asked.head, notes=differs.notes, **words)


def _flags(settings: Settings) -> Iterator[str]:
    for name, value in settings.items():
        flag = SPELLINGS[name].flag
        if name == "chunks" and "layout" in settings:
            continue
        yield flag if value is True else f"{flag} {quote(str(value))}"


def _lines(settings: Settings, asked: ConfigurationInputs) -> Iterator[str]:
    for name, value in settings.items():
        for line in SPELLINGS[name].bridge:
            yield f"cfg.{line.format(_literal(value))}"
    if "distributed" not in settings:  # what either has, Bridge gives to both
        yield "cfg.ddp.use_distributed_optimizer = False"
        yield "cfg.optimizer.use_distributed_optimizer = False"
    if asked.job.numbers == "float32":
        yield "cfg.mixed_precision = None"


def _literal(value: Value) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _environment(settings: Settings, asked: ConfigurationInputs) -> list[str]:
    """One queue of work on devices before Blackwell, as validate_args demands; FSDP refuses it."""
    several = asked.sizes["tensor"] > 1 or asked.sizes["seq"] > 1
    if "fsdp" in settings:
        return ["unset CUDA_DEVICE_MAX_CONNECTIONS"]
    return ["export CUDA_DEVICE_MAX_CONNECTIONS=1"] if several else []


def _decide_settings(asked: ConfigurationInputs) -> tuple[Settings, RecipeDifferences, Launch]:
    decoder, differs = asked.check_decoder(), RecipeDifferences(asked.named)
    how = Launch.of(asked.seated, RankOrder.MEGATRON, [] if asked.named.experts else [MAPPING])
    settings = _model(asked, decoder, differs) | _parallel(asked, differs)
    settings |= _sharding(asked, differs) | _other_settings(asked, differs)
    if how.flag:
        settings["mapping"] = True
    ordered = {name: settings[name] for name in SPELLINGS if name in settings}
    return ordered, differs, how


def _model(asked: ConfigurationInputs, one: Decoder, differs: RecipeDifferences) -> Settings:
    found: Settings = {
        "layers": one.layers,
        "width": one.width,
        "hidden": one.hidden,
        "heads": one.heads,
        "sequence": asked.job.sequence,
        "longest": one.longest,
        "positions": "rope" if one.rotary else "learned_absolute",
        "attention_dropout": 0,
        "hidden_dropout": 0,
    }
    if one.rotary:
        found |= {"rotary_base": one.rotary, "norm": "RMSNorm", "no_bias": True, "untied": True}
    if one.gated:
        found["swiglu"] = True
    if one.key_heads != one.heads:
        found |= {"grouped": True, "key_heads": one.key_heads}
    if one.experts > 1:
        found |= {"experts": one.experts, "chosen": one.chosen, "expert_hidden": one.hidden}
        found |= {"dispatcher": "alltoall", "grouped_products": True, "balanced": "none"}
        differs.say("an expert takes all tokens that choose it, however many (it drops none)")
    return found | _vocabulary(asked, one, differs)


def _vocabulary(asked: ConfigurationInputs, one: Decoder, differs: RecipeDifferences) -> Settings:
    tensor = asked.sizes["tensor"]
    fits = [size for size in _powers(PADDING_MULTIPLE) if one.vocabulary % (size * tensor) == 0]
    each = fits[0] if fits else 1
    if tensor > 1 and not differs.recipe.vocabulary:
        padded = -one.vocabulary % tensor + one.vocabulary
        differs.say(
            f"Megatron cuts the vocabulary over tensor, too ({padded} words in {tensor} parts)",
            replace(differs.recipe, vocabulary="tensor"),
        )
    return {"vocabulary": one.vocabulary, "padded_to": each}


def _powers(largest: int) -> Iterator[int]:
    while largest:
        yield largest
        largest //= 2


def _parallel(asked: ConfigurationInputs, differs: RecipeDifferences) -> Settings:
    recipe, sizes = differs.recipe, asked.sizes
    found: Settings = {
        "tensor": sizes["tensor"],
        "pipe": sizes[PIPE],
        "micro": asked.samples,
        "batch": asked.job.batch,
    }
    if recipe.tokens == "tensor":
        found["sequence_parallel"] = True
    if sizes["seq"] > 1:
        check_divides(asked.job.sequence, "tokens", 2 * sizes["seq"], "slices, two a rank of seq")
        found |= {"context": sizes["seq"], "context_by": "all_gather"}
    if sizes[PIPE] > 1:
        found |= _order(recipe, sizes[PIPE])
        found |= {"layout": _layout(recipe.layers)} if recipe.layers else {}
    if recipe.experts:
        found["expert"] = _experts(asked, recipe)
    elif asked.decoder.experts > 1 and sizes["tensor"] > 1 and recipe.tokens != "tensor":
        raise _tokens_error()
    return found


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
            hint=f"Megatron's interleaved order takes at least {ranks} at once",
        )
    return {
        "chunks": recipe.chunks,
        "round": recipe.microbatches // max(1, recipe.microbatches // ranks),
    }


def _layout(layers: Sequence[int]) -> str:
    """Of each stage an ``E`` for the table of words, ``t*8`` for layers, ``L`` for the loss.

    Equal ones in turn are in brackets, with how many: ``Et*7|(t*8|)*14t*7L``.
    """
    stages = [f"t*{size}|" for size in layers]
    stages[0], stages[-1] = f"E{stages[0]}", f"{stages[-1][:-1]}L"
    runs = ((one, len([*some])) for one, some in groupby(stages))
    return "".join(f"({one})*{times}" if times > 1 else one for one, times in runs)


def _experts(asked: ConfigurationInputs, recipe: Recipe) -> int:
    if asked.sizes["seq"] > 1:
        raise InputError(
            "experts over an axis beside tokens over seq",
            hint="Megatron would lay them over seq first: it counts experts in a grid without cp",
        )
    if asked.sizes["tensor"] > 1 and recipe.tokens != "tensor":
        raise _tokens_error()
    return asked.sizes["expert"]


def _tokens_error() -> InputError:
    return InputError(
        "experts beside weights over tensor",
        hint="Megatron asks for sequence parallelism there: tokens over the axis of the weights",
    )


def _sharding(asked: ConfigurationInputs, differs: RecipeDifferences) -> Settings:
    recipe, sizes = differs.recipe, asked.sizes
    found: Settings = {"overlapped": True} if recipe.replicas * sizes["seq"] > 1 else {}
    if not recipe.zero:
        return found
    found["distributed"] = True
    if recipe.zero == 1:
        differs.say(
            "Megatron's distributed optimizer sums gradients by a reduce-scatter, not whole"
        )
        return found
    if sizes[PIPE] > 1:
        raise InputError(
            f"zero={recipe.zero} on stages", hint="Megatron-FSDP is for one stage: zero=1"
        )
    return found | {
        "fsdp": True,
        "sharded": SHARDING_STRATEGIES[recipe.zero],
        "checkpoints": "fsdp_dtensor",
    }


def _other_settings(asked: ConfigurationInputs, differs: RecipeDifferences) -> Settings:
    recipe = differs.recipe
    found: Settings = {}
    if recipe.remat:
        found |= {"remade": "full", "remade_by": "uniform", "remade_layers": 1}
    if recipe.bucket_bytes:
        found["bucket"] = max(1, recipe.bucket_bytes // 4)
    if short := SHORT_DTYPES.get(asked.job.numbers):
        found[short] = True
    note_first(differs)
    return found


def note_first(differs: RecipeDifferences) -> None:
    """Say that no framework chooses between fewer requests and fewer bytes."""
    plain = replace(differs.recipe, first=Recipe((("data", 1),)).first)
    if plain != differs.recipe:
        differs.say("'fewest requests' is said to no framework: each sends what it sends", plain)
