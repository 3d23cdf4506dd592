"""A decoder as Megatron's settings: norms, activations, biases, positions, attention, experts.

Source: ``megatron/training/arguments.py``, ``argument_utils.py`` and
``megatron/core/transformer/{transformer_config,moe/router}.py`` of Megatron-LM d98e8a64dd (0.20,
2026-08-22, Apache 2.0), read on 2026-11-30. In Megatron:

* ``disable-bias-linear`` removes the biases of all matrices and of the router;
  ``add-qkv-bias`` adds those of queries, keys and values alone;
* the softmax of a router is taken of the chosen logits, which is the same as dividing the chosen
  scores by their sum; ``moe-router-pre-softmax`` takes it of all logits, and divides by nothing;
  sigmoids are always divided by their sum;
* a group of experts counts as the sum of its chosen/groups best scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hierarchies import InputError
from synth.step.zoo.forms import FEATURES, LLAMA, Form, Latent, Router
from synth.step.zoo.sizes import Decoder


@dataclass(frozen=True)
class LayerPattern:
    """A number for each layer, as runs: ``((0, 3), (1, 58))`` is three zeros, then 58 ones."""

    runs: tuple[tuple[int, int], ...]


Value = int | float | str | bool | tuple[int, int] | LayerPattern
Settings = dict[str, Value]

_EPSILON = 1e-5
"""Megatron's default."""
_ANY_VALUE = ("tied", "rotary_share", "sinks", "latent", "full_every", "gated")
"""Fields of a form of which Megatron has every value, by themselves or with those below."""
_VALUES: dict[str, tuple[object, ...]] = {
    "norm": ("rms", "rms-plus-one", "layer", "layer-plus-one"),
    "head_norm": ("", "head"),
    "activation": ("silu", "gelu", "gelu-tanh", "relu2", "clipped-swiglu"),
}
_GATED = {"silu": True, "clipped-swiglu": True, "gelu": False, "gelu-tanh": False, "relu2": False}
"""Whether Megatron's flag of an activation has a gate."""
_BIASES = ("attention_bias", "output_bias", "mlp_bias")


def refuse_unsupported(name: str, decoder: Decoder) -> None:
    """Raises InputError for a decoder that Megatron has no flags for; ``name``: the model's."""
    unusual = dict.fromkeys(FEATURES[field] for field in _unsupported_fields(decoder))
    if unusual:
        hint = "Megatron has no flag for it: --runtime jax or torch writes the whole step"
        raise InputError(f"{name} has {', '.join(unusual)}", hint=hint)


def _unsupported_fields(decoder: Decoder) -> Iterator[str]:
    form = decoder.form
    for name in FEATURES:
        value = getattr(form, name)
        if name in _ANY_VALUE or name in (*_BIASES, "router"):
            continue
        if value != getattr(LLAMA, name) and value not in _VALUES.get(name, ()):
            yield name
    if _GATED.get(form.activation, form.gated) != form.gated:
        yield "gated" if form.activation == "silu" else "activation"
    if _biases(form) is None:
        yield "mlp_bias" if form.mlp_bias else "output_bias"
    if decoder.experts > 1 and not _has_router(decoder):
        yield "router"


def _biases(form: Form) -> Settings | None:
    """Returns the settings of a form's biases; None if Megatron has not this choice of them."""
    match tuple(getattr(form, name) for name in _BIASES):
        case (False, False, False):
            return {"no_bias": True}
        case (True, False, False):
            return {"no_bias": True, "attention_bias": True}
        case (True, True, True):
            return {}
        case _:
            return None


def _has_router(decoder: Decoder) -> bool:
    """Whether Megatron has a mixture's router."""
    router = decoder.form.router
    if router.bias != (_biases(decoder.form) == {}):
        return False  # The router has a bias if and only if all matrices have one.
    if router.groups > 1 and router.group_best != decoder.chosen // router.chosen_groups:
        return False
    if router.scores == "sigmoid":
        return router.normalised
    return not router.correction


def describe_model(decoder: Decoder) -> Settings:
    """Returns the settings of what a decoder computes, beside its vocabulary and sequence."""
    settings: Settings = {
        "layers": (decoder.dense_layers or 0) + decoder.layers,
        "width": decoder.width,
        "hidden": (decoder.dense_layers and decoder.dense_hidden) or decoder.hidden,
        "heads": decoder.heads,
        "positions": "rope" if decoder.rope_base else "learned_absolute",
        "attention_dropout": 0,
        "hidden_dropout": 0,
    }
    if decoder.rope_base:
        settings |= {"rotary_base": round(decoder.rope_base), **_form(decoder.form)}
    if decoder.form.latent is None:
        if decoder.head != decoder.width // decoder.heads:
            settings["head_width"] = decoder.head
        if decoder.key_heads != decoder.heads:
            settings |= {"grouped": True, "key_heads": decoder.key_heads}
    if decoder.window:
        settings["window"] = (decoder.window - 1, 0)  # The token itself is one of the window.
        if decoder.form.full_every:
            settings["full_every"] = decoder.form.full_every
    return settings | (_experts(decoder) if decoder.experts > 1 else {})


def _form(form: Form) -> Settings:
    settings = _norms(form) | _activation(form) | (_biases(form) or {})
    if not form.tied:
        settings["untied"] = True
    if form.rotary_share != 1.0:
        settings["rotary_share"] = form.rotary_share
    if form.sinks:
        settings["softmax"] = "learnable"
    return settings | (_latent(form.latent) if form.latent else {})


def _norms(form: Form) -> Settings:
    settings: Settings = {"norm": "RMSNorm" if form.norm.startswith("rms") else "LayerNorm"}
    if form.norm_epsilon != _EPSILON:
        settings["norm_epsilon"] = form.norm_epsilon
    if form.norm.endswith("plus-one"):
        settings["norm_plus_one"] = True
    if form.head_norm or form.latent:
        settings["head_norms"] = True  # With latent attention these are the norms of the ranks.
    return settings


def _activation(form: Form) -> Settings:
    match form.activation:
        case "silu":
            return {"swiglu": True}
        case "relu2":
            return {"squared_relu": True}
        case "clipped-swiglu":
            return {"quick_geglu": True, "gate_offset": 1.0, "clamp": 7.0}
        case _:
            return {}  # GELU is the default.


def _latent(latent: Latent) -> Settings:
    settings: Settings = {
        "latent": True,
        "key_rank": latent.key_rank,
        "plain_width": latent.plain_width,
        "rotary_width": latent.rotary_width,
        "value_width": latent.value_width,
    }
    return settings | ({"query_rank": latent.query_rank} if latent.query_rank else {})


def _experts(decoder: Decoder) -> Settings:
    settings: Settings = {
        "experts": decoder.experts,
        "chosen": decoder.chosen,
        "expert_hidden": decoder.hidden,
        "dispatcher": "alltoall",
        "grouped_products": True,
        "balanced": "none",
    }
    if decoder.shared_hidden:
        settings["shared"] = decoder.shared_hidden
    if decoder.dense_layers:
        settings["expert_layers"] = LayerPattern(((0, decoder.dense_layers), (1, decoder.layers)))
    return settings | _router(decoder.form.router)


def _router(router: Router) -> Settings:
    settings: Settings = {}
    if router.scores == "sigmoid":
        settings["scores"] = "sigmoid"
    elif router.scores == "softmax" and not router.normalised:
        settings["softmax_of_all"] = True
    if router.correction:
        settings["correction"] = True
    if router.scale != 1.0:
        settings["score_scale"] = router.scale
    if router.groups > 1:
        settings |= {"groups": router.groups, "chosen_groups": router.chosen_groups}
    return settings
