"""Configurations of frameworks, read back: what they say, as a recipe, by nobody's writer.

Files are judged by the tables of options in ``tests/frameworks`` (where a table is from stands in
its first line), then turned into the recipe that a framework would run. Where ranks lie is found
by counting as the launchers' and the frameworks' documents say.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shlex
import sys
import tomllib
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from math import prod
from types import ModuleType, SimpleNamespace
from typing import Any, Literal, get_args, get_origin

import numpy as np

from hierarchies import Placement
from places import TESTS
from synth.step.sharding.recipes import Recipe

TABLES = TESTS / "frameworks"
Row = dict[str, str]


def table(name: str) -> list[Row]:
    lines = (TABLES / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    return list(csv.DictReader(lines[1:]))


# Megatron-LM


def words(text: str) -> list[str]:
    """The array ARGUMENTS of ``arguments.sh``."""
    inside = text[text.index("ARGUMENTS=(") :].partition("(")[2].partition("\n)\n")[0]
    return shlex.split(inside)


def megatron_parser() -> argparse.ArgumentParser:
    """A parser of the flags that the table has, and of no others."""
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    kinds: Mapping[str, Any] = {
        "int": int,
        "float": float,
        "str": str,
        "tuple": lambda text: tuple(map(int, text.split(","))),
        "pattern": _pattern,
    }
    for row in table("megatron-core-0.19.2"):
        kind, choices = row["kind"], row["choices"].split() or None
        if kind in ("true", "false"):
            parser.add_argument(row["flag"], dest=row["field"], action=f"store_{kind}")
            continue
        several = {"nargs": "+"} if kind.endswith("+") else {}
        one = kinds[kind.rstrip("+")]
        default = one(row["default"]) if row["default"] else None
        parser.add_argument(
            row["flag"], dest=row["field"], type=one, default=default, choices=choices, **several
        )
    return parser


def _pattern(text: str) -> int | list[int]:
    """A number, or a pattern of layers as ``([0]*3+[1]*58)``."""
    if "[" not in text:
        return int(text)
    runs = re.findall(r"\[(\d+)\]\*(\d+)", text)
    assert text == f"({'+'.join(f'[{number}]*{times}' for number, times in runs)})"
    return [int(number) for number, times in runs for _ in range(int(times))]


def megatron_recipe(args: Any, world: int) -> Recipe:
    """The recipe of Megatron's flags, as its ``validate_args`` counts."""
    tensor, pipe = args.tensor_model_parallel_size, args.pipeline_model_parallel_size
    seq = args.context_parallel_size
    data, left = divmod(world, tensor * pipe * seq)
    assert not left, "the world is no product"
    microbatches, left = divmod(args.global_batch_size, args.micro_batch_size * data)
    assert not left, "the batch is no product"
    assert args.hidden_size % args.num_attention_heads == 0
    assert args.num_attention_heads % tensor == 0
    assert args.seq_length <= args.max_position_embeddings
    assert seq == 1 or args.seq_length % (2 * seq) == 0
    chunks = getattr(args, "num_virtual_stages_per_pipeline_rank", None) or 1
    layers = megatron_stages(args.pipeline_model_parallel_layout)
    if layers:
        assert chunks == 1 or len(layers) == pipe * chunks, "validate_args refuses both"
        chunks, left = divmod(len(layers), pipe)
        assert (left, sum(layers)) == (0, args.num_layers)
    else:
        assert args.num_layers % (pipe * chunks) == 0
    if chunks > 1:
        group = args.microbatch_group_size_per_vp_stage or pipe
        last = microbatches % group
        assert pipe <= group <= microbatches, "schedules.py refuses the rounds"
        assert not 0 < last < pipe
        assert group == microbatches // max(1, microbatches // pipe), "another chunk rule"
    zero = int(args.use_distributed_optimizer)
    if args.use_megatron_fsdp:
        zero = {"optim": 1, "optim_grads": 2, "optim_grads_params": 3}[
            args.data_parallel_sharding_strategy
        ]
        assert args.ckpt_format == "fsdp_dtensor"
    experts = args.expert_model_parallel_size
    assert data % experts == 0, "parallel_state.py refuses experts that are no part of data"
    assert experts == 1 or args.num_experts % experts == 0
    if args.num_experts and tensor > 1:
        assert args.sequence_parallel, "moe_layer.py refuses tensor parallelism without"
    full = args.recompute_granularity == "full"
    assert not full or (args.recompute_method, args.recompute_num_layers) == ("uniform", 1)
    bucket = args.ddp_bucket_size
    return _recipe(
        {"pipe": pipe, "data": data // experts, "expert": experts, "seq": seq, "tensor": tensor},
        zero=zero,
        tokens="tensor" if args.sequence_parallel else "",
        vocabulary="tensor",
        experts="expert",
        microbatches=microbatches,
        schedule="interleaved-1f1b" if chunks > 1 else "1f1b",
        chunks=chunks,
        layers=layers,
        remat=full,
        bucket_bytes=4 * bucket if bucket else 0,
    )


def megatron_stages(layout: str | None) -> tuple[int, ...]:
    """The layers of each stage of a layout: ``Ett|(t|)*2tL`` has 2, 1, 1 and 1."""
    text = layout or ""
    for form in (r"\(([^)]+)\)\*(\d+)", r"(.)\*(\d+)"):
        text = re.sub(form, lambda found: found[1] * int(found[2]), text)
    stages = text.split("|") if text else []
    for at, one in enumerate(stages):
        first, last = at == 0, at == len(stages) - 1
        assert re.fullmatch("E" * first + "t+" + "L" * last, one), one
    return tuple(one.count("t") for one in stages)


def _recipe(sizes: Mapping[str, int], **said: Any) -> Recipe:
    """Clauses over axes of size 1 are none."""
    above = {name: size for name, size in sizes.items() if size > 1}
    said["tokens"] = "seq" if "seq" in above else said["tokens"]
    for clause in ("tokens", "vocabulary", "experts"):
        said[clause] = said[clause] if said[clause] in above else ""
    if "pipe" not in above:
        said |= {"schedule": "", "chunks": 1}
    return Recipe(
        tuple(above.items()) or (("data", 1),),
        batch=tuple(name for name in ("data", "expert") if name in above),
        megatron="tensor" if "tensor" in above else "",
        **said,
    )


# Python configurations: run with the framework's modules in place of which are recorders


class Recorder:
    """Takes every field that the table has, of its type; refuses all others."""

    def __init__(self, rows: list[Row], section: str = "") -> None:
        mine = {row["field"]: row["type"] for row in rows if row["section"] == section}
        parts = {row["section"] for row in rows if row["section"]} if not section else set()
        object.__setattr__(self, "types", mine)
        object.__setattr__(self, "said", {})
        for part in parts:
            object.__setattr__(self, part, Recorder(rows, part))

    def __setattr__(self, name: str, value: Any) -> None:
        types: Mapping[str, str] = object.__getattribute__(self, "types")
        assert name in types, f"no field {name}"
        assert fits(value, types[name]), f"{name} = {value!r} is no {types[name]}"
        self.said[name] = value  # type: ignore[attr-defined]


def fits(value: Any, kind: str) -> bool:
    """Whether a value is of a type, given as source text."""
    if kind.startswith("Callable"):
        return callable(value)
    return _is(value, eval(kind, dict(vars(typing))))


def _is(value: Any, kind: Any) -> bool:
    if kind is None or kind is type(None):
        return value is None
    if get_origin(kind) is Literal:
        return any(value == one and type(value) is type(one) for one in get_args(kind))
    if get_origin(kind) is list:
        return isinstance(value, list) and all(_is(one, get_args(kind)[0]) for one in value)
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        alike = isinstance(value, tuple) and len(value) == len(kinds)
        return alike and all(map(_is, value, kinds))
    if get_args(kind):
        return any(_is(value, one) for one in get_args(kind))
    return type(value) is kind or (kind is float and type(value) is int)


@contextmanager
def modules(**stubs: Mapping[str, Any]) -> Iterator[None]:
    """Modules by dotted names (``__`` for a dot) that have just these names."""
    made = {}
    for name, has in stubs.items():
        parts = name.split("__")
        for end in range(1, len(parts)):
            made.setdefault(".".join(parts[:end]), ModuleType(".".join(parts[:end])))
        made[".".join(parts)] = module = ModuleType(".".join(parts))
        module.__dict__.update(has)
    kept = {name: sys.modules.get(name) for name in made}
    sys.modules.update(made)
    try:
        yield
    finally:
        for name, old in kept.items():
            if old is None:
                del sys.modules[name]
            else:
                sys.modules[name] = old


def ran(text: str) -> Any:
    """What ``config()`` of a file returns."""
    space: dict[str, Any] = {"__name__": "configuration"}
    exec(compile(text, "configuration.py", "exec"), space)
    return space["config"]()


def bridge_arguments(text: str) -> Any:
    """Bridge's configuration by the names of Megatron's arguments."""
    rows = table("megatron-bridge-0.6.2")
    cfg = Recorder(rows)
    functional = SimpleNamespace(silu=lambda x: x)
    with modules(
        torch={"nn": SimpleNamespace(functional=functional)},
        torch__nn={"functional": functional},
        torch__nn__functional=vars(functional),
        megatron__bridge__recipes__gpt__vanilla_gpt={"vanilla_gpt_pretrain_config": lambda: cfg},
        megatron__core__activations={"quick_gelu": abs, "squared_relu": abs},
    ):
        assert ran(text) is cfg
    said: dict[str, Any] = {}
    for section in dict.fromkeys(row["section"] for row in rows):
        part = getattr(cfg, section).said if section else cfg.said  # type: ignore[attr-defined]
        for name, value in part.items():
            assert said.get(name, value) == value, f"{name} is said twice, and not alike"
            said[name] = value
    defaults = {row["field"]: None for row in table("megatron-core-0.19.2")}
    plain = {
        "context_parallel_size": 1,
        "expert_model_parallel_size": 1,
        "sequence_parallel": False,
        "use_megatron_fsdp": False,
        "max_position_embeddings": said["seq_length"],
        "num_experts": said.get("num_moe_experts"),
        "num_virtual_stages_per_pipeline_rank": said.get("virtual_pipeline_model_parallel_size"),
        "ddp_bucket_size": said.get("bucket_size"),
    }
    return SimpleNamespace(**{**defaults, **plain, **said})


# torchtitan


def titan_toml(text: str) -> dict[str, Any]:
    """The sections of a TOML, each field judged by the table of 0.2."""
    found = tomllib.loads(text)
    _check(found, table("torchtitan-0.2.2"))
    return found


def _check(found: Mapping[str, Any], rows: list[Row]) -> None:
    types = {(row["section"], row["field"]): row["type"] for row in rows}
    for section, values in found.items():
        inside = values.items() if isinstance(values, dict) else [(section, values)]
        for name, value in inside:
            key = (section if isinstance(values, dict) else "", name)
            assert key in types, f"no field {key}"
            assert fits(value, types[key]), f"{key} = {value!r} is no {types[key]}"


def titan_python(text: str, base: str) -> dict[str, Any]:
    rows = [
        *table("torchtitan-0.3.0"),
        {"section": "", "field": "activation_checkpoint", "type": "str | None"},
    ]
    cfg = Recorder(rows)
    full = SimpleNamespace(Config=lambda: "full")
    with modules(
        torchtitan__distributed__activation_checkpoint={"FullAC": full},
        torchtitan__models__llama3__config_registry={base: lambda: cfg},
    ):
        assert ran(text) is cfg
    mode = cfg.said["activation_checkpoint"] or "none"  # type: ignore[attr-defined]
    parts: Any = cfg
    return {
        "training": parts.training.said,
        "parallelism": parts.parallelism.said,
        "compile": parts.compile.said,
        "activation_checkpoint": {"mode": mode},
    }


SCHEDULES = {
    "GPipe": "gpipe",
    "1F1B": "1f1b",
    "Interleaved1F1B": "interleaved-1f1b",
    "LoopedBFS": "looped-bfs",
    "InterleavedZeroBubble": "zero-bubble-h1",
    "ZBVZeroBubble": "zbv",
    "DualPipeV": "dualpipev",
}


def titan_recipe(found: Mapping[str, Any], world: int, layers: int, last: str) -> Recipe:
    """The recipe of torchtitan's sections, as its ``ParallelDims`` and its trainer count."""
    cut, training = found["parallelism"], found["training"]
    replicas, shards = cut["data_parallel_replicate_degree"], cut["data_parallel_shard_degree"]
    pipe, tensor = cut["pipeline_parallel_degree"], cut["tensor_parallel_degree"]
    seq = cut["context_parallel_degree"]
    assert replicas * shards * seq * tensor * pipe == world, "ParallelDims refuses it"
    assert 1 in (replicas, shards)
    data, batch = replicas * shards, training["global_batch_size"]
    accumulated, left = divmod(batch, training["local_batch_size"] * data)
    assert not left, "the trainer refuses the batch"
    chunks, at_once, each = 1, 1, ()
    if pipe > 1:
        assert accumulated == 1
        at_once, left = divmod(
            training["local_batch_size"], cut["pipeline_parallel_microbatch_size"]
        )
        assert not left
        parts = cut["module_fqns_per_model_part"]
        chunks, left = divmod(len(parts), pipe)
        assert not left
        named = ["tok_embeddings", *(f"layers.{at}" for at in range(layers)), "norm", last]
        assert [name for part in parts for name in part] == named, "a layer is lost"
        each = tuple(sum(one.startswith("layers.") for one in part) for part in parts)
    by_tokens = cut.get("enable_sequence_parallel", True) and tensor > 1 and seq == 1
    keeps = {"never": 2, "always": 3, "default": 0}[cut["fsdp_reshard_after_forward"]]
    assert (keeps > 0) == (shards * seq > 1), "FSDP is where shards are, of samples or of tokens"
    return _recipe(
        {"pipe": pipe, "data": data, "seq": seq, "tensor": tensor},
        zero=keeps,
        tokens="tensor" if by_tokens else "",
        vocabulary="tensor",
        experts="",
        microbatches=accumulated * at_once,
        schedule=SCHEDULES[cut.get("pipeline_parallel_schedule", "1F1B")],
        chunks=chunks,
        layers=each if len({*each}) > 1 else (),
        remat=found["activation_checkpoint"]["mode"] == "full",
    )


# DeepSpeed


def deepspeed_recipe(text: str, notes: tuple[str, ...], world: int) -> Recipe:
    """The recipe of a JSON, and of the notes on what the model's code has."""
    found = json.loads(text)
    _check(found, table("deepspeed-0.19.8"))
    said = " ".join(notes)
    stages = re.search(r"num_stages=(\d+)", said)
    experts = re.search(r"ep_size=(\d+)", said)
    pipe, tensor = int(stages[1]) if stages else 1, found.get("tensor_parallel", {})
    tensor = tensor.get("autotp_size", 1)
    data, left = divmod(world, pipe * tensor)
    assert not left
    micro, accumulated = (
        found["train_micro_batch_size_per_gpu"],
        found["gradient_accumulation_steps"],
    )
    assert found["train_batch_size"] == micro * accumulated * data, "DeepSpeedConfig refuses it"
    zero = found["zero_optimization"]["stage"]
    assert pipe == 1 or zero < 2, "ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism"
    each = int(experts[1]) if experts else 1
    assert data % each == 0, "groups.py refuses experts that are no part of data"
    bucket = found["zero_optimization"].get("reduce_bucket_size", 0)
    return _recipe(
        {"pipe": pipe, "data": data // each, "expert": each, "seq": 1, "tensor": tensor},
        zero=zero,
        tokens="",
        vocabulary="",
        experts="expert",
        microbatches=accumulated,
        schedule="1f1b",
        remat="recomputed layers" in said,
        bucket_bytes=bucket * (2 if "bf16" in found or "fp16" in found else 4),
    )


# Where ranks are


def rank_devices(files: Mapping[str, Any], each: int, world: int) -> list[int]:
    """The device of every rank, host by host, as ``launch.sh`` and what lies beside it start it."""
    if "slurm_hostfile" not in files:
        assert "exec torchrun" in files["launch.sh"]
        assert f"--nproc-per-node={each} " in files["launch.sh"]
        return list(range(world))
    assert "exec python" in files["launch.sh"]
    hosts = files["slurm_hostfile"].split()
    names = list(dict.fromkeys(sorted(hosts, key=lambda name: int(name.removeprefix("host")))))
    inside = files["on_device.sh"].partition("devices=(\n")[2].partition("\n)")[0]
    seen = [[int(one) for one in line.split(",")] for line in inside.split()]
    met = dict.fromkeys(names, 0)
    found = []
    for name in hosts:
        found.append(names.index(name) * each + seen[names.index(name)][met[name]])
        met[name] += 1
    assert found == _by_torchrun(files, each), "torchrun's ranks lie elsewhere than Slurm's"
    assert found == _by_rankfile(files, names, seen, each), "so do Open MPI's"
    return found


def _by_torchrun(files: Mapping[str, Any], each: int) -> list[int]:
    """The device of every rank by the module that a process of torchrun asks."""
    scope: dict[str, Any] = {}
    exec(files["collsynth_ranks.py"], scope)
    count = len(scope["HOSTS"])
    found = {
        scope["rank"](host, device): host * each + device
        for host in range(count)
        for device in range(each)
    }
    return [found[rank] for rank in range(count * each)]


def _by_rankfile(
    files: Mapping[str, Any], names: list[str], seen: list[list[int]], each: int
) -> list[int]:
    """The same by the rankfile: processes of a host see its devices in the order of ranks."""
    met, found = dict.fromkeys(names, 0), []
    lines = [line for line in files["rankfile"].splitlines() if line.startswith("rank ")]
    for rank, line in enumerate(lines):
        assert line.startswith(f"rank {rank}=")
        name = line.partition("=")[2].split()[0]
        found.append(names.index(name) * each + seen[names.index(name)][met[name]])
        met[name] += 1
    return found


def groups_of_ranks(ranks: list[int], sizes: Mapping[str, int], role: str) -> set[frozenset[int]]:
    """The devices that work together along a role, ranks counted with the last role fastest."""
    grid = np.array(ranks).reshape([*sizes.values()])
    along = np.moveaxis(grid, [*sizes].index(role), -1)
    return {frozenset(row) for row in along.reshape(-1, sizes[role]).tolist()}


def groups_of_placement(placement: Placement, axis: str) -> set[frozenset[int]]:
    """The same of a placement: devices that differ in nothing but this axis's digits."""
    at = [one.name for one in placement.axes].index(axis)
    columns = list(zip(*placement.matrix, strict=True))
    digits = [size for column in columns for size in column]
    where = [row for column in columns for row in range(len(column))]
    found: dict[tuple[int, ...], set[int]] = {}
    for device, place in enumerate(product(*map(range, digits))):
        others = tuple(d for d, row in zip(place, where, strict=True) if row != at)
        found.setdefault(others, set()).add(device)
    assert prod(digits) == placement.hierarchy.devices
    return {frozenset(one) for one in found.values()}
