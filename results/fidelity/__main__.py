"""Judge calibrated prices by other people's measurements: ``python -m results.fidelity``.

Four judgements, none of rows that the fit has seen:

* sizes: fitted to every other size of all tables of a family, judged by the sizes between
  (interpolation);
* tables: fitted to all tables but those of one collective among the same ranks, forced to the same
  algorithm, judged by these (extrapolation to other collectives, numbers of nodes, algorithms);
* nodes: fitted to all tables of so many nodes or fewer, judged by those of more;
* beyond: fitted to the rows from 64 MiB on, judged by the smaller ones; and to those up to 1 MiB,
  judged by the larger ones.

Prices are those of ``synth.measure.calibration.candidates``, which are the simulator's lines.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from grammar import Goal
from hierarchies import InputError
from results import pages, record
from results.fidelity import aims
from results.fidelity.judging import Judged, beyond_sizes, by_nodes, by_sizes, by_tables
from results.fidelity.tables import (
    SHARED,
    Family,
    several_runs,
    systems,
    tables,
    told,
    whole_tables,
)
from synth.measure.calibration import prior as likeness
from synth.measure.calibration.measurements import Configuration, Measurement

COMMAND = "python -m results.fidelity"
DATA = Path(__file__).with_name("fidelity.json")
SPREADS = DATA.with_name("spreads.json")
CLASSES = {"small": 0, "middle": 1 << 18, "large": 1 << 24}
CLEAR = 1.1
"""Two measured options differ if one takes so many times as long as the other."""
PROGRAMS = {
    "all-reduce": ("all-reduce",),
    "reduce-scatter; all-gather": ("reduce-scatter", "all-gather"),
    "reduce; broadcast": ("reduce", "broadcast"),
}
"""Ways to reduce on all, of which collectives each is made."""
JUDGES = {"sizes": by_sizes, "tables": by_tables, "nodes": by_nodes, "beyond": beyond_sizes}


def classed(size_bytes: int) -> str:
    return max(
        (name for name, least in CLASSES.items() if least <= size_bytes), key=list(CLASSES).index
    )


def noise(measurements: Sequence[Measurement]) -> dict[str, list[float]]:
    """How far runs of one configuration lie from each other at a size, by class of sizes."""
    found: dict[str, list[float]] = {name: [] for name in CLASSES}
    for one in dict.fromkeys(m.configuration for m in measurements):
        runs = several_runs([m for m in measurements if m.configuration == one])
        for size, times in runs.items():
            found[classed(size)] += [max(pair) / min(pair) - 1 for pair in combinations(times, 2)]
    return found


def summary(rows: Sequence[Judged], floor: dict[str, list[float]]) -> dict[str, Any]:
    """By class of sizes: errors, the noise of runs, and how many rows lie in their intervals."""
    found = {}
    for name in CLASSES:
        mine = [row for row in rows if classed(row.size_bytes) == name]
        if mine:
            off = [abs(row.error) for row in mine]
            found[name] = {
                "rows": len(mine),
                "median": short(np.median(off)),
                "p90": short(np.quantile(off, 0.9)),
                "bias": short(np.median([row.error for row in mine])),
                "covered": short(np.mean([row.covered for row in mine])),
                "width": short(np.median([row.width for row in mine])),
                "noise": noise_of(floor[name]),
            }
    return found


def noise_of(floor: Sequence[float]) -> dict[str, float] | None:
    if not floor:
        return None
    return {"median": short(np.median(floor)), "p90": short(np.quantile(floor, 0.9))}


def short(number: Any) -> float:
    return float(f"{float(number):.4g}")


def right(options: Iterable[dict[int, tuple[float, float]]]) -> tuple[int, int]:
    """Of the pairs of options that differ clearly at a size, how many: in all, and told right.

    An option has for each size what was measured and what was said.
    """
    pairs = hits = 0
    for first, other in combinations(options, 2):
        for size in sorted(first.keys() & other.keys()):
            (measured, said), (measured_too, said_too) = first[size], other[size]
            if max(measured, measured_too) > CLEAR * min(measured, measured_too):
                pairs += 1
                hits += (measured < measured_too) == (said < said_too)
    return pairs, hits


def options(rows: Sequence[Judged]) -> dict[Configuration, dict[int, tuple[float, float]]]:
    """By configuration and size: the median of its runs, and what was said."""
    found: dict[Configuration, dict[int, list[Judged]]] = {}
    for row in rows:
        found.setdefault(row.what, {}).setdefault(row.size_bytes, []).append(row)
    return {
        one: {
            size: (float(np.median([row.seconds for row in runs])), runs[0].fitted)
            for size, runs in sizes.items()
        }
        for one, sizes in found.items()
    }


def pairs(rows: Sequence[Judged]) -> dict[str, tuple[int, int]]:
    """Pairs of algorithms (or protocols), of placements of as many ranks, and of programs."""
    known = options(rows)
    kinds = {"algorithms": (0, 0), "placements": (0, 0), "programs": (0, 0)}

    def add(kind: str, some: Iterable[dict[int, tuple[float, float]]]) -> None:
        before, now = kinds[kind], right(some)
        kinds[kind] = before[0] + now[0], before[1] + now[1]

    for place in dict.fromkeys((one[0], one[1]) for one in known):
        add("algorithms", [known[one] for one in known if (one[0], one[1]) == place])
    plain = {one: known[one] for one in known if one[2:] == (None, None, ())}
    for much in dict.fromkeys((one[0], int(np.prod(one[1]))) for one in plain):
        add("placements", [plain[o] for o in plain if (o[0], int(np.prod(o[1]))) == much])
    for members in dict.fromkeys(one[1] for one in plain):
        add("programs", list(_programs({one[0]: plain[one] for one in plain if one[1] == members})))
    return kinds


def _programs(
    known: dict[str, dict[int, tuple[float, float]]],
) -> Iterator[dict[int, tuple[float, float]]]:
    for parts in PROGRAMS.values():
        if all(part in known for part in parts):
            sizes = set.intersection(*({*known[part]} for part in parts))
            yield {
                size: (
                    sum(known[part][size][0] for part in parts),
                    sum(known[part][size][1] for part in parts),
                )
                for size in sizes
            }


def family(one: Family, links: dict[str, Any]) -> tuple[dict[str, Any], dict[str, list[Judged]]]:
    """All that is said of a family, and the judged rows of both kinds."""
    measurements = tables(one)
    machines = systems(one, links)
    floor = noise(measurements)
    rows = {kind: judge(machines, measurements) for kind, judge in JUDGES.items()}
    return {
        "name": one["name"],
        "tables": len(measurements),
        "misaligned": sum(len(whole.misaligned) for whole in whole_tables(one)),
        "collectives": sorted({m.collective for m in measurements}),
        "ranks": sorted({"x".join(map(str, m.members)) for m in measurements}),
        "judged": {kind: summary(some, floor) for kind, some in rows.items()},
        "pairs": {kind: pairs(rows[kind]) for kind in aims.PAIRED},
    }, rows


def measured() -> dict[str, Any]:
    """Everything: each family, and all together."""
    given = told()
    found = []
    everything: dict[str, list[Judged]] = {kind: [] for kind in JUDGES}
    floor: dict[str, list[float]] = {name: [] for name in CLASSES}
    for one in given["family"]:
        said, rows = family(one, given["links"])
        print(one["name"], flush=True)
        found.append(said)
        for kind in everything:
            everything[kind] += rows[kind]
        for name, some in noise(tables(one)).items():
            floor[name] += some
    return {
        **record.origin(COMMAND),
        "families": found,
        "all": {kind: summary(rows, floor) for kind, rows in everything.items()},
        "apart": {
            kind: summary([row for row in rows if row.what[0] == Goal.ALL_TO_ALL.value], floor)
            for kind, rows in everything.items()
        },
        "pairs": {
            kind: {
                what: [sum(one["pairs"][kind][what][i] for one in found) for i in (0, 1)]
                for what in ("algorithms", "placements", "programs")
            }
            for kind in aims.PAIRED
        },
        "excluded": given["excluded"],
    }


def spread_by(factor: float) -> None:
    """Let all that a fit expects before any row is seen stray so many times as far."""

    def scaled(spreads: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(factor * spread for spread in spreads)

    for name in ("PROTOCOL", "ALGORITHM", "OWN", "ALONE"):
        setattr(likeness, name, scaled(getattr(likeness, name)))
    for trait, spreads in [*likeness.SPREADS.items()]:
        likeness.SPREADS[trait] = scaled(spreads)


def sensitivity(factor: float) -> dict[str, Any]:
    """The data on other spreads, with those of this factor judged anew."""
    known = spreads()["factors"]
    spread_by(factor)
    found = measured()
    mine = {key: found[key] for key in ("commit", "date", "all", "pairs")}
    return {"command": f"{COMMAND} --spreads FACTOR", "factors": known | {f"{factor:g}": mine}}


def spreads() -> dict[str, Any]:
    """What was found with other spreads."""
    return record.read(SPREADS) if SPREADS.exists() else {"factors": {}}


def page(data: dict[str, Any]) -> pages.Page:
    """The page of results with this part written anew."""
    others = spreads()
    factors = {"1": data} | others["factors"]
    return pages.page(
        "fidelity",
        data=data,
        told=told(),
        spreads=others,
        factors={factor: factors[factor] for factor in sorted(factors, key=float)},
        kinds=aims.KINDS,
        paired=aims.PAIRED,
        classes=aims.CLASSES,
        covered=aims.COVERED,
        sizes=aims.SIZES,
        targets=aims.targets,
        both=aims.both,
        meets=aims.meets,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help="write the page from the data on disk")
    parser.add_argument(
        "--spreads", type=float, help="only judge with spreads of likeness.py times this, beside"
    )
    asked = parser.parse_args()
    if not asked.page:
        if not SHARED.is_dir():
            print("nothing to judge by: no ../shared/data beside this checkout; figures stay")
            return 0
        try:
            if asked.spreads:
                record.write(SPREADS, sensitivity(asked.spreads))
            else:
                record.write(DATA, measured())
        except InputError as error:
            print(error, file=sys.stderr)
            return 2
    page(record.read(DATA)).write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
