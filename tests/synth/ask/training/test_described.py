"""A model by its config.json, wherever a model is named: files, folders, texts in questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from config_cases import text_of
from hierarchies import InputError
from synth.ask.planning import PlanQuestion
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS
from synth.cli.app import app
from synth.cli.foreign_inputs import read_model
from synth.cli.inputs import read_swept
from synth.collective.ranking.request import Watcher

QWEN = {"name": "qwen/config.json", "text": text_of("qwen3")}
PLAN = "data=2; batch over data"
VERBS_OF_MODELS: dict[str, dict[str, Any]] = {
    "trace": {},
    "shard": {"plan": PLAN},
    "simulate": {"plan": "data=8; batch over data", "system": "dgx-h100:1"},
    "buckets": {"system": "dgx-h100:1"},
    "train": {"plan": PLAN},
    "profile": {"plan": PLAN},
    "plan": {"system": "dgx-h100:1"},
}


def run(*words: str, stdin: str | None = None) -> Any:
    return CliRunner().invoke(app, list(words), input=stdin)


@pytest.mark.parametrize("verb", VERBS_OF_MODELS)
def test_every_verb_of_a_model_takes_its_configuration(verb: str) -> None:
    keys = VERBS_OF_MODELS[verb]
    parse_question(VERBS[verb].question, {"model": QWEN, **keys}).check_early()
    bad = {"name": "bad.json", "text": text_of("qwen3", num_key_value_heads=3)}
    refused = parse_question(VERBS[verb].question, {"model": bad, **keys})
    with pytest.raises(InputError, match="key_heads 3 do not divide heads 4"):
        refused.check_early()


def test_a_file_a_folder_and_standard_input_are_one_model(tmp_path: Path) -> None:
    folder = tmp_path / "tiny-qwen"
    folder.mkdir()
    (folder / "config.json").write_text(QWEN["text"])
    answers = [
        json.loads(run("trace", spec, "--json", stdin=text).stdout)
        for spec, text in (
            (str(folder), None),
            (str(folder / "config.json"), None),
            ("-", QWEN["text"]),
        )
    ]
    assert [answer["name"] for answer in answers] == ["tiny-qwen", "tiny-qwen", "qwen3"]
    assert len({answer["parameters"] for answer in answers}) == 1
    assert answers[0]["sizes"]["head_width"] == 6
    empty = run("trace", str(tmp_path))
    assert empty.exit_code == 2
    assert "there is no file" in empty.stderr


def test_sizes_that_no_field_had_are_changed() -> None:
    words = ("trace", "llama3-tiny", "--json")
    plain = json.loads(run(*words).stdout)
    wide = json.loads(run(*words, "--sizes", "head_width=16").stdout)
    assert "head_width" not in plain["sizes"]
    # In two layers, 4 heads in and out and 2 of keys and of values are 8 elements wider, by 32.
    assert wide["parameters"] - plain["parameters"] == 2 * (4 + 4 + 2 + 2) * 8 * 32
    refused = run("trace", "llama3-tiny", "--sizes", "shared_hidden=64")
    assert "shared_hidden is 64, and there is one expert" in refused.stderr


def test_a_plan_says_what_a_configuration_says_and_is_not_traced() -> None:
    text = text_of("deepseek_v3", num_nextn_predict_layers=1, attention_dropout=0.1)
    given = {"model": {"name": "d/config.json", "text": text}}
    pin = "data=8 pipe=1 tensor=1 expert=1 zero=1 remat=no microbatches=1"
    keys = {**given, "system": "dgx-h100:1", "batch": 8, "pin": pin, "k": 1}
    answer: Any = VERBS["plan"].answer(parse_question(PlanQuestion, keys), Watcher()).body
    assert answer["model"] == "d/config.json"
    assert answer["plans"]
    for said in (
        "all experts get equal numbers of tokens",
        "layers without experts (the first 1) are on the first stage",
        "num_nextn_predict_layers (multi-token prediction)",
        "attention_dropout 0.1",
    ):
        assert said in answer["assumed"]
    assert [row["framework"] for row in answer["unsupported"]].count("megatron") == 1


def test_a_step_is_no_configuration_to_plan_with() -> None:
    keys = {"model": {"name": "a.step", "text": "step a"}, "system": "dgx-h100:1"}
    with pytest.raises(InputError, match="plans trace a model at several sizes"):
        parse_question(PlanQuestion, keys).check_early()


def test_models_are_swept_by_their_files(tmp_path: Path) -> None:
    for kind in ("llama", "qwen3"):
        (tmp_path / f"{kind}.json").write_text(text_of(kind))
    files = [str(tmp_path / f"{kind}.json") for kind in ("llama", "qwen3")]
    swept = read_swept([f"model={','.join((*files, 'gpt2-tiny'))}"])["model"]
    assert [one["name"] for one in swept[:2]] == files
    assert swept[2] == "gpt2-tiny"
    assert read_model("gpt2-tiny") == "gpt2-tiny"
