"""Does DDP run faster with other buckets, and by as much as was simulated?

``python -m results.ddp run [RATES]`` trains small models by two ranks on a network of 100 to 800
Mbit/s, some minutes each, as root; it should be alone on the machine. ``report`` simulates what was
measured, and writes ddp.json and the page. ``replay [NAMES]`` does the same on 4 to 16 ranks in
nodes, compute slept, and by the planner's all-reduce, too: some two minutes a network; what is
there already is left.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from results import pages, record
from results.ddp import replayed
from results.ddp.judged import figures
from results.ddp.measure import measure
from results.ddp.merged import merged
from results.ddp.published import published
from results.ddp.replay import NETWORKS, replay
from results.runs.cases import RATES
from results.runs.measure import keep
from results.runs.ranks import alike
from results.testbed.hosts.network import missing

COMMAND = "python -m results.ddp"
HERE = Path(__file__).parent
DATA, REPLAYED, REPORT = HERE / "data", HERE / "replayed", HERE / "ddp.json"


def page(data: dict[str, Any]) -> pages.Page:
    """README.md with its section about DDP's buckets as the data has it."""
    return pages.page("ddp", data=data)


def report() -> int:
    data = {**record.origin(f"{COMMAND} report"), **figures(DATA)}
    data |= {"replayed": replayed.figures(REPLAYED), "published": published()}
    data["merged"] = merged()
    pages.keep(REPORT, data, page)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("what", choices=["run", "replay", "report"])
    parser.add_argument("which", nargs="*", help="rates of run, or networks of replay, by name")
    asked = parser.parse_args()
    if asked.what == "report":
        return report()
    if reason := missing():
        print(f"skipped: {reason}")
        return 0
    alike("results.ddp")
    if asked.what == "replay":
        for one in NETWORKS:
            there = (REPLAYED / f"{one.name}.json").exists()
            if one.name in asked.which or not (asked.which or there):
                keep(REPLAYED, one.name, replay(one))
        return 0
    for rate in map(float, asked.which) if asked.which else RATES:
        keep(DATA, f"{rate:g}", measure(rate))
    return 0


if __name__ == "__main__":
    sys.exit(main())
