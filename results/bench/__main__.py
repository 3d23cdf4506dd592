"""Measure what the project promises: bench.json and a table in README.md.

Every figure comes from processes started for it, one after the other, and is the median of several
runs. Nothing heavy is imported here, as a child's peak memory can never read lower than what its
parent had. Needs ``os.wait4`` (Linux, macOS). ``--only WORD`` runs the benchmarks whose name
contains the word and keeps the other entries as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from results import pages, record

COMMAND = "python -m results.bench"
DATA = Path(__file__).with_name("bench.json")
FOUR_LEVELS = "superpod-h100-oversubscribed:4"
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "COLLSYNTH_CACHE": "none"}
"""One core, and nothing kept between questions; ``questions`` keeps it in folders of its own."""


@dataclass(frozen=True)
class Promise:
    """One figure of a measurement that is reported: by its key, and not above ``limit``."""

    name: str
    key: str
    unit: str
    limit: float | None = None


@dataclass(frozen=True)
class Bench:
    """Commands that are run ``repeats`` times each; of several, the worst figure is reported."""

    commands: tuple[tuple[str, ...], ...]
    repeats: int
    promises: tuple[Promise, ...]


def measure(*words: str) -> tuple[str, ...]:
    return ("python", "-m", "results.bench.measures", *words)


def four_levels(sizes: str) -> Bench:
    """Exact top-10 on [4,4,4,8]: each single axis and each pair of axes."""
    axes = [f"a{i}" for i in range(len(sizes.split(",")))]
    over = [",".join(some) for count in (1, 2) for some in combinations(axes, count)]
    what = f"exact top-10 on [4,4,4,8], axes {sizes}, slowest of {len(over)} requests"
    return Bench(
        tuple(measure("top", FOUR_LEVELS, sizes, some) for some in over),
        1,
        (
            Promise(what, "seconds", "s", 10.0),
            Promise(what.replace("slowest", "largest"), "peak_MiB", "MiB", 1024.0),
        ),
    )


def question(name: str, cold: float, again: float, words: str) -> Bench:
    """A whole command in CPU seconds, cold and again: see ``questions``."""
    promises = [
        Promise(f"{name}, CPU, nothing kept", "cold_seconds", "s", cold),
        Promise(f"{name}, over importing JAX", "cold_over_jax", "x"),
        Promise(f"{name}, peak memory of a process", "largest_MB", "MB", 1000.0),
    ]
    if again:
        promises.insert(1, Promise(f"{name}, CPU, again with others", "again_seconds", "s", again))
    return Bench((measure("question", *words.split()),), 1, tuple(promises))


def proofs(digits: int, limit: float) -> Bench:
    sample = "100"
    return Bench(
        (measure("proofs", str(digits), sample),),
        1,
        (
            Promise(f"one proof, {digits} digits, median of {sample}", "median", "s", limit),
            Promise(f"one proof, {digits} digits, slowest of {sample}", "slowest", "s", limit),
        ),
    )


TOP = ("collsynth", "top", "dgx-h100:4", "--axes", "data=8,model=4", "--reduce", "data")
RANGE = ("collsynth", "top", "superpod-h100-oversubscribed:8", "--axes", "data=1024", "--reduce",
         "data", "--bytes", "1MiB..1GiB")  # fmt: skip
BENCHES = (
    Bench(
        (measure("programs", "4"),),
        5,
        (
            Promise("all programs of 4 digits to 5 steps", "seconds", "s", 1.0),
            Promise("number of programs of 4 digits to 5 steps", "programs", "programs"),
        ),
    ),
    Bench(
        (measure("programs", "5"),),
        1,
        (
            Promise("all programs of 5 digits to 5 steps", "seconds", "s"),
            Promise("number of programs of 5 digits to 5 steps", "programs", "programs"),
        ),
    ),
    Bench(
        (TOP,),
        5,
        (
            Promise("collsynth top dgx-h100:4, the whole process", "wall_seconds", "s", 3.0),
            Promise("collsynth top dgx-h100:4, peak memory", "peak_MB", "MB", 400.0),
        ),
    ),
    Bench(
        (RANGE,),
        3,
        (Promise("1,024 GPUs in four levels over 1 MiB to 1 GiB", "wall_seconds", "s", 20.0),),
    ),
    Bench(
        (("collsynth", "--help"),),
        9,
        (Promise("collsynth --help, the whole process", "wall_seconds", "s", 0.4),),
    ),
    Bench(
        (measure("scale", "a1"),),
        3,
        (
            Promise("answers for 65,536 devices against 64", "ratio", "x", 1.2),
            Promise("answers for 65,536 devices", "seconds_65536", "s"),
        ),
    ),
    Bench(
        tuple(measure("pricing", over) for over in ("a1", "a0,a1")),
        3,
        (
            Promise(
                "ranking alone for 65,536 devices against 64, worse of 2 requests",
                "ratio",
                "x",
                1.2,
            ),
        ),
    ),
    Bench(
        (measure("lowering"),),
        3,
        (Promise("lowering, per device and step, slowest of 10", "slowest_us", "µs", 1.0),),
    ),
    Bench(
        (measure("emission"),),
        3,
        (
            Promise("emission for 512 devices, slowest target, first call", "first_ms", "ms", 50.0),
            Promise("emission for 512 devices, slowest target, later", "slowest_ms", "ms", 50.0),
        ),
    ),
    Bench(
        tuple(
            measure("flows", system, "64")
            for system in ("dgx-h100:4", "dgx-h100:32", "p2-a100:16", "tpu-v4-pod-slice:16")
        ),
        3,
        (
            Promise(
                "flow simulation, links perturbed by 10 %, per completion, slowest of 4 systems",
                "completion_us",
                "µs",
                100.0,
            ),
        ),
    ),
    Bench(
        (measure("flows", FOUR_LEVELS, "16"),),
        3,
        (
            Promise(
                "flow simulation, links perturbed by 10 %, per completion, 7 steps on [4,4,4,8]",
                "completion_us",
                "µs",
                100.0,
            ),
        ),
    ),
    Bench(
        (measure("symmetry", "dgx-h100:128", "64"),),
        3,
        (
            Promise(
                "flow simulation by symmetry, 1,024 devices, 3 steps in 64 segments",
                "symmetric_seconds",
                "s",
                5.0,
            ),
            Promise(
                "flow simulation, the same with links perturbed by 10 %", "flows_seconds", "s", 5.0
            ),
        ),
    ),
    Bench(
        (measure("plan", "dgx-h100:64"), measure("plan", FOUR_LEVELS)),
        1,
        (
            Promise(
                "plan of 8 collectives over 4 axes on 512 devices, slower of 2 systems",
                "seconds",
                "s",
                30.0,
            ),
            Promise("the plan of these 8, number of placements", "placements", "placements"),
        ),
    ),
    Bench(
        (measure("program"),),
        1,
        (
            Promise("GPT-3's program on 1,024 devices, put on the clock", "seconds", "s", 0.1),
            Promise(
                "GPT-3's program on 1,024 devices, from other seconds", "again_seconds", "s", 0.1
            ),
            Promise("GPT-3's program on 1,024 devices, with its memory", "memory_seconds", "s"),
        ),
    ),
    Bench(
        (measure("plans"),),
        1,
        (
            Promise("GPT-3's plans on 512 devices that fit, each", "ms_a_plan", "ms", 1.0),
            Promise("GPT-3's plans on 512 devices that fit, number", "plans", "plans"),
        ),
    ),
    Bench(
        (measure("search"),),
        1,
        (
            Promise("GPT-3's plans on 512 devices searched, each", "ms_a_plan_512", "ms", 1.0),
            Promise("GPT-3's plans on 512 devices that fit, all of them", "fitting_512", "plans"),
            Promise("GPT-3's plans on 4,096 devices, all searched", "seconds_4096", "s", 60.0),
            Promise("GPT-3's plans on 4,096 devices that fit, all", "fitting_4096", "plans"),
        ),
    ),
    question(
        "top of 10 on 32 GPUs",
        1.0,
        0.0,
        "top dgx-h100:4 --axes data=8,model=4 --reduce data -k 10",
    ),
    question(
        "plan of Llama 3 8B on 32 GPUs",
        4.0,
        1.0,
        "plan dgx-h100:4 --model llama3-8b again --batch 512",
    ),
    question(
        "plan of GPT-3 on 512 GPUs",
        8.0,
        2.0,
        "plan dgx-a100:64 --model gpt3-175b --batch 1536 again --batch 768",
    ),
    question(
        "plan of GPT-3 on 4,096 GPUs",
        8.0,
        2.0,
        "plan dgx-h100:512 --model gpt3-175b again --batch 512",
    ),
    question(
        "plan of Llama 3 405B on 16,384 GPUs",
        10.0,
        0.0,
        "plan dgx-h100:2048 --model llama3-405b --batch 2048",
    ),
    Bench(
        (measure("twice"),),
        1,
        (Promise("the same plan again in one Python process, CPU", "second_seconds", "s", 0.3),),
    ),
    Bench(
        (measure("first", "plan", "dgx-h100:512", "--model", "gpt3-175b"),),
        3,
        (Promise("first plan of GPT-3 on 4,096 GPUs, on the clock", "first_seconds", "s", 1.0),),
    ),
    four_levels("8,8,4,2"),
    four_levels("32,4,4"),
    proofs(3, 0.1),
    proofs(4, 0.3),
    proofs(5, 0.3),
)


def run(words: tuple[str, ...]) -> dict[str, float]:
    """Run one process: what it measured itself (JSON on its output), its time and its memory."""
    begun = perf_counter()
    process = subprocess.Popen(
        _found(words), cwd=record.ROOT, stdout=subprocess.PIPE, env=os.environ | ENVIRONMENT
    )
    assert process.stdout is not None
    with process.stdout as stream:
        printed = stream.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = perf_counter() - begun
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    figures: dict[str, float] = json.loads(printed) if words[0] == "python" else {}
    return figures | {"wall_seconds": wall, "peak_MB": peak / 1e6, "peak_MiB": peak / 2**20}


def _found(words: tuple[str, ...]) -> list[str]:
    """The command as it is called here: from the environment that runs this file."""
    beside = Path(sys.executable).with_name(words[0])
    return [sys.executable if words[0] == "python" else str(beside), *words[1:]]


def entries(bench: Bench) -> Iterator[dict[str, Any]]:
    """Run a benchmark; one entry for each promise."""
    runs = {words: [run(words) for _ in range(bench.repeats)] for words in bench.commands}
    for promise in bench.promises:
        medians = {
            words: median(figures[promise.key] for figures in some) for words, some in runs.items()
        }
        worst = max(medians, key=lambda words: medians[words])
        figure = medians[worst]
        yield {
            "name": promise.name,
            "figure": float(f"{figure:.4g}") if figure < 1000 else round(figure),
            "unit": promise.unit,
            "limit": promise.limit,
            "met": None if promise.limit is None else figure <= promise.limit,
            "runs": bench.repeats,
            **record.origin(" ".join(worst)),
            "machine": record.machine(),
        }


def page(data: dict[str, Any]) -> pages.Page:
    """README.md with the table of benchmarks, and which commits and machines they are from."""
    origins = sorted({record.made_at(entry) for entry in data["benchmarks"]})
    return pages.page("bench", data=data, origins=origins)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="benchmarks whose name contains this")
    word = parser.parse_args().only
    kept = {} if not word else {e["name"]: e for e in record.read(DATA)["benchmarks"]}
    for bench in BENCHES:
        if any(word in promise.name for promise in bench.promises):
            for entry in entries(bench):
                kept[entry["name"]] = entry
                said = {None: "", True: "met", False: "NOT MET"}[entry["met"]]
                print(f"{entry['name']}: {entry['figure']:g} {entry['unit']} {said}", flush=True)
    order = [promise.name for bench in BENCHES for promise in bench.promises]
    data = {"command": COMMAND, "benchmarks": [kept[name] for name in order if name in kept]}
    pages.keep(DATA, data, page)


if __name__ == "__main__":
    main()
