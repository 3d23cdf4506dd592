"""Reads the text of a ``config.json`` as a model; nothing is downloaded, and no code is run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import PurePath
from typing import Any

from hierarchies import InputError, suggest_nearest
from synth.step.configs.decoders import FULL, SLIDING
from synth.step.configs.families import FAMILIES
from synth.step.configs.fields import ConfigFields
from synth.step.zoo.sizes import DescribedModel, check_sizes

MOST_CHARACTERS = 20 * 2**20
MOST_DEEP = 64
HINT = "give a model's config.json, with a model_type such as llama"

OTHERS: Mapping[str, str] = {
    "peft_type": "an adapter (PEFT): its base model has the sizes",
    "added_tokens_decoder": "a tokenizer's configuration",
    "tokenizer_class": "a tokenizer's configuration",
    "added_tokens": "a tokenizer",
    "weight_map": "an index of weights",
    "image_processor_type": "a configuration of images' preparation",
    "feature_extractor_type": "a configuration of inputs' preparation",
    "_class_name": "a configuration of diffusers",
    "_from_model_config": "a configuration of generation",
    "vision_config": "a model of images without a text_config",
}
"""Keys of other JSON files of Hugging Face, and what these are."""

TOWERS = ("vision_config", "audio_config", "speech_config")


def is_config(text: str) -> bool:
    """Whether a text is JSON, as a configuration is, and not the text of a step."""
    return text.lstrip("\ufeff \t\r\n").startswith(("{", "["))


@lru_cache(4)
def read_config(text: str, where: str) -> DescribedModel:
    """Returns the model that a configuration describes. ``where``: the name of its file.

    Raises InputError for other JSON, unknown types, missing fields, and fields that contradict each
    other or that are not understood.
    """
    values = _parse(text, where)
    left_out: list[str] = []
    if isinstance(values.get("text_config"), dict):
        left_out = [f"{tower} is left out" for tower in TOWERS if values.get(tower)]
        outer = values
        values = dict(outer["text_config"])
        values.setdefault("model_type", outer.get("model_type"))
        if "tie_word_embeddings" in outer:
            values.setdefault("tie_word_embeddings", outer["tie_word_embeddings"])
    kind = _check_kind(values, where)
    fields = ConfigFields(_unfold_rope(values), where)
    fields.omit("quantization_config", what="weights are trained in the type that you ask for")
    family = FAMILIES[kind]
    sizes = family.sizes(fields, family)
    omitted = fields.finish()
    name = name_of(where, kind)
    return DescribedModel(name, check_sizes(where, sizes), (*left_out, *omitted))


def _unfold_rope(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the fields with those of ``rope_parameters`` (transformers 5) as in transformers 4.

    They may be given by the type of a layer: with and without a window.
    """
    inside = values.get("rope_parameters")
    if not isinstance(inside, dict):
        return values
    local = inside.get(SLIDING)
    inside = inside.get(FULL, inside)
    found = {**values, "rope_parameters": None}
    for name in ("rope_theta", "partial_rotary_factor"):
        if isinstance(inside, dict) and name in inside:
            found[name] = inside[name]
    found["rope_scaling"] = inside
    if isinstance(local, dict):
        found["rope_local_base_freq"] = local.get("rope_theta")
    return found


def name_of(where: str, kind: str) -> str:
    """Returns a model's name in answers: of the file, of its folder, or its type.

    >>> name_of("models/qwen3-30b/config.json", "qwen3_moe"), name_of("-", "llama")
    ('qwen3-30b', 'llama')
    """
    path = PurePath(where)
    stem = path.parent.name if path.name == "config.json" else path.stem
    return re.sub(r"[^\w.-]+", "_", stem, flags=re.ASCII).strip("-.") or kind


def _parse(text: str, where: str) -> dict[str, Any]:
    """Returns a JSON object. Raises InputError for what is none, or has a key twice."""
    if len(text) > MOST_CHARACTERS:
        problem = f"more than {MOST_CHARACTERS // 2**20} MiB of JSON"
        raise InputError(problem, where=where, hint=HINT)

    def refuse(word: str) -> None:
        raise InputError(f"{word} is not JSON", where=where, hint="a number that is finite")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise InputError(
                    f"key {key[:80]!r} is given twice", where=where, hint="give it once"
                )
            found[key] = value
        return found

    try:
        values = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except RecursionError:
        raise InputError("the JSON is nested too deeply", where=where, hint=HINT) from None
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"not JSON: {error}", where=where, hint=HINT) from None
    if not isinstance(values, dict):
        raise InputError("JSON, but not an object", where=where, hint=HINT)
    return values


def _check_kind(values: Mapping[str, Any], where: str) -> str:
    """Returns the type of a model. Raises InputError for other files and unknown types."""
    kind = values.get("model_type")
    if not isinstance(kind, str):
        what = next((said for key, said in OTHERS.items() if key in values), "")
        problem = f"this is {what}" if what else "no model_type"
        raise InputError(problem, where=where, hint=HINT)
    if kind not in FAMILIES:
        named = f"model_type {kind[:80]!r}"
        if towers := [tower for tower in TOWERS if tower in values]:
            problem = f"{named} has {', '.join(towers)}"
            raise InputError(problem, where=where, hint="give its text model's configuration")
        hint = suggest_nearest(kind, FAMILIES)
        raise InputError(f"{named} is not known", where=where, hint=hint)
    return kind
