"""Published steps in FP8 against their predictions.

``python -m results.precision`` writes precision.json and the page. Each row of rows.toml is put on
the clock as ``collsynth simulate`` puts it, in its precision and in bfloat16; nothing is fitted.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from statistics import median
from typing import Any

import synth
from results import pages, record

DATA = Path(__file__).with_name("precision.json")
COMMAND = "python -m results.precision"


def predict(row: dict[str, Any], precision: str | None) -> dict[str, Any]:
    """Returns tokens a second and device, the interval of a step, and its memory in bytes."""
    found = synth.simulate(
        row["model"],
        row["machine"],
        batch=row["batch"],
        sizes={"sequence": row["sequence"]},
        dtype="bfloat16",
        overlap="all",
        precision=precision,
        plan=row["plan"],
    )
    low, high = found.interval
    return {
        "tokens_per_second": found.tokens_per_second / found.devices,
        "inside": low <= found.tokens / found.devices / row["tokens_per_second"] <= high,
        "bytes": found.memory.bytes,
        "device": found.machine.device,
    }


def compare(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row with its prediction, and that of the same plan in bfloat16."""
    found, kept = predict(row, row["precision"]), predict(row, None)
    measured = row["tokens_per_second"]
    return (
        row
        | found
        | {
            "measured": measured,
            "error": measured / found["tokens_per_second"] - 1,
            "in_16_bits": kept["tokens_per_second"],
        }
    )


def page(data: dict[str, Any]) -> pages.Page:
    """README.md with its section as the data has it."""
    return pages.page("precision", data=data)


def measure() -> dict[str, Any]:
    """Compares all rows, and summarises their errors."""
    rows = tomllib.loads(Path(__file__).with_name("rows.toml").read_text(encoding="utf-8"))["row"]
    found = []
    for row in rows:
        found.append(compare(row))
        print(row["id"], f"{found[-1]['error']:+.1%}", flush=True)
    errors = [abs(row["error"]) for row in found]
    summary = {"median": median(errors), "most": max(errors)}
    return record.origin(COMMAND) | summary | {"rows": found}


if __name__ == "__main__":
    raise SystemExit(pages.command(COMMAND, DATA, measure, page))
