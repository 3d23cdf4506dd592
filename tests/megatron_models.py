"""Models by their config.json as Megatron builds them: files, and parameters by module."""

from __future__ import annotations

import json
from typing import Any

from framework_files import bridge_arguments, megatron_parser, words
from hierarchies import Axis, load, row_major_placement
from places import TESTS
from synth.step.configs import read_config
from synth.step.frameworks import (
    FrameworkFiles,
    ModelSpec,
    PlacedSystem,
    TrainingSpec,
    write_configuration,
)
from synth.step.sharding.recipes import Recipe
from synth.step.zoo.sizes import Decoder

MODELS: dict[str, Any] = json.loads((TESTS / "data" / "models.json").read_text(encoding="utf-8"))
REFUSED = {
    "bloom-176b": "ALiBi, a norm of the embedding",
    "falcon-40b": "attention beside the MLP",
    "gemma-3-27b-text": "norms behind the halves of a layer, two rotary bases",
    "olmo-2-13b": "norms behind the halves of a layer, norms of queries and keys",
}
ACCEPTED = [name for name in MODELS if name not in (*REFUSED, "nemotron-3-nano-30b-a3b")]
"""All but those with a part that Megatron lacks, and one with Mamba layers, which is not read."""
DATA = Recipe((("data", 8),), batch=("data",))


def described(name: str) -> ModelSpec:
    model = read_config(json.dumps(MODELS[name]["config"]), name)
    return ModelSpec(name, model.sizes)


def written(framework: str, model: ModelSpec, recipe: Recipe = DATA) -> FrameworkFiles:
    system = load("dgx-h100:1")
    placement = row_major_placement(system.hierarchy, [Axis(*axis) for axis in recipe.axes])
    assert placement is not None
    assert isinstance(model.sizes, Decoder)
    tokens = min(model.sizes.sequence, 4096)
    job = TrainingSpec(16, tokens)
    return write_configuration(framework, recipe, model, job, PlacedSystem(system, placement))


def arguments(framework: str, model: ModelSpec, recipe: Recipe = DATA) -> Any:
    """What the flags, or a Bridge recipe, say by the names of Megatron's arguments."""
    files = written(framework, model, recipe).files
    if framework == "bridge":
        return bridge_arguments(str(files["collsynth_bridge.py"]))
    return megatron_parser().parse_args(words(str(files["arguments.sh"])))


def count_parameters(args: Any) -> int:
    """Parameters of the modules that Megatron builds of its arguments, none shared by devices."""
    width, layers = args.hidden_size, args.num_layers
    norm = width * (2 if args.normalization == "LayerNorm" else 1)
    dense = [1 if args.num_experts else 0] * layers
    if isinstance(args.moe_layer_freq, list):
        dense = args.moe_layer_freq
    assert len(dense) == layers
    table = args.vocab_size * width
    total = table + norm + (table if args.untie_embeddings_and_output_weights else 0)
    if args.position_embedding_type == "learned_absolute":
        total += args.max_position_embeddings * width
    for mixture in dense:
        total += _attention(args) + 2 * norm
        total += _mixture(args) if mixture else _mlp(args, args.ffn_hidden_size)
    return int(total)


def _attention(args: Any) -> int:
    width, heads = args.hidden_size, args.num_attention_heads
    if args.multi_latent_attention:
        assert args.qk_layernorm, "the ranks have norms"
        query = heads * (args.qk_head_dim + args.qk_pos_emb_head_dim)
        rank, keys = args.q_lora_rank, args.kv_lora_rank
        queries = rank * (width + 1 + query) if rank else width * query
        down = width * (keys + args.qk_pos_emb_head_dim) + keys
        up = keys * heads * (args.qk_head_dim + args.v_head_dim)
        return int(queries + down + up + heads * args.v_head_dim * width)
    each = args.kv_channels or width // heads
    groups = args.num_query_groups if args.group_query_attention else heads
    read = (heads + 2 * groups) * each
    found = width * read + heads * each * width
    if args.add_bias_linear:
        found += read + width
    elif args.add_qkv_bias:
        found += read
    found += 2 * each if args.qk_layernorm else 0
    return int(found + (heads if args.softmax_type == "learnable" else 0))


def _mlp(args: Any, hidden: int) -> int:
    gated = args.swiglu or args.quick_geglu
    first = hidden * (2 if gated else 1)
    biases = first + args.hidden_size if args.add_bias_linear else 0
    return int(args.hidden_size * (first + hidden) + biases)


def _mixture(args: Any) -> int:
    router = args.num_experts * (args.hidden_size + (1 if args.add_bias_linear else 0))
    if args.moe_router_enable_expert_bias:
        router += args.num_experts  # A buffer in Megatron, a parameter in published counts.
    shared = args.moe_shared_expert_intermediate_size
    experts = args.num_experts * _mlp(args, args.moe_ffn_hidden_size)
    return int(router + experts + (_mlp(args, shared) if shared else 0))
