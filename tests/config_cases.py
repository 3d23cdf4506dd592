"""Small configurations of every known type, and the published ones with their parameter counts."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from synth.step.configs import read_config
from synth.step.zoo.sizes import DescribedModel

PUBLISHED: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "models.json").read_text())
"""Fields of published models, their source, and the parameters that their publishers count."""

_PLAIN = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 32,
    "max_position_embeddings": 12,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100.0,
}
_EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 10}
_LATENT = {
    "num_key_value_heads": 4,
    "num_hidden_layers": 3,
    "kv_lora_rank": 6,
    "qk_nope_head_dim": 5,
    "qk_rope_head_dim": 4,
    "v_head_dim": 3,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "n_group": 4,
    "topk_group": 2,
    "routed_scaling_factor": 2.5,
    **_EXPERTS,
}
_SLIDING = ["sliding_attention", "full_attention"]

TINY: dict[str, dict[str, Any]] = {
    "llama": _PLAIN,
    "mistral": {**_PLAIN, "head_dim": 6, "sliding_window": 5},
    "mixtral": {**_PLAIN, "num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen2": _PLAIN,
    "qwen3": {**_PLAIN, "head_dim": 6},
    "qwen3_moe": {**_PLAIN, "num_experts": 4, **_EXPERTS, "norm_topk_prob": False},
    "gemma2": {
        **_PLAIN,
        "head_dim": 6,
        "sliding_window": 4,
        "query_pre_attn_scalar": 9,
        "attn_logit_softcapping": 1.5,
        "final_logit_softcapping": 2.0,
    },
    "gemma3_text": {
        **_PLAIN,
        "head_dim": 6,
        "sliding_window": 4,
        "sliding_window_pattern": 2,
        "rope_local_base_freq": 10.0,
        "query_pre_attn_scalar": 9,
    },
    "phi3": {**_PLAIN, "sliding_window": 5, "partial_rotary_factor": 0.5},
    "olmo2": _PLAIN,
    "deepseek_v2": {**_PLAIN, **_LATENT, "topk_method": "group_limited_greedy"},
    "deepseek_v3": {**_PLAIN, **_LATENT, "q_lora_rank": 7},
    "kimi_k2": {**_PLAIN, **_LATENT, "q_lora_rank": 7, "n_group": 1, "topk_group": 1},
    "gpt_oss": {
        **_PLAIN,
        "head_dim": 6,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": 4,
        "layer_types": _SLIDING,
        "attention_bias": True,
    },
    "glm4": {**_PLAIN, "head_dim": 8, "attention_bias": True},
    "nemotron": {**_PLAIN, "head_dim": 8, "norm_eps": 1e-5},
    "falcon": {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_kv_heads": 2,
        "vocab_size": 32,
        "max_position_embeddings": 12,
        "new_decoder_architecture": True,
        "rope_theta": 100.0,
    },
    "bloom": {"hidden_size": 24, "n_layer": 2, "n_head": 6, "vocab_size": 32, "seq_length": 12},
    "gpt_neox": {
        "hidden_size": 32,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 32,
        "max_position_embeddings": 12,
        "rotary_emb_base": 100,
    },
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 4, "vocab_size": 32, "n_positions": 12},
    "bert": {
        "hidden_size": 16,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 32,
        "max_position_embeddings": 12,
    },
}
"""One small configuration of each type, without ``model_type``: 12 tokens at most."""


def text_of(kind: str, **changes: Any) -> str:
    """A small configuration with other fields."""
    return json.dumps({"model_type": kind, **TINY[kind], **changes})


@cache
def tiny(kind: str) -> DescribedModel:
    """The model of a small configuration."""
    return read_config(text_of(kind), f"{kind}-tiny/config.json")
