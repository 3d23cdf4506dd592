"""What substitutions, and rows of single operations, make of plans: before, after, and what.

``python -m results.substitutions`` writes substitutions.json and a section of README.md. Each case
is the first plan of a model of the zoo on a machine of the catalogue (``plan --rows``), at its
published sizes, in bfloat16 with four samples a device, with as many substitutions as that
tries where a plan redistributes. All seconds are simulated. ``--dry`` prints, and keeps nothing.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import process_time
from typing import Any

from hierarchies import load
from hierarchies.devices import device_named
from results import pages, record
from synth.ask.training.planned import SUBSTITUTIONS
from synth.collective.ranking.request import Watcher
from synth.measure.calibration.typical import apply_typical
from synth.search.space import Budget
from synth.step.models import ModelSettings
from synth.step.search.job import PlanningProblem
from synth.step.search.pins import Pins
from synth.step.search.planning import Planner

DATA = Path(__file__).with_name("substitutions.json")
COMMAND = "python -m results.substitutions"
WHOLE = {"pipe": "1", "microbatches": "1"}
CASES: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("mlp", "dgx-h100:2", {}),
    ("mlp", "aws-p4d:4", {}),
    ("lstm", "dgx-h100:2", {}),
    ("gpt2-small", "dgx-h100:2", WHOLE),
    ("gpt2-small", "aws-p4d:2", {}),
    ("bert-base", "dgx-h100:2", {}),
    ("bert-base", "mi300x:2", {}),
    ("vit-base", "aws-p4d:2", WHOLE),
    ("resnet50", "dgx-h100:2", {}),
)
SAMPLES = 4
BUDGET = Budget(SUBSTITUTIONS)


def measured(model: str, machine: str, pins: dict[str, str]) -> dict[str, Any]:
    """One case: the first plan, and the best that was made of it."""
    system = apply_typical(load(machine))
    spelling = ModelSettings(batch=SAMPLES * system.devices, dtype="bfloat16")
    job = PlanningProblem(model, {}, spelling, system, device_named(system.device))
    planner = Planner(job)
    first = planner.plans(Pins(pins), 1, Watcher()).finalists[0]
    begun = process_time()
    found = planner.finer(first, BUDGET)
    rank = first.found.ranks[first.found.busiest]
    return {
        "model": model,
        "machine": machine,
        "pins": pins,
        "plan": str(first.candidate.recipe),
        "before": found.substituted.before_seconds,
        "waits": max(0.0, rank.exposed_seconds),
        "tried": found.substituted.tried,
        "after": found.substituted.seconds,
        "applied": list(found.substituted.kept),
        "rows": found.rows and found.rows.found.seconds,
        "rows_bytes": found.rows and found.rows.size_bytes,
        "casts": found.rows and found.rounded,
        "fits": found.rows is not None and found.rows.size_bytes <= job.device.memory_bytes,
        "because": found.because,
        "told": bool(found.text),
        "cpu_seconds": process_time() - begun,
    }


def page(data: dict[str, Any]) -> pages.Page:
    """README.md with its section about substitutions as the data has it."""
    return pages.page("substitutions", data=data)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--dry", action="store_true", help="print, and keep nothing")
    given.add_argument("--page", action="store_true", help="write the page from the data on disk")
    asked = given.parse_args()
    if asked.page:
        page(record.read(DATA)).write()
        return
    cases = [measured(*case) for case in CASES]
    data = record.origin(COMMAND) | {"machine": record.machine(), "budget": BUDGET.evaluations}
    data |= {"cases": cases}
    if asked.dry:
        print(json.dumps(data, indent=1))
    else:
        pages.keep(DATA, data, page)


if __name__ == "__main__":
    main()
