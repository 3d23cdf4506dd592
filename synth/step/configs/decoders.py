"""What the configurations of nearly all decoders share: sizes, rotary angles and windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from synth.step.configs.fields import ConfigFields
from synth.step.zoo.forms import LLAMA, Activation, Form
from synth.step.zoo.sizes import Decoder, Sizes

SEQUENCE = 4096
"""Tokens of a sample by default: a longest context of 100,000 tokens is no usual training."""

SLIDING, FULL = "sliding_attention", "full_attention"

ACTIVATIONS: Mapping[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "relu": "relu",
    "relu2": "relu2",
}

ROPE_KINDS = ("default", "linear", "dynamic", "yarn", "llama3", "longrope", "su")
"""Kinds of ``rope_scaling``: each changes angles of rotation, and no operation."""


@dataclass(frozen=True)
class Family:
    """A function from fields to sizes, what is fixed of its form, and the activation by default."""

    sizes: Callable[[ConfigFields, Family], Sizes]
    form: Form = LLAMA
    activation: str = "silu"


def _sequence(fields: ConfigFields) -> int:
    longest = fields.size("max_position_embeddings", "seq_length", "n_positions", default=SEQUENCE)
    return min(SEQUENCE, longest)


def _rotary(fields: ConfigFields, usual: float) -> tuple[float, float]:
    """Returns the rotary base, and the share of a head's elements that is rotated (``usual``)."""
    fields.find("original_max_position_embeddings")
    base = fields.number("rope_theta", "rotary_emb_base", default=1e4, above=0)
    share = fields.number("partial_rotary_factor", "rotary_pct", "rope_percent", default=usual)
    if share > 1:
        raise fields.error(f"{share} of a head are rotated", "a share of at most 1")
    _, scaling = fields.find("rope_scaling")
    if scaling is not None:
        kind = scaling.get("rope_type", scaling.get("type")) if isinstance(scaling, dict) else None
        if kind not in ROPE_KINDS:
            hint = f"an object with a rope_type of {', '.join(ROPE_KINDS)}"
            raise fields.error(f"rope_scaling is {scaling!r}"[:120], hint)
        if kind != "default":
            fields.omitted.append(f"rope_scaling ({kind}: it changes angles, not operations)")
    return base, share


def _windows(fields: ConfigFields, layers: int) -> tuple[int | None, int]:
    """Returns the window, and of how many layers the last one attends to all tokens (0: none)."""
    window = fields.size("sliding_window", default=0, least=0) or None
    if not fields.switch("use_sliding_window", default=True):
        window = None
    kinds = fields.list_of("layer_types", (SLIDING, FULL), layers)
    period = fields.size("sliding_window_pattern", "_sliding_window_pattern", default=0, least=0)
    if not kinds:
        return window, period if window else 0
    if SLIDING not in kinds or window is None:
        return None, 0
    if FULL not in kinds:
        return window, 0
    period = kinds.index(FULL) + 1
    if kinds != [FULL if (at + 1) % period == 0 else SLIDING for at in range(layers)]:
        problem = "layer_types in which full attention does not come in regular turns"
        raise fields.error(f"{problem} are not supported yet", f"every {period}-th layer full")
    return window, period


def read_decoder(fields: ConfigFields, family: Family) -> Decoder:
    """Returns a decoder from the fields that nearly all of them have."""
    width = fields.size("hidden_size", "n_embd", "n_embed")
    layers = fields.size("num_hidden_layers", "n_layer")
    heads = fields.size("num_attention_heads", "n_head")
    base, share = _rotary(fields, family.form.rotary_share)
    window, full_every = _windows(fields, layers)
    names = ("rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "norm_eps", "norm_epsilon")
    form = replace(
        family.form,
        norm_epsilon=fields.number(*names, default=1e-5),
        activation=fields.word(
            "hidden_act",
            "hidden_activation",
            "activation_function",
            "activation",
            known=ACTIVATIONS,
            default=family.activation,
        ),
        attention_bias=fields.switch("attention_bias", default=family.form.attention_bias),
        mlp_bias=fields.switch("mlp_bias", default=family.form.mlp_bias),
        tied=fields.switch("tie_word_embeddings", default=family.form.tied),
        rotary_share=share,
        full_every=full_every,
    )
    return Decoder(
        layers,
        width,
        heads,
        fields.size("num_key_value_heads", "num_kv_heads", default=heads),
        fields.size("intermediate_size", "ffn_hidden_size", default=4 * width),
        sequence=_sequence(fields),
        vocabulary=fields.size("vocab_size"),
        rope_base=base,
        head_width=fields.size("head_dim", default=0, least=0) or None,
        window=window,
        form=form,
    )


def with_form(sizes: Decoder, **changes: Any) -> Decoder:
    """Returns a decoder with other fields of its form."""
    return replace(sizes, form=replace(sizes.form, **changes))
