"""What ``doctor`` says of published runs, as they are and as if a link were damaged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from results.typical.rows import Machine
from synth.measure.calibration.candidates import Predictor
from synth.measure.calibration.measurements import SEND_RECEIVE, Measurement
from synth.measure.calibration.typical import TypicalNumbers, apply_typical
from synth.measure.doctor import Diagnosis, diagnose
from synth.measure.logs.matching import MatchedLog
from synth.measure.logs.tables import CheckedLog, Table

DAMAGED = 2.0
"""A halved link, and a NIC whose traffic another takes, are busy for twice as long."""


@dataclass(frozen=True)
class Judged:
    """One table: whether it was as expected, and what was found with a damaged link."""

    family: str
    source: str
    level: str
    ports: int
    ordinary: bool
    found: bool


def doctored(known: Sequence[Machine], apart: Mapping[str, TypicalNumbers]) -> dict[str, Any]:
    """Of tables with large sizes: how many are as expected, and how many damaged ones are found.

    Each by what all other groups taught. A dead NIC is one of several: the next takes its traffic.
    """
    found = [one for machine in known if machine.judged for one in _judged(machine, apart)]
    nics = [one for one in found if one.level == "node" and one.ports > 1]
    return {
        "tables": len(found),
        "ordinary": sum(one.ordinary for one in found),
        "halved": sum(one.found for one in found),
        "nics": len(nics),
        "dead_nic": sum(one.found for one in nics),
        "not_as_expected": sorted({one.family for one in found if not one.ordinary}),
        "not_found": sorted({one.family for one in found if not one.found}),
    }


def _judged(machine: Machine, apart: Mapping[str, TypicalNumbers]) -> Iterator[Judged]:
    system = apply_typical(machine.system, apart[machine.group])
    for measurement in machine.measurements:
        if measurement.collective == SEND_RECEIVE:
            continue
        usual = _diagnosed(system, measurement)
        if usual.runs[0].share is None:
            continue
        worse = _diagnosed(system, damaged(system, measurement))
        level = usual.runs[0].limited_by
        ports = system.links[system.hierarchy.index(level)].ports if level != "memory" else 1
        yield Judged(
            machine.name,
            measurement.source,
            level,
            ports,
            not usual.runs[0].short,
            worse.runs[0].short,
        )


def _diagnosed(system: Any, measurement: Measurement) -> Diagnosis:
    table = Table(measurement.source, measurement.collective)
    log = CheckedLog(table, measurement.collective, None, 1, None, ())
    return diagnose(system, [MatchedLog(log, measurement)])


def damaged(system: Any, measurement: Measurement) -> Measurement:
    """The same run with the busiest link at half its rate: what it is busy for is longer, as a
    part of the measured time.
    """
    predictor = Predictor(system, measurement)
    samples = []
    for sample in measurement.samples:
        price = predictor.at(sample.size_bytes).price
        busy = (price.seconds - price.latency_seconds) / price.seconds
        samples.append(replace(sample, seconds=sample.seconds * (1 + (DAMAGED - 1) * busy)))
    return replace(measurement, samples=tuple(samples))
