"""Judge estimates of whole steps by published ones: ``python -m results.steps``.

Reads the tables of ``../shared/data/steps``, fits a handful of numbers to a third of each family's
configurations, and keeps what it is off by on the others. ``--page`` writes the page from the data
on disk; ``--check`` compares a fresh run with what is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from hierarchies.devices import Device, device_named
from results import pages, record
from results.steps import memory, pipelines, replicated
from results.steps.composed import Floats, Numbers, Table, parts, table
from results.steps.hindrances import Late, fit_full, fit_late
from results.steps.others import calculon, over_peak
from results.steps.protocol import fit, fitted_to, judged, ordered, short
from results.steps.rows import Family, Row, census, elsewhere, families, told
from results.steps.unfitted import counted, resnet

COMMAND = "python -m results.steps"
DATA = Path(__file__).with_name("steps.json")
UNFITTED = DATA.parent / "unfitted" / "unfitted.json"
WITH_HINDRANCES = "composed, fitted, full devices, slow hand-overs"
AIMED = (
    ("20", "from 20 % of the peak", 0.04, 0.15),
    ("5", "from 5 % of the peak", 0.1, 0.3),
    ("0", "all", 0.2, 0.6),
)
LATE, NEAR = 0.6, 0.2
"""A run is late that an estimate says less than so much of; and near within so much of it."""


@dataclass(frozen=True)
class Split:
    """A family's rows that numbers are fitted to, and those that they are judged by."""

    family: Family
    device: Device
    fitted: list[Row]
    judged: list[Row]

    def priced(self, rows: list[Row], layout: str = "") -> Table:
        """By the family's layout of stages, or another."""
        machine, layout = self.family.told["machine"], layout or self.family.told["layout"]
        return table([parts(row.shape, row.plan, machine, self.device, layout) for row in rows])


def split(family: Family) -> Split:
    device = device_named(family.told["device"])
    mine = [row for row in family.rows if fitted_to(row)]
    return Split(family, device, mine, [row for row in family.rows if not fitted_to(row)])


def made() -> dict[str, Any]:
    """All figures."""
    known = [split(family) for family in families()]
    tables = [(one.priced(one.fitted), one.priced(one.judged)) for one in known]
    fitted = [(mine, _seconds(one.fitted)) for one, (mine, _) in zip(known, tables, strict=True)]
    numbers = [fit(one) for one in fitted]
    foreign = [fit(*fitted[:at], *fitted[at + 1 :]) for at in range(len(fitted))]
    transferred = [
        _transferred(known[at], some, foreign[at], numbers[0] if at else None)
        for at, some in enumerate(tables)
    ]
    given = told()
    counts = census()
    found = [
        _family(one, apart, own)
        for one, (_, apart), own in zip(known, tables, numbers, strict=True)
    ]
    estimated = {name for one in given["family"] for name in one["sets"]} | {*replicated.SETS}
    return record.origin(COMMAND) | {
        "families": found,
        "transfer": transferred,
        "rows": sum(counts.values()),
        "sets": {
            name: {"rows": count, "why": given["not_yet"].get(name, "")}
            for name, count in counts.items()
        },
        "estimated_sets": sorted(estimated),
        "elsewhere": elsewhere(),
        "pipelines": pipelines.made(),
        "replicated": replicated.made(),
        "memory": memory.made(known[0].family),
    }


def aims(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was aimed at, and what the rows that nothing was fitted to give."""
    nanotron = data["families"][0]
    seconds = nanotron["judged"][WITH_HINDRANCES]
    order = nanotron["ordered"][WITH_HINDRANCES]
    memory_ = data["memory"]["judged"]["six numbers fitted"]
    pipelines_ = data["pipelines"]["judged"]["orders on the clock, two numbers fitted"]
    known = [
        (f"seconds of a step, {name}: {part}", most, seconds[least][part])
        for least, name, median, p90 in AIMED
        for part, most in (("median", median), ("p90", p90))
    ]
    known += [("peak memory: median", 0.08, memory_["median"])]
    known += [("peak memory: p90", 0.2, memory_["p90"])]
    known += [("zero bubble's schedules: worst", pipelines.AIM, pipelines_["worst"])]
    exposed = data["replicated"]["all"]
    known += [("exposed communication, all clusters: median", 0.15, exposed["exposed"]["median"])]
    for name, cluster in data["replicated"]["clusters"].items():
        what = f"exposed communication, {name.split(':')[0]}: median"
        known.append((what, 0.15, cluster["exposed"]["median"]))
    found = [
        {"what": what, "aim": f"{most:.0%}", "found": f"{one:.1%}", "met": one <= most}
        for what, most, one in known
    ]
    for least, name in (("5", "from 5 % of the peak"), ("0", "all")):
        one = order[least]
        first = one["first"] / one["large_groups"]
        found += [
            {"what": f"order, {name}: {what}", "aim": aim, "found": said, "met": met}
            for what, aim, said, met in (
                ("median Spearman", "0.95", f"{one['spearman']:.2f}", one["spearman"] >= 0.95),
                ("fastest in the first five", "90%", f"{first:.0%}", first >= 0.9),
            )
        ]
    return found


def _transferred(
    one: Split, several: tuple[Table, Table], foreign: Numbers, nanotron: Numbers | None
) -> dict[str, Any]:
    """All rows of a family by numbers that were fitted to others (``foreign``: to all others)."""
    rows = one.fitted + one.judged

    def by(numbers: Numbers) -> Floats:
        return np.concatenate([some.seconds(numbers) for some in several])

    ways = {
        "others": by(foreign),
        "nanotron": by(nanotron) if nanotron else None,
        "nothing": by(Numbers()),
        "calculon": _each(calculon, one, rows),
        "over_peak": _each(over_peak, one, rows),
    }
    found = {name: None if some is None else judged(rows, some)["5"] for name, some in ways.items()}
    count = sum(row.share >= 0.05 for row in rows)
    return {"name": one.family.name, "rows": count, "judged": found}


def _family(one: Split, apart: Table, own: Numbers) -> dict[str, Any]:
    rows = one.judged
    hindered: dict[str, Any] = {}
    estimates = {
        "composed, fitted": apart.seconds(own),
        "composed, nothing fitted": apart.seconds(Numbers()),
        "6 N over the peak": _each(over_peak, one, rows),
        "6 N over a fitted share": _each(over_peak, one, rows) / _share(one),
        "calculon's method": _each(calculon, one, rows),
    }
    if beside := one.family.told.get("beside"):
        mine = one.priced(one.fitted, beside)
        numbers = fit((mine, _seconds(one.fitted)))
        estimates[f"composed, fitted, stages {beside}"] = one.priced(rows, beside).seconds(numbers)
        hindered, more = _hindered(one, apart, own)
        estimates |= more
    return {
        "name": one.family.name,
        "assumed": one.family.told["assumed"],
        "machine": one.family.told["machine"],
        "left_out": dict(sorted(one.family.left_out.items())),
        "fitted_rows": len(one.fitted),
        "numbers": {part.name: short(float(getattr(own, part.name))) for part in fields(own)},
        "judged": {name: judged(rows, some) for name, some in estimates.items()},
        "hindered": hindered,
        "ordered": {
            name: {str(least): _ordered(rows, some, least) for least in (5, 0)}
            for name, some in estimates.items()
        },
    }


def _hindered(
    one: Split, apart: Table, own: Numbers
) -> tuple[dict[str, Any], Mapping[str, Floats]]:
    """With steps slowed down where devices are full, and where stages hand on slowly."""
    mine, others = memory.peaks(one.fitted, one.judged, one.family.told["sets"])
    alone, asked = one.priced(one.fitted).seconds(own), apart.seconds(own)
    seconds, plans = _seconds(one.fitted), [row.plan for row in one.judged]
    full = fit_full(alone, seconds, mine)
    slower = full.slowed(alone, mine)
    late = fit_late(slower, seconds, [row.plan for row in one.fitted])
    both = late.slowed(full.slowed(asked, others), plans)
    always = Late(0.0, late.seconds).slowed(full.slowed(asked, others), plans)
    measured = _seconds(one.judged)
    left = (both < LATE * measured) & (np.array([plan.pipe for plan in plans]) > 1)
    told: dict[str, Any] = {
        "peak": short(full.peak),
        "times": short(full.times),
        "full_rows": int((others >= full.peak).sum()),
        "devices": int(late.devices),
        "handed": short(late.seconds),
        "late_rows": sum(plan.pipe > 1 and plan.devices >= late.devices for plan in plans),
        "before": int((asked < LATE * measured).sum()),
        "after": int((both < LATE * measured).sum()),
        "left": int(left.sum()),
        "left_within": int((np.abs(always / measured - 1)[left] < NEAR).sum()),
    }
    kept = both >= LATE * measured
    rows = [row for row, yes in zip(one.judged, kept, strict=True) if yes]
    told["without"] = {str(n): _ordered(rows, both[kept], n) for n in (5, 0)}
    return told, {
        "composed, fitted, and full devices": full.slowed(asked, others),
        WITH_HINDRANCES: both,
    }


def _ordered(rows: list[Row], estimates: Floats, least: int) -> dict[str, Any]:
    """Of the rows that reach so many hundredths of the peak."""
    kept = np.array([row.share >= least / 100 for row in rows])
    return ordered([row for row, yes in zip(rows, kept, strict=True) if yes], estimates[kept])


def _each(how: Any, one: Split, rows: list[Row]) -> Floats:
    return np.array([how(row, one.device) for row in rows])


def _share(one: Split) -> float:
    """The share of the peak by 6 N that the fitted third reaches, in the middle."""
    return float(np.median(_each(over_peak, one, one.fitted) / _seconds(one.fitted)))


def _seconds(rows: list[Row]) -> Floats:
    return np.array([row.seconds for row in rows])


def page(data: dict[str, Any], unfitted: dict[str, Any] | None = None) -> pages.Page:
    """README.md with its sections about published steps; ``unfitted`` as kept, unless given."""
    unfitted = unfitted or record.read(UNFITTED)
    several = {
        "memory": counted.classes(unfitted["memory"]),
        "resnet": resnet.classes(unfitted["resnet"]["rows"]),
    }
    return pages.page("steps", data=data, aims=aims(data), unfitted=unfitted, classes=several)


if __name__ == "__main__":
    sys.exit(pages.command(COMMAND, DATA, made, page))
