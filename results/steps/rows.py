"""Rows of published steps as shapes, plans and seconds; what each set leaves out is counted."""

from __future__ import annotations

import csv
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hierarchies.devices import device_named
from results.fidelity.tables import SHARED
from results.steps.shapes import Plan, Shape

STEPS = SHARED / "steps"
Raw = Mapping[str, str]


@dataclass(frozen=True)
class Row:
    """One measured step. ``group``: model and number of devices, whose plans can be compared.

    ``share``: of the peak, as published, or 6 N + 12 L h s operations a token.
    """

    name: str
    group: str
    shape: Shape
    plan: Plan
    seconds: float
    share: float

    @property
    def configuration(self) -> str:
        """What was run: equal for repeated runs, so that all of them are fitted, or judged."""
        return f"{self.group} {self.shape} {self.plan}"


class LeftOutError(Exception):
    """Why a row is no measurement of a plan that can be estimated."""


@dataclass(frozen=True)
class Family:
    """Rows of one accelerator and framework, and how many were left out, by reason."""

    name: str
    told: Mapping[str, str]
    rows: tuple[Row, ...]
    left_out: Mapping[str, int]


def told() -> dict[str, Any]:
    with Path(__file__).with_name("families.toml").open("rb") as file:
        return tomllib.load(file)


def raw_rows(name: str) -> list[dict[str, str]]:
    with (STEPS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def families() -> Iterator[Family]:
    """Those that are estimated, with all rows of their sets."""
    for one in told()["family"]:
        left: Counter[str] = Counter()
        found = []
        for name in one["sets"]:
            for raw in raw_rows(name):
                if not raw["accelerator"].startswith(one.get("accelerator", "")):
                    continue
                try:
                    found.append(READERS[name](raw))
                except LeftOutError as why:
                    left[str(why)] += 1
        yield Family(one["name"], one, tuple(found), dict(left))


def elsewhere() -> dict[str, int]:
    """Of the sets that are estimated the rows on accelerators that no family has."""
    families = told()["family"]
    found: Counter[str] = Counter()
    for name in {name for one in families for name in one["sets"]}:
        mine = tuple(one.get("accelerator", "") for one in families if name in one["sets"])
        found[name] = sum(not raw["accelerator"].startswith(mine) for raw in raw_rows(name))
    return {name: count for name, count in sorted(found.items()) if count}


def census() -> dict[str, int]:
    """How many rows each set has."""
    return {path.stem: len(raw_rows(path.stem)) for path in sorted(STEPS.glob("*.csv"))}


def _whole(raw: Raw, name: str, otherwise: int | None = None) -> int:
    if raw[name]:
        return round(float(raw[name]))
    if otherwise is None:
        raise LeftOutError(f"no {name}")
    return otherwise


def _check(held: bool, why: str) -> None:
    if not held:
        raise LeftOutError(why)


A100, H100 = "A100 SXM4 80 GB", "H100 SXM5 80 GB"


def _row(raw: Raw, shape: Shape, plan: Plan, seconds: float) -> Row:
    if raw["mfu_percent"]:
        share = float(raw["mfu_percent"]) / 100
    else:
        flops = shape.flops_per_token() * shape.sequence * plan.sequences
        device = H100 if raw["accelerator"].upper().startswith("H100") else A100
        share = flops / seconds / plan.devices / device_named(device).peak(shape.dtype)
    return Row(raw["id"], _group(raw, plan), shape, plan, seconds, share)


def _group(raw: Raw, plan: Plan) -> str:
    return f"{raw['model']} on {plan.devices}"


NANOTRON_HEADS = {"1B": 32, "3B": 32, "8B": 32, "80B": 64}


def _nanotron(raw: Raw) -> Row:
    _check(bool(raw["tokens_per_s"]), "no measurement (crashed, or out of memory)")
    shape, plan = _nanotron_plan(raw)
    return _row(raw, shape, plan, plan.sequences * shape.sequence / float(raw["tokens_per_s"]))


def _nanotron_plan(raw: Raw) -> tuple[Shape, Plan]:
    layers, hidden, ffn, vocab = (_whole(raw, n) for n in ("layers", "hidden", "ffn", "vocab"))
    length, batch = _whole(raw, "seq"), _whole(raw, "global_batch")
    shape = Shape(layers, hidden, NANOTRON_HEADS[raw["model"]], ffn, vocab, length)
    data, tensor, pipe, micro, micros = (
        _whole(raw, name) for name in ("dp", "tp", "pp", "micro_batch", "grad_acc")
    )
    _check(data * micro * micros == batch, "microbatches do not make the batch")
    return shape, Plan(data, tensor, pipe, micro, micros, int(raw["fsdp_zero"][-1]))


def crashed() -> dict[str, set[tuple[Shape, Plan]]]:
    """By group what nanotron's runs without a measurement were of, and no run with one."""
    ran = {(row.shape, row.plan) for family in families() for row in family.rows}
    found: dict[str, set[tuple[Shape, Plan]]] = {}
    for raw in raw_rows("nanotron_bench"):
        try:
            shape, plan = _nanotron_plan(raw)
        except LeftOutError:
            continue
        if (shape, plan) not in ran:
            found.setdefault(_group(raw, plan), set()).add((shape, plan))
    return found


def _bigscience(raw: Raw) -> Row:
    _check(raw["status"] == "ok", "out of memory, or failed")
    _check(bool(raw["step_seconds"]), "no seconds")
    _check("A100" in raw["accelerator"], "V100: sizes are not in the rows")
    layers, hidden, length = (_whole(raw, name) for name in ("layers", "hidden", "seq"))
    heads = _whole(raw, "heads", hidden // 128)
    shape = Shape(layers, hidden, heads, 4 * hidden, 250_000, length, gated=False, flash=False)
    data, tensor, pipe, micro, batch = (
        _whole(raw, name) for name in ("dp", "tp", "pp", "micro_batch", "global_batch")
    )
    _check(batch % (data * micro) == 0, "microbatches do not make the batch")
    micros = batch // (data * micro)
    plan = Plan(data, tensor, pipe, micro, micros, 1, spread=False, again=1.0)
    return _row(raw, shape, plan, float(raw["step_seconds"]))


def _zero_bubble(raw: Raw) -> Row:
    _check(
        raw["pp_schedule"].startswith("1F1B"), "an order without a formula (see pipeline schedules)"
    )
    layers, hidden, length, heads = (_whole(raw, n) for n in ("layers", "hidden", "seq", "heads"))
    pipe, micro, micros = (_whole(raw, name) for name in ("pp", "micro_batch", "grad_acc"))
    shape = Shape(layers, hidden, heads, 4 * hidden, 50_304, length, gated=False)
    chunks = (layers + 2) // pipe if raw["vpp"] == "one transformer layer per chunk" else 1
    plan = Plan(1, _whole(raw, "tp", 1), pipe, micro, micros, chunks=chunks)
    rate = float(raw["samples_per_s_per_gpu"]) * plan.devices
    return _row(raw, shape, plan, micro * micros / rate)


SELECTIVE = 1 / 7


def _recomputed(raw: Raw) -> Row:
    _check(bool(raw["step_seconds"]), "no seconds (memory only)")
    layers, hidden, heads, ffn, length = (
        _whole(raw, name) for name in ("layers", "hidden", "heads", "ffn", "seq")
    )
    shape = Shape(layers, hidden, heads, ffn, 51_200, length, gated=False, flash=False)
    data, tensor, pipe, micro, batch = (
        _whole(raw, name) for name in ("dp", "tp", "pp", "micro_batch", "global_batch")
    )
    full = raw["recompute"] == "full"
    plan = Plan(
        data,
        tensor,
        pipe,
        micro,
        batch // (data * micro),
        spread=raw["sp"] == "yes",
        again=1.0 if full else SELECTIVE,
        chunks=_whole(raw, "vpp", 1),
    )
    return _row(raw, shape, plan, float(raw["step_seconds"]))


MPT = {
    "MPT-125m": (12, 768, 12),
    "MPT-350m": (24, 1024, 16),
    "MPT-760m": (24, 1536, 12),
    "MPT-1b": (24, 2048, 16),
    "MPT-3b": (32, 2560, 20),
    "MPT-7b": (32, 4096, 32),
    "MPT-13b": (40, 5120, 40),
    "MPT-30b": (48, 7168, 56),
    "MPT-70b": (64, 8192, 64),
}


def _foundry(raw: Raw) -> Row:
    sizes = {name.lower(): size for name, size in MPT.items()}
    _check(raw["model"].lower() in sizes, "sizes of the model are not known")
    _check("fp8" not in (raw["dtype"] or "").lower(), "eight bits")
    layers, hidden, heads = sizes[raw["model"].lower()]
    length, devices = _whole(raw, "seq"), _whole(raw, "accels")
    shape = Shape(layers, hidden, heads, 4 * hidden, 50_368, length, gated=False)
    micro, micros = _whole(raw, "micro_batch"), _whole(raw, "grad_acc")
    _check(raw["fsdp_zero"] == "FULL_SHARD", "not all is sharded")
    plan = Plan(devices, 1, 1, micro, micros, 3, again=float(raw["recompute"] == "full"))
    seconds = plan.sequences * length / float(raw["tokens_per_s"])
    return _row(raw, shape, plan, seconds)


LLAMAS = {
    "Llama 2 7B": (32, 4096, 32, 32, 11_008, 32_000),
    "Llama 2 13B": (40, 5120, 40, 40, 13_824, 32_000),
    "Llama 2 34B": (48, 8192, 64, 8, 22_016, 32_000),
    "Llama 2 70B": (80, 8192, 64, 8, 28_672, 32_000),
    "Llama 3 8B": (32, 4096, 32, 8, 14_336, 128_256),
    "Llama 3 70B": (80, 8192, 64, 8, 28_672, 128_256),
    "Llama 3 405B": (126, 16_384, 128, 8, 53_248, 128_256),
}
"""Layers, hidden, heads, heads of keys, feed-forward, words, as published."""

HALF = 0.5
"""Selective recomputation of every other layer, or of every other product of matrices."""


def _llama(name: str, sequence: int, dtype: str = "bf16") -> Shape:
    _check(name in LLAMAS, "not a dense Llama")
    layers, hidden, heads, keys, ffn, words = LLAMAS[name]
    return Shape(layers, hidden, heads, ffn, words, sequence, kv_heads=keys, dtype=dtype)


def _titan(raw: Raw) -> Row:
    _check("loat8" not in raw["dtype"], "eight bits")
    _check("async" not in raw["overlap"], "asynchronous tensor parallelism")
    _check(raw["cp"] in ("", "1"), "context parallelism")
    shape = _llama(raw["model"].replace("3.1", "3"), _whole(raw, "seq", 8192))
    tensor, data, micro = _whole(raw, "tp"), _whole(raw, "dp"), _whole(raw, "micro_batch")
    again = {"full": 1.0, "no": 0.0, "": 0.0}.get(raw["recompute"], HALF)
    plan = Plan(data, tensor, 1, micro, 1, 3, again=again)
    return _row(raw, shape, plan, _of_rate(raw, shape, plan))


def _fms(raw: Raw) -> Row:
    _check(raw["fsdp_zero"] == "FSDP", "not all is sharded")
    shape = _llama(raw["model"].replace("b", "B"), _whole(raw, "seq", 4096))
    again = 0.0 if raw["recompute"] == "none" else HALF
    plan = Plan(_whole(raw, "accels"), 1, 1, _whole(raw, "micro_batch"), 1, 3, again=again)
    return _row(raw, shape, plan, _of_rate(raw, shape, plan))


def _of_rate(raw: Raw, shape: Shape, plan: Plan) -> float:
    """Seconds of a step of so many tokens a second and device."""
    tokens = plan.sequences * shape.sequence / plan.devices
    return tokens / float(raw["tokens_per_s_per_gpu"])


def _eight_bits(raw: Raw) -> Row:
    """Megatron-Bridge and NeMo in FP8: replicas are what devices are left; ZeRO-1."""
    _check(raw["dtype"].startswith("FP8"), "another precision")
    _check(raw["cp"] in ("", "1"), "context parallelism")
    _check(not (raw["ep"] or "1").strip("1"), "experts")
    _check(bool(raw["micro_batch"]), "no micro_batch")
    _check("LoRA" not in raw["notes"], "only a few weights are trained")
    name = raw["model"].replace("LLAMA", "Llama ").replace("3.1", "3")
    shape = _llama(re.sub("[_-]", " ", name), _whole(raw, "seq"), "f8_e4m3fn")
    tensor, pipe, micro = (_whole(raw, one, 1) for one in ("tp", "pp", "micro_batch"))
    data = _whole(raw, "accels") // (tensor * pipe)
    _check(_whole(raw, "global_batch") % (data * micro) == 0, "microbatches do not make the batch")
    micros = _whole(raw, "global_batch") // (data * micro)
    fully = raw["fsdp_zero"].startswith("FSDP ")
    plan = Plan(data, tensor, pipe, micro, micros, 3 if fully else 1, chunks=_whole(raw, "vpp", 1))
    return _row(raw, shape, plan, _of_rate(raw, shape, plan))


READERS: Mapping[str, Callable[[Raw], Row]] = {
    "nanotron_bench": _nanotron,
    "bigscience_jeanzay": _bigscience,
    "zero_bubble_paper": _zero_bubble,
    "megatron_seqpar_paper": _recomputed,
    "llm_foundry_mpt": _foundry,
    "torchtitan": _titan,
    "fms_fsdp": _fms,
    "megatron_bridge_perf": _eight_bits,
    "nemo_perf": _eight_bits,
}
