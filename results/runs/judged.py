"""How far simulated steps are from those that ran."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from results import record
from results.runs.cases import RATES, Case, cases
from results.runs.predicted import Taken, beside, calibrated, predicted
from results.runs.replay import WORLDS, families, replayed
from synth.step.profiles import MOST_DRIFT

Told = dict[str, Any]


def figures(folder: Path) -> Told:
    """All that was measured beside what is simulated of it."""
    rows = [
        row for told in _kept(folder, map("{:g}".format, RATES)) for row in at_rate(told, cases())
    ]
    again = [
        row
        for told in _kept(folder, map("replay-{}".format, WORLDS))
        for row in replayed(told, [case for some in families(told["world"]) for case in some])
    ]
    return {
        "measured_at": ", ".join(dict.fromkeys(map(record.made_at, _files(folder)))),
        "real": judged(rows),
        "stuck": [one["name"] for told in _files(folder) for one in told.get("stuck", ())],
        "rows": rows,
        "replay": judged(again),
        "replayed": again,
    }


def _kept(folder: Path, names: Iterable[str]) -> list[Told]:
    """What was measured under some names, as far as it was."""
    paths = [folder / f"{name}.json" for name in names]
    return [record.read(path) for path in paths if path.exists()]


def _files(folder: Path) -> list[Told]:
    return [record.read(path) for path in sorted(folder.glob("*.json"))]


def judged(rows: Sequence[Told]) -> Told:
    """The figures of those whose reference did not drift, and how many did."""
    kept = [row for row in rows if row["drift"] <= MOST_DRIFT]
    return {**summed(kept), "drifted": len(rows) - len(kept)}


def summed(rows: Sequence[Told]) -> Told:
    """Mean and worst errors."""
    if not rows:
        return {"plans": 0}
    steps, busy = ([abs(row[f"{what}_error"]) for row in rows] for what in ("step", "busy"))
    return {
        "plans": len(rows),
        "mean_step": round(mean(steps), 4),
        "median_step": round(median(steps), 4),
        "worst_step": round(max(steps), 4),
        "mean_busy": round(mean(busy), 4),
        "worst_busy": round(max(busy), 4),
    }


def at_rate(told: Told, some: Sequence[Case]) -> list[Told]:
    """Rows of what was measured of some cases at one rate, beside what is simulated."""
    by_name = {case.name: case for case in some}
    systems = calibrated(told["megabits_per_second"], told["collectives"]["rows"])
    taken = Taken.of(told["collectives"])
    found = []
    for row in told["cases"]:
        case = by_name[row["name"]]
        said = predicted(case, systems, row["events"], taken)
        found.append(beside(case, row, said))
    return found
