"""The frameworks' own parsers read what is written, where they are installed (see docs).

None of them is a dependency of ours: they bring CUDA wheels by the gigabyte. What each of them says
of a file is then held against the file's recipe; tables of options judge everywhere else.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import megatron_models
from framework_cases import MODELS, WORLD, machine, read, sampled, sequence
from framework_files import megatron_recipe, table, titan_recipe, words
from hierarchies import InputError
from synth.step.frameworks import FrameworkFiles, ModelSpec, TrainingSpec, write_configuration
from synth.step.sharding.recipes import Recipe

pytestmark = pytest.mark.filterwarnings("ignore")

EACH = 12
"""So many recipes of each model; what a framework refuses is not counted."""


def module(name: str) -> Any:
    """A module of a framework, or a skip that says so."""
    return pytest.importorskip(name, exc_type=ImportError)


def written(framework: str, seed: int) -> list[tuple[ModelSpec, Recipe, FrameworkFiles]]:
    found: list[tuple[ModelSpec, Recipe, FrameworkFiles]] = []
    count = dict.fromkeys(MODELS, 0)
    for model, recipe in sampled(seed, 2000):
        if count[model.name] == EACH:
            continue
        try:
            job = TrainingSpec(128, sequence(model))
            one = write_configuration(framework, recipe, model, job, machine(recipe))
        except InputError:
            continue
        count[model.name] += 1
        found.append((model, recipe, one))
    assert found
    return found


def test_the_table_of_megatron_is_its_parser() -> None:
    """Names, fields and choices of the flags, as ``add_megatron_arguments`` has them."""
    arguments = module("megatron.training.arguments")
    parser = arguments.add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))
    actions = {flag: one for one in parser._actions for flag in one.option_strings}
    for row in table("megatron-core-0.19.2"):
        one = actions[row["flag"]]
        assert one.dest == row["field"]
        assert " ".join(map(str, one.choices or ())) == row["choices"]


DATA = ["--mock-data", "--tokenizer-type", "NullTokenizer", "--train-iters", "10", "--lr", "1"]
DATA += ["--no-rope-fusion"]  # Transformer Engine's, which is not asked for here
DATA += ["--no-gradient-accumulation-fusion"]  # Apex's, likewise


@pytest.fixture
def validated(monkeypatch: pytest.MonkeyPatch) -> Callable[[FrameworkFiles, int], Any]:
    """``validate_args``, then the engine's own TransformerConfig; a device of Hopper is feigned."""
    arguments = module("megatron.training.arguments")
    config = module("megatron.training.argument_utils")
    torch = module("torch")
    monkeypatch.setattr(arguments, "get_device_arch_version", lambda: 9)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))

    def read(one: FrameworkFiles, world: int) -> Any:
        monkeypatch.setattr(sys, "argv", ["x", *words(str(one.files["arguments.sh"])), *DATA])
        monkeypatch.setenv("WORLD_SIZE", str(world))
        monkeypatch.setenv("RANK", "0")
        monkeypatch.delenv("CUDA_DEVICE_MAX_CONNECTIONS", raising=False)
        if "export CUDA_DEVICE_MAX_CONNECTIONS=1" in str(one.files["launch.sh"]):
            monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1")
        args = arguments.parse_args()
        arguments.validate_args(args)
        config.core_transformer_config_from_args(args)
        return args

    return read


def test_megatron_takes_the_flags(validated: Callable[[FrameworkFiles, int], Any]) -> None:
    for model, recipe, one in written("megatron", 5):
        args = validated(one, WORLD)
        sizes = dict(recipe.axes)
        assert args.data_parallel_size == sizes.get("data", 1) * sizes.get("expert", 1)
        assert (args.virtual_pipeline_model_parallel_size or 1) == recipe.chunks
        assert megatron_recipe(args, WORLD) == one.recipe, f"{model.name}: {recipe}"


def test_megatron_takes_the_flags_of_models_by_their_config(
    validated: Callable[[FrameworkFiles, int], Any],
) -> None:
    for name in megatron_models.ACCEPTED:
        args = validated(megatron_models.written("megatron", megatron_models.described(name)), 8)
        published = megatron_models.MODELS[name]["total_params"]
        assert megatron_models.count_parameters(args) == published


def test_megatron_pads_no_vocabulary_that_is_divided() -> None:
    """Its own formula, of ``make-vocab-size-divisible-by`` times tensor."""
    for model, recipe, one in written("megatron", 6):
        said = words(str(one.files["arguments.sh"]))
        each = int(said[said.index("--make-vocab-size-divisible-by") + 1])
        parts = each * dict(recipe.axes).get("tensor", 1)
        size = int(said[said.index("--vocab-size") + 1])
        assert size == getattr(model.sizes, "vocabulary", 0)
        assert size % parts == 0 or any("shards the vocabulary" in note for note in one.notes)


def test_torchtitan_reads_the_toml(tmp_path: Path) -> None:
    """``ConfigManager`` of 0.2, and its ParallelDims."""
    config = module("torchtitan.config")
    if not hasattr(config, "JobConfig"):
        pytest.skip("torchtitan 0.3 reads no TOML: install torchtitan==0.2.2")
    dims = module("torchtitan.distributed.parallel_dims")
    for model, recipe, one in written("torchtitan-toml", 7):
        path = tmp_path / "torchtitan.toml"
        path.write_text(str(one.files["torchtitan.toml"]), encoding="utf-8")
        found = config.ConfigManager().parse_args(["--job.config_file", str(path)])
        cut = found.parallelism
        made = dims.ParallelDims(
            dp_replicate=cut.data_parallel_replicate_degree,
            dp_shard=cut.data_parallel_shard_degree,
            cp=cut.context_parallel_degree,
            tp=cut.tensor_parallel_degree,
            pp=cut.pipeline_parallel_degree,
            ep=cut.expert_parallel_degree,
            etp=cut.expert_tensor_parallel_degree,
            world_size=WORLD,
        )
        assert found.training.seq_len % made.seq_len_divisor == 0
        sections = {
            "training": vars(found.training),
            "parallelism": vars(cut),
            "activation_checkpoint": {"mode": found.activation_checkpoint.mode},
        }
        layers = getattr(model.sizes, "layers", 0)
        assert titan_recipe(sections, WORLD, layers, "output") == one.recipe, recipe


def test_torchtitan_runs_the_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``ConfigManager`` of 0.3 imports the module; its ParallelDims, and its own checks."""
    module("torchtitan.models.llama3.config_registry")
    config = module("torchtitan.config.manager")
    dims = module("torchtitan.distributed.parallel_dims")
    monkeypatch.syspath_prepend(tmp_path)
    for model, recipe, one in written("torchtitan", 8):
        path = tmp_path / "collsynth_torchtitan.py"
        path.write_text(str(one.files["collsynth_torchtitan.py"]), encoding="utf-8")
        sys.modules.pop("collsynth_torchtitan", None)
        importlib.invalidate_caches()
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        asked = ["--module", "collsynth_torchtitan", "--config", "config"]
        found = config.ConfigManager().parse_args(asked)
        cut = found.parallelism
        dims.ParallelDims.from_config(cut, WORLD)
        mode = "none" if found.activation_checkpoint is None else "full"
        sections = {
            name: {key: getattr(part, key) for key in type(part).__dataclass_fields__}
            for name, part in (("training", found.training), ("parallelism", cut))
        }
        sections["activation_checkpoint"] = {"mode": mode}
        layers = getattr(model.sizes, "layers", 0)
        assert found.model_spec.flavor.lower() == model.name.removeprefix("llama3-")
        assert titan_recipe(sections, WORLD, layers, "lm_head") == one.recipe, recipe


def test_deepspeed_takes_the_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``DeepSpeedConfig``, given the number of ranks of data: batches multiply out there."""
    config = module("deepspeed.runtime.config")
    for model, recipe, one in written("deepspeed", 9):
        path = tmp_path / "deepspeed.json"
        path.write_text(str(one.files["deepspeed.json"]), encoding="utf-8")
        data = dict(one.recipe.axes).get("data", 1)
        ranks = argparse.Namespace(get_data_parallel_world_size=lambda data=data: data)
        monkeypatch.setattr(config.dist, "get_rank", lambda: 0)
        found = config.DeepSpeedConfig(str(path), mpu=ranks)
        assert found.world_size == data
        assert found.zero_optimization_stage == recipe.zero
        assert found.gradient_accumulation_steps == recipe.microbatches
        assert found.train_batch_size == 128
        tensor = dict(one.recipe.axes).get("tensor", 1)
        assert max(1, found.tensor_parallel_config.autotp_size) == tensor
        assert read("deepspeed", one, model).zero == recipe.zero
