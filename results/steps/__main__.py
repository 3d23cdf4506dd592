"""Judge estimates of whole steps by published ones: ``python -m results.steps``.

Reads the tables of ``../shared/data/steps``, fits a handful of numbers to a third of each family's
configurations, and keeps what it is off by on the others. ``--page`` writes the page from the data
on disk; ``--check`` compares a fresh run with what is kept.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from hierarchies.devices import Device, device_named
from results import pages, record
from results.steps.composed import Floats, Numbers, Table, parts, table
from results.steps.others import calculon, over_peak
from results.steps.protocol import fit, fitted_to, judged, ordered, short
from results.steps.rows import Family, Row, census, families, told

COMMAND = "python -m results.steps"
DATA = Path(__file__).with_name("steps.json")
SLOW_TICK = (0.6, 2.0)
"""Seconds of a microbatch in the runs that take about so long whatever they compute."""


@dataclass(frozen=True)
class Split:
    """A family's rows that numbers are fitted to, and those that they are judged by."""

    family: Family
    device: Device
    fitted: list[Row]
    judged: list[Row]

    def priced(self, rows: list[Row]) -> Table:
        machine, layout = self.family.told["machine"], self.family.told["layout"]
        return table([parts(row.shape, row.plan, machine, self.device, layout) for row in rows])


def split(family: Family) -> Split:
    device = device_named(family.told["device"])
    mine = [row for row in family.rows if fitted_to(row)]
    return Split(family, device, mine, [row for row in family.rows if not fitted_to(row)])


def made() -> dict[str, Any]:
    """All figures."""
    known = [split(family) for family in families()]
    tables = [(one.priced(one.fitted), one.priced(one.judged)) for one in known]
    numbers = [
        fit(mine, _seconds(one.fitted), Numbers())
        for one, (mine, _) in zip(known, tables, strict=True)
    ]
    given = told()
    counts = census()
    found = [
        _family(one, apart, own, numbers[0] if at else None)
        for at, (one, (_, apart), own) in enumerate(zip(known, tables, numbers, strict=True))
    ]
    estimated = {name for one in given["family"] for name in one["sets"]}
    return record.origin(COMMAND) | {
        "families": found,
        "rows": sum(counts.values()),
        "sets": {
            name: {"rows": count, "why": given["not_yet"].get(name, "")}
            for name, count in counts.items()
        },
        "estimated_sets": sorted(estimated),
    }


def _family(one: Split, apart: Table, own: Numbers, others: Numbers | None) -> dict[str, Any]:
    rows = one.judged
    estimates = {
        "composed, fitted": apart.seconds(own),
        "composed, nothing fitted": apart.seconds(Numbers()),
        "6 N over the peak": _each(over_peak, one, rows),
        "6 N over a fitted share": _each(over_peak, one, rows) / _share(one),
        "calculon's method": _each(calculon, one, rows),
    }
    if others is not None:
        estimates["composed, fitted to nanotron's"] = apart.seconds(others)
    return {
        "name": one.family.name,
        "assumed": one.family.told["assumed"],
        "machine": one.family.told["machine"],
        "left_out": dict(sorted(one.family.left_out.items())),
        "fitted_rows": len(one.fitted),
        "numbers": {part.name: short(float(getattr(own, part.name))) for part in fields(own)},
        "slow": _slow(rows, estimates["composed, fitted"]),
        "judged": {name: judged(rows, some) for name, some in estimates.items()},
        "ordered": {
            name: {str(least): _ordered(rows, some, least) for least in (5, 0)}
            for name, some in estimates.items()
        },
    }


def _ordered(rows: list[Row], estimates: Floats, least: int) -> dict[str, Any]:
    """Of the rows that reach so many hundredths of the peak."""
    kept = np.array([row.share >= least / 100 for row in rows])
    return ordered([row for row, yes in zip(rows, kept, strict=True) if yes], estimates[kept])


def _slow(rows: list[Row], estimates: Floats) -> int:
    """Rows of which a microbatch takes a second or so, at least twice what is estimated."""
    ticks = np.array([row.seconds / (row.plan.micros + row.plan.pipe - 1) for row in rows])
    late = estimates < _seconds(rows) / 2
    return int((late & (ticks > SLOW_TICK[0]) & (ticks < SLOW_TICK[1])).sum())


def _each(how: Any, one: Split, rows: list[Row]) -> Floats:
    return np.array([how(row, one.device) for row in rows])


def _share(one: Split) -> float:
    """The share of the peak by 6 N that the fitted third reaches, in the middle."""
    return float(np.median(_each(over_peak, one, one.fitted) / _seconds(one.fitted)))


def _seconds(rows: list[Row]) -> Floats:
    return np.array([row.seconds for row in rows])


def page(data: dict[str, Any]) -> str:
    return pages.page("steps", data=data)


def main() -> int:
    parser = argparse.ArgumentParser(prog=COMMAND)
    parser.add_argument("--page", action="store_true", help="write the page from the data on disk")
    parser.add_argument("--check", action="store_true", help="compare a fresh run with the data")
    asked = parser.parse_args()
    if asked.page:
        pages.write(page(record.read(DATA)))
        return 0
    data = made()
    if asked.check:
        return pages.check(DATA, data, page)
    record.write(DATA, data)
    pages.write(page(data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
