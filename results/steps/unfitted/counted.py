"""Peak memory of nanotron's runs as ``plan`` counts it; nothing is fitted.

Each measured plan is written as the planner's recipe, with the layers of each stage as nanotron's
code shares them out. Every run with a measured peak is here, whatever its plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from results.order.offers import Asked, Offer, offered
from results.steps.protocol import short, summed_up
from results.steps.rows import Family, Row, raw_rows
from results.steps.shapes import stages_as_built

WIDE = 8
"""Parts of tensors from which on logits are what a run may not hold whole."""

_GIGA = 1e9
Told = dict[str, Any]


def offer(family: Family, row: Row) -> Offer:
    """A run as the planner has it, or why it has it not."""
    nodes = row.plan.devices // 8
    machine, device = f"{family.told['machine']}:{nodes}", family.told["device"]
    layers = [count for count, _ in stages_as_built(row.shape, row.plan)]
    question = Asked(row.shape, row.plan.sequences, machine, device)
    return offered(question).offer(row.plan, layers if row.plan.pipe > 1 else ())


def measured(family: Family) -> dict[str, float]:
    """The peaks in GB that are published, by the names of runs."""
    peaks = {raw["id"]: raw["peak_memory_GB"] for n in family.told["sets"] for raw in raw_rows(n)}
    return {row.name: float(peaks[row.name]) for row in family.rows if peaks[row.name]}


def made(family: Family) -> Told:
    """Measured and counted GB of each run, by its name, and why others are not counted."""
    peaks, refused = measured(family), Counter[str]()
    rows: Told = {}
    for row in sorted(family.rows, key=lambda one: one.group):
        if row.name not in peaks:
            continue
        found = offer(family, row)
        if found.refused:
            refused[found.refused] += 1
            continue
        rows[row.name] = {
            "measured": peaks[row.name],
            "counted": short(found.size_bytes / _GIGA),
            "tensor": row.plan.tensor,
            "pipe": row.plan.pipe,
        }
    return {"rows": rows, "refused": dict(refused)}


def classes(data: Told) -> dict[str, Told]:
    """How far what is counted is from what was measured: of all, and by parts of tensors."""
    rows = list(data["rows"].values())
    wide = [one for one in rows if one["tensor"] >= WIDE]
    found = {"all runs": _off(rows), f"{WIDE} parts of tensors and more": _off(wide)}
    for parts in sorted({one["tensor"] for one in rows}):
        found[f"{parts} parts"] = _off([one for one in rows if one["tensor"] == parts])
    return found


def _off(rows: Sequence[Told]) -> Told:
    ratios = np.array([one["counted"] / one["measured"] for one in rows])
    ends = {"low": short(float(ratios.min())), "high": short(float(ratios.max()))}
    return summed_up(np.abs(ratios - 1)) | ends | {"bias": short(float(np.median(ratios)))}
