"""What the planner finds for the zoo, beside recipes that people use.

``python -m results.joint`` writes joint.json and a section of README.md. Every model that has
layers that are alike, at its published sizes, on four machines of the catalogue, in bfloat16 with
four samples a device. All seconds are composed. Where the gain comes from: the best with one
freedom less. ``--dry`` prints, and keeps nothing; ``--only MODEL`` takes one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from math import inf
from pathlib import Path
from time import process_time
from typing import Any

from hierarchies import InputError, load
from hierarchies.devices import device_named
from results import pages, record
from results.plans.__main__ import RECIPES, Usual
from synth.calibration.typical import typical
from synth.plan.request import Watcher
from synth.train.models import Spelling
from synth.train.planner.families import gathered
from synth.train.planner.finalists import by_framework
from synth.train.planner.job import Job
from synth.train.planner.links import Candidate, Least, Priced
from synth.train.planner.pins import Pins
from synth.train.planner.planning import Planner
from synth.train.planner.searching import Search
from synth.train.planner.sums.choosing import BUCKETS
from synth.train.zoo.sizes import ZOO

DATA = Path(__file__).with_name("joint.json")
COMMAND = "python -m results.joint"
MACHINES = ("dgx-h100:2", "aws-p4d:4", "mi300x:2", "dgx-a100:8")
MODELS = tuple(name for name in ZOO if "tiny" not in name)
SAMPLES = 4
"""In a batch for each device."""

KINDS: dict[str, Callable[[Candidate], bool]] = {
    **RECIPES,
    "experts": lambda one: (
        bool(one.recipe.experts) and one.recipe.zero <= 1 and not one.recipe.megatron
    ),
}
"""Recipes that people use; experts apart from each other, all else data parallel, is one more."""


def measured(model: str, machine: str) -> dict[str, Any]:
    """One case: the best plan, the best of each kind of recipe, and with one freedom less."""
    system = typical(load(machine))
    spelling = Spelling(batch=SAMPLES * system.devices, dtype="bfloat16")
    job = Job(model, {}, spelling, system, device_named(system.device))
    case = {"model": model, "machine": machine, "batch": spelling.batch}
    try:
        every = job.candidates(Pins({}))
    except InputError as error:
        return case | {"refused": error.problem}
    planner, least = Planner(job), Least(system)
    priced, usual = Priced(system), Usual(system)

    def best(among: Callable[[Candidate], bool], links: Priced) -> Candidate | None:
        some = gathered(filter(among, every))
        memory = job.device.memory_bytes
        search = Search(planner.composer, some, memory, links, least, Watcher(), BUCKETS)
        return next((one.candidate for one in search.cheapest()), None)

    def seconds(one: Candidate | None, links: Priced) -> float | None:
        return None if one is None else planner.composer.on(links).seconds([one])[0]

    def by_default(one: Candidate) -> bool:
        return by_framework(one, system)

    begun = process_time()
    found = best(lambda one: True, priced)
    took = process_time() - begun
    kinds = {
        name: best(lambda one, kind=kind: by_default(one) and kind(one), usual)  # type: ignore[misc]
        for name, kind in KINDS.items()
    }
    known = {name: seconds(one, usual) for name, one in kinds.items()}
    fitting = [(took, name) for name, took in known.items() if took]
    usual_best = kinds[min(fitting)[1]] if fitting else None
    layout = usual_best.recipe.axes if usual_best else ()
    return case | {
        "plans": len(every),
        "grid_cpu_seconds": took,
        "plan": None if found is None else str(found.recipe),
        "placement": None if found is None else [list(row) for row in found.rows],
        "grid": seconds(found, priced),
        "recipes": known,
        "without": {
            "layout": seconds(best(lambda one: one.recipe.axes == layout, priced), priced),
            "schedule": seconds(best(lambda one: one.recipe.chunks == 1, priced), priced),
            "placement": seconds(best(by_default, priced), priced),
            "program": seconds(best(lambda one: True, usual), usual),
        },
    }


def _least(case: dict[str, Any]) -> float:
    """Of the recipes that fit."""
    return min((took for took in case["recipes"].values() if took), default=inf)


def page(data: dict[str, Any]) -> str:
    """README.md with its section about the zoo as the data has it."""
    planned = [one for one in data["cases"] if one.get("grid")]
    gains = sorted(_least(one) / one["grid"] for one in planned if _least(one) < inf)
    return pages.page("joint", data=data, planned=planned, gains=gains)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--dry", action="store_true", help="print, and keep nothing")
    given.add_argument("--only", choices=MODELS, help="one model; nothing is kept")
    asked = given.parse_args()
    models = [asked.only] if asked.only else MODELS
    cases = [measured(model, machine) for model in models for machine in MACHINES]
    data = record.origin(COMMAND) | {"machine": record.machine(), "cases": cases}
    if asked.dry or asked.only:
        print(json.dumps(data, indent=1))
    else:
        pages.keep(DATA, data, page)


if __name__ == "__main__":
    main()
