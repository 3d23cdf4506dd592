"""Configurations of published models: counted to the last parameter, and computed by hand."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import traced_steps
from config_cases import PUBLISHED, TINY, text_of, tiny
from decoder_reference import reference_loss
from hierarchies import InputError
from synth.step.configs import read_config
from synth.step.configs.families import FAMILIES
from synth.step.rows.grids import extents_of
from synth.step.search.first_plan import TransformerCounts
from synth.step.work import work_of
from synth.step.zoo.models import Model, ModelOptions
from synth.step.zoo.sizes import Decoder, DescribedModel
from synth.step.zoo.table import model_of, step_of
from traced_steps import compiled

SHARED = Path(__file__).parents[5] / "shared" / "data" / "models"


def build(model: DescribedModel, **how: Any) -> Model:
    return model_of(model.name, model.sizes, ModelOptions(**({"batch": 2} | how)))


def count(model: DescribedModel) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(build(model).parameters))


def count_of(text: str, where: str) -> int:
    """The parameters of a model; of a hybrid, which has no step, those that its refusal names."""
    if json.loads(text)["model_type"] != "nemotron_h":
        return count(read_config(text, where))
    with pytest.raises(InputError, match="Mamba-2 layers of a nemotron_h are not") as refused:
        read_config(text, where)
    return int(re.findall(r"([\d,]+) parameters", str(refused.value))[0].replace(",", ""))


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_as_many_as_their_publishers_count(name: str) -> None:
    known = PUBLISHED[name]
    text = json.dumps(known["config"])
    assert count_of(text, name) == known["total_params"]


def test_shared_configurations_have_as_many_parameters_as_published() -> None:
    """All files that are there, also those that a later list adds."""
    if not SHARED.is_dir():
        pytest.skip("no shared data")
    with (SHARED / "models.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        text = (SHARED / row["file"]).read_text()
        assert count_of(text, row["file"]) == int(row["total_params"]), row["name"]


def test_every_family_has_a_small_configuration() -> None:
    assert {*TINY, "gemma3", "nemotron_h"} == {*FAMILIES}


DECODERS = [kind for kind in TINY if isinstance(tiny(kind).sizes, Decoder)]


@pytest.mark.parametrize("kind", DECODERS)
def test_a_decoder_computes_what_one_would_write_by_hand(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Token by token and head by head in float64, from the fields of the configuration."""
    monkeypatch.setattr("synth.step.zoo.experts.CAPACITY", 4.0)  # no expert drops a token
    model = build(tiny(kind))
    parameters, _, batch = traced_steps.arguments(model)
    noise = np.random.default_rng(0)
    # Biases, norms, corrections and sinks are drawn as well, so that each of them is judged.
    parameters = jax.tree.map(
        lambda leaf: leaf + jnp.float32(0.2) * noise.standard_normal(leaf.shape, np.float32),
        parameters,
    )
    found = float(compiled(model.loss)(parameters, batch))
    exact = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), parameters)
    fields = json.loads(text_of(kind))
    wanted = reference_loss(
        fields, exact, np.asarray(batch["tokens"]), np.asarray(batch["targets"])
    )
    assert math.isclose(found, wanted, rel_tol=2e-5), (found, wanted)


@pytest.mark.parametrize("kind", TINY)
def test_the_step_of_every_family_is_traced(kind: str) -> None:
    step = step_of(build(tiny(kind), dtype="bfloat16"), "adamw")
    assert step.roles.count("parameter") == len(jax.tree.leaves(build(tiny(kind)).parameters))


BAD = {
    "no JSON": ("{", "not JSON"),
    "a list": ("[1]", "JSON, but not an object"),
    "a key twice": ('{"model_type": "llama", "model_type": "llama"}', "key 'model_type' is given"),
    "nan": ('{"model_type": "llama", "rope_theta": NaN}', "NaN is not JSON"),
    "deep": ("[" * 100_000, "nested too deeply"),
    "adapter": ('{"peft_type": "LORA", "r": 8}', "an adapter (PEFT)"),
    "tokenizer": ('{"tokenizer_class": "LlamaTokenizer"}', "a tokenizer's configuration"),
    "generation": (
        '{"_from_model_config": true, "bos_token_id": 1}',
        "a configuration of generation",
    ),
    "index of weights": ('{"weight_map": {}}', "an index of weights"),
    "images": ('{"model_type": "siglip", "vision_config": {}}', "'siglip' has vision_config"),
    "no type": ('{"hidden_size": 8}', "no model_type; give a model's config.json"),
    "a near type": ('{"model_type": "lama"}', "'lama' is not known; did you mean llama"),
    "hybrid": (
        '{"model_type": "nemotron_h", "num_hidden_layers": 2, "hybrid_override_pattern": "M"}',
        "hybrid_override_pattern is 'M'; a letter for each of 2 layers",
    ),
    "missing": ('{"model_type": "llama", "hidden_size": 8}', "no field 'num_hidden_layers'"),
}


@pytest.mark.parametrize("case", BAD)
def test_other_files_are_refused_by_what_they_are(case: str) -> None:
    text, said = BAD[case]
    with pytest.raises(InputError) as refused:
        read_config(text, "given.json")
    assert str(refused.value).startswith("given.json: ")
    assert said in str(refused.value)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("llama", {"num_key_value_heads": 3}, "key_heads 3 do not divide heads 4"),
    ("llama", {"num_attention_heads": 3, "num_key_value_heads": 3}, "heads 3 do not divide width"),
    ("qwen3", {"head_dim": 5}, "5 rotated elements of a head"),
    ("llama", {"hidden_size": "16"}, "hidden_size is '16'; a whole number"),
    ("llama", {"hidden_size": True}, "hidden_size is True"),
    ("llama", {"hidden_size": 0}, "hidden_size is 0"),
    ("llama", {"rope_theta": -1}, "rope_theta is -1"),
    ("llama", {"hidden_act": "silo"}, "hidden_act 'silo' is not known; did you mean silu"),
    ("llama", {"rope_scaling": {"rope_type": "mrope"}}, "rope_scaling is {'rope_type': 'mrope'}"),
    ("llama", {"residual_multiplier": 0.22}, "field 'residual_multiplier' of a llama is not"),
    (
        "llama",
        {"hidden_sise": 8},
        "'hidden_sise' of a llama is not understood; did you mean",
    ),
    ("mixtral", {"num_experts_per_tok": 5}, "5 of 4 experts chosen"),
    ("qwen3_moe", {"mlp_only_layers": [0]}, "mlp_only_layers is [0]: a dense layer between"),
    ("gpt_oss", {"swiglu_limit": 8.0}, "another limit of SwiGLU is not supported yet"),
    ("gpt_oss", {"layer_types": ["full_attention"]}, "layer_types has 1 words; one for each of 2"),
    ("gpt_oss", {"layer_types": ["a", "b"]}, "layer_types 'a' is not supported yet"),
    ("gemma2", {"layer_types": ["full_attention", "sliding_attention"]}, "regular turns"),
    ("deepseek_v3", {"n_group": 3}, "8 experts, 2 of 3 groups chosen"),
    ("deepseek_v3", {"n_group": 8, "topk_group": 1}, "2 experts from 1 of 8 groups"),
    ("deepseek_v3", {"attention_bias": True}, "a bias of latent attention is not supported yet"),
    ("deepseek_v3", {"scoring_func": "softmax"}, "another score is not supported yet"),
    ("deepseek_v3", {"first_k_dense_replace": 3}, "first_k_dense_replace 3 of 3 layers"),
    ("bloom", {"alibi": False}, "BLOOM without ALiBi is not supported yet"),
    ("gpt2", {"n_inner": 40}, "n_inner is 40, not four times the width 16"),
    ("bert", {"is_decoder": True}, "a decoder of BERT is not supported yet"),
]


@pytest.mark.parametrize(("kind", "changes", "said"), REFUSED)
def test_what_is_not_understood_is_refused_by_name(
    kind: str, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as refused:
        read_config(text_of(kind, **changes), "given.json")
    assert said in str(refused.value)


def test_fields_that_change_no_operation_are_left_out_with_a_word() -> None:
    inert = {"torch_dtype": "bfloat16", "use_cache": True, "attention_dropout": 0.0, "future": None}
    assert read_config(text_of("llama", **inert), "llama-tiny/config.json") == tiny("llama")
    said = {
        "quantization_config": {"quant_method": "fp8"},
        "rope_scaling": {"type": "yarn", "factor": 40},
        "num_nextn_predict_layers": 1,
        "attention_dropout": 0.1,
    }
    omitted = read_config(text_of("deepseek_v3", **said), "a.json").omitted
    for name in said:
        assert any(text.startswith(name) for text in omitted), (name, omitted)


def test_the_text_model_of_a_model_of_images_is_read_without_its_tower() -> None:
    inner = json.loads(text_of("gemma3_text"))
    text = json.dumps({"model_type": "gemma3", "text_config": inner, "vision_config": {"a": 1}})
    model = read_config(text, "gemma3_text-tiny/config.json")
    assert model.sizes == tiny("gemma3_text").sizes
    assert model.omitted == ("vision_config is left out",)


def test_rotary_parameters_of_either_spelling_are_one_model() -> None:
    fields = json.loads(text_of("gemma3_text"))
    bases = {"full_attention": fields.pop("rope_theta")}
    bases["sliding_attention"] = fields.pop("rope_local_base_freq")
    fields["rope_parameters"] = {
        kind: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()
    }
    assert read_config(json.dumps(fields), "b.json").sizes == tiny("gemma3_text").sizes


MIXED = ("qwen3-30b-a3b", "deepseek-v3", "gpt-oss-120b", "gemma-3-27b-text", "falcon-40b")


def attention_weights(fields: dict[str, Any]) -> tuple[int, int]:
    """The weights of a layer's products in attention, and the elements of its heads, both ways."""
    width, heads = fields["hidden_size"], fields["num_attention_heads"]
    if fields["model_type"] != "deepseek_v3":
        keys = fields.get("num_key_value_heads", fields.get("num_kv_heads"))
        head = fields.get("head_dim", width // heads)
        return 2 * width * head * (heads + keys), 2 * heads * head
    plain, rotary, value = (
        fields[name] for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    )
    ranks = fields["q_lora_rank"], fields["kv_lora_rank"]
    into = width * sum(ranks) + width * rotary
    back = ranks[0] * heads * (plain + rotary) + ranks[1] * heads * (plain + value)
    return into + back + heads * value * width, heads * (plain + rotary + value)


def feed_forward_weights(fields: dict[str, Any]) -> int:
    """The weights of the products that a token takes part in behind attention, in all layers."""
    width, layers, kind = fields["hidden_size"], fields["num_hidden_layers"], fields["model_type"]
    if kind == "falcon":
        return layers * 2 * width * 4 * width
    names = ("num_experts", "n_routed_experts", "num_local_experts")
    experts = next((fields[name] for name in names if name in fields), None)
    if experts is None:
        return layers * 3 * width * fields["intermediate_size"]
    hidden = fields.get("moe_intermediate_size", fields["intermediate_size"])
    used = fields["num_experts_per_tok"] + fields.get("n_shared_experts", 0)
    dense = fields.get("first_k_dense_replace", 0)
    of_experts = (layers - dense) * width * (experts + 3 * used * hidden)
    return of_experts + dense * 3 * width * fields["intermediate_size"]


@pytest.mark.parametrize("name", MIXED)
def test_a_step_has_six_operations_a_weight_and_token_and_attention(name: str) -> None:
    """And the first plan's formulas count the parameters, and divide what the step divides."""
    known = PUBLISHED[name]
    fields, model = known["config"], read_config(json.dumps(known["config"]), name)
    step = step_of(build(model, batch=1, dtype="bfloat16"), "sgd")
    tokens, layers = 4096 if name != "falcon-40b" else 2048, fields["num_hidden_layers"]
    weights, elements = attention_weights(fields)
    products = layers * (weights + tokens * elements) + feed_forward_weights(fields)
    products += fields["vocab_size"] * fields["hidden_size"]
    if name == "deepseek-v3":  # the first layers are recomputed, but for their last product
        again = weights + tokens * elements + 2 * fields["hidden_size"] * 18432
        products += fields["first_k_dense_replace"] * again / 3
    found = next(work.flops for work in work_of(step) if work.primitive == "dot_general")
    assert found == 6 * tokens * products
    assert isinstance(model.sizes, Decoder)
    counts = TransformerCounts(model.sizes)
    counted = model.sizes.layers * sum(counts.layer_parameters) + counts.ends_parameters
    assert counted == pytest.approx(known["total_params"], rel=0.02)
    assert {**vars(counts.extents), "batch": 1} == vars(extents_of(step))


def test_errors_are_short_however_long_a_value_is() -> None:
    for changes in ({"hidden_act": "x" * 10**6}, {"y" * 10**6: 1}, {"layer_types": ["z"] * 10**5}):
        with pytest.raises(InputError) as refused:
            read_config(text_of("llama", **changes), "given.json")
        assert len(str(refused.value)) < 1000
    with pytest.raises(InputError) as refused:
        read_config(json.dumps({"model_type": "l" * 10**6}), "given.json")
    assert len(str(refused.value)) < 1000
    with pytest.raises(InputError, match="more than 20 MiB"):
        read_config(" " * (20 * 2**20) + "{}", "given.json")


def test_windows_alternate_where_a_file_leaves_out_how() -> None:
    """Gemma 3 as it is published, and gpt-oss without ``layer_types``."""
    fields = json.loads(text_of("gemma3_text", num_hidden_layers=12))
    for name in ("sliding_window_pattern", "vocab_size", "rope_theta"):
        del fields[name]
    gemma = read_config(json.dumps(fields), "g.json").sizes
    assert isinstance(gemma, Decoder)
    assert (gemma.form.full_every, gemma.vocabulary, gemma.rope_base) == (6, 262208, 1e6)
    oss = read_config(text_of("gpt_oss", layer_types=None), "o.json").sizes
    assert oss == tiny("gpt_oss").sizes


ODD: list[Any] = [
    *(None, True, False, -1, 0, 1, 3, 10**12, 10**400, 1.5, 1e300, "", "x", [], [1], {}, {"a": 1}),
    ["sliding_attention"] * 2,
    {"rope_type": ["yarn"]},
    {"full_attention": 3, "sliding_attention": []},
]
OTHER_FIELDS = (
    *("model_type", "text_config", "rope_scaling", "rope_parameters", "layer_types", "attn_pdrop"),
    *("architectures", "quantization_config", "head_dim", "norm_topk_prob", "hidden_act"),
)


@pytest.mark.parametrize("kind", [*TINY, "nemotron_h"])
def test_an_odd_value_of_any_field_is_read_or_refused_in_one_line(kind: str) -> None:
    known = TINY.get(kind, PUBLISHED["nemotron-3-nano-30b-a3b"]["config"])
    told = []
    for name in (*known, *OTHER_FIELDS):
        for value in ODD:
            text = json.dumps({"model_type": kind, **known, name: value})
            try:
                read_config(text, "odd.json")
            except InputError as refused:
                told.append(str(refused))
    assert told
    assert all(one.startswith("odd.json: ") and "\n" not in one for one in told)
