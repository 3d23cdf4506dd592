"""The ``model_type``s that are known: the sizes of a model from its fields.

Names of fields, and what they mean if they are missing, are those of the configuration classes of
Hugging Face's transformers 4 (Apache 2.0), from memory; ``tests/data/models.json`` has published
configurations, whose parameters are counted. What the classes fix (Qwen 2 has biases of queries,
keys and values) is fixed here, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from synth.step.configs.decoders import Family, read_decoder, with_form
from synth.step.configs.fields import ConfigFields
from synth.step.configs.hybrids import refuse_hybrid
from synth.step.zoo.forms import LLAMA, Form, Latent, Router
from synth.step.zoo.sizes import Bert, Decoder, Gpt2

GEMMA2: Mapping[str, Any] = {
    "head_dim": 256,
    "sliding_window_pattern": 2,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
}
GEMMA3: Mapping[str, Any] = {
    "head_dim": 256,
    "sliding_window_pattern": 6,
    "rope_theta": 1e6,
    "vocab_size": 262208,
}
"""What the classes of Gemma say of fields that a file leaves out."""


def _llama(fields: ConfigFields, family: Family) -> Decoder:
    """Llama, and the families that differ by their form alone.

    ``attention_bias`` of Llama itself is also the bias of attention's last matrix.
    """
    sizes = read_decoder(fields, family)
    if fields.kind in ("llama", "mistral", "nemotron"):
        return with_form(sizes, output_bias=sizes.form.attention_bias)
    return sizes


def _qwen2(fields: ConfigFields, family: Family) -> Decoder:
    """Windows are off unless ``use_sliding_window``: their size is given all the same."""
    if not fields.switch("use_sliding_window", default=False):
        fields = replace(fields, values={**fields.values, "sliding_window": None})
    elif fields.values.get("layer_types") is None:
        fields.expect("max_window_layers", 0, what="a window in the last layers")
    return read_decoder(fields, family)


def _gemma(fields: ConfigFields, family: Family) -> Decoder:
    """Gemma's published files leave out what its class says, down to the vocabulary."""
    usual = GEMMA2 if fields.kind == "gemma2" else GEMMA3
    fields = replace(fields, values={**usual, **fields.values})
    sizes = read_decoder(fields, family)
    scale = fields.number("query_pre_attn_scalar", default=float(sizes.head), above=0) ** -0.5
    fields.expect("use_bidirectional_attention", False, what="attention to later tokens")
    return with_form(
        sizes,
        score_scale=scale if scale != sizes.head**-0.5 else 0.0,
        score_cap=fields.number("attn_logit_softcapping", default=0.0),
        logit_cap=fields.number("final_logit_softcapping", default=0.0),
        local_rope_base=fields.number("rope_local_base_freq", default=1e4, above=0)
        if fields.kind.startswith("gemma3")
        else 0.0,
    )


def _experts(fields: ConfigFields, sizes: Decoder, *counts: str) -> Decoder:
    """Adds experts, whose width is ``moe_intermediate_size`` or else that of a dense MLP."""
    return replace(
        sizes,
        experts=fields.size(*counts, least=2),
        chosen=fields.size("num_experts_per_tok"),
        hidden=fields.size("moe_intermediate_size", default=sizes.hidden),
    )


def _mixtral(fields: ConfigFields, family: Family) -> Decoder:
    return _experts(fields, read_decoder(fields, family), "num_local_experts")


def _qwen3_moe(fields: ConfigFields, family: Family) -> Decoder:
    fields.expect("decoder_sparse_step", 1, what="a dense layer between layers of experts")
    fields.expect("mlp_only_layers", [], what="a dense layer between layers of experts")
    sizes = _experts(fields, _qwen2(fields, family), "num_experts", "num_local_experts")
    normalised = fields.switch("norm_topk_prob", default=False)
    # Divided by their sum, the chosen scores are the softmax of the chosen logits alone.
    router = Router() if normalised else Router("softmax")
    return with_form(sizes, router=router)


def _gpt_oss(fields: ConfigFields, family: Family) -> Decoder:
    fields.expect("swiglu_limit", 7.0, what="another limit of SwiGLU")
    fields = replace(fields, values={"sliding_window_pattern": 2, **fields.values})
    sizes = _experts(fields, read_decoder(fields, family), "num_local_experts")
    return with_form(sizes, activation="clipped-swiglu")


def _deepseek(fields: ConfigFields, family: Family) -> Decoder:
    sizes = read_decoder(fields, family)
    latent = Latent(
        query_rank=fields.size("q_lora_rank", default=0, least=0),
        key_rank=fields.size("kv_lora_rank"),
        plain_width=fields.size("qk_nope_head_dim"),
        rotary_width=fields.size("qk_rope_head_dim"),
        value_width=fields.size("v_head_dim"),
    )
    if fields.size("num_nextn_predict_layers", default=0, least=0):
        fields.omitted.append("num_nextn_predict_layers (multi-token prediction)")
    fields.expect("moe_layer_freq", 1, what="a dense layer between layers of experts")
    fields.expect("qk_head_dim", latent.head_width, what="another width of heads")
    fields.expect("attention_bias", False, what="a bias of latent attention")
    sizes = replace(sizes, head_width=None, key_heads=sizes.heads)
    sizes = with_form(sizes, latent=latent)
    if fields.find("n_routed_experts")[1] is None:
        return sizes
    dense = fields.size("first_k_dense_replace", default=0, least=0)
    if dense >= sizes.layers:
        problem = f"first_k_dense_replace {dense} of {sizes.layers} layers"
        raise fields.error(problem, "fewer than num_hidden_layers")
    sizes = replace(
        sizes, dense_layers=dense, dense_hidden=sizes.hidden, layers=sizes.layers - dense
    )
    sizes = _experts(fields, sizes, "n_routed_experts")
    shared = fields.size("n_shared_experts", default=0, least=0)
    return with_form(replace(sizes, shared_hidden=shared * sizes.hidden), router=_router(fields))


def _router(fields: ConfigFields) -> Router:
    """Reads how DeepSeek's mixtures choose: V3 has sigmoids, a correction, and sums of two best."""
    third = fields.kind != "deepseek_v2"
    fields.expect(
        "topk_method",
        "noaux_tc" if third else "greedy",
        *([] if third else ["group_limited_greedy"]),
        what="another choice of experts",
    )
    fields.expect("scoring_func", "sigmoid" if third else "softmax", what="another score")
    grouped = third or fields.values.get("topk_method") == "group_limited_greedy"
    groups = fields.size("n_group", default=1), fields.size("topk_group", default=1)
    return Router(
        "sigmoid" if third else "softmax",
        normalised=fields.switch("norm_topk_prob", default=third),
        scale=fields.number("routed_scaling_factor", default=1.0),
        correction=third,
        groups=groups[0] if grouped else 1,
        chosen_groups=groups[1] if grouped else 1,
        group_best=2 if third else 1,
    )


def _bloom(fields: ConfigFields, family: Family) -> Decoder:
    fields.expect(
        "apply_residual_connection_post_layernorm", False, what="a residual after the norm"
    )
    fields.expect("alibi", True, what="BLOOM without ALiBi")
    return replace(read_decoder(fields, family), rope_base=0.0)


def _falcon(fields: ConfigFields, family: Family) -> Decoder:
    """Falcon 40B and 180B have two norms before both halves, Falcon 7B one and one key head."""
    new = fields.switch("new_decoder_architecture", default=False)
    parallel = fields.switch("parallel_attn", default=True)
    single = fields.switch("multi_query", default=True) and not new
    bias = fields.switch("bias", default=False)
    norms = fields.size("num_ln_in_parallel_attn", default=2 if new else 1)
    sizes = read_decoder(fields, family)
    keys = sizes.key_heads if new else 1 if single else sizes.heads
    return with_form(
        replace(sizes, key_heads=keys),
        parallel=("two-norms" if norms == 2 else "one-norm") if parallel or new else "",
        positions="alibi" if fields.switch("alibi", default=False) else "rotary",
        attention_bias=bias,
        output_bias=bias,
        mlp_bias=bias,
    )


def _gpt_neox(fields: ConfigFields, family: Family) -> Decoder:
    parallel = fields.switch("use_parallel_residual", default=True)
    sizes = read_decoder(fields, family)
    bias = sizes.form.attention_bias
    return with_form(sizes, output_bias=bias, parallel="two-norms" if parallel else "")


def _gpt2(fields: ConfigFields, family: Family) -> Gpt2:
    """GPT-2 has the positions of its longest context as parameters: that is its sequence."""
    width = fields.size("n_embd", "hidden_size")
    _check_four_widths(fields, width, "n_inner", "intermediate_size")
    fields.word(
        "activation_function",
        known={"gelu_new": "", "gelu_pytorch_tanh": ""},
        default="gelu_new",
    )
    fields.expect("scale_attn_weights", True, what="scores that are not scaled")
    fields.expect("scale_attn_by_inverse_layer_idx", False, what="a scale of scores by layer")
    fields.expect("reorder_and_upcast_attn", False, what="upcast attention")
    fields.expect("tie_word_embeddings", True, what="a last matrix of its own")
    _expect_epsilon(fields, "layer_norm_epsilon", 1e-5)
    return Gpt2(
        fields.size("n_layer", "num_hidden_layers"),
        width,
        fields.size("n_head", "num_attention_heads"),
        sequence=fields.size("n_positions", "max_position_embeddings"),
        vocabulary=fields.size("vocab_size"),
    )


def _bert(fields: ConfigFields, family: Family) -> Bert:
    width = fields.size("hidden_size")
    _check_four_widths(fields, width, "intermediate_size")
    fields.word("hidden_act", known={"gelu": ""}, default="gelu")
    fields.expect("type_vocab_size", 2, what="another number of sentences")
    fields.expect("position_embedding_type", "absolute", what="another kind of position")
    fields.expect("is_decoder", False, what="a decoder of BERT")
    fields.expect("tie_word_embeddings", True, what="a last matrix of its own")
    _expect_epsilon(fields, "layer_norm_eps", 1e-12)
    return Bert(
        fields.size("num_hidden_layers"),
        width,
        fields.size("num_attention_heads"),
        sequence=fields.size("max_position_embeddings"),
        vocabulary=fields.size("vocab_size"),
    )


def _expect_epsilon(fields: ConfigFields, name: str, usual: float) -> None:
    """Takes the epsilon of a model of the zoo, which is 1e-5: it changes no operation."""
    fields.number(name, default=usual)


def _check_four_widths(fields: ConfigFields, width: int, *names: str) -> None:
    hidden = fields.size(*names, default=4 * width)
    if hidden != 4 * width:
        problem = f"{names[0]} is {hidden}, not four times the width {width}"
        raise fields.error(f"{problem}: that is not supported yet for a {fields.kind}")


def _nemotron_h(fields: ConfigFields, family: Family) -> Decoder:
    refuse_hybrid(fields)


def _form(**changes: Any) -> Form:
    return replace(LLAMA, **changes)


_QWEN3 = _form(head_norm="head")
_GEMMA = _form(norm="rms-plus-one", norm_places="both", tied=True, scaled_embedding=True)
_GEMMA3 = replace(_GEMMA, head_norm="head")
_BIASES = {"attention_bias": True, "output_bias": True, "mlp_bias": True}
_DEEPSEEK = Family(_deepseek)

FAMILIES: Mapping[str, Family] = {
    "llama": Family(_llama),
    "mistral": Family(_llama),
    "mixtral": Family(_mixtral),
    "qwen2": Family(_qwen2, _form(attention_bias=True)),
    "qwen3": Family(_qwen2, _QWEN3),
    "qwen3_moe": Family(_qwen3_moe, _QWEN3),
    "gemma2": Family(_gemma, _GEMMA, "gelu_pytorch_tanh"),
    "gemma3": Family(_gemma, _GEMMA3, "gelu_pytorch_tanh"),
    "gemma3_text": Family(_gemma, _GEMMA3, "gelu_pytorch_tanh"),
    "phi3": Family(_llama),
    "olmo2": Family(_llama, _form(norm_places="after", head_norm="all")),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "kimi_k2": _DEEPSEEK,
    "gpt_oss": Family(
        _gpt_oss,
        _form(
            attention_bias=True,
            output_bias=True,
            mlp_bias=True,
            sinks=True,
            router=Router(bias=True),
        ),
    ),
    "glm4": Family(_llama, _form(norm_places="both", attention_bias=True, rotary_share=0.5)),
    "nemotron": Family(
        _llama, _form(norm="layer-plus-one", gated=False, rotary_share=0.5), "relu2"
    ),
    "falcon": Family(_falcon, _form(norm="layer", gated=False, tied=True), "gelu"),
    "bloom": Family(
        _bloom,
        _form(
            norm="layer",
            gated=False,
            tied=True,
            positions="alibi",
            embedding_norm=True,
            **_BIASES,
        ),
        "gelu_new",
    ),
    "gpt_neox": Family(
        _gpt_neox, _form(norm="layer", gated=False, rotary_share=0.25, **_BIASES), "gelu"
    ),
    "nemotron_h": Family(_nemotron_h),
    "gpt2": Family(_gpt2),
    "bert": Family(_bert),
}
"""The families by ``model_type``."""
