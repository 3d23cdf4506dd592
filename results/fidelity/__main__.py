"""Judge calibrated prices by other people's measurements: ``python -m results.fidelity``.

Two judgements, neither of rows that the fit has seen:

* sizes: fitted to every other size of all tables of a family, judged by the sizes between
  (interpolation);
* tables: fitted to all tables but those of one collective among the same ranks, forced to the same
  algorithm, judged by these (extrapolation to other collectives, numbers of nodes, algorithms).

Prices are those of ``synth.calibration.prediction``, which are the simulator's lines.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from hierarchies import InputError, System
from results import pages, record
from results.fidelity import aims
from results.fidelity.tables import SHARED, Family, several_runs, systems, tables, told
from synth.calibration import prior as likeness
from synth.calibration.fit import Calibrated, fit
from synth.calibration.measurements import Configuration, Measurement
from synth.calibration.prediction import Predictor

COMMAND = "python -m results.fidelity"
DATA = Path(__file__).with_name("fidelity.json")
SPREADS = DATA.with_name("spreads.json")
CLASSES = {"small": 0, "middle": 1 << 16, "large": 1 << 24}
CLEAR = 1.1
"""Two measured options differ if one takes so many times as long as the other."""
PROGRAMS = {
    "all-reduce": ("all-reduce",),
    "reduce-scatter; all-gather": ("reduce-scatter", "all-gather"),
    "reduce; broadcast": ("reduce", "broadcast"),
}
"""Ways to reduce on all, of which collectives each is made."""


@dataclass(frozen=True)
class Judged:
    """A row that the fit had not seen, and what it said of it."""

    what: Configuration
    size_bytes: int
    seconds: float
    fitted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        return self.fitted / self.seconds - 1

    @property
    def width(self) -> float:
        """By which factor the ends of its interval lie from the middle, on a logarithmic scale."""
        return float(np.sqrt(self.high / self.low))

    @property
    def covered(self) -> bool:
        return self.low <= self.seconds <= self.high


def fitted(machines: Sequence[System], measurements: Sequence[Measurement]) -> Calibrated:
    """The description that explains the measurements best, fitted to them."""
    return min((fit(machine, measurements) for machine in machines), key=lambda each: each.loss)


def judged(found: Calibrated, measurement: Measurement) -> Iterator[Judged]:
    predictor = Predictor(found.system, measurement)
    for sample in measurement.samples:
        said = predictor.at(sample.size_bytes)
        assert said.interval is not None, "the system is calibrated"
        yield Judged(
            measurement.configuration,
            sample.size_bytes,
            sample.seconds,
            said.seconds,
            said.interval.low_seconds,
            said.interval.high_seconds,
        )


def by_sizes(machines: Sequence[System], measurements: Sequence[Measurement]) -> list[Judged]:
    """Every other size fitted, those between judged; tables of too few sizes are left out."""
    whole = [m for m in measurements if len(m.samples) >= 6]
    if not whole:
        return []
    found = fitted(machines, [replace(m, samples=m.samples[::2]) for m in whole])
    return [row for m in whole for row in judged(found, replace(m, samples=m.samples[1::2]))]


def by_tables(machines: Sequence[System], measurements: Sequence[Measurement]) -> list[Judged]:
    """Each configuration judged by a fit to all others."""
    found = []
    for one in dict.fromkeys(m.configuration for m in measurements):
        others = [m for m in measurements if m.configuration != one]
        if others:
            seen = fitted(machines, others)
            found += [
                row for m in measurements if m.configuration == one for row in judged(seen, m)
            ]
    return found


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
    plain = {one: known[one] for one in known if one[2:] == (None, None)}
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
    rows = {"sizes": by_sizes(machines, measurements), "tables": by_tables(machines, measurements)}
    return {
        "name": one["name"],
        "tables": len(measurements),
        "collectives": sorted({m.collective for m in measurements}),
        "ranks": sorted({"x".join(map(str, m.members)) for m in measurements}),
        "judged": {kind: summary(some, floor) for kind, some in rows.items()},
        "pairs": {kind: pairs(some) for kind, some in rows.items()},
    }, rows


def measured() -> dict[str, Any]:
    """Everything: each family, and all together."""
    given = told()
    found = []
    everything: dict[str, list[Judged]] = {"sizes": [], "tables": []}
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
        "pairs": {
            kind: {
                what: [sum(one["pairs"][kind][what][i] for one in found) for i in (0, 1)]
                for what in ("algorithms", "placements", "programs")
            }
            for kind in everything
        },
        "excluded": given["excluded"],
    }


def spread_by(factor: float) -> None:
    """Let all that a fit expects before any row is seen stray so many times as far."""

    def scaled(spreads: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(factor * spread for spread in spreads)

    for name in ("PROTOCOL", "ALGORITHM", "OWN", "ALONE"):
        setattr(likeness, name, scaled(getattr(likeness, name)))
    for trait, (launch, hop, gap, share) in [*likeness.SPREADS.items()]:
        likeness.SPREADS[trait] = (factor * launch, factor * hop, factor * gap, factor * share)


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


def page(data: dict[str, Any]) -> str:
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
    pages.write(page(record.read(DATA)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
