"""Learn what links reach, and judge it by families left out: ``python -m results.typical``.

Writes ``synth/measure/calibration/typical.toml``, which prices uncalibrated systems, and what it is
worth: each group of families (an operator's machines) is priced by what all others taught.
``--page`` writes the page from the data on disk.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import synth.measure.calibration
from hierarchies.calibration import MODEL
from hierarchies.files.values import spell_pairs
from results import pages, record
from results.fidelity.tables import SHARED
from results.typical.doctored import doctored
from results.typical.inside import inside
from results.typical.model import (
    CLASSES,
    LAUNCH,
    NAMES,
    Kept,
    Model,
    classes,
    learn,
    place_of,
    short,
    spreads,
    typical,
)
from results.typical.noise import noise
from results.typical.rows import Floats, Machine, machines, rows
from synth.measure.calibration.typical import TypicalNumbers

COMMAND = "python -m results.typical"
DATA = Path(__file__).with_name("typical.json")
NUMBERS = Path(synth.measure.calibration.__file__).with_name("typical.toml")
SIZES = ("small", "middle", "large")
ROUNDS_LEFT_OUT = 4


@dataclass(frozen=True)
class Learned:
    """All families' unknowns, those without each group, and what rows take by the latter."""

    known: list[Machine]
    model: Model
    unknowns: Floats
    without: dict[str, Floats]
    seconds: Floats

    @property
    def outer(self) -> list[str]:
        """What joins each family: its outermost medium."""
        return [next(filter(None, machine.media)) for machine in self.known]

    @property
    def ratios(self) -> Floats:
        """Measured over priced seconds; of families that are only learned from not a number."""
        judged = np.array([machine.judged for machine in self.known])[self.model.rows.family]
        return np.where(judged, self.model.rows.seconds / self.seconds, np.nan)

    def apart(self, group: str) -> Kept:
        """The rows of a group."""
        mine = [n for n, machine in enumerate(self.known) if machine.group == group]
        return np.isin(self.model.rows.family, mine)

    def numbers(self, unknowns: Floats, skip: str = "") -> TypicalNumbers:
        """Unknowns as the numbers of a file, with the spreads of all groups but one."""
        some = [n for n, machine in enumerate(self.known) if machine.group != skip]
        named = {medium for n in some for medium in self.known[n].media if medium}
        counts = {
            m: len({self.known[n].name for n in some if m in self.known[n].media}) for m in named
        }
        counts[""] = len({self.known[n].name for n in some})
        ratios = np.where(self.apart(skip), np.nan, self.ratios) if skip else self.ratios
        kinds = self.model.kinds(unknowns, ~self.apart(skip))
        spread = spreads(ratios, self.model.rows, self.outer, kinds > 1)
        tables = sum(len(self.known[n].measurements) for n in some if self.known[n].judged)
        source = f"{COMMAND}: {tables} published tables of {counts['']} families of machines"
        slow: dict[str, list[float]] = {}
        for n in np.flatnonzero(kinds > 1):
            slow.setdefault(self.outer[n], []).append(float(kinds[n]))
        numbers = typical(unknowns, source, counts, tables, slow)
        return numbers.model_copy(update={"spread": spread})


def learned() -> Learned:
    known = machines()
    model = Model(rows(known, MODEL))
    everything = np.ones(len(model.rows.size), dtype=np.bool_)
    unknowns = learn(model, everything)
    seconds = np.zeros(len(everything))
    without: dict[str, Floats] = {}
    found = Learned(known, model, unknowns, without, seconds)
    for group in dict.fromkeys(machine.group for machine in known):
        apart = found.apart(group)
        without[group] = learn(model, ~apart, unknowns, ROUNDS_LEFT_OUT)
        seconds[apart] = model.seconds(without[group])[apart]
        print(group, flush=True)
    return found


def judged(found: Learned) -> dict[str, Any]:
    """By class of sizes: errors and how many rows lie in the intervals, of groups left out."""
    rows, which = found.model.rows, classes(found.model.rows.size)
    low, high = np.full(len(rows.size), np.nan), np.full(len(rows.size), np.nan)
    for group, unknowns in found.without.items():
        mine = found.apart(group)
        for spread in found.numbers(unknowns, group).spread:
            outer = np.array([medium == spread.medium for medium in found.outer])[rows.family]
            here = mine & outer & (which == CLASSES.index(spread.from_bytes))
            low[here], high[here] = spread.low, spread.high
    counts = np.isfinite(found.ratios)
    held = (low <= found.ratios) & (found.ratios <= high)
    all_of = {name: _summary(found, held, counts & (which == n)) for n, name in enumerate(SIZES)}
    media = {
        medium: {
            name: _summary(found, held, counts & (which == n) & _joined(found, medium))
            for n, name in enumerate(SIZES)
            if (counts & (which == n) & _joined(found, medium)).any()
        }
        for medium in dict.fromkeys(found.outer)
        if (counts & _joined(found, medium)).any()
    }
    return {"all": all_of, "media": media}


def _joined(found: Learned, medium: str) -> Kept:
    return np.array([each == medium for each in found.outer])[found.model.rows.family]


def _summary(found: Learned, held: Kept, mine: Kept) -> dict[str, Any]:
    off = np.abs(1 / found.ratios[mine] - 1)
    family = found.model.rows.family[mine]
    each = [float(np.median(off[family == number])) for number in np.unique(family)]
    return {
        "rows": int(mine.sum()),
        "families": len(each),
        "median": short(float(np.median(off))),
        "p90": short(float(np.quantile(off, 0.9))),
        "median_of_families": short(float(np.median(each))),
        "covered": short(float(held[mine].mean())),
    }


def by_family(found: Learned) -> list[dict[str, Any]]:
    """For each family the median of measured / priced seconds by class of sizes."""
    rows, which = found.model.rows, classes(found.model.rows.size)
    told = []
    for number, machine in enumerate(found.known):
        if machine.judged:
            mine = [(rows.family == number) & (which == n) for n in range(len(SIZES))]
            ratio = {
                name: short(float(np.median(found.ratios[some])))
                for name, some in zip(SIZES, mine, strict=True)
                if some.any()
            }
            told.append({"name": machine.name, "medium": found.outer[number], "ratio": ratio})
    return told


def written(found: TypicalNumbers, origin: dict[str, str]) -> str:
    """The file of numbers."""
    some = found.model_dump()
    tables = {key: some.pop(key) for key in ("medium", "spread")}
    made = f"commit {origin['commit']}, {origin['date']}"
    head = f"# Made by `{origin['command']}` at {made}: do not edit."
    lines = [head, *spell_pairs(some)]
    for key, entries in tables.items():
        for entry in entries:
            lines += ["", f"[[{key}]]", *spell_pairs(entry)]
    return "\n".join(lines) + "\n"


def page(data: dict[str, Any]) -> pages.Page:
    return pages.page("typical", data=data, sizes=SIZES, place_of=place_of)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help="write the page from the data on disk")
    asked = parser.parse_args()
    if not asked.page:
        if not SHARED.is_dir():
            print("nothing to learn from: no ../shared/data beside this checkout; figures stay")
            return 0
        found, origin = learned(), record.origin(COMMAND)
        whole = found.numbers(found.unknowns)
        NUMBERS.write_text(written(whole, origin), encoding="utf-8")
        apart = {group: found.numbers(each, group) for group, each in found.without.items()}
        record.write(
            DATA,
            {
                **origin,
                **judged(found),
                "families": by_family(found),
                "launch_us": short(1e6 * float(np.exp(found.unknowns[NAMES.index(LAUNCH)]))),
                "inside": inside(whole),
                "noise": noise(found.known, found.model.rows, found.seconds, SIZES),
                "doctor": doctored(found.known, apart),
                "numbers": whole.model_dump(exclude={"spread"}),
            },
        )
    page(record.read(DATA)).write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
