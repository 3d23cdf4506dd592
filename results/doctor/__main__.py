"""Does doctor find faults by comparing with an earlier run? ``python -m results.doctor``.

Healthy runs are real second runs of the same test; faults are put into them (``faults``). Every
pair is taken in both orders. Writes doctor.json and the page; without ../shared/data it does
nothing, so the figures stay.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from results import pages, record
from results.doctor.faults import FAULTS, MODELS, Fault, damage
from results.doctor.pairs import Pair, crossed, published, repeated
from results.fidelity.tables import SHARED
from synth.measure.calibration.measurements import Measurement
from synth.measure.doctor import Diagnosis, Finding, diagnose
from synth.measure.logs.matching import MatchedLog
from synth.measure.logs.tables import CheckedLog, Table

COMMAND = "python -m results.doctor"
DATA = Path(__file__).with_name("doctor.json")
LEVEL_KINDS = ("level-slower", "explained", "open")


def matched(measurement: Measurement) -> MatchedLog:
    """A measurement as a log that was read."""
    table = Table(measurement.source, measurement.collective)
    return MatchedLog(CheckedLog(table, measurement.collective, None, 1, None, ()), measurement)


def compared(pair: Pair, second: Measurement) -> Diagnosis:
    return diagnose(pair.system, [matched(second)], [matched(pair.first)])


def blamed(found: Diagnosis, source: str) -> list[Finding]:
    """What is said to be slow in a run: levels, else latency."""
    mine = [finding for finding in found.findings if finding.source == source]
    levels = [finding for finding in mine if finding.kind in LEVEL_KINDS]
    return levels or [finding for finding in mine if finding.kind == "latency"]


def judge_healthy(pairs: Sequence[Pair]) -> dict[str, Any]:
    """How many second runs are called as before or faster, and how far they lie from the first."""
    found = [(pair, compared(pair, pair.second)) for pair in pairs]
    past = [one.changes for _, diagnosis in found for one in diagnosis.past if one]
    off = {
        "bandwidth": [abs(log(one.factor)) for each in past if (one := each.bandwidth)],
        "latency": [abs(log(one.factor)) for each in past if (one := each.latency)],
    }
    return {
        "runs": len(found),
        "healthy": sum(not each.slower for each in past),
        "off": {
            name: {f"p{q}": round(float(np.quantile(each, q / 100)), 4) for q in (50, 95, 100)}
            for name, each in off.items()
        },
        "accused": sorted(
            {
                f"{pair.family}: {pair.second.source}"
                for pair, diagnosis in found
                if any(one and one.changes.slower for one in diagnosis.past)
            }
        ),
    }


def judge_fault(pairs: Iterable[Pair], fault: Fault, model: Any) -> dict[str, Any]:
    """How often a fault is found, and what is blamed."""
    counts: Counter[str] = Counter()
    missed = []
    for pair in pairs:
        second = damage(pair, fault, model)
        if second is None:
            counts["unfelt"] += 1
            continue
        counts["runs"] += 1
        found = compared(pair, second)
        if not any(one and one.changes.slower for one in found.past):
            missed.append(f"{pair.family}: {second.source}")
            continue
        counts["found"] += 1
        for verdict in verdicts(blamed(found, second.source), fault):
            counts[verdict] += 1
    return {
        "fault": fault.name,
        "model": model,
        **{key: counts[key] for key in ("runs", "found", "named", "likely", "open", "wrong")},
        "unfelt": counts["unfelt"],
        "missed": sorted(set(missed)),
    }


def verdicts(said: Sequence[Finding], fault: Fault) -> Iterator[str]:
    """``named``: the level is named. ``likely``: it is the likelier of several suspects; ``open``:
    it is another of them. ``wrong``: something else is blamed, or nothing.
    """
    if not said:
        yield "wrong"
    elif not fault.level:
        yield "named" if said[0].kind == "latency" else "wrong"
    elif said[0].level == fault.level:
        yield "likely" if said[0].kind == "open" else "named"
    else:
        yield "open" if fault.level in said[0].suspects else "wrong"


def sessions(pairs: Sequence[Pair]) -> Iterator[tuple[Pair, Pair]]:
    """A pair on one node and one over several, of the same machine and in the same order."""
    for inside in (pair for pair in pairs if pair.nodes == 1):
        for across in (pair for pair in pairs if pair.nodes > 1):
            order = inside.first.source[-1] == across.first.source[-1]
            if inside.family == across.family and order:
                yield inside, across


def judge_session(pairs: Sequence[Pair], fault: Fault, model: Any) -> dict[str, Any]:
    """As ``judge_fault``, with the logs of one node and of several given together."""
    counts: Counter[str] = Counter()
    for inside, across in sessions(pairs):
        worse = [damage(pair, fault, model) for pair in (inside, across)]
        runs = [new or pair.second for new, pair in zip(worse, (inside, across), strict=True)]
        if not any(worse):
            counts["unfelt"] += 1
            continue
        counts["runs"] += 1
        firsts = [matched(inside.first), matched(across.first)]
        found = diagnose(inside.system, [matched(run) for run in runs], firsts)
        if not any(one and one.changes.slower for one in found.past):
            continue
        counts["found"] += 1
        said = [finding for run in runs for finding in blamed(found, run.source)]
        for verdict in verdicts(said, fault):
            counts[verdict] += 1
    return {
        "fault": fault.name,
        "model": model,
        **{key: counts[key] for key in ("runs", "found", "named", "likely", "open", "wrong")},
        "unfelt": counts["unfelt"],
    }


def judged(pairs: Sequence[Pair]) -> dict[str, Any]:
    """All figures of some pairs."""
    known = [pair for pair in pairs if pair.known and pair.versions]
    across = [pair for pair in known if pair.nodes > 1]
    alone = [pair for pair in known if pair.nodes == 1]
    mixed = crossed(known)
    groups = {
        "tables of ../shared/data": [pair for pair in known if pair.published],
        "tests that others repeated": [pair for pair in known if not pair.published],
        "several nodes, noise of another pair": mixed,
        "other versions of NCCL": [pair for pair in pairs if not pair.versions],
        "Alps, not known to be healthy": [pair for pair in pairs if not pair.known],
    }
    places = {
        "one node": (alone, FAULTS[2:]),
        "several nodes": (across, FAULTS),
        "several nodes, noise of another pair": (mixed, FAULTS),
    }
    return {
        "healthy": {name: judge_healthy(some) for name, some in groups.items() if some},
        "faults": [
            {"where": where} | judge_fault(some, fault, model)
            for model in MODELS
            for where, (some, faults) in places.items()
            for fault in faults
        ],
        "sessions": [
            judge_session(known, fault, model) for model in MODELS for fault in FAULTS[:3]
        ],
    }


def page(data: dict[str, Any]) -> pages.Page:
    return pages.page("doctor", data=data)


def measure() -> dict[str, Any]:
    return {**record.origin(COMMAND), **judged([*published(), *repeated()])}


if __name__ == "__main__":
    if not SHARED.is_dir() and "--page" not in sys.argv:
        print("no ../shared/data beside this checkout: figures stay")
        sys.exit(0)
    sys.exit(pages.command(COMMAND, DATA, measure, page))
