"""What rows of single operations make of plans: seconds before and after.

``python -m results.rows`` writes rows.json and a section of README.md. Each case is the best recipe
for a model of the zoo on a machine of the catalogue, in bfloat16 with four samples a device, and
the rows that are chosen along its axes, which ``plan`` tries for models whose weights recipes do
not cut. All seconds are simulated. ``--dry`` prints, and keeps nothing.
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
from synth.collective.ranking.request import Watcher
from synth.measure.calibration.typical import apply_typical
from synth.step.models import ModelSettings
from synth.step.search.job import PlanningProblem
from synth.step.search.pins import Pins
from synth.step.search.planning import Planner
from synth.step.search.resolution import compare_seconds

DATA = Path(__file__).with_name("rows.json")
COMMAND = "python -m results.rows"
WHOLE = {"pipe": "1", "microbatches": "1"}
CASES: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("mlp", "dgx-h100:2", {}),
    ("mlp", "aws-p4d:4", {}),
    ("lstm", "dgx-h100:2", {}),
    ("resnet50", "dgx-h100:2", {}),
    ("gpt2-small", "dgx-h100:2", WHOLE),
    ("bert-base", "dgx-h100:2", {}),
    ("vit-base", "aws-p4d:2", WHOLE),
)
SAMPLES = 4


def measured(model: str, machine: str, pins: dict[str, str]) -> dict[str, Any]:
    """One case: the best recipe, and the rows that are chosen along its axes."""
    system = apply_typical(load(machine))
    spelling = ModelSettings(batch=SAMPLES * system.devices, dtype="bfloat16")
    job = PlanningProblem(model, {}, spelling, system, device_named(system.device))
    planner = Planner(job)
    finalists = planner.plans(Pins(pins), 2, Watcher()).finalists
    first = next(finalist for finalist in finalists if finalist.rows is None)
    begun = process_time()
    found = planner.choose_rows(first)
    rank = first.found.ranks[first.found.busiest]
    return {
        "model": model,
        "machine": machine,
        "pins": pins,
        "plan": str(first.candidate.recipe),
        "before": first.found.seconds,
        "waits": max(0.0, rank.exposed_seconds),
        "rows": found.found.seconds,
        "rows_bytes": found.size_bytes,
        "fits": found.size_bytes <= job.device.memory_bytes,
        "told": compare_seconds(*planner.likely([first, found])).high_seconds < 0,
        "cpu_seconds": process_time() - begun,
    }


def page(data: dict[str, Any]) -> pages.Page:
    """README.md with its section about rows as the data has it."""
    return pages.page("rows", data=data)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--dry", action="store_true", help="print, and keep nothing")
    given.add_argument("--page", action="store_true", help="write the page from the data on disk")
    asked = given.parse_args()
    if asked.page:
        page(record.read(DATA)).write()
        return
    cases = [measured(*case) for case in CASES]
    data = record.origin(COMMAND) | {"machine": record.machine(), "cases": cases}
    if asked.dry:
        print(json.dumps(data, indent=1))
    else:
        pages.keep(DATA, data, page)


if __name__ == "__main__":
    main()
