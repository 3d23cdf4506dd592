"""Put the paper's published claims to the simulator: claims.json, pictures and README.md.

``--check`` computes everything again and compares it with what is there, without writing;
``--rows FILE`` also writes every case as CSV.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hierarchies import Axis, Hierarchy, Level, placements
from results import pages, record
from results.claims.survey import Case, Experiment, breakdown, effects, survey, winners
from results.claims.variants import VARIANTS, Request, compared, request_of

COMMAND = "python -m results.claims"
HERE = Path(__file__).parent
DATA = HERE / "claims.json"


def claims() -> dict[str, Any]:
    """What ``claims.toml`` says."""
    return tomllib.loads((HERE / "claims.toml").read_text(encoding="utf-8"))


def experiment(told: dict[str, Any]) -> Experiment:
    lists = {key: tuple(told[key]) for key in ("systems", "algorithms")}
    return Experiment(**{**told, **lists})


def surveyed(setting: Experiment, cases: Sequence[Case]) -> dict[str, Any]:
    """The figures of a survey: by system and algorithm, and all systems together."""
    systems = []
    for algorithm in setting.algorithms:
        for system in setting.systems:
            some = [c for c in cases if (c.system, c.algorithm) == (system, algorithm)]
            head = {"system": system, "algorithm": algorithm}
            systems.append(head | _figures(some, setting.wins_above))
    together = {
        algorithm: _figures([c for c in cases if c.algorithm == algorithm], setting.wins_above)
        for algorithm in setting.algorithms
    }
    return {"systems": systems, "together": together}


def _figures(cases: Sequence[Case], above: float) -> dict[str, Any]:
    return {
        "effect": effects(cases),
        "wins": breakdown(cases, above),
        "winners": winners(cases, above),
    }


def counted(told: dict[str, Any]) -> dict[str, Any]:
    """The synthesis hierarchies on the examples, and summed over all placements."""
    steps = told["max_steps"]
    examples = [
        {key: example[key] for key in ("about", "matrix", "reduce")}
        | {"variants": compared(request_of(example), steps)}
        for example in told["example"]
    ]
    return {"examples": examples, "sums": [_summed(total, steps) for total in told["sum"]]}


def _summed(told: dict[str, Any], max_steps: int) -> dict[str, Any]:
    requests = list(_single_axes(told))
    found = [compared(request, max_steps) for request in requests]
    keys = ("instructions", "states", "programs", "beyond", "beyond_symmetric", "beyond_across")
    sums = {}
    for variant in VARIANTS:
        some = [one[variant] for one in found]
        sums[variant] = {key: sum(one[key] for one in some) for key in keys}
        sums[variant]["unanswered"] = sum(not one["programs"] for one in some)
    return {"about": told["about"], "requests": len(requests), "variants": sums}


def _single_axes(told: dict[str, Any]) -> Iterator[Request]:
    levels = zip(told["levels"], told["cardinalities"], strict=True)
    hierarchy = Hierarchy(tuple(Level(name, count) for name, count in levels))
    axes = tuple(Axis(f"axis{i}", size) for i, size in enumerate(told["axes"]))
    for placement in placements(hierarchy, axes):
        for axis in range(len(axes)):
            yield Request(placement, frozenset({axis}))


def page(data: dict[str, Any]) -> pages.Page:
    """README.md with its sections about the claims as the data has them."""
    return pages.page("claims", claims=claims(), data=data)


def write_rows(path: Path, cases: Sequence[Case]) -> None:
    """Every case as a line of CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        for i, case in enumerate(cases):
            row = asdict(case) | {"speedup": round(case.speedup, 4)}
            if i == 0:
                writer.writerow(row)
            writer.writerow(row.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--rows", type=Path, help="write every case to this CSV file")
    asked = parser.parse_args()
    told = claims()
    setting = experiment(told["experiment"])
    cases = survey(setting)
    data = record.origin(COMMAND) | {"experiment": told["experiment"]}
    data |= surveyed(setting, cases) | {"variants": counted(told["variants"])}
    if asked.rows:
        write_rows(asked.rows, cases)
    if not asked.check:
        # Here, so that --check works where the extra "results" is not installed.
        from results.claims.plots import draw

        draw(cases, HERE)
    return pages.keep_or_check(DATA, data, page, check=asked.check)


if __name__ == "__main__":
    sys.exit(main())
