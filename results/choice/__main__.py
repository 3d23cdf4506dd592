"""How near to the best the choice of a whole step's rows is proved to be, and what it gains.

``python -m results.choice`` writes choice.json and a section of README.md. Steps are the zoo's, of
published sizes and a batch of 64, over data=4 x tensor=2; rates are plain: those below, nothing
overlaps, launches and latencies are left out. ``--dry`` prints, and keeps nothing.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

from hierarchies import InputError
from results import pages, record
from synth.search.elimination import minimize
from synth.search.space import BestFound, Optimal
from synth.step.models import ModelSettings, zoo_step
from synth.step.rows import plain_prices, seconds_of
from synth.step.rows.tables import costs_of
from synth.step.sharding import Cuts, Plan, parse_recipe, plan_of

DATA = Path(__file__).with_name("choice.json")
COMMAND = "python -m results.choice"
MODELS = ("gpt2-small", "llama3-8b", "mixtral-8x7b", "resnet50")
BATCH = 64
SIZES = {"data": 4, "tensor": 2}
GB_PER_SECOND = {"data": 50.0, "tensor": 300.0}
TERAFLOPS, MEMORY_GB_PER_SECOND = 600.0, 2500.0
ROUNDS = 200
GAP = 1e-3
RECIPES = (
    "batch over data",
    "batch over data; zero=1",
    "batch over data; zero=3",
    "batch over data; weights over tensor as Megatron",
    "batch over data; weights over tensor as Megatron; zero=1",
    "batch over data; weights over tensor as Megatron; tokens over tensor; zero=1",
)


def measured(name: str) -> dict[str, Any]:
    """One model: what is chosen, how well that is proved, and the recipes beside it."""
    step = zoo_step(name, {}, ModelSettings(batch=BATCH))
    rates = {axis: 1e9 * rate for axis, rate in GB_PER_SECOND.items()}
    prices = plain_prices(SIZES, rates, 1e12 * TERAFLOPS, 1e9 * MEMORY_GB_PER_SECOND)
    begun = process_time()
    plan = Plan(tuple(SIZES.items()), Cuts((), ()))
    tables = costs_of(step, plan, prices)
    priced = process_time()
    found = minimize(tables.costs, ROUNDS, gap=GAP)
    searched = process_time()
    assert isinstance(found, Optimal | BestFound), name
    own = seconds_of(step, replace(plan, cuts=tables.cuts(found.state)), prices)
    recipes = {}
    for recipe in RECIPES:
        axes = " ".join(f"{axis}={size}" for axis, size in SIZES.items())
        try:
            other = plan_of(step, parse_recipe(f"{axes}; {recipe}"))
        except InputError:
            continue
        recipes[recipe] = seconds_of(step, other, prices).all
    best = min(recipes, key=lambda one: recipes[one])
    return {
        "model": name,
        "operations": sum(1 for _ in step.graph.everywhere()),
        "states": max(map(len, tables.costs.alone)),
        "priced_seconds": priced - begun,
        "searched_seconds": searched - priced,
        "charged_seconds": found.seconds,
        "gap": found.gap,
        "plan_seconds": own.all,
        "recipe": best,
        "recipe_seconds": recipes[best],
    }


def page(data: dict[str, Any]) -> pages.Page:
    """README.md with its section about choices as the data has it."""
    return pages.page("choice", data=data, gap=GAP)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--dry", action="store_true", help="print, and keep nothing")
    dry = given.parse_args().dry
    models = [measured(name) for name in MODELS]
    data = record.origin(COMMAND) | {"machine": record.machine(), "models": models}
    if dry:
        print(json.dumps(data, indent=1))
    else:
        pages.keep(DATA, data, page)


if __name__ == "__main__":
    main()
