"""Whole steps run here beside the simulation of them: ``python -m results.runs run|report|list``.

``run`` measures at the rates that are given (all of them, unless), some minutes each, as root; it
should be the only one on the machine. ``report`` simulates all that was measured and writes
runs.json and the page. ``replay`` does with sleeps in the place of compute what more ranks do.
``every`` runs all plans of a small model on 2, 4 and 8 ranks, or on as many as are given; with
``--stuck`` those alone that got stuck; with ``--simulate`` it simulates what was measured.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hierarchies import InputError
from results import pages, record
from results.order.ranking import summed
from results.runs import every
from results.runs.cases import RATES, cases
from results.runs.judged import Told, figures
from results.runs.measure import keep, measure
from results.runs.orders import orders
from results.runs.ranks import alike
from results.runs.replay import WORLDS, families, replay
from results.testbed.hosts.crew import TroubleError
from results.testbed.hosts.network import missing

COMMAND = "python -m results.runs"
HERE = Path(__file__).parent
DATA, PLANS, REPORT = HERE / "data", HERE / "plans", HERE / "runs.json"
AIMS = {"mean_step": 0.04, "mean_busy": 0.05, "worst_step": 0.10}


def page(data: Told) -> pages.Page:
    """README.md with its sections about whole steps as the data has it."""
    real, replayed = (orders(data[name]) for name in ("rows", "replayed"))
    measured = [record.read(path) for path in sorted(PLANS.glob("*.json"))]
    return pages.page(
        "runs",
        data=data,
        aims=AIMS,
        orders=[*real, *replayed],
        sums={"real": summed(real), "replay": summed(replayed)},
        every=[one | {"orders": orders(one["rows"])} for one in measured],
        drifted=[
            row
            for one in measured
            for row in orders([each | {"drift": 0.0} for each in one["rows"]])
        ],
    )


def report() -> int:
    data = record.origin(f"{COMMAND} report") | figures(DATA)
    record.write(REPORT, data)
    page(data).write()
    return 0


def every_plan(asked: argparse.Namespace) -> int:
    """All plans of a small model: run, run again where they got stuck, or simulated anew."""
    for world in map(int, asked.numbers or every.WORLDS):
        known = PLANS / f"{world}.json"
        if asked.simulate:
            told = every.anew(record.read(known), world)
        else:
            told = every.again(record.read(known), world) if asked.stuck else every.run(world)
        keep(PLANS, str(world), told)
    page(record.read(REPORT)).write()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["run", "replay", "every", "report", "list"])
    parser.add_argument("numbers", nargs="*", type=float)
    parser.add_argument("--stuck", action="store_true")
    parser.add_argument("--simulate", action="store_true")
    asked = parser.parse_args()
    if asked.what == "list":
        print("\n".join(case.name for case in cases()))
        return 0
    if asked.what == "report":
        return report()
    if asked.what == "every" and asked.simulate:
        return every_plan(asked)
    if reason := missing():
        print(f"skipped: {reason}")
        return 0
    alike("results.runs")
    if asked.what == "replay":
        for world in map(int, asked.numbers or WORLDS):
            keep(DATA, f"replay-{world}", replay(world, families(world)))
        return 0
    if asked.what == "every":
        return every_plan(asked)
    for rate in asked.numbers or RATES:
        chosen = [case for case in cases() if case.megabits == rate]
        keep(DATA, f"{rate:g}", measure(rate, chosen))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (InputError, TroubleError) as error:
        sys.exit(f"error: {error}")
