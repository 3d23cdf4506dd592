"""Published steps by framework and accelerator against their predictions.

``python -m results.runtimes`` writes runtimes.json and the page. A sample of each family of
``results/steps`` is put on the clock as ``collsynth simulate`` puts it, with nothing fitted. The
factor of a family is the ratio of the seconds that its compute took to those of the prediction,
where what is communicated alone is believed, and a pipeline's bubble grows with its compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

import synth
from hierarchies import InputError
from results import pages, record
from results.order.offers import Asked, built, recipe_of
from results.steps.protocol import sum_errors
from results.steps.rows import Family, Row, families
from results.steps.shapes import even_stages, stages

DATA = Path(__file__).with_name("runtimes.json")
COMMAND = "python -m results.runtimes"
MOST_ROWS = 16
"""Of a family: a hash chooses them."""
LEAST_SHARE = 0.2
"""The least share of the peak: rows below are of other causes than compute."""


def sample(family: Family) -> list[Row]:
    """Returns rows of a family that compute well, at most one of each configuration."""
    rows = {row.configuration: row for row in family.rows if row.share >= LEAST_SHARE}
    return sorted(rows.values(), key=lambda row: sha256(row.name.encode()).digest())


def predict(family: Family, row: Row) -> dict[str, Any]:
    """Returns the predicted and measured seconds of a step, and the factor of its compute.

    Raises InputError for a plan that no recipe says.
    """
    stage_layers = stages if family.told["layout"] == "by parameters" else even_stages
    recipe = str(recipe_of(row.plan))
    if row.plan.pipe > 1:
        shares = built([layers for layers, _ in stage_layers(row.shape, row.plan)])
        if shares and row.plan.chunks == 1:
            recipe += f"; stages of {', '.join(map(str, shares))} layers"
    asked = Asked(row.shape, row.plan.sequences, family.told["machine"], family.told["device"])
    nodes = -(-row.plan.devices // 8)
    machine = f"{asked.machine}:{nodes}" + (f"x{row.plan.devices}" if row.plan.devices < 8 else "")
    found = synth.simulate(
        asked.model,
        machine,
        device=asked.device,
        sizes=dict(asked.sizes),
        batch=row.plan.sequences,
        dtype="bfloat16",
        overlap="all",
        attention="flash" if row.shape.flash else "plain",
        plan=recipe,
    )
    exposed = max(found.ranks, key=lambda rank: rank.compute_seconds).exposed_seconds
    low, high = found.interval
    return {
        "id": row.name,
        "plan": recipe,
        "measured": row.seconds,
        "seconds": found.seconds,
        "error": found.seconds / row.seconds - 1,
        "inside": low <= row.seconds <= high,
        "factor": max(0.0, row.seconds - exposed) / (found.seconds - exposed),
    }


def summarise(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the errors of steps, and the factor of their compute with its range."""
    factors = sorted(row["factor"] for row in rows)
    ends = [factors[len(factors) // 10], factors[-1 - len(factors) // 10]]
    return sum_errors(rows) | {"factor": median(factors), "factors": ends}


def measure() -> dict[str, Any]:
    """Predicts a sample of every family, and summarises it."""
    found = []
    for family in families():
        if family.rows and family.rows[0].shape.dtype != "bf16":
            continue
        rows: list[dict[str, Any]] = []
        refused: dict[str, int] = {}
        for row in sample(family):
            if len(rows) == MOST_ROWS:
                break
            try:
                rows.append(predict(family, row))
                print(family.name, row.name, f"{rows[-1]['error']:+.1%}", flush=True)
            except InputError as error:
                refused[error.problem] = refused.get(error.problem, 0) + 1
        if rows:
            found.append(
                {"name": family.name, "refused": refused, **summarise(rows), "steps": rows}
            )
    return record.origin(COMMAND) | {"families": found}


def page(data: dict[str, Any]) -> pages.Page:
    """README.md with its section as the data has it."""
    return pages.page("runtimes", data=data)


if __name__ == "__main__":
    raise SystemExit(pages.command(COMMAND, DATA, measure, page))
