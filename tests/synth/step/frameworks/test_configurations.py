"""What is written for a framework, read by tables of its options, is the recipe that it says."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

from framework_cases import EACH, MODELS, SYSTEM, WORLD, machine, read, sampled, sequence
from framework_files import (
    groups_of_placement,
    groups_of_ranks,
    megatron_parser,
    rank_devices,
    titan_python,
    titan_toml,
    words,
)
from hierarchies import Axis, InputError, Placement, placements
from synth.step.frameworks import (
    FRAMEWORKS,
    PlacedSystem,
    TrainingSpec,
    write_configuration,
    write_configurations,
)
from synth.step.sharding import parse_recipe

ROLES = ("pipe", "data", "expert", "seq", "tensor")
SAID = [name for name in FRAMEWORKS if name != "jax"]


@pytest.mark.parametrize("framework", SAID)
def test_files_express_the_recipe_or_note_the_difference(framework: str) -> None:
    """Round trip: the written files, read by the framework's rules, are the recipe they carry."""
    exact = differing = refused = 0
    for model, recipe in sampled(3, 700):
        job = TrainingSpec(128, sequence(model))
        try:
            found = write_configuration(framework, recipe, model, job, machine(recipe))
        except InputError:
            refused += 1
            continue
        back = read(framework, found, model)
        if recipe.bucket_bytes and back.bucket_bytes:
            assert abs(back.bucket_bytes - recipe.bucket_bytes) < 4
            back = replace(back, bucket_bytes=recipe.bucket_bytes)
        assert back == found.recipe, f"{recipe}\n{back}\n{found.recipe}"
        assert found.recipe == recipe or found.notes, recipe
        for text in (*found.notes, str(recipe)):
            assert any(text in str(one) for one in found.files.values()), text
        for name, one in found.files.items():
            assert str(one).strip("\n") + "\n" == str(one), name
        exact += found.recipe == recipe
        differing += found.recipe != recipe
    assert min(exact, refused) > 20, (exact, differing, refused)


@pytest.mark.parametrize("framework", SAID)
def test_ranks_lie_where_the_placement_has_them(framework: str) -> None:
    """Each axis's groups, counted from the launch, are those of the placement."""
    text = "pipe=2 data=4 tensor=4; batch over data; weights over tensor as Megatron; "
    text += "vocabulary over tensor; tokens over tensor; schedule 1f1b, 4 microbatches"
    plain = "data=8 tensor=4; batch over data; weights over tensor as Megatron; zero=2"
    staged = "pipe=4 data=8; batch over data; schedule 1f1b, 4 microbatches"
    experts = "pipe=2 data=2 expert=8; batch over data and expert; experts over expert; "
    experts += "schedule 1f1b, 4 microbatches"
    alone = "expert=8 tensor=4; batch over expert; experts over expert; "
    alone += "weights over tensor as Megatron"
    written = told = 0
    for recipe in map(parse_recipe, (text, plain, staged, experts, alone)):
        model = MODELS["mixtral-8x7b" if recipe.experts else "llama3-8b"]
        axes = [Axis(name, size) for name, size in recipe.axes]
        for placement in placements(SYSTEM.hierarchy, axes):
            job, on = TrainingSpec(64, sequence(model)), PlacedSystem(SYSTEM, placement)
            try:
                found = write_configuration(framework, recipe, model, job, on)
            except InputError:
                continue
            ranks = rank_devices(found.files, EACH, WORLD)
            assert sorted(ranks) == list(range(WORLD))
            mapped = "--use-tp-pp-dp-mapping" in str(found.files.get("arguments.sh", ""))
            mapped |= "use_tp_pp_dp_mapping" in str(found.files.get("collsynth_bridge.py", ""))
            order = ("data", "pipe", "expert", "seq", "tensor") if mapped else ROLES
            sizes = {role: dict(recipe.axes).get(role, 1) for role in order}
            for axis, size in recipe.axes:
                wanted = groups_of_placement(placement, axis)
                assert groups_of_ranks(ranks, sizes, axis) == wanted, (axis, size, str(placement))
            written += 1
            told += mapped or "slurm_hostfile" in found.files
    assert written > told > 0 or framework == "torchtitan-toml"


EXPERTS = "data=4 expert=8; batch over data and expert; experts over expert; zero=1; 2 microbatches"


def test_experts_are_a_part_of_the_data_parallel_ranks_of_megatron() -> None:
    recipe, model = parse_recipe(EXPERTS), MODELS["mixtral-8x7b"]
    found = write_configuration("megatron", recipe, model, TrainingSpec(64, 4096), machine(recipe))
    args = megatron_parser().parse_args(words(str(found.files["arguments.sh"])))
    assert (args.num_experts, args.moe_router_topk, args.expert_model_parallel_size) == (8, 2, 8)
    assert (args.micro_batch_size, args.global_batch_size) == (1, 64)
    assert args.moe_grouped_gemm
    assert args.use_distributed_optimizer
    assert "none is dropped" in " ".join(found.notes)


def test_torchtitan_compiles_as_predictions_assume() -> None:
    """Off by default in both versions; a prediction fuses element-wise operations."""
    model, job = MODELS["llama3-8b"], TrainingSpec(64, 8192)
    plain = "data=32; batch over data; zero=3"
    halves = "pipe=4 data=8; batch over data; zero=2; schedule zbv, 8 microbatches"
    for framework, text in product(("torchtitan", "torchtitan-toml"), (plain, halves)):
        recipe = parse_recipe(text)
        found = write_configuration(framework, recipe, model, job, machine(recipe))
        toml = framework == "torchtitan-toml"
        script = str(found.files["torchtitan.toml" if toml else "collsynth_torchtitan.py"])
        read = titan_toml(script) if toml else titan_python(script, "llama3_8b")
        assert read["compile"] == {"enable": text == plain}
        assert any("torch.compile stays off" in note for note in found.notes) == (text == halves)


def test_the_mapping_of_megatron_is_a_flag_where_that_is_enough() -> None:
    recipe = parse_recipe("pipe=8 data=4; batch over data; schedule 1f1b, 4 microbatches")
    placement = Placement(SYSTEM.hierarchy, (Axis("pipe", 8), Axis("data", 4)), ((1, 8), (4, 1)))
    on = PlacedSystem(SYSTEM, placement)
    found = write_configuration("megatron", recipe, MODELS["llama3-8b"], TrainingSpec(64, 8192), on)
    assert "--use-tp-pp-dp-mapping" in words(str(found.files["arguments.sh"]))
    assert "slurm_hostfile" not in found.files


def test_bash_reads_the_flags_as_shlex_does(tmp_path: Path) -> None:
    recipe = parse_recipe("data=8 tensor=4; batch over data; weights over tensor as Megatron")
    job, on = TrainingSpec(64, 8192), machine(recipe)
    found = write_configuration("megatron", recipe, MODELS["llama3-70b"], job, on)
    text = str(found.files["arguments.sh"])
    (tmp_path / "arguments.sh").write_text(text, encoding="utf-8")
    script = 'source arguments.sh; printf "%s\\n" "${ARGUMENTS[@]}"'
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout.split("\n")[:-1] == words(text)


def test_launch_scripts_are_bash() -> None:
    recipe = parse_recipe("data=4 tensor=8; batch over data; weights over tensor as Megatron")
    axes = (Axis("data", 4), Axis("tensor", 8))
    for matrix in (((4, 1), (1, 8)), ((1, 4), (4, 2))):
        on = PlacedSystem(SYSTEM, Placement(SYSTEM.hierarchy, axes, matrix))
        found = write_configurations(recipe, MODELS["llama3-8b"], TrainingSpec(64, 8192), on)
        scripts = [text for name, text in found.files.items() if name.endswith(".sh")]
        assert len(scripts) >= 5
        for text in scripts:
            subprocess.run(["bash", "-n"], input=str(text), check=True, text=True)


def test_a_process_takes_its_rank_from_its_launcher(tmp_path: Path) -> None:
    """By torchrun it is that of its device, by Slurm that of its task; python here tells it."""
    recipe = parse_recipe("data=4 tensor=8; batch over data; weights over tensor as Megatron")
    axes = (Axis("data", 4), Axis("tensor", 8))
    placement = Placement(SYSTEM.hierarchy, axes, ((1, 4), (4, 2)))
    on = PlacedSystem(SYSTEM, placement)
    found = write_configuration(
        "deepspeed", recipe, MODELS["llama3-8b"], TrainingSpec(64, 8192), on
    )
    for name, text in found.files.items():
        (tmp_path / name).write_text(str(text), encoding="utf-8")
    stub = tmp_path / "bin" / "python"
    stub.parent.mkdir()
    stub.write_text(
        f'#!/bin/sh\n[ "$1" = -c ] && exec {sys.executable} "$@"\n'
        'echo "$RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $CUDA_DEVICE_ORDER"\n',
        encoding="utf-8",
    )
    stub.chmod(0o755)
    wanted = rank_devices(found.files, EACH, WORLD)

    def started(**given: str) -> list[str]:
        path = f"{stub.parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", str(tmp_path / "launch.sh")],
            env={"PATH": path, "DEEPSPEED": "here", "TRAIN": "train.py", **given},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.split()

    by_torchrun = started(
        GROUP_RANK="1", LOCAL_RANK="3", RANK="11", WORLD_SIZE="32", MASTER_ADDR="a"
    )
    rank = wanted.index(EACH + 3)
    assert by_torchrun == [str(rank), "32", "3", "a", "PCI_BUS_ID"]
    by_slurm = started(SLURM_PROCID="11", SLURM_LOCALID="2")
    assert by_slurm == ["11", "32", "2", "host0", "PCI_BUS_ID"]


CUT = "data=8 tensor=4; batch over data; weights over tensor as Megatron"


@pytest.mark.parametrize(
    ("framework", "text", "name", "problem"),
    [
        ("megatron", "pipe=4 data=8; batch over data; schedule gpipe, 4 microbatches", "", "gpipe"),
        (
            "megatron",
            "pipe=8 data=4; batch over data; schedule interleaved-1f1b, 2 chunks, 4 microbatches",
            "",
            "4 microbatches in rounds over 8 ranks",
        ),
        ("megatron", "data=2 tensor=16; batch over data; weights over tensor as Megatron", "", "8"),
        ("megatron", "pipe=32; schedule 1f1b, 4 microbatches; remat layers", "llama3-70b", "80"),
        (
            "megatron",
            "pipe=4 data=8; batch over data; zero=3; schedule 1f1b, 4 microbatches",
            "",
            "zero=3 on stages",
        ),
        (
            "megatron",
            "data=8 expert=4; batch over data; experts over expert",
            "mixtral-8x7b",
            "same samples",
        ),
        ("megatron", "data=8 spare=4; batch over data", "", "axis spare shards nothing"),
        ("megatron", "data=8 more=4; batch over data and more", "", "batch over data and more"),
        ("torchtitan", EXPERTS, "mixtral-8x7b", "no flavour of mixtral-8x7b"),
        ("deepspeed", EXPERTS, "mixtral-8x7b", "some of the data-parallel ranks"),
        ("megatron", CUT + "; weights mlp/up[-1] over data", "", "clauses for a single weight"),
        ("megatron", CUT + "; experts over data", "mixtral-8x7b", "experts together with weights"),
        ("torchtitan", CUT + "; zero=1", "", "zero=1"),
        (
            "torchtitan",
            "pipe=4 data=8; batch over data; schedule zero-bubble, 4 microbatches",
            "",
            "no schedule zero-bubble",
        ),
        ("torchtitan", CUT, "gpt3-175b", "no flavour of gpt3-175b"),
        ("torchtitan", "data=8 seq=4; batch over data; tokens over seq", "", "whole parameters"),
        ("torchtitan-toml", CUT, "", "replicas (zero=0) only without other axes"),
        ("deepspeed", "data=8 seq=4; batch over data; tokens over seq; zero=1", "", "separate"),
        ("deepspeed", CUT + "; zero=3", "", "zero=3 with weights over tensor"),
        ("jax", "pipe=4 data=8; batch over data; schedule 1f1b, 4 microbatches", "", "stages"),
        ("jax", CUT, "", "no step of llama3-8b"),
    ],
)  # fmt: skip
def test_plans_a_framework_cannot_express_are_refused(
    framework: str, text: str, name: str, problem: str
) -> None:
    recipe = parse_recipe(text)
    model = MODELS[name or "llama3-8b"]
    job = TrainingSpec(64, min(sequence(model), 4096))
    with pytest.raises(InputError) as caught:
        write_configuration(framework, recipe, model, job, machine(recipe))
    assert problem in caught.value.problem
    assert "\n" not in str(caught.value)
    found = write_configurations(recipe, model, job, machine(recipe), [framework])
    assert not found.files
    assert str(found.refused[framework]) == str(caught.value)


def test_what_does_not_fit_together_is_refused_for_all() -> None:
    recipe, model = parse_recipe(CUT), MODELS["llama3-8b"]
    on = machine(recipe)
    with pytest.raises(InputError, match="batch of 12 divided into 8 parts"):
        write_configurations(recipe, model, TrainingSpec(12, 8192), on)
    other = machine(parse_recipe("data=4 tensor=8; batch over data"))
    with pytest.raises(InputError, match="the placement has data=4, tensor=8, the recipe data=8"):
        write_configurations(recipe, model, TrainingSpec(64, 8192), other)
    with pytest.raises(InputError, match="no framework 'megatrn'"):
        write_configuration("megatrn", recipe, model, TrainingSpec(64, 8192), on)
    with pytest.raises(InputError, match="a batch of 0"):
        TrainingSpec(0, 8192)
    with pytest.raises(InputError, match="numbers 'bf16'"):
        TrainingSpec(8, 8192, "bf16")


def test_axes_of_other_names_are_known_by_what_they_cut() -> None:
    """``dp=8 tp=4`` is written as ``data=8 tensor=4``."""
    given = parse_recipe(CUT.replace("data", "dp").replace("tensor", "tp"))
    same = parse_recipe(CUT)
    job, model = TrainingSpec(64, 8192), MODELS["llama3-8b"]
    found, wanted = (
        write_configuration("megatron", one, model, job, machine(one)) for one in (given, same)
    )
    ours, theirs = (words(str(one.files["arguments.sh"])) for one in (found, wanted))
    assert ours == theirs
    assert found.recipe == wanted.recipe


def test_flags_determine_the_model() -> None:
    """Of all models the parameters that follow from flags are those of the zoo."""
    for name, count in (("llama3-8b", 8.03e9), ("llama3-70b", 70.6e9), ("gpt3-175b", 175e9)):
        recipe = parse_recipe("data=32; batch over data")
        model = MODELS[name]
        job = TrainingSpec(64, sequence(model))
        found = write_configuration("megatron", recipe, model, job, machine(recipe))
        args = megatron_parser().parse_args(words(str(found.files["arguments.sh"])))
        assert abs(parameters(args) / count - 1) < 0.01


def parameters(args: SimpleNamespace | object) -> int:
    """As ``num_floating_point_operations`` of Megatron's training.py counts widths."""
    one = SimpleNamespace(**vars(args))
    width, head = one.hidden_size, one.hidden_size // one.num_attention_heads
    keys = one.num_query_groups if one.group_query_attention else one.num_attention_heads
    attention = width * (2 * width + 2 * keys * head)
    mlp = (3 if one.swiglu else 2) * width * one.ffn_hidden_size
    words_ = one.vocab_size * width * (2 if one.untie_embeddings_and_output_weights else 1)
    return int(one.num_layers * (attention + mlp) + words_)
