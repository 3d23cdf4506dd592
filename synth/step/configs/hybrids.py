"""Hybrids of attention and Mamba-2 (Dao and Gu 2024): counted, and refused, as steps lack them.

Sizes are those of Nemotron-H (NVIDIA 2025) and of its class in Hugging Face's transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from synth.step.configs.fields import ConfigFields

LAYERS = {
    "M": "Mamba-2 layers",
    "*": "attention layers",
    "E": "layers of experts",
    "-": "MLP layers",
}
"""The kinds of layers by their letters in ``hybrid_override_pattern``."""


def refuse_hybrid(fields: ConfigFields) -> NoReturn:
    """Raises InputError with the parameters of a model, and with what of it cannot be traced."""
    pattern = str(fields.find("hybrid_override_pattern")[1] or "")
    layers = fields.size("num_hidden_layers")
    if len(pattern) != layers or not set(pattern) <= set(LAYERS):
        hint = f"a letter for each of {layers} layers: {' '.join(LAYERS)}"
        raise fields.error(f"hybrid_override_pattern is {pattern!r}"[:120], hint)
    width = fields.size("hidden_size")
    ends = 1 if fields.switch("tie_word_embeddings", default=False) else 2
    total = ends * fields.size("vocab_size") * width + width
    total += sum(width + _COUNTS[kind](fields, width) for kind in pattern)
    counted = ", ".join(
        f"{pattern.count(kind)} {what}" for kind, what in LAYERS.items() if kind in pattern
    )
    problem = f"{LAYERS['M']} of a {fields.kind} are not supported yet"
    raise fields.error(f"{problem} ({total:,} parameters; {counted})")


def _count_mamba(fields: ConfigFields, width: int) -> int:
    heads, groups = fields.size("mamba_num_heads"), fields.size("n_groups")
    inner = heads * fields.size("mamba_head_dim")
    mixed = inner + 2 * groups * fields.size("ssm_state_size")
    convolution = mixed * fields.size("conv_kernel")
    convolution += mixed if fields.switch("use_conv_bias", default=True) else 0
    bias = fields.switch("use_bias", "mamba_proj_bias", default=False)
    biases = inner + mixed + heads + width if bias else 0
    return width * (inner + mixed + heads) + convolution + 3 * heads + inner * (1 + width) + biases


def _count_attention(fields: ConfigFields, width: int) -> int:
    heads = fields.size("num_attention_heads")
    keys = fields.size("num_key_value_heads", default=heads)
    head = fields.size("head_dim", "attention_head_dim", default=width // heads)
    biases = (heads + 2 * keys) * head + width
    return 2 * width * head * (heads + keys) + (
        biases if fields.switch("attention_bias", default=False) else 0
    )


def _count_mlp(fields: ConfigFields, width: int, hidden: int = 0) -> int:
    hidden = hidden or fields.size("intermediate_size")
    biases = hidden + width if fields.switch("mlp_bias", default=False) else 0
    return 2 * width * hidden + biases


def _count_experts(fields: ConfigFields, width: int) -> int:
    experts, hidden = fields.size("n_routed_experts"), fields.size("moe_intermediate_size")
    shared = fields.size("n_shared_experts", default=0, least=0)
    wide = fields.size("moe_shared_expert_intermediate_size", default=hidden)
    router = (width + 1) * experts
    return (
        router
        + experts * _count_mlp(fields, width, hidden)
        + shared * _count_mlp(fields, width, wide)
    )


_COUNTS: Mapping[str, Callable[[ConfigFields, int], int]] = {
    "M": _count_mamba,
    "*": _count_attention,
    "E": _count_experts,
    "-": _count_mlp,
}
