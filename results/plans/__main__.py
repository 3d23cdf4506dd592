"""What it gains to choose a step's recipe, placement and programs together, and one switched off.

``python -m results.plans`` writes plans.json and a section of README.md. Each case is a model of
the zoo on a machine of the catalogue, in bfloat16. Gains are between composed seconds, which the
first five plans of each case, simulated, are held against. ``--dry`` prints, and keeps nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

from hierarchies import Reduction, load
from hierarchies.devices import device_named
from results import pages, record
from results.plans.families import group_by_recipe
from synth.collective.price.defaults import defaults
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import total_seconds
from synth.collective.ranking.request import Watcher
from synth.measure.calibration.typical import apply_typical
from synth.step.models import ModelSettings
from synth.step.search.buckets import BUCKETS
from synth.step.search.finalists import is_framework_order
from synth.step.search.job import PlanningProblem
from synth.step.search.links import BoundLinks, Key, PlacedRecipe, PricedLinks, place_alone
from synth.step.search.pins import Pins
from synth.step.search.planning import Planner
from synth.step.search.searching import Search

DATA = Path(__file__).with_name("plans.json")
COMMAND = "python -m results.plans"
CASES = (
    ("llama3-8b", "dgx-h100:2", 64, 8192),
    ("llama3-8b", "aws-p4d:4", 128, 8192),
    ("llama3-70b", "dgx-h100:8", 256, 8192),
    ("llama3-70b", "mi300x:8", 256, 8192),
    ("gpt3-175b", "dgx-a100:32", 1536, 2048),
    ("gpt2-xl", "aws-p4d:2", 512, 1024),
)
RECIPES: dict[str, Callable[[PlacedRecipe], bool]] = {
    "data parallel": lambda one: _only(one, "data") and one.recipe.zero == 0,
    "FSDP": lambda one: _only(one, "data") and one.recipe.zero == 3,
    "Megatron": lambda one: one.recipe.zero <= 1 and bool(one.recipe.megatron),
}
"""Recipes that people use, each the best of its kind where frameworks lay axes out."""


def _only(one: PlacedRecipe, axis: str) -> bool:
    return [name for name, size in one.recipe.axes if size > 1] == [axis]


class Usual(PricedLinks):
    """What the runtime's own collectives take: no program of ours. There is one way to send."""

    def _found(self, key: Key) -> float:
        """Of the runtime's choice."""
        goal, row, power = key
        reduction = Reduction(place_alone(self.system, row), ("over",))
        found = defaults(Simulator(self.system), reduction, 2**power, goal)
        return total_seconds(found.baseline)


def measured(model: str, machine: str, batch: int, sequence: int) -> dict[str, Any]:
    """One case: the best of all, and the best with one freedom less."""
    system = apply_typical(load(machine))
    spelling = ModelSettings(batch=batch, dtype="bfloat16")
    job = PlanningProblem(
        model, {"sequence": sequence}, spelling, system, device_named(system.device)
    )
    planner, begun = Planner(job), process_time()
    found = planner.plans(Pins({}), 5, Watcher())
    took = process_time() - begun
    priced, least = PricedLinks(system), BoundLinks(system)
    usual = Usual(system)
    every = job.candidates(Pins({}))
    laid_out = [one for one in every if is_framework_order(one, system)]

    def best(some: Sequence[PlacedRecipe], links: PricedLinks) -> float | None:
        memory = job.device.memory_bytes
        search = Search(
            planner.composer, group_by_recipe(some), memory, links, least, Watcher(), BUCKETS
        )
        return next((one.seconds for one in search.cheapest()), None)

    both = [(one.candidate, one.found.seconds) for one in found.finalists]
    composed = planner.composer.on(priced).seconds([one for one, _ in both])
    return {
        "model": model,
        "machine": machine,
        "batch": batch,
        "sequence": sequence,
        "plan": str(found.finalists[0].candidate.recipe),
        "placement": [list(row) for row in found.finalists[0].candidate.rows],
        "plans": found.search.plans,
        "fitting": found.search.fitting,
        "took_seconds": took,
        "least_seconds": found.least_seconds,
        "simulated": [
            {"composed": seconds, "simulated": simulated}
            for seconds, (_, simulated) in zip(composed, both, strict=True)
        ],
        "joint": best(every, priced),
        "without_placement": best(laid_out, priced),
        "without_programs": best(every, usual),
        "without_both": best(laid_out, usual),
        "without_stages": best([one for one in every if one.ranks == 1], priced),
        "recipes": {
            name: best([one for one in laid_out if kind(one)], usual)
            for name, kind in RECIPES.items()
        },
    }


def page(data: dict[str, Any]) -> pages.Page:
    """README.md with its section about plans as the data has it."""
    off = [
        abs(one["composed"] / one["simulated"] - 1)
        for case in data["cases"]
        for one in case["simulated"]
    ]
    return pages.page("plans", data=data, off=sorted(off))


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--dry", action="store_true", help="print, and keep nothing")
    dry = given.parse_args().dry
    cases = [measured(*case) for case in CASES]
    data = record.origin(COMMAND) | {"machine": record.machine(), "cases": cases}
    if dry:
        print(json.dumps(data, indent=1))
    else:
        pages.keep(DATA, data, page)


if __name__ == "__main__":
    main()
