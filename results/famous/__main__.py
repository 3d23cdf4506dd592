"""Published training runs against their predictions.

``python -m results.famous`` writes famous.json and the page. Each run of runs.toml is put on the
clock as ``collsynth simulate`` puts it, alone and with ``--framework``.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import synth
from results import pages, record
from results.steps.protocol import sum_errors
from synth.ask.questions import notations
from synth.ask.questions.named_texts import NamedText

HERE = Path(__file__).parent
DATA = HERE / "famous.json"
COMMAND = "python -m results.famous"
NAMES = {
    "Megatron-LM": "megatron",
    "NeMo": "megatron",
    "DeepSpeed": "deepspeed",
    "torchtitan": "torchtitan",
}
"""Frameworks of runs as collsynth names them; others have no factor."""
TUNED = ("Megatron-LM", "NeMo", "Meta's")
"""The frameworks that their makers tuned on these machines."""


def megatron_flops(sizes: dict[str, int], batch: int, recomputed: bool) -> float:
    """Returns floating-point operations of a step of a GPT by Megatron's formula.

    It counts the forward pass again where all of it is recomputed (arXiv 2104.04473, equation 3).
    """
    layers, width, sequence = sizes["layers"], sizes["width"], sizes["sequence"]
    tokens, passes = batch * sequence, 4 if recomputed else 3
    layer = 24 * tokens * width**2 * (1 + sequence / (6 * width))
    vocabulary = 6 * tokens * width * sizes["vocabulary"]
    return passes * layers * layer + vocabulary


def predict(run: dict[str, Any], framework: str) -> dict[str, Any]:
    """Returns the predicted and the published seconds of a step of a run."""
    sizes = notations.AXES.read(run["sizes"]) if "sizes" in run else {}
    machine: str | NamedText = run["system"]
    if (HERE / run["system"]).exists():
        text = (HERE / run["system"]).read_text(encoding="utf-8")
        machine = NamedText(name=run["system"], text=text)
    found = synth.simulate(
        run["model"],
        machine,
        device=run.get("device"),
        sizes=sizes,
        batch=run["batch"],
        dtype="bfloat16",
        overlap="all",
        attention=run.get("attention", "flash"),
        plan=run["plan"],
        framework=framework,
    )
    low, high = found.interval
    published = _published_seconds(run, found, sizes)
    return {
        "seconds": found.seconds,
        "published": published,
        "error": found.seconds / published - 1,
        "inside": low <= published <= high,
        "devices": found.devices,
    }


def _published_seconds(run: dict[str, Any], found: Any, sizes: dict[str, int]) -> float:
    """Returns a run's published seconds of a step, from whichever figure was published."""
    if "seconds" in run:
        return float(run["seconds"])
    if "tps" in run:
        return float(found.tokens / found.devices / run["tps"])
    if "mfu" in run:
        return float(found.seconds * found.utilisation / run["mfu"])
    gpt = {"layers": 96, "width": 12288, "sequence": 2048} | sizes
    flops = megatron_flops(gpt, run["batch"], recomputed="remat" in run["plan"])
    return float(flops / (run["tflops"] * 1e12 * found.devices))


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the number of runs, and their errors without and with factors of frameworks."""
    return {
        "runs": len(rows),
        "alone": sum_errors([row["alone"] for row in rows]),
        "by_framework": sum_errors([row["by_framework"] for row in rows]),
    }


def page(data: dict[str, Any]) -> pages.Page:
    """README.md with its section as the data has it."""
    return pages.page("famous", data=data)


def measure() -> dict[str, Any]:
    """Predicts all runs, and summarises their errors by framework."""
    runs = tomllib.loads((HERE / "runs.toml").read_text(encoding="utf-8"))
    rows = []
    for name, run in runs.items():
        framework = NAMES.get(run["framework"], "")
        alone = predict(run, "")
        found = predict(run, framework) if framework else alone
        rows.append({"id": name, "sizes": "", **run, "alone": alone, "by_framework": found})
        print(f"{name} {alone['error']:+.1%} {found['error']:+.1%}", flush=True)
    tuned = [row for row in rows if row["framework"] in TUNED]
    classes = {
        "all": rows,
        "tuned by their makers": tuned,
        "others": [row for row in rows if row not in tuned],
    }
    return record.origin(COMMAND) | {
        "classes": {name: summarise(some) for name, some in classes.items()},
        "rows": rows,
    }


if __name__ == "__main__":
    raise SystemExit(pages.command(COMMAND, DATA, measure, page))
